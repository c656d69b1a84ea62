"""What a session is set up to fly: field, start, instruction and pilot, and the command and link that repeat it."""

from __future__ import annotations

import functools
import math
import random
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import parse_qs, urlencode

import numpy as np

from pvn.corpus.meadow.generator import sample_paragraph
from pvn.corpus.segments import Corpus, Segment
from pvn.corpus.typed_instruction import check_typed, clean_instruction
from pvn.corpus.vocabulary import Vocabulary
from pvn.paths import Points
from pvn.rollout.paragraph import Carried, next_starts
from pvn.systems import DEFAULT_AGENT
from pvn.viz.flight_record import FlightRecord
from pvn.world.landmarks import METRES_PER_CONFIG, landmark_class
from pvn.world.lani import read_layout
from pvn.world.layout import FIELD_SIZE, Landmark, Layout
from pvn.world.task import MAX_CHARACTERS, Task

MAX_FIELD_NUMBER = 999_999
FIELD_FILE = "field.json"
FENCE_CLEARANCE = 1.0
"""Least distance between a fence and a landmark that was dragged, metres."""
ADDED_AHEAD, ADDED_CLEARANCE = 8.0, 3.0
"""A landmark is added near a point this far ahead of the drone, at least this far from the fences, metres."""
MAX_FLIGHTS = 30
"""Flights, of about a megabyte each, that a conversation keeps for replays, and instructions in a link. The link of a
longer conversation has none, since the flights that are kept begin where forgotten ones ended."""
MAX_LINK = 30_000
"""Longest link that is read, characters."""
PLAIN_VERBS = frozenset("go fly head move travel turn get approach".split())
"""First words of instructions that anyone understands at once."""

Pose = tuple[float, float, float]
"""x, y (metres), yaw (radians), field frame."""


@dataclass(frozen=True, eq=False)
class FieldChoice:
    """A field to fly in, and its segments."""

    segments: tuple[Segment, ...]
    fly_options: tuple[str, ...]
    """For each segment, the options of `pvn fly` that select it."""
    title: str
    number: int | None = None
    """The number of a random field; None for a field from a file or a corpus."""
    is_from_corpus: bool = False


@functools.lru_cache(maxsize=64)
def random_field(number: int) -> FieldChoice:
    """A random field with its five segments; the same number always gives the same field."""
    if not 0 <= number <= MAX_FIELD_NUMBER:
        raise ValueError(f"field: got {number}, expected 0 to {MAX_FIELD_NUMBER}")
    segments = tuple(sample_paragraph(number))
    options = tuple(f"--field {number} --segment {segment.place + 1}" for segment in segments)
    return FieldChoice(segments, options, f"field {number}", number)


def file_field(path: Path) -> FieldChoice:
    """The field of a LANI environment file, with the segments of a tour through it."""
    segments = tuple(sample_paragraph(0, read_layout(path)))
    options = tuple(f"--field {shlex.quote(str(path))} --segment {segment.place + 1}" for segment in segments)
    return FieldChoice(segments, options, f"the field of {path.name}")


def corpus_field(corpus: Corpus, folder: str, segment_id: str) -> tuple[FieldChoice, int]:
    """The field of a corpus segment with all its segments, and the index of the given segment among them.

    An empty id stands for a random segment.
    """
    chosen = corpus.segment(segment_id.strip()) if segment_id else random.choice(list(corpus))
    segments = tuple(segment for segment in corpus if segment.environment == chosen.environment)
    options = tuple(f"--corpus {shlex.quote(folder)} --segment {segment.id}" for segment in segments)
    title = f"{corpus.name}, field {chosen.environment}"
    return FieldChoice(segments, options, title, is_from_corpus=True), segments.index(chosen)


@dataclass(frozen=True, eq=False)
class Continuation:
    """What one flight leaves to the next."""

    start: Pose
    """Where it ended."""
    carried: Carried
    """What the pilot carries over, mainly its map."""


@dataclass(frozen=True, eq=False)
class FlightSetup:
    """Everything that determines a flight."""

    field: FieldChoice
    segment_index: int
    """The field's segment with which the visitor began."""
    layout: Layout
    """The field with the visitor's changes."""
    instruction: str
    pilot: str = DEFAULT_AGENT
    """Name of the system that flies."""
    own_start: Pose | None = None
    """Where the visitor put the drone; None: where the segment starts."""
    continues: Continuation | None = None
    """The flight at whose end this one starts; None for the first one."""
    earlier: tuple[str, ...] = ()
    """Instructions of the flights before, from the start on."""

    @property
    def segment(self) -> Segment:
        """The chosen segment."""
        return self.field.segments[self.segment_index]

    @property
    def is_edited(self) -> bool:
        """Whether landmarks were moved, added or removed."""
        return self.layout is not self.segment.task.layout and self.layout != self.segment.task.layout

    @property
    def _is_unchanged(self) -> bool:
        """Whether field, start and instruction are the segment's own."""
        is_own = self.continues is None and self.own_start is None and not self.is_edited
        return is_own and self.instruction == clean_instruction(self.segment.task.instruction)

    @property
    def demonstrated(self) -> Points | None:
        """The segment's demonstrated path (P, 2), field frame; None once field, start or instruction are changed."""
        return self.segment.demonstration.path if self._is_unchanged else None

    @property
    def first_start(self) -> Pose:
        """Where the first of the flights starts."""
        return self.segment.task.start if self.own_start is None else self.own_start

    @property
    def start(self) -> Pose:
        """Where the drone is, and this flight starts."""
        return self.first_start if self.continues is None else self.continues.start

    @property
    def task(self) -> Task:
        """What is flown."""
        task = self.segment.task
        if self._is_unchanged:
            return task
        return replace(task, layout=self.layout, instruction=self.instruction, start=self.start)

    def unchanged(self) -> FlightSetup:
        """The segment with its own field and instruction, flown by the same pilot."""
        return segment_setup(self.field, self.segment_index, self.pilot)

    def start_again(self) -> FlightSetup:
        """The segment from its start by its own instruction; landmarks stay where they are."""
        begun = replace(self, own_start=None, continues=None, earlier=())
        return change_instruction(begun, self.segment.task.instruction)

    def starting_at(self, start: Pose) -> FlightSetup:
        """The same with the drone at another place, moved inside the fences, where its pilot has seen nothing yet."""
        if not all(map(math.isfinite, start)):
            raise ValueError(f"start: got {start}, expected finite numbers")
        x, y = (min(max(place, 0.0), FIELD_SIZE) for place in start[:2])
        return replace(self, own_start=(x, y, math.remainder(start[2], 2 * math.pi)), continues=None, earlier=())

    def standing(self) -> FlightSetup:
        """The same with the drone where it is, but its pilot has forgotten everything."""
        return self if self.continues is None else self.starting_at(self.start)

    def after(self, record: FlightRecord) -> FlightSetup:
        """What follows a flight of this setup: an empty instruction from where the flight ended."""
        left = Continuation(next_starts(record.log)[0], record.carried)
        return replace(self, continues=left, earlier=(*self.earlier, record.task.instruction), instruction="")

    def flown(self) -> FlightSetup:
        """The same for looking back: without the pilot's map, which would only take memory."""
        return self if self.continues is None else replace(self, continues=replace(self.continues, carried=None))

    def check(self, vocabulary: Vocabulary | None) -> None:
        """Refuse what the pilot cannot fly; vocabulary: the words it knows, None if it does not read."""
        check_typed(self.instruction, vocabulary)
        if self.pilot == "oracle" and self.demonstrated is None:
            raise ValueError(
                "The oracle does not read instructions: it follows the demonstrated path of a segment. Choose an "
                "unchanged segment, or another pilot."
            )

    @property
    def needs_file(self) -> bool:
        """Whether the command reads the field from a file that the visitor downloads."""
        return self.is_edited or (self.own_start is not None and self.field.number is None)

    def command(self, agent: str | None = None, device: str = "cpu") -> str:
        """The command that repeats the flight exactly; for an edited field it names the file to download.

        agent: the value of --agent if it is not the pilot's name, such as a file of weights.
        """
        agent = self.pilot if agent is None else agent
        parts = ["pvn fly"]
        if not self._is_unchanged:
            parts += map(shlex.quote, (*map(clean_instruction, self.earlier), self.instruction))
        if self.needs_file or self.own_start is not None:
            field = FIELD_FILE if self.needs_file else self.field.number
            parts.append(f"--field {field} --start " + " ".join(repr(float(part)) for part in self.first_start))
        else:
            parts.append(self.field.fly_options[self.segment_index])
        if agent != DEFAULT_AGENT:
            parts.append(f"--agent {shlex.quote(agent)}")
        if device != "cpu":
            parts.append(f"--device {device}")
        return " ".join(parts)


def first_segment(field: FieldChoice) -> int:
    """The index of the segment that is shown first: if possible one that reads plainly as something to do."""
    for index, segment in enumerate(field.segments):
        words = segment.task.instruction.lower().split()
        if 6 <= len(words) <= 20 and words[0] in PLAIN_VERBS and not segment.task.instruction.endswith("."):
            return index
    return 0


def with_first_segment(field: FieldChoice) -> tuple[FieldChoice, int]:
    """A field, and the index of the segment that is shown first."""
    return field, first_segment(field)


def segment_setup(field: FieldChoice, segment_index: int, pilot: str = DEFAULT_AGENT) -> FlightSetup:
    """A segment of a field, unchanged."""
    if not 0 <= segment_index < len(field.segments):
        raise ValueError(f"This field has no segment {segment_index + 1}; choose another one.")
    task = field.segments[segment_index].task
    return FlightSetup(field, segment_index, task.layout, clean_instruction(task.instruction), pilot)


def change_instruction(setup: FlightSetup, text: str) -> FlightSetup:
    """The setup with another instruction. Very long text is cut, to a length that `check` still refuses."""
    return replace(setup, instruction=clean_instruction(text[: 2 * MAX_CHARACTERS]))


# Changes to the field. The drone stays where it is, but its pilot forgets its map, since the field is another one.


def _with_landmarks(setup: FlightSetup, landmarks: Sequence[Landmark]) -> FlightSetup:
    return replace(setup.standing(), layout=Layout(tuple(landmarks), setup.layout.lake))


def _landmarks(setup: FlightSetup, index: int) -> list[Landmark]:
    """The landmarks of the field, among them one with this index."""
    if not 0 <= index < len(setup.layout.landmarks):
        raise ValueError("This landmark is not in the field any more; choose another one.")
    return list(setup.layout.landmarks)


def _inside_fences(value: float) -> float:
    """The nearest coordinate at which a landmark may stand, metres."""
    # In whole config units, so that the environment file that repeats the flight holds exactly the same field.
    inside = min(max(value, FENCE_CLEARANCE), FIELD_SIZE - FENCE_CLEARANCE)
    return round(inside / METRES_PER_CONFIG) * METRES_PER_CONFIG


def move_landmark(setup: FlightSetup, index: int, x: float, y: float) -> FlightSetup:
    """The setup with a landmark moved to x, y, field frame, metres, or the nearest point inside the fences.

    A ValueError if another landmark is in the way.
    """
    landmarks = _landmarks(setup, index)
    landmarks[index] = replace(landmarks[index], x=_inside_fences(x), y=_inside_fences(y))
    return _with_landmarks(setup, landmarks)


def turn_landmark(setup: FlightSetup, index: int, yaw: float) -> FlightSetup:
    """The setup with the front of a landmark turned to yaw, radians, field frame."""
    landmarks = _landmarks(setup, index)
    landmarks[index] = replace(landmarks[index], yaw=math.remainder(yaw, 2 * math.pi))
    return _with_landmarks(setup, landmarks)


def remove_landmark(setup: FlightSetup, index: int) -> FlightSetup:
    """The setup without one of its landmarks."""
    landmarks = _landmarks(setup, index)
    del landmarks[index]
    return _with_landmarks(setup, landmarks)


def add_landmark(setup: FlightSetup, name: str) -> FlightSetup:
    """The setup with another landmark, at the free point nearest to ADDED_AHEAD metres ahead of the drone."""
    kind, (x, y, yaw) = landmark_class(name), setup.start
    ahead = x + ADDED_AHEAD * math.cos(yaw), y + ADDED_AHEAD * math.sin(yaw)
    along = np.arange(ADDED_CLEARANCE, FIELD_SIZE - ADDED_CLEARANCE + 0.5).tolist()
    points = [(_inside_fences(east), _inside_fences(north)) for east in along for north in along]
    occupied = [((x, y), kind.radius)]
    occupied += [((mark.x, mark.y), kind.radius + mark.radius) for mark in setup.layout.landmarks]
    for point in sorted(points, key=lambda point: math.dist(point, ahead)):
        if all(math.dist(point, place) > radius for place, radius in occupied):
            return _with_landmarks(setup, (*setup.layout.landmarks, Landmark(name, *point, kind.radius)))
    raise ValueError(f"There is no room left for the {kind.noun}; remove something first.")


# Links: the query of the page's address, which says what was set up and flown.


def write_link(setup: FlightSetup, instructions: Sequence[str]) -> str:
    """The query (without "?") that shows a setup and flies these instructions from its first start."""
    field = setup.field
    parts: list[tuple[str, str]] = []
    if field.number is not None:
        parts.append(("field", str(field.number)))
    parts.append(("segment", setup.segment.id if field.is_from_corpus else str(setup.segment_index + 1)))
    if setup.own_start is not None:
        parts.append(("start", ",".join(repr(float(part)) for part in setup.own_start)))
    if setup.is_edited:
        marks = [(mark.name, mark.x, mark.y, mark.radius, mark.yaw) for mark in setup.layout.landmarks]
        parts.append(("landmarks", ";".join(",".join(map(str, mark)) for mark in marks)))
    parts.append(("agent", setup.pilot))
    if len(instructions) <= MAX_FLIGHTS:
        parts += [("say", words) for words in instructions]
    return urlencode(parts)


def _link_error(given: str, expected: str) -> ValueError:
    return ValueError(f"link: got {given[:60]}, expected {expected}; copy the link again")


def _numbers(text: str, name: str, count: int) -> list[float]:
    """Finite numbers, separated by commas."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise _link_error(f"{name}={text}", f"{count} numbers with commas")
    return numbers


def _read_landmarks(text: str) -> list[Landmark]:
    marks = (mark.partition(",") for mark in text.split(";") if mark)
    return [Landmark(name, *_numbers(numbers, "landmarks", 4)) for name, _, numbers in marks]


def _segment_index(field: FieldChoice, text: str) -> int:
    """The index of the segment with a number; by default the one that is shown first."""
    if field.is_from_corpus or not text:
        return first_segment(field)
    if not text.isdecimal() or not 1 <= int(text[:9]) <= len(field.segments):
        raise _link_error(f"segment={text}", f"1 to {len(field.segments)}")
    return int(text) - 1


def open_link(
    query: str,
    first_field: FieldChoice,
    pilots: Sequence[str],
    random_field: Callable[[int], FieldChoice],
    corpus_field: Callable[[str], tuple[FieldChoice, int]] | None = None,
) -> tuple[FlightSetup, tuple[str, ...]]:
    """What a query (without "?") sets up, and the instructions that it flies; a ValueError says what is wrong with it.

    first_field: used if the link names none. random_field and corpus_field find fields by number and by segment id.
    """
    if len(query) > MAX_LINK:
        raise _link_error(f"{len(query):,} characters", f"at most {MAX_LINK:,}")
    values = parse_qs(query)
    number, segment, agent, start = (values.get(name, [""])[0] for name in ("field", "segment", "agent", "start"))
    field = first_field
    if number:
        if not number.isdecimal():
            raise _link_error(f"field={number}", "a whole number")
        field = random_field(int(number[:9]))
    if corpus_field is not None and "-" in segment:
        field, index = corpus_field(segment)
    else:
        index = _segment_index(field, segment)
    agent = agent or pilots[0]
    if agent not in pilots:
        raise _link_error(f"agent={agent}", f"one of {', '.join(pilots)}")
    setup = segment_setup(field, index, agent)
    if start:
        x, y, yaw = _numbers(start, "start", 3)
        setup = setup.starting_at((x, y, yaw))
    if "landmarks" in values:
        try:
            setup = _with_landmarks(setup, _read_landmarks(values["landmarks"][0]))
        except ValueError as error:
            problem = str(error).removeprefix("link: ").removesuffix("; copy the link again")
            raise ValueError(f"link: landmarks: {problem}; copy the link again") from None
    return setup, tuple(values.get("say", ()))[:MAX_FLIGHTS]
