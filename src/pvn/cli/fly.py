"""`pvn fly`: fly instructions and draw or record the flights."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from pvn.cli.file_names import check_folder, slug, unused_stems
from pvn.cli.options import AgentName, Device, FieldName, SegmentNames, print_json
from pvn.cli.tasks import (
    ChosenTask,
    check_instruction,
    check_quoted,
    corpus_segments,
    describe_field,
    describe_start,
    flights_report,
    pick_segments,
    read_field,
    tour_segments,
    tour_stem,
)
from pvn.systems import DEFAULT_AGENT

if TYPE_CHECKING:
    from pvn.evaluation.pilots import Pilot
    from pvn.rollout.flight import FlightLog
    from pvn.world.layout import Layout

_KINDS = {".png": "picture", ".mp4": "film", ".rrd": "recording"}


def _prepare_drawing(layout: Layout) -> None:
    """Import what draws flights, and with it Matplotlib, and draw the field from above."""
    from pvn.viz.flight_pictures import prepare

    prepare(layout)


@dataclass(frozen=True, kw_only=True)
class Fly:
    """Fly your own instruction, the five of a field or segments of a corpus, and draw every flight."""

    instructions: Annotated[Positional[tuple[str, ...]], arg(metavar="[INSTRUCTION ...]")] = ()
    """What to do, in your words: "go past the barrel on the left and stop at the phone booth". Several, each in quotes,
    are flown one after another, each from where the last flight ended and with the map kept."""
    field: FieldName = 0
    """Where to fly: the number of a random field, or a LANI environment file (random_config_N.json)."""
    seed: int | None = None
    """Which tour through the field; by default a random field's own, or tour 0 of a field from a file."""
    segment: SegmentNames = ()
    """Only these of the tour's five, such as 2 or 1 3; with --corpus, the segments with these ids, such as 12-3."""
    corpus: Path | None = None
    """Fly segments of the corpus in this folder, named by --segment."""
    start: tuple[float, float, float] | None = None
    """Where your instruction starts: x, y (metres), yaw (radians); by default where the tour's first segment does."""
    agent: AgentName = DEFAULT_AGENT
    """Who flies: a system's name, or the file of an agent you trained."""
    runs: Path | None = None
    """Folder of training runs whose agents fly instead of the shipped ones."""
    device: Device = "cpu"
    """Where to simulate."""
    quality: Literal["fast", "full"] = "full"
    """Camera images: full, as in training, have smooth edges and shadows; fast are rendered four times faster."""
    record: bool = False
    """Write a recording (.rrd), a film (.mp4) and a summary figure (.png) of every flight instead of a picture."""
    out: Path = Path("pictures")
    """Folder for what is written, in which nothing is overwritten; or, for one flight, the file of its picture."""
    json: bool = False
    """Print a JSON list with one object per flight instead of a table."""

    def run(self) -> None:
        """Fly, draw or record, and print how each flight ended."""
        from pvn.cli.progress import working

        self._check()
        with working("loading the agent"):  # most of which is importing what it needs
            from pvn.evaluation.pilots import load_pilot
            from pvn.viz.tables import print_flights

            pilot = load_pilot(self.agent, runs=self.runs, device=self.device)
        pilot = replace(pilot, config=replace(pilot.config, quality=self.quality))
        # What is said about unknown words must not end up inside the JSON.
        with redirect_stdout(sys.stderr if self.json else sys.stdout):
            for instruction in self.instructions:
                check_instruction(instruction, pilot)
        chosen = self._choose()
        if len(self.instructions) > 1:
            chosen, log, paths = self._fly_paragraph(pilot, chosen[0])
        else:
            log, paths = (self._record if self.record else self._draw)(pilot, chosen)
        if self.json:
            print_json(flights_report(pilot, chosen, log, paths))
            return
        print_flights(
            f"{pilot.name} in {self._where}",
            [one.task for one in chosen],
            log,
            goals=[one.goal for one in chosen],
            labels=[one.label for one in chosen],
            headings=[one.turned_to for one in chosen],
        )
        if len(chosen) == 1 or self.instructions:
            print(describe_start(chosen[0].task.start))
        for path in paths:
            print(f"{_KINDS.get(path.suffix, 'picture')}: {path}")

    def _check(self) -> None:
        """Refuse options that contradict each other."""
        check_quoted(self.instructions)
        if self.corpus is not None and not self.segment:
            raise ValueError("corpus: got no segment to fly, expected --segment with its id, such as 12-3")
        for name, value, default in (("field", self.field, 0), ("seed", self.seed, None)):
            if self.corpus is not None and value != default:
                raise ValueError(f"{name}: got {value} and a corpus, expected one of them; leave out --{name}")
        if not self.instructions and self.start is not None:
            raise ValueError("start: got no instruction to fly from there, expected one in quotes")
        if self.instructions and len(self.segment) > 1:
            raise ValueError(
                f"segment: got {' '.join(self.segment)} and an instruction, expected at most one, whose start it takes"
            )
        if self.record and self._is_file:
            raise ValueError(f"out: got the file {self.out} with --record, expected a folder")
        if not self._is_file:
            check_folder(self.out)

    def _choose(self) -> list[ChosenTask]:
        """What to fly."""
        from pvn.corpus.typed_instruction import clean_instruction
        from pvn.world.task import Task

        if self.instructions and self.start is not None and self.corpus is None and not self.segment:
            # No tour is needed, and through a field of one's own there may be none.
            words = clean_instruction(self.instructions[0])
            return [ChosenTask("1", Task(read_field(self.field), self.start, words), None)]
        if self.corpus is not None:
            chosen = corpus_segments(self.corpus, self.segment)
        else:
            chosen = pick_segments(tour_segments(self.field, self.seed), self.segment)
        return [chosen[0].with_instruction(self.instructions[0], self.start)] if self.instructions else chosen

    @property
    def _where(self) -> str:
        """Where the flights are, for a title."""
        if self.corpus is not None:
            return f"{self.corpus}, segment{'s' * (len(self.segment) > 1)} {', '.join(self.segment)}"
        return describe_field(self.field)

    @property
    def _is_file(self) -> bool:
        """Whether the user has named the picture's file."""
        if not self.out.suffix or self.out.is_dir():
            return False
        from pvn.viz.saving import SUFFIXES

        return self.out.suffix in SUFFIXES

    def _stem(self, label: str) -> Path:
        """The path of a flight's files, without the ending: named by field or corpus, segment and typed instruction."""
        where = tour_stem(self.field, self.seed) if self.corpus is None else self.corpus.resolve().name
        parts = [where, *([label] if self.segment or not self.instructions else []), *map(slug, self.instructions[:1])]
        return self.out / "_".join(parts)

    def _pictures(self, stems: Sequence[Path]) -> list[Path]:
        """The files of the pictures: one that the user has named, or new ones."""
        if not self._is_file:
            return [stem.with_name(f"{stem.name}.png") for stem in unused_stems(stems, tuple(_KINDS))]
        if len(stems) > 1:
            raise ValueError(
                f"out: got the file {self.out} for {len(stems)} pictures, expected a folder, or one flight; name one "
                "with --segment"
            )
        return [self.out]

    def _draw(self, pilot: Pilot, chosen: Sequence[ChosenTask]) -> tuple[FlightLog, list[Path]]:
        """Fly everything in one batch, and draw a picture of each flight."""
        from pvn.cli.progress import progress_over, working
        from pvn.viz.flight_record import fly_with_first_pictures

        paths = self._pictures([self._stem(one.label) for one in chosen])
        policy = pilot.policy_for([one.demonstration for one in chosen if one.demonstration is not None])
        # Compiled code does most of flying and of rendering; Python can do something else meanwhile.
        with ThreadPoolExecutor(1) as beside:
            tasks = [one.task for one in chosen]
            beside.submit(_prepare_drawing, tasks[0].layout)
            with working("flying (and compiling, the first time only)"):
                log, first_pictures = fly_with_first_pictures(tasks, policy, device=self.device, config=pilot.config)
            from pvn.viz.flight_pictures import draw_flight, views_to_show

            camera = first_pictures.camera
            following = beside.submit(views_to_show, tasks[0], log, camera, 0)
            for flight, one in enumerate(progress_over("drawing", chosen)):
                views = following.result()
                if flight + 1 < len(chosen):  # one flight ahead: the views of all would fill memory
                    following = beside.submit(views_to_show, tasks[flight + 1], log, camera, flight + 1)
                draw_flight(paths[flight], one.task, log, first_pictures, flight, one.demonstrated, views=views)
        return log, paths

    def _fly_paragraph(self, pilot: Pilot, first: ChosenTask) -> tuple[list[ChosenTask], FlightLog, list[Path]]:
        """Fly all instructions one after another; draw one picture of all flights, or record each."""
        from pvn.cli.progress import progress_over, working
        from pvn.corpus.typed_instruction import clean_instruction
        from pvn.rollout.flight import join_logs
        from pvn.viz.flight_files import missing_formats, save_flight
        from pvn.viz.flight_pictures import draw_paragraph
        from pvn.viz.flight_record import fly_paragraph_to_show

        stem = self._stem(first.label)
        others = [clean_instruction(words) for words in self.instructions[1:]]
        with working("flying (and compiling, the first time only)"):
            records = fly_paragraph_to_show(pilot, first.task, others, device=self.device)
        chosen = [ChosenTask(str(number), record.task, None) for number, record in enumerate(records, start=1)]
        if self.record:
            self._print_missing(missing_formats().values())
            stems = unused_stems([stem.with_name(f"{stem.name}_{one.label}") for one in chosen], tuple(_KINDS))
            paths = []
            for number, record in enumerate(progress_over("recording", records)):
                paths += save_flight(record, stems[number])
        else:
            paths = self._pictures([stem.with_name(f"{stem.name}_paragraph")])
            with working("drawing"):
                draw_paragraph(paths[0], records)
        return chosen, join_logs([record.log for record in records]), paths

    def _print_missing(self, lines: Iterable[str]) -> None:
        """Say what to install for files that cannot be written here."""
        for line in lines:
            print(line, file=sys.stderr if self.json else sys.stdout)

    def _record(self, pilot: Pilot, chosen: Sequence[ChosenTask]) -> tuple[FlightLog, list[Path]]:
        """Fly one task after the other, and write recording, film and summary of each."""
        from pvn.cli.progress import progress_over
        from pvn.rollout.flight import join_logs
        from pvn.viz.flight_files import missing_formats, save_flight
        from pvn.viz.flight_record import fly_to_show

        self._print_missing(missing_formats().values())
        stems = unused_stems([self._stem(one.label) for one in chosen], tuple(_KINDS))
        logs, paths = [], []
        for number, one in enumerate(progress_over("flying and recording", chosen)):
            record = fly_to_show(pilot, one.task, demonstrated=one.demonstrated, device=self.device)
            paths += save_flight(record, stems[number])
            logs.append(record.log)
        return join_logs(logs), paths
