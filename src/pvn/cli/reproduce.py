"""`pvn reproduce`: the paper's results table, from the corpus to the report, as a list of steps.

A step is a command with its options, and the file that the command writes last. It is skipped where that file exists.
So several processes can work in one folder, as long as they are given different systems (`--agent`).
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pvn.cli.corpus import CorpusMake
from pvn.cli.evaluate import Evaluate
from pvn.cli.options import Device, PaperSystemNames
from pvn.cli.train import Train
from pvn.systems import AGENT_FILE, SYSTEMS, TRUE_DISTRIBUTIONS, PaperPreset

if TYPE_CHECKING:
    from pvn.evaluation.summary import Summary
    from pvn.viz.illustrations import Illustration

SIZES = {"paper": 27_965, "quick": 27_965, "literal": 27_965, "smoke": 1_000}
"""Segments of the corpus that is made, by preset."""
LIMITS = {"paper": None, "quick": None, "literal": None, "smoke": 60}
"""Flights over each split, by preset."""
PREDICTING = "pvn"
"""The system whose predictions are evaluated on the development split: the paper's bound, and calibration."""
COMMANDS = {CorpusMake: "pvn corpus make", Train: "pvn train", Evaluate: "pvn evaluate"}


def command_line(verb: Any, name: str) -> str:
    """A command as it is typed: its name, and the options that differ from their defaults."""
    words = shlex.split(name)
    for option in fields(verb):
        value = getattr(verb, option.name)
        default = option.default_factory() if option.default_factory is not MISSING else option.default
        if value != default and value is not None:
            values = value if isinstance(value, tuple) else () if value is True else (value,)
            words += [f"--{option.name.replace('_', '-')}", *map(str, values)]
    return shlex.join(words)


@dataclass(frozen=True)
class Step:
    """A step of the reproduction."""

    name: str
    verb: CorpusMake | Train | Evaluate
    output: Path
    """The file that the command writes last."""
    agent: Path | None = None
    """The agent that flies; an output older than it is outdated."""
    result: str | None = None
    """The name of its result: "pvn_dev", "seed1/pvn_dev"."""

    @property
    def is_finished(self) -> bool:
        """Whether its output is there, and not outdated."""
        if not self.output.exists():
            return False
        return not (self.agent and self.agent.exists() and self.agent.stat().st_mtime > self.output.stat().st_mtime)

    def run(self) -> None:
        """Run the command; an agent that was trained again since flies again."""
        if not isinstance(self.verb, Evaluate):
            self.verb.run()
            if isinstance(self.verb, Train):
                import torch

                # Code compiled for one network is useless for the next, and would fill torch's limited cache.
                torch.compiler.reset()
            return
        if self.result is not None and self.output.exists():
            self.output.with_name(f"{self.output.stem}.safetensors").unlink(missing_ok=True)
        for found in self.verb.evaluate().evaluated:
            print(f"{found.summary.system}, {found.summary.split}: success {found.summary.overall.sr}")


@dataclass(frozen=True, kw_only=True)
class Reproduce:
    """Reproduce the paper's results table: corpus, training and flights of all systems, and a report beside the paper.

    Finished steps are not repeated: give the same command again, and it resumes where it stopped.
    """

    out: Path
    """Folder for corpus, runs, results, figures and report.md; results.json.xz has the figures for programs."""
    preset: PaperPreset = "paper"
    """Which recipe: paper, quick, which takes half the steps, and literal, which has none of our changes, need a GPU;
    smoke shows on a CPU that everything works."""
    device: Device = "cpu"
    """Where to train and fly."""
    agent: PaperSystemNames = ()
    """Only these systems of the table, and the training they need; the report has all that are finished. Several
    commands can work in one folder at the same time if no two train the same system."""
    corpus: Path | None = None
    """A corpus to use instead of the bundled one."""
    size: int | None = None
    """Segments of the corpus that is made; by default the preset's number."""
    limit: int | None = None
    """Fly only this many segments of each split; by default the preset's number."""
    seeds: int = 1
    """Train PVN, no aux, no goal and no DAgger this many times, with seeds 0, 1, ...; the rows that fly with their
    weights are flown as often. The runs and results of seed 1 are in seed1/, and so on."""

    def run(self) -> None:
        """Run the steps that are not finished, and write the report."""
        from pvn.cli.progress import working

        self._check()
        for step in self.steps():
            if step.is_finished:
                print(f"{step.name}: already finished")
                continue
            print(f"{step.name}: starts")
            with self._timed(step.name):
                step.run()
            if isinstance(step.verb, CorpusMake | Train):
                self._note_origin()
        with working("flying and drawing for the report"):
            print(f"report: {self._report()}")

    @property
    def corpus_folder(self) -> Path:
        """Where the corpus is: in the folder, or elsewhere if it is the user's own."""
        return self.corpus or self.out / "corpus"

    @property
    def origin(self) -> Path:
        """A file with the preset and the fingerprint of the corpus of everything in the folder."""
        return self.out / "reproduction.json"

    def runs(self, seed: int) -> Path:
        """One folder for each training run with a seed."""
        return self._of_seed(seed) / "runs"

    def results(self, seed: int) -> Path:
        """Flights and summaries of all systems."""
        return self._of_seed(seed) / "results"

    def _of_seed(self, seed: int) -> Path:
        return self.out if seed == 0 else self.out / f"seed{seed}"

    def stem(self, name: str, split: Any, seed: int = 0) -> Path:
        """Path of results, without the suffix; needs the corpus if the number of flights is limited."""
        from pvn.corpus.store import count_segments
        from pvn.evaluation.evaluate import result_stem

        limit = self.limit or LIMITS[self.preset]
        num_segments = 0 if limit is None else min(limit, count_segments(self.corpus_folder).get(split, 0))
        return result_stem(self.results(seed), name, split, limit, num_segments)

    def finished_everything(self) -> Reproduce:
        """The same for all systems and for all seeds that are in the folder."""
        seeds = [path.name.removeprefix("seed") for path in self.out.glob("seed*")]
        return replace(self, agent=(), seeds=1 + max([0, *(int(seed) for seed in seeds if seed.isdecimal())]))

    def steps(self) -> Iterator[Step]:
        """Every step from the corpus to the report, in an order in which each finds what it needs."""
        if self.corpus is None:
            # Phrases alone: the table is about them, and the corpus then has LANI's size.
            verb = CorpusMake(out=self.corpus_folder, size=self.size or SIZES[self.preset], without=("natural",))
            yield Step("corpus", verb, self.corpus_folder / "corpus.json")
        for seed in range(self.seeds):
            yield from self._training(seed)
            yield from self._flights(seed)
        rows = self._rows()
        for name in self._executed(rows):
            yield self._evaluation(name, "dev", is_true=True)
        if (PREDICTING, "dev") in rows:
            step = self._evaluation(PREDICTING, "dev")
            assert isinstance(step.verb, Evaluate)
            picture = self.results(0) / f"calibration_{self.stem(PREDICTING, 'dev').name}.png"
            bound = replace(step.verb, bound=True)
            yield replace(step, name="evaluate predictions", verb=bound, output=picture, result=None)

    def _rows(self, seed: int = 0) -> list[tuple[str, Any]]:
        """Systems to fly, each with a split; further seeds are only for systems that are close to each other."""
        from pvn.evaluation.comparison import TABLE

        rows = [(name, split) for name, split in TABLE if not self.agent or name in self.agent]
        runs = {row: SYSTEMS[row[0]].run for row in rows}
        return [row for row, run in runs.items() if seed == 0 or (run is not None and SYSTEMS[run].is_close)]

    def _training(self, seed: int) -> Iterator[Step]:
        """Training runs that the rows need; a run whose first stage others take comes before them."""
        runs = [run for name, _ in self._rows(seed) if (run := SYSTEMS[name].run) is not None]
        names = dict.fromkeys(name for run in runs for name in (SYSTEMS[run].stage1_of, run) if name is not None)
        for name in names:
            lender, out = SYSTEMS[name].stage1_of, self.runs(seed) / name
            verb = Train(
                corpus=self.corpus_folder, out=out, agent=name, preset=self.preset, device=self.device, seed=seed,
                stage1_from=None if lender is None else self.runs(seed) / lender, resume=True,
            )  # fmt: skip
            yield Step(f"train {name}{_note(seed)}", verb, out / AGENT_FILE)

    def _flights(self, seed: int) -> Iterator[Step]:
        for name, split in self._rows(seed):
            yield self._evaluation(name, split, seed)

    def _evaluation(self, name: str, split: Any, seed: int = 0, is_true: bool = False) -> Step:
        """Flights of a system; is_true: by true distributions."""
        verb = Evaluate(
            agent=(name,), corpus=self.corpus_folder, split=split, limit=self.limit or LIMITS[self.preset],
            device=self.device, runs=self.runs(seed), out=self.results(seed), true_distributions=is_true,
        )  # fmt: skip
        stem = self.stem(name + TRUE_DISTRIBUTIONS * is_true, split, seed)
        run = SYSTEMS[name].run
        return Step(
            name=f"evaluate {name} {split}{' by true distributions' * is_true}{_note(seed)}",
            verb=verb,
            output=stem.with_name(f"{stem.name}.json"),  # with_suffix would take ".7_dev" for a suffix
            agent=None if run is None else self.runs(seed) / run / AGENT_FILE,
            result=f"seed{seed}/" * (seed > 0) + f"{name}{TRUE_DISTRIBUTIONS * is_true}_{split}",
        )

    @staticmethod
    def _executed(rows: list[tuple[str, Any]]) -> list[str]:
        """Systems whose second stage is flown by true distributions, too; another height would not change it."""
        systems = [SYSTEMS[name] for name, split in rows if split == "dev"]
        return [
            system.name
            for system in systems
            if system.run is not None
            and system.flies_by_distributions
            and not system.flight_changes.has_ideal_act
            and system.flight_changes.altitude is None
        ]

    def commands(self) -> tuple[str, ...]:
        """The same as commands that can be run one by one."""
        verbs = (
            replace(step.verb, resume=False) if isinstance(step.verb, Train) else step.verb for step in self.steps()
        )
        return (*(command_line(verb, COMMANDS[type(verb)]) for verb in verbs), command_line(self, "pvn reproduce"))

    def _report(self) -> Path:
        """Draw the figures and write the report, of all systems that are finished; returns its path."""
        from pvn.corpus.store import count_segments, origin
        from pvn.evaluation.intervals import Bootstrap
        from pvn.evaluation.summary import read_summary, write_summaries
        from pvn.learning.checkpoint import read_json
        from pvn.viz.results_page import Provenance, write_report

        steps = {step.name: step for step in self.finished_everything().steps()}
        results = {
            step.result: read_summary(step.output) for step in steps.values() if step.result and step.is_finished
        }
        write_summaries(self.out / "results.json.xz", results)
        # Not hidden ones: a kill may have left one of these half written.
        times = [read_json(path) for path in (self.out / "times").glob("[!.]*.json")]
        times = sorted(times, key=lambda one: list(steps).index(one["step"]) if one["step"] in steps else len(steps))
        provenance = Provenance(
            preset=self.preset,
            corpus=f"the corpus {self.corpus.name}" if self.corpus else "the bundled corpus",
            commands=self.commands(),
            seeds={
                "corpus": int(origin(self.corpus_folder).get("seed", 0)),
                "training": 0,
                "intervals": Bootstrap().seed,
            },
            seconds={one["step"]: one["seconds"] for one in times},
            machines={
                name: [one["step"] for one in times if one["machine"] == name]
                for name in dict.fromkeys(one["machine"] for one in times)
            },
            num_training=count_segments(self.corpus_folder).get("train", 0),
        )
        path = self.out / "report.md"
        write_report(path, results, provenance, self._illustrations(results, steps))
        return path

    def _illustrations(self, results: Mapping[str, Summary], steps: Mapping[str, Step]) -> list[Illustration]:
        """The figures about systems and their flights."""
        from pvn.corpus.store import read_corpus
        from pvn.evaluation.comparison import table_rows
        from pvn.evaluation.flights import read_flights
        from pvn.evaluation.pilots import load_pilot
        from pvn.learning.checkpoint import read_json
        from pvn.viz.illustrations import illustrate_flights, illustrate_prediction_quality, illustrate_results

        figures, runs, stem = self.out / "figures", self.runs(0), self.stem(PREDICTING, "dev")
        summaries = [own[0] for own in table_rows(results).values() if 0 in own]
        illustrations = illustrate_results(figures, summaries, runs)
        if f"{PREDICTING}_dev" in results:
            pilot = load_pilot(PREDICTING, runs=runs, device=self.device)
            flights, _ = read_flights(stem.with_name(f"{stem.name}.safetensors"))
            segments = read_corpus(self.corpus_folder, ("dev",))["dev"]
            illustrations += illustrate_flights(figures, segments, flights, pilot, device=self.device)
        if steps["evaluate predictions"].is_finished:
            report = read_json(stem.with_name(f"bound_{stem.name}.json"))
            illustrations.append(illustrate_prediction_quality(steps["evaluate predictions"].output, report))
        return illustrations

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        """Note how long a step took, all attempts together, in a file of the step's."""
        from pvn.learning.checkpoint import read_json, write_json
        from pvn.viz.results_page import describe_machine

        path, began = self.out / "times" / f"{name.replace(' ', '_')}.json", time.perf_counter()
        try:
            yield
        finally:
            earlier = read_json(path)["seconds"] if path.exists() else 0.0
            seconds = earlier + time.perf_counter() - began
            write_json(path, {"step": name, "seconds": round(seconds, 1), "machine": describe_machine(self.device)})

    def _note_origin(self) -> None:
        from pvn.corpus.store import identity
        from pvn.learning.checkpoint import write_json

        write_json(self.origin, {"preset": self.preset, "corpus": identity(self.corpus_folder)})

    def _check(self) -> None:
        """Refuse options that contradict each other, or what is in the folder."""
        from pvn.corpus.store import identity
        from pvn.learning.checkpoint import read_json
        from pvn.simulator.simulator import checked_device

        checked_device(self.device)
        for name, value in (("size", self.size), ("limit", self.limit), ("seeds", self.seeds)):
            if value is not None and value < 1:
                raise ValueError(f"{name}: got {value}, expected at least 1")
        if self.corpus is not None:
            self._check_own_corpus(self.corpus)
        there = read_json(self.origin) if self.origin.exists() else {"preset": self.preset}
        if there["preset"] != self.preset:
            raise ValueError(
                f"preset: got {self.preset}, but {self.out} holds a reproduction with preset {there['preset']}; "
                "use that, or choose another --out"
            )
        if (self.corpus_folder / "corpus.json").exists():
            if there.get("corpus", identity(self.corpus_folder)) != identity(self.corpus_folder):
                raise ValueError(
                    f"{self.out}: holds a reproduction with another corpus than {self.corpus_folder}; use that one, or "
                    "choose another --out"
                )
            self._check_made()

    def _check_own_corpus(self, corpus: Path) -> None:
        """Refuse a user's corpus without the splits that are trained on and flown."""
        from pvn.corpus.store import count_segments

        if self.size is not None:
            raise ValueError(f"size: got {self.size} with --corpus, which has its own; leave one of them out")
        counts = count_segments(corpus)
        missing = sorted({"train", *(split for _, split in self._rows())} - {*counts})
        if missing:
            raise ValueError(f"{corpus}: has no segments in split {missing[-1]}, expected some to train on and fly")

    def _check_made(self) -> None:
        """Refuse a folder whose corpus or runs were made otherwise."""
        from pvn.corpus.store import origin

        made, size = origin(self.corpus_folder), self.size or SIZES[self.preset]
        if self.corpus is None and ("natural" in made or made.get("size") != size):
            also = " and natural instructions" if "natural" in made else ""
            raise ValueError(
                f"{self.corpus_folder}: made with size {made.get('size')}{also}, expected size {size} without natural "
                "instructions; give that --size, or choose another --out"
            )
        runs = [step for seed in range(self.seeds) for step in self._training(seed)]
        if not all(step.is_finished for step in runs):
            for step in runs:  # a table compares runs of one recipe
                assert isinstance(step.verb, Train)
                step.verb.check_recipe()


def _note(seed: int) -> str:
    return "" if seed == 0 else f", seed {seed}"
