"""Between AirSim's frames and ours.

AirSim: north, east, down from where the vehicle rests at first (NED), body x forward, y right, z down; angles are
clockwise seen from above. Ours: x east, y north, z up from the field's south-west corner, body x forward, y left, z up;
see `geometry`. A resting drone's centre is LOWEST above the ground, and that is AirSim's height 0. Quaternions are
(w, x, y, z), body to world. Plain floats throughout: one vehicle needs no tensors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pvn.simulator.quadcopter import LOWEST
from pvn.world.layout import FIELD_SIZE

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]

ORIGIN: Vector = (FIELD_SIZE / 2, FIELD_SIZE / 2, LOWEST)
"""Where AirSim's origin is in our field, metres: the middle, at the height of a resting drone's centre."""


def swap_vector(vector: Sequence[float]) -> Vector:
    """A velocity or offset of one world frame in the other, either way."""
    first, second, third = vector
    return second, first, -third


def to_ned(position_world: Sequence[float], origin: Vector = ORIGIN) -> Vector:
    """NED position of a place in the field."""
    x, y, z = (one - zero for one, zero in zip(position_world, origin, strict=True))
    return swap_vector((x, y, z))


def from_ned(position_ned: Sequence[float], origin: Vector = ORIGIN) -> Vector:
    """Place in the field of an NED position."""
    x, y, z = (one + zero for one, zero in zip(swap_vector(position_ned), origin, strict=True))
    return x, y, z


def swap_rotation(rotation: Sequence[float]) -> Quaternion:
    """A body's attitude of one pair of frames (body, world) in the other, either way.

    Swapping north and east is half a turn about the diagonal between them, turning the body's y and z half a turn
    about its x; multiplied out, both are this.
    """
    w, x, y, z = rotation
    half = math.sqrt(0.5)
    return half * (w + z), half * (x + y), half * (x - y), half * (w - z)


def swap_rates(rates_body: Sequence[float]) -> Vector:
    """Body rates, rad/s, of one body frame in the other, either way."""
    x, y, z = rates_body
    return x, -y, -z


def swap_yaw(yaw: float) -> float:
    """A heading, radians counter-clockwise from east, as clockwise from north, or the other way round."""
    return wrap(math.pi / 2 - yaw)


def wrap(angle: float) -> float:
    """The same angle in [-pi, pi), radians."""
    return (angle + math.pi) % (2 * math.pi) - math.pi


def multiply(first: Sequence[float], second: Sequence[float]) -> Quaternion:
    """The rotation `second`, then `first`."""
    a, b, c, d = first
    w, x, y, z = second
    return (
        a * w - b * x - c * y - d * z,
        a * x + b * w + c * z - d * y,
        a * y - b * z + c * w + d * x,
        a * z + b * y - c * x + d * w,
    )


def rotate(rotation: Sequence[float], vector: Sequence[float]) -> Vector:
    """The vector, turned."""
    w, x, y, z = rotation
    turned = multiply(multiply(rotation, (0.0, *vector)), (w, -x, -y, -z))
    return turned[1], turned[2], turned[3]


def pitched(angle: float) -> Quaternion:
    """Our rotation nose down by `angle`, radians."""
    return math.cos(angle / 2), 0.0, math.sin(angle / 2), 0.0


def turned(yaw: float) -> Quaternion:
    """Our rotation to a heading, radians counter-clockwise from east."""
    return math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)


def angles(rotation: Sequence[float]) -> Vector:
    """Roll, pitch, yaw, radians, of our rotation; see `geometry`."""
    w, x, y, z = rotation
    return (
        math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y)),
        math.asin(min(max(2 * (w * y - z * x), -1.0), 1.0)),
        math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)),
    )
