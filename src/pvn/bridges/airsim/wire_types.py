"""AirSim's data types as its clients send and expect them: maps of numbers, checked as they come in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pvn.bridges.shared.frames import NED_ORIGIN_WORLD, Quaternion, Vector, swap_rotation, to_ned
from pvn.bridges.shared.globe import GeoPoint

Pose = tuple[Vector, Quaternion]
"""Position and rotation, in AirSim's frames where it comes from a client."""


def parse_number(value: Any, name: str) -> float:
    """A finite number as a float; clients send integers where floats are meant."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name}: got {value!r}, expected a finite number")
    return float(value)


def parse_text(value: Any, name: str, max_length: int = 200) -> str:
    """A string of bounded length."""
    if not isinstance(value, str) or len(value) > max_length:
        got = f"{len(value)} characters" if isinstance(value, str) else type(value).__name__
        raise ValueError(f"{name}: got {got}, expected a text of at most {max_length} characters")
    return value


def _parse_numbers(value: Any, name: str, keys: Sequence[str]) -> list[float]:
    if not isinstance(value, dict):
        raise ValueError(f"{name}: got {type(value).__name__}, expected a map with {', '.join(keys)}")
    return [parse_number(value.get(key), f"{name}.{key}") for key in keys]


def parse_vector(value: Any, name: str) -> Vector:
    """The components x, y, z of a Vector3r."""
    x, y, z = _parse_numbers(value, name, ("x_val", "y_val", "z_val"))
    return x, y, z


def parse_quaternion(value: Any, name: str) -> Quaternion:
    """The components w, x, y, z of a Quaternionr, normalised to length 1."""
    w, x, y, z = _parse_numbers(value, name, ("w_val", "x_val", "y_val", "z_val"))
    norm = math.hypot(w, x, y, z)
    if norm < 1e-6 or norm == math.inf:
        raise ValueError(f"{name}: got a quaternion of length {norm:.0f}, expected length 1")
    return w / norm, x / norm, y / norm, z / norm


def parse_pose(value: Any, name: str = "pose") -> Pose:
    """Position and rotation of a Pose, both still in AirSim's frames."""
    if not isinstance(value, dict):
        raise ValueError(f"{name}: got {type(value).__name__}, expected a map with position and orientation")
    return parse_vector(value.get("position"), "position"), parse_quaternion(value.get("orientation"), "orientation")


def parse_geo_point(value: Any, name: str) -> GeoPoint:
    """A GeoPoint."""
    return GeoPoint(*_parse_numbers(value, name, GeoPoint._fields))


def encode_vector(components: Sequence[float]) -> dict[str, float]:
    """A Vector3r with components x, y, z."""
    x, y, z = components
    return {"x_val": x, "y_val": y, "z_val": z}


def encode_quaternion(components: Sequence[float]) -> dict[str, float]:
    """A Quaternionr with components w, x, y, z."""
    w, x, y, z = components
    return {"w_val": w, "x_val": x, "y_val": y, "z_val": z}


def encode_pose(
    position_world: Sequence[float], rotation: Sequence[float], origin: Vector = NED_ORIGIN_WORLD
) -> dict[str, Any]:
    """A Pose, NED from `origin`, from a position and a rotation in our field frame."""
    return {
        "position": encode_vector(to_ned(position_world, origin)),
        "orientation": encode_quaternion(swap_rotation(rotation)),
    }
