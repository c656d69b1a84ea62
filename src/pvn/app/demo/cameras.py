"""Where the camera of the 3D view stands; field frame, metres."""

from __future__ import annotations

import functools
import math
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from pvn.simulator.rays import FENCE_HEIGHT
from pvn.viz.flight_record import Floats
from pvn.viz.pictures import REACH
from pvn.world.layout import FIELD_SIZE

CameraMode = Literal["overview", "follow", "above"]
Vector = npt.NDArray[np.float64]

BEHIND, ABOVE, AHEAD, BELOW = 6.5, 8.0, 9.0, 3.5
"""The following camera is this far behind and above the drone, and looks at a point this far ahead of and below it.
The drone, 5 m above the ground, then covers what is 4 m ahead of it, and nothing beyond."""
OVERVIEW = (-6.0, -38.0, 29.0)
"""Direction from the field to the overview camera."""


class Place(NamedTuple):
    """A camera's place; three vectors (3,)."""

    position: Vector
    target: Vector
    """The point in the middle of the picture."""
    up: Vector


def _field_in_view(place: Place, aspect: float) -> tuple[float, float]:
    """Tangent of half the vertical view that shows all four fences, and how far off the view's middle they are."""
    ahead = place.target - place.position
    ahead = ahead / np.linalg.norm(ahead)
    right = np.cross(ahead, place.up)
    right = right / np.linalg.norm(right)
    corners = np.array([(x, y, z) for x in REACH for y in REACH for z in (0.0, float(FENCE_HEIGHT))]) - place.position
    depth, across, up = corners @ ahead, corners @ right, corners @ np.cross(right, ahead)
    if (depth <= 0).any():
        return math.inf, 0.0
    height, width = up / depth, across / depth / aspect
    return float(max(abs(height).max(), abs(width).max())), float(abs(height.max() + height.min()) / 2)


@functools.lru_cache(maxsize=64)
def _nearest_place(
    direction: tuple[float, float, float], up: tuple[float, float, float], fov: float, aspect: float
) -> Place:
    """The nearest place in a direction from which all of the field is in view; it may aim south of the middle."""
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
            # Not straight down, where the browser's controls lose which way is up.
            return _nearest_place((0.0, -1e-3, 1.0), (0.0, 1.0, 0.0), round(fov, 3), round(aspect, 2))
        case "overview":
            return _nearest_place(OVERVIEW, (0.0, 0.0, 1.0), round(fov, 3), round(aspect, 2))
