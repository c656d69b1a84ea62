"""Points along a path, and angles: what needs NumPy alone, so that processes that make a corpus start without torch."""

from __future__ import annotations

import math

import numba
import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.float64]
"""Points (P, 2) of a path, metres."""


@numba.njit(cache=True)
def wrap_radians(angle):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The same angle, or angles (N,) of an array, in [-pi, pi), radians; also inside compiled code."""
    return (angle + math.pi) % (2 * math.pi) - math.pi


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
