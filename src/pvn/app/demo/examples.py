"""Instructions to try with one click: they name what stands in the field, the nearest ahead of the drone first."""

from __future__ import annotations

import math

from pvn.app.demo.flight_setup import Pose
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import FENCES, FIELD_SIZE, Layout

NUM_EXAMPLES = 8
HALF_VIEW = math.radians(40)
"""Landmarks within this angle of the heading are in the drone's view, with a little room."""
SEEN = (
    "go to the {} and stop in front of it",
    "fly past the {} on its left side",
    "fly around the {} and stop behind it",
    "fly towards the {}, then stop half way",
)
"""About something that the drone sees."""
TOWARDS = ("turn {side} and go to the {noun}", "{side} turn, then fly to the {noun} and stop close to it")
"""About something at its side."""
TURNS = ("", "turn left and ", "turn right and ", "turn around and ")
"""Towards what is ahead, to the left, to the right and behind."""
MIN_WAY = 3.0
"""Examples name no landmark that is nearer than this to where the drone would stop for it, metres."""


def _bearings(layout: Layout, pose: Pose) -> list[tuple[float, float, str]]:
    """Way there (metres), angle from the heading to the left (radians) and noun of each landmark, the nearest first."""
    x, y, yaw = pose
    found = []
    for mark in layout.landmarks:
        angle = math.remainder(math.atan2(mark.y - y, mark.x - x) - yaw, 2 * math.pi)
        found.append((math.dist((x, y), (mark.x, mark.y)) - mark.radius, angle, LANDMARK_CLASSES[mark.name].noun))
    return sorted(found)


def _fence_ahead(pose: Pose) -> str:
    """The colour of the fence that a pose's heading points at."""
    x, y, yaw = pose
    reach = {}
    for colour, angle in FENCES.items():
        away = FIELD_SIZE / 2 - (x - FIELD_SIZE / 2) * math.cos(angle) - (y - FIELD_SIZE / 2) * math.sin(angle)
        along = math.cos(angle - yaw)
        reach[colour] = away / along if along > 1e-6 else math.inf
    return min(reach, key=lambda colour: reach[colour])


def _fences_around(pose: Pose) -> list[str]:
    """The colours of the fences ahead, to the left, to the right and behind."""
    x, y, yaw = pose
    return [_fence_ahead((x, y, yaw + turn)) for turn in (0.0, math.pi / 2, -math.pi / 2, math.pi)]


def example_instructions(layout: Layout, pose: Pose) -> list[str]:
    """Eight instructions for a drone at a pose in a field."""
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
    found += [f"{turn}fly to the {colour} fence" for turn, colour in zip(TURNS, _fences_around(pose), strict=True)]
    found += [f"{turn}fly straight ahead" for turn in reversed(TURNS)]
    return found[:NUM_EXAMPLES]
