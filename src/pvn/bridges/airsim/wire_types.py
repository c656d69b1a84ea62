"""AirSim's data types as its clients send and expect them: maps of numbers, checked when they come in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pvn.bridges.shared.frames import NED_ORIGIN_WORLD, Quaternion, Vector, swap_rotation, to_ned


def parse_number(value: Any, name: str) -> float:
    """A finite number as a float; clients send integers where floats are meant."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name}: got {value!r}, expected a finite number")
    return float(value)


def parse_vector(value: Any, name: str) -> Vector:
    """The components x, y, z of a Vector3r."""
    if not isinstance(value, dict):
        raise ValueError(f"{name}: got {type(value).__name__}, expected a map with x_val, y_val and z_val")
    x, y, z = (parse_number(value.get(key), f"{name}.{key}") for key in ("x_val", "y_val", "z_val"))
    return x, y, z


def parse_quaternion(value: Any, name: str) -> Quaternion:
    """The components w, x, y, z of a Quaternionr, normalised to length 1."""
    x, y, z = parse_vector(value, name)
    w = parse_number(value.get("w_val"), f"{name}.w_val")
    norm = math.hypot(w, x, y, z)
    if norm < 1e-6 or norm == math.inf:
        raise ValueError(f"{name}: got a quaternion of length {norm:.0f}, expected length 1")
    return w / norm, x / norm, y / norm, z / norm


def parse_pose(value: Any) -> tuple[Vector, Quaternion]:
    """Position and rotation of a Pose, both still in AirSim's frames."""
    if not isinstance(value, dict):
        raise ValueError(f"pose: got {type(value).__name__}, expected a map with position and orientation")
    return parse_vector(value.get("position"), "position"), parse_quaternion(value.get("orientation"), "orientation")


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


def parse_text(value: Any, name: str, max_length: int = 200) -> str:
    """A string of bounded length."""
    if not isinstance(value, str) or len(value) > max_length:
        got = f"{len(value)} characters" if isinstance(value, str) else type(value).__name__
        raise ValueError(f"{name}: got {got}, expected a text of at most {max_length} characters")
    return value
