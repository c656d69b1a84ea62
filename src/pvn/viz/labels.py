"""Where names and numbers go on a picture of the field, so that they hide neither each other nor the paths."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pvn.paths import Points, path_length, points_along
from pvn.viz.drawn_text import font_of
from pvn.viz.pictures import REACH
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Layout

LINE_HEIGHT, ROOM = 1.25, 0.5
"""Height of a line of a name, and free room beside it, relative to the font's size."""
BODY = 0.46
"""How far a landmark's solids reach, relative to its radius."""
NUMBER_SIZE = 17.0
"""Diameter of a number's circle, points."""
OVER_NAME, OVER_BODY, OVER_POINT, OUTSIDE = 100.0, 8.0, 3.0, 60.0
"""Penalty for a label that covers a label, a landmark, or a point of a path, or leaves the picture by a metre."""
DISTANCES = (1.15, 1.8, 2.6, 3.6)
"""Distances at which numbers are tried, relative to their size."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rectangle:
    """A part of the field, metres, field frame; x and y are its middle."""

    x: float
    y: float
    width: float
    height: float

    def overlap(self, other: Rectangle) -> float:
        """Area of the intersection, relative to the smaller of the two."""
        across = (self.width + other.width) / 2 - abs(self.x - other.x)
        down = (self.height + other.height) / 2 - abs(self.y - other.y)
        if across <= 0 or down <= 0:
            return 0.0
        return across * down / min(self.width * self.height, other.width * other.height)

    def num_inside(self, points: Points) -> int:
        """How many points of (P, 2) lie inside."""
        gap = np.abs(points - np.array([self.x, self.y]))
        return int(((gap[:, 0] < self.width / 2) & (gap[:, 1] < self.height / 2)).sum())

    @property
    def outside(self) -> float:
        """Metres by which it reaches beyond the picture of the field."""
        half_width, half_height = self.width / 2, self.height / 2
        beyond = (REACH[0] - self.x + half_width, self.x + half_width - REACH[1])
        above = (REACH[0] - self.y + half_height, self.y + half_height - REACH[1])
        return sum(max(0.0, excess) for excess in (*beyond, *above))


def along_path(points: npt.NDArray[np.floating], spacing: float = 0.4) -> Floats:
    """Points (Q, 2) along the line through points (P, 2), at most `spacing` metres apart."""
    line = np.asarray(points, np.float64)
    length = path_length(line)
    return points_along(line, np.linspace(0.0, length, math.ceil(length / spacing) + 1))


def _penalty(place: Rectangle, taken: Sequence[Rectangle], bodies: Sequence[Rectangle], points: Floats) -> float:
    overlaps = [place.overlap(other) for other in taken]
    over = sum(OVER_NAME + 20 * overlap for overlap in overlaps if overlap > 0)
    over += sum(OVER_BODY * place.overlap(body) for body in bodies)
    return over + OVER_POINT * place.num_inside(points) + OUTSIDE * place.outside


def _bodies(layout: Layout) -> list[Rectangle]:
    return [Rectangle(mark.x, mark.y, 2 * BODY * mark.radius, 2 * BODY * mark.radius) for mark in layout.landmarks]


@dataclass(frozen=True)
class Name:
    """The name of a landmark, in one line or more, and where it goes."""

    text: str
    place: Rectangle


def _inside(place: Rectangle) -> Rectangle:
    """The same, moved sideways into the picture."""
    half = place.width / 2
    return replace(place, x=min(max(place.x, REACH[0] + half), REACH[1] - half))


def place_names(
    layout: Layout,
    metres_per_point: float,
    font: float,
    *,
    points: Floats | None = None,
    taken: Sequence[Rectangle] = (),
    line_letters: int = 40,
) -> list[Name]:
    """Where the names of landmarks go: below each, or where they cover less; left out where there is no room.

    metres_per_point: the field's scale in the picture; font: size in points; points (P, 2), field frame, and taken:
    what names should not cover; line_letters: longest line of a name.
    """
    points = np.empty((0, 2)) if points is None else points
    bodies, covered, names = _bodies(layout), list(taken), list[Name]()
    # Landmarks near the paths first: they matter most.
    near = [np.hypot(*(points - (mark.x, mark.y)).T).min() if len(points) else 0.0 for mark in layout.landmarks]
    for index in np.argsort(near, kind="stable").tolist():
        mark = layout.landmarks[index]
        lines = textwrap.wrap(LANDMARK_CLASSES[mark.name].noun, line_letters)
        width = metres_per_point * (max(map(font_of(font).getlength, lines)) + ROOM * font)
        height = metres_per_point * LINE_HEIGHT * font * len(lines)
        reach = 0.52 * mark.radius + height / 2
        aside = 0.5 * mark.radius + width / 2
        offsets = [(0, -reach), (0, reach), (aside, 0), (-aside, 0)]
        offsets += [(x * (0.2 * mark.radius + width / 2), y * reach) for y in (-1, 1) for x in (1, -1)]
        tried = [_inside(Rectangle(mark.x + x, mark.y + y, width, height)) for x, y in offsets]
        penalties = [_penalty(place, covered, bodies, points) for place in tried]
        best = int(np.argmin(penalties))
        if penalties[best] < OVER_NAME:
            names.append(Name("\n".join(lines), tried[best]))
            covered.append(tried[best])
    return names


def place_numbers(
    layout: Layout,
    spots: Floats,
    yaws: Sequence[float],
    metres_per_point: float,
    *,
    taken: Sequence[Rectangle],
    points: Floats,
) -> list[Rectangle]:
    """Where numbers beside spots (N, 2) with headings `yaws` go: to the right, or where they cover less.

    They avoid the layout's landmarks, taken (names and marks), and points (P, 2) (paths).
    """
    size, found, bodies = NUMBER_SIZE * metres_per_point, list[Rectangle](), _bodies(layout)
    for (x, y), yaw in zip(spots.tolist(), yaws, strict=True):
        tried = [
            Rectangle(x + far * size * math.cos(yaw + turn), y + far * size * math.sin(yaw + turn), size, size)
            for far in DISTANCES
            for turn in np.radians((-90, 90, -60, 60, -120, 120, -30, 30, 180, 0)).tolist()
        ]
        penalties = [_penalty(place, [*taken, *found], bodies, points) for place in tried]
        found.append(tried[int(np.argmin(penalties))])
    return found
