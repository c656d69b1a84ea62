"""Where the camera of the 3D view stands; field frame, metres."""

from __future__ import annotations

import functools
import math
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from pvn.viz.flight_record import Floats
from pvn.world.layout import FIELD_SIZE

CameraMode = Literal["overview", "follow", "above"]
Vector = npt.NDArray[np.float64]

BEHIND, ABOVE, AHEAD, BELOW = 6.5, 8.0, 9.0, 3.5
"""The camera that follows the drone is this far behind and above it, and looks at a point so far ahead and below. From
there the drone, 5 m above the ground, covers what is 4 m ahead of it, and nothing that it still flies to."""
OVERVIEW = (-6.0, -38.0, 29.0)
"""Direction from the field to the camera that shows all of it."""
MARGIN = 1.5
"""Metres beyond the fences that are in view."""
TOP = 2.4
"""Height of the fences."""


class Place(NamedTuple):
    """A camera's place."""

    position: Vector
    """(3,)."""
    target: Vector
    """(3,): what is in the middle of the picture."""
    up: Vector
    """(3,)."""


def _field_in_view(place: Place, aspect: float) -> tuple[float, float]:
    """Tangent of half the vertical view that shows all four fences, and how far they are from the view's middle."""
    ahead = place.target - place.position
    ahead = ahead / np.linalg.norm(ahead)
    right = np.cross(ahead, place.up)
    right = right / np.linalg.norm(right)
    low, high = -MARGIN, FIELD_SIZE + MARGIN
    corners = np.array([(x, y, z) for x in (low, high) for y in (low, high) for z in (0.0, TOP)]) - place.position
    depth, across, up = corners @ ahead, corners @ right, corners @ np.cross(right, ahead)
    if (depth <= 0).any():
        return math.inf, 0.0
    height, width = up / depth, across / depth / aspect
    return float(max(abs(height).max(), abs(width).max())), float(abs(height.max() + height.min()) / 2)


@functools.lru_cache(maxsize=64)
def _nearest_place(
    direction: tuple[float, float, float], up: tuple[float, float, float], fov: float, aspect: float
) -> Place:
    """The nearest place in a direction from which all of the field is in view, wherever the camera aims."""
    towards = np.array(direction) / np.linalg.norm(direction)
    places = []
    for nearer in range(0, 15, 2):
        target = np.array([FIELD_SIZE / 2, FIELD_SIZE / 2 - nearer, 0.0])
        low, high = 10.0, 400.0
        while high - low > 0.5:
            middle = (low + high) / 2
            needed, _ = _field_in_view(Place(target + middle * towards, target, np.array(up)), aspect)
            low, high = (low, middle) if needed <= math.tan(fov / 2) else (middle, high)
        place = Place(target + high * towards, target, np.array(up))
        # A little further away is better than with the field at the edge of the picture.
        places.append((high * (1 + _field_in_view(place, aspect)[1]), place))
    return min(places, key=lambda scored: scored[0])[1]


def camera_place(mode: CameraMode, pose_world: Floats, fov: float, aspect: float) -> Place:
    """Where the camera stands; pose_world: the drone's (6,); fov: vertical, radians; aspect: width over height."""
    match mode:
        case "follow":
            x, y, z, _, _, yaw = pose_world.astype(float)
            ahead = np.array([math.cos(yaw), math.sin(yaw), 0.0])
            drone = np.array([x, y, z])
            position = drone - BEHIND * ahead + np.array([0.0, 0.0, ABOVE])
            return Place(position, drone + AHEAD * ahead - np.array([0.0, 0.0, BELOW]), np.array([0.0, 0.0, 1.0]))
        case "above":
            # Not straight down, where the camera's controls do not know which way is up.
            return _nearest_place((0.0, -1e-3, 1.0), (0.0, 1.0, 0.0), round(fov, 3), round(aspect, 2))
        case _:
            return _nearest_place(OVERVIEW, (0.0, 0.0, 1.0), round(fov, 3), round(aspect, 2))
