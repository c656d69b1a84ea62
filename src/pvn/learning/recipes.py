"""Recipes: everything that a training depends on apart from its corpus, and complete ones by name, the presets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, cast

from pvn.checks import check_limits
from pvn.geometry import Camera, MapGrid
from pvn.learning.augmentation import Augmentation
from pvn.learning.descent import OptimizerName, rate_share
from pvn.learning.losses import ImitationLosses, VisitationLosses
from pvn.model.execution import ExecutionConfig
from pvn.model.mapping import MENTIONED_LOG_ODDS
from pvn.model.visitation import VisitationSizes
from pvn.rollout.oracle import OracleConfig
from pvn.simulator.interface import SimulatorConfig

LARGEST_HEIGHT_SPREAD = SimulatorConfig().altitude - 1.0
"""Metres; no picture is taken from much less than a metre above the ground."""


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """Which corpus is made if none is given, and how the training split is repeated and mirrored."""

    size: int = 27_965
    """If no corpus is given: size of the one that is made, as for `pvn corpus make`; only train and dev are made."""
    has_natural: bool = False
    """If no corpus is given: whether natural instructions are added."""
    narrated: int = 0
    """If no corpus is given: how many narrated training segments are added."""
    turns: int = 0
    """If no corpus is given: how many training segments are added that only turn on the spot."""
    held_out_authors: tuple[str, ...] = ()
    """If no corpus is given: voices whose natural instructions become its test split; none of them are trained on."""
    natural_repeats: int = 1
    """How often each natural instruction comes up in an epoch."""
    mirrors_natural: bool = False
    """Whether mirror images of the natural instructions are added."""
    renames_natural: bool = False
    """Whether repeated natural instructions use other names for landmarks, where a name fits no other landmark."""
    circle_repeats: int = 1
    """How often each segment with a full circle comes up in an epoch, if not more often anyway: full circles are rare,
    and the hardest to fly."""

    def __post_init__(self) -> None:
        check_limits(self, "size natural_repeats circle_repeats", 1)
        check_limits(self, "narrated turns", 0)


@dataclass(frozen=True, kw_only=True)
class Stage1Config:
    """Gradient descent on the oracle's flights; the defaults are PVN's by the paper preset."""

    num_epochs: int = 40
    """Passes over the training segments."""
    frames_per_batch: int = 512
    """Pictures in a step; every second picture of about 60 segments. The paper takes one segment."""
    flights_per_batch: int | None = None
    """Segments in a step, at most; None: as many as frames_per_batch allows."""
    optimizer: OptimizerName = "AdamW"
    """The paper's is Adam."""
    learning_rate: float = 3e-3
    """Peak value: the rate rises over the first tenth of the steps and falls to zero over the rest."""
    has_schedule: bool = True
    """Whether the rate rises and falls; if not, it is constant (paper)."""
    instruction_rate: float = 1.5
    """The instruction encoder's learning rate as a multiple of the others'."""
    weight_decay: float = 1e-6
    """The optimizer's (paper)."""
    max_gradient_norm: float | None = 5.0
    """Gradients with a larger norm are scaled down to it; None: never (paper)."""
    word_steps: int = 3000
    """Initial steps in which only the instruction encoder is trained, to tell which classes are mentioned; only for an
    agent with auxiliary losses."""
    word_learning_rate: float = 5e-3
    """Peak learning rate in those steps."""
    frame_every: int = 2
    """Steps between the pictures that are used in training; 2, about a metre, halves the time."""
    predict_every: int = 6
    """Steps between the predictions of a flight that are trained (paper: T_d)."""
    turn_rad: float = 0.5
    """Standard deviation of the random rotation of a segment's map and targets in training, radians (paper)."""
    swapped_share: float = 0.5
    """Share of flights whose pictures are taken along another flight's path, from their own starts. The oracle's views
    give its path away: a model trained only on them follows its own first guess, regardless of the instruction
    (docs/log.md)."""
    mentioned_log_odds: float = MENTIONED_LOG_ODDS
    """Initial log-odds that a class is mentioned; 0 for even odds, as the paper says nothing."""
    height_spread: float = 0.0
    """A flight's pictures are taken up to this many metres above or below the drone, drawn at random for each batch;
    0: from the drone."""
    augmentation: Augmentation = Augmentation()
    """How far pictures may differ from the simulator's."""
    oracle: OracleConfig = OracleConfig()
    """The oracle whose flights the pictures are from."""
    losses: VisitationLosses | ImitationLosses = VisitationLosses()
    save_every: int = 500
    """Steps between checkpoints."""
    measure_every: int = 1000
    """Steps between measurements on the dev split."""
    measured_flights: int = 300
    """Flights of the dev split that are measured."""
    seed: int = 0
    """Seed of initial weights and random choices."""

    def __post_init__(self) -> None:
        counts = "num_epochs frames_per_batch flights_per_batch frame_every predict_every"
        check_limits(self, f"{counts} save_every measure_every measured_flights", 1)
        check_limits(self, "learning_rate instruction_rate weight_decay max_gradient_norm", 0)
        check_limits(self, "word_steps word_learning_rate turn_rad", 0)
        check_limits(self, "swapped_share", 0, 1)
        if self.flights_per_batch == 1 and self.swapped_share > 0:
            raise ValueError(
                f"swapped_share: got {self.swapped_share} with one flight in a batch, which has no other flight whose "
                "path it could take; set --stage1.swapped-share 0, or more --stage1.flights-per-batch"
            )
        if not 0 <= self.height_spread <= LARGEST_HEIGHT_SPREAD:
            raise ValueError(
                f"height_spread: got {self.height_spread}, expected 0 to {LARGEST_HEIGHT_SPREAD:g} metres; drones fly "
                f"at {SimulatorConfig().altitude:g}"
            )
        if isinstance(self.losses, ImitationLosses):
            if self.swapped_share > 0:
                raise ValueError(
                    f"swapped_share: got {self.swapped_share} for imitation, expected 0: along another flight's path "
                    "the oracle's actions would be wrong"
                )
            if self.frame_every % self.predict_every:
                raise ValueError(
                    f"predict_every: got {self.predict_every} for imitation, expected 1: every picture is followed by "
                    "a decision"
                )

    def rate_share(self, step: int, num_steps: int) -> float:
        """The learning rate at a step as a share of the highest."""
        return rate_share(step, num_steps) if self.has_schedule else 1.0


@dataclass(frozen=True, kw_only=True)
class DaggerConfig:
    """DAggerFM: imitation in states that the learner itself reaches, with a memory of fixed size."""

    num_iterations: int = 100
    """Rounds of flying and training (paper)."""
    beta: float = 0.92
    """In iteration k the oracle flies each step with probability beta to the power of k (paper)."""
    num_environments: int = 10
    """Environments flown in an iteration (paper)."""
    memory: int = 600
    """Flights that are remembered and trained on (paper)."""
    horizon: int = 80
    """Steps of a flight, at most."""
    optimizer: OptimizerName = "AdamW"
    """The paper's is Adam."""
    learning_rate: float = 1e-3
    """Learning rate in the first iteration."""
    weight_decay: float = 1e-6
    """The optimizer's (paper)."""
    save_every: int = 10
    """Iterations between checkpoints."""
    seed: int = 0
    """Seed of all random choices."""

    def __post_init__(self) -> None:
        check_limits(self, "num_environments memory horizon save_every", 1)
        check_limits(self, "num_iterations learning_rate weight_decay", 0)
        check_limits(self, "beta", 0, 1)


@dataclass(frozen=True, kw_only=True)
class Stage2Config(DaggerConfig):
    """How PVN's second stage is trained: on oracle flights first, then by DAggerFM."""

    pretrain_flights: int = 4000
    """Oracle flights to begin with."""
    pretrain_epochs: int = 3
    """Passes over them (authors' code)."""
    batch_size: int = 128
    """Steps of flight in a step of gradient descent."""
    stop_weight: float = 0.8
    """Weight of the stop's loss relative to the losses of speed and yaw rate (authors' code; the paper has none)."""
    sigma_cells: float = 0.6
    """Width of the targets' Gaussians, in cells, as in stage 1."""
    oracle: OracleConfig = OracleConfig()
    """The oracle that is imitated."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_limits(self, "pretrain_flights pretrain_epochs batch_size", 1)
        check_limits(self, "stop_weight", 0)
        check_limits(self, "sigma_cells", 0.01)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything a training depends on, apart from the corpus; the defaults are PVN's by the paper preset."""

    name: str
    """Name of the preset; for information only."""
    stage1: Stage1Config = Stage1Config()
    stage2: DaggerConfig = Stage2Config()
    text: TextConfig = TextConfig()
    sizes: VisitationSizes | None = VisitationSizes()
    """Sizes of PVN's first stage; None for another agent."""
    execution: ExecutionConfig | None = ExecutionConfig()
    """Sizes of PVN's second stage; None for another agent."""
    grid: MapGrid = MapGrid()
    """Grid of the maps of an agent that has maps."""
    camera: Camera = Camera()
    uses_instruction: bool = True
    """Whether PVN uses the instruction; if not, this is the paper's "no u"."""
    overhead_px: int | None = None
    """Edge of the view from above that replaces the camera's images, for PVN, pixels; None: the camera's images."""
    plan_every: int = 6
    """Steps between PVN's predictions when it flies (paper: T_d)."""
    min_count: int = 10
    """A word outside the dictionary is a term if it occurs at least this often (authors' code)."""

    def __post_init__(self) -> None:
        check_limits(self, "plan_every min_count overhead_px", 1)
        if self.overhead_px is not None and not self.stage1.augmentation.is_off:
            raise ValueError(
                "augmentation: got some for views from above, expected it for the camera's pictures alone; leave out "
                "--stage1.augmentation"
            )
        if self.sizes is None and (not self.uses_instruction or self.overhead_px is not None or self.plan_every != 6):
            raise ValueError("uses_instruction, overhead_px and plan_every are PVN's; leave them out")

    def with_seed(self, seed: int) -> Recipe:
        """The same recipe with another seed throughout."""
        return replace(self, stage1=replace(self.stage1, seed=seed), stage2=replace(self.stage2, seed=seed))


def with_changes(recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """The recipe with other values, by dotted field name: {"stage1.num_epochs": 8}."""

    def changed(part: Any, path: list[str], value: Any) -> Any:
        if not is_dataclass(part) or path[0] not in part.__dataclass_fields__:
            raise ValueError(f"recipe: got a change of {path[0]!r} in {type(part).__name__}, which has no such field")
        inner = value if len(path) == 1 else changed(getattr(part, path[0]), path[1:], value)
        return replace(cast(Any, part), **{path[0]: inner})

    for name, value in changes.items():
        recipe = changed(recipe, name.split("."), value)
    return recipe


def paper() -> Recipe:
    """The paper's agent: its losses, its DAggerFM, its sizes, with changes of our own (LITERAL takes them back)."""
    return Recipe(name="paper")


LITERAL: Mapping[str, Mapping[str, Any]] = {
    # The paper's batches are of one segment; with two, `literal` takes a quarter of an hour of an H200. Of two
    # flights one can only swap with the other, so that a share of 0.5 would leave a quarter of the paths swapped.
    "small batches": {"stage1.flights_per_batch": 2, "stage1.swapped_share": 0.5**0.5, "stage2.batch_size": 16},
    "plain Adam": {
        "stage1.optimizer": "Adam", "stage1.max_gradient_norm": None, "stage2.optimizer": "Adam",
    },
    "one learning rate": {
        "stage1.learning_rate": 1e-3, "stage1.has_schedule": False, "stage1.instruction_rate": 1.0,
    },
    "mean over classes": {"stage1.losses.averages_mentioned": True},
    "no words first": {"stage1.word_steps": 0},
    "even odds": {"stage1.mentioned_log_odds": 0.0},
    "no swapped paths": {"stage1.swapped_share": 0.0},
    # As many pictures in all: every one 20 times (authors' code) instead of every second one 40 times.
    "every picture": {"stage1.frame_every": 1, "stage1.num_epochs": 20},
    "equal action losses": {"stage2.stop_weight": 1.0},
    "all oracle flights": {"stage2.pretrain_flights": 19_758},
}  # fmt: skip
"""How each of our own changes to the paper's recipe is taken back, by dotted field name (docs/agent.md)."""


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


AUGMENTATION: Mapping[str, Any] = {
    "stage1.augmentation.sun": 0.3, "stage1.augmentation.sky": 1.0, "stage1.augmentation.ground": 0.3,
    "stage1.augmentation.colours": 0.15, "stage1.augmentation.contrast": 0.3, "stage1.augmentation.blur_px": 0.8,
    "stage1.augmentation.tilt": math.radians(3), "stage1.augmentation.height": 0.5, "stage1.augmentation.late": 0.5,
}  # fmt: skip
"""All augmentation of pictures at once, by dotted field name, as strong as it was tried (docs/results.md)."""


def plus() -> Recipe:
    """Beyond the paper: five times LANI's segments, and natural and narrated instructions."""
    return Recipe(
        name="plus",
        stage1=Stage1Config(num_epochs=5, word_steps=1000),
        text=TextConfig(
            size=5 * 27_965, has_natural=True, narrated=40_000, turns=4_000, natural_repeats=3, mirrors_natural=True,
            circle_repeats=4,
        ),
    )  # fmt: skip


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


def imitation(name: str) -> Recipe:
    """The baselines' recipe: as many pictures as PVN sees by the preset of that name, and its DAggerFM.

    Their learning rate in DAggerFM falls to zero over the iterations.
    """
    if name == "plus":
        raise ValueError("preset: got plus for a baseline, expected paper, quick, literal or smoke; plus is PVN's")
    # What the paper says of training, and `literal` follows, is about PVN.
    epochs = {"paper": 20, "quick": 9, "literal": 20, "smoke": 1}
    recipe = Recipe(
        name=name,
        stage1=Stage1Config(
            num_epochs=epochs[name], learning_rate=1e-3, frame_every=1, predict_every=1, turn_rad=0.0,
            swapped_share=0.0, losses=ImitationLosses(),
        ),
        stage2=DaggerConfig(learning_rate=3e-4),
        sizes=None,
        execution=None,
    )  # fmt: skip
    if name != "smoke":
        return recipe
    small = smoke()
    stage1 = replace(
        recipe.stage1, word_steps=300, frames_per_batch=96, save_every=50, measure_every=200, measured_flights=24
    )
    stage2 = replace(recipe.stage2, num_iterations=5, num_environments=3, memory=30)
    return replace(
        recipe, stage1=stage1, stage2=stage2, grid=small.grid, camera=small.camera, min_count=small.min_count
    )


def prediction(name: str) -> Recipe:
    """PVN's recipe by a preset."""
    return {"paper": paper, "quick": quick, "literal": literal, "plus": plus, "smoke": smoke}[name]()
