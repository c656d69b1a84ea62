"""What is on a pilot's maps, as pictures of the field from above; shared by recordings, films and summaries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from pvn.model.visitation import GOAL, TRAJECTORY
from pvn.simulator.cameras import from_above, take_pictures
from pvn.viz.flight_record import Floats, Maps, Moment, Recorded
from pvn.viz.paper_figures import REACH, lay_over_field
from pvn.world.layout import Layout

EXPECTED_PATH, EXPECTED_GOAL = (0.96, 0.22, 0.72), (1.0, 0.72, 0.0)
"""Magenta and amber: unlike the paper's red and green, told apart by colour-blind people too."""

Picture = npt.NDArray[np.float64]
"""(H, W, 3): red, green, blue, 0 to 1, of the field from above, north up."""
Range = tuple[Floats, Floats]


def picture_of_field(layout: Layout, size_px: int) -> Picture:
    """The field and a margin around it."""
    camera = from_above(REACH[0], REACH[0], REACH[1] - REACH[0], size_px)
    return np.asarray(take_pictures([layout], [camera], size_px, size_px)[0]) / 255


def heat(maps: Maps, origin: Sequence[float], size_px: int) -> npt.NDArray[np.float64]:
    """Both distributions laid over the field (H, W, 2), 0 to 1: each relative to its own greatest value.

    The root of it, which shows where little is expected, too.
    """
    assert maps.probability is not None
    laid = lay_over_field(torch.from_numpy(maps.probability), origin, maps.grid, size_px)
    return np.sqrt(laid / laid.max(axis=(0, 1)).clip(1e-12))


def blend_heat(above: Picture, share: npt.NDArray[np.float64]) -> Picture:
    """The field, dimmed, under both distributions (H, W, 2)."""
    grey = above.mean(-1, keepdims=True)
    picture = (0.5 * grey + 0.5 * above) * 0.9
    for channel, colour in ((TRAJECTORY, EXPECTED_PATH), (GOAL, EXPECTED_GOAL)):
        amount = 0.92 * share[..., channel : channel + 1]
        picture = picture * (1 - amount) + np.array(colour) * amount
    return picture


def _range(values: Sequence[Floats]) -> Range:
    """Lowest and highest (3, 1, 1) of maps (3, N), but for a few outliers."""
    low, high = np.quantile(np.concatenate(values, axis=1), (0.02, 0.98), axis=1).astype(np.float32)
    return low[:, None, None], np.maximum(high, low + 1e-6)[:, None, None]


def map_ranges(moments: Sequence[Moment]) -> tuple[Range, Range] | None:
    """Ranges of the semantic and the grounding map over a flight, so that a colour means the same in all its pictures.

    None without maps.
    """
    maps = [moment.maps for moment in moments if moment.maps is not None]
    if not maps:
        return None
    semantic = _range([each.semantic[:, each.is_known] for each in maps])
    return semantic, _range([each.grounding.reshape(3, -1) for each in maps])


def _colours(maps: Maps, values: Floats, span: Range, origin: Sequence[float], size_px: int) -> Picture:
    shown = ((values - span[0]) / (span[1] - span[0])).clip(0, 1) * maps.is_known
    return lay_over_field(torch.from_numpy(shown), origin, maps.grid, size_px).clip(0, 1)


def semantic_picture(maps: Maps, span: Range, origin: Sequence[float], size_px: int) -> Picture:
    """The first three channels of the semantic map as red, green and blue; black where nothing was seen."""
    return _colours(maps, maps.semantic, span, origin, size_px)


def grounding_picture(maps: Maps, span: Range, origin: Sequence[float], size_px: int) -> Picture:
    """How the instruction's words light up, as red, green and blue; black where nothing was seen."""
    return _colours(maps, maps.grounding, span, origin, size_px)


def as_bytes(picture: npt.NDArray[np.floating]) -> npt.NDArray[np.uint8]:
    """Values 0 to 1 as 0 to 255."""
    return np.round(picture * 255).clip(0, 255).astype(np.uint8)


def speeds(recorded: Recorded) -> Floats:
    """Speed (T + 1,) over the ground before each step and after the last, m/s."""
    return np.hypot(*recorded.log.velocity_world[0, :, :2].numpy().T).astype(np.float32)
