"""The one table of systems: every agent, baseline and ablation that is trained, flown and compared with the paper.

A learned system is a file and a row here, an ablation is a row. Importing the table imports no networks, so that the
command line can list all names quickly.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pvn.files import AGENT_FILE as AGENT_FILE

if TYPE_CHECKING:
    import torch

    from pvn.corpus.vocabulary import Vocabulary
    from pvn.learning.fit import Trainee
    from pvn.learning.recipes import Recipe
    from pvn.learning.trainers import Trainer
    from pvn.model.agent import Agent
    from pvn.simulator.interface import Look

PaperPreset = Literal["paper", "quick", "literal", "smoke"]
"""Recipes with which the paper's table is made."""
Preset = PaperPreset | Literal["plus"]
"""Recipes by name (learning/recipes.py)."""


@dataclass(frozen=True)
class PaperRow:
    """A row of the paper's results table (Blukis, Misra, Knepper, Artzi: CoRL 2018, table 1)."""

    sr: float
    """Success rate, percent."""
    mean_distance: float
    """Between stop and goal, metres (AD)."""
    median_distance: float
    """Metres (MD)."""


@dataclass(frozen=True, kw_only=True)
class FlightChanges:
    """How flights differ from those an agent was trained for."""

    altitude: float | None = None
    """Height above the ground, metres; None: the simulator's."""
    yaw_factor: float = 1.0
    """Every command for the yaw rate turns the drone this many times faster."""
    stop_threshold: float | None = None
    """The agent stops when its stop probability exceeds this; None: as trained."""
    plan_every: int | None = None
    """Steps between predictions; None: as trained."""
    has_ideal_act: bool = False
    """Whether PVN's second stage is replaced by one that flies straight to the most likely goal (paper: ideal Act)."""
    look_threshold: float | None = None
    """The agent looks around before it flies while its goal is out of sight with more than this probability; 1: never;
    None: as trained."""
    has_true_distributions: bool = False
    """Whether PVN's second stage flies by the demonstrated distributions instead of predicted ones."""
    look: Look = "own"
    """Who takes the pictures: our renderer, or another one with the same camera."""

    def __post_init__(self) -> None:
        if not self.yaw_factor > 0:
            raise ValueError(f"yaw_factor: got {self.yaw_factor}, expected a number above 0")
        if self.stop_threshold is not None and not 0 < self.stop_threshold < 1:
            raise ValueError(f"stop_threshold: got {self.stop_threshold}, expected a probability between 0 and 1")
        if self.look_threshold is not None and not 0 <= self.look_threshold <= 1:
            raise ValueError(f"look_threshold: got {self.look_threshold}, expected a probability from 0 to 1")
        if self.plan_every is not None and self.plan_every < 1:
            raise ValueError(f"plan_every: got {self.plan_every}, expected at least 1 step")
        for name in ("plan_every", "look_threshold"):
            if getattr(self, name) is not None and self.has_true_distributions:
                raise ValueError(
                    f"{name}: got {getattr(self, name)} with true distributions, which are not predicted; leave one of "
                    "them out"
                )


@dataclass(frozen=True, kw_only=True)
class System:
    """One system: what it is, how it is trained and flown, and what the paper reports of it."""

    name: str
    agent_class: Callable[[], type[Agent]] | None = None
    """Imports and returns the class of its agent; None for a pilot that is not learned."""
    trainer: Callable[[], Trainer] | None = None
    """Imports and returns how its own weights are trained; None if it has none."""
    recipe_changes: Callable[[Any], Mapping[str, Any]] = lambda recipe: {}
    """What it changes in the recipe of a preset, by dotted field name ("stage2.num_iterations")."""
    stage1_of: str | None = None
    """The system whose trained first stage it uses; only its second stage is trained."""
    is_close: bool = False
    """Whether its success rate is so close to another's that one training run does not tell them apart."""
    weights_of: str | None = None
    """The system whose weights it flies with, if it has none of its own."""
    flight_changes: FlightChanges = FlightChanges()
    paper: Mapping[str, PaperRow] = field(default_factory=dict)
    """The paper's results by split."""

    @property
    def is_learned(self) -> bool:
        """Whether it is flown by an agent, which reads its instruction."""
        return self.agent_class is not None

    @property
    def run(self) -> str | None:
        """The system whose training run it flies with; None if it is not learned."""
        return None if not self.is_learned else self.weights_of or self.name

    @property
    def flies_by_distributions(self) -> bool:
        """Whether its agent's second stage flies by distributions that the first one predicts."""
        return self.agent_class is _pvn

    def recipe(self, preset: str) -> Recipe:
        """The recipe of a preset with the system's changes."""
        if self.trainer is None:
            raise ValueError(f"agent: got {self.name}, which is not trained, expected one that is, such as pvn")
        from pvn.learning.recipes import with_changes

        recipe = self.trainer().recipe(preset)
        return with_changes(recipe, self.recipe_changes(recipe))

    def begin(self, recipe: Recipe, vocabulary: Vocabulary) -> Trainee:
        """An untrained agent, and what it learns by a recipe."""
        assert self.trainer is not None and self.agent_class is not None
        return self.trainer().begin(self.agent_class(), recipe, vocabulary)


def _prediction() -> Trainer:
    from pvn.learning.trainers import PREDICTION

    return PREDICTION


def _imitation() -> Trainer:
    from pvn.learning.trainers import IMITATION

    return IMITATION


def _pvn() -> type[Agent]:
    from pvn.model.pvn import PVN

    return PVN


def _gsmn() -> type[Agent]:
    from pvn.model.gsmn import GSMN

    return GSMN


def _chaplot() -> type[Agent]:
    from pvn.model.chaplot import Chaplot

    return Chaplot


_ROWS = (
    System(name="stop", paper={"test": PaperRow(5.72, 15.8, 14.8)}),
    System(name="average", paper={"test": PaperRow(16.43, 12.5, 10.1)}),
    System(
        name="chaplot",
        agent_class=_chaplot,
        trainer=_imitation,
        # Its convolutions need pictures larger than those of the smoke preset.
        recipe_changes=lambda recipe: {
            "camera.width": max(recipe.camera.width, 96),
            "camera.height": max(recipe.camera.height, 54),
        },
        paper={"test": PaperRow(21.34, 11.2, 9.35)},
    ),
    System(
        name="gsmn",
        agent_class=_gsmn,
        trainer=_imitation,
        # Of three rates tried for DAggerFM the one that flew best (docs/baselines.md).
        recipe_changes=lambda recipe: {"stage2.learning_rate": 1e-3},
        paper={"test": PaperRow(24.36, 9.94, 8.28)},
    ),
    System(
        name="pvn",
        agent_class=_pvn,
        trainer=_prediction,
        is_close=True,
        paper={"test": PaperRow(41.21, 8.68, 6.26), "dev": PaperRow(40.44, 8.56, 6.28)},
    ),
    System(name="oracle", paper={"test": PaperRow(100.0, 1.38, 1.29)}),
    System(
        # Without auxiliary losses.
        name="pvn-no-aux",
        agent_class=_pvn,
        trainer=_prediction,
        is_close=True,
        recipe_changes=lambda recipe: {
            "stage1.losses.landmark_weight": 0.0,
            "stage1.losses.grounded_weight": 0.0,
            "stage1.losses.mentioned_weight": 0.0,
            "stage1.word_steps": 0,
        },
        paper={"dev": PaperRow(30.77, 10.1, 7.94)},
    ),
    System(
        # Flown by the trajectory distribution alone (paper: no d^g).
        name="pvn-no-goal",
        agent_class=_pvn,
        trainer=_prediction,
        is_close=True,
        recipe_changes=lambda recipe: {"execution.uses_goal": False},
        stage1_of="pvn",
        paper={"dev": PaperRow(35.98, 9.25, 7.2)},
    ),
    System(
        # The second stage learns from oracle flights alone, the same ones that PVN's begins with.
        name="pvn-no-dagger",
        agent_class=_pvn,
        trainer=_prediction,
        is_close=True,
        recipe_changes=lambda recipe: {"stage2.num_iterations": 0},
        stage1_of="pvn",
        paper={"dev": PaperRow(38.87, 9.18, 6.69)},
    ),
    System(
        # The instruction is not used (paper: no u), and neither are the losses about what it mentions.
        name="pvn-no-instruction",
        agent_class=_pvn,
        trainer=_prediction,
        recipe_changes=lambda recipe: {
            "stage1.losses.grounded_weight": 0.0,
            "stage1.losses.mentioned_weight": 0.0,
            "stage1.word_steps": 0,
            "uses_instruction": False,
        },
        paper={"dev": PaperRow(23.07, 11.6, 10.1)},
    ),
    System(
        name="pvn-ideal-act",
        agent_class=_pvn,
        weights_of="pvn",
        flight_changes=FlightChanges(has_ideal_act=True),
        paper={"dev": PaperRow(45.70, 8.42, 6.25)},
    ),
    System(
        # The field is seen from above, once a flight; a batch has as many flights as before.
        name="pvn-full-observation",
        agent_class=_pvn,
        trainer=_prediction,
        recipe_changes=lambda recipe: {
            "stage1.frames_per_batch": max(recipe.stage1.frames_per_batch // 8, 8),
            "overhead_px": 2 * recipe.camera.width,
        },
        paper={"dev": PaperRow(60.59, 5.67, 4.0)},
    ),
    System(
        name="pvn-half-height",
        agent_class=_pvn,
        weights_of="pvn",
        flight_changes=FlightChanges(altitude=2.5),
        paper={"dev": PaperRow(39.51, 8.95, 6.55)},
    ),
    System(
        # The same row of the paper as its authors probably flew it: their camera is 2 m above the height that they
        # halve, so it sinks from 5 m to 3.5 (docs/results.md).
        name="pvn-height-0.7",
        agent_class=_pvn,
        weights_of="pvn",
        flight_changes=FlightChanges(altitude=3.5),
        paper={"dev": PaperRow(39.51, 8.95, 6.55)},
    ),
    System(
        name="pvn-double-yaw-rate",
        agent_class=_pvn,
        weights_of="pvn",
        flight_changes=FlightChanges(yaw_factor=2.0),
        paper={"dev": PaperRow(41.09, 8.6, 6.12)},
    ),
    System(
        # Beyond the paper: an instruction encoder with slots, cells that attend to words, the way in ordered parts,
        # maps that know what was never seen and where the start is, and a cheaper image encoder; the place to face at
        # the goal, and a turn there; a second stage that stays closer to the way.
        name="pvn-plus",
        agent_class=_pvn,
        trainer=_prediction,
        recipe_changes=lambda recipe: {
            "sizes.word_size": 64,
            "sizes.num_slots": 6,
            "sizes.embedding_size": 192,
            "sizes.grounding_channels": 8,
            "sizes.attention_channels": 32,
            "sizes.num_parts": 6,
            "sizes.knows_unseen": True,
            "sizes.knows_bearing": True,
            "sizes.predicts_facing": True,
            "sizes.has_quick_encoder": True,
            "stage1.oracle.max_left": 6.0,
            "stage1.oracle.turns_at_end": True,
            "stage2.oracle.max_left": 6.0,
            "stage2.oracle.turns_on_the_spot": 3.14,
            "stage2.oracle.lookahead": 5.0,
            "execution.min_speed": 0.15,
            "execution.look_threshold": 0.5,
            "plan_every": 3,
        },
    ),
)

SYSTEMS: Mapping[str, System] = {row.name: row for row in _ROWS}
"""Every system by name, in the order of the results table."""
TRUE_DISTRIBUTIONS = "_true-distributions"
"""Suffix of a system's name where it flies by the demonstrated distributions."""
DEFAULT_AGENT = "pvn-plus"
"""The agent that flies if none is named."""
TRAINED: tuple[str, ...] = tuple(row.name for row in _ROWS if row.trainer is not None)
"""Systems with weights of their own."""


def find_system(name: str) -> System:
    """The system with this name; a ValueError suggests the nearest one."""
    if name in SYSTEMS:
        return SYSTEMS[name]
    near = difflib.get_close_matches(name, SYSTEMS, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ValueError(f"agent: got {name!r}, expected one of {', '.join(SYSTEMS)} or an agent's .safetensors{hint}")


def shipped_weights(name: str) -> Path | None:
    """The weights of a system in the package; None if it has none there."""
    path = Path(str(resources.files("pvn") / "weights" / f"{name}.safetensors"))
    return path if name in SYSTEMS and path.exists() else None


def shipped_names() -> list[str]:
    """The systems whose weights are in the package."""
    return [name for name in SYSTEMS if shipped_weights(name) is not None]


def _class_of(system: object) -> type[Agent]:
    """The class of the agents that an agent's file calls by this name."""
    agent_class = SYSTEMS[system].agent_class if isinstance(system, str) and system in SYSTEMS else None
    if agent_class is None:
        raise ValueError(f"got system {system!r}, expected one of {', '.join(TRAINED)}")
    return agent_class()


def load_agent(agent: Path | str, device: str | torch.device = "cpu") -> Agent:
    """The agent in a file (.safetensors), or the package's of that name: "pvn-plus", "pvn", "gsmn", "chaplot"."""
    from pvn.learning.agent import read_agent
    from pvn.simulator.simulator import checked_device

    path = shipped_weights(agent) if isinstance(agent, str) else None
    if path is None and isinstance(agent, str) and not agent.endswith(".safetensors"):
        raise ValueError(
            f"agent: got {agent!r}, expected {', '.join(shipped_names())}, whose weights are in the package, or the "
            "path of an agent.safetensors"
        )
    return read_agent(path or Path(agent), _class_of, checked_device(device))
