"""`pvn train`: train an agent; every field of its recipe is an option.

The recipe's fields, their defaults and their help depend on the agent and the preset, so the command line is read
twice: first for those two and the seed, then in full.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import AvoidSubcommands, arg

from pvn.cli.options import Device, TrainedName
from pvn.systems import AGENT_FILE, SYSTEMS, Preset

if TYPE_CHECKING:
    from pvn.learning.recipes import Recipe

RUN = "run.json"
"""In a run's folder: what is trained there, and how."""
VERSION = 1
"""Of run.json."""


@dataclass(frozen=True, kw_only=True)
class RecipeOptions:
    """What the recipe starts from."""

    agent: TrainedName = "pvn"
    """Which agent to train: pvn, one of the paper's two learned baselines or of its ablations, or pvn-plus."""
    preset: Preset = "paper"
    """Which recipe: paper, quick, which takes half the steps, literal, which has none of our changes (but batches of
    two), and plus need a GPU; smoke takes minutes on a CPU."""
    seed: int = 0
    """Seed of everything random in the training."""

    def recipe(self) -> Recipe:
        """The recipe before any of its fields is overridden."""
        return SYSTEMS[self.agent].recipe(self.preset).with_seed(self.seed)


@dataclass(frozen=True, kw_only=True)
class Train(RecipeOptions):
    """Train an agent on a corpus. Every field of its recipe can be overridden: --stage1.num-epochs 8."""

    corpus: Path | None = None
    """Folder of the corpus; by default it is made as the recipe's text options say, in the folder corpus of the run."""
    out: Path
    """Folder for checkpoints, logs and the agent."""
    stage: Literal["1", "2", "all"] = "all"
    """Train on the oracle's flights (1), by DAggerFM (2), or both: for PVN, the predictions and the control."""
    stage1_from: Path | None = None
    """Folder of a run whose first stage is used; only the second is trained then."""
    device: Device = "cpu"
    """Where to simulate and train."""
    resume: bool = False
    """Resume from the last checkpoint in the folder."""

    def run(self, recipe: Recipe | None = None) -> None:
        """Train by a recipe, by default the preset's, and print where the agent is."""
        from pvn.cli.progress import training_bars
        from pvn.learning import parallel
        from pvn.learning.checkpoint import read_tensors, write_json, write_tensors
        from pvn.learning.fit import STAGE1
        from pvn.training import train_system

        parallel.join_others(self.device)
        recipe = recipe or self.recipe()
        self._check()
        begun = self._describe(recipe)
        self._check_overrides(begun["overrides"])
        self._check_resumable(begun)
        self.out.mkdir(parents=True, exist_ok=True)
        is_first = parallel.rank() == 0
        if is_first:
            write_json(self.out / RUN, begun)
        if self.stage1_from is not None:
            write_tensors(self.out / STAGE1, read_tensors(self.stage1_from / STAGE1))
        try:
            with training_bars(self.out / "logs", is_shown=is_first) as watch:
                train_system(
                    self.corpus, SYSTEMS[self.agent], recipe, self.out, stage=self._stage, device=self.device,
                    is_resumed=self.resume, watch=watch,
                )  # fmt: skip
        except FloatingPointError as error:
            raise ValueError(str(error)) from None
        except RuntimeError as error:
            if parallel.num_processes() > 1:
                raise ValueError(
                    f"a process of this run ended before the others ({str(error).splitlines()[0]}); "
                    "start all of them again with --resume"
                ) from None
            raise
        if is_first and (self.out / AGENT_FILE).exists():
            print(f"agent: {self.out / AGENT_FILE}")

    @property
    def _stage(self) -> Literal["1", "2", "all"]:
        return self.stage if self.stage1_from is None else "2"

    def _describe(self, recipe: Recipe) -> dict[str, Any]:
        """What is written into run.json, and what a run that resumes this one must have in common with it."""
        from pvn.corpus.store import identity

        content = {
            "version": VERSION,
            "agent": self.agent,
            "preset": self.preset,
            "corpus": None if self.corpus is None else identity(self.corpus),
            "recipe": asdict(recipe),
            "overrides": _differences(asdict(self.recipe()), asdict(recipe)),
        }
        return json.loads(json.dumps(content))  # tuples become lists, as in the file

    def _check_overrides(self, overrides: Mapping[str, Any]) -> None:
        """Refuse to override what is not trained."""
        ignored = [name for name in overrides if self.stage1_from is not None and name.startswith("stage1.")]
        if ignored:
            raise ValueError(
                f"{ignored[0]}: got {overrides[ignored[0]]} with --stage1-from, whose first stage is trained already; "
                "leave one of them out"
            )

    def check_recipe(self) -> None:
        """Refuse a run in the folder, finished or not, that was begun by another recipe."""
        self._check_resumable(self._describe(self.recipe()))

    def _check_resumable(self, begun: Mapping[str, Any]) -> None:
        """Refuse to resume a run of something else: its checkpoints may well fit."""
        from pvn.learning.checkpoint import read_json

        path = self.out / RUN
        if not (self.resume and path.exists()):
            return
        there = read_json(path)
        if there.get("version") != VERSION:
            raise ValueError(f"{path}: got version {there.get('version')!r}, expected {VERSION}; train from the start")
        for name in ("agent", "preset", "corpus"):
            if there[name] != begun[name]:
                shown = "another one" if name == "corpus" else repr(there[name])
                raise ValueError(
                    f"{name}: got {getattr(self, name)}, but the run in {self.out} was begun with {shown}; resume it "
                    "with that, or choose another --out"
                )
        before = _flatten(there["recipe"])
        for name, value in _differences(there["recipe"], begun["recipe"]).items():
            option = name.replace("_", "-")
            raise ValueError(
                f"{name}: got {value}, but the run in {self.out} was begun with {before.get(name)}; resume it with "
                f"--{option} {before.get(name)}, or choose another --out"
            )

    def _check(self) -> None:
        """Refuse options that contradict each other, and to overwrite a run."""
        from pvn.learning import parallel
        from pvn.learning.fit import CHECKPOINTS

        lenders = {other.stage1_of for other in SYSTEMS.values()}
        same_stage1 = [name for name, other in SYSTEMS.items() if name in lenders or other.stage1_of is not None]
        if self.stage1_from is not None and self.agent not in same_stage1:
            raise ValueError(
                f"stage1_from: got {self.stage1_from} for {self.agent}, expected it only for {', '.join(same_stage1)}, "
                "whose first stage is the same; leave it out"
            )
        if self.corpus is None and parallel.num_processes() > 1:
            raise ValueError(
                "corpus: got none in several processes, expected one that they share; make it with `pvn corpus make`"
            )
        if self.stage1_from is not None and self.stage == "1":
            raise ValueError("stage: got 1 with --stage1-from, which takes it from elsewhere; leave one of them out")
        written = [CHECKPOINTS[stage] for stage in CHECKPOINTS if self._stage in (stage, "all")]
        if any((self.out / name).exists() for name in written) and not self.resume:
            raise FileExistsError(
                f"{self.out} already holds a training run; resume it with --resume, or choose another --out"
            )


def _flatten(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A recipe's fields by dotted name."""
    flat: dict[str, Any] = {}
    for name, value in content.items():
        flat |= _flatten(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat


def _differences(base: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of `other`, by dotted name, whose values are not those of `base`."""
    before = _flatten(base)
    return {name: value for name, value in _flatten(other).items() if name not in before or before[name] != value}


def _check_grid(base: Recipe, recipe: Recipe) -> None:
    """Refuse a grid for PVN's second stage alone, which would be ignored: both stages have the same one."""
    if base.execution is not None and recipe.execution is not None and recipe.execution.grid != base.execution.grid:
        raise ValueError("execution.grid: both stages share one grid; set it with --grid.size and --grid.cell")


def train(arguments: list[str]) -> None:
    """Run `pvn train` with these arguments."""
    parse: Any = tyro.cli  # the recipe's type is known only now
    base, _ = parse(
        RecipeOptions,
        prog="pvn train",
        args=[word for word in arguments if word not in ("-h", "--help")],
        return_unknown_args=True,
    )
    recipe = base.recipe()
    options = make_dataclass(
        "TrainOptions",
        [
            ("train", Annotated[Train, arg(name="")]),
            ("recipe", Annotated[type(recipe), arg(name="")], field(default=recipe)),
        ],
        kw_only=True,
    )
    # Parts of a recipe that differ between kinds of systems are shown as they are in this one.
    parsed = parse(options, prog="pvn train", description=Train.__doc__, args=arguments, config=(AvoidSubcommands,))
    _check_grid(recipe, parsed.recipe)
    parsed.train.run(parsed.recipe)
