"""The field from above, north up, as every picture shows it: the field and a narrow margin around it."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from pvn.geometry import MapGrid, to_map
from pvn.simulator.cameras import from_above
from pvn.simulator.display import show_pictures
from pvn.world.layout import FIELD_SIZE, Landmark, Layout

MARGIN = 1.5
"""Metres shown around the field."""
REACH = (-MARGIN, FIELD_SIZE + MARGIN)
"""What a picture shows along x and along y, field frame, metres."""
EXTENT = REACH[1] - REACH[0]
"""Metres across a picture."""

Picture = npt.NDArray[np.float64]
"""(H, W, 3): red, green, blue, 0 to 1."""
Bytes = npt.NDArray[np.uint8]
"""(H, W, 3): the same, 0 to 255."""


@functools.lru_cache(maxsize=4)
def _drawn_from_above(landmarks: tuple[Landmark, ...], lake: bytes, lake_cells: int, size_px: int) -> Bytes:
    layout = Layout(landmarks, np.frombuffer(lake, bool).reshape(lake_cells, lake_cells))
    camera = from_above(REACH[0], REACH[0], EXTENT, size_px)
    drawn = show_pictures([layout], [camera], size_px, size_px)[0]
    drawn.setflags(write=False)
    return drawn


def taken_from_above(layout: Layout, size_px: int) -> Bytes:
    """The field (size_px, size_px, 3) with its landmarks and their shadows.

    The last few are remembered: the flights of a tour are drawn on the same field, which takes half a second.
    """
    return _drawn_from_above(layout.landmarks, layout.lake.tobytes(), len(layout.lake), size_px)


def field_from_above(layout: Layout, size_px: int) -> Picture:
    """The same in numbers from 0 to 1; a copy, which may be changed."""
    return taken_from_above(layout, size_px) / 255


def lay_over_field(maps: Tensor, origin: Sequence[float], grid: MapGrid, size_px: int) -> Picture:
    """Maps (C, S, S) in the map frame of a pose (x, y, yaw) as a picture (H, W, C) of the field."""
    along = (torch.arange(size_px) + 0.5) / size_px * EXTENT + REACH[0]
    y, x = torch.meshgrid(along.flip(0), along, indexing="ij")
    points = to_map(torch.stack([x, y], -1).view(1, -1, 2), torch.tensor([list(origin)], dtype=torch.float32))
    row, column = grid.cells(points)[0].unbind(-1)
    where = (torch.stack([column, row], -1) + 0.5) / grid.size * 2 - 1
    where = where.view(1, size_px, size_px, 2)
    laid = functional.grid_sample(maps[None].float().cpu(), where, mode="bilinear", align_corners=False)
    return laid[0].permute(1, 2, 0).double().numpy()


def to_pixels(point: Sequence[float] | npt.NDArray[np.floating], size_px: int) -> tuple[float, float]:
    """Where a point (x, y, ...), field frame, metres, is in a picture: pixels to the right and down."""
    scale = size_px / EXTENT
    return float(point[0] - REACH[0]) * scale, float(REACH[1] - point[1]) * scale


def in_grey(above: Picture) -> Picture:
    """The field without colour and dim, as ground for predictions in print."""
    return np.repeat(above.mean(-1, keepdims=True), 3, axis=-1) * 0.7


def in_muted_colours(above: Picture) -> Picture:
    """The field in weaker colours, as ground for predictions on a screen."""
    return (0.5 * above.mean(-1, keepdims=True) + 0.5 * above) * 0.9


def as_bytes(picture: npt.NDArray[np.floating]) -> Bytes:
    """Values 0 to 1 as 0 to 255."""
    return np.round(picture * 255).clip(0, 255).astype(np.uint8)
