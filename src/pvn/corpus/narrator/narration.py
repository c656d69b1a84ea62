"""Describing a flight: choosing the events to mention, so that a listener knows where to fly and stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pvn.corpus.meadow.generator import NOISE
from pvn.corpus.meadow.references import Lexicon
from pvn.corpus.narrator.checks import are_true
from pvn.corpus.narrator.events import Event, ends_of, way_of
from pvn.corpus.narrator.names import Names
from pvn.corpus.narrator.speaking import Content, Speaker, fill, finish
from pvn.corpus.narrator.track import Track
from pvn.corpus.narrator.wordings import Voice, bundled_wordings
from pvn.world.task import Demonstration

TRIES = 4
"""Texts tried until one has the wanted length."""
LENGTHS = {"short": (3, 12), "middling": (9, 21), "long": (20, 46)}
"""Fewest and most words in texts of three kinds, which are about equally frequent."""
_END_WEIGHTS = {
    "end front": 3.0, "end short": 1.0, "end half": 1.6, "end beside": 2.6, "end level": 1.3, "end past": 1.8,
    "end between": 1.6, "end fence": 8.0, "end forward": 0.7, "end start": 12.0,
}  # fmt: skip
_WAY_WEIGHTS = {
    "round": 8.0,
    "bend": 4.0,
    "pass": 3.0,
    "between": 6.0,
    "water": 12.0,
    "along": 2.5,
    "shore": 0.5,
    "toward": 0.4,
}
_PASS_WEIGHTS = {"close": 4.0, "by": 3.0, "off": 0.7}
_NUM_OPTIONAL = {"short": (0, 1), "middling": (1, 3), "long": (3, 4)}
"""By length: fewest and most events beyond those that the end needs."""
MOST_CLAUSES = 5
"""In one text; more would be hard to keep in mind."""
_NUM_EXTRAS = {"short": (0.92, 0.08, 0.0), "middling": (0.6, 0.4, 0.0), "long": (0.25, 0.5, 0.25)}
"""By length: shares of texts that mention none, one and two of the things around the end."""
_TURN_SHARE = {"short": 0.25, "middling": 0.6, "long": 0.9}
"""By length: share of texts about coming back that mention the turn."""
_WATER_SHARE = {"short": 0.6, "middling": 0.85, "long": 0.95}
"""By length: share of texts that mention water that is crossed."""


@dataclass(frozen=True)
class Clause:
    """One thing that a text says, and what makes it true."""

    event: Event
    words: str
    """As in the text, apart from capitals and slips."""


@dataclass(frozen=True)
class Narration:
    """A flight in words."""

    text: str
    clauses: tuple[Clause, ...]
    """Everything that the text claims about the flight."""
    voice: str


def _draw(events: list[Event], weight: Callable[[Event], float], generator: np.random.Generator) -> Event:
    weights = [weight(event) for event in events]
    draw = generator.random() * sum(weights)
    for event, share in zip(events, weights, strict=True):
        draw -= share
        if draw <= 0:
            return event
    return events[-1]


def _is_direct(track: Track, end: Event) -> bool:
    """Whether flying straight to the end's landmark leads to the right side of it."""
    if end.kind not in ("end front", "end half") or not end.marks:
        return False
    off = track.centres[end.marks[0]] - track.points[0]
    aside = math.atan2(off[1], off[0]) - float(track.directions[-1])
    return math.cos(aside) > math.cos(math.radians(50))


def _is_detour(track: Track) -> bool:
    """Whether the flight is so much longer than the straight way that its end alone does not describe it."""
    return track.length > 2.0 * math.hypot(*(track.points[-1] - track.points[0])) + 8.0


def _way_weight(event: Event) -> float:
    return _PASS_WEIGHTS[event.amount] if event.kind == "pass" else _WAY_WEIGHTS[event.kind]


def _turn_back_of(way: Sequence[Event]) -> Event | None:
    """The first turn back on the way, if there is one."""
    return next((event for event in way if event.is_turn_back), None)


def _passed_before_turn(way: Sequence[Event]) -> list[Event]:
    """What is clearly passed before the flight turns back, which shows where to turn."""
    turn = _turn_back_of(way)
    return [event for event in way if turn and event.kind == "pass" and event.amount != "off" and event.at < turn.at]


def _is_again(way: Sequence[Event], end: Event) -> bool:
    """Whether a flight turns back to what it has passed, and ends there."""
    return end.kind == "end front" and any(event.marks == end.marks for event in _passed_before_turn(way))


def _with_turn_back(
    found: list[Event], way: list[Event], end: Event, length: str, generator: np.random.Generator
) -> list[Event]:
    """What must be said, with what is passed before the flight turns back, and perhaps without the turn itself."""
    passed, is_again = _passed_before_turn(way), _is_again(way, end)
    if not passed:
        return found
    found = [*found, next((event for event in passed if is_again and event.marks == end.marks), passed[-1])]
    # Where the text says to come back, a turn is understood.
    if (end.kind == "end start" or is_again) and generator.random() > _TURN_SHARE[length]:
        found = [event for event in found if event is not _turn_back_of(way)]
    return sorted(found, key=lambda event: event.at)


def _required(track: Track, way: list[Event], end: Event, length: str, generator: np.random.Generator) -> list[Event]:
    """What must be said for the end to be found."""
    # Beside or just past something is one place, from wherever it is reached; at a fence there are many.
    is_one_place = end.kind not in ("end fence", "end level", "end short", "end forward")
    needs_way = not is_one_place if length == "short" else not _is_direct(track, end)
    needs_way = needs_way or _is_detour(track) or bool(_passed_before_turn(way))
    found = []
    for event in way:
        if event.kind == "turn":
            # A slight turn can be left out if it is towards what is named next.
            is_slight = event.amount == "slight"
            if not is_slight or (needs_way and end.kind != "end between" and generator.random() < 0.8):
                found.append(event)
        elif event.kind == "round":
            if event.amount not in ("bend", "dodge") or (needs_way and event.amount == "bend"):
                found.append(event)
        elif event.kind == "bend" and needs_way:
            found.append(event)
        elif event.kind == "water" and event.amount == "across" and generator.random() < _WATER_SHARE[length]:
            found.append(event)
    found = _with_turn_back(found, way, end, length, generator)
    leaves = [event for event in way if event.kind == "leave"]
    if leaves and found and found[0].kind == "turn" and generator.random() < 0.3:
        found[0] = leaves[0]
    return found


def _options(way: list[Event], required: list[Event], end: Event) -> list[Event]:
    """What else may be said: nothing twice, and nothing that the end says anyway."""
    taken = {mark for event in required for mark in event.marks}
    hidden = set(end.marks) if end.kind != "end past" else set()
    return [
        event
        for event in way
        if event.kind not in ("turn", "leave")
        and event not in required
        and not taken & set(event.marks)
        and not hidden & set(event.marks)
        and not (event.kind == "toward" and end.kind in ("end front", "end half", "end short"))
        and not (event.kind == "toward" and event.at > 0.6 * end.at)
    ]


def _choose_way(options: list[Event], required: list[Event], count: int, generator: np.random.Generator) -> list[Event]:
    chosen = list(required)
    while options and len(chosen) < count:
        event = _draw(options, _way_weight, generator)
        chosen.append(event)
        marks, kind = set(event.marks), event.kind
        options = [
            other
            for other in options
            if other is not event
            and not marks & set(other.marks)
            and not (kind == other.kind and kind in ("water", "shore", "along", "toward"))
            and not (abs(other.at - event.at) < 1.0 and {kind, other.kind} <= {"between", "pass"})
        ]
    return sorted(chosen, key=lambda event: event.at)


def _merged(way: list[Event], end: Event, generator: np.random.Generator) -> list[Event]:
    """The way with some pairs of landmarks that are passed on one side in one clause; the end's is not among them."""
    merged: list[Event] = []
    for event in way:
        last = merged[-1] if merged else None
        is_pair = last is not None and last.kind == event.kind == "pass" and last.side == event.side
        is_pair = is_pair and event.marks != end.marks
        if last is not None and is_pair and generator.random() < 0.6:
            merged[-1] = replace(last, kind="both", marks=(*last.marks, *event.marks), amount="")
        else:
            merged.append(event)
    return merged


def _choose_extras(
    extras: list[Event], way: list[Event], end: Event, length: str, generator: np.random.Generator
) -> list[Event]:
    named = {mark for event in (*way, end) for mark in event.marks}
    colours = {event.colour for event in (*way, end) if event.colour}
    draw = generator.random()
    chosen: list[Event] = []
    none, one, _ = _NUM_EXTRAS[length]
    for _ in range(0 if draw < none else 1 if draw < none + one else 2):
        left = [
            event
            for event in extras
            if event not in chosen
            and not named & set(event.marks)
            and event.colour not in colours
            and not any(event.kind == other.kind and event.side == other.side for other in chosen)
        ]
        if left:
            chosen.append(_draw(left, lambda event: 1.0 if event.marks else 4.0, generator))
            named = named | set(chosen[-1].marks)
    return chosen


def _choose(
    track: Track,
    way: list[Event],
    ends: list[Event],
    extras: list[Event],
    names: Names,
    length: str,
    generator: np.random.Generator,
) -> Content | None:
    """What to say; None if no end has an unambiguous name, or a detour cannot be described."""
    ends = [event for event in ends if names.can_name(event.marks)]
    if not ends:
        return None
    end = _draw(ends, lambda event: _END_WEIGHTS[event.kind], generator)
    way = [event for event in way if names.can_name(event.marks)]
    required = _required(track, way, end, length, generator)
    is_again = _is_again(way, end)
    comes_back = end.kind == "end start" or is_again
    needed = ("round", "bend", "pass") if comes_back else ("round", "bend")
    if _is_detour(track) and not any(event.kind in needed for event in required):
        return None
    if _turn_back_of(way) is not None and not _passed_before_turn(way):
        return None  # nothing shows where to turn back
    if len(required) >= MOST_CLAUSES:
        return None
    if len(required) > 1 and length == "short":
        length = "middling"
    if len(required) > 2:
        length = "long"
    least, most = _NUM_OPTIONAL[length]
    count = least + int(generator.random() * (most - least + 1))
    chosen = _choose_way(_options(way, required, end), required, max(count, len(required)), generator)
    around = [event for event in extras if names.can_name(event.marks)]
    with_extras = _choose_extras(around, chosen, end, length, generator)
    chosen = _merged(chosen, end, generator)
    return Content(tuple(chosen), end, tuple(with_extras[: MOST_CLAUSES - 1 - len(chosen)]), length, is_again)


def _pick_length(generator: np.random.Generator) -> str:
    draw = generator.random()
    return "short" if draw < 0.4 else "middling" if draw < 0.66 else "long"


def _excess(text: str, length: str) -> int:
    """By how many words a text is longer or shorter than it should be."""
    least, most = LENGTHS[length]
    num_words = text.count(" ") + 1
    return max(least - num_words, num_words - most, 0)


def narrate(
    flight: Demonstration, lexicon: Lexicon, generator: np.random.Generator, noise: float = NOISE
) -> Narration | None:
    """A flight described in some voice; its own instruction is not used.

    Every clause is true of the flight, and the place to stop is described so that only one place in the field fits.
    None if there is no such description, as where the path ends far from anything. `noise`: share of texts with a slip.
    """
    track = Track.of(flight)
    if track is None:
        return None
    ends, extras = ends_of(track)
    if not ends:
        return None
    way = way_of(track)
    names = Names.of(flight.task.layout, lexicon, generator)
    voice = bundled_wordings().pick_voice(generator)
    length = _pick_length(generator)
    best, least = None, math.inf
    for _ in range(TRIES):
        content = _choose(track, way, ends, extras, names, length, generator)
        if content is None:
            return None
        narration = _speak(content, track, names, voice, generator, noise)
        if not all(are_true((clause.event for clause in narration.clauses), flight)):
            continue  # borderline, as on which side something is at a sharp corner
        excess = _excess(narration.text, content.length)
        if excess < least:
            best, least = narration, excess
        if excess == 0:
            break
    return best


def _speak(
    content: Content, track: Track, names: Names, voice: Voice, generator: np.random.Generator, noise: float
) -> Narration:
    speaker = Speaker(track, names, voice, bundled_wordings(), generator)
    speaker.speak(content)
    text = finish(speaker.text, speaker.references, voice, noise, generator)
    clauses = tuple(Clause(event, fill(words, speaker.references)) for event, words in speaker.clauses)
    return Narration(text, clauses, voice.name)
