"""Paths as a person flies them: around obstacles, in smooth curves, and never quite along the line."""

from __future__ import annotations

import math

import numpy as np

from pvn.compiling import compiled
from pvn.corpus.meadow.scene import CLEARANCE
from pvn.paths import Points, length_of, wrap_radians

STRIDE = 0.25
"""Distance between the points of a path in the making, metres."""
STRIDES_PER_POINT = 4
"""Strides between two points of a finished path, which are then a metre apart."""
LOOK_AHEAD = 2.0
"""A person steers towards a point this far along the line, metres."""
TURN_RADIUS = 3.0
"""Radius of the tightest curve, metres: at 3 m/s and 60 degrees per second it is 2.9 m."""
MAX_TURN_IN_FLIGHT = math.radians(60)
"""A person who has to turn by more than this turns on the spot before flying on, radians."""
WANDER_RAD = math.radians(5.0)
"""Standard deviation of the heading from the intended one, radians."""
WANDER_LENGTH = 4.0
"""Distance over which the deviation changes, metres."""
DETOUR_CLEARANCE = 1.2
"""Detours keep this far from a landmark's solids, metres."""
MAX_DETOURS = 6
"""Most landmarks that one line avoids."""


@compiled
def straight_line(x, y, to_x, to_y):
    """Points (P, 2) of a straight line, at most a stride apart, including both ends."""
    count = max(int(math.ceil(math.hypot(to_x - x, to_y - y) / STRIDE)), 1)
    points = np.empty((count + 1, 2))
    for point in range(count + 1):
        share = point / count
        points[point, 0], points[point, 1] = x + (to_x - x) * share, y + (to_y - y) * share
    return points


@compiled
def line_through(corners):
    """Points (P, 2) of straight lines from corner to corner (C, 2), at most a stride apart."""
    points = np.empty((4000, 2))
    points[0, 0], points[0, 1] = corners[0, 0], corners[0, 1]
    total = 1
    for corner in range(len(corners) - 1):
        leg = straight_line(corners[corner, 0], corners[corner, 1], corners[corner + 1, 0], corners[corner + 1, 1])
        # Number by number: Numba takes seconds to compile an assignment of one part of an array to another.
        for place in range(1, len(leg)):
            points[total, 0], points[total, 1] = leg[place, 0], leg[place, 1]
            total += 1
    return points[:total].copy()


@compiled
def arc(centre_x, centre_y, radius, begin, sweep):
    """Points (P, 2) of an arc of `sweep` radians, counter-clockwise if positive, that starts at angle `begin`."""
    count = max(int(math.ceil(abs(sweep) * radius / STRIDE)), 1)
    points = np.empty((count + 1, 2))
    for point in range(count + 1):
        angle = begin + sweep * point / count
        points[point, 0] = centre_x + radius * math.cos(angle)
        points[point, 1] = centre_y + radius * math.sin(angle)
    return points


@compiled
def _first_hit(x, y, to_x, to_y, centres, solids):
    """Index of the first landmark that a straight line hits, or -1."""
    length = math.hypot(to_x - x, to_y - y)
    if length < 1e-6:
        return -1
    ahead_x, ahead_y = (to_x - x) / length, (to_y - y) / length
    first, first_along = -1, 1e9
    for mark in range(len(centres)):
        off_x, off_y = centres[mark, 0] - x, centres[mark, 1] - y
        along = min(max(off_x * ahead_x + off_y * ahead_y, 0.0), length)
        gap = math.hypot(off_x - along * ahead_x, off_y - along * ahead_y)
        if gap < solids[mark] + CLEARANCE + 0.3 and along < first_along:
            first, first_along = mark, along
    return first


@compiled
def detour(x, y, to_x, to_y, centres, solids):
    """Points (P, 2) from one place to another along straight lines that pass landmarks on the shorter side."""
    corners = np.empty((MAX_DETOURS + 2, 2))
    corners[0, 0], corners[0, 1], corners[1, 0], corners[1, 1] = x, y, to_x, to_y
    count, place = 2, 0
    while place < count - 1:
        a_x, a_y, b_x, b_y = corners[place, 0], corners[place, 1], corners[place + 1, 0], corners[place + 1, 1]
        mark = _first_hit(a_x, a_y, b_x, b_y, centres, solids)
        if mark < 0 or count == MAX_DETOURS + 2:
            place += 1
            continue
        length = length_of(b_x - a_x, b_y - a_y)
        left_x, left_y = -(b_y - a_y) / length, (b_x - a_x) / length
        off = (centres[mark, 0] - a_x) * left_x + (centres[mark, 1] - a_y) * left_y
        side = -1.0 if off > 0.0 else 1.0
        radius = solids[mark] + DETOUR_CLEARANCE
        for later in range(count, place + 1, -1):
            corners[later, 0], corners[later, 1] = corners[later - 1, 0], corners[later - 1, 1]
        corners[place + 1, 0] = centres[mark, 0] + side * radius * left_x
        corners[place + 1, 1] = centres[mark, 1] + side * radius * left_y
        count += 1
    return line_through(corners[:count])


@compiled
def wander(normals):
    """Slowly changing random deviations (K,) of the heading, radians, from standard normal numbers (K,)."""
    keep = math.exp(-STRIDE / WANDER_LENGTH)
    drift, values = 0.0, np.empty(len(normals))
    for step in range(len(normals)):
        drift = keep * drift + math.sqrt(1 - keep * keep) * WANDER_RAD * normals[step]
        values[step] = drift
    return values


@compiled
def steer_along(guide, heading, drift):
    """Points (P, 2) of a flight along guide points (G, 2), and the heading at its end.

    It steers towards a point a little ahead on the guide, in curves no tighter than the turn radius, and deviates by
    `drift` (K,), radians at each stride. It ends where the guide does; no points if it does not get there.
    """
    points = np.empty((len(drift) + 1, 2))
    points[0, 0], points[0, 1] = guide[0, 0], guide[0, 1]
    nearest, last = 0, len(guide) - 1
    for step in range(len(drift)):
        x, y = points[step, 0], points[step, 1]
        while nearest < last and math.hypot(x - guide[nearest + 1, 0], y - guide[nearest + 1, 1]) <= math.hypot(
            x - guide[nearest, 0], y - guide[nearest, 1]
        ):
            nearest += 1
        to_end = math.hypot(guide[last, 0] - x, guide[last, 1] - y)
        if nearest >= last - 1 and to_end < 1.0 and (nearest == last or to_end < STRIDE):
            return points[: step + 1].copy(), heading
        carrot = min(nearest + int(LOOK_AHEAD / STRIDE), last)
        # No deviation near the end: nobody swerves over the last few metres.
        wanted = math.atan2(guide[carrot, 1] - y, guide[carrot, 0] - x) + (drift[step] if to_end > LOOK_AHEAD else 0.0)
        error = wrap_radians(wanted - heading)
        max_turn = STRIDE / TURN_RADIUS
        heading += min(max(error, -max_turn), max_turn)
        points[step + 1, 0] = x + STRIDE * math.cos(heading)
        points[step + 1, 1] = y + STRIDE * math.sin(heading)
    return points[:0].copy(), heading


def fly_along(
    guide: Points, heading: float, generator: np.random.Generator, *, turns_first: bool = False
) -> tuple[Points, float]:
    """Points (P, 2) of a flight along guide points (G, 2), and the heading at its end; see `steer_along`.

    If the guide's direction is far from the heading, or if `turns_first`, it begins in that direction, as after a turn
    on the spot.
    """
    first = guide[min(int(TURN_RADIUS / STRIDE), len(guide) - 1)] - guide[0]
    wanted = math.atan2(first[1], first[0])
    is_turned = turns_first or abs(wrap_radians(wanted - heading)) > MAX_TURN_IN_FLIGHT
    drift = wander(generator.standard_normal(len(guide) * 2 + 40))
    return steer_along(guide, wanted if is_turned else heading, drift)


def every_metre(points: Points) -> Points:
    """Of points (P, 2) a stride apart, at least two, those a metre apart: without the first, with the last."""
    return np.concatenate([points[STRIDES_PER_POINT : -STRIDES_PER_POINT // 2 : STRIDES_PER_POINT], points[-1:]])
