"""`pvn reproduce`: the paper's results table, from the corpus to the report."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from pvn.cli.corpus import CorpusMake
from pvn.cli.evaluate import Evaluate
from pvn.cli.options import Device, PaperSystemNames
from pvn.cli.reproduction_folder import PREDICTING, ReproductionFolder
from pvn.cli.train import Train
from pvn.systems import SYSTEMS, TRUE_DISTRIBUTIONS, PaperPreset

SIZES = {"paper": 27_965, "quick": 27_965, "literal": 27_965, "smoke": 1_000}
"""Segments of the corpus that is made, by preset."""
LIMITS = {"paper": None, "quick": None, "literal": None, "smoke": 60}
"""Flights over each split, by preset."""
WAITING_S = 1.0
"""Seconds between two looks for a step that can be taken."""


@dataclass(frozen=True)
class Step:
    """A step of the reproduction."""

    name: str
    act: Callable[[], object]
    is_finished: Callable[[], bool]
    is_ready: Callable[[], bool] = lambda: True
    """Whether what it needs of other steps is there."""


def _train(verb: Train) -> None:
    import torch

    verb.run()
    # Code compiled for one network is useless for the next, and would fill torch's limited cache.
    torch.compiler.reset()


def _evaluate(verb: Evaluate) -> None:
    for found in verb.evaluate().evaluated:
        summary, rate = found.summary, found.summary.overall.sr
        print(f"{summary.system}, {summary.split}: success {rate.value:.1f}% {rate.bracket()}")


def _evaluate_afresh(verb: Evaluate, folder: ReproductionFolder, system: str, split: str) -> None:
    """Resume an evaluation; flights of an agent that was trained again since are deleted first."""
    if folder.summary(system, split).exists():  # everything was flown, and yet the step is not finished
        folder.flights(system, split).unlink(missing_ok=True)
        folder.summary(system, split).unlink()
    _evaluate(verb)


def _help(reproduction: Reproduce, log: Path) -> None:
    """Take steps of a reproduction beside the process that began it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        for stream in (sys.stdout, sys.stderr):  # those of the processes that it starts, too
            os.dup2(file.fileno(), stream.fileno())
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    reproduction.take_steps()


@dataclass(frozen=True, kw_only=True)
class Reproduce:
    """Reproduce the paper's results table: corpus, training and flights of all systems, and a report beside the paper.

    Finished steps are not repeated: give the same command again, and it resumes where it stopped.
    """

    out: Path
    """Folder for corpus, runs, results, times.json and report.md."""
    preset: PaperPreset = "paper"
    """Which recipe: paper, quick, which takes half the steps, and literal, which has none of our changes, need a GPU;
    smoke shows on a CPU that everything works."""
    device: Device = "cpu"
    """Where to train and fly."""
    agent: PaperSystemNames = ()
    """Only these systems of the table, and the training they need; the report has all that are finished."""
    corpus: Path | None = None
    """A corpus to use instead of the bundled one."""
    size: int | None = None
    """Segments of the corpus that is made; by default the preset's number."""
    limit: int | None = None
    """Fly only this many segments of each split; by default the preset's number."""
    seeds: int = 1
    """Train PVN, no aux, no goal and no DAgger this many times, with seeds 0, 1, ...; the rows that fly with their
    weights are flown as often. The runs and results of seed 1 are in seed1/, and so on."""
    jobs: int = 1
    """Steps at a time, each in a process of its own. What the others print is in logs/job1.log, and so on."""

    def run(self) -> None:
        """Run the steps that are not finished, and write the report."""
        from pvn.cli.progress import working
        from pvn.processes import beside

        self._check()
        if self.corpus is None:
            with self.folder.locked("corpus"):
                self._take(Step("corpus", self._corpus_made.run, lambda: self.folder.has_corpus))
        logs = [self.out / "logs" / f"job{job}.log" for job in range(1, self.jobs)]
        with beside([partial(_help, self, log) for log in logs]) as helpers:
            self.take_steps()
        for helper, log in zip(helpers, logs, strict=True):
            if helper.exitcode:
                print(f"{log}: the process that writes here failed; its steps were taken over")
        with self.folder.locked("report"), working("flying and drawing for the report"):
            from pvn.cli.reproduction_report import report_reproduction

            report = report_reproduction(
                self.folder,
                corpus=f"the corpus {self.corpus.name}" if self.corpus else "the bundled corpus",
                commands=self.commands(),
                seed=Train.seed,
                device=self.device,
            )
        print(f"report: {report}")

    def take_steps(self) -> None:
        """Run every step that is not finished; those that other processes are working on are left to them.

        A step whose process ends without finishing it is taken over.
        """
        left, said = list(self.steps()), set[str]()
        while left:
            elsewhere = []  # steps that other processes are working on
            for step in left:
                with self.folder.if_free(step.name) as is_mine:
                    if not is_mine:
                        elsewhere.append(step.name)
                    elif step.is_ready():
                        self._take(step)
                        left.remove(step)
                        break
            else:
                if not elsewhere:
                    raise ValueError(
                        f"{left[0].name}: what it needs is not in {self.out}, though the steps before it are finished; "
                        "expected that nothing there is deleted or changed meanwhile, or dated in the future; give the "
                        "same command again"
                    )
                if elsewhere[0] not in said:
                    print(f"{elsewhere[0]}: waiting for another process that is working on it")
                    said.add(elsewhere[0])
                time.sleep(WAITING_S)

    def _take(self, step: Step) -> None:
        """Run a step that nobody else works on, unless it is finished."""
        if step.is_finished():
            print(f"{step.name}: already finished")
            return
        print(f"{step.name}: starts")
        with self.folder.timed(step.name, self.device):
            step.act()

    @cached_property
    def folder(self) -> ReproductionFolder:
        """Where everything is."""
        return ReproductionFolder(
            out=self.out,
            corpus=self.corpus or self.out / "corpus",
            preset=self.preset,
            limit=self.limit or LIMITS[self.preset],
        )

    @property
    def _size(self) -> int:
        return self.size or SIZES[self.preset]

    @property
    def _corpus_made(self) -> CorpusMake:
        """The corpus of the table: phrases alone, as LANI's size and the results so far are about."""
        return CorpusMake(out=self.folder.corpus, size=self._size, without=("natural",))

    @property
    def _folders(self) -> list[ReproductionFolder]:
        """Where runs and results are, one for each seed."""
        return [replace(self.folder, seed=seed) for seed in range(self.seeds)]

    def _rows(self, seed: int = 0) -> list[tuple[str, Any]]:
        """Systems to fly, each with a split."""
        from pvn.evaluation.paper import TABLE

        rows = [(name, split) for name, split in TABLE if not self.agent or name in self.agent]
        runs = {row: SYSTEMS[row[0]].run for row in rows}
        return [row for row, run in runs.items() if seed == 0 or (run is not None and SYSTEMS[run].is_close)]

    def _runs(self, seed: int = 0) -> list[str]:
        """Training runs that those systems need, those first whose stage 1 others take."""
        runs = [run for name, _ in self._rows(seed) if (run := SYSTEMS[name].run) is not None]
        return list(dict.fromkeys(name for run in runs for name in (SYSTEMS[run].stage1_of, run) if name is not None))

    def _training(self, run: str, folder: ReproductionFolder) -> Train:
        lender = SYSTEMS[run].stage1_of
        return Train(
            corpus=folder.corpus, out=folder.runs / run, agent=run, preset=self.preset, device=self.device,
            seed=folder.seed, stage1_from=None if lender is None else folder.runs / lender, resume=True,
        )  # fmt: skip

    def _evaluation(self, names: tuple[str, ...], split: Any, folder: ReproductionFolder) -> Evaluate:
        return Evaluate(
            agent=names, corpus=folder.corpus, split=split, limit=folder.limit, device=self.device, runs=folder.runs,
            out=folder.results,
        )  # fmt: skip

    def _executed(self) -> list[str]:
        """Systems whose second stage is flown by true distributions, too; another height would not change it."""
        rows = [SYSTEMS[name] for name, split in self._rows() if split == "dev"]
        return [
            system.name
            for system in rows
            if system.run is not None
            and SYSTEMS[system.run].training == "two stages"
            and not system.flight_changes.has_ideal_act
            and system.flight_changes.altitude is None
        ]

    def steps(self) -> Iterator[Step]:
        """Every step between corpus and report; those that others need come before them."""
        for folder in self._folders:
            yield from self._steps_of(folder)

    def _steps_of(self, folder: ReproductionFolder) -> Iterator[Step]:
        """Training and flights with one seed."""
        rows, note = self._rows(folder.seed), "" if folder.seed == 0 else f", seed {folder.seed}"
        for run in self._runs(folder.seed):
            act = partial(_train, self._training(run, folder))
            is_ready = partial(folder.has_agent, SYSTEMS[run].stage1_of)
            yield Step(f"train {run}{note}", act, folder.agent(run).exists, is_ready)
        for name, split in rows:
            act = partial(_evaluate_afresh, self._evaluation((name,), split, folder), folder, name, split)
            done, is_ready = partial(folder.has_results, name, split), partial(folder.has_agent, SYSTEMS[name].run)
            yield Step(f"evaluate {name} {split}{note}", act, done, is_ready)
        for name in self._executed() if folder.seed == 0 else ():
            verb = replace(self._evaluation((name,), "dev", folder), true_distributions=True)
            act = partial(_evaluate_afresh, verb, folder, f"{name}{TRUE_DISTRIBUTIONS}", "dev")
            done = partial(folder.has_results, name, "dev", TRUE_DISTRIBUTIONS)
            is_ready = partial(folder.has_agent, SYSTEMS[name].run)
            yield Step(f"evaluate {name} dev by true distributions", act, done, is_ready)
        if PREDICTING in rows and folder.seed == 0:
            verb = replace(self._evaluation(PREDICTING[:1], PREDICTING[1], folder), bound=True)
            done, is_ready = partial(folder.has_predictions, *PREDICTING), partial(folder.has_flown, *PREDICTING)
            yield Step("evaluate predictions", partial(_evaluate, verb), done, is_ready)

    def commands(self) -> tuple[str, ...]:
        """The same as commands that can be run one by one."""
        corpus = self.folder.corpus
        lines = [] if self.corpus else [f"pvn corpus make --size {self._size} --without natural --out {corpus}"]
        return (*lines, *(line for folder in self._folders for line in self._commands_of(folder)), self._command())

    def _commands_of(self, folder: ReproductionFolder) -> Iterator[str]:
        """Training and flights with one seed."""
        rows, where = self._rows(folder.seed), f"--device {self.device}"
        seed = "" if folder.seed == 0 else f" --seed {folder.seed}"
        for run in self._runs(folder.seed):
            lender = SYSTEMS[run].stage1_of
            yield (
                f"pvn train --agent {run} --preset {self.preset} --corpus {folder.corpus} --out {folder.runs / run} "
                + where
                + seed
                + ("" if lender is None else f" --stage1-from {folder.runs / lender}")
            )
        limit = "" if folder.limit is None else f" --limit {folder.limit}"
        groups = {
            split: " ".join(name for name, own in rows if own == split)
            for split in dict.fromkeys(split for _, split in rows)
        }
        evaluations = [(names, split, "") for split, names in groups.items()]
        if folder.seed == 0 and (executed := self._executed()):
            evaluations.append((" ".join(executed), "dev", " --true-distributions"))
        if PREDICTING in rows and folder.seed == 0:
            evaluations.append((*PREDICTING, " --bound"))
        for names, split, option in evaluations:
            yield (
                f"pvn evaluate --agent {names} --corpus {folder.corpus} --split {split} --runs {folder.runs} "
                f"--out {folder.results} {where}{limit}{option}"
            )

    def _command(self) -> str:
        """This very command."""
        seeds, jobs = (None if number == 1 else number for number in (self.seeds, self.jobs))
        given = {"corpus": self.corpus, "size": self.size, "limit": self.limit, "seeds": seeds, "jobs": jobs}
        options = "".join(f" --{name} {value}" for name, value in given.items() if value is not None)
        agents = f" --agent {' '.join(self.agent)}" if self.agent else ""
        return f"pvn reproduce --out {self.out} --preset {self.preset} --device {self.device}{agents}{options}"

    def _check(self) -> None:
        """Refuse options that contradict each other, or what is in the folder."""
        from pvn.corpus.store import origin
        from pvn.simulator.simulator import checked_device

        checked_device(self.device)
        for name, value in (("size", self.size), ("limit", self.limit), ("seeds", self.seeds), ("jobs", self.jobs)):
            if value is not None and value < 1:
                raise ValueError(f"{name}: got {value}, expected at least 1")
        if self.corpus is not None:
            self._check_corpus(self.corpus)
        self.folder.check_same()
        if self.corpus is None and self.folder.has_corpus:
            if "natural" in origin(self.folder.corpus):
                raise ValueError(
                    f"{self.folder.corpus}: has natural instructions, expected phrases alone, as the table's other "
                    "results; make it again with --without natural, or choose another --out"
                )
            size = origin(self.folder.corpus).get("size")
            if size != self._size:
                raise ValueError(
                    f"{self.folder.corpus}: made with size {size}, expected {self._size}; add --size {size}, or choose "
                    "another --out"
                )
        runs = [(run, folder) for folder in self._folders for run in self._runs(folder.seed)]
        if self.folder.has_corpus and not all(folder.agent(run).exists() for run, folder in runs):
            for run, folder in runs:  # a table compares runs of one recipe
                self._training(run, folder).check_recipe()

    def _check_corpus(self, corpus: Path) -> None:
        """Refuse a corpus without the splits that are trained on and flown."""
        from pvn.corpus.segments import SPLITS
        from pvn.corpus.store import count_segments

        if self.size is not None:
            raise ValueError(f"size: got {self.size} with --corpus, which has its own; leave one of them out")
        counts, needed = count_segments(corpus), {"train", *(split for _, split in self._rows())}
        missing = [split for split in SPLITS if split in needed and not counts.get(split)]
        if missing:
            raise ValueError(f"{corpus}: has no segments in split {missing[0]}, expected some to train on and fly")
