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

from pvn.bridges.airsim.frames import Quaternion, Vector, pitched, rotate
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

SKY_M = 65504.0
"""AirSim's depth where there is nothing: the largest half-precision float."""
VISIBLE_M = 100.0
"""Depth that is white in DepthVis."""
TOUCH_M = 0.3
"""A surface so near the drone's centre touches it: its arms are 0.17 m long, its rotors a little longer."""

Pixels = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


def segmentation_colour(number: int) -> tuple[int, int, int]:
    """Red, green, blue of an object's number; 0, which is all but landmarks, is black."""
    return 67 * number % 256, 151 * number % 256, 223 * number % 256


PALETTE = np.array([segmentation_colour(number) for number in range(256)], np.uint8)


def camera_row(position: Vector, rotation: Quaternion, camera: Camera) -> Floats:
    """A camera (18,) at a place in the field; x of its rotation is the optical axis, y its left, z its up."""
    ahead, left, up = (np.array(rotate(rotation, axis)) for axis in ((1, 0, 0), (0, 1, 0), (0, 0, 1)))
    row = np.zeros(NUM_CAMERA_COLUMNS, np.float32)
    row[ORIGIN : ORIGIN + 3] = position
    row[AHEAD : AHEAD + 3] = ahead + (left * camera.width + up * camera.height) / 2 / camera.focal_px
    row[AHEAD_U : AHEAD_U + 3] = -left / camera.focal_px
    row[AHEAD_V : AHEAD_V + 3] = -up / camera.focal_px
    return row


AROUND = Camera(width=8, height=8, tilt=0.0)
"""One face of a cube of views."""
_FACES = [
    *((math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)) for yaw in (0.0, math.pi / 2, math.pi, -math.pi / 2)),
    *(pitched(angle) for angle in (math.pi / 2, -math.pi / 2)),
]


class Eye:
    """Sees one field. Its functions touch nothing that changes, so threads may call them at once."""

    def __init__(self, layout: Layout, *, is_full: bool = True) -> None:
        """is_full: 2x2 rays a pixel and sun shadows."""
        self.layout, self.is_full = layout, is_full
        self._fields, self._num_solids = pack([layout]), num_solids([layout])

    def picture(self, row: Floats, camera: Camera) -> Pixels:
        """Picture (H, W, 3), red green blue."""
        image = torch.empty((1, camera.height, camera.width, 3), dtype=torch.uint8)
        cpu.paint(torch.from_numpy(row[None]), self._fields, _FIRST, self._num_solids, self.is_full, image)
        return image[0].numpy()

    def measure(self, rows: Floats, camera: Camera) -> tuple[Floats, npt.NDArray[np.int16]]:
        """Depth (K, H, W) along the rays of cameras (K, 18), 0 for sky; and the landmark seen there, -1 for none."""
        shape = (len(rows), camera.height, camera.width)
        depth, seen = torch.empty(shape), torch.empty(shape, dtype=torch.int16)
        index = torch.zeros(len(rows), dtype=torch.int64)
        cpu.measure_depth(torch.from_numpy(rows), self._fields, index, self._num_solids, depth, seen)
        return depth.numpy(), seen.numpy()

    def touched(self, position: Vector) -> int | None:
        """Which landmark is within TOUCH_M of a place, if any."""
        x, y, _ = position
        # Solids fill at most half of a landmark's clearance radius.
        if all(math.hypot(mark.x - x, mark.y - y) > 0.6 * mark.radius + TOUCH_M for mark in self.layout.landmarks):
            return None
        depth, seen = self.measure(np.stack([camera_row(position, face, AROUND) for face in _FACES]), AROUND)
        near = np.where((seen >= 0) & (depth > 0), depth, np.inf)
        nearest = np.unravel_index(near.argmin(), near.shape)
        return int(seen[nearest]) if near[nearest] < TOUCH_M else None


_FIRST = torch.zeros(1, dtype=torch.int64)


def _along_axis(camera: Camera) -> Floats:
    """Cosines (H, W) between the optical axis and each pixel's ray."""
    u = (np.arange(camera.width) + 0.5 - camera.width / 2) / camera.focal_px
    v = (np.arange(camera.height) + 0.5 - camera.height / 2) / camera.focal_px
    return (1 / np.sqrt(1 + u[None, :] ** 2 + v[:, None] ** 2)).astype(np.float32)


def png(pixels: Pixels) -> bytes:
    """A PNG file of pixels (H, W, 3), red green blue."""
    height, width, _ = pixels.shape
    lines = np.zeros((height, 1 + 3 * width), np.uint8)  # each line begins with its filter, 0: none
    lines[:, 1:] = pixels.reshape(height, -1)

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines.tobytes(), 1)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def depth_image(eye: Eye, row: Floats, camera: Camera, image_type: int) -> Floats:
    """Depth (H, W), metres, of a depth type of AirSim's; DepthVis as shares of VISIBLE_M."""
    depth, _ = eye.measure(row[None], camera)
    along_ray = np.where(depth[0] > 0, depth[0], np.float32(SKY_M))
    if image_type == DEPTH_PERSPECTIVE:
        return along_ray
    planar = np.where(depth[0] > 0, along_ray * _along_axis(camera), np.float32(SKY_M))
    return planar if image_type == DEPTH_PLANAR else np.clip(planar / VISIBLE_M, 0, 1)


def _visible(eye: Eye, row: Floats, camera: Camera, image_type: int) -> Pixels:
    """The image as people look at it (H, W, 3), red green blue."""
    if image_type == SCENE:
        return eye.picture(row, camera)
    if image_type == SEGMENTATION:
        _, seen = eye.measure(row[None], camera)
        return PALETTE[seen[0] + 1]
    grey = (255 * depth_image(eye, row, camera, DEPTH_VIS)).astype(np.uint8)
    return np.repeat(grey[..., None], 3, axis=-1)


@dataclass(frozen=True)
class Asked:
    """An image a client wants."""

    image_type: int
    """One of IMAGE_TYPES."""
    is_float: bool
    """Depth in metres instead of bytes."""
    is_compressed: bool
    """A PNG file instead of lines."""


def encoded(eye: Eye, row: Floats, camera: Camera, asked: Asked) -> dict[str, Any]:
    """The image of a camera (18,) as AirSim sends it: PNG, or lines of blue green red, or floats.

    What is not sent is one zero, as in AirSim, whose RPC library cannot send empty lists.
    """
    if asked.is_float:
        depth = depth_image(eye, row, camera, asked.image_type)
        return {"image_data_uint8": b"\0", "image_data_float": depth.ravel().tolist()}
    pixels = _visible(eye, row, camera, asked.image_type)
    data = png(pixels) if asked.is_compressed else np.ascontiguousarray(pixels[..., ::-1]).tobytes()
    return {"image_data_uint8": data, "image_data_float": [0.0]}
