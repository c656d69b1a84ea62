"""Solids, the building blocks of landmarks, and the table that the ray tracer reads.

Landmark frame: x towards its front, y to its left, z up, origin on the ground below its centre; metres.
Each constructor below returns one `Solid`; a landmark is a tuple of them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from pvn.paths import length_of

Vector = tuple[float, float, float]
Kind = Literal["ellipsoid", "box", "frustum"]
Pattern = Literal["plain", "speckle", "bands", "stripes"]

KINDS: tuple[Kind, ...] = ("ellipsoid", "box", "frustum")
PATTERNS: tuple[Pattern, ...] = ("plain", "speckle", "bands", "stripes")

# Columns of a row of the solid table (float32); M maps a landmark-frame point p to M p + offset, in which
# the solid is the unit sphere, the cube [-1, 1]^3, or the frustum of radius 1 (z = -1) to taper (z = 1).
KIND, M, OFFSET, TAPER, COLOUR, PATTERN, COUNT, SECOND, GLOSS, CENTRE, BOUND = (
    0, 1, 10, 13, 14, 17, 18, 19, 22, 23, 26,
)  # fmt: skip
NUM_COLUMNS = 27


@dataclass(frozen=True)
class Solid:
    """One convex building block of a landmark."""

    kind: Kind
    centre: Vector
    """Centre in the landmark frame, metres."""
    half: Vector
    """Half sizes along the solid's own axes, metres."""
    colour: str
    """Main colour, "#rrggbb"."""
    turn: Vector = (0.0, 0.0, 0.0)
    """Roll, pitch, yaw of the solid in the landmark frame, degrees, applied as yaw * pitch * roll."""
    taper: float = 1.0
    """Frustum only: top radius over bottom radius, 0 or more."""
    pattern: Pattern = "plain"
    """How `colour` and `second` alternate: bands along z, stripes along x, speckles at random."""
    count: float = 4.0
    """Number of band or stripe pairs, or speckles across the solid."""
    second: str = "#000000"
    """Second colour of the pattern."""
    gloss: float = 0.0
    """How much of sky and sun is mirrored, from 0 (chalk) to 1 (chrome)."""

    def painted(self, pattern: Pattern, second: str, count: float = 4.0, gloss: float | None = None) -> Solid:
        """The same solid with a pattern in a second colour."""
        gloss = self.gloss if gloss is None else gloss
        return replace(self, pattern=pattern, second=second, count=count, gloss=gloss)

    def shiny(self, gloss: float) -> Solid:
        """The same solid with this gloss."""
        return replace(self, gloss=gloss)


def ball(centre: Vector, size: Vector | float, colour: str, turn: Vector = (0, 0, 0)) -> Solid:
    """An ellipsoid with full diameters `size`."""
    dx, dy, dz = (size, size, size) if isinstance(size, (int, float)) else size
    return Solid("ellipsoid", centre, (dx / 2, dy / 2, dz / 2), colour, turn)


def box(centre: Vector, size: Vector, colour: str, turn: Vector = (0, 0, 0)) -> Solid:
    """A cuboid with full edge lengths `size`."""
    return Solid("box", centre, (size[0] / 2, size[1] / 2, size[2] / 2), colour, turn)


def cylinder(foot: Vector, radius: float, height: float, colour: str) -> Solid:
    """An upright cylinder standing on `foot`."""
    return cone(foot, radius, height, colour, top=radius)


def cone(foot: Vector, radius: float, height: float, colour: str, top: float = 0.0) -> Solid:
    """An upright cone or frustum standing on `foot`, with bottom radius `radius` and top radius `top`."""
    centre = (foot[0], foot[1], foot[2] + height / 2)
    return Solid("frustum", centre, (radius, radius, height / 2), colour, taper=top / radius)


def rod(start: Vector, end: Vector, radius: float, colour: str, top: float | None = None) -> Solid:
    """A straight round bar from `start` (radius `radius`) to `end` (radius `top`, the same by default)."""
    dx, dy, dz = (end[i] - start[i] for i in range(3))
    length = math.sqrt(dx * dx + dy * dy + dz * dz)
    pitch = math.degrees(math.atan2(math.hypot(dx, dy), dz))
    yaw = math.degrees(math.atan2(dy, dx))
    centre = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2, (start[2] + end[2]) / 2)
    top = radius if top is None else top
    return Solid("frustum", centre, (radius, radius, length / 2), colour, (0.0, pitch, yaw), top / radius)


def slab(start: Vector, end: Vector, width: float, thickness: float, colour: str) -> Solid:
    """A flat bar from `start` to `end`, `width` across (kept level) and `thickness` thick."""
    dx, dy, dz = (end[i] - start[i] for i in range(3))
    length = math.sqrt(dx * dx + dy * dy + dz * dz)
    pitch = -math.degrees(math.atan2(dz, math.hypot(dx, dy)))
    yaw = math.degrees(math.atan2(dy, dx))
    centre = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2, (start[2] + end[2]) / 2)
    return box(centre, (length, width, thickness), colour, (0.0, pitch, yaw))


def rotation(turn: Vector) -> npt.NDArray[np.float64]:
    """Rotation (3, 3), solid's own axes to landmark frame."""
    roll, pitch, yaw = (math.radians(angle) for angle in turn)
    cr, sr, cp, sp = math.cos(roll), math.sin(roll), math.cos(pitch), math.sin(pitch)
    cy, sy = math.cos(yaw), math.sin(yaw)
    about_x = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    about_y = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    about_z = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    return about_z @ about_y @ about_x


def colour_rgb(colour: str) -> tuple[float, float, float]:
    """Red, green, blue in [0, 1] of "#rrggbb"."""
    red, green, blue = bytes.fromhex(colour[1:])
    return red / 255, green / 255, blue / 255


def _rings(fineness: int, radii: Sequence[float], heights: Sequence[float]) -> npt.NDArray[np.float64]:
    """Points (P, 3) on circles around the z axis."""
    angle = np.linspace(0, 2 * math.pi, 2 * fineness, endpoint=False)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    return np.concatenate([np.c_[circle * r, np.full(len(circle), z)] for r, z in zip(radii, heights, strict=True)])


@functools.cache
def _sphere(fineness: int) -> npt.NDArray[np.float64]:
    """Points (P, 3) on the unit sphere."""
    heights = np.sin(np.linspace(-math.pi / 2, math.pi / 2, fineness + 1))
    return _rings(fineness, [math.sqrt(max(0.0, 1 - z * z)) for z in heights], heights.tolist())


def surface_points(solid: Solid, fineness: int = 24) -> npt.NDArray[np.float64]:
    """Points (P, 3) on the solid's surface, landmark frame, which come close to its extreme points."""
    match solid.kind:
        case "box":
            unit = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
        case "frustum":
            unit = _rings(fineness, (1, solid.taper), (-1, 1))
        case "ellipsoid":
            unit = _sphere(fineness)
    points: npt.NDArray[np.float64] = unit * np.array(solid.half) @ rotation(solid.turn).T
    return points + np.array(solid.centre)


def solid_row(solid: Solid) -> npt.NDArray[np.float32]:
    """The solid as one row (NUM_COLUMNS,) of the solid table."""
    to_unit = np.diag(1 / np.array(solid.half)) @ rotation(solid.turn).T
    a, b, c = solid.half
    match solid.kind:
        case "ellipsoid":
            bound = max(a, b, c)
        case "box":
            bound = math.sqrt(a * a + b * b + c * c)
        case "frustum":
            bound = math.hypot(max(a, b) * max(1.0, solid.taper), c)
    row = np.zeros(NUM_COLUMNS, np.float32)
    row[KIND] = KINDS.index(solid.kind)
    row[M : M + 9] = to_unit.ravel()
    row[OFFSET : OFFSET + 3] = -to_unit @ np.array(solid.centre)
    row[TAPER] = solid.taper
    row[COLOUR : COLOUR + 3] = colour_rgb(solid.colour)
    row[PATTERN] = PATTERNS.index(solid.pattern)
    row[COUNT] = solid.count
    row[SECOND : SECOND + 3] = colour_rgb(solid.second)
    row[GLOSS] = solid.gloss
    row[CENTRE : CENTRE + 3] = solid.centre
    row[BOUND] = bound * 1.0001 + 1e-4  # rounding to float32 must not clip the silhouette
    return row


def solid_table(models: Sequence[Sequence[Solid]]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32]]:
    """All models' solids in one table (N, NUM_COLUMNS), and the first row of each model in it (len + 1,)."""
    first = np.cumsum([0] + [len(model) for model in models]).astype(np.int32)
    rows = [solid_row(solid) for model in models for solid in model]
    return np.stack(rows), first


def horizontal_extent(model: Sequence[Solid]) -> float:
    """How far the model's surface reaches from its vertical axis, metres."""
    return float(max(length_of(*surface_points(solid)[:, :2].T).max() for solid in model))


def top_height(model: Sequence[Solid]) -> float:
    """Height of the model's highest point above the ground, metres."""
    return float(max(surface_points(solid)[:, 2].max() for solid in model))


def bounding_sphere(model: Sequence[Solid]) -> tuple[float, float]:
    """A sphere around the model with its centre on the vertical axis: height of the centre and radius, metres."""
    points = np.concatenate([surface_points(solid, 12) for solid in model])
    height = (points[:, 2].min() + points[:, 2].max()) / 2
    radius = np.linalg.norm(points - np.array([0, 0, height]), axis=-1).max()
    return float(height), float(radius) * 1.015  # the circles of 24 points fall short by less than 0.9%
