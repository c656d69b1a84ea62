"""Where in a field a place is, in words: what is near, over the lake, or at a fence."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pvn.world.lakes import LAKE_CELLS
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import FENCES, FIELD_SIZE, Layout

NEAR_M = 10.0
"""A landmark or fence further away than this is not near, metres."""

EQUALLY_NEAR_M = 1.0
"""Of landmarks whose distances differ by less than this, metres, the one ahead is what a drone stopped at."""


def _metres(distance: float) -> str:
    return "less than 1 m" if distance < 0.95 else f"{distance:.0f} m"


def _nearest_fence(x: float, y: float) -> tuple[float, str]:
    """Metres to the nearest fence, less than 0 beyond it, and its colour."""
    middle = FIELD_SIZE / 2
    return min(
        (middle - (x - middle) * math.cos(angle) - (y - middle) * math.sin(angle), colour)
        for colour, angle in FENCES.items()
    )


def _direction(angle: float) -> str:
    """Where something at this angle, radians from the heading to the left, is for the drone."""
    return ("ahead", "to the left", "behind", "to the right")[round(angle / (math.pi / 2)) % 4]


def _landmark_near(layout: Layout, pose: Sequence[float]) -> tuple[float, str] | None:
    """Metres to the nearest landmark within 10 m, and its noun; of nearly equally near ones, that most nearly ahead."""
    x, y, yaw = pose
    found = []
    for mark in layout.landmarks:
        distance = math.dist((x, y), (mark.x, mark.y))
        bearing = abs(math.remainder(math.atan2(mark.y - y, mark.x - x) - yaw, 2 * math.pi))
        found.append((distance, bearing, LANDMARK_CLASSES[mark.name].noun))
    limit = min(NEAR_M, min((distance for distance, _, _ in found), default=math.inf) + EQUALLY_NEAR_M)
    near = [(bearing, distance, noun) for distance, bearing, noun in found if distance <= limit]
    return min(near)[1:] if near else None


def describe_place(layout: Layout, pose: Sequence[float]) -> str:
    """Where a pose x, y (metres), yaw (radians), field frame, is: "4 m from the gorilla", "over the lake".

    Distances are to a landmark's centre. Beyond 10 m no landmark is near; then a fence within 10 m is named, and on
    which side of the drone it is. A fence that is nearer than the landmark is named before it.
    """
    x, y, yaw = pose
    parts = []
    column, row = (int(place / FIELD_SIZE * LAKE_CELLS) for place in (x, y))
    is_inside = 0 <= x < FIELD_SIZE and 0 <= y < FIELD_SIZE
    if is_inside and layout.lake[column, row]:
        parts.append("over the lake")
    to_fence, colour = _nearest_fence(x, y)
    near = _landmark_near(layout, pose)
    if to_fence < 0:
        parts.append(f"{_metres(-to_fence)} beyond the {colour} fence")
    elif near is not None and to_fence < near[0]:
        parts.append(f"{_metres(to_fence)} from the {colour} fence")
    elif not parts and near is None and to_fence <= NEAR_M:
        side = _direction(FENCES[colour] - yaw)
        return f"with no landmark within {NEAR_M:.0f} m; the {colour} fence is {_metres(to_fence)} {side}"
    if near is not None:
        parts.append(f"{_metres(near[0])} from the {near[1]}")
    return ", ".join(parts) or f"with nothing within {NEAR_M:.0f} m"
