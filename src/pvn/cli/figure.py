"""`pvn figure`: figures for papers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg, subcommand

from pvn.cli.options import AgentName, Device, FieldName, SegmentNames, Split
from pvn.cli.tasks import (
    ChosenTask,
    as_chosen,
    check_instruction,
    check_quoted,
    corpus_segments,
    pick_segments,
    tour_segments,
)
from pvn.systems import DEFAULT_AGENT

if TYPE_CHECKING:
    from pvn.corpus.segments import Segment
    from pvn.evaluation.pilots import Pilot
    from pvn.viz.flight_record import FlightRecord


def _num_points(segment: Segment) -> int:
    """How long a demonstrated path is, in points."""
    return len(segment.demonstration.path)


@dataclass(frozen=True, kw_only=True)
class FigureFlights:
    """Which flights a figure shows, and who flies them."""

    instructions: Annotated[Positional[tuple[str, ...]], arg(metavar="[INSTRUCTION ...]")] = ()
    """Your own instructions, each in quotes, all flown from where the first segment starts."""
    field: FieldName = 0
    """Where to fly: the number of the first random field, or a LANI environment file (random_config_N.json)."""
    seed: int | None = None
    """Which random segments of the corpus; without a corpus, which tour through the field."""
    segment: SegmentNames = ()
    """Which segments, if not random ones: of the corpus by id, such as 12-3; of the field's tour by number, from 1."""
    corpus: Path | None = None
    """Folder of a corpus whose segments are flown."""
    split: Split = "dev"
    """Which split of the corpus random segments are from."""
    agent: AgentName = DEFAULT_AGENT
    """Who flies: a system's name, or the file of an agent you trained."""
    runs: Path | None = None
    """Folder of training runs whose agents fly instead of the shipped ones."""
    device: Device = "cpu"
    """Where to simulate."""

    def load_pilot(self, *, must_predict: bool = False) -> Pilot:
        """Who flies; refused if it cannot follow the instructions, or predicts nothing that the figure shows."""
        from pvn.cli.progress import working

        check_quoted(self.instructions)
        with working("loading the agent"):
            from pvn.evaluation.pilots import load_pilot, predicting_agent

            pilot = load_pilot(self.agent, runs=self.runs, device=self.device)
        if must_predict:
            predicting_agent(pilot)
        for instruction in self.instructions:
            check_instruction(instruction, pilot)
        return pilot

    def choose(self, count: int, *, is_long: bool) -> list[ChosenTask]:
        """What to fly, `count` tasks where none are named; is_long: random ones are from the longer half."""
        if count < 1:
            raise ValueError(f"count: got {count}, expected at least 1")
        if self.seed is not None and self.seed < 0:
            raise ValueError(f"seed: got {self.seed}, expected 0 or more")
        if self.corpus is not None and self.field != 0:
            raise ValueError(
                f"field: got {self.field} and a corpus, expected one of them; leave out --field or --corpus"
            )
        number = 1 if self.instructions else count
        is_long = is_long and not self.instructions  # an instruction starts where that of `pvn fly` does
        if self.segment and self.corpus is not None:
            chosen = corpus_segments(self.corpus, self.segment)
        elif self.segment:
            chosen = pick_segments(tour_segments(self.field, self.seed), self.segment)
        elif self.corpus is not None:
            chosen = [as_chosen(segment, segment.id) for segment in self._random_stored(self.corpus, number, is_long)]
        else:
            chosen = [as_chosen(segment, segment.id) for segment in self._random_toured(number, is_long)]
        return [chosen[0].with_instruction(words) for words in self.instructions] if self.instructions else chosen

    def _random_toured(self, count: int, is_long: bool) -> list[Segment]:
        """Segments of one tour after the other: the longest of each, or all of them."""
        found: list[Segment] = []
        field, seed = self.field, self.seed
        while len(found) < count:
            tour = tour_segments(field, seed)
            found += [max(tour, key=_num_points)] if is_long else tour
            if isinstance(field, int) and seed is None:
                field += 1
            else:
                seed = (seed or 0) + 1
        return found[:count]

    def _random_stored(self, folder: Path, count: int, is_long: bool) -> list[Segment]:
        """Random segments of a split of a corpus."""
        import random

        from pvn.corpus.store import count_segments, read_corpus

        available = [split for split, number in count_segments(folder).items() if number]
        if self.split not in available:
            raise ValueError(
                f"split: got {self.split!r}, of which {folder} has no segments, expected {' or '.join(available)}"
            )
        segments = read_corpus(folder, (self.split,))[self.split]
        if is_long:
            median = sorted(map(_num_points, segments))[len(segments) // 2]
            segments = tuple(segment for segment in segments if _num_points(segment) >= median)
        if count > len(segments):
            raise ValueError(f"count: got {count}, expected at most {len(segments)}, the segments to choose from")
        return random.Random(self.seed or 0).sample(segments, count)

    def record(self, pilot: Pilot, chosen: Sequence[ChosenTask]) -> list[FlightRecord]:
        """Fly the tasks, record everything, and print how they ended."""
        from pvn.cli.progress import progress_over
        from pvn.viz.flight_record import fly_and_record

        records = [
            fly_and_record(pilot, one.task, demonstrated=one.demonstrated, device=self.device)
            for one in progress_over("flying", chosen)
        ]
        for record in records:
            print(f"“{record.task.instruction}”  {record.outcome}")
        return records


def _print_files(out: Path) -> None:
    from pvn.viz.saving import paper_paths

    print(f"figure: {' and '.join(map(str, paper_paths(out)))}")


@dataclass(frozen=True, kw_only=True)
class FigureEvolution:
    """Draw how predictions change during a flight, a row for each flight (the paper's figure 4)."""

    flights: FigureFlights
    count: int = 3
    """How many random flights, if no segments are named; they are from the longer half."""
    out: Path = Path("figures/evolution")
    """File for the figure; both .pdf and .png are written."""

    def run(self) -> None:
        """Fly and draw."""
        from pvn.cli.progress import working
        from pvn.viz.paper_figures import draw_evolutions
        from pvn.viz.saving import paper_paths

        paper_paths(self.out)
        pilot = self.flights.load_pilot(must_predict=True)
        chosen = self.flights.choose(self.count, is_long=True)
        records = self.flights.record(pilot, chosen)
        with working("drawing"):
            draw_evolutions(self.out, records)
        _print_files(self.out)


@dataclass(frozen=True, kw_only=True)
class FigureGallery:
    """Draw a sheet of flights from above, those that reached their goals and those that missed (figure 5)."""

    flights: FigureFlights
    count: int = 12
    """How many random flights, if no segments are named."""
    out: Path = Path("figures/gallery")
    """File for the figure; both .pdf and .png are written."""

    def run(self) -> None:
        """Fly and draw, and print how many reached their goals."""
        from pvn.cli.progress import working
        from pvn.evaluation.flights import flights_of
        from pvn.rollout.flight import fly
        from pvn.simulator.simulator import simulator_for
        from pvn.viz.paper_figures import GalleryFlight, draw_gallery
        from pvn.viz.saving import paper_paths

        paper_paths(self.out)
        pilot = self.flights.load_pilot()
        chosen = self.flights.choose(self.count, is_long=False)
        tasks = [one.task for one in chosen]
        policy = pilot.policy_for([one.demonstration for one in chosen if one.demonstration is not None])
        simulator = simulator_for(tasks, device=self.flights.device, config=pilot.config)
        with working("flying (and compiling, the first time only)"):
            flown = flights_of(fly(simulator, tasks, policy))
        sheet = [
            GalleryFlight(one.task, points, bool(has_stopped), one.demonstrated)
            for one, points, has_stopped in zip(chosen, flown.paths(), flown.has_stopped, strict=True)
        ]
        with working("drawing"):
            draw_gallery(self.out, sheet)
        if not self.flights.instructions:
            print(f"{pilot.name}: {sum(bool(one.is_success) for one in sheet)} of {len(sheet)} reached their goals")
        _print_files(self.out)


@dataclass(frozen=True, kw_only=True)
class FigureMaps:
    """Draw what the drone sees, maps and predicts at several steps of one flight."""

    flights: FigureFlights
    steps: int = 4
    """How many of its predictions are shown, the first and the last among them."""
    out: Path = Path("figures/maps")
    """File for the figure; both .pdf and .png are written."""

    def run(self) -> None:
        """Fly and draw."""
        from pvn.cli.progress import working
        from pvn.viz.paper_figures import draw_maps
        from pvn.viz.saving import paper_paths

        paper_paths(self.out)
        if self.steps < 1:
            raise ValueError(f"steps: got {self.steps}, expected at least 1")
        pilot = self.flights.load_pilot(must_predict=True)
        chosen = self.flights.choose(1, is_long=True)
        if len(chosen) > 1:
            raise ValueError(
                f"segment: got {len(chosen)} flights, expected one; name one segment or type one instruction"
            )
        (record,) = self.flights.record(pilot, chosen)
        with working("drawing"):
            draw_maps(self.out, record, num_steps=self.steps)
        _print_files(self.out)


@dataclass(frozen=True, kw_only=True)
class FigureVerb:
    """Draw figures for papers: vector PDF and PNG, 17 cm wide, in colours that are safe for colour-blind people."""

    what: (
        Annotated[FigureEvolution, subcommand("evolution", prefix_name=False)]
        | Annotated[FigureGallery, subcommand("gallery", prefix_name=False)]
        | Annotated[FigureMaps, subcommand("maps", prefix_name=False)]
    )

    def run(self) -> None:
        """Draw the figure."""
        self.what.run()
