"""Links: the part of the page's address that says what was set up and flown, so that opening it flies the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode

from pvn.app.demo.flight_setup import FieldChoice, FlightSetup, Pose, first_segment, segment_setup
from pvn.world.layout import Landmark, Layout

MAX_FLIGHTS = 30
"""Flights that a conversation keeps to be replayed, each about a megabyte, and instructions that a link carries. The
link of a longer conversation has none: those that are kept begin where the forgotten ones ended."""
MAX_LINK = 30_000
"""Characters of a link that is read."""


@dataclass(frozen=True)
class OpenedLink:
    """What a link says."""

    setup: FlightSetup
    """How the first flight begins; its instruction is the first of the link's, or what is shown first."""
    instructions: tuple[str, ...]
    """What to fly, one after another; empty for a link that only shows."""


def write_link(setup: FlightSetup, instructions: Sequence[str]) -> str:
    """The query (without "?") that shows a setup and flies these instructions from its first start."""
    field = setup.field
    parts: list[tuple[str, str]] = []
    if field.number is not None:
        parts.append(("field", str(field.number)))
    if field.is_from_corpus:
        parts.append(("segment", setup.segment.id))
    else:
        parts.append(("segment", str(setup.segment_index + 1)))
    if setup.own_start is not None:
        parts.append(("start", ",".join(repr(float(part)) for part in setup.own_start)))
    if setup.is_edited:
        marks = [(mark.name, mark.x, mark.y, mark.radius, mark.yaw) for mark in setup.layout.landmarks]
        parts.append(("landmarks", ";".join(",".join(map(str, mark)) for mark in marks)))
    parts.append(("agent", setup.pilot))
    if len(instructions) <= MAX_FLIGHTS:
        parts += [("say", words) for words in instructions]
    return urlencode(parts)


def _numbers(text: str, name: str, count: int) -> list[float]:
    """So many finite numbers, separated by commas."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise ValueError(f"link: got {name}={text[:60]}, expected {count} numbers with commas; copy the link again")
    return numbers


def _read_landmarks(text: str) -> tuple[Landmark, ...]:
    marks = []
    for mark in filter(None, text.split(";")):
        name, _, numbers = mark.partition(",")
        marks.append(Landmark(name, *_numbers(numbers, "landmarks", 4)))
    return tuple(marks)


def _segment_index(field: FieldChoice, text: str) -> int:
    """Which segment of a field is meant; by default the one that is shown first."""
    if field.is_from_corpus or not text:
        return first_segment(field)
    if not text.isdecimal() or not 1 <= int(text) <= len(field.segments):
        raise ValueError(f"link: got segment={text[:20]}, expected 1 to {len(field.segments)}; copy the link again")
    return int(text) - 1


def open_link(
    query: str,
    first_field: FieldChoice,
    pilots: Sequence[str],
    random_field: Callable[[int], FieldChoice],
    corpus_field: Callable[[str], tuple[FieldChoice, int]] | None = None,
) -> OpenedLink:
    """What a query (without "?") asks for; a ValueError says what is wrong with it.

    first_field: shown where the link names none. random_field and corpus_field find fields by number and by segment id.
    """
    if len(query) > MAX_LINK:
        raise ValueError(f"link: got {len(query):,} characters, expected at most {MAX_LINK:,}; copy the link again")
    values = {name: found for name, found in parse_qs(query).items() if found}

    def value(name: str) -> str:
        return values.get(name, [""])[0]

    field, segment = first_field, value("segment")
    if value("field"):
        if not value("field").isdecimal():
            raise ValueError(f"link: got field={value('field')[:20]}, expected a whole number; copy the link again")
        field = random_field(int(value("field")[:9]))
    if corpus_field is not None and "-" in segment:
        field, index = corpus_field(segment)
    else:
        index = _segment_index(field, segment)
    agent = value("agent") or pilots[0]
    if agent not in pilots:
        raise ValueError(f"link: got agent={agent[:40]}, expected one of {', '.join(pilots)}")
    setup = segment_setup(field, index, agent)
    if value("start"):
        x, y, yaw = _numbers(value("start"), "start", 3)
        start: Pose = (x, y, yaw)
        setup = setup.starting_at(start)
    if "landmarks" in values:
        try:
            layout = Layout(_read_landmarks(value("landmarks")), setup.layout.lake)
        except ValueError as error:
            problem = str(error).removeprefix("link: ").removesuffix("; copy the link again")
            raise ValueError(f"link: landmarks: {problem}; copy the link again") from None
        setup = FlightSetup(field, index, layout, setup.instruction, agent, setup.own_start)
    return OpenedLink(setup, tuple(values.get("say", ()))[:MAX_FLIGHTS])
