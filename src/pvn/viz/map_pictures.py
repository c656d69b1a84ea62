"""An agent's maps as pictures of the field from above; for figures, films, recordings and the demo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.colors import to_rgb

from pvn.model.visitation import GOAL, TRAJECTORY
from pvn.viz import palette
from pvn.viz.field_views import Picture, lay_over_field
from pvn.viz.flight_record import Floats, Maps, Moment

MIN_BRIGHTNESS = 0.12
"""Of a cell that was seen; black is for cells that never were."""
MAX_OPACITY = 0.92
"""Where the probability is highest; a little of the ground always shows through."""

Heat = npt.NDArray[np.float64]
"""(H, W, 2): trajectory and goal distribution over the field, 0 to 1."""


@dataclass(frozen=True)
class ValueRange:
    """The values between which the three components of a map lie, outliers aside."""

    low: Floats
    """(3, 1, 1)."""
    high: Floats
    """(3, 1, 1), greater than low."""


@dataclass(frozen=True)
class MapRanges:
    """Ranges of both maps; with those of a whole flight a colour means the same in all its pictures."""

    semantic: ValueRange
    grounding: ValueRange


def _value_range(values: Sequence[Floats]) -> ValueRange:
    """The range of components (3, N), each N of its own."""
    together = np.concatenate(values, axis=1)
    if not together.size:  # nothing has been seen yet
        together = np.zeros((3, 1), np.float32)
    low, high = np.quantile(together, (0.02, 0.98), axis=1).astype(np.float32)
    return ValueRange(low[:, None, None], np.maximum(high, low + 1e-6)[:, None, None])


def map_ranges(moments: Sequence[Moment]) -> MapRanges | None:
    """Ranges of the maps over some moments of a flight, where they are known; None without maps."""
    maps = [moment.maps for moment in moments if moment.maps is not None]
    if not maps:
        return None
    return MapRanges(
        semantic=_value_range([each.semantic[:, each.is_known] for each in maps]),
        grounding=_value_range([each.grounding[:, each.is_known] for each in maps]),
    )


def paint_components(components: Floats, span: ValueRange, is_known: npt.NDArray[np.bool_]) -> Floats:
    """Three components (3, S, S) of a map as colours (3, S, S), 0 to 1; black where nothing is known (S, S)."""
    shares = ((components - span.low) / (span.high - span.low)).clip(0, 1)
    painted = MIN_BRIGHTNESS + (1 - MIN_BRIGHTNESS) * np.einsum("cst,cr->rst", shares, palette.MAP_COMPONENTS)
    return (painted * is_known).astype(np.float32)


def _picture(maps: Maps, components: Floats, span: ValueRange, origin: Sequence[float], size_px: int) -> Picture:
    painted = torch.from_numpy(paint_components(components, span, maps.is_known))
    return lay_over_field(painted, origin, maps.grid, size_px).clip(0, 1)


def semantic_picture(maps: Maps, ranges: MapRanges, origin: Sequence[float], size_px: int) -> Picture:
    """Three components of the semantic map as they lie on the field; origin: the start pose x, y, yaw."""
    return _picture(maps, maps.semantic, ranges.semantic, origin, size_px)


def grounding_picture(maps: Maps, ranges: MapRanges, origin: Sequence[float], size_px: int) -> Picture:
    """Three components of the grounding map as they lie on the field; origin: the start pose x, y, yaw."""
    return _picture(maps, maps.grounding, ranges.grounding, origin, size_px)


def prediction_heat(maps: Maps, origin: Sequence[float], size_px: int) -> Heat:
    """Both distributions laid over the field, each relative to its greatest value; origin: the start pose x, y, yaw.

    On a square-root scale, so that low probabilities show too.
    """
    assert maps.probability is not None
    laid = lay_over_field(torch.from_numpy(maps.probability), origin, maps.grid, size_px)
    return np.sqrt(laid / laid.max(axis=(0, 1)).clip(1e-12))


def overlay_predictions(ground: Picture, heat: Heat, channels: Sequence[int] = (TRAJECTORY, GOAL)) -> Picture:
    """A picture of the field with the distributions of some channels over it."""
    picture = ground
    for channel in channels:
        share = MAX_OPACITY * heat[..., channel : channel + 1]
        picture = picture * (1 - share) + np.array(to_rgb(palette.PREDICTION_COLOURS[channel])) * share
    return picture.clip(0, 1)
