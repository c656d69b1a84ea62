"""Whether a clause is true of a flight, worked out from the path alone, independently of the code that found the event.

Each check asks for more than its words promise ("on your left": within 40 degrees of abeam), and for a little less than
the narrator does, whose points and directions are slightly different.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from pvn.corpus.narrator.events import Event
from pvn.paths import Points, distances_along, points_along, wrap_radians
from pvn.world.layout import FENCES, LAKE_CELL, fence_distance
from pvn.world.task import Demonstration

_STEP = 0.1
_TURNS = {"slight": (16, 38), "some": (34, 68), "quarter": (64, 114), "much": (110, 154), "about": (150, 180)}
"""Degrees from the first heading to the direction in which the path begins."""
_SWEEPS = {"dodge": (40, 160), "bend": (40, 155), "half": (135, 226), "most": (216, 324), "full": (312, 800)}
"""Degrees around a landmark."""


class _Flight:
    """A path as the checks see it: points every 10 cm, and chords for directions."""

    def __init__(self, flight: Demonstration) -> None:
        self.layout, self.yaw = flight.task.layout, flight.task.start[2]
        self.length = float(distances_along(flight.path)[-1])
        self.centres = self.layout.centres
        points = points_along(flight.path, np.arange(0.0, self.length, _STEP))
        self.points = np.concatenate([points, flight.path[-1:]])

    def place(self, metres: float) -> int:
        return min(max(round(metres / _STEP), 0), len(self.points) - 1)

    def direction(self, metres: float, reach: float = 1.3) -> float:
        chord = self.points[self.place(metres + reach)] - self.points[self.place(metres - reach)]
        return math.atan2(chord[1], chord[0])

    def bearing(self, mark: int, metres: float) -> float:
        """Degrees to the left from the direction of flight to a landmark."""
        off = self.centres[mark] - self.points[self.place(metres)]
        return math.degrees(wrap_radians(math.atan2(off[1], off[0]) - self.direction(metres)))

    def distances(self, mark: int) -> Points:
        return np.hypot(*(self.points - self.centres[mark]).T)

    def is_wet(self, points: Points) -> Points:
        lake = self.layout.lake
        cells = np.clip((points / LAKE_CELL).astype(int), 0, len(lake) - 1)
        return lake[cells[:, 0], cells[:, 1]]


def _is_turn(flight: _Flight, event: Event) -> bool:
    chord = flight.points[flight.place(2.0)] - flight.points[0]
    turned = math.degrees(wrap_radians(math.atan2(chord[1], chord[0]) - flight.yaw))
    least, most = _TURNS[event.amount]
    return least <= abs(turned) <= most and (event.side == 0 or event.side * turned > 0)


def _is_leave(flight: _Flight, event: Event) -> bool:
    off = flight.centres[event.marks[0]] - flight.points[0]
    ahead = abs(math.degrees(wrap_radians(math.atan2(off[1], off[0]) - flight.yaw)))
    return ahead <= 15 and _is_turn(flight, event)


def _is_bend(flight: _Flight, event: Event) -> bool:
    before, after = event.at - event.metres / 2, event.at + event.metres / 2
    turned = math.degrees(wrap_radians(flight.direction(after) - flight.direction(before)))
    if event.is_turn_back:
        return abs(turned) > 100  # roughly the other way; the curve may be longer than half a circle
    return event.side * turned > (50 if event.amount == "sharp" else 30)


def _is_pass(flight: _Flight, event: Event) -> bool:
    mark = event.marks[0]
    distance = flight.distances(mark)
    # A landmark may be passed twice. If the event says how near the pass was, it is the one at the event.
    begin = flight.place(event.at - 1.5) if event.metres else 0
    end = flight.place(event.at + 1.5) if event.metres else len(distance)
    at = begin + int(distance[begin:end].argmin())
    radius = flight.layout.landmarks[mark].radius
    least = {"close": 1.25 * radius, "by": radius + 3.1, "off": radius + 7.2}[event.amount]
    is_interior = 1.3 <= at * _STEP <= flight.length - 1.3
    is_abeam = 50 <= event.side * flight.bearing(mark, at * _STEP) <= 130
    return is_interior and is_abeam and distance[at] <= least


def _is_round(flight: _Flight, event: Event) -> bool:
    mark = event.marks[0]
    distance = flight.distances(mark)
    at = int(distance.argmin())
    reach = 1.6 * flight.layout.landmarks[mark].radius
    far = np.flatnonzero(distance > reach)
    first = far[far < at].max(initial=-1) + 1
    last = far[far > at].min(initial=len(distance)) - 1
    off = flight.points[first : last + 1] - flight.centres[mark]
    swept = math.degrees(np.unwrap(np.arctan2(off[:, 1], off[:, 0]))[[0, -1]] @ (-1, 1))
    # Taken every half metre, so that a chord is never turned by more than half a circle.
    directions = np.unwrap([flight.direction(metres) for metres in np.arange(first, last + 1, 5) * _STEP])
    aside = event.side * directions
    turned = math.degrees((aside - np.minimum.accumulate(aside)).max())
    least, most = _SWEEPS[event.amount]
    return least <= event.side * swept <= most and turned >= (10 if event.amount == "dodge" else 35)


def _is_between(flight: _Flight, event: Event) -> bool:
    left, right = (flight.centres[mark] for mark in event.marks)
    share = (flight.points - left) @ (right - left) / ((right - left) @ (right - left))
    normal = np.array([left[1] - right[1], right[0] - left[0]])
    ahead = (flight.points - left) @ normal
    # From left to right along the gap, "ahead" grows in the direction of flight.
    crossed = np.flatnonzero((ahead[:-1] < 0) & (ahead[1:] >= 0) & (share[1:] > 0.2) & (share[1:] < 0.8))
    return bool(len(crossed)) and math.hypot(*(right - left)) <= 17.1


def _is_water(flight: _Flight, event: Event) -> bool:
    wet = flight.is_wet(flight.points)
    is_right_end = wet[-1] if event.amount == "onto" else not wet[flight.place(event.at) :].all()
    return bool(wet[flight.place(event.at)] and not wet[: flight.place(event.at)].all() and is_right_end)


def _is_shore(flight: _Flight, event: Event) -> bool:
    beside = []
    for metres in np.arange(event.at - event.metres / 2 + 1.0, event.at + event.metres / 2 - 1.0, 0.5):
        angle = flight.direction(metres) + event.side * math.pi / 2
        steps = np.arange(0.25, 3.6, 0.25)[:, None] * (math.cos(angle), math.sin(angle))
        beside.append(flight.is_wet(flight.points[flight.place(metres)] + steps).any())
    return bool(np.mean(beside) > 0.9)


def _fence_bearing(flight: _Flight, colour: str, metres: float) -> float:
    return math.degrees(wrap_radians(FENCES[colour] - flight.direction(metres)))


def _is_along(flight: _Flight, event: Event) -> bool:
    part = flight.points[flight.place(event.at - event.metres / 2) : flight.place(event.at + event.metres / 2)]
    is_near = bool((fence_distance(part, event.colour) < 6.0).all())
    return is_near and 65 <= event.side * _fence_bearing(flight, event.colour, event.at) <= 115


def _is_toward(flight: _Flight, event: Event) -> bool:
    mark = event.marks[0]
    chord = flight.points[-1] - flight.points[flight.place(event.at)]
    off = flight.centres[mark] - flight.points[flight.place(event.at)]
    aside = wrap_radians(math.atan2(chord[1], chord[0]) - math.atan2(off[1], off[0]))
    return abs(math.degrees(aside)) <= 8 and flight.distances(mark)[-1] < math.hypot(*off) - 3.5


def _is_both(flight: _Flight, event: Event) -> bool:
    first, second = (Event("pass", event.at, (mark,), event.side, "off") for mark in event.marks)
    in_order = flight.distances(event.marks[0]).argmin() <= flight.distances(event.marks[1]).argmin()
    return bool(in_order) and _is_pass(flight, first) and _is_pass(flight, second)


_WAY_CHECKS = {
    "turn": _is_turn, "leave": _is_leave, "bend": _is_bend, "pass": _is_pass, "both": _is_both, "round": _is_round,
    "between": _is_between, "water": _is_water, "shore": _is_shore, "along": _is_along, "toward": _is_toward,
}  # fmt: skip


def _is_at_mark(flight: _Flight, event: Event) -> bool:
    """An end, or something around the end, that is about one landmark."""
    mark = event.marks[0]
    radius = flight.layout.landmarks[mark].radius
    distance = float(flight.distances(mark)[-1])
    bearing = flight.bearing(mark, flight.length)
    match event.kind:
        case "end front":
            return abs(bearing) <= 34 and distance <= 1.31 * radius
        case "end short":
            return abs(bearing) <= 22 and abs(distance - 0.45 * radius - event.metres) <= 0.3
        case "end half":
            return abs(bearing) <= 18 and 0.43 <= distance / flight.distances(mark)[0] <= 0.57
        case "end beside":
            return 62 <= event.side * bearing <= 118 and distance <= 1.45 * radius
        case "end level":
            return 62 <= event.side * bearing <= 118 and distance <= 13.2
        case "end past":
            since = flight.length - float(flight.distances(mark).argmin()) * _STEP
            was = flight.bearing(mark, flight.length - since)
            return abs(bearing) >= 106 and abs(since - event.metres) <= 0.6 and 45 <= event.side * was <= 135
        case "with ahead":
            return (12 <= event.side * bearing <= 66) if event.side else abs(bearing) <= 20
        case "with aside":
            return 60 <= event.side * bearing <= 120 and distance <= 15.2
        case _:  # with behind
            return abs(bearing) >= 144


def _is_end(flight: _Flight, event: Event) -> bool:
    match event.kind:
        case "end between":
            left, right = event.marks
            middle = (flight.centres[left] + flight.centres[right]) / 2
            width = math.hypot(*(flight.centres[left] - flight.centres[right]))
            is_inside = math.hypot(*(flight.points[-1] - middle)) <= 0.25 * width + 1.7
            return is_inside and flight.bearing(left, flight.length) > 50 and flight.bearing(right, flight.length) < -50
        case "end fence":
            gap = float(fence_distance(flight.points[-1], event.colour))
            return gap <= 3.7 and abs(_fence_bearing(flight, event.colour, flight.length)) <= 55
        case "with fence":
            bearing = _fence_bearing(flight, event.colour, flight.length)
            gap = float(fence_distance(flight.points[-1], event.colour))
            return gap <= 9.1 and ((60 <= event.side * bearing <= 120) if event.side else abs(bearing) <= 40)
        case "end forward":
            chord = flight.points[-1] - flight.points[0]
            return abs(math.hypot(*chord) - event.metres) <= 0.6
        case "end start":
            return math.hypot(*(flight.points[-1] - flight.points[0])) <= 2.6 and flight.length >= 11.5
        case "with water":
            return bool(flight.is_wet(flight.points[-5:]).all())
        case _:
            return _is_at_mark(flight, event)


def are_true(events: Iterable[Event], flight: Demonstration) -> Iterator[bool]:
    """For each event that a text mentions, whether it happens on a flight."""
    seen = _Flight(flight)
    for event in events:
        yield bool(_WAY_CHECKS.get(event.kind, _is_end)(seen, event))
