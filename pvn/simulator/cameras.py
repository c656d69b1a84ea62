"""Cameras placed by hand and the pictures they take, for films, figures and the demo."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from pvn.simulator import cpu
from pvn.simulator.fields import num_solids, pack
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
    down = np.cross(ahead, right)
    focal_px = width / 2 / math.tan(horizontal_view / 2)
    row = np.zeros(NUM_CAMERA_COLUMNS, np.float32)
    row[ORIGIN : ORIGIN + 3] = position
    row[AHEAD : AHEAD + 3] = ahead - (right * width + down * height) / 2 / focal_px
    row[AHEAD_U : AHEAD_U + 3] = right / focal_px
    row[AHEAD_V : AHEAD_V + 3] = down / focal_px
    return row


def from_above(west: float, south: float, metres_across: float, pixels_across: int) -> Array:
    """An orthographic camera (18,) looking straight down on a square of the field, north up."""
    step = metres_across / pixels_across
    row = np.zeros(NUM_CAMERA_COLUMNS, np.float32)
    row[ORIGIN : ORIGIN + 3] = west, south + metres_across, 60.0
    row[ORIGIN_U] = step
    row[ORIGIN_V + 1] = -step
    row[AHEAD + 2] = -1.0
    return row


def take_pictures(
    layouts: Sequence[Layout], cameras: Sequence[Array], width: int, height: int
) -> npt.NDArray[np.uint8]:
    """Full-quality pictures (N, H, W, 3) uint8 of N layouts, each by its own camera (18,)."""
    image = torch.empty((len(layouts), height, width, 3), dtype=torch.uint8)
    rows = torch.from_numpy(np.stack(cameras))
    cpu.paint(rows, pack(layouts), torch.arange(len(layouts)), num_solids(layouts), True, image)
    return image.numpy()
