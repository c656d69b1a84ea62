"""Paths as a person flies them: round obstacles, in smooth curves, and never quite along the line."""

from __future__ import annotations

import math

import numba
import numpy as np

from pvn.corpus.meadow.scene import AIR
from pvn.geometry import wrap_radians

STRIDE = 0.25
"""Metres between the points of a path while it is made."""
LOOK_AHEAD = 2.0
"""A person steers towards a point this far along the line, metres."""
TURN_RADIUS = 3.0
"""The tightest curve, metres: at 3 m/s with 60 degrees a second it is 2.9 m."""
WANDER_RAD = math.radians(5.0)
"""How far the heading wanders off, standard deviation."""
WANDER_LENGTH = 4.0
"""Over how many metres it does."""
DETOUR_AIR = 1.2
"""Detours keep this far from a landmark's solids, metres."""
DETOURS = 6


@numba.njit(cache=True)
def straight(x, y, to_x, to_y):
    """Points (P, 2) of a straight line, a stride apart at most, both ends included."""
    count = max(int(math.ceil(math.hypot(to_x - x, to_y - y) / STRIDE)), 1)
    points = np.empty((count + 1, 2))
    for point in range(count + 1):
        share = point / count
        points[point, 0], points[point, 1] = x + (to_x - x) * share, y + (to_y - y) * share
    return points


@numba.njit(cache=True)
def arc(centre_x, centre_y, radius, begin, sweep):
    """Points (P, 2) of a circle from angle `begin` over `sweep` radians, counter-clockwise where positive."""
    count = max(int(math.ceil(abs(sweep) * radius / STRIDE)), 1)
    points = np.empty((count + 1, 2))
    for point in range(count + 1):
        angle = begin + sweep * point / count
        points[point, 0] = centre_x + radius * math.cos(angle)
        points[point, 1] = centre_y + radius * math.sin(angle)
    return points


@numba.njit(cache=True)
def _first_hit(x, y, to_x, to_y, centres, solids):
    """The first disc a straight line cuts, or -1."""
    length = math.hypot(to_x - x, to_y - y)
    if length < 1e-6:
        return -1
    ahead_x, ahead_y = (to_x - x) / length, (to_y - y) / length
    first, first_along = -1, 1e9
    for mark in range(len(centres)):
        off_x, off_y = centres[mark, 0] - x, centres[mark, 1] - y
        along = min(max(off_x * ahead_x + off_y * ahead_y, 0.0), length)
        gap = math.hypot(off_x - along * ahead_x, off_y - along * ahead_y)
        if gap < solids[mark] + AIR + 0.3 and along < first_along:
            first, first_along = mark, along
    return first


@numba.njit(cache=True)
def around(x, y, to_x, to_y, centres, solids):
    """Points (P, 2) from one place to another in straight lines that pass landmarks on the shorter side."""
    corners = np.empty((DETOURS + 2, 2))
    corners[0, 0], corners[0, 1], corners[1, 0], corners[1, 1] = x, y, to_x, to_y
    count, place = 2, 0
    while place < count - 1:
        a_x, a_y = corners[place]
        b_x, b_y = corners[place + 1]
        mark = _first_hit(a_x, a_y, b_x, b_y, centres, solids)
        if mark < 0 or count == DETOURS + 2:
            place += 1
            continue
        length = math.hypot(b_x - a_x, b_y - a_y)
        left_x, left_y = -(b_y - a_y) / length, (b_x - a_x) / length
        off = (centres[mark, 0] - a_x) * left_x + (centres[mark, 1] - a_y) * left_y
        side = -1.0 if off > 0.0 else 1.0
        radius = solids[mark] + DETOUR_AIR
        for later in range(count, place + 1, -1):
            corners[later] = corners[later - 1]
        corners[place + 1, 0] = centres[mark, 0] + side * radius * left_x
        corners[place + 1, 1] = centres[mark, 1] + side * radius * left_y
        count += 1
    total = 1
    pieces = np.empty((4000, 2))
    pieces[0, 0], pieces[0, 1] = x, y
    for corner in range(count - 1):
        piece = straight(corners[corner, 0], corners[corner, 1], corners[corner + 1, 0], corners[corner + 1, 1])
        pieces[total : total + len(piece) - 1] = piece[1:]
        total += len(piece) - 1
    return pieces[:total].copy()


@numba.njit(cache=True)
def wander(normals):
    """A slow random change of heading (K,), radians, from standard normal numbers (K,)."""
    keep = math.exp(-STRIDE / WANDER_LENGTH)
    drift, values = 0.0, np.empty(len(normals))
    for step in range(len(normals)):
        drift = keep * drift + math.sqrt(1 - keep * keep) * WANDER_RAD * normals[step]
        values[step] = drift
    return values


@numba.njit(cache=True)
def follow(guide, heading, drift):
    """Points (P, 2) of a flight along guide points (G, 2), and the heading at its end.

    Steers towards a point a little ahead on the guide, with curves no tighter than the turn radius and a heading that
    wanders by `drift` (K,), radians a stride; ends where the guide does. No points if it does not get there.
    """
    points = np.empty((len(drift) + 1, 2))
    points[0] = guide[0]
    at, last = 0, len(guide) - 1
    for step in range(len(drift)):
        x, y = points[step]
        while at < last and math.hypot(x - guide[at + 1, 0], y - guide[at + 1, 1]) <= math.hypot(
            x - guide[at, 0], y - guide[at, 1]
        ):
            at += 1
        to_end = math.hypot(guide[last, 0] - x, guide[last, 1] - y)
        if at >= last - 1 and to_end < 1.0 and (at == last or to_end < STRIDE):
            return points[: step + 1].copy(), heading
        carrot = min(at + int(LOOK_AHEAD / STRIDE), last)
        # Near the end the heading is only corrected a little: nobody swerves over the last half metre.
        wanted = math.atan2(guide[carrot, 1] - y, guide[carrot, 0] - x) + (drift[step] if to_end > LOOK_AHEAD else 0.0)
        error = wrap_radians(wanted - heading)
        most = STRIDE / TURN_RADIUS
        heading += min(max(error, -most), most)
        points[step + 1, 0] = x + STRIDE * math.cos(heading)
        points[step + 1, 1] = y + STRIDE * math.sin(heading)
    return points[:0].copy(), heading
