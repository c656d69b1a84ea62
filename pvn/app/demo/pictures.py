"""Pictures of the demo: the ground, the predictions to lay over it, and a sheet with the pilot's maps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from pvn.model.visitation import GOAL, TRAJECTORY
from pvn.simulator.cameras import from_above, take_pictures
from pvn.simulator.rendering import ORIGIN
from pvn.viz import palette
from pvn.viz.field_views import Bytes, Picture, as_bytes, in_grey, to_pixels
from pvn.viz.flight_record import Maps, Moment
from pvn.viz.map_pictures import (
    grounding_picture,
    map_ranges,
    overlay_predictions,
    prediction_heat,
    semantic_picture,
)
from pvn.world.layout import FIELD_SIZE, Layout

GROUND_MARGIN = 25.0
"""Metres of meadow drawn around the field."""
GROUND_PX = 1200
MAP_PX = 212
"""A quarter of a metre each."""
CAPTION_PX, GAP_PX = 24, 4
TITLES = ("semantic map", "grounding map", *palette.PREDICTION_LABELS)


def ground_picture(layout: Layout) -> Bytes:
    """Grass, lakes, kerbs and shadows (H, W, 3) from above, north up, by the simulator's camera; no landmarks."""
    across = FIELD_SIZE + 2 * GROUND_MARGIN
    camera = from_above(-GROUND_MARGIN, -GROUND_MARGIN, across, GROUND_PX)
    camera[ORIGIN + 2] = 0.02  # below everything that stands there
    return take_pictures([layout], [camera], GROUND_PX, GROUND_PX)[0]


def predictions_picture(maps: Maps, start: Sequence[float]) -> Bytes | None:
    """Both predicted distributions (MAP_PX, MAP_PX, 4), transparent where nothing is predicted, north up.

    start: x, y, yaw of the flight's start, field frame. None for maps without predictions.
    """
    if maps.probability is None:
        return None
    heat = prediction_heat(maps, start, MAP_PX)
    opacity = heat.max(-1, keepdims=True)
    # Painted over black, then divided by the opacity, for the colours are blended with the ground once more.
    colours = overlay_predictions(np.zeros((MAP_PX, MAP_PX, 3)), heat) / np.maximum(opacity, 1e-3)
    return as_bytes(np.concatenate([colours, 0.9 * opacity], -1))


def _map_pictures(field_picture: Picture, moment: Moment, start: Sequence[float]) -> list[Picture | None]:
    """Semantic map, grounding map, predicted trajectory and predicted goal; None for what the pilot does not have."""
    maps, ranges = moment.maps, map_ranges([moment])
    if maps is None or ranges is None:
        return [None] * len(TITLES)
    own = [semantic_picture(maps, ranges, start, MAP_PX), grounding_picture(maps, ranges, start, MAP_PX)]
    if maps.probability is None:
        return [*own, None, None]
    heat, ground = prediction_heat(maps, start, MAP_PX), in_grey(field_picture)
    return [*own, *(overlay_predictions(ground, heat, [channel]) for channel in (TRAJECTORY, GOAL))]


def maps_sheet(field_picture: Picture, moment: Moment, start: Sequence[float], position: Sequence[float]) -> Bytes:
    """The pilot's maps and predictions, two by two, with captions; north up.

    field_picture: the field from above (MAP_PX, MAP_PX, 3), 0 to 1. start: x, y, yaw of the flight's start, and
    position: x, y of the drone, shown as a dot; field frame.
    """
    sheet = Image.new("RGB", (2 * MAP_PX + GAP_PX, 2 * (MAP_PX + CAPTION_PX)), "white")
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(15)
    for index, (title, picture) in enumerate(zip(TITLES, _map_pictures(field_picture, moment, start), strict=True)):
        left, top = index % 2 * (MAP_PX + GAP_PX), index // 2 * (MAP_PX + CAPTION_PX)
        draw.text((left + 2, top + 3), title, fill="#222222", font=font)
        top += CAPTION_PX
        if picture is None:
            draw.rectangle((left, top, left + MAP_PX - 1, top + MAP_PX - 1), fill="#eceff1")
            middle = (left + MAP_PX / 2, top + MAP_PX / 2)
            draw.text(middle, "not used by this pilot", "#777777", font, anchor="mm")
            continue
        sheet.paste(Image.fromarray(as_bytes(picture)), (left, top))
        right, down = to_pixels(position, MAP_PX)
        x, y = left + right, top + down
        draw.ellipse((x - 4, y - 4, x + 4, y + 4), fill="white", outline="black")
    return np.asarray(sheet)
