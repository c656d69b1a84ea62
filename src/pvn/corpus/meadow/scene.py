"""A field as path planning needs it: discs to keep out of, the lake's shore, and where things are from a pose."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pvn.compiling import compiled
from pvn.paths import Points, length_of, wrap_radians
from pvn.world.layout import FIELD_SIZE, LAKE_CELL, Layout
from pvn.world.shapes import solid_extent

EDGE = 1.5
"""Distance that paths keep from the fences, metres."""
CLEARANCE = 0.4
"""Distance that paths keep from landmarks' solids, metres."""
MIN_GAP, MAX_GAP = 7.0, 20.0
"""Smallest and largest distance between two landmarks with a gap to fly through, metres."""
SHORE_ANGLES = 72


@dataclass(frozen=True, eq=False)
class Lake:
    """The only lake of a field."""

    centre: Points
    """Mean (2,) of its cells, field frame, metres."""
    shore: Points
    """Centres (K, 2) of its outermost cells, field frame, metres."""
    reach: Points
    """Distance (72,) from the centre to the furthest water, at every fifth degree counter-clockwise from +x."""

    def distances(self, points: Points) -> Points:
        """Distances (P,) of points (P, 2) from the shore, metres."""
        return np.array([shore_distance(x, y, self.shore) for x, y in points.tolist()])


@dataclass(frozen=True, eq=False)
class Scene:
    """Obstacles and destinations; lengths in metres, field frame."""

    layout: Layout
    centres: Points
    """Landmarks' centres (N, 2)."""
    radii: Points
    """Their clearance radii (N,)."""
    solids: Points
    """Radii (N,) of the discs that their solids fill."""
    pairs: npt.NDArray[np.int64]
    """Pairs (M, 2) of landmarks with a gap to fly through, each pair in both orders."""
    middles: Points
    """Middles (M, 2) of the gaps."""
    lake: Lake | None
    """None without water, or with several lakes, which a listener could not tell apart."""

    @staticmethod
    def of(layout: Layout) -> Scene:
        """The scene of a layout."""
        centres = layout.centres
        apart = np.hypot(*(centres[:, None] - centres[None]).transpose(2, 0, 1))
        pairs = np.argwhere((apart >= MIN_GAP) & (apart <= MAX_GAP))
        return Scene(
            layout,
            centres,
            layout.radii,
            np.array([solid_extent(mark.name) * mark.scale for mark in layout.landmarks]),
            pairs,
            centres[pairs].mean(axis=1),
            _find_lake(layout.lake),
        )


@dataclass(frozen=True)
class Pose:
    """Where the drone is and where it heads: field frame, metres, radians."""

    x: float
    y: float
    heading: float

    def ahead(self, metres: float) -> tuple[float, float]:
        """The point this many metres straight ahead."""
        return self.x + metres * math.cos(self.heading), self.y + metres * math.sin(self.heading)

    def offsets(self, places: Points) -> Points:
        """Vectors (..., 2) from here to places (..., 2), field frame."""
        return places - (self.x, self.y)

    def bearings(self, places: Points) -> Points:
        """Directions (...,) of places (..., 2) relative to the heading, radians, positive to the left."""
        off = self.offsets(places)
        return wrap_radians(np.arctan2(off[..., 1], off[..., 0]) - self.heading)

    def in_body(self, places: Points) -> Points:
        """Places (..., 2), field frame, in the body frame (..., 2): x ahead, y to the left."""
        off, cos, sin = self.offsets(places), math.cos(self.heading), math.sin(self.heading)
        return np.stack([off[..., 0] * cos + off[..., 1] * sin, off[..., 1] * cos - off[..., 0] * sin], axis=-1)


@compiled
def _count_lakes(water):
    """Number of connected lakes: 0, 1, or 2 if there are more than one."""
    size = len(water)
    waiting = np.empty((size * size, 2), np.int64)
    is_seen = np.zeros_like(water)
    count = 0
    for seed_x in range(size):
        for seed_y in range(size):
            if not water[seed_x, seed_y] or is_seen[seed_x, seed_y]:
                continue
            count += 1
            if count == 2:
                return count
            waiting[0, 0], waiting[0, 1], num_waiting = seed_x, seed_y, 1
            is_seen[seed_x, seed_y] = True
            while num_waiting:
                num_waiting -= 1
                x, y = waiting[num_waiting]
                for step_x, step_y in ((1, 0), (-1, 0), (0, 1), (0, -1)):
                    to_x, to_y = x + step_x, y + step_y
                    if 0 <= to_x < size and 0 <= to_y < size and water[to_x, to_y] and not is_seen[to_x, to_y]:
                        is_seen[to_x, to_y] = True
                        waiting[num_waiting, 0], waiting[num_waiting, 1] = to_x, to_y
                        num_waiting += 1
    return count


def _find_lake(water: npt.NDArray[np.bool_]) -> Lake | None:
    if _count_lakes(water) != 1:
        return None
    cells = (np.argwhere(water) + 0.5) * LAKE_CELL
    inner = np.zeros_like(water)
    inner[1:-1, 1:-1] = water[:-2, 1:-1] & water[2:, 1:-1] & water[1:-1, :-2] & water[1:-1, 2:]
    shore = (np.argwhere(water & ~inner).astype(np.float64) + 0.5) * LAKE_CELL
    centre = cells.mean(axis=0)
    offsets = shore - centre
    angles = np.arctan2(offsets[:, 1], offsets[:, 0])
    distances = length_of(offsets[:, 0], offsets[:, 1])
    directions = np.arange(SHORE_ANGLES) * (2 * math.pi / SHORE_ANGLES)
    gap = np.abs(wrap_radians(angles[None] - directions[:, None]))
    reach = np.where(gap < math.radians(12), distances[None], 0.0).max(axis=1)
    return Lake(centre, shore, reach)


@compiled
def shore_distance(x, y, shore):
    """Distance from a point to the nearest of the shore's cells (K, 2), metres."""
    square = 1e18
    for cell in range(len(shore)):
        off_x, off_y = x - shore[cell, 0], y - shore[cell, 1]
        square = min(square, off_x * off_x + off_y * off_y)
    nearest = 1e9
    for cell in range(len(shore)):
        off_x, off_y = x - shore[cell, 0], y - shore[cell, 1]
        # Roots are slow, so they only decide among cells whose squares are equal but for rounding.
        if off_x * off_x + off_y * off_y <= square * 1.000001:
            nearest = min(nearest, math.hypot(off_x, off_y))
    return max(nearest - 0.5 * LAKE_CELL, 0.0)


@compiled
def is_clear(points, centres, solids):
    """Whether points (P, 2) keep clear of the fences and of the landmarks' solids."""
    for point in range(len(points)):
        x, y = points[point, 0], points[point, 1]
        if not (EDGE <= x <= FIELD_SIZE - EDGE and EDGE <= y <= FIELD_SIZE - EDGE):
            return False
        for mark in range(len(centres)):
            if math.hypot(x - centres[mark, 0], y - centres[mark, 1]) < solids[mark] + CLEARANCE:
                return False
    return True


@compiled
def in_sight(places, x, y, heading, least, most, far):
    """Indices of places (N, 2) less than `far` metres away and `least` to `most` radians off the heading."""
    found = np.empty(len(places), np.int64)
    count = 0
    for place in range(len(places)):
        off_x, off_y = places[place, 0] - x, places[place, 1] - y
        off = abs(wrap_radians(math.atan2(off_y, off_x) - heading))
        if least <= off < most and math.hypot(off_x, off_y) < far:
            found[count] = place
            count += 1
    return found[:count]
