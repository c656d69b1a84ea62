"""The folder of a reproduction: where its parts are, how long they took, and who is working on them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pvn.systems import AGENT_FILE, SYSTEMS, PaperPreset

if TYPE_CHECKING:
    from filelock import FileLock


PREDICTING: tuple[str, Literal["dev"]] = ("pvn", "dev")
"""The system whose predictions are evaluated (the paper's bound, and calibration), and the split."""


@dataclass(frozen=True, kw_only=True)
class ReproductionFolder:
    """A folder with corpus, runs, results, times and report; several processes may work in it at the same time."""

    out: Path
    corpus: Path
    """In the folder, or elsewhere if it is the user's own."""
    preset: PaperPreset
    limit: int | None
    """Flights over each split; None for all."""
    seed: int = 0
    """Seed of the training runs; runs and results of other seeds than 0 are in folders of their own."""

    @property
    def _of_seed(self) -> Path:
        return self.out if self.seed == 0 else self.out / f"seed{self.seed}"

    @property
    def runs(self) -> Path:
        """One folder for each training run."""
        return self._of_seed / "runs"

    @property
    def results(self) -> Path:
        """Flights and summaries of all systems."""
        return self._of_seed / "results"

    @property
    def figures(self) -> Path:
        """The report's figures."""
        return self.out / "figures"

    @property
    def times(self) -> Path:
        """How long each step took, and with which preset and corpus."""
        return self.out / "times.json"

    def agent(self, run: str) -> Path:
        """The trained agent of a run."""
        return self.runs / run / AGENT_FILE

    def has_agent(self, run: str | None) -> bool:
        """Whether a run has a trained agent, or none is needed."""
        return run is None or self.agent(run).exists()

    @property
    def has_corpus(self) -> bool:
        """Whether the corpus is complete."""
        return (self.corpus / "corpus.json").exists()

    def stem(self, system: str, split: Any) -> Path:
        """Path of a system's results, without the suffix."""
        from pvn.corpus.store import count_segments
        from pvn.evaluation.evaluate import result_stem

        num_segments = 0 if self.limit is None else min(self.limit, count_segments(self.corpus).get(split, 0))
        return result_stem(self.results, system, split, self.limit, num_segments)

    def summary(self, system: str, split: Any) -> Path:
        """The summary of a system's flights."""
        stem = self.stem(system, split)
        return stem.with_name(f"{stem.name}.json")  # with_suffix would take ".7_dev" for a suffix

    def flights(self, system: str, split: Any) -> Path:
        """A system's flights."""
        stem = self.stem(system, split)
        return stem.with_name(f"{stem.name}.safetensors")

    def further_seeds(self) -> dict[int, ReproductionFolder]:
        """Folders in this one with runs and results of training with other seeds than 0: seed1, seed2, and so on."""
        seeds = [path.name.removeprefix("seed") for path in self.out.glob("seed*")]
        return {seed: replace(self, seed=seed) for seed in sorted(int(name) for name in seeds if name.isdecimal())}

    def has_results(self, system: str, split: Any, suffix: str = "") -> bool:
        """Whether a system has flown everything with its current agent; suffix: of its name, for changed flights."""
        summary = self.summary(f"{system}{suffix}", split)
        agent = self.agent(str(SYSTEMS[system].run))
        return summary.exists() and not (agent.exists() and agent.stat().st_mtime > summary.stat().st_mtime)

    def has_flown(self, system: str, split: Any) -> bool:
        """Whether a system's current agent is there, and has flown everything."""
        return self.has_agent(SYSTEMS[system].run) and self.has_results(system, split)

    def prediction_files(self, system: str, split: Any) -> tuple[Path, Path]:
        """Report and figure about a system's predictions."""
        stem = self.stem(system, split).name
        return self.results / f"bound_{stem}.json", self.results / f"calibration_{stem}.png"

    def has_predictions(self, system: str, split: Any) -> bool:
        """Whether the predictions of the current agent have been evaluated."""
        report, figure = self.prediction_files(system, split)
        agent = self.agent(str(SYSTEMS[system].run))
        is_old = agent.exists() and report.exists() and agent.stat().st_mtime > report.stat().st_mtime
        return figure.exists() and report.exists() and not is_old

    def check_same(self) -> None:
        """Refuse a folder that holds a reproduction with another preset or corpus."""
        from pvn.corpus.store import identity
        from pvn.learning.checkpoint import read_json

        if not self.times.exists():
            return
        noted = read_json(self.times)
        if noted.get("preset") != self.preset:
            raise ValueError(
                f"preset: got {self.preset}, but {self.out} holds a reproduction with preset {noted.get('preset')}; "
                "use that, or choose another --out"
            )
        if self.has_corpus and noted.get("corpus", identity(self.corpus)) != identity(self.corpus):
            raise ValueError(
                f"{self.out}: holds a reproduction with another corpus than {self.corpus}; use that one, or choose "
                "another --out"
            )

    @contextmanager
    def timed(self, name: str, device: str, *, is_replaced: bool = False) -> Iterator[None]:
        """Add the wall time of the body to times.json, even if it is interrupted; is_replaced: forget earlier times."""
        from pvn.corpus.store import identity
        from pvn.learning.checkpoint import read_json, write_json
        from pvn.viz.results_page import describe_machine

        began, counted, machine = time.time(), time.perf_counter(), describe_machine(device)
        try:
            yield
        finally:
            with self.locked("times"):
                content = read_json(self.times) if self.times.exists() else {"preset": self.preset, "steps": {}}
                earlier = {} if is_replaced else content["steps"].get(name, {})
                seconds = time.perf_counter() - counted  # the clock may have been set
                spent = {"seconds": round(earlier.get("seconds", 0.0) + seconds, 1), "machine": machine}
                if not earlier or "spans" in earlier:  # versions before 0.2.0 did not note when a step ran
                    spent["spans"] = [*earlier.get("spans", ()), [round(began, 3), round(began + seconds, 3)]]
                content["steps"][name] = spent
                if self.has_corpus:
                    content["corpus"] = identity(self.corpus)
                write_json(self.times, content)

    def _lock(self, what: str) -> FileLock:
        from filelock import FileLock

        folder = self.out / ".locks"
        folder.mkdir(parents=True, exist_ok=True)
        return FileLock(folder / f"{what.replace(' ', '_')}.lock")

    @contextmanager
    def locked(self, what: str) -> Iterator[None]:
        """Hold a lock on `what` while the body runs; wait if another process holds it."""
        with self.if_free(what) as is_held:
            if is_held:
                yield
                return
        print(f"{what}: waiting for another process that is working on it")
        with self._lock(what):
            yield

    @contextmanager
    def if_free(self, what: str) -> Iterator[bool]:
        """Hold a lock on `what` while the body runs, unless another process holds it; yields whether it is held."""
        from filelock import Timeout

        lock = self._lock(what)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()
