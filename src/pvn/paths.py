"""Points along a path, and angles: what needs NumPy alone, so that processes that make a corpus start without torch."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pvn.compiling import compiled, elementwise

Points = npt.NDArray[np.float64]
"""Points (P, 2) of a path, metres."""


@compiled
def wrap_radians(angle):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The same angle, or angles (N,) of an array, in [-pi, pi), radians; also inside compiled code."""
    return (angle + math.pi) % (2 * math.pi) - math.pi


@elementwise
def length_of(x, y):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Length of the vector x, y, or of vectors, to the same bit on every machine; also inside compiled code.

    `hypot` is not: where processors have fused multiplication, as ARM's have, the C library takes another way, whose
    last bit differs now and then. This is the way of the others (glibc from 2.35 on), but for vectors so long or short
    that their squares are out of range.
    """
    most, least = max(abs(x), abs(y)), min(abs(x), abs(y))
    if most == 0.0:
        return 0.0
    length = math.sqrt(most * most + least * least)
    if length <= 2.0 * least:
        over = length - least
        error = most * (2.0 * over - most) + (over - 2.0 * (most - least)) * over
    else:
        over = length - most
        error = 2.0 * over * (most - 2.0 * least) + ((4.0 * over - least) * least + over * over)
    return length - error / (2.0 * length)


def distances_along(points: Points) -> Points:
    """Distance (P,) from the first of a path's points (P, 2) to each of them along the path, metres."""
    return np.concatenate([[0.0], np.hypot(*np.diff(points, axis=0).T).cumsum()])


def path_length(points: Points) -> float:
    """Length of a path (P, 2), metres."""
    return float(np.hypot(*np.diff(points, axis=0).T).sum())


def points_along(points: Points, distances: Points) -> Points:
    """Points (N, 2) that lie these distances (N,), metres, from the start of a path (P, 2) along it."""
    travelled = distances_along(points)
    return np.stack([np.interp(distances, travelled, points[:, axis]) for axis in (0, 1)], axis=-1)
