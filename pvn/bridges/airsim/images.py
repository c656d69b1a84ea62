"""What AirSim's cameras see of our field, in AirSim's encodings."""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pvn.bridges.airsim.frames import Quaternion, Vector, rotate_vector, rotation_from_pitch, rotation_from_yaw
from pvn.geometry import Camera
from pvn.simulator import cpu
from pvn.simulator.fields import num_solids, pack
from pvn.simulator.rendering import AHEAD, AHEAD_U, AHEAD_V, NUM_CAMERA_COLUMNS, ORIGIN
from pvn.world.layout import Layout

SCENE, DEPTH_PLANAR, DEPTH_PERSPECTIVE, DEPTH_VIS, SEGMENTATION = 0, 1, 2, 3, 5
IMAGE_TYPES = {
    SCENE: "Scene",
    DEPTH_PLANAR: "DepthPlanar",
    DEPTH_PERSPECTIVE: "DepthPerspective",
    DEPTH_VIS: "DepthVis",
    SEGMENTATION: "Segmentation",
}

SKY_DEPTH_M = 65504.0
"""AirSim's depth where there is nothing: the largest half-precision float."""
DEPTH_VIS_RANGE_M = 100.0
"""The depth shown as white in DepthVis."""
COLLISION_DISTANCE_M = 0.3
"""A surface this close to the drone's centre touches it: its arms are 0.17 m long, and its rotors reach further."""

Pixels = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


def segmentation_colour(object_id: int) -> tuple[int, int, int]:
    """Red, green and blue of an object in segmentation images; 0, which is everything but landmarks, is black."""
    return 67 * object_id % 256, 151 * object_id % 256, 223 * object_id % 256


SEGMENTATION_PALETTE = np.array([segmentation_colour(object_id) for object_id in range(256)], np.uint8)


def make_camera_row(position: Vector, rotation: Quaternion, camera: Camera) -> Floats:
    """A camera row (18,) of `simulator.rendering` for a camera with this position and rotation in the field frame.

    The rotation takes x to the camera's optical axis, y to its left and z to its up.
    """
    ahead, left, up = (np.array(rotate_vector(rotation, axis)) for axis in ((1, 0, 0), (0, 1, 0), (0, 0, 1)))
    row = np.zeros(NUM_CAMERA_COLUMNS, np.float32)
    row[ORIGIN : ORIGIN + 3] = position
    row[AHEAD : AHEAD + 3] = ahead + (left * camera.width + up * camera.height) / 2 / camera.focal_px
    row[AHEAD_U : AHEAD_U + 3] = -left / camera.focal_px
    row[AHEAD_V : AHEAD_V + 3] = -up / camera.focal_px
    return row


CUBE_FACE_CAMERA = Camera(width=8, height=8, tilt=0.0)
"""Sees one face of a cube around the drone; six of them see everything around it."""
_CUBE_FACE_ROTATIONS = [
    *(rotation_from_yaw(yaw) for yaw in (0.0, math.pi / 2, math.pi, -math.pi / 2)),
    *(rotation_from_pitch(pitch) for pitch in (math.pi / 2, -math.pi / 2)),
]
_FIRST_FIELD = torch.zeros(1, dtype=torch.int64)


class CameraRenderer:
    """Renders one field. Nothing changes after construction, so several threads may use it at once."""

    def __init__(self, layout: Layout, *, is_full: bool = True) -> None:
        """is_full: 2x2 rays per pixel and sun shadows."""
        self.layout, self.is_full = layout, is_full
        self._fields, self._num_solids = pack([layout]), num_solids([layout])

    def render_scene(self, camera_row: Floats, camera: Camera) -> Pixels:
        """What a camera (18,) sees (H, W, 3), red green blue."""
        image = torch.empty((1, camera.height, camera.width, 3), dtype=torch.uint8)
        cpu.paint(torch.from_numpy(camera_row[None]), self._fields, _FIRST_FIELD, self._num_solids, self.is_full, image)
        return image[0].numpy()

    def measure_depth(self, camera_rows: Floats, camera: Camera) -> tuple[Floats, npt.NDArray[np.int16]]:
        """Depth (K, H, W) along the rays of cameras (K, 18), 0 for sky; and the index of the landmark seen, or -1."""
        shape = (len(camera_rows), camera.height, camera.width)
        depth, landmark = torch.empty(shape), torch.empty(shape, dtype=torch.int16)
        field_index = torch.zeros(len(camera_rows), dtype=torch.int64)
        cpu.measure_depth(torch.from_numpy(camera_rows), self._fields, field_index, self._num_solids, depth, landmark)
        return depth.numpy(), landmark.numpy()

    def find_collision(self, position: Vector) -> int | None:
        """The index of the nearest landmark within COLLISION_DISTANCE_M of a position, field frame, if any."""
        x, y, _ = position
        # Solids fill at most half of a landmark's clearance radius.
        if all(
            math.hypot(landmark.x - x, landmark.y - y) > 0.6 * landmark.radius + COLLISION_DISTANCE_M
            for landmark in self.layout.landmarks
        ):
            return None
        rows = [make_camera_row(position, rotation, CUBE_FACE_CAMERA) for rotation in _CUBE_FACE_ROTATIONS]
        depth, landmark_index = self.measure_depth(np.stack(rows), CUBE_FACE_CAMERA)
        distance = np.where((landmark_index >= 0) & (depth > 0), depth, np.inf)
        nearest = np.unravel_index(distance.argmin(), distance.shape)
        return int(landmark_index[nearest]) if distance[nearest] < COLLISION_DISTANCE_M else None


def _axis_cosines(camera: Camera) -> Floats:
    """Cosines (H, W) of the angles between the optical axis and the rays through the pixels."""
    u = (np.arange(camera.width) + 0.5 - camera.width / 2) / camera.focal_px
    v = (np.arange(camera.height) + 0.5 - camera.height / 2) / camera.focal_px
    return (1 / np.sqrt(1 + u[None, :] ** 2 + v[:, None] ** 2)).astype(np.float32)


def encode_png(pixels: Pixels) -> bytes:
    """A PNG file of pixels (H, W, 3), red green blue."""
    height, width, _ = pixels.shape
    lines = np.zeros((height, 1 + 3 * width), np.uint8)  # each line begins with its filter type; 0 is none
    lines[:, 1:] = pixels.reshape(height, -1)

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines.tobytes(), 1)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _render_depth(renderer: CameraRenderer, camera_row: Floats, camera: Camera, image_type: int) -> Floats:
    """Depth (H, W), metres, of one of AirSim's depth types; DepthVis as a fraction of DEPTH_VIS_RANGE_M."""
    depth, _ = renderer.measure_depth(camera_row[None], camera)
    along_ray = np.where(depth[0] > 0, depth[0], np.float32(SKY_DEPTH_M))
    if image_type == DEPTH_PERSPECTIVE:
        return along_ray
    planar = np.where(depth[0] > 0, along_ray * _axis_cosines(camera), np.float32(SKY_DEPTH_M))
    return planar if image_type == DEPTH_PLANAR else np.clip(planar / DEPTH_VIS_RANGE_M, 0, 1)


def _render_pixels(renderer: CameraRenderer, camera_row: Floats, camera: Camera, image_type: int) -> Pixels:
    """An image of any type for people to look at (H, W, 3), red green blue."""
    if image_type == SCENE:
        return renderer.render_scene(camera_row, camera)
    if image_type == SEGMENTATION:
        _, landmark_index = renderer.measure_depth(camera_row[None], camera)
        return SEGMENTATION_PALETTE[landmark_index[0] + 1]
    grey = (255 * _render_depth(renderer, camera_row, camera, DEPTH_VIS)).astype(np.uint8)
    return np.repeat(grey[..., None], 3, axis=-1)


@dataclass(frozen=True)
class ImageRequest:
    """What kind of image a client wants."""

    image_type: int
    """One of IMAGE_TYPES."""
    is_float: bool
    """Depth in metres instead of bytes."""
    is_compressed: bool
    """A PNG file instead of raw pixels."""


def render_image(renderer: CameraRenderer, camera_row: Floats, camera: Camera, request: ImageRequest) -> dict[str, Any]:
    """What a camera (18,) sees, as AirSim sends it: a PNG file, raw pixels (blue green red), or floats.

    The field that is not used holds a single zero, as in AirSim, whose RPC library cannot send empty lists.
    """
    if request.is_float:
        depth = _render_depth(renderer, camera_row, camera, request.image_type)
        return {"image_data_uint8": b"\0", "image_data_float": depth.ravel().tolist()}
    pixels = _render_pixels(renderer, camera_row, camera, request.image_type)
    data = encode_png(pixels) if request.is_compressed else np.ascontiguousarray(pixels[..., ::-1]).tobytes()
    return {"image_data_uint8": data, "image_data_float": [0.0]}
