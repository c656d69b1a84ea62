"""Complete recipes: the paper's, and a small one that shows within minutes that everything works."""

from __future__ import annotations

from dataclasses import replace

from pvn.geometry import Camera, MapGrid
from pvn.learning.baselines import Baseline
from pvn.learning.imitation import ImitationConfig
from pvn.learning.stage1 import Stage1Config
from pvn.learning.stage2 import Stage2Config
from pvn.learning.training import Recipe


def paper() -> Recipe:
    """The paper's agent: its losses, its DAggerFM, its sizes; batched for speed."""
    return Recipe(name="paper")


def smoke() -> Recipe:
    """A few minutes on two CPU cores, on a few thousand segments; beats the trivial baselines, and that is all.

    Pictures of half the size, maps of half the cells, and a prediction at every second chance.
    """
    return Recipe(
        name="smoke",
        stage1=Stage1Config(
            num_epochs=6, word_steps=1000, frames_per_batch=32, frame_every=12, learning_rate=2e-3, save_every=50,
            measure_every=200, measured_flights=24,
        ),
        stage2=Stage2Config(pretrain_flights=300, num_iterations=25, sigma_cells=1.6),  # as unsure as its stage 1
        grid=MapGrid(size=32, cell=50.0 / 16),
        camera=Camera(width=64, height=36),
        min_count=2,
    )  # fmt: skip


def no_aux(recipe: Recipe) -> Recipe:
    """Without auxiliary losses (paper: PVN no aux)."""
    losses = replace(recipe.stage1.losses, landmark_weight=0.0, grounded_weight=0.0, mentioned_weight=0.0)
    return replace(recipe, name=f"{recipe.name}, no aux", stage1=replace(recipe.stage1, losses=losses, word_steps=0))


def no_goal(recipe: Recipe) -> Recipe:
    """Flown by the trajectory's distribution alone (paper: PVN no d^g)."""
    return replace(recipe, name=f"{recipe.name}, no goal", execution=replace(recipe.execution, uses_goal=False))


def no_dagger(recipe: Recipe) -> Recipe:
    """The second stage learns from the oracle's flights alone (paper: PVN no DAgger), all of them."""
    stage2 = replace(recipe.stage2, num_iterations=0, pretrain_flights=5 * recipe.stage2.pretrain_flights)
    return replace(recipe, name=f"{recipe.name}, no DAgger", stage2=stage2)


def no_instruction(recipe: Recipe) -> Recipe:
    """Nothing is read (paper: PVN no u); what it would have said is not asked for either."""
    losses = replace(recipe.stage1.losses, grounded_weight=0.0, mentioned_weight=0.0)
    stage1 = replace(recipe.stage1, losses=losses, word_steps=0)
    return replace(recipe, name=f"{recipe.name}, no instruction", stage1=stage1, uses_instruction=False)


def full_observation(recipe: Recipe) -> Recipe:
    """The field is seen from above, once a flight (paper: PVN full obs); batches are of as many flights."""
    stage1 = replace(recipe.stage1, frames_per_batch=max(recipe.stage1.frames_per_batch // 8, 8))
    return replace(recipe, name=f"{recipe.name}, full observation", stage1=stage1, overhead_px=2 * recipe.camera.width)


def paper_baseline(system: Baseline) -> ImitationConfig:
    """GSMN's and Chaplot's training: PVN's segments, as many pictures as PVN sees, and its DAggerFM.

    DAggerFM's rates are those of three tried that flew best (docs/baselines.md).
    """
    return ImitationConfig(dagger_learning_rate=1e-3 if system == "gsmn" else 3e-4)


def smoke_baseline(system: Baseline) -> ImitationConfig:
    """The same beside the smoke recipe; Chaplot's convolutions need pictures larger than its."""
    recipe = smoke()
    return ImitationConfig(
        num_epochs=1, word_steps=300, frames_per_batch=96, num_iterations=5, num_environments=3, memory=30,
        save_every=50, measure_every=200, measured_flights=24, grid=recipe.grid,
        camera=recipe.camera if system == "gsmn" else Camera(width=96, height=54), min_count=recipe.min_count,
    )  # fmt: skip
