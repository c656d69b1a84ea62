"""What the field in 3D is made of; field frame throughout: x east, y north, z up, metres."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import viser
from viser.transforms import SO3

from pvn.app.demo.gltf import to_glb
from pvn.app.demo.trees import tree_line_mesh
from pvn.simulator.meshes import class_mesh, drone_mesh, fence_mesh, solid_mesh
from pvn.world.layout import FIELD_SIZE
from pvn.world.solids import ball

MIDDLE = FIELD_SIZE / 2
SKY = (184, 214, 240)
HANDLE_M = 0.8
"""Across a ball by which things are turned."""
MEADOW_COLOUR, MEADOW_SIZE = (117, 127, 69), 1200.0
"""Colour and side (metres) of the plain ground around the picture of the field."""
FACING_UP = SO3.from_x_radians(math.pi).wxyz
"""viser's pictures have y down, as a camera's do; this rotation lays them on the ground with north up."""


@functools.lru_cache(maxsize=512)
def landmark_glb(name: str, yaw: float) -> bytes:
    """A landmark class at scale 1 as a binary glTF file, lit as it stands turned by yaw, radians."""
    return to_glb(class_mesh(name), yaw=yaw)


@functools.cache
def handle_glb(colour: str) -> bytes:
    """A ball by which things are turned, as a binary glTF file."""
    return to_glb(solid_mesh(ball((0.0, 0.0, 0.0), (HANDLE_M, HANDLE_M, HANDLE_M), colour)))


@functools.cache
def drone_glb() -> bytes:
    """The drone as a binary glTF file."""
    return to_glb(drone_mesh())


@functools.cache
def _fence_glb() -> bytes:
    return to_glb(fence_mesh(), is_two_sided=True)


@functools.cache
def _tree_line_glb() -> bytes:
    return to_glb(tree_line_mesh(), is_two_sided=True)


def lines_through(points: npt.NDArray[Any], height: float) -> npt.NDArray[np.float32]:
    """Lines (P - 1, 2, 3) through points (P, 2), at a height above the ground; none through a single point."""
    raised = np.concatenate([points, np.full((len(points), 1), height)], 1).astype(np.float32)
    return np.stack([raised[:-1], raised[1:]], 1)


def add_surroundings(server: viser.ViserServer) -> None:
    """Add what is the same for all visitors: sky, the meadow around the field, fences, the trees beyond."""
    scene = server.scene
    scene.set_background_image(np.full((8, 8, 3), SKY, np.uint8))
    scene.configure_fog(120.0, 600.0, color=SKY)
    scene.world_axes.visible = False
    scene.add_image(
        "/meadow", np.full((8, 8, 3), MEADOW_COLOUR, np.uint8), MEADOW_SIZE, MEADOW_SIZE, format="png",
        cast_shadow=False, receive_shadow=False, wxyz=FACING_UP, position=(MIDDLE, MIDDLE, -0.1),
    )  # fmt: skip
    scene.configure_default_lights(False)
    scene.configure_environment_map(None)
    scene.add_glb("/fences", _fence_glb(), cast_shadow=False, receive_shadow=False)
    scene.add_glb("/tree_line", _tree_line_glb(), cast_shadow=False, receive_shadow=False)
