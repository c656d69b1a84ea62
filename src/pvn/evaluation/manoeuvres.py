"""Manoeuvres that success cannot see: circles round a landmark, and turns on the spot at the end.

A full circle ends where it starts, and success is about the end alone. Which way a drone faces there does not count
for success either, but the next instruction is given, and read, as it faces.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pvn.corpus.segments import Segment
from pvn.evaluation.metrics import Booleans
from pvn.paths import Points, wrap_radians
from pvn.world.layout import Landmark

AMOUNTS: Mapping[str, float] = {"quarter": 90.0, "half": 180.0, "full": 360.0}
"""Degrees that a manoeuvre's circle should sweep."""
SWEPT_SHARE = 5 / 6
"""A circle is complete if it sweeps at least this share of its amount: 300 degrees of a full one, 75 of a quarter."""
NEAR = 2.5
"""Only the part of a flight within this many clearance radii of the landmark counts."""
FACES_WITHIN = 45.0
"""A flight faces the right way if it is off by at most this, degrees: half of what the camera sees."""
TURNED, AHEAD = "turned", "ahead"


@dataclass(frozen=True)
class Circle:
    """A circle that a segment asks for."""

    landmark: Landmark
    direction: int
    """1: counter-clockwise, the landmark on the left; -1: clockwise."""
    amount: str
    """One of AMOUNTS."""


@dataclass(frozen=True)
class CircledFlights:
    """Flights whose instructions ask for a circle of one amount."""

    flights: int
    median_swept: float
    """Degrees, in the right direction."""
    flown: float
    """Percent that swept at least five sixths of the amount, wherever they ended."""
    flown_and_reached: float
    """Percent that did so and stopped within 5 m of the goal."""


@dataclass(frozen=True)
class FacingFlights:
    """Flights that should end with a turn on the spot, or without one."""

    flights: int
    median_off: float
    """Degrees between the headings at the ends of flight and demonstration."""
    faced: float
    """Percent that face the right way, wherever they ended."""
    faced_and_reached: float
    """Percent that do so and stopped within 5 m of the goal."""


def circle_of(segment: Segment) -> Circle | None:
    """The first circle that a segment asks for; None if it asks for none."""
    for manoeuvre in segment.annotation.manoeuvres if segment.annotation else ():
        words = manoeuvre.split()  # "circle A left half"
        if words[0] == "circle":
            assert segment.annotation is not None
            landmark = segment.task.layout.landmarks[segment.annotation.meant["ABC".index(words[1])]]
            return Circle(landmark, 1 if words[2] == "left" else -1, words[3])
    return None


def swept_angle(path: Points, circle: Circle) -> float:
    """Degrees that a path (P, 2), field frame, goes round the landmark in the circle's direction, near it."""
    off = path - (circle.landmark.x, circle.landmark.y)
    is_near = np.hypot(*off.T) < NEAR * circle.landmark.radius
    steps = wrap_radians(np.diff(np.arctan2(off[:, 1], off[:, 0])))
    return circle.direction * math.degrees(steps[is_near[1:] & is_near[:-1]].sum())


def degrees_off(heading: float, wanted: float) -> float:
    """How far a heading is from another, degrees, 0 to 180. Both are in radians, in one frame."""
    return math.degrees(abs(math.remainder(heading - wanted, 2 * math.pi)))


def measure_circles(
    paths: Sequence[Points], is_success: Sequence[bool], segments: Sequence[Segment]
) -> dict[str, CircledFlights]:
    """By amount: how far round their landmarks flights went whose instructions ask for a circle."""
    swept: dict[str, list[tuple[float, bool]]] = {amount: [] for amount in AMOUNTS}
    for path, success, segment in zip(paths, is_success, segments, strict=True):
        if (circle := circle_of(segment)) is not None:
            swept[circle.amount].append((swept_angle(path, circle), bool(success)))
    found = {}
    for amount, flights in swept.items():
        if flights:
            angles, reached = np.array(flights).T
            is_complete = angles >= SWEPT_SHARE * AMOUNTS[amount]
            found[amount] = CircledFlights(*_counts(angles, is_complete, reached > 0))
    return found


def measure_facing(
    headings: Sequence[float], is_success: Sequence[bool], segments: Sequence[Segment]
) -> dict[str, FacingFlights]:
    """How B flights face at their ends, by whether their demonstrations end with a turn on the spot.

    headings (B,): of the drones after their last steps, radians, field frame; is_success (B,); segments: the tasks.
    """
    wanted = [segment.demonstration.end_heading for segment in segments]
    off = np.array([degrees_off(heading, each) for heading, each in zip(headings, wanted, strict=True)])
    is_turned = np.array([segment.demonstration.turned_to is not None for segment in segments], bool)
    reached, found = np.asarray(is_success, bool), {}
    for name, chosen in ((TURNED, is_turned), (AHEAD, ~is_turned)):
        if chosen.any():
            found[name] = FacingFlights(*_counts(off[chosen], off[chosen] <= FACES_WITHIN, reached[chosen]))
    return found


def _counts(angles: Points, is_right: Booleans, reached: Booleans) -> tuple[int, float, float, float]:
    """Number of flights, their median angle, and the percentages that are right, and that are right and successful."""
    percent, both = (100 * float(which.mean()) for which in (is_right, is_right & reached))
    return len(angles), float(np.median(angles)), percent, both
