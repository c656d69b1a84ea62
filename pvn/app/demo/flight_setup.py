"""What a visitor has chosen to fly: in which field, from where, told what, by whom; and the command that repeats it."""

from __future__ import annotations

import functools
import math
import shlex
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from pvn.corpus.meadow.generator import sample_paragraph
from pvn.corpus.segments import Corpus, Segment
from pvn.corpus.vocabulary import tokenise
from pvn.world.landmarks import METRES_PER_CONFIG, landmark_class
from pvn.world.layout import FIELD_SIZE, Landmark, Layout
from pvn.world.task import Task

Pilot = Literal["pvn", "gsmn", "chaplot", "oracle"]
PILOTS: tuple[Pilot, ...] = get_args(Pilot)

MOST_WORDS, MOST_LETTERS = 100, 1000
MOST_PRESSES, PRESS_SECONDS = 8, 10.0
LARGEST_SEED = 999_999
FIELD_FILE = "field.json"
FENCE_CLEARANCE = 1.0
"""Least metres between a landmark that is added or dragged and a fence."""


@dataclass(frozen=True, eq=False)
class Ground:
    """A field and the segments that are flown in it."""

    segments: tuple[Segment, ...]
    options: tuple[str, ...]
    """For each segment, the options of `pvn fly` that name it."""
    title: str
    seed: int | None
    """Of a random field; None for a corpus's."""


@functools.lru_cache(maxsize=64)
def random_ground(seed: int) -> Ground:
    """A random field and its five segments."""
    if not 0 <= seed <= LARGEST_SEED:
        raise ValueError(f"seed: got {seed}, expected 0 to {LARGEST_SEED}")
    segments = tuple(sample_paragraph(seed))
    options = tuple(f"--seed {seed} --segment {segment.place + 1}" for segment in segments)
    return Ground(segments, options, f"field {seed}", seed)


def corpus_ground(corpus: Corpus, folder: str, name: str) -> tuple[Ground, int]:
    """The field of a corpus segment with all its segments, and which of them was asked for."""
    chosen = corpus.segment(name.strip())
    segments = tuple(segment for segment in corpus if segment.environment == chosen.environment)
    options = tuple(f"--corpus {shlex.quote(folder)} --segment {segment.id}" for segment in segments)
    return Ground(segments, options, f"{corpus.name}, field {chosen.environment}", None), segments.index(chosen)


@dataclass(frozen=True, eq=False)
class Choice:
    """One flight to be."""

    ground: Ground
    place: int
    """Which of the ground's segments it starts as."""
    layout: Layout
    """The field as the visitor has arranged it."""
    instruction: str
    pilot: Pilot = "pvn"

    @property
    def segment(self) -> Segment:
        """The segment whose start, and perhaps instruction and path, these are."""
        return self.ground.segments[self.place]

    @property
    def is_edited(self) -> bool:
        """Whether landmarks were moved, added or removed."""
        return self.layout is not self.segment.task.layout and self.layout != self.segment.task.layout

    @property
    def has_goal(self) -> bool:
        """Whether the demonstrated path is one for this: the segment's own words in the segment's own field."""
        return not self.is_edited and self.instruction == _tidy(self.segment.task.instruction)

    @property
    def task(self) -> Task:
        """What is flown."""
        task = self.segment.task
        return task if self.has_goal else replace(task, layout=self.layout, instruction=self.instruction)

    def check(self) -> None:
        """Refuse what no pilot could fly."""
        words = tokenise(self.instruction)
        if not words:
            raise ValueError('Type an instruction first, such as "go to the well and stop in front of it".')
        if len(words) > MOST_WORDS or len(self.instruction) > MOST_LETTERS:
            raise ValueError(
                f"That is too long: {len(words)} words, {len(self.instruction)} letters. Say it in at most "
                f"{MOST_WORDS} words and {MOST_LETTERS} letters."
            )
        if self.pilot == "oracle" and not self.has_goal:
            raise ValueError(
                "The oracle reads no instructions: it follows the demonstrated path of one of the field's segments. "
                "Choose a segment as it is, or another pilot."
            )

    def command(self) -> str:
        """The command that repeats the flight exactly; for a field that was edited it names a file to download."""
        pilot = "" if self.pilot == "pvn" else f" --pilot {self.pilot}"
        words = "" if self.has_goal else f" {shlex.quote(self.instruction)}"
        where = self.ground.options[self.place]
        if self.is_edited:
            where = f"--file {FIELD_FILE} --start " + " ".join(repr(float(part)) for part in self.task.start)
        return f"pvn fly{words} {where}{pilot}"


def _tidy(text: str) -> str:
    return " ".join(text.split())


def choose(ground: Ground, place: int, pilot: Pilot) -> Choice:
    """A segment as it is in its corpus."""
    task = ground.segments[place].task
    return Choice(ground, place, task.layout, _tidy(task.instruction), pilot)


def retell(choice: Choice, text: str) -> Choice:
    """The same with other words; far too many are cut, and refused later."""
    return replace(choice, instruction=_tidy(text[: 2 * MOST_LETTERS]))


def _inside(value: float) -> float:
    """The nearest coordinate (metres) where a landmark may stand."""
    # Whole config units, so that the environment file that repeats the flight is read back as the same field.
    inside = min(max(value, FENCE_CLEARANCE), FIELD_SIZE - FENCE_CLEARANCE)
    return round(inside / METRES_PER_CONFIG) * METRES_PER_CONFIG


def move_landmark(choice: Choice, index: int, x: float, y: float) -> Choice:
    """The same with a landmark elsewhere, inside the fences (field frame, metres); a ValueError where others stand."""
    marks = list(choice.layout.landmarks)
    marks[index] = replace(marks[index], x=_inside(x), y=_inside(y))
    return replace(choice, layout=Layout(tuple(marks), choice.layout.lake))


def remove_landmark(choice: Choice, index: int) -> Choice:
    """The same with a landmark less."""
    marks = choice.layout.landmarks
    return replace(choice, layout=Layout((*marks[:index], *marks[index + 1 :]), choice.layout.lake))


def _places_ahead(start: Sequence[float]) -> list[tuple[float, float]]:
    """Places from 8 m ahead of a pose outwards, field frame."""
    x, y, yaw = start
    middle = (_inside(x + 8 * math.cos(yaw)), _inside(y + 8 * math.sin(yaw)))
    places = [(_inside(east), _inside(north)) for east in range(3, 48) for north in range(3, 48)]
    return sorted(places, key=lambda place: math.dist(place, middle))


def add_landmark(choice: Choice, name: str) -> Choice:
    """The same with a landmark more, where there is room nearest to 8 m ahead of the start."""
    kind = landmark_class(name)
    for x, y in _places_ahead(choice.segment.task.start):
        is_free = all(
            math.dist((x, y), (mark.x, mark.y)) > kind.radius + mark.radius for mark in choice.layout.landmarks
        )
        if is_free and math.dist((x, y), choice.segment.task.start[:2]) > kind.radius:
            mark = Landmark(name, x, y, kind.radius)
            return replace(choice, layout=Layout((*choice.layout.landmarks, mark), choice.layout.lake))
    raise ValueError(f"There is no room left for the {kind.noun}; remove something first.")


@dataclass
class Presses:
    """How often a visitor has asked for something lately."""

    times: deque[float] = field(default_factory=deque)

    def check(self, now: float) -> None:
        """Count one more, at `now` (seconds), or refuse it."""
        while self.times and now - self.times[0] > PRESS_SECONDS:
            self.times.popleft()
        if len(self.times) >= MOST_PRESSES:
            raise ValueError(
                f"That was {MOST_PRESSES} requests in {PRESS_SECONDS:.0f} seconds; wait a moment, then go on."
            )
        self.times.append(now)
