"""Pictures of the demo: the ground, the predictions to lay over it, the pilot's maps, and the view at the start."""

from __future__ import annotations

import functools
import io
from collections.abc import Sequence

import numpy as np
from PIL import Image

from pvn.app.demo.flight_setup import Pose
from pvn.geometry import Camera
from pvn.simulator.cameras import from_above, show_pictures
from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.rendering import ORIGIN
from pvn.viz.flight_record import Floats, Maps, Moment
from pvn.viz.pictures import (
    Bytes,
    as_bytes,
    grounding_picture,
    map_ranges,
    overlay_predictions,
    prediction_heat,
    semantic_picture,
    views_from,
)
from pvn.world.layout import FIELD_SIZE, Landmark, Layout

GROUND_MARGIN = 25.0
"""Metres of meadow drawn around the field."""
GROUND_PX = 1024
MAP_PX = 212
"""Across predictions, a quarter of a metre each."""
THINKING_PX = 106
"""Across the pilot's maps, whose cells are three times as large."""
VIEW_PX = 256
"""Across what the drone sees, twice what the pilot gets."""


@functools.lru_cache(maxsize=16)
def _ground_picture(landmarks: tuple[Landmark, ...], lake: bytes, lake_cells: int) -> Bytes:
    layout = Layout(landmarks, np.frombuffer(lake, bool).reshape(lake_cells, lake_cells))
    across = FIELD_SIZE + 2 * GROUND_MARGIN
    camera = from_above(-GROUND_MARGIN, -GROUND_MARGIN, across, GROUND_PX)
    camera[ORIGIN + 2] = 0.02  # below everything that stands there
    return show_pictures([layout], [camera], GROUND_PX, GROUND_PX)[0]


def ground_picture(layout: Layout) -> Bytes:
    """Grass, lakes, kerbs and shadows (H, W, 3) from above, north up, drawn for people; no landmarks.

    The last few are remembered: most visitors look at the same field, and it takes a third of a second.
    """
    return _ground_picture(layout.landmarks, layout.lake.tobytes(), len(layout.lake))


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


def map_pictures(maps: Maps, moment: Moment, start: Sequence[float]) -> tuple[Bytes, Bytes]:
    """Semantic and grounding map (THINKING_PX, THINKING_PX, 3) as they lie on the field, north up."""
    ranges = map_ranges([moment])
    assert ranges is not None
    drawn = (picture(maps, ranges, start, THINKING_PX) for picture in (semantic_picture, grounding_picture))
    semantic, grounding = map(as_bytes, drawn)
    return semantic, grounding


def drone_view(layout: Layout, pose_world: Floats, camera: Camera) -> bytes:
    """What a drone at a pose (6,), field frame, sees by its camera, drawn for people: a JPEG file."""
    return encode(views_from(layout, pose_world[None], camera, VIEW_PX)[0])


@functools.lru_cache(maxsize=32)
def _start_view(landmarks: tuple[Landmark, ...], lake: bytes, lake_cells: int, start: Pose) -> bytes:
    layout, config = Layout(landmarks, np.frombuffer(lake, bool).reshape(lake_cells, lake_cells)), SimulatorConfig()
    x, y, yaw = start
    return drone_view(layout, np.array([x, y, config.altitude, 0, 0, yaw], np.float32), config.camera)


def start_view(layout: Layout, start: Pose) -> bytes:
    """What the drone sees at a start pose, as a JPEG file; the last few are remembered."""
    return _start_view(layout.landmarks, layout.lake.tobytes(), len(layout.lake), start)


def encode(picture: Bytes) -> bytes:
    """A picture (H, W, 3) as a JPEG file, or one with opacity (H, W, 4) as a PNG file."""
    file = io.BytesIO()
    image = Image.fromarray(picture)
    if picture.shape[-1] == 4:
        image.save(file, "PNG", compress_level=1)
    else:
        image.save(file, "JPEG", quality=88)
    return file.getvalue()


def decode(content: bytes) -> Bytes:
    """The picture (H, W, 3 or 4) in a JPEG or PNG file."""
    return np.asarray(Image.open(io.BytesIO(content)))
