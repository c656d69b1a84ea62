"""Pictures as arrays: the field from above, the drone's view, and an agent's maps laid over the field.

Pictures of the field have north up and show it with a narrow margin. All are drawn for people, sharper than what an
agent gets.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.colors import to_rgb
from torch import Tensor
from torch.nn import functional

from pvn.geometry import Camera, MapGrid, to_map
from pvn.model.visitation import GOAL, TRAJECTORY
from pvn.simulator.cameras import from_above, on_drone, show_pictures
from pvn.viz import palette
from pvn.viz.flight_record import FlightRecord, Floats, Maps, Moment
from pvn.world.layout import FIELD_SIZE, Layout

MARGIN = 1.5
"""Width of the margin around the field, metres."""
REACH = (-MARGIN, FIELD_SIZE + MARGIN)
"""Lowest and highest x, and y, in a picture of the field; field frame, metres."""
EXTENT = REACH[1] - REACH[0]
"""Width of a picture of the field, metres."""
VIEW_WIDTH = 384
"""Width of a drone's view in a figure, pixels."""
MIN_BRIGHTNESS = 0.12
"""Brightness of the darkest cell that was seen; unseen cells are black."""
MAX_OPACITY = 0.92
"""Opacity of a prediction where its probability is highest; some ground always shows through."""

Picture = npt.NDArray[np.float64]
"""(H, W, 3): red, green, blue, 0 to 1."""
Bytes = npt.NDArray[np.uint8]
"""(H, W, 3): the same, 0 to 255."""
Heat = npt.NDArray[np.float64]
"""(H, W, 2): trajectory and goal distribution over the field, 0 to 1."""


def to_pixels(point: Sequence[float] | npt.NDArray[np.floating], size_px: int) -> tuple[float, float]:
    """Pixels right and down of a point (x, y, ...), field frame, in a picture of the field `size_px` wide."""
    scale = size_px / EXTENT
    return float(point[0] - REACH[0]) * scale, float(REACH[1] - point[1]) * scale


def as_bytes(picture: npt.NDArray[np.floating]) -> Bytes:
    """Values 0 to 1 as 0 to 255."""
    return np.round(picture * 255).clip(0, 255).astype(np.uint8)


@functools.lru_cache(maxsize=4)
def taken_from_above(layout: Layout, size_px: int) -> Bytes:
    """The field (size_px, size_px, 3) with its landmarks and their shadows; read-only.

    Cached, since all flights of a tour share a field, which takes half a second to draw.
    """
    camera = from_above(REACH[0], REACH[0], EXTENT, size_px)
    drawn = show_pictures([layout], [camera], size_px, size_px)[0]
    drawn.setflags(write=False)
    return drawn


def field_from_above(layout: Layout, size_px: int) -> Picture:
    """The same as numbers from 0 to 1, in an array of its own."""
    return taken_from_above(layout, size_px) / 255


def in_grey(above: Picture) -> Picture:
    """The field in dark grey, as ground for predictions in print."""
    return np.repeat(above.mean(-1, keepdims=True), 3, axis=-1) * 0.7


def in_muted_colours(above: Picture) -> Picture:
    """The field in weaker colours, as ground for predictions on a screen."""
    return (0.5 * above.mean(-1, keepdims=True) + 0.5 * above) * 0.9


def views_from(layout: Layout, poses_world: npt.NDArray[np.floating], camera: Camera, width: int = VIEW_WIDTH) -> Bytes:
    """Views (K, H, W, 3) from drones at poses (K, 6), field frame, `width` pixels wide."""
    enlarged = replace(camera, width=width, height=round(width * camera.height / camera.width))
    cameras = [on_drone(pose, enlarged) for pose in poses_world]
    return show_pictures([layout] * len(cameras), cameras, enlarged.width, enlarged.height)


def views_at(record: FlightRecord, steps: Sequence[int]) -> Bytes:
    """Views (K, H, W, 3) at some steps of a flight."""
    return views_from(record.task.layout, record.flown_world[list(steps)], record.camera)


def lay_over_field(maps: Tensor, origin: Sequence[float], grid: MapGrid, size_px: int) -> Picture:
    """A picture (H, W, C) of maps (C, S, S) that lie in the map frame of a pose `origin` (x, y, yaw)."""
    along = (torch.arange(size_px) + 0.5) / size_px * EXTENT + REACH[0]
    y, x = torch.meshgrid(along.flip(0), along, indexing="ij")
    points = to_map(torch.stack([x, y], -1).view(1, -1, 2), torch.tensor([list(origin)], dtype=torch.float32))
    row, column = grid.cells(points)[0].unbind(-1)
    where = (torch.stack([column, row], -1) + 0.5) / grid.size * 2 - 1
    where = where.view(1, size_px, size_px, 2)
    laid = functional.grid_sample(maps[None].float().cpu(), where, mode="bilinear", align_corners=False)
    return laid[0].permute(1, 2, 0).double().numpy()


@dataclass(frozen=True)
class ValueRange:
    """The range of each of a map's three components, outliers aside."""

    low: Floats
    """(3, 1, 1)."""
    high: Floats
    """(3, 1, 1), greater than low."""


@dataclass(frozen=True)
class MapRanges:
    """Ranges of both maps. With the ranges of a whole flight, a colour means the same in all its pictures."""

    semantic: ValueRange
    grounding: ValueRange


def _value_range(values: Sequence[Floats]) -> ValueRange:
    """The range of components, given as arrays (3, N) with different N."""
    together = np.concatenate(values, axis=1)
    if not together.size:  # nothing has been seen yet
        together = np.zeros((3, 1), np.float32)
    low, high = np.quantile(together, (0.02, 0.98), axis=1).astype(np.float32)
    return ValueRange(low[:, None, None], np.maximum(high, low + 1e-6)[:, None, None])


def map_ranges(moments: Sequence[Moment]) -> MapRanges | None:
    """Ranges of the maps over some moments of a flight, where cells were seen; None without maps."""
    maps = [moment.maps for moment in moments if moment.maps is not None]
    if not maps:
        return None
    return MapRanges(
        semantic=_value_range([each.semantic[:, each.is_known] for each in maps]),
        grounding=_value_range([each.grounding[:, each.is_known] for each in maps]),
    )


def paint_components(components: Floats, span: ValueRange, is_known: npt.NDArray[np.bool_]) -> Floats:
    """Colours (3, S, S), 0 to 1, for three components (3, S, S) of a map; black where nothing is known (S, S)."""
    scaled = ((components - span.low) / (span.high - span.low)).clip(0, 1)
    painted = MIN_BRIGHTNESS + (1 - MIN_BRIGHTNESS) * np.einsum("cst,cr->rst", scaled, palette.MAP_COMPONENTS)
    return (painted * is_known).astype(np.float32)


def _map_picture(maps: Maps, components: Floats, span: ValueRange, origin: Sequence[float], size_px: int) -> Picture:
    painted = torch.from_numpy(paint_components(components, span, maps.is_known))
    return lay_over_field(painted, origin, maps.grid, size_px).clip(0, 1)


def semantic_picture(maps: Maps, ranges: MapRanges, origin: Sequence[float], size_px: int) -> Picture:
    """Three components of the semantic map, laid over the field; origin: the start pose x, y, yaw."""
    return _map_picture(maps, maps.semantic, ranges.semantic, origin, size_px)


def grounding_picture(maps: Maps, ranges: MapRanges, origin: Sequence[float], size_px: int) -> Picture:
    """Three components of the grounding map, laid over the field; origin: the start pose x, y, yaw."""
    return _map_picture(maps, maps.grounding, ranges.grounding, origin, size_px)


def prediction_heat(maps: Maps, origin: Sequence[float], size_px: int) -> Heat:
    """Both distributions laid over the field, each divided by its maximum; origin: the start pose x, y, yaw.

    On a square-root scale, so that low probabilities show too.
    """
    assert maps.probability is not None
    laid = lay_over_field(torch.from_numpy(maps.probability), origin, maps.grid, size_px)
    return np.sqrt(laid / laid.max(axis=(0, 1)).clip(1e-12))


def overlay_predictions(ground: Picture, heat: Heat, channels: Sequence[int] = (TRAJECTORY, GOAL)) -> Picture:
    """A picture of the field with the chosen distributions painted over it."""
    picture = ground
    for channel in channels:
        opacity = MAX_OPACITY * heat[..., channel : channel + 1]
        picture = picture * (1 - opacity) + np.array(to_rgb(palette.PREDICTION_COLOURS[channel])) * opacity
    return picture.clip(0, 1)
