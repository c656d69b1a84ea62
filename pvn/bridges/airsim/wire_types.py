"""AirSim's values, as its clients send and expect them: maps of numbers, checked on the way in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pvn.bridges.airsim.frames import Quaternion, Vector, swap_rotation, to_ned


def number(value: Any, name: str) -> float:
    """Clients send whole numbers for floats; NaN and infinity move nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name}: got {value!r}, expected a finite number")
    return float(value)


def vector_of(value: Any, name: str) -> Vector:
    """The numbers of a Vector3r."""
    if not isinstance(value, dict):
        raise ValueError(f"{name}: got {type(value).__name__}, expected a map with x_val, y_val and z_val")
    x, y, z = (number(value.get(key), f"{name}.{key}") for key in ("x_val", "y_val", "z_val"))
    return x, y, z


def rotation_of(value: Any, name: str) -> Quaternion:
    """The unit quaternion w, x, y, z of a Quaternionr."""
    x, y, z = vector_of(value, name)
    w = number(value.get("w_val"), f"{name}.w_val")
    norm = math.hypot(w, x, y, z)
    if norm < 1e-6:
        raise ValueError(f"{name}: got a quaternion of length 0, expected length 1")
    return w / norm, x / norm, y / norm, z / norm


def pose_of(value: Any) -> tuple[Vector, Quaternion]:
    """Position and rotation of a Pose."""
    if not isinstance(value, dict):
        raise ValueError(f"pose: got {type(value).__name__}, expected a map with position and orientation")
    return vector_of(value.get("position"), "position"), rotation_of(value.get("orientation"), "orientation")


def vector(values: Sequence[float]) -> dict[str, float]:
    """A Vector3r."""
    x, y, z = values
    return {"x_val": x, "y_val": y, "z_val": z}


def quaternion(values: Sequence[float]) -> dict[str, float]:
    """A Quaternionr of w, x, y, z."""
    w, x, y, z = values
    return {"w_val": w, "x_val": x, "y_val": y, "z_val": z}


def pose(position: Sequence[float], rotation: Sequence[float]) -> dict[str, Any]:
    """A Pose, NED, of a place and rotation in the field."""
    return {"position": vector(to_ned(position)), "orientation": quaternion(swap_rotation(rotation))}
