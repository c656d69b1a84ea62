"""Instructions to try with one click: they name what stands in the field, beginning with what is nearest ahead."""

from __future__ import annotations

import math

import numpy as np

from pvn.app.demo.flight_setup import Pose
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import FENCES, Layout, fence_distance

NUM_EXAMPLES = 8
HALF_VIEW = math.radians(40)
"""Landmarks within this angle of the heading count as in view: a little less than the camera's."""
SEEN = (
    "go to the {} and stop in front of it",
    "fly past the {} on its left side",
    "fly around the {} and stop behind it",
    "fly towards the {}, then stop half way",
)
"""For landmarks in view."""
TOWARDS = ("turn {side} and go to the {noun}", "{side} turn, then fly to the {noun} and stop close to it")
"""For other landmarks."""
TURNS = {"": 0.0, "turn left and ": math.pi / 2, "turn right and ": -math.pi / 2, "turn around and ": math.pi}
"""How an instruction turns the drone, radians."""
MIN_WAY = 3.0
"""A landmark closer than this to the drone, metres, is in no example."""


def _bearings(layout: Layout, pose: Pose) -> list[tuple[float, float, str]]:
    """Distance (metres), angle left of the heading (radians) and noun of each landmark, the nearest first."""
    x, y, yaw = pose
    found = []
    for mark in layout.landmarks:
        angle = math.remainder(math.atan2(mark.y - y, mark.x - x) - yaw, 2 * math.pi)
        found.append((math.dist((x, y), (mark.x, mark.y)) - mark.radius, angle, LANDMARK_CLASSES[mark.name].noun))
    return sorted(found)


def _fence_ahead(x: float, y: float, yaw: float) -> str:
    """The colour of the fence that a drone faces."""
    reach = {}
    for colour, angle in FENCES.items():
        approach = math.cos(angle - yaw)
        away = float(fence_distance(np.array([x, y]), colour))
        reach[colour] = away / approach if approach > 1e-6 else math.inf
    return min(reach, key=lambda colour: reach[colour])


def example_instructions(layout: Layout, pose: Pose) -> list[str]:
    """Eight instructions for a drone at a pose in a field."""
    x, y, yaw = pose
    places = [place for place in _bearings(layout, pose) if place[0] > MIN_WAY]
    ahead = [noun for _, angle, noun in places if abs(angle) < HALF_VIEW]
    beside = [(angle, noun) for _, angle, noun in places if abs(angle) >= HALF_VIEW]
    found = [phrase.format(noun) for phrase, noun in zip(SEEN, ahead, strict=False)]
    found += [
        phrase.format(side="left" if angle > 0 else "right", noun=noun)
        for phrase, (angle, noun) in zip(TOWARDS, beside, strict=False)
    ]
    if len(ahead) > 1:
        found.append(f"go between the {ahead[0]} and the {ahead[1]}")
    if len(ahead) > 2:
        found.append(f"go to the {ahead[0]}, then to the {ahead[2]}")
    found += [f"{turn}fly to the {_fence_ahead(x, y, yaw + angle)} fence" for turn, angle in TURNS.items()]
    found += [f"{turn}fly straight ahead" for turn in reversed(TURNS)]
    return found[:NUM_EXAMPLES]
