"""Pictures of the demo: the ground, heat on it, and a sheet of what is on the pilot's maps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from pvn.model.visitation import GOAL, TRAJECTORY
from pvn.simulator.cameras import from_above, take_pictures
from pvn.simulator.rendering import ORIGIN
from pvn.viz.flight_record import Maps, Moment
from pvn.viz.map_pictures import Picture, as_bytes, grounding_picture, heat, map_ranges, semantic_picture
from pvn.viz.paper_figures import REACH
from pvn.world.layout import FIELD_SIZE, Layout

Bytes = npt.NDArray[np.uint8]

GROUND_MARGIN = 25.0
"""Metres of meadow drawn around the field."""
GROUND_PX = 1200
HEAT_PX = 212
"""A quarter of a metre each."""
CELL_PX, CAPTION_PX, EDGE_PX = 212, 24, 4
TITLES = ("semantic map", "grounding map", "will fly here", "will stop here")
COLOURS = ((1.0, 0.16, 0.12), (0.15, 1.0, 0.35))
"""Of the trajectory's and the goal's distribution: the paper's red and green, the green three times as bright, so that
people to whom they are one colour tell them apart."""


def ground_picture(layout: Layout) -> Bytes:
    """Grass, lakes, kerbs and shadows (H, W, 3) from above, north up, by the simulator's camera; no landmarks."""
    across = FIELD_SIZE + 2 * GROUND_MARGIN
    camera = from_above(-GROUND_MARGIN, -GROUND_MARGIN, across, GROUND_PX)
    camera[ORIGIN + 2] = 0.02  # below everything that stands there
    return take_pictures([layout], [camera], GROUND_PX, GROUND_PX)[0]


def heat_picture(maps: Maps, start: Sequence[float]) -> Bytes | None:
    """Both distributions (H, W, 4) as red and green that can be seen through, north up; None where there are none."""
    if maps.probability is None:
        return None
    shares = heat(maps, start, HEAT_PX)
    picture = np.zeros((HEAT_PX, HEAT_PX, 4))
    for channel in (TRAJECTORY, GOAL):
        share = shares[..., channel : channel + 1]
        picture[..., :3] = picture[..., :3] * (1 - share) + np.array(COLOURS[channel]) * share
    opacity = shares.max(-1)
    picture[..., :3] /= np.maximum(opacity, 1e-3)[..., None]
    picture[..., 3] = 0.9 * opacity
    return as_bytes(picture)


def _glowing(above: Picture, share: npt.NDArray[np.float64], channel: int) -> Picture:
    """One distribution (H, W, 1), 0 to 1, over a dim grey picture of the field."""
    return above.mean(-1, keepdims=True) * 0.55 * (1 - share) + np.array(COLOURS[channel]) * share


def _cells(above: Picture, moment: Moment, start: Sequence[float]) -> list[Picture | None]:
    maps, ranges = moment.maps, map_ranges([moment])
    if maps is None or ranges is None:
        return [None] * len(TITLES)
    semantic = semantic_picture(maps, ranges[0], start, HEAT_PX)
    grounding = grounding_picture(maps, ranges[1], start, HEAT_PX)
    if maps.probability is None:
        return [semantic, grounding, None, None]
    shares = heat(maps, start, HEAT_PX)
    return [semantic, grounding, *(_glowing(above, shares[..., [place]], place) for place in (TRAJECTORY, GOAL))]


def maps_sheet(above: Picture, moment: Moment, start: Sequence[float], place: Sequence[float]) -> Bytes:
    """Semantic and grounding map, trajectory's and goal's distribution, two by two, with captions; north up.

    above: the field (HEAT_PX, HEAT_PX, 3), 0 to 1; place: x, y of the drone, field frame, shown as a dot.
    """
    sheet = Image.new("RGB", (2 * CELL_PX + EDGE_PX, 2 * (CELL_PX + CAPTION_PX)), "white")
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(15)
    for index, (title, cell) in enumerate(zip(TITLES, _cells(above, moment, start), strict=True)):
        left, top = index % 2 * (CELL_PX + EDGE_PX), index // 2 * (CELL_PX + CAPTION_PX)
        draw.text((left + 2, top + 3), title, fill="#222222", font=font)
        top += CAPTION_PX
        if cell is None:
            draw.rectangle((left, top, left + CELL_PX - 1, top + CELL_PX - 1), fill="#eceff1")
            draw.text((left + CELL_PX / 2, top + CELL_PX / 2), "this pilot has none", "#777777", font, anchor="mm")
            continue
        sheet.paste(Image.fromarray(as_bytes(cell)), (left, top))
        scale = CELL_PX / (REACH[1] - REACH[0])
        x, y = left + (place[0] - REACH[0]) * scale, top + (REACH[1] - place[1]) * scale
        draw.ellipse((x - 4, y - 4, x + 4, y + 4), fill="white", outline="black")
    return np.asarray(sheet)
