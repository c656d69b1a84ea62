"""Conversions between the coordinate frames of AirSim and MAVLink, which are the same, and ours.

Theirs: north, east, down (NED) from the place where the vehicle rests at first; body x forward, y right, z down; angles
are clockwise seen from above. Ours: x east, y north, z up from the field's south-west corner; body x forward, y left,
z up; see `geometry`. The centre of a drone on the ground is LOWEST above it; there their z is 0. Quaternions are
(w, x, y, z), body to world. Everything is plain floats: a single vehicle needs no tensors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pvn.paths import wrap_radians
from pvn.simulator.quadcopter import LOWEST
from pvn.world.layout import FIELD_SIZE

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]

NED_ORIGIN_WORLD: Vector = (FIELD_SIZE / 2, FIELD_SIZE / 2, LOWEST)
"""Where NED is 0, field frame, metres: the middle of the field, at the height of a resting drone's centre."""


def swap_vector(vector: Sequence[float]) -> Vector:
    """Convert a velocity or offset between the NED and the field frame; the conversion is its own inverse."""
    first, second, third = vector
    return second, first, -third


def to_ned(position_world: Sequence[float], origin: Vector = NED_ORIGIN_WORLD) -> Vector:
    """Convert a position from the field frame to NED."""
    x, y, z = (one - zero for one, zero in zip(position_world, origin, strict=True))
    return swap_vector((x, y, z))


def from_ned(position_ned: Sequence[float], origin: Vector = NED_ORIGIN_WORLD) -> Vector:
    """Convert a position from NED to the field frame."""
    x, y, z = (one + zero for one, zero in zip(swap_vector(position_ned), origin, strict=True))
    return x, y, z


def swap_rotation(rotation: Sequence[float]) -> Quaternion:
    """Convert a body's attitude between their frames (body, world) and ours; the conversion is its own inverse.

    Swapping north and east is half a turn about the diagonal between them; flipping the body's y and z is half a turn
    about its x. Here is the product of the two.
    """
    w, x, y, z = rotation
    half = math.sqrt(0.5)
    return half * (w + z), half * (x + y), half * (x - y), half * (w - z)


def swap_rates(rates_body: Sequence[float]) -> Vector:
    """Convert body rates, rad/s, between their body frame and ours; the conversion is its own inverse."""
    x, y, z = rates_body
    return x, -y, -z


def swap_yaw(yaw: float) -> float:
    """Convert a heading, radians, between clockwise from north and counter-clockwise from east, either way."""
    return wrap_radians(math.pi / 2 - yaw)


def multiply_quaternions(first: Sequence[float], second: Sequence[float]) -> Quaternion:
    """The rotation that applies `second`, then `first`."""
    a, b, c, d = first
    w, x, y, z = second
    return (
        a * w - b * x - c * y - d * z,
        a * x + b * w + c * z - d * y,
        a * y - b * z + c * w + d * x,
        a * z + b * y - c * x + d * w,
    )


def rotate_vector(rotation: Sequence[float], vector: Sequence[float]) -> Vector:
    """The vector, rotated."""
    w, x, y, z = rotation
    rotated = multiply_quaternions(multiply_quaternions(rotation, (0.0, *vector)), (w, -x, -y, -z))
    return rotated[1], rotated[2], rotated[3]


def rotation_from_pitch(pitch: float) -> Quaternion:
    """The rotation by a pitch angle, radians, nose down positive; our frames."""
    return math.cos(pitch / 2), 0.0, math.sin(pitch / 2), 0.0


def rotation_from_yaw(yaw: float) -> Quaternion:
    """The rotation to a heading, radians counter-clockwise from east; our frames."""
    return math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)


def roll_pitch_yaw(rotation: Sequence[float]) -> Vector:
    """Roll, pitch and yaw, radians, of a rotation in our frames; see `geometry`."""
    w, x, y, z = rotation
    return (
        math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y)),
        math.asin(min(max(2 * (w * y - z * x), -1.0), 1.0)),
        math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)),
    )
