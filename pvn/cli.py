"""The command line: one frozen dataclass for each verb, which is its options, its help and its defaults at once.

Nothing heavy is imported before a verb runs, so that help is there at once.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.conf import OmitArgPrefixes, OmitSubcommandPrefixes, Positional, configure, subcommand

Device = Literal["cpu", "cuda"]
Pilot = Literal["oracle", "stop", "average"]
Split = Literal["train", "dev", "test"]


@dataclass(frozen=True, kw_only=True)
class Fly:
    """Fly a tour through a random field and draw every flight."""

    seed: int = 0
    """Which field and paragraph; the same seed gives the same flights."""
    pilot: Pilot = "oracle"
    """Who flies: oracle follows the demonstrated path, stop stays, average flies straight on."""
    device: Device = "cpu"
    """Where to simulate."""
    quality: Literal["fast", "full"] = "full"
    """How the drone sees: full has smooth edges and shadows, fast is four times faster."""
    out: Path = Path("pictures")
    """Folder for the pictures."""

    def run(self) -> None:
        """Fly, draw, and say what happened."""
        from rich.console import Console
        from rich.progress import track
        from rich.table import Table

        from pvn.app.figures import draw_flight, fly_with_frames
        from pvn.corpus.meadow import sample_paragraph
        from pvn.corpus.oracle import Oracle
        from pvn.corpus.pilots import Average, Stop
        from pvn.simulator.simulator import SimulatorConfig
        from pvn.world.task import SUCCESS_M

        console = Console()
        with console.status("compiling (the first time only) and flying"):
            tasks = [segment.task for segment in sample_paragraph(self.seed)]
            policy = {"oracle": Oracle, "stop": Stop, "average": Average}[self.pilot]()
            config = SimulatorConfig(quality=self.quality)
            log, frames = fly_with_frames(tasks, policy, device=self.device, config=config)
        paths = [self.out / f"flight_seed{self.seed}_{index + 1}.png" for index in range(len(tasks))]
        for index in track(range(len(tasks)), "drawing", console=console):
            draw_flight(paths[index], tasks[index], log, frames, index)
        distance, flown = log.goal_distance(tasks), log.distance_flown()
        table = Table(title=f"{self.pilot} in field {self.seed}")
        for heading in ("", "instruction", "steps", "flown", "ends"):
            table.add_column(heading, justify="right" if heading in ("", "steps", "flown") else "left")
        for index, task in enumerate(tasks):
            verdict = "success" if log.has_stopped[index] and distance[index] < SUCCESS_M else "failure"
            table.add_row(
                str(index + 1),
                task.instruction,
                str(int(log.num_steps[index])),
                f"{float(flown[index]):.1f} m",
                f"{float(distance[index]):.1f} m from the goal: {verdict}",
            )
        console.print(table)
        for path in paths:
            print(f"picture: {path}")


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """Draw the contact sheet of all 63 landmark classes, from the front and from above."""

    out: Path = Path("pictures/catalogue.png")
    """File for the picture."""
    names: tuple[str, ...] = ()
    """Only these classes."""

    def run(self) -> None:
        """Draw, and say where."""
        from pvn.app.catalogue import draw_catalogue
        from pvn.app.saving import picture_path
        from pvn.world.landmarks import LANDMARK_NAMES

        draw_catalogue(picture_path(self.out), self.names or LANDMARK_NAMES)
        print(f"landmark classes: {self.out}")


@dataclass(frozen=True, kw_only=True)
class Field:
    """Draw a field from above, and what a drone sees on an oracle flight through it."""

    seed: int = 0
    """Which random field, and which flights through it."""
    file: Path | None = None
    """Draw the field in this LANI environment file (random_config_N.json) instead of a random one."""
    out: Path | None = None
    """File for the picture; by default in the folder pictures."""
    save: Path | None = None
    """Also write the field as a LANI environment file (random_config_N.json)."""

    def run(self) -> None:
        """Draw, and say where."""
        from pvn.app.figures import draw_flight, fly_with_frames
        from pvn.app.saving import picture_path
        from pvn.corpus.meadow import sample_paragraph
        from pvn.corpus.oracle import Oracle
        from pvn.world.lani import read_layout, write_layout

        layout = None if self.file is None else read_layout(self.file)
        name = f"field_seed{self.seed}" if self.file is None else self.file.stem
        out = picture_path(self.out or Path(f"pictures/{name}.png"))
        tasks = [segment.task for segment in sample_paragraph(self.seed, layout)]
        task = max(tasks, key=lambda task: len(task.path))
        log, frames = fly_with_frames([task], Oracle())
        draw_flight(out, task, log, frames, 0)
        print(f"{name}, {len(task.layout.landmarks)} landmarks: {out}")
        if self.save is not None:
            write_layout(task.layout, self.save)
            print(f"environment file: {self.save}")


@dataclass(frozen=True, kw_only=True)
class Show:
    """Draw pictures of the world."""

    what: (
        Annotated[Catalogue, subcommand("catalogue", prefix_name=False)]
        | Annotated[Field, subcommand("field", prefix_name=False)]
    )

    def run(self) -> None:
        """Draw it."""
        self.what.run()


@dataclass(frozen=True, kw_only=True)
class BenchSimulator:
    """Measure frames and flight-steps a second on every device here, and the peers' where they are installed."""

    json: bool = False
    """Print one JSON object instead of tables."""
    max_batch: int = 16_384
    """Largest batch of the growth curve."""
    seconds: float = 1.0
    """Least time spent on each figure."""

    def run(self) -> None:
        """Measure and print."""
        from pvn.app.tables import print_simulator_report
        from pvn.evaluation.simulator_benchmark import measure_simulator

        report = measure_simulator(self.max_batch, self.seconds)
        print_json(report) if self.json else print_simulator_report(report)


@dataclass(frozen=True, kw_only=True)
class BenchOracle:
    """Fly the oracle over LANI-like segments and compare its steps and distances with the paper's."""

    json: bool = False
    """Print one JSON object instead of a table."""
    segments: int = 500
    """How many segments."""
    device: Device = "cpu"
    """Where to simulate."""

    def run(self) -> None:
        """Fly and print."""
        from pvn.app.tables import print_oracle_report
        from pvn.evaluation.oracle_benchmark import measure_oracle

        report = measure_oracle(self.segments, self.device)
        print_json(report) if self.json else print_oracle_report(report)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Measure how fast and how well."""

    what: (
        Annotated[BenchSimulator, subcommand("simulator", prefix_name=False)]
        | Annotated[BenchOracle, subcommand("oracle", prefix_name=False)]
    )

    def run(self) -> None:
        """Measure it."""
        self.what.run()


@dataclass(frozen=True, kw_only=True)
class CorpusMake:
    """Make the corpus in the box, or one from phrase banks of your own."""

    out: Path
    """Folder for the corpus; it must not exist."""
    size: int = 27_965
    """Segments in all splits together, in LANI's proportions; by default LANI's 19,758 + 4,135 + 4,072."""
    seed: int = 0
    """The same seed gives the same corpus."""
    bank: tuple[Path, ...] = ()
    """Phrase bank files to use instead of the five bundled ones (docs/formats.md)."""
    only: Split | None = None
    """Make this split alone. With banks of your own and no training split, every phrase counts as unseen."""
    noise: float = 0.04
    """Share of sentences with a slip: a dropped article or a typing error."""
    processes: int = 0
    """How many processes; 0 takes one for each core."""

    def run(self) -> None:
        """Make it, and say what was made."""
        import os
        import time

        from pvn.app.progress import progress_bar
        from pvn.corpus.banks import read_banks
        from pvn.corpus.meadow import make_meadow, split_sizes
        from pvn.corpus.segments import SPLITS
        from pvn.corpus.store import check_new, write_corpus

        check_new(self.out)
        banks = read_banks(self.bank)
        only = SPLITS if self.only is None else (self.only,)
        began = time.perf_counter()
        with progress_bar("segments", sum(split_sizes(self.size, only).values())) as advance_to:
            corpus = make_meadow(
                banks,
                size=self.size,
                seed=self.seed,
                noise=self.noise,
                only=only,
                is_all_unseen=bool(self.bank) and self.only in ("dev", "test"),
                num_processes=self.processes or len(os.sched_getaffinity(0)),
                watch=advance_to,
            )
        origin = {"seed": self.seed, "size": self.size, "noise": self.noise, "banks": [bank.author for bank in banks]}
        write_corpus(corpus, self.out, origin)
        parts = ", ".join(f"{len(corpus[split]):,} {split}" for split in corpus.splits)
        print(f"{len(corpus):,} segments ({parts}) in {time.perf_counter() - began:.0f} s: {self.out}")


@dataclass(frozen=True, kw_only=True)
class CorpusStats:
    """Print a corpus's figures beside LANI's."""

    folder: Positional[Path]
    """Folder of the corpus."""
    json: bool = False
    """Print one JSON object instead of tables."""

    def run(self) -> None:
        """Measure and print."""
        from pvn.app.tables import print_corpus_report
        from pvn.corpus.statistics import measure_corpus
        from pvn.corpus.store import read_corpus

        report = measure_corpus(read_corpus(self.folder))
        print_json(report) if self.json else print_corpus_report(report)


@dataclass(frozen=True, kw_only=True)
class CorpusShow:
    """Draw a segment of a corpus: the field from above, the path, the sentence."""

    folder: Positional[Path]
    """Folder of the corpus."""
    segment: str | None = None
    """Which segment: environment and place in its paragraph, such as 12-3; by default a random one."""
    seed: int = 0
    """Which random one."""
    out: Path | None = None
    """File for the picture; by default in the folder pictures."""

    def run(self) -> None:
        """Draw, and say where."""
        import random

        from pvn.app.figures import draw_segment
        from pvn.app.saving import picture_path
        from pvn.corpus.store import read_corpus

        corpus = read_corpus(self.folder)
        names = [segment.id for segment in corpus]
        segment = corpus.segment(self.segment or random.Random(self.seed).choice(names))
        out = picture_path(self.out or Path(f"pictures/segment_{segment.id}.png"))
        draw_segment(out, segment)
        print(f"{segment.id}: {segment.task.instruction}\npicture: {out}")


@dataclass(frozen=True, kw_only=True)
class CorpusAlignments:
    """Print which words go with which landmark classes in the training text."""

    folder: Positional[Path]
    """Folder of the corpus."""
    json: bool = False
    """Print one JSON object instead of a table."""

    def run(self) -> None:
        """Count and print."""
        from pvn.app.tables import print_alignments
        from pvn.corpus.alignment import align
        from pvn.corpus.store import read_corpus
        from pvn.corpus.vocabulary import Vocabulary

        train = read_corpus(self.folder, ("train",))["train"]
        vocabulary = Vocabulary.from_texts(segment.task.instruction for segment in train)
        alignment = align(train, vocabulary)
        print_json(alignment.to_json()) if self.json else print_alignments(alignment)


@dataclass(frozen=True, kw_only=True)
class CorpusImport:
    """Read LANI's own files, in drif's or CIFF's layout, into a corpus."""

    path: Positional[Path]
    """The folder LANI was unpacked to."""
    out: Path
    """Folder for the corpus; it must not exist."""

    def run(self) -> None:
        """Import, and say what could not be used and why."""
        from pvn.app.progress import progress_over
        from pvn.corpus.lani_import import import_lani
        from pvn.corpus.store import check_new, write_corpus

        check_new(self.out)
        found = import_lani(self.path, lambda records: progress_over("paragraphs", records))
        names = [str(file) for file in found.files]
        write_corpus(found.corpus, self.out, {"layout": found.layout, "files": names})
        for refusal in found.refusals:
            print(f"not used: {refusal.record}: {refusal.reason}")
        for repair in found.repairs:
            print(f"mended: {repair.record}: {repair.what}")
        for file in found.left_out:
            print(f"not read, since a larger set of the same environments is there: {file}")
        for kind, count in found.count_refusals():
            print(f"not used in all: {count:,} x {kind}")
        parts = ", ".join(f"{len(found.corpus[split]):,} {split}" for split in found.corpus.splits)
        print(
            f"{found.layout} layout, {found.num_records:,} paragraphs in {', '.join(names)}\n"
            f"{len(found.corpus):,} segments ({parts}), {len(found.refusals):,} not used, "
            f"{len(found.repairs):,} mended: {self.out}"
        )


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Make, import and look at corpora."""

    what: (
        Annotated[CorpusMake, subcommand("make", prefix_name=False)]
        | Annotated[CorpusStats, subcommand("stats", prefix_name=False)]
        | Annotated[CorpusShow, subcommand("show", prefix_name=False)]
        | Annotated[CorpusAlignments, subcommand("alignments", prefix_name=False)]
        | Annotated[CorpusImport, subcommand("import-lani", prefix_name=False)]
    )

    def run(self) -> None:
        """Do it."""
        self.what.run()


Verb = (
    Annotated[Fly, subcommand("fly", prefix_name=False)]
    | Annotated[Show, subcommand("show", prefix_name=False)]
    | Annotated[Corpus, subcommand("corpus", prefix_name=False)]
    | Annotated[Bench, subcommand("bench", prefix_name=False)]
)


def print_json(report: object) -> None:
    """One JSON object on standard output."""
    print(json.dumps(report, indent=2))


def main(arguments: list[str] | None = None) -> None:
    """Run the verb on the command line; what a user can mend is said in one line, without a traceback."""
    parse: Any = tyro.cli  # a union of verbs is no type to mypy
    verb = parse(
        configure(OmitArgPrefixes, OmitSubcommandPrefixes)(Verb),  # type: ignore[type-var]
        prog="pvn",
        description="Fly a quadcopter by language.",
        args=arguments,
    )
    try:
        verb.run()
    except (ValueError, OSError) as error:
        print(f"pvn: {error}", file=sys.stderr)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
