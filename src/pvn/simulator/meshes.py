"""The simulator's solids as triangle meshes, for viewers to draw: landmarks, fences, and the drone itself."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pvn.compiling import from_python
from pvn.simulator.rays import EAST, NORTH, SOUTH, WEST, F, fence_top
from pvn.simulator.shading import fence_colour, painted_colour
from pvn.world.landmarks import landmark_class
from pvn.world.layout import FIELD_SIZE, Landmark
from pvn.world.solids import Solid, ball, box, colour_rgb, cylinder, rotation, solid_row

Floats = npt.NDArray[np.float32]

NUM_SECTORS, NUM_RINGS = 18, 10
"""Faces around and along a round solid; more of them where a pattern would be lost."""
FENCE_LEVELS = (0.0, 0.45, 0.65, 1.55, 1.75)
"""Heights at which a fence's colour changes, metres: the edges of its rails."""
PICKET, GAP_SHARE = 0.5, 0.1
"""Width of a picket (metres), and how much of it is the dark gap."""
DRONE = (
    box((0.0, 0.0, 0.0), (1.5, 0.1, 0.08), "#30343a", (0, 0, 45)),
    box((0.0, 0.0, 0.0), (1.5, 0.1, 0.08), "#30343a", (0, 0, -45)),
    ball((0.0, 0.0, 0.04), (0.6, 0.42, 0.28), "#f0f0f0"),
    *(
        cylinder((0.53 * x, 0.53 * y, 0.06), 0.38, 0.03, "#e69f00" if x > 0 else "#56b4e9")
        for x in (-1, 1)
        for y in (-1, 1)
    ),
)
"""Body frame, metres; twice life-size, to be seen from afar, with orange front rotors."""


@dataclass(frozen=True)
class Mesh:
    """Triangles with a colour and a normal at each vertex."""

    vertices: Floats
    """(V, 3), metres."""
    normals: Floats
    """(V, 3), outward, of unit length."""
    colours: npt.NDArray[np.uint8]
    """(V, 3): red, green, blue."""
    triangles: npt.NDArray[np.uint32]
    """(F, 3): indices of vertices, counter-clockwise seen from outside."""


@dataclass(frozen=True)
class Patch:
    """A curved rectangle of a unit solid's surface."""

    points: npt.NDArray[np.float64]
    """(U, V, 3), unit frame; x, y of the patch turn counter-clockwise seen from outside."""
    normals: npt.NDArray[np.float64]
    """(U, V, 3), unit frame, of any length."""


def _divisions(solid: Solid, least: int, pattern: str) -> int:
    """Faces along an axis: enough for the pattern that runs along it."""
    if solid.pattern == "plain" or solid.pattern not in (pattern, "speckle"):
        return least
    pairs = max(1, math.ceil(2 * solid.count))
    return pairs * max(1, round(least / pairs)) if solid.pattern == pattern else max(least, min(pairs, 16))


def _box_patches(solid: Solid) -> Iterator[Patch]:
    divisions = [_divisions(solid, 1, "stripes"), _divisions(solid, 1, "speckle"), _divisions(solid, 1, "bands")]
    for axis in range(3):
        across, up = (axis + 1) % 3, (axis + 2) % 3
        for side in (-1.0, 1.0):
            u, v = (np.linspace(-1, 1, divisions[other] + 1) for other in (across, up))
            points = np.empty((len(u), len(v), 3))
            points[..., axis] = side
            points[..., across], points[..., up] = u[:, None] * side, v[None]
            normals = np.zeros_like(points)
            normals[..., axis] = side
            yield Patch(points, normals)


def _circle(num_sectors: int) -> npt.NDArray[np.float64]:
    angle = np.linspace(0, 2 * math.pi, num_sectors + 1)
    return np.stack([np.cos(angle), np.sin(angle)], -1)


def _frustum_patches(solid: Solid) -> Iterator[Patch]:
    circle = _circle(NUM_SECTORS if solid.pattern in ("plain", "bands") else 2 * NUM_SECTORS)
    heights = np.linspace(-1, 1, _divisions(solid, 1, "bands") + 1)
    radii = (solid.taper + 1) / 2 + (solid.taper - 1) / 2 * heights
    points = np.empty((len(circle), len(heights), 3))
    points[..., :2] = circle[:, None] * radii[:, None]
    points[..., 2] = heights
    normals = np.empty_like(points)
    normals[..., :2] = circle[:, None]
    normals[..., 2] = (1 - solid.taper) / 2
    yield Patch(points, normals)
    for height, radius in ((-1.0, 1.0), (1.0, solid.taper)):
        if radius > 0:
            cap = np.empty((len(circle), 2, 3))
            rim = np.array([radius, 0.0]) if height > 0 else np.array([0.0, radius])
            cap[..., :2] = circle[:, None] * rim[:, None]
            cap[..., 2] = height
            yield Patch(cap, np.broadcast_to([0.0, 0.0, height], cap.shape))


def _ellipsoid_patches(solid: Solid) -> Iterator[Patch]:
    finer = 1 if solid.pattern == "plain" else 2
    circle = _circle(finer * NUM_SECTORS)
    latitude = np.linspace(-math.pi / 2, math.pi / 2, finer * NUM_RINGS + 1)
    points = np.empty((len(circle), len(latitude), 3))
    points[..., :2] = circle[:, None] * np.cos(latitude)[:, None]
    points[..., 2] = np.sin(latitude)
    yield Patch(points, points)


def _patches(solid: Solid) -> Iterator[Patch]:
    match solid.kind:
        case "box":
            return _box_patches(solid)
        case "frustum":
            return _frustum_patches(solid)
        case _:
            return _ellipsoid_patches(solid)


def _quads(grid: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The four corners (Q, 4, 3) of each cell of a grid (U, V, 3), counter-clockwise."""
    corners = [grid[:-1, :-1], grid[1:, :-1], grid[1:, 1:], grid[:-1, 1:]]
    return np.stack([corner.reshape(-1, 3) for corner in corners], 1)


def _mesh_of_quads(
    corners: npt.NDArray[np.float64], normals: npt.NDArray[np.float64], colours: npt.NDArray[np.float64]
) -> Mesh:
    """The mesh of quads (Q, 4, 3) with normals (Q, 4, 3) and one colour each (Q, 3)."""
    first = 4 * np.arange(len(corners))[:, None, None]
    triangles = first + np.array([[0, 1, 2], [0, 2, 3]])
    length = np.linalg.norm(normals, axis=-1, keepdims=True)
    return Mesh(
        corners.reshape(-1, 3).astype(np.float32),
        (normals / np.maximum(length, 1e-9)).reshape(-1, 3).astype(np.float32),
        np.repeat(np.round(colours * 255).astype(np.uint8), 4, axis=0),
        triangles.reshape(-1, 3).astype(np.uint32),
    )


def _paint(solid: Solid, centres: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Colours (Q, 3) at points (Q, 3) of the unit solid, by the simulator's own code."""
    if solid.pattern == "plain":
        return np.broadcast_to(colour_rgb(solid.colour), centres.shape)
    table, paint = solid_row(solid)[None], from_python(painted_colour)
    return np.array([paint(F(x), F(y), F(z), table, 0) for x, y, z in centres])


def join_meshes(meshes: Sequence[Mesh]) -> Mesh:
    """All meshes in one."""
    first = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes)])
    triangles = [mesh.triangles + start for mesh, start in zip(meshes, first[:-1], strict=True)]
    return Mesh(
        np.concatenate([mesh.vertices for mesh in meshes]),
        np.concatenate([mesh.normals for mesh in meshes]),
        np.concatenate([mesh.colours for mesh in meshes]),
        np.concatenate(triangles).astype(np.uint32),
    )


def _weld(mesh: Mesh) -> Mesh:
    """The same mesh with identical vertices merged, a third of the bytes to send."""
    alike = np.concatenate([mesh.vertices.round(4), mesh.normals.round(4), mesh.colours], 1)
    _, first, place = np.unique(alike, axis=0, return_index=True, return_inverse=True)
    triangles = place.ravel().astype(np.uint32)[mesh.triangles]
    return Mesh(mesh.vertices[first], mesh.normals[first], mesh.colours[first], triangles)


def solid_mesh(solid: Solid) -> Mesh:
    """A solid's surface, in the frame of its landmark."""
    turn, half = rotation(solid.turn), np.array(solid.half)
    meshes = []
    for patch in _patches(solid):
        unit = _quads(patch.points)
        corners = unit * half @ turn.T + np.array(solid.centre)
        normals = _quads(patch.normals) / half @ turn.T
        meshes.append(_mesh_of_quads(corners, normals, _paint(solid, unit.mean(1))))
    return _weld(join_meshes(meshes))


@functools.cache
def class_mesh(name: str) -> Mesh:
    """A landmark class at scale 1, landmark frame."""
    return join_meshes([solid_mesh(solid) for solid in landmark_class(name).solids])


def landmark_mesh(landmark: Landmark) -> Mesh:
    """A landmark where it stands, field frame."""
    own = class_mesh(landmark.name)
    turn = rotation((0.0, 0.0, math.degrees(landmark.yaw)))
    corners = own.vertices @ turn.T * landmark.scale + np.array([landmark.x, landmark.y, 0.0])
    return Mesh(corners.astype(np.float32), (own.normals @ turn.T).astype(np.float32), own.colours, own.triangles)


def _fence(side: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Quads (Q, 4, 3), field frame, and colours (Q, 3) of one fence."""
    quads, colours = [], []
    top_at, colour_at = from_python(fence_top), from_python(fence_colour)
    for picket in range(round(FIELD_SIZE / PICKET)):
        # A gap, the picket up to its point, and down again.
        edges = [PICKET * (picket + share) for share in (0.0, GAP_SHARE, 0.5, 1.0 - 1e-6)]
        for left, right in itertools.pairwise(edges):
            tops = [float(top_at(F(edge))) for edge in (left, right)]
            for low, high in zip(FENCE_LEVELS, (*FENCE_LEVELS[1:], None), strict=True):
                ends = tops if high is None else [high, high]
                quads.append([(left, low), (right, low), (right, ends[1]), (left, ends[0])])
                middle = (low + (tops[0] if high is None else high)) / 2
                colours.append(colour_at(side, F((left + right) / 2), F(middle)))
    along, height = np.moveaxis(np.array(quads), -1, 0)
    across = np.full_like(along, FIELD_SIZE if side in (EAST, NORTH) else 0.0)
    places = [across, along, height] if side in (EAST, WEST) else [along, across, height]
    return np.stack(places, -1), np.array(colours)


@functools.cache
def fence_mesh() -> Mesh:
    """The four fences, field frame; they have no thickness and are seen from both sides."""
    meshes = []
    for side in (WEST, EAST, SOUTH, NORTH):
        quads, colours = _fence(side)
        normal = np.cross(quads[0, 1] - quads[0, 0], quads[0, 2] - quads[0, 0])
        meshes.append(_mesh_of_quads(quads, np.broadcast_to(normal, quads.shape), colours))
    return _weld(join_meshes(meshes))


@functools.cache
def drone_mesh() -> Mesh:
    """The drone, body frame, its centre at the origin."""
    return join_meshes([solid_mesh(solid) for solid in DRONE])
