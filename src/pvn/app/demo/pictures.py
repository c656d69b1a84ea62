"""Pictures of the demo as files: the ground, the predictions to lay over it, the pilot's maps, the drone's view."""

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
from pvn.world.layout import FIELD_SIZE, Layout

GROUND_MARGIN = 25.0
"""Width of the meadow drawn around the field, metres."""
GROUND_PX = 1024
MAP_PX = 212
"""Width of predictions: a quarter of a metre to a pixel."""
THINKING_PX = 106
"""Width of the pilot's maps, whose cells are three times as large as predictions' pixels."""
VIEW_PX = 256
"""Width of the drone's view, twice what the pilot gets."""


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


@functools.lru_cache(maxsize=16)
def ground_picture(layout: Layout) -> Bytes:
    """Grass, lakes, kerbs and shadows (H, W, 3) from above, north up, without landmarks.

    Cached, since most visitors look at the same field, and it takes a third of a second.
    """
    across = FIELD_SIZE + 2 * GROUND_MARGIN
    camera = from_above(-GROUND_MARGIN, -GROUND_MARGIN, across, GROUND_PX)
    camera[ORIGIN + 2] = 0.02  # below everything that stands there
    return show_pictures([layout], [camera], GROUND_PX, GROUND_PX)[0]


def predictions_file(maps: Maps, start: Sequence[float]) -> bytes | None:
    """Both predicted distributions as a PNG file, transparent where nothing is predicted, north up.

    start: x, y, yaw of the flight's start, field frame. None for maps without predictions.
    """
    if maps.probability is None:
        return None
    heat = prediction_heat(maps, start, MAP_PX)
    opacity = heat.max(-1, keepdims=True)
    # Painted over black, then divided by the opacity, since the browser multiplies by it.
    colours = overlay_predictions(np.zeros((MAP_PX, MAP_PX, 3)), heat) / np.maximum(opacity, 1e-3)
    return encode(as_bytes(np.concatenate([colours, 0.9 * opacity], -1)))


def map_files(moment: Moment, start: Sequence[float]) -> tuple[bytes, bytes]:
    """Semantic and grounding map as JPEG files, laid over the field, north up."""
    ranges, maps = map_ranges([moment]), moment.maps
    assert ranges is not None and maps is not None
    semantic = semantic_picture(maps, ranges, start, THINKING_PX)
    grounding = grounding_picture(maps, ranges, start, THINKING_PX)
    return encode(as_bytes(semantic)), encode(as_bytes(grounding))


def drone_view(layout: Layout, pose_world: Floats, camera: Camera) -> bytes:
    """What a drone at a pose (6,), field frame, sees, as a JPEG file."""
    return encode(views_from(layout, pose_world[None], camera, VIEW_PX)[0])


@functools.lru_cache(maxsize=32)
def start_view(layout: Layout, start: Pose) -> bytes:
    """What the drone sees at a start pose, as a JPEG file; cached like the ground."""
    config, (x, y, yaw) = SimulatorConfig(), start
    return drone_view(layout, np.array([x, y, config.altitude, 0, 0, yaw], np.float32), config.camera)
