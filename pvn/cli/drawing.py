"""Verbs that draw figures for papers: `pvn figure`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import UseAppendAction, subcommand

from pvn.cli.options import Device, Split

if TYPE_CHECKING:
    from pvn.corpus.segments import Segment
    from pvn.evaluation.systems import System
    from pvn.viz.flight_record import Recorded
    from pvn.world.task import Task


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What is flown for a figure, and by whom."""

    corpus: Path | None = None
    """Folder of a corpus whose segments are flown; without one, segments in random fields."""
    split: Split = "dev"
    """Which split random segments are of."""
    segments: tuple[str, ...] = ()
    """Which segments, of any split: environment and place in its paragraph, such as 12-3; by default random ones."""
    file: Path | None = None
    """Without a corpus: fly in the field of this LANI environment file (random_config_N.json)."""
    seed: int = 0
    """Which random segments of the corpus; without a corpus, which field, or which flights through the file's."""
    say: UseAppendAction[tuple[str, ...]] = ()
    """Your own instruction instead, flown from where the first segment starts; may be repeated."""
    system: str = "pvn"
    """Who flies: a system that `pvn evaluate` knows, or weights of an agent you trained (agent.safetensors)."""
    runs: Path | None = None
    """Folder of training runs whose agents fly instead of the package's."""
    device: Device = "cpu"
    """Where to fly."""

    @property
    def has_goals(self) -> bool:
        """Whether what is flown was demonstrated."""
        return not self.say

    def pilot(self, *, must_predict: bool = False) -> System:
        """Who flies."""
        from pvn.evaluation.systems import make_system
        from pvn.model.pvn import PVN

        system = make_system(self.system, runs=self.runs, device=self.device)
        if must_predict and not isinstance(getattr(system.policy, "agent", system.policy), PVN):
            raise ValueError(
                f"{system.name}: predicts no visitation distributions, expected a PVN; name pvn, one of its "
                "ablations or the weights of a PVN, or draw `pvn figure gallery`"
            )
        if self.say:
            self._check_words(system)
        return system

    def _check_words(self, system: System) -> None:
        """Refuse what cannot be followed; say which words the pilot does not know."""
        from pvn.corpus.vocabulary import tokenise

        vocabulary = getattr(getattr(system.policy, "agent", system.policy), "vocabulary", None)
        if vocabulary is None:
            raise ValueError(f"{system.name}: reads no instructions, expected one that does, such as pvn; drop --say")
        empty = [sentence for sentence in self.say if not tokenise(sentence)]
        if empty:
            raise ValueError(f"say: got {empty[0]!r}, expected a sentence")
        unknown = [word for sentence in self.say for word in vocabulary.unknown_words(sentence)]
        if unknown:
            print(f"words {system.name} has never read, and will not heed: {', '.join(dict.fromkeys(unknown))}")

    def tasks(self, count: int, *, is_long: bool) -> list[Task]:
        """What is flown, `count` tasks where none are named; is_long: of the longer half where chance decides."""
        from dataclasses import replace

        if count < 1:
            raise ValueError(f"count: got {count}, expected at least 1")
        if self.seed < 0:
            raise ValueError(f"seed: got {self.seed}, expected 0 or more")
        number = 1 if self.say else count
        chosen = self._random(number, is_long) if self.corpus is None else self._stored(self.corpus, number, is_long)
        if self.say:
            return [replace(chosen[0].task, instruction=" ".join(sentence.split())) for sentence in self.say]
        return [segment.task for segment in chosen]

    def _random(self, count: int, is_long: bool) -> list[Segment]:
        """Segments in random fields, from the seed's on: the longest of each, or all of them."""
        from pvn.corpus.meadow.generator import sample_paragraph
        from pvn.world.lani import read_layout

        layout = None if self.file is None else read_layout(self.file)
        if self.segments:
            raise ValueError(f"segments: got {self.segments[0]!r} without a corpus, expected --corpus DIR beside it")
        found: list[Segment] = []
        field = self.seed
        while len(found) < count:
            paragraph = sample_paragraph(field, layout)
            found += [max(paragraph, key=lambda segment: len(segment.task.path))] if is_long else paragraph
            field += 1
        return found[:count]

    def _stored(self, folder: Path, count: int, is_long: bool) -> list[Segment]:
        """Segments of a corpus, those that are named or random ones."""
        import random

        from pvn.corpus.store import count_segments, read_corpus

        if self.file is not None:
            raise ValueError(f"file: got {self.file} and a corpus, expected one of them; drop --file or --corpus")
        if self.segments:
            corpus = read_corpus(folder)
            return [corpus.segment(name) for name in self.segments]
        there = [split for split, count in count_segments(folder).items() if count]
        if self.split not in there:
            raise ValueError(f"split: got {self.split!r}, of which {folder} has none, expected {' or '.join(there)}")
        everything = read_corpus(folder, (self.split,))[self.split]
        if is_long:
            middle = sorted(len(segment.task.path) for segment in everything)[len(everything) // 2]
            everything = tuple(segment for segment in everything if len(segment.task.path) >= middle)
        if count > len(everything):
            raise ValueError(f"count: got {count}, expected at most {len(everything)}, as many as there are")
        return random.Random(self.seed).sample(everything, count)

    def record(self, system: System, task: Task) -> Recorded:
        """Fly one task, keep everything, and say how it ended."""
        from pvn.viz.flight_record import fly_and_record
        from pvn.viz.paper_figures import told

        recorded = fly_and_record(system, task, has_goal=self.has_goals, device=self.device)
        print("  ".join(told(recorded, 10_000)))
        return recorded


def _print_files(out: Path) -> None:
    from pvn.viz.saving import paper_paths

    print(f"figure: {' and '.join(map(str, paper_paths(out)))}")


@dataclass(frozen=True, kw_only=True)
class Evolution:
    """Draw how predictions change as the drone flies, a row for each flight (the paper's figure 4)."""

    chosen: Chosen
    count: int = 3
    """How many flights, where no segments are named; random ones are of the longer half."""
    out: Path = Path("figures/evolution")
    """File for the figure; both .pdf and .png are written."""

    def run(self) -> None:
        """Fly, draw, and say where."""
        from pvn.viz.paper_figures import draw_evolutions
        from pvn.viz.saving import paper_paths

        paper_paths(self.out)
        system = self.chosen.pilot(must_predict=True)
        tasks = self.chosen.tasks(self.count, is_long=True)
        draw_evolutions(self.out, [self.chosen.record(system, task) for task in tasks])
        _print_files(self.out)


@dataclass(frozen=True, kw_only=True)
class Gallery:
    """Draw a sheet of flights from above, those that reached their goals and those that missed (figure 5)."""

    chosen: Chosen
    count: int = 12
    """How many flights, where no segments are named; chance alone decides which."""
    out: Path = Path("figures/gallery")
    """File for the figure; both .pdf and .png are written."""

    def run(self) -> None:
        """Fly, draw, and say where."""
        from pvn.evaluation.flights import flights_of
        from pvn.rollout.flight import fly, simulator_for
        from pvn.viz.paper_figures import Flown, draw_gallery
        from pvn.viz.saving import paper_paths

        paper_paths(self.out)
        system = self.chosen.pilot()
        tasks = self.chosen.tasks(self.count, is_long=False)
        simulator = simulator_for(tasks, device=self.chosen.device, config=system.config)
        flights = flights_of(fly(simulator, tasks, system.policy))
        sheet = [
            Flown(task, points, bool(stopped), self.chosen.has_goals)
            for task, points, stopped in zip(tasks, flights.paths(), flights.has_stopped, strict=True)
        ]
        draw_gallery(self.out, sheet)
        if self.chosen.has_goals:
            print(f"{system.name}: {sum(flown.is_success for flown in sheet)} of {len(sheet)} reached their goals")
        _print_files(self.out)


@dataclass(frozen=True, kw_only=True)
class Maps:
    """Draw what the drone sees, maps and predicts at several steps of one flight."""

    chosen: Chosen
    steps: int = 4
    """How many of its predictions, first and last among them."""
    out: Path = Path("figures/maps")
    """File for the figure; both .pdf and .png are written."""

    def run(self) -> None:
        """Fly, draw, and say where."""
        from pvn.viz.flight_maps import draw_maps
        from pvn.viz.saving import paper_paths

        paper_paths(self.out)
        if self.steps < 1:
            raise ValueError(f"steps: got {self.steps}, expected at least 1")
        system = self.chosen.pilot(must_predict=True)
        tasks = self.chosen.tasks(1, is_long=True)
        if len(tasks) > 1:
            raise ValueError(f"got {len(tasks)} flights, expected one; name one segment, or say one instruction")
        draw_maps(self.out, self.chosen.record(system, tasks[0]), num_steps=self.steps)
        _print_files(self.out)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Draw figures for papers: vector PDF and PNG, 17 cm wide, in colours that colour-blind people tell apart."""

    what: (
        Annotated[Evolution, subcommand("evolution", prefix_name=False)]
        | Annotated[Gallery, subcommand("gallery", prefix_name=False)]
        | Annotated[Maps, subcommand("maps", prefix_name=False)]
    )

    def run(self) -> None:
        """Draw it."""
        self.what.run()
