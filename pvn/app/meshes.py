"""Landmarks as triangles, from the same solids that the simulator traces."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Landmark
from pvn.world.solids import Solid, colour_rgb, rotation

NUM_SIDES, NUM_SLABS = 14, 7
"""Of what is round: corners of a ring, and slabs of an ellipsoid from bottom to top."""

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Mesh:
    """V corners and F triangles."""

    corners: npt.NDArray[np.float32]
    """(V, 3), metres."""
    normals: npt.NDArray[np.float32]
    """(V, 3): outward, of unit length."""
    colours: npt.NDArray[np.uint8]
    """(V, 3): red, green, blue."""
    triangles: npt.NDArray[np.uint32]
    """(F, 3): corners, counter-clockwise from outside."""


def join(meshes: Sequence[Mesh]) -> Mesh:
    """All in one."""
    first = np.cumsum([0, *(len(mesh.corners) for mesh in meshes)])
    return Mesh(
        np.concatenate([mesh.corners for mesh in meshes]),
        np.concatenate([mesh.normals for mesh in meshes]),
        np.concatenate([mesh.colours for mesh in meshes]),
        np.concatenate([mesh.triangles + start for mesh, start in zip(meshes, first[:-1], strict=True)]).astype(
            np.uint32
        ),
    )


def _heights(solid: Solid, axis: int) -> Array:
    """Where along an axis of its unit shape a solid is cut into slabs of one colour each, -1 to 1."""
    is_banded = solid.pattern == ("stripes" if axis == 0 else "bands")
    count = math.ceil(2 * solid.count) if is_banded else 1
    if solid.kind == "ellipsoid":
        angle = np.linspace(-math.pi / 2, math.pi / 2, max(count, NUM_SLABS) + 1)
        return np.sin(angle)
    return (np.arange(count + 1) / solid.count - 1).clip(-1, 1) if is_banded else np.array([-1.0, 1.0])


def _ring(solid: Solid, height: float) -> tuple[Array, Array]:
    """Corners (R, 3) of the unit shape around its z axis at a height, and their normals (R, 3)."""
    if solid.kind == "box":
        corner = np.array([[1, -1], [1, 1], [1, 1], [-1, 1], [-1, 1], [-1, -1], [-1, -1], [1, -1]], float)
        normal = np.repeat(np.array([[1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0]], float), 2, axis=0)
        return np.c_[corner, np.full(8, height)], normal
    angle = np.linspace(0, 2 * math.pi, NUM_SIDES, endpoint=False)
    circle = np.c_[np.cos(angle), np.sin(angle)]
    if solid.kind == "ellipsoid":
        points = np.c_[circle * math.sqrt(max(0.0, 1 - height * height)), np.full(NUM_SIDES, height)]
        return points, points
    slope = (solid.taper - 1) / 2
    radius = (solid.taper + 1) / 2 + slope * height
    return np.c_[circle * radius, np.full(NUM_SIDES, height)], np.c_[circle, np.full(NUM_SIDES, -slope)]


def _slab(solid: Solid, low: float, high: float) -> tuple[Array, Array, npt.NDArray[np.int64]]:
    """The mantle of the unit shape between two heights: corners, normals (each (V, 3)), triangles (F, 3)."""
    (below, normal_below), (above, normal_above) = _ring(solid, low), _ring(solid, high)
    count = len(below)
    here = np.arange(count)
    after = (here + 1) % count
    triangles = np.concatenate([np.c_[here, after, count + after], np.c_[here, count + after, count + here]])
    return np.concatenate([below, above]), np.concatenate([normal_below, normal_above]), triangles


def _cap(solid: Solid, height: float) -> tuple[Array, Array, npt.NDArray[np.int64]]:
    """The flat end of the unit shape at a height of -1 or 1, as `_slab`."""
    points, _ = _ring(solid, height)
    here = np.arange(1, len(points) - 1)
    fan = np.c_[np.zeros_like(here), here, here + 1]
    return points, np.tile([0.0, 0.0, height], (len(points), 1)), fan if height > 0 else fan[:, ::-1]


def _paint(solid: Solid, place: float) -> Array:
    """Colour (3,) of the solid at a height of its unit shape along its pattern, -1 to 1."""
    main, second = np.array(colour_rgb(solid.colour)), np.array(colour_rgb(solid.second))
    match solid.pattern:
        case "plain":
            return main
        case "speckle":
            return 0.75 * main + 0.25 * second  # speckles are finer than triangles; a quarter is in the second colour
        case _:
            return second if (place + 1) / 2 * solid.count % 1 >= 0.5 else main


def solid_mesh(solid: Solid) -> Mesh:
    """A solid in the frame of its landmark."""
    # Stripes run along x; where that is not the axis that slabs are cut along, a box can be turned.
    is_turned = solid.pattern == "stripes" and solid.kind == "box"
    turn = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]]) if is_turned else np.eye(3)  # slab frame to unit frame
    heights = _heights(solid, 0 if is_turned else 2)
    parts = [_slab(solid, low, high) for low, high in itertools.pairwise(heights)]
    middles = ((heights[:-1] + heights[1:]) / 2).tolist()
    if solid.kind != "ellipsoid":
        parts += [_cap(solid, -1.0), _cap(solid, 1.0)]
        middles += [-0.999, 0.999]
    to_landmark, half = rotation(solid.turn), np.array(solid.half)
    pieces = []
    for (points, normals, triangles), middle in zip(parts, middles, strict=True):
        normals = normals @ turn.T / half @ to_landmark.T
        shape = points @ turn.T
        if solid.pattern == "stripes" and not is_turned:
            paint = np.stack([_paint(solid, x) for x in shape[:, 0].clip(-0.999, 0.999)])
        else:
            paint = np.tile(_paint(solid, middle), (len(points), 1))
        pieces.append(
            Mesh(
                (shape * half @ to_landmark.T + np.array(solid.centre)).astype(np.float32),
                (normals / np.linalg.norm(normals, axis=1, keepdims=True).clip(1e-9)).astype(np.float32),
                np.round(paint * 255).astype(np.uint8),
                triangles.astype(np.uint32),
            )
        )
    return join(pieces)


def landmark_mesh(landmark: Landmark) -> Mesh:
    """A landmark where it stands, field frame."""
    own = join([solid_mesh(solid) for solid in LANDMARK_CLASSES[landmark.name].solids])
    cos, sin = math.cos(landmark.yaw), math.sin(landmark.yaw)
    turn = np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])
    corners = own.corners @ turn.T * landmark.scale + np.array([landmark.x, landmark.y, 0.0])
    return Mesh(corners.astype(np.float32), (own.normals @ turn.T).astype(np.float32), own.colours, own.triangles)
