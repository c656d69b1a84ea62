"""The trees beyond the field in the demo's 3D view, as a mesh."""

from __future__ import annotations

import functools
import math

import numpy as np
import numpy.typing as npt

from pvn.simulator.meshes import Mesh, join_meshes
from pvn.world.layout import FIELD_SIZE

NUM_TREES = 144
"""In each row."""
TREE_RING = 92.0
"""Radius of the front row around the middle of the field, metres."""
ROWS = ((0.0, 0.0, 1.0), (4.0, 3.0, 0.86))
"""Of trees: metres behind the ring, metres taller, and light."""
NUM_CORNERS = 10
"""Of a round crown's outline."""
LEAVES, NEEDLES, UNDERGROWTH = (74, 116, 48), (44, 88, 52), (52, 82, 38)
SHARE_OF_CONIFERS = 0.28


def _outline(is_conifer: bool, half_width: float, height: float) -> npt.NDArray[np.float64]:
    """Corners (C, 2) of a tree's outline, its middle first: metres to the side, and up."""
    if is_conifer:
        return np.array([[0, 0.4 * height], [-0.6 * half_width, 0], [0.6 * half_width, 0], [0, 1.15 * height]])
    angle = np.linspace(0, 2 * math.pi, NUM_CORNERS, endpoint=False)
    crown = np.stack([half_width * np.cos(angle), 0.42 * height * np.sin(angle)], -1)
    return np.concatenate([np.zeros((1, 2)), crown]) + np.array([0.0, 0.58 * height])


def _placed(corners: npt.NDArray[np.float64], angle: float, radius: float) -> npt.NDArray[np.float64]:
    """Corners (C, 2) of something flat as points (C, 3), field frame, facing the middle from a place on a circle."""
    outward, along = np.array([math.cos(angle), math.sin(angle)]), np.array([-math.sin(angle), math.cos(angle)])
    ground = FIELD_SIZE / 2 + radius * outward + corners[:, :1] * along
    return np.concatenate([ground, corners[:, 1:]], -1)


def _fan(points: npt.NDArray[np.float64], colours: npt.NDArray[np.float64]) -> Mesh:
    """Triangles around the first of the points (C, 3), each with a colour (C, 3), lit as if it faced the sky."""
    rim = np.arange(1, len(points))
    triangles = np.stack([np.zeros_like(rim), rim, np.roll(rim, -1)], -1)
    up = np.broadcast_to(np.array([0, 0, 1], np.float32), points.shape)
    return Mesh(points.astype(np.float32), up, colours.clip(0, 255).astype(np.uint8), triangles.astype(np.uint32))


@functools.cache
def tree_line_mesh() -> Mesh:
    """Two rows of trees and their undergrowth around the field, field frame; flat, to be seen from both sides."""
    generator, meshes = np.random.default_rng(0), []
    for behind, taller, light in reversed(ROWS):
        for tree in range(NUM_TREES):
            size, spread, place, tint, kind = generator.random(5)
            angle, radius = (tree + place) * 2 * math.pi / NUM_TREES, TREE_RING + behind + spread
            is_conifer = bool(kind < SHARE_OF_CONIFERS)
            corners = _outline(is_conifer, 2.4 + 1.8 * spread, 4.5 + 4.5 * size + taller)
            colour = np.array(NEEDLES if is_conifer else LEAVES) * light * (0.85 + 0.3 * tint)
            # Lighter towards the top, as under the sky.
            shade = 0.66 + 0.5 * corners[:, 1:] / corners[:, 1].max()
            meshes.append(_fan(_placed(corners, angle, radius), shade * colour))
            hedge = np.array([[0.0, 1.2], [-3.2, 0.0], [3.2, 0.0], [2.6, 2.4 + spread], [-2.6, 2.4 + size]])
            meshes.append(_fan(_placed(hedge, angle, radius + 0.5), np.tile(np.array(UNDERGROWTH) * light, (5, 1))))
    return join_meshes(meshes)
