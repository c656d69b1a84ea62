"""Complete recipes, with what each system changes in them; and training by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import torch

from pvn.corpus.segments import Corpus
from pvn.corpus.store import count_segments, read_corpus
from pvn.corpus.training_text import TrainingTextConfig
from pvn.geometry import Camera, MapGrid
from pvn.learning.compiled_ahead import compiled_beside
from pvn.learning.dagger import DaggerConfig
from pvn.learning.imitation import ImitatingAgent, ImitationConfig, ImitationRecipe, train_by_imitation
from pvn.learning.optimisation import (
    OnProgress,
    OnStageProgress,
    ignore_progress,
    ignore_stage_progress,
    stage_progress,
)
from pvn.learning.stage1 import Stage1Config
from pvn.learning.stage2 import Stage2Config
from pvn.learning.training import Recipe, Stage, train_pvn
from pvn.model.agent import Agent
from pvn.systems import Preset, System, find_system

AnyRecipe = TypeVar("AnyRecipe", bound=Recipe | ImitationRecipe)


def paper() -> Recipe:
    """The paper's agent: its losses, its DAggerFM, its sizes, with changes of our own (LITERAL takes them back).

    These are the recipes' defaults.
    """
    return Recipe(name="paper")


LITERAL: Mapping[str, Mapping[str, Any]] = {
    # The paper's batches are of one segment; with two, `literal` takes a quarter of an hour of an H200. Of two
    # flights one can only stray with the other, so that a share of 0.5 would leave a quarter of them straying.
    "small batches": {"stage1.flights_per_batch": 2, "stage1.stray_share": 0.5**0.5, "stage2.batch_size": 16},
    "plain Adam": {
        "stage1.optimizer": "Adam", "stage1.max_gradient_norm": None, "stage2.optimizer": "Adam",
    },
    "one learning rate": {
        "stage1.learning_rate": 1e-3, "stage1.has_schedule": False, "stage1.instruction_rate": 1.0,
    },
    "mean over classes": {"stage1.losses.averages_mentioned": True},
    "no words first": {"stage1.word_steps": 0},
    "even odds": {"stage1.mentioned_log_odds": 0.0},
    "no strays": {"stage1.stray_share": 0.0},
    # As many pictures in all: every one 20 times (authors' code) instead of every second one 40 times.
    "every picture": {"stage1.frame_every": 1, "stage1.num_epochs": 20},
    "equal action losses": {"stage2.stop_weight": 1.0},
    "all oracle flights": {"stage2.pretrain_flights": 19_758},
}  # fmt: skip
"""How each of our own changes to the paper's recipe is taken back, by dotted field name (docs/agent.md)."""


RANDOM_LOOKS: Mapping[str, Any] = {
    "stage1.looks.sun": 0.3, "stage1.looks.sky": 1.0, "stage1.looks.ground": 0.3, "stage1.looks.colours": 0.15,
    "stage1.looks.contrast": 0.3, "stage1.looks.blur_px": 0.8, "stage1.looks.tilt": math.radians(3),
    "stage1.looks.height": 0.5, "stage1.looks.late": 0.5,
}  # fmt: skip
"""All random looks at once, by dotted field name, each as strong as it was tried (docs/results.md)."""


def literal() -> Recipe:
    """The paper's recipe as it is written, but for batches of two; where the paper says nothing, as `paper`."""
    changes = {name: value for part in LITERAL.values() for name, value in part.items()}
    return with_changes(Recipe(name="literal"), changes)


QUICK: Mapping[str, Any] = {**LITERAL["mean over classes"], "stage1.frame_every": 3, "stage1.num_epochs": 27}
"""What halves the steps of `paper`: with the mean over classes, 27 epochs of every third picture do what 40 of every
second one do with their sum."""


def quick() -> Recipe:
    """The paper's agent in half the steps of `paper`; it reaches as many goals of dev (docs/results.md)."""
    return with_changes(Recipe(name="quick"), QUICK)


def plus() -> Recipe:
    """Beyond the paper: five times LANI's segments, and natural and narrated instructions."""
    return Recipe(
        name="plus",
        stage1=Stage1Config(num_epochs=5, word_steps=1000),
        text=TrainingTextConfig(
            size=5 * 27_965,
            has_natural=True,
            narrated=40_000,
            turns=4_000,
            natural_repeats=3,
            mirrors_natural=True,
            circle_repeats=4,
        ),
    )


def smoke() -> Recipe:
    """A few minutes on two CPU cores, on a few thousand segments; it beats the trivial baselines, no more.

    Pictures have half as many pixels across, maps half as many cells, and flights fewer pictures.
    """
    return Recipe(
        name="smoke",
        stage1=Stage1Config(
            num_epochs=6, word_steps=1000, frames_per_batch=32, frame_every=12, learning_rate=2e-3, save_every=50,
            measure_every=200, measured_flights=24,
        ),
        stage2=Stage2Config(pretrain_flights=300, num_iterations=25, sigma_cells=1.6),  # as blurred as its stage 1
        grid=MapGrid(size=32, cell=50.0 / 16),
        camera=Camera(width=64, height=36),
        min_count=2,
    )  # fmt: skip


def paper_imitation() -> ImitationRecipe:
    """The baselines' training: PVN's segments, as many pictures as PVN sees, and its DAggerFM."""
    return ImitationRecipe(name="paper")


def quick_imitation() -> ImitationRecipe:
    """The baselines' training with as many pictures as PVN sees by `quick`."""
    return ImitationRecipe(name="quick", imitation=ImitationConfig(num_epochs=9))


def smoke_imitation() -> ImitationRecipe:
    """The baselines' training, as small as the smoke recipe."""
    recipe = smoke()
    return ImitationRecipe(
        name="smoke",
        imitation=ImitationConfig(
            num_epochs=1, word_steps=300, frames_per_batch=96, save_every=50, measure_every=200, measured_flights=24,
        ),
        dagger=DaggerConfig(num_iterations=5, num_environments=3, memory=30, learning_rate=3e-4),
        grid=recipe.grid, camera=recipe.camera, min_count=recipe.min_count,
    )  # fmt: skip


def with_changes(recipe: AnyRecipe, changes: Mapping[str, Any]) -> AnyRecipe:
    """The recipe with other values, by dotted field name: {"stage1.num_epochs": 8}."""

    def changed(part: Any, path: list[str], value: Any) -> Any:
        if not is_dataclass(part) or path[0] not in part.__dataclass_fields__:
            raise ValueError(f"recipe: got a change of {path[0]!r} in {type(part).__name__}, which has no such field")
        inner = value if len(path) == 1 else changed(getattr(part, path[0]), path[1:], value)
        return replace(cast(Any, part), **{path[0]: inner})

    for name, value in changes.items():
        recipe = changed(recipe, name.split("."), value)
    return recipe


def recipe_for(system: System, preset: Preset) -> Recipe | ImitationRecipe:
    """The recipe of a preset with the system's changes."""
    if system.training == "two stages":
        recipe = {"paper": paper, "quick": quick, "literal": literal, "plus": plus, "smoke": smoke}[preset]()
        return with_changes(recipe, system.recipe_changes(recipe))
    if system.training == "imitation":
        if preset == "plus":
            raise ValueError(
                f"preset: got plus for {system.name}, expected paper, quick, literal or smoke; plus is for PVN's two "
                "stages"
            )
        baseline = {
            "paper": paper_imitation(),
            "quick": quick_imitation(),
            # What the paper says of training is about PVN.
            "literal": replace(paper_imitation(), name="literal"),
            "smoke": smoke_imitation(),
        }[preset]
        return with_changes(baseline, system.recipe_changes(baseline))
    raise ValueError(f"agent: got {system.name}, which is not trained, expected one that is, such as pvn")


def train_system(
    corpus: Corpus | Path | None,
    system: System,
    recipe: Recipe | ImitationRecipe,
    folder: Path,
    *,
    stage: Stage = "all",
    device: str | torch.device = "cpu",
    is_resumed: bool = False,
    watch: OnStageProgress = ignore_stage_progress,
) -> Agent:
    """Train a system of the table; checkpoints and the agent go to `folder`.

    corpus: in memory, or its folder; None to have it made as the recipe says, in the folder corpus of `folder`.
    """
    from pvn.simulator.simulator import checked_device

    device = checked_device(device)  # now, and not after a corpus has been made
    if isinstance(corpus, Path) and "train" not in count_segments(corpus):
        raise ValueError(f"{corpus}: has no training split, expected one; make the corpus without --only")
    if isinstance(recipe, Recipe):
        with compiled_beside(recipe, device) if stage != "2" else nullcontext(()) as compiled:
            if corpus is None:
                from pvn.corpus.training_corpus import FOLDER

                own = folder / FOLDER
                corpus = own if own.exists() else make_own_corpus(recipe, folder, stage_progress(watch, "corpus"))
            return train_pvn(
                corpus, recipe, folder, stage=stage, device=device, is_resumed=is_resumed, watch=watch,
                compiled=compiled,
            )  # fmt: skip
    if corpus is None:
        raise ValueError(f"corpus: got none for preset {recipe.name}, expected one; make it with `pvn corpus make`")
    if isinstance(corpus, Path):
        corpus = read_corpus(corpus, ("train", "dev"))
    assert system.agent_class is not None
    agent_class = cast(type[ImitatingAgent], system.agent_class())
    return train_by_imitation(corpus, agent_class, recipe, folder, device=device, is_resumed=is_resumed, watch=watch)


def make_own_corpus(recipe: Recipe, folder: Path, watch: OnProgress = ignore_progress) -> Corpus:
    """The corpus of a run to which none is given, in the run's folder; it is made if it is not there."""
    from pvn.corpus.training_corpus import corpus_for

    return corpus_for(recipe.text, folder, lambda done, total: watch(done - 1, total, {}))


def train(
    corpus: Corpus | Path | str | None,
    out: Path | str,
    *,
    agent: str = "pvn",
    preset: Preset = "paper",
    changes: Mapping[str, Any] | None = None,
    seed: int = 0,
    device: str = "cpu",
    is_resumed: bool = False,
    watch: OnStageProgress = ignore_stage_progress,
) -> Agent:
    """Train an agent on a corpus, or on the one in a folder; checkpoints and agent.safetensors go to the folder `out`.

    corpus: None to have it made as the recipe says, in the folder corpus of `out`. agent: any system with weights of
    its own: pvn, gsmn, chaplot, pvn-no-aux, ... changes: to the preset's recipe, by dotted field name
    ({"stage1.num_epochs": 8}). is_resumed: continue from the last checkpoint in `out`. watch(stage, step, num_steps,
    metrics): called periodically.
    """
    system, folder = find_system(agent), Path(out)
    recipe = with_changes(recipe_for(system, preset), changes or {}).with_seed(seed)
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(corpus, str):
        corpus = Path(corpus)
    return train_system(corpus, system, recipe, folder, device=device, is_resumed=is_resumed, watch=watch)
