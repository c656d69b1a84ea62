"""Verbs that train: `pvn train`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pvn.cli.options import Device


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train an agent on a corpus."""

    corpus: Path
    """Folder of the corpus."""
    out: Path
    """Folder for checkpoints, logs and the agent."""
    preset: Literal["paper", "smoke"] = "paper"
    """Which recipe: paper wants a GPU, smoke takes minutes on a CPU."""
    stage: Literal["1", "2", "all"] = "all"
    """Predicting (1), flying (2), or both."""
    device: Device = "cpu"
    """Where to simulate and train."""
    resume: bool = False
    """Go on from the last checkpoint in the folder."""

    def run(self) -> None:
        """Train, and say what came of it."""
        from pvn import presets
        from pvn.app.progress import training_bars
        from pvn.corpus.store import read_corpus
        from pvn.learning import parallel
        from pvn.learning.training import train

        parallel.join_others(self.device)
        stages = ("1", "2") if self.stage == "all" else (self.stage,)
        has_begun = any((self.out / f"stage{stage}_training.safetensors").exists() for stage in stages)
        if has_begun and not self.resume:
            raise FileExistsError(
                f"{self.out} has a training run already; go on with it with --resume, or choose another --out"
            )
        corpus = read_corpus(self.corpus, ("train", "dev"))
        if "train" not in corpus.splits:
            raise ValueError(f"{self.corpus}: has no training split, expected one")
        recipe: Any = {"paper": presets.paper, "smoke": presets.smoke}[self.preset]()
        self.out.mkdir(parents=True, exist_ok=True)
        try:
            with training_bars(self.out / "logs", is_shown=parallel.rank() == 0) as watch:
                train(
                    corpus, recipe, self.out, stage=self.stage, device=self.device, is_resumed=self.resume, watch=watch
                )
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
