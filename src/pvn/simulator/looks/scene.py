"""A field as coloured triangles, for renderers that draw nothing else.

Landmarks and fences have the shapes and colours that agents see. Grass, water and sand are each of one colour, without
our renderer's textures; light, shadows and sky are left to the renderer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pvn.compiling import from_python
from pvn.simulator.fields import wetness_of
from pvn.simulator.meshes import Mesh, fence_mesh, join_meshes, landmark_mesh
from pvn.simulator.rays import SUN_X, SUN_Y, SUN_Z, F
from pvn.simulator.shading import HORIZON_BLUE, HORIZON_GREEN, HORIZON_RED, KERB, kerb_colour, wetness_at
from pvn.world.layout import FIELD_SIZE, Layout

GROUND_REACH = 1000.0
"""How far the ground goes on beyond the field, metres."""
WATER_CELL = 0.25
"""Edge of the squares that lakes are made of, metres."""
LAYER = 0.015
"""The shore lies this far above the grass, and water above the shore, metres, so that they hide what is below."""
GRASS, MEADOW_BEYOND = (0.31, 0.50, 0.17), (0.46, 0.50, 0.27)
SHORE, WATER = (0.74, 0.66, 0.45), (0.22, 0.40, 0.61)
"""Our renderer's colours without textures; water as it is seen 45 degrees down."""
SKY_ABOVE, HORIZON = (0.30, 0.52, 0.86), (float(HORIZON_RED), float(HORIZON_GREEN), float(HORIZON_BLUE))
TOWARDS_SUN = (float(SUN_X), float(SUN_Y), float(SUN_Z))
"""Unit vector, field frame."""

Colour = tuple[float, float, float]
Rectangle = tuple[float, float, float, float]
"""West, south, east and north edge, metres, field frame."""


@dataclass(frozen=True)
class Part:
    """Everything in a field that has one colour."""

    colour: Colour
    """Red, green, blue in [0, 1]."""
    mesh: Mesh
    """Field frame; faces are seen from their outside alone."""


def _level(rectangles: Sequence[Rectangle], height: float, colour: Sequence[float]) -> Mesh:
    """Level rectangles at a height, metres, seen from above."""
    west, south, east, north = np.array(rectangles, np.float32).T
    up = np.full_like(west, height)
    corners = np.stack([
        np.stack([x, y, up], -1) for x, y in ((west, south), (east, south), (east, north), (west, north))
    ], 1)  # fmt: skip
    first = 4 * np.arange(len(corners))[:, None, None]
    return Mesh(
        corners.reshape(-1, 3),
        np.tile(np.array([0, 0, 1], np.float32), (4 * len(corners), 1)),
        np.tile(np.round(np.array(colour) * 255).astype(np.uint8), (4 * len(corners), 1)),
        (first + np.array([[0, 1, 2], [0, 2, 3]])).reshape(-1, 3).astype(np.uint32),
    )


def _squares(cells: npt.NDArray[np.bool_]) -> list[Rectangle]:
    """The True cells (N, N), indexed [x, y], as squares that share their corners, so that nothing shines through."""
    place = np.argwhere(cells)
    return [tuple(edges) for edges in (np.concatenate([place, place + 1], 1) * WATER_CELL).tolist()]


def _ground(layout: Layout) -> list[Mesh]:
    """Grass, the kerbs below the fences, the meadow beyond, shores and lakes."""
    colour_at, wetness_there = from_python(kerb_colour), from_python(wetness_at)
    kerb, size, far = float(KERB), FIELD_SIZE, GROUND_REACH
    meshes = [
        _level([(kerb, kerb, size - kerb, size - kerb)], 0.0, GRASS),
        _level(
            [
                (-far, -far, size + far, -kerb), (-far, size + kerb, size + far, size + far),
                (-far, -kerb, -kerb, size + kerb), (size + kerb, -kerb, size + far, size + kerb),
            ],
            0.0, MEADOW_BEYOND,
        ),
    ]  # fmt: skip
    for rectangle in (
        (-kerb, -kerb, kerb, size + kerb), (size - kerb, -kerb, size + kerb, size + kerb),
        (kerb, -kerb, size - kerb, kerb), (kerb, size - kerb, size - kerb, size + kerb),
    ):  # fmt: skip
        west, south, east, north = rectangle
        meshes.append(_level([rectangle], 0.0, colour_at(F((west + east) / 2), F((south + north) / 2))))
    if layout.lake.any():
        wetness = wetness_of(layout.lake[None])
        places = [F((cell + 0.5) * WATER_CELL) for cell in range(round(FIELD_SIZE / WATER_CELL))]
        wet = np.array([[wetness_there(wetness, 0, x, y) for y in places] for x in places])
        meshes.append(_level(_squares(wet > 0.30), LAYER, SHORE))
        meshes.append(_level(_squares(wet > 0.50), 2 * LAYER, WATER))
    return meshes


def _two_sided(mesh: Mesh) -> Mesh:
    """The mesh with a second side to each of its faces."""
    return join_meshes([mesh, Mesh(mesh.vertices, -mesh.normals, mesh.colours, mesh.triangles[:, ::-1])])


def parts_of(layout: Layout) -> list[Part]:
    """Everything in a field, by colour."""
    landmarks = [landmark_mesh(landmark) for landmark in layout.landmarks]
    whole = join_meshes([*landmarks, _two_sided(fence_mesh()), *_ground(layout)])
    colours, which = np.unique(whole.colours[whole.triangles[:, 0]], axis=0, return_inverse=True)
    parts = []
    for index, (red, green, blue) in enumerate(colours.tolist()):
        used, triangles = np.unique(whole.triangles[which.ravel() == index], return_inverse=True)
        mesh = Mesh(
            whole.vertices[used], whole.normals[used], whole.colours[used], triangles.reshape(-1, 3).astype(np.uint32)
        )
        parts.append(Part((red / 255, green / 255, blue / 255), mesh))
    return parts
