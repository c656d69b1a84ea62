"""The tasks of a command: segments of a tour through a field, segments of a corpus, or a typed instruction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from pvn.corpus.segments import Segment
    from pvn.evaluation.pilots import Pilot
    from pvn.rollout.flight import FlightLog
    from pvn.world.layout import Layout
    from pvn.world.task import Demonstration, Task


@dataclass(frozen=True)
class ChosenTask:
    """A task to fly."""

    label: str
    """Its number in the tour, or its id in a corpus."""
    task: Task
    demonstration: Demonstration | None
    """None for a typed instruction, which has no demonstration and no goal."""

    @property
    def demonstrated(self) -> npt.NDArray[np.float64] | None:
        """The demonstrated path (P, 2), field frame, metres."""
        return None if self.demonstration is None else self.demonstration.path

    @property
    def goal(self) -> tuple[float, float] | None:
        """Where the flight should end (x, y), field frame, metres."""
        return None if self.demonstration is None else self.demonstration.goal

    @property
    def turned_to(self) -> float | None:
        """The heading that the flight should end with, radians, field frame; None if no turn is asked for."""
        return None if self.demonstration is None else self.demonstration.turned_to

    def with_instruction(self, instruction: str, start: tuple[float, float, float] | None = None) -> ChosenTask:
        """The same field with a typed instruction, from the same start or from another (x, y, yaw)."""
        from pvn.corpus.typed_instruction import clean_instruction

        words = clean_instruction(instruction)
        return ChosenTask(self.label, replace(self.task, instruction=words, start=start or self.task.start), None)


def as_chosen(segment: Segment, label: str) -> ChosenTask:
    """A segment under a label."""
    return ChosenTask(label, segment.task, segment.demonstration)


def read_field(field: int | Path) -> Layout:
    """The layout of a random field, or of a LANI environment file."""
    from pvn.corpus.meadow.generator import numbered_layout
    from pvn.world.lani import read_layout

    return numbered_layout(field) if isinstance(field, int) else read_layout(field)


def tour_segments(field: int | Path, seed: int | None) -> list[Segment]:
    """The segments of a tour through a field. seed: which tour; None for the field's own, 0 for a field in a file."""
    from pvn.corpus.meadow.generator import sample_paragraph

    if isinstance(field, int) and seed in (None, field):
        return list(sample_paragraph(field))
    if seed is not None and seed < 0:
        raise ValueError(f"seed: got {seed}, expected 0 or more")
    return list(sample_paragraph(seed or 0, read_field(field)))


def pick_segments(segments: Sequence[Segment], numbers: Sequence[str]) -> list[ChosenTask]:
    """Segments of a tour by number, from "1"; all of them if no number is given."""
    known = {str(number): segment for number, segment in enumerate(segments, start=1)}
    for number in numbers:
        if number not in known:
            # An option that takes several values also takes an instruction that follows it.
            hint = "; put the instruction before the options" if " " in number else ""
            raise ValueError(f"segment: got {number!r}, expected 1 to {len(segments)}{hint}")
    return [as_chosen(known[number], number) for number in numbers or known]


def corpus_segments(corpus: Path, ids: Sequence[str]) -> list[ChosenTask]:
    """Segments of a corpus by id, from any split."""
    from pvn.corpus.store import read_corpus

    stored = read_corpus(corpus)
    return [as_chosen(stored.segment(name), name) for name in ids]


def describe_field(field: int | Path) -> str:
    """The field in a title."""
    return f"field {field}" if isinstance(field, int) else str(field)


def tour_stem(field: int | Path, seed: int | None) -> str:
    """How names of files about a tour through a field begin."""
    if isinstance(field, int):
        return f"field{field}" + ("" if seed in (None, field) else f"_seed{seed}")
    return f"{field.stem}_seed{seed or 0}"


def describe_start(start: tuple[float, float, float]) -> str:
    """A start pose x, y (metres), yaw (radians), field frame, in words and as an option."""
    x, y, yaw = start
    points = ("east", "north-east", "north", "north-west", "west", "south-west", "south", "south-east")
    facing = points[round(yaw / (math.pi / 4)) % 8]
    return f"starts at x {x:.1f} m, y {y:.1f} m, facing {facing} (--start {x:.2f} {y:.2f} {yaw:.2f})"


def check_quoted(instructions: Sequence[str]) -> None:
    """Refuse several instructions of one word each: one instruction without its quotes was meant."""
    if len(instructions) > 1 and not any(" " in words.strip() for words in instructions):
        raise ValueError(
            f'instruction: got {len(instructions)} of one word each, expected one in quotes: "{" ".join(instructions)}"'
        )


def words_report(pilot: Pilot, instruction: str) -> dict[str, Any]:
    """For JSON: the words of an instruction that the pilot does not know, or reads as others."""
    if pilot.agent is None:
        return {"unknown_words": [], "read_as": {}}
    vocabulary = pilot.agent.vocabulary
    return {"unknown_words": vocabulary.unknown_words(instruction), "read_as": vocabulary.read_as(instruction)}


def flights_report(
    pilot: Pilot, chosen: Sequence[ChosenTask], log: FlightLog, paths: Sequence[Path]
) -> list[dict[str, Any]]:
    """An object for each flight of a log, for JSON: the task, and how the flight ended."""
    from pvn.evaluation.manoeuvres import degrees_off
    from pvn.evaluation.outcome import describe_flights, end_place

    tasks, goals = [one.task for one in chosen], [one.goal for one in chosen]
    described, flown = describe_flights(log, tasks, goals=goals), log.distance_flown()
    return [
        {
            "label": one.label,
            "instruction": one.task.instruction,
            **words_report(pilot, one.task.instruction),
            "start": list(one.task.start),
            "end": log.pose_world[flight, -1, [0, 1, 5]].tolist(),
            "has_stopped": bool(log.has_stopped[flight]),
            "num_steps": int(log.num_steps[flight]),
            "metres": float(flown[flight]),
            "goal_distance": None if one.goal is None else math.dist(log.end_world[flight].tolist(), one.goal),
            "degrees_off": None
            if one.turned_to is None
            else degrees_off(float(log.pose_world[flight, -1, 5]), one.turned_to),
            "place": end_place(log, flight, one.task),
            "outcome": described[flight],
            "files": [str(path) for path in paths],
        }
        for flight, one in enumerate(chosen)
    ]


def check_instruction(instruction: str, pilot: Pilot) -> None:
    """Refuse an instruction that cannot be followed, or a pilot that reads no instructions.

    Words that the pilot does not know, or reads as others, are printed.
    """
    from pvn.corpus.typed_instruction import check_typed, clean_instruction, words_note

    if pilot.agent is None:
        raise ValueError(
            f"agent: got {pilot.name}, which reads no instructions, expected one that does, such as pvn; choose "
            "another --agent, or leave the instruction out"
        )
    words = clean_instruction(instruction)
    check_typed(words, pilot.agent.vocabulary)
    note = words_note(words, pilot.agent.vocabulary)
    if note:
        print(note)
