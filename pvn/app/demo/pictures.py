"""Pictures of the demo: the ground, heat on it, and a sheet of what is on the pilot's maps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageDraw, ImageFont

from pvn.app.evolution import GOAL_COLOUR, REACH, TRAJECTORY_COLOUR, lay_over_field
from pvn.app.recorded import Floats, Maps
from pvn.model.visitation import GOAL, TRAJECTORY
from pvn.simulator.cameras import from_above, take_pictures
from pvn.simulator.rendering import ORIGIN
from pvn.world.layout import FIELD_SIZE, Layout

Bytes = npt.NDArray[np.uint8]

GROUND_MARGIN = 25.0
"""Metres of meadow drawn around the field."""
GROUND_PX = 1200
HEAT_PX = 212
"""A quarter of a metre each."""
CELL_PX, CAPTION_PX, EDGE_PX = 212, 24, 4
TITLES = ("semantic map", "grounding map", "will fly here", "will stop here")
COLOURS = (TRAJECTORY_COLOUR, GOAL_COLOUR)
"""Of the trajectory's and the goal's distribution."""


def ground_picture(layout: Layout) -> Bytes:
    """Grass, lakes, kerbs and shadows (H, W, 3) from above, north up, by the simulator's camera; no landmarks."""
    across = FIELD_SIZE + 2 * GROUND_MARGIN
    camera = from_above(-GROUND_MARGIN, -GROUND_MARGIN, across, GROUND_PX)
    camera[ORIGIN + 2] = 0.02  # below everything that stands there
    return take_pictures([layout], [camera], GROUND_PX, GROUND_PX)[0]


def field_picture(layout: Layout) -> Floats:
    """The field with everything in it (HEAT_PX, HEAT_PX, 3) from above, north up, 0 to 1."""
    camera = from_above(REACH[0], REACH[0], REACH[1] - REACH[0], HEAT_PX)
    return take_pictures([layout], [camera], HEAT_PX, HEAT_PX)[0].astype(np.float32) / 255


def _laid(maps: Floats, grid_maps: Maps, start: Sequence[float]) -> Floats:
    laid = lay_over_field(torch.from_numpy(maps), start, grid_maps.grid, HEAT_PX)
    return laid.astype(np.float32)


def _share(laid: Floats) -> Floats:
    """A distribution (H, W) as brightness, 0 to 1; the root shows where little is expected, too."""
    return np.sqrt(laid / max(float(laid.max()), 1e-12))


def heat_picture(maps: Maps, start: Sequence[float]) -> Bytes | None:
    """Both distributions (H, W, 4) as red and green that can be seen through, north up; None where there are none."""
    if maps.probability is None:
        return None
    laid = _laid(maps.probability, maps, start)
    shares = [_share(laid[..., channel]) for channel in (TRAJECTORY, GOAL)]
    picture = np.zeros((HEAT_PX, HEAT_PX, 4), np.float32)
    for share, colour in zip(shares, COLOURS, strict=True):
        picture[..., :3] = picture[..., :3] * (1 - share[..., None]) + np.array(colour, np.float32) * share[..., None]
    opacity = np.maximum(*shares)
    picture[..., :3] /= np.maximum(opacity, 1e-3)[..., None]
    picture[..., 3] = 0.9 * opacity
    return np.asarray(picture.clip(0, 1) * 255, np.uint8)


def _stretch(channels: Floats, is_known: npt.NDArray[np.bool_]) -> Floats:
    """Channels (3, S, S) from 0 to 1, black where nothing was seen."""
    seen = channels[:, is_known]
    if not seen.size:
        return np.zeros_like(channels)
    low, high = (np.quantile(seen, share, axis=1)[:, None, None] for share in (0.02, 0.98))
    return (((channels - low) / np.maximum(high - low, 1e-6)).clip(0, 1) * is_known).astype(np.float32)


def _glowing(above: Floats, laid: Floats, channel: int) -> Floats:
    """One distribution over a dim grey picture of the field (H, W, 3)."""
    share = _share(laid[..., channel])[..., None]
    return above.mean(-1, keepdims=True) * 0.55 * (1 - share) + np.array(COLOURS[channel], np.float32) * share


def _cells(above: Floats, maps: Maps | None, start: Sequence[float]) -> list[Floats | None]:
    if maps is None:
        return [None] * len(TITLES)
    semantic = _laid(_stretch(maps.semantic, maps.is_known), maps, start)
    grounding = _laid(_stretch(maps.grounding, maps.is_known), maps, start)
    if maps.probability is None:
        return [semantic, grounding, None, None]
    laid = _laid(maps.probability, maps, start)
    return [semantic, grounding, _glowing(above, laid, TRAJECTORY), _glowing(above, laid, GOAL)]


def maps_sheet(above: Floats, maps: Maps | None, start: Sequence[float], place: Sequence[float]) -> Bytes:
    """Semantic and grounding map, trajectory's and goal's distribution, two by two, with captions; north up.

    above: `field_picture`; place: x, y of the drone, field frame, shown as a dot.
    """
    sheet = Image.new("RGB", (2 * CELL_PX + EDGE_PX, 2 * (CELL_PX + CAPTION_PX)), "white")
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(15)
    for index, (title, cell) in enumerate(zip(TITLES, _cells(above, maps, start), strict=True)):
        left, top = index % 2 * (CELL_PX + EDGE_PX), index // 2 * (CELL_PX + CAPTION_PX)
        draw.text((left + 2, top + 3), title, fill="#222222", font=font)
        top += CAPTION_PX
        if cell is None:
            draw.rectangle((left, top, left + CELL_PX - 1, top + CELL_PX - 1), fill="#eceff1")
            draw.text((left + CELL_PX / 2, top + CELL_PX / 2), "this pilot has none", "#777777", font, anchor="mm")
            continue
        sheet.paste(Image.fromarray(np.asarray(cell.clip(0, 1) * 255, np.uint8)), (left, top))
        scale = CELL_PX / (REACH[1] - REACH[0])
        x, y = left + (place[0] - REACH[0]) * scale, top + (REACH[1] - place[1]) * scale
        draw.ellipse((x - 4, y - 4, x + 4, y + 4), fill="white", outline="black")
    return np.asarray(sheet)
