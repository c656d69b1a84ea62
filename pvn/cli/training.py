"""Verbs that train: `pvn train`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pvn.cli.options import Device

if TYPE_CHECKING:
    from pvn.corpus.segments import Corpus
    from pvn.learning.training import Watch


RUN = "run.json"
"""In a run's folder: what is trained there."""


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train an agent on a corpus."""

    corpus: Path
    """Folder of the corpus."""
    out: Path
    """Folder for checkpoints, logs and the agent."""
    system: Literal[
        "pvn", "gsmn", "chaplot", "pvn-no-aux", "pvn-no-goal", "pvn-no-dagger", "pvn-no-instruction",
        "pvn-full-observation",
    ] = "pvn"  # fmt: skip
    """Which agent: pvn, one of the two learned baselines of the paper's table, or one of its ablations."""
    preset: Literal["paper", "smoke"] = "paper"
    """Which recipe: paper wants a GPU, smoke takes minutes on a CPU."""
    stage: Literal["1", "2", "all"] = "all"
    """Predicting (1), flying (2), or both; the baselines have no stages."""
    stage1: Path | None = None
    """Folder of a run whose stage 1 is taken; stage 2 alone is trained then."""
    device: Device = "cpu"
    """Where to simulate and train."""
    resume: bool = False
    """Go on from the last checkpoint in the folder."""

    @property
    def _stage(self) -> Literal["1", "2", "all"]:
        return self.stage if self.stage1 is None else "2"

    def _begun(self) -> list[str]:
        """Names of the checkpoints that such a run writes."""
        if self.system in ("gsmn", "chaplot"):
            return ["imitation_training.safetensors", "dagger_training.safetensors"]
        stages = ("1", "2") if self._stage == "all" else (self._stage,)
        return [f"stage{stage}_training.safetensors" for stage in stages]

    def _kind(self) -> dict[str, str]:
        """What a run must have in common with one that goes on with it."""
        from pvn.corpus.store import identity

        return {"system": self.system, "preset": self.preset, "corpus": identity(self.corpus)}

    def _check_same(self) -> None:
        """Refuse to go on with a run of something else: its checkpoints may well fit."""
        from pvn.learning.checkpoint import read_json

        path = self.out / RUN
        if not (self.resume and path.exists()):
            return
        for what, value in self._kind().items():
            there = read_json(path).get(what)
            if there != value:
                shown = "another one" if what == "corpus" else repr(there)
                raise ValueError(
                    f"{what}: got {getattr(self, what)}, but the run in {self.out} was begun with {shown}; go on with "
                    "that, or choose another --out"
                )

    def _check(self) -> None:
        """Refuse what does not belong together."""
        from pvn.evaluation.systems import SAME_STAGE1
        from pvn.learning import parallel

        if self.system in ("gsmn", "chaplot") and self.stage != "all":
            raise ValueError(f"stage: got {self.stage!r}, expected all: {self.system} has no stages")
        if self.system in ("gsmn", "chaplot") and parallel.num_processes() > 1:
            raise ValueError(
                f"system: got {self.system!r} in several processes, expected pvn; start one without torchrun"
            )
        if self.stage1 is not None and self.system not in ("pvn", *SAME_STAGE1):
            raise ValueError(
                f"stage1: got {self.stage1} for {self.system}, expected it for {', '.join(('pvn', *SAME_STAGE1))} "
                "alone, whose first stage is the same; leave it out"
            )
        if self.stage1 is not None and self.stage == "1":
            raise ValueError("stage: got 1 with --stage1, which takes it from elsewhere; leave one of them out")
        if any((self.out / name).exists() for name in self._begun()) and not self.resume:
            raise FileExistsError(
                f"{self.out} has a training run already; go on with it with --resume, or choose another --out"
            )

    def _train(self, corpus: Corpus, watch: Watch) -> None:
        """Train the system."""
        from pvn.learning import presets
        from pvn.learning.baselines import train_baseline
        from pvn.learning.training import train

        is_paper, out = self.preset == "paper", self.out
        if self.system not in ("gsmn", "chaplot"):
            changes = {
                "pvn-no-aux": presets.no_aux, "pvn-no-goal": presets.no_goal, "pvn-no-dagger": presets.no_dagger,
                "pvn-no-instruction": presets.no_instruction, "pvn-full-observation": presets.full_observation,
            }  # fmt: skip
            recipe = presets.paper() if is_paper else presets.smoke()
            recipe = changes[self.system](recipe) if self.system in changes else recipe
            train(corpus, recipe, out, stage=self._stage, device=self.device, is_resumed=self.resume, watch=watch)
        else:
            config = (presets.paper_baseline if is_paper else presets.smoke_baseline)(self.system)
            train_baseline(corpus, self.system, config, out, device=self.device, is_resumed=self.resume, watch=watch)

    def run(self) -> None:
        """Train, and say what came of it."""
        from pvn.cli.progress import training_bars
        from pvn.corpus.store import read_corpus
        from pvn.learning import parallel
        from pvn.learning.checkpoint import read_tensors, write_json, write_tensors

        parallel.join_others(self.device)
        self._check()
        self._check_same()
        corpus = read_corpus(self.corpus, ("train", "dev"))
        if "train" not in corpus.splits:
            raise ValueError(f"{self.corpus}: has no training split, expected one")
        self.out.mkdir(parents=True, exist_ok=True)
        if parallel.rank() == 0:
            write_json(self.out / RUN, self._kind())
        if self.stage1 is not None:
            name = "stage1.safetensors"
            write_tensors(self.out / name, read_tensors(self.stage1 / name))
        try:
            with training_bars(self.out / "logs", is_shown=parallel.rank() == 0) as watch:
                self._train(corpus, watch)
        except FloatingPointError as error:
            raise ValueError(str(error)) from None
        except RuntimeError as error:
            if parallel.num_processes() > 1:
                raise ValueError(
                    f"a process of this run ended before the others ({str(error).splitlines()[0]}); "
                    "start all of them again with --resume"
                ) from None
            raise
        if parallel.rank() == 0 and (self.out / "agent.safetensors").exists():
            print(f"agent: {self.out / 'agent.safetensors'}")
