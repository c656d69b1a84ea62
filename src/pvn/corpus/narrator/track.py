"""A path beside the things in its field: which way it leads, how near it comes to what, where it bends."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pvn.compiling import compiled
from pvn.paths import Points, distances_along, points_along, wrap_radians
from pvn.world.layout import LAKE_CELL, Layout
from pvn.world.task import Demonstration

SPACING = 0.25
"""Distance between a track's points, metres."""
SMOOTHING = 5
"""A direction is taken along the chord from this many points before to this many points after."""
FIRST_CHORD = 8
"""The way begins in the direction of the chord to this point, 2 m ahead."""
_BENDING = math.radians(5.0)
"""A path bends where it turns by this much in a metre."""
_MIN_BEND = math.radians(45.0)
_CURVING = 1.6
"""A path curves around a landmark within this many radii of it."""
_MOST_BENDS = 16


@dataclass(frozen=True, eq=False)
class Bend:
    """A part of a path that turns one way."""

    first: int
    """Index of its first point in the track."""
    last: int
    turned: float
    """Radians, positive to the left."""


@dataclass(frozen=True, eq=False)
class Beside:
    """How a path passes one landmark; angles in radians, positive to the left, lengths in metres."""

    nearest_at: int
    """Index of the track's point nearest to the landmark's centre."""
    nearest: float
    bearing_there: float
    """Direction of the landmark from the nearest point, relative to the direction of flight."""
    curve_first: int
    """First and last point of the part within 1.6 radii around the nearest point; first > last if there is none."""
    curve_last: int
    swept: float
    """Angle by which this part goes around the landmark; positive with the landmark on the left."""
    turned: float
    """The most that the direction of flight turns towards the landmark in this part."""
    start_distance: float
    start_bearing: float
    """Relative to the heading at the start."""
    end_distance: float
    end_bearing: float
    """Relative to the direction of flight at the end."""


@dataclass(frozen=True, eq=False)
class Track:
    """A path at even spacing, and where the landmarks of its field are along it."""

    layout: Layout
    points: Points
    """Points (N, 2), field frame, metres."""
    directions: Points
    """Smoothed direction of flight (N,), radians without jumps."""
    is_wet: npt.NDArray[np.bool_]
    """Whether each point (N,) is over water."""
    first_turn: float
    """From the heading at the start to the direction in which the path begins, radians, positive to the left."""
    length: float
    centres: Points
    """Landmarks' centres (M, 2)."""
    radii: tuple[float, ...]
    beside: tuple[Beside, ...]
    bends: tuple[Bend, ...]

    @staticmethod
    def of(flight: Demonstration) -> Track | None:
        """The track of a flight; None if its path is shorter than a metre."""
        length = float(distances_along(flight.path)[-1])
        if length < 1.0:
            return None
        layout, yaw = flight.task.layout, flight.task.start[2]
        points = points_along(flight.path, np.linspace(0.0, length, max(round(length / SPACING), 4) + 1))
        directions, centres, radii = _directions(points), layout.centres, layout.radii
        ahead = points[min(FIRST_CHORD, len(points) - 1)] - points[0]
        beside = _beside(points, directions, centres, radii, yaw)
        bends = _bends(directions, _BENDING, _MIN_BEND)
        return Track(
            layout,
            points,
            directions,
            _wet(points, layout.lake),
            float(wrap_radians(math.atan2(ahead[1], ahead[0]) - yaw)),
            length,
            centres,
            tuple(radii.tolist()),
            tuple(Beside(int(row[0]), row[1], row[2], int(row[3]), int(row[4]), *row[5:]) for row in beside.tolist()),
            tuple(Bend(int(first), int(last), turned) for first, last, turned in bends.tolist()),
        )

    def metres(self, index: int) -> float:
        """Distance along the path of one of its points."""
        return self.length * index / (len(self.points) - 1)

    def is_straight(self, first: int, last: int) -> bool:
        """Whether the path looks straight between two of its points."""
        return last > first and bool(_deviation(self.points, first, last) < max(0.5, 0.05 * (last - first) * SPACING))


@compiled
def _directions(points):
    """Direction (N,) of the path at each of its points (N, 2), smoothed, radians without jumps."""
    count = len(points)
    directions = np.empty(count)
    for place in range(count):
        before, after = max(place - SMOOTHING, 0), min(place + SMOOTHING, count - 1)
        angle = math.atan2(points[after, 1] - points[before, 1], points[after, 0] - points[before, 0])
        if place > 0:
            angle = directions[place - 1] + wrap_radians(angle - directions[place - 1])
        directions[place] = angle
    return directions


@compiled
def _wet(points, water):
    """Whether each of the points (N, 2) is over water."""
    wet = np.zeros(len(points), np.bool_)
    for place in range(len(points)):
        column, row = int(points[place, 0] / LAKE_CELL), int(points[place, 1] / LAKE_CELL)
        if 0 <= column < len(water) and 0 <= row < len(water):
            wet[place] = water[column, row]
    return wet


@compiled
def _deviation(points, first, last):
    """Greatest distance of a part of a path from the line between its first and last point, metres."""
    x, y = points[last, 0] - points[first, 0], points[last, 1] - points[first, 1]
    length = max(math.hypot(x, y), 1e-6)
    furthest = 0.0
    for place in range(first, last + 1):
        off_x, off_y = points[place, 0] - points[first, 0], points[place, 1] - points[first, 1]
        furthest = max(furthest, abs(x * off_y - y * off_x) / length)
    return furthest


@compiled
def _most_turned(directions, first, last, side):
    """The most that the direction of flight turns to a side (1 left, -1 right) between two points, radians, signed."""
    most, least = 0.0, side * directions[min(first, len(directions) - 1)]
    for place in range(first, last + 1):
        least = min(least, side * directions[place])
        most = max(most, side * directions[place] - least)
    return side * most


@compiled
def _beside(points, directions, centres, radii, yaw):
    """The columns of `Beside`, one row (11,) for each landmark."""
    rows = np.empty((len(centres), 11))
    last = len(points) - 1
    for mark in range(len(centres)):
        x, y = centres[mark]
        nearest, at = 1e9, 0
        for place in range(last + 1):
            distance = math.hypot(x - points[place, 0], y - points[place, 1])
            if distance < nearest:
                nearest, at = distance, place
        reach = _CURVING * radii[mark]
        begin, end = at + 1, at
        if nearest < reach:
            begin, end = at, at
            while begin > 0 and math.hypot(x - points[begin - 1, 0], y - points[begin - 1, 1]) < reach:
                begin -= 1
            while end < last and math.hypot(x - points[end + 1, 0], y - points[end + 1, 1]) < reach:
                end += 1
        swept = 0.0
        for place in range(begin, end):
            now = math.atan2(points[place, 1] - y, points[place, 0] - x)
            later = math.atan2(points[place + 1, 1] - y, points[place + 1, 0] - x)
            swept += wrap_radians(later - now)
        start_x, start_y, end_x, end_y = x - points[0, 0], y - points[0, 1], x - points[last, 0], y - points[last, 1]
        there = math.atan2(y - points[at, 1], x - points[at, 0])
        rows[mark, 0], rows[mark, 1], rows[mark, 2] = at, nearest, wrap_radians(there - directions[at])
        rows[mark, 3], rows[mark, 4], rows[mark, 5] = begin, end, swept
        rows[mark, 6] = _most_turned(directions, begin, end, 1.0 if swept > 0 else -1.0)
        rows[mark, 7] = math.hypot(start_x, start_y)
        rows[mark, 8] = wrap_radians(math.atan2(start_y, start_x) - yaw)
        rows[mark, 9] = math.hypot(end_x, end_y)
        rows[mark, 10] = wrap_radians(math.atan2(end_y, end_x) - directions[last])
    return rows


@compiled
def _bends(directions, bending, least):
    """Bends as rows (first, last, turned): parts after the first two metres that turn one way by `least` or more."""
    found = np.empty((_MOST_BENDS, 3))
    count = 0
    place = FIRST_CHORD
    last = len(directions) - 1
    while place < last - 1 and count < _MOST_BENDS:
        rate = directions[min(place + 2, last)] - directions[max(place - 2, 0)]
        if abs(rate) < bending:
            place += 1
            continue
        side = 1.0 if rate > 0 else -1.0
        end = place
        slack = 0
        ahead = place + 1
        while ahead <= last and slack < 6:  # a metre and a half without turning ends a bend
            rate = side * (directions[min(ahead + 2, last)] - directions[max(ahead - 2, 0)])
            if rate >= bending:
                end, slack = ahead, 0
            else:
                slack += 1
                if rate < -bending:
                    break
            ahead += 1
        turned = directions[min(end + 1, last)] - directions[place]
        if side * turned >= least:
            found[count, 0], found[count, 1], found[count, 2] = place, min(end + 1, last), turned
            count += 1
        place = end + 1
    return found[:count]


@compiled
def shore_sides(points, directions, is_wet, water):
    """For each point (N,): 1 if there is water within 3 m on its left alone, -1 on its right alone, 0 otherwise."""
    sides = np.zeros(len(points), np.int64)
    for place in range(len(points)):
        if is_wet[place]:
            continue
        for side in (1, -1):
            angle = directions[place] + side * math.pi / 2
            for step in range(1, 7):
                column = int((points[place, 0] + 0.5 * step * math.cos(angle)) / LAKE_CELL)
                row = int((points[place, 1] + 0.5 * step * math.sin(angle)) / LAKE_CELL)
                if 0 <= column < len(water) and 0 <= row < len(water) and water[column, row]:
                    sides[place] += side
                    break
    return sides


@compiled
def gaps_crossed(points, directions, centres):
    """Rows (point, left landmark, right landmark) of the gaps between two landmarks that a path crosses."""
    found = np.empty((24, 3), np.int64)
    count = 0
    for one in range(len(centres)):
        for other in range(one):
            across_x, across_y = centres[other, 0] - centres[one, 0], centres[other, 1] - centres[one, 1]
            width = math.hypot(across_x, across_y)
            if not 6.0 <= width <= 17.0:
                continue
            before = 0.0
            for place in range(len(points)):
                off_x, off_y = points[place, 0] - centres[one, 0], points[place, 1] - centres[one, 1]
                aside = across_x * off_y - across_y * off_x
                share = (across_x * off_x + across_y * off_y) / (width * width)
                is_crossed = place > 0 and aside * before <= 0.0 and 0.25 < share < 0.75
                before = aside
                if is_crossed and count < len(found):
                    angle = wrap_radians(math.atan2(across_y, across_x) - directions[place])
                    if math.radians(55) < abs(angle) < math.radians(125):
                        found[count, 0] = place
                        found[count, 1] = other if angle > 0 else one
                        found[count, 2] = one if angle > 0 else other
                        count += 1
    return found[:count]
