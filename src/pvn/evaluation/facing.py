"""Which way flights face when they have ended, where their instructions end in a turn on the spot and where not.

Success looks at the end's place alone, but the next instruction is given, and read, as the drone faces there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pvn.corpus.segments import Segment

FACES_WITHIN = 45.0
"""A flight faces the right way if it is off by at most this, degrees: half of what the camera sees."""
TURNED, AHEAD = "turned", "ahead"


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

    def to_json(self) -> dict[str, Any]:
        """Every field by name."""
        return asdict(self)


def degrees_off(heading: float, wanted: float) -> float:
    """How far a heading is from another, degrees, 0 to 180. Both in radians, of one frame."""
    return math.degrees(abs(math.remainder(heading - wanted, 2 * math.pi)))


def measure_facing(
    headings: Sequence[float], is_success: Sequence[bool], segments: Sequence[Segment]
) -> Mapping[str, FacingFlights]:
    """How B flights face at their ends, by whether their demonstrations end with a turn on the spot.

    headings (B,): of the drones after their last steps, radians, field frame; is_success (B,); segments: the tasks.
    """
    wanted = [segment.demonstration.end_heading for segment in segments]
    off = np.array([degrees_off(heading, each) for heading, each in zip(headings, wanted, strict=True)])
    is_turned = np.array([segment.demonstration.turned_to is not None for segment in segments], bool)
    reached = np.asarray(is_success, bool)
    found = {}
    for name, chosen in ((TURNED, is_turned), (AHEAD, ~is_turned)):
        if chosen.any():
            faced = off[chosen] <= FACES_WITHIN
            found[name] = FacingFlights(
                flights=int(chosen.sum()),
                median_off=float(np.median(off[chosen])),
                faced=100 * float(faced.mean()),
                faced_and_reached=100 * float((faced & reached[chosen]).mean()),
            )
    return found
