"""How far round a landmark a flight went that was told to circle it.

A full circle ends where it starts, so success, which looks at the end alone, cannot tell whether it was flown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pvn.corpus.segments import Segment
from pvn.paths import Points, wrap_radians
from pvn.world.layout import Landmark

AMOUNTS: Mapping[str, float] = {"quarter": 90.0, "half": 180.0, "full": 360.0}
"""Degrees that a manoeuvre's circle should sweep."""
FLOWN_SHARE = 5 / 6
"""A circle is flown if it sweeps at least this share of what it should: 300 degrees of a full one, 75 of a quarter."""
NEAR = 2.5
"""Only what is flown within this many clearance radii of the landmark counts."""


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
    """Flights that were told to circle a landmark by some amount."""

    flights: int
    median_swept: float
    """Degrees, in the right direction."""
    flown: float
    """Percent that swept at least five sixths of what they should, whatever their end."""
    flown_and_reached: float
    """Percent that did so and stopped within 5 m of the goal."""

    def to_json(self) -> dict[str, Any]:
        """Every field by name."""
        return asdict(self)


def circle_of(segment: Segment) -> Circle | None:
    """The first circle that a segment asks for; None if it asks for none."""
    if segment.annotation is None:
        return None
    for manoeuvre in segment.annotation.manoeuvres:
        words = manoeuvre.split()  # "circle A left half"
        if words[0] == "circle":
            landmark = segment.task.layout.landmarks[segment.annotation.meant["ABC".index(words[1])]]
            return Circle(landmark, 1 if words[2] == "left" else -1, words[3])
    return None


def swept_angle(path: Points, circle: Circle) -> float:
    """Degrees that a path (P, 2), field frame, goes round the landmark in the circle's direction, near it."""
    off = path - (circle.landmark.x, circle.landmark.y)
    is_near = np.hypot(*off.T) < NEAR * circle.landmark.radius
    steps = wrap_radians(np.diff(np.arctan2(off[:, 1], off[:, 0])))
    return circle.direction * math.degrees(steps[is_near[1:] & is_near[:-1]].sum())


def measure_circles(
    paths: Sequence[Points], is_success: Sequence[bool], segments: Sequence[Segment]
) -> dict[str, CircledFlights]:
    """By amount: how far round their landmarks flights went that were told to circle them."""
    swept: dict[str, list[tuple[float, bool]]] = {}
    for path, success, segment in zip(paths, is_success, segments, strict=True):
        circle = circle_of(segment)
        if circle is not None:
            swept.setdefault(circle.amount, []).append((swept_angle(path, circle), bool(success)))
    found = {}
    for amount, wanted in AMOUNTS.items():
        if amount not in swept:
            continue
        angles, successes = np.array(swept[amount]).T
        is_flown = angles >= FLOWN_SHARE * wanted
        found[amount] = CircledFlights(
            flights=len(angles),
            median_swept=float(np.median(angles)),
            flown=100 * float(is_flown.mean()),
            flown_and_reached=100 * float((is_flown & (successes > 0)).mean()),
        )
    return found
