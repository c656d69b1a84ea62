"""Verbs that reproduce the paper's results: `pvn reproduce`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pvn.cli.corpora import CorpusMake
from pvn.cli.evaluating import Evaluate
from pvn.cli.options import Device
from pvn.cli.training import Train

if TYPE_CHECKING:
    from pvn.evaluation.summary import Summary

SIZES = {"paper": 27_965, "smoke": 1_000}
"""Segments of the corpus that is made, by preset."""
LIMITS = {"paper": None, "smoke": 60}
"""Flights over each split, by preset."""
JUDGED: tuple[str, Literal["dev"]] = ("pvn", "dev")
"""Whose predictions are judged: the paper's bound, and calibration."""


@dataclass(frozen=True)
class Step:
    """A step of the reproduction."""

    name: str
    act: Callable[[], object]
    is_finished: Callable[[], bool]


def _learn(train: Train) -> None:
    import torch

    train.run()
    # What was compiled for one network does not serve the next, and only so much of it is kept at once.
    torch.compiler.reset()


def _judge(evaluate: Evaluate) -> None:
    for summary in evaluate.judge().summaries:
        rate = summary.overall.sr
        print(f"{summary.system}, {summary.split}: success {rate.value:.1f}% ({rate.low:.1f} to {rate.high:.1f})")


@dataclass(frozen=True, kw_only=True)
class Reproduce:
    """Make the paper's results table: corpus, training of all systems, their flights, and a report beside the paper's.

    What is finished is not done again, and what was interrupted goes on: give the same command once more.
    """

    out: Path
    """Folder for corpus, runs, results, times.json and report.md."""
    preset: Literal["paper", "smoke"] = "paper"
    """Which recipe: paper wants a GPU; smoke shows on a CPU that everything works."""
    device: Device = "cpu"
    """Where to train and fly."""
    systems: tuple[str, ...] = ()
    """Only these systems of the table, and the training they need; the report has all that are finished."""
    corpus: Path | None = None
    """A corpus to use instead of the one in the box."""
    size: int | None = None
    """Segments of the corpus that is made, if not the preset's."""
    limit: int | None = None
    """Only the first so many segments of each split are flown, if not the preset's."""

    @property
    def _corpus(self) -> Path:
        return self.corpus or self.out / "corpus"

    @property
    def _runs(self) -> Path:
        return self.out / "runs"

    @property
    def _results(self) -> Path:
        return self.out / "results"

    @property
    def _size(self) -> int:
        return self.size or SIZES[self.preset]

    @property
    def _limit(self) -> int | None:
        return self.limit or LIMITS[self.preset]

    def _rows(self) -> list[tuple[str, Any]]:
        """Systems and splits to fly."""
        import difflib

        from pvn.evaluation.paper import TABLE

        names = list(dict.fromkeys(name for name, _ in TABLE))
        for system in self.systems:
            if system not in names:
                near = difflib.get_close_matches(system, names, 1)
                meant = f"; did you mean {near[0]}?" if near else ""
                raise ValueError(f"system: got {system!r}, expected one of {', '.join(names)}{meant}")
        return [(name, split) for name, split in TABLE if not self.systems or name in self.systems]

    def _trained(self) -> list[str]:
        """Training runs that the systems need."""
        from pvn.evaluation.paper import run_of

        runs = [run_of(name) for name, _ in self._rows()]
        needed = [other for run in runs if run is not None for other in (self._lender(run), run) if other is not None]
        return list(dict.fromkeys(needed))

    def _lender(self, run: str) -> str | None:
        """The run whose stage 1 a run takes."""
        from pvn.evaluation.systems import SAME_STAGE1

        return "pvn" if run in SAME_STAGE1 else None

    def _stem(self, system: str, split: Any) -> Path:
        """Where results of a system are, without the ending."""
        from pvn.corpus.store import count_segments

        flown = "" if self._limit is None else f"_{min(self._limit, count_segments(self._corpus).get(split, 0))}"
        return self._results / f"{system}_{split}{flown}"

    def _has_results(self, system: str, split: Any) -> bool:
        """Whether all was flown and judged; not if the agent was trained anew since."""
        from pvn.evaluation.paper import run_of

        summary = self._stem(system, split).with_suffix(".json")
        agent = self._runs / str(run_of(system)) / "agent.safetensors"
        return summary.exists() and not (agent.exists() and agent.stat().st_mtime > summary.stat().st_mtime)

    def _fly_again(self, evaluate: Evaluate, stem: Path) -> None:
        """Fly and judge; flights of an agent that was trained anew since are not gone on with."""
        if stem.with_suffix(".json").exists():  # all was flown, and yet it is not finished
            for suffix in (".safetensors", ".json"):
                stem.with_suffix(suffix).unlink(missing_ok=True)
        _judge(evaluate)

    def _judgement(self) -> tuple[Path, Path]:
        """Report and picture of what PVN's predictions are worth."""
        stem = self._stem(*JUDGED).name
        return self._results / f"bound_{stem}.json", self._results / f"calibration_{stem}.png"

    def _is_judged(self) -> bool:
        """Whether the predictions were judged; not if the agent was trained anew since."""
        report, picture = self._judgement()
        agent = self._runs / JUDGED[0] / "agent.safetensors"
        return picture.exists() and report.exists() and report.stat().st_mtime >= agent.stat().st_mtime

    def steps(self) -> Iterator[Step]:
        """Every step up to the report, in order."""
        if self.corpus is None:
            made = CorpusMake(out=self._corpus, size=self._size)
            yield Step("corpus", made.run, (self._corpus / "corpus.json").exists)
        for run in self._trained():
            system: Any = run
            lender = self._lender(run)
            trained = Train(
                corpus=self._corpus, out=self._runs / run, system=system, preset=self.preset, device=self.device,
                stage1=self._runs / lender if lender else None, resume=True,
            )  # fmt: skip
            yield Step(f"train {run}", partial(_learn, trained), (self._runs / run / "agent.safetensors").exists)
        for name, split in self._rows():
            flown = Evaluate(
                systems=(name,), corpus=self._corpus, split=split, limit=self._limit, device=self.device,
                runs=self._runs, out=self._results,
            )  # fmt: skip
            act = partial(self._fly_again, flown, self._stem(name, split))
            yield Step(f"evaluate {name} {split}", act, partial(self._has_results, name, split))
        if JUDGED in self._rows():
            judged = replace(flown, systems=JUDGED[:1], split=JUDGED[1], bound=True)
            yield Step("judge predictions", partial(_judge, judged), self._is_judged)

    def commands(self) -> tuple[str, ...]:
        """The same as commands that one can run line by line."""
        lines = [] if self.corpus else [f"pvn corpus make --size {self._size} --out {self._corpus}"]
        lines += [
            f"pvn train --system {run} --preset {self.preset} --corpus {self._corpus} --out {self._runs / run} "
            f"--device {self.device}" + (f" --stage1 {self._runs / lender}" if (lender := self._lender(run)) else "")
            for run in self._trained()
        ]
        limit = "" if self._limit is None else f" --limit {self._limit}"
        for split in dict.fromkeys(split for _, split in self._rows()):
            names = " ".join(name for name, own in self._rows() if own == split)
            lines.append(
                f"pvn evaluate {names} --corpus {self._corpus} --split {split} --runs {self._runs} "
                f"--out {self._results} --device {self.device}{limit}"
            )
        if JUDGED in self._rows():
            lines.append(
                f"pvn evaluate {JUDGED[0]} --bound --corpus {self._corpus} --split {JUDGED[1]} --runs {self._runs} "
                f"--out {self._results} --device {self.device}{limit}"
            )
        return (*lines, self._command())

    def _command(self) -> str:
        """This very command."""
        given = {"corpus": self.corpus, "size": self.size, "limit": self.limit}
        options = "".join(f" --{name} {value}" for name, value in given.items() if value is not None)
        systems = f" --systems {' '.join(self.systems)}" if self.systems else ""
        return f"pvn reproduce --out {self.out} --preset {self.preset} --device {self.device}{systems}{options}"

    def _check_corpus(self) -> None:
        """Refuse a corpus that lacks what is trained on and flown."""
        from pvn.corpus.segments import SPLITS
        from pvn.corpus.store import count_segments

        if self.corpus is None:
            return
        if self.size is not None:
            raise ValueError(f"size: got {self.size} with --corpus, which has its own; leave one of them out")
        counts, needed = count_segments(self.corpus), {"train", *(split for _, split in self._rows())}
        missing = [split for split in SPLITS if split in needed and not counts.get(split)]
        if missing:
            raise ValueError(f"{self.corpus}: has no segments in split {missing[0]}, expected some to train and fly")

    def _check(self) -> None:
        """Refuse what does not belong together."""
        from pvn.corpus.store import identity, origin
        from pvn.learning.checkpoint import read_json
        from pvn.simulator.simulator import checked_device

        checked_device(self.device)
        for name, value in (("size", self.size), ("limit", self.limit)):
            if value is not None and value < 1:
                raise ValueError(f"{name}: got {value}, expected at least 1")
        self._check_corpus()
        if (self.out / "times.json").exists():
            noted = read_json(self.out / "times.json")
            if noted.get("preset") != self.preset:
                raise ValueError(
                    f"{self.out}: holds a reproduction with preset {noted.get('preset')}; choose another --out"
                )
            made = (self._corpus / "corpus.json").exists()
            if made and noted.get("corpus", identity(self._corpus)) != identity(self._corpus):
                raise ValueError(f"{self.out}: holds a reproduction with another corpus; choose another --out")
        if self.corpus is None and (self._corpus / "corpus.json").exists():
            size = origin(self._corpus).get("size")
            if size != self._size:
                raise ValueError(
                    f"{self._corpus}: made with size {size}, expected {self._size}; give --size {size}, or choose "
                    "another --out"
                )

    @contextmanager
    def _timed(self, name: str, is_anew: bool = False) -> Iterator[None]:
        """Add the wall time of what is done meanwhile to times.json, interrupted or not; anew: take its place."""
        from pvn.corpus.store import identity
        from pvn.learning.checkpoint import read_json, write_json
        from pvn.report.results_page import describe_machine

        began, machine = time.perf_counter(), describe_machine(self.device)
        try:
            yield
        finally:
            path = self.out / "times.json"
            with self._alone("times"):
                content = read_json(path) if path.exists() else {"preset": self.preset, "steps": {}}
                earlier = 0.0 if is_anew else content["steps"].get(name, {}).get("seconds", 0.0)
                spent = earlier + time.perf_counter() - began
                content["steps"][name] = {"seconds": round(spent, 1), "machine": machine}
                if (self._corpus / "corpus.json").exists():
                    content["corpus"] = identity(self._corpus)
                write_json(path, content)

    @contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        """Wait until no other process is at this in the folder, and keep others from it."""
        from filelock import FileLock, Timeout

        folder = self.out / ".locks"
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f"{what.replace(' ', '_')}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            print(f"{what}: another process is at it, and this one waits")
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def _summaries(self) -> list[Summary]:
        """Results of all systems that are finished, whoever was asked for now."""
        from pvn.evaluation.paper import TABLE
        from pvn.evaluation.summary import Summary

        paths = [self._stem(*row).with_suffix(".json") for row in TABLE if self._has_results(*row)]
        return [Summary.from_json(json.loads(path.read_text(encoding="utf-8"))) for path in paths]

    def _report(self) -> None:
        """Draw the figures and write the report."""
        from pvn.corpus.store import origin, read_corpus
        from pvn.evaluation.flights import read_flights
        from pvn.evaluation.intervals import Bootstrap
        from pvn.evaluation.systems import make_system
        from pvn.learning import presets
        from pvn.learning.checkpoint import read_json
        from pvn.report.illustrations import illustrate_flights, illustrate_judgement, illustrate_results
        from pvn.report.results_page import Provenance, StepTime, write_report

        summaries, figures = self._summaries(), self.out / "figures"
        with self._timed("figures", is_anew=True):
            illustrations = illustrate_results(figures, summaries, self._runs)
            flown = self._stem("pvn", "dev").with_suffix(".safetensors")
            if any((summary.system, summary.split) == ("pvn", "dev") for summary in summaries):
                system = make_system("pvn", runs=self._runs, device=self.device)
                segments = read_corpus(self._corpus, ("dev",))["dev"]
                illustrations += illustrate_flights(
                    figures, segments, read_flights(flown)[0], system, device=self.device
                )
        report, picture = self._judgement()
        if report.exists() and picture.exists():
            illustrations.append(illustrate_judgement(picture, read_json(report)))
        times = read_json(self.out / "times.json")["steps"]
        provenance = Provenance(
            preset=self.preset,
            corpus=f"the corpus {self.corpus.name}" if self.corpus else "the corpus in the box",
            commands=self.commands(),
            seeds={
                "corpus": int(origin(self._corpus).get("seed", 0)),
                "training": presets.paper().stage1.seed,
                "intervals": Bootstrap().seed,
            },
            times={name: StepTime(**spent) for name, spent in times.items()},
        )
        write_report(self.out / "report.md", summaries, provenance, illustrations)

    def run(self) -> None:
        """Do what is not finished, and write the report."""
        self._check()
        for step in self.steps():
            with self._alone(step.name):
                if step.is_finished():
                    print(f"{step.name}: finished before")
                    continue
                print(f"{step.name}: begins")
                with self._timed(step.name):
                    step.act()
        with self._alone("report"):
            self._report()
        print(f"report: {self.out / 'report.md'}")
