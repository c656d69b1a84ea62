"""What a session is set up to fly: which field, from where, by which instruction and which pilot."""

from __future__ import annotations

import functools
import math
import shlex
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

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

MAX_REQUESTS, REQUEST_SECONDS = 8, 10.0
MAX_FIELD_NUMBER = 999_999
FIELD_FILE = "field.json"
FENCE_CLEARANCE = 1.0
"""Smallest distance, in metres, between a fence and a landmark that was added or dragged."""

PLAIN_VERBS = frozenset("go fly head move travel turn get approach".split())
"""With which an instruction begins that anyone understands at once."""

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
    """Of a random field; None for a field from a file or from a corpus."""
    is_from_corpus: bool = False


@functools.lru_cache(maxsize=64)
def random_field(number: int) -> FieldChoice:
    """A random field and its five segments; the same number always gives the same field."""
    if not 0 <= number <= MAX_FIELD_NUMBER:
        raise ValueError(f"field: got {number}, expected 0 to {MAX_FIELD_NUMBER}")
    segments = tuple(sample_paragraph(number))
    options = tuple(f"--field {number} --segment {segment.place + 1}" for segment in segments)
    return FieldChoice(segments, options, f"field {number}", number)


def file_field(path: Path) -> FieldChoice:
    """The field of a LANI environment file, and the segments of a tour through it."""
    segments = tuple(sample_paragraph(0, read_layout(path)))
    options = tuple(f"--field {shlex.quote(str(path))} --segment {segment.place + 1}" for segment in segments)
    return FieldChoice(segments, options, f"the field of {path.name}")


def corpus_field(corpus: Corpus, folder: str, segment_id: str) -> tuple[FieldChoice, int]:
    """The field of a corpus segment with all segments flown in it, and the index of the given one among them."""
    chosen = corpus.segment(segment_id.strip())
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
    """What the pilot keeps of it, its map above all."""


@dataclass(frozen=True, eq=False)
class FlightSetup:
    """Everything that determines a flight."""

    field: FieldChoice
    segment_index: int
    """Which of the field's segments the flight starts from."""
    layout: Layout
    """The field with the visitor's changes."""
    instruction: str
    pilot: str = DEFAULT_AGENT
    """Name of the system that flies."""
    own_start: Pose | None = None
    """Where the first flight starts if not where the segment does: the visitor put the drone there."""
    continues: Continuation | None = None
    """What is left of the flight at whose end this one starts; None for the first one."""
    earlier: tuple[str, ...] = ()
    """Instructions of the flights before, from the start on."""

    @property
    def segment(self) -> Segment:
        """The segment whose start, and possibly instruction and demonstration, are flown."""
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
        """The segment's demonstrated path (P, 2), field frame; None once its field or its instruction is changed."""
        return self.segment.demonstration.path if self._is_unchanged else None

    @property
    def first_start(self) -> Pose:
        """Where the first of the flights starts."""
        return self.segment.task.start if self.own_start is None else self.own_start

    @property
    def start(self) -> Pose:
        """Where the drone is, and the flight starts."""
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

    def from_the_start(self) -> FlightSetup:
        """The same, starting where the segment does."""
        return replace(self, own_start=None, continues=None, earlier=())

    def starting_at(self, start: Pose) -> FlightSetup:
        """The same with the drone at another place, where its pilot knows nothing yet; x and y inside the fences."""
        if not all(map(math.isfinite, start)):
            raise ValueError(f"start: got {start}, expected finite numbers")
        x, y = (min(max(place, 0.0), FIELD_SIZE) for place in start[:2])
        return replace(self, own_start=(x, y, math.remainder(start[2], 2 * math.pi)), continues=None, earlier=())

    def standing(self) -> FlightSetup:
        """The same with the drone where it is, but with nothing that its pilot remembers."""
        return self if self.continues is None else self.starting_at(self.start)

    def after(self, record: FlightRecord) -> FlightSetup:
        """What comes after a flight that was set up like this: another instruction from where it ended."""
        left = Continuation(next_starts(record.log)[0], record.carried)
        return replace(self, continues=left, earlier=(*self.earlier, record.task.instruction), instruction="")

    def flown(self) -> FlightSetup:
        """The same to look back at: without the pilot's map, which would take memory for nothing."""
        return self if self.continues is None else replace(self, continues=replace(self.continues, carried=None))

    def check(self, vocabulary: Vocabulary | None) -> None:
        """Refuse what no pilot can fly, or of which the pilot knows nothing; vocabulary: the words that it knows."""
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

        agent: the value of --agent if it is not the pilot's name, such as the file of an agent's weights.
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
    """The index of the segment that is shown first: one that reads as something to do, if there is one."""
    for index, segment in enumerate(field.segments):
        words = segment.task.instruction.lower().split()
        if 6 <= len(words) <= 20 and words[0] in PLAIN_VERBS and not segment.task.instruction.endswith("."):
            return index
    return 0


def segment_setup(field: FieldChoice, segment_index: int, pilot: str = DEFAULT_AGENT) -> FlightSetup:
    """A segment of a field, unchanged."""
    task = field.segments[segment_index].task
    return FlightSetup(field, segment_index, task.layout, clean_instruction(task.instruction), pilot)


def change_instruction(setup: FlightSetup, text: str) -> FlightSetup:
    """The setup with another instruction. Very long text is cut, to a length that `check` still refuses."""
    return replace(setup, instruction=clean_instruction(text[: 2 * MAX_CHARACTERS]))


def _inside_fences(value: float) -> float:
    """The nearest coordinate (metres) at which a landmark may stand."""
    # Whole config units, so that the environment file that repeats the flight is read back as the same field.
    inside = min(max(value, FENCE_CLEARANCE), FIELD_SIZE - FENCE_CLEARANCE)
    return round(inside / METRES_PER_CONFIG) * METRES_PER_CONFIG


def move_landmark(setup: FlightSetup, index: int, x: float, y: float) -> FlightSetup:
    """The setup with a landmark moved to x, y (field frame, metres), or the nearest point inside the fences.

    A ValueError if another landmark is in the way.
    """
    landmarks = list(setup.layout.landmarks)
    landmarks[index] = replace(landmarks[index], x=_inside_fences(x), y=_inside_fences(y))
    return replace(setup, layout=Layout(tuple(landmarks), setup.layout.lake))


def turn_landmark(setup: FlightSetup, index: int, yaw: float) -> FlightSetup:
    """The setup with the front of a landmark turned to yaw, radians, field frame."""
    landmarks = list(setup.layout.landmarks)
    landmarks[index] = replace(landmarks[index], yaw=math.remainder(yaw, 2 * math.pi))
    return replace(setup, layout=Layout(tuple(landmarks), setup.layout.lake))


def remove_landmark(setup: FlightSetup, index: int) -> FlightSetup:
    """The setup without one of its landmarks."""
    landmarks = setup.layout.landmarks
    return replace(setup, layout=Layout((*landmarks[:index], *landmarks[index + 1 :]), setup.layout.lake))


def _points_ahead(start: Sequence[float]) -> list[tuple[float, float]]:
    """Points of the field (x, y), the nearest to 8 m ahead of a start pose first; field frame."""
    x, y, yaw = start
    ahead = (_inside_fences(x + 8 * math.cos(yaw)), _inside_fences(y + 8 * math.sin(yaw)))
    points = [(_inside_fences(east), _inside_fences(north)) for east in range(3, 48) for north in range(3, 48)]
    return sorted(points, key=lambda point: math.dist(point, ahead))


def add_landmark(setup: FlightSetup, name: str) -> FlightSetup:
    """The setup with another landmark, at the free point nearest to 8 m ahead of the drone."""
    kind, start = landmark_class(name), setup.start
    for x, y in _points_ahead(start):
        is_free = all(
            math.dist((x, y), (landmark.x, landmark.y)) > kind.radius + landmark.radius
            for landmark in setup.layout.landmarks
        )
        if is_free and math.dist((x, y), start[:2]) > kind.radius:
            landmark = Landmark(name, x, y, kind.radius)
            return replace(setup, layout=Layout((*setup.layout.landmarks, landmark), setup.layout.lake))
    raise ValueError(f"There is no room left for the {kind.noun}; remove something first.")


class RateLimit:
    """Limits how often one visitor may ask for something."""

    def __init__(self) -> None:
        self._times: deque[float] = deque()

    def check(self, now: float) -> None:
        """Count one more request, at `now` (seconds), or refuse it."""
        while self._times and now - self._times[0] > REQUEST_SECONDS:
            self._times.popleft()
        if len(self._times) >= MAX_REQUESTS:
            raise ValueError(
                f"That was {MAX_REQUESTS} requests within {REQUEST_SECONDS:.0f} seconds; wait a moment, then try again."
            )
        self._times.append(now)
