"""Complete recipes: the paper's, and a small one that shows within minutes that everything works."""

from __future__ import annotations

from pvn.geometry import Camera, MapGrid
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


def paper_baseline() -> ImitationConfig:
    """GSMN's and Chaplot's training: PVN's segments, as many pictures as PVN sees, and its DAggerFM."""
    return ImitationConfig()


def smoke_baseline() -> ImitationConfig:
    """The same beside the smoke recipe."""
    return ImitationConfig(
        num_epochs=3,
        word_steps=300,
        frames_per_batch=96,
        num_iterations=5,
        num_environments=3,
        memory=30,
        save_every=50,
    )
