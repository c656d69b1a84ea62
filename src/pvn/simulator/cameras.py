"""Cameras placed by hand, and the pictures they take: as agents see a field, and finer, for people."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from pvn.geometry import Camera, rotation_body_camera, rotation_world_body
from pvn.simulator import cpu
from pvn.simulator.fields import num_solids, pack, textures
from pvn.simulator.rays import Fields
from pvn.simulator.rendering import (
    AHEAD,
    AHEAD_U,
    AHEAD_V,
    NUM_CAMERA_COLUMNS,
    ORIGIN,
    ORIGIN_U,
    ORIGIN_V,
)
from pvn.world.layout import Layout

Array = npt.NDArray[np.float32]
Pictures = npt.NDArray[np.uint8]
GRASS_CONTRAST = 1.8
"""How much softened grass differs from its mean, compared with a plain mean of nine cells."""


def camera_row(position: npt.ArrayLike, right_down_ahead: Sequence[npt.NDArray[np.floating]], camera: Camera) -> Array:
    """A pinhole camera (18,) at a position (3,) with three unit vectors (3,), field frame.

    The pictures of drones come from `rendering.point_camera`, which does the same for whole batches.
    """
    right, down, ahead = right_down_ahead
    row = np.zeros(NUM_CAMERA_COLUMNS, np.float32)
    row[ORIGIN : ORIGIN + 3] = position
    row[AHEAD : AHEAD + 3] = ahead - (right * camera.width + down * camera.height) / 2 / camera.focal_px
    row[AHEAD_U : AHEAD_U + 3] = right / camera.focal_px
    row[AHEAD_V : AHEAD_V + 3] = down / camera.focal_px
    return row


def looking_at(
    position: tuple[float, float, float],
    target: tuple[float, float, float],
    width: int,
    height: int,
    horizontal_view: float = math.radians(90.0),
) -> Array:
    """A level pinhole camera (18,) at `position` with `target` in the middle of the picture, field frame."""
    ahead = np.subtract(target, position)
    ahead = ahead / np.linalg.norm(ahead)
    right = np.array([ahead[1], -ahead[0], 0.0])
    right /= np.linalg.norm(right)
    camera = Camera(width=width, height=height, horizontal_view=horizontal_view)
    return camera_row(position, (right, np.cross(ahead, right), ahead), camera)


def on_drone(pose_world: npt.NDArray[np.floating], camera: Camera) -> Array:
    """The camera (18,) of a drone at a pose (6,), field frame."""
    world_body = rotation_world_body(torch.from_numpy(np.array([pose_world[3:]], np.float64)))[0]
    return camera_row(pose_world[:3], tuple((world_body @ rotation_body_camera(camera)).numpy().T), camera)


def from_above(west: float, south: float, metres_across: float, pixels_across: int) -> Array:
    """An orthographic camera (18,) looking straight down on a square of the field, north up."""
    step = metres_across / pixels_across
    row = np.zeros(NUM_CAMERA_COLUMNS, np.float32)
    row[ORIGIN : ORIGIN + 3] = west, south + metres_across, 60.0
    row[ORIGIN_U] = step
    row[ORIGIN_V + 1] = -step
    row[AHEAD + 2] = -1.0
    return row


def _take(fields: Fields, layouts: Sequence[Layout], cameras: Sequence[Array], width: int, height: int) -> Pictures:
    image = torch.empty((len(layouts), height, width, 3), dtype=torch.uint8)
    rows = torch.from_numpy(np.stack(cameras))
    cpu.paint(rows, fields, torch.arange(len(layouts)), num_solids(layouts), True, image)
    return image.numpy()


def take_pictures(layouts: Sequence[Layout], cameras: Sequence[Array], width: int, height: int) -> Pictures:
    """Full-quality pictures (N, H, W, 3) uint8 of N layouts, as agents see them, each by its own camera (18,)."""
    return _take(pack(layouts), layouts, cameras, width, height)


@functools.cache
def _soft_textures() -> npt.NDArray[np.uint8]:
    """The agents' textures, but each cell of the white one has the mean of nine, with its contrast raised again."""
    white, smooth = textures()
    mean = sum(np.roll(white.astype(float), shift, (0, 1)) for shift in itertools.product((-1, 0, 1), repeat=2)) / 9
    return np.stack([(127.5 + GRASS_CONTRAST * (mean - 127.5)).clip(0, 255).astype(np.uint8), smooth])


def show_pictures(layouts: Sequence[Layout], cameras: Sequence[Array], width: int, height: int) -> Pictures:
    """Pictures for people (N, H, W, 3) uint8 of N layouts, each by its own camera (18,).

    The agents' pictures with four times as many rays, and with softer grass, whose cells are too plain in large ones.
    """
    pictures = np.empty((len(layouts), height, width, 3), np.uint8)
    for picture, layout, camera in zip(pictures, layouts, cameras, strict=True):
        finer = camera.copy()
        for column in (ORIGIN_U, ORIGIN_V, AHEAD_U, AHEAD_V):
            finer[column : column + 3] /= 2
        fields = pack([layout])._replace(noise=_soft_textures())
        (large,) = _take(fields, [layout], [finer], 2 * width, 2 * height)
        picture[:] = large.reshape(height, 2, width, 2, 3).mean((1, 3)).round()
    return pictures
