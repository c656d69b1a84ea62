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

SCENE, DEPTH_PLANAR, DEPTH_PERSPECTIVE, DEPTH_VIS, DISPARITY, SEGMENTATION, NORMALS, INFRARED = range(8)
IMAGE_TYPES = {
    SCENE: "Scene",
    DEPTH_PLANAR: "DepthPlanar",
    DEPTH_PERSPECTIVE: "DepthPerspective",
    DEPTH_VIS: "DepthVis",
    DISPARITY: "DisparityNormalized",
    SEGMENTATION: "Segmentation",
    NORMALS: "SurfaceNormals",
    INFRARED: "Infrared",
}

SKY_DEPTH_M = 65504.0
"""AirSim's depth where there is nothing: the largest half-precision float."""
DEPTH_VIS_RANGE_M = 100.0
"""The depth shown as white in DepthVis."""
STEREO_BASELINE_M = 0.25
"""Distance between the two cameras whose disparity is computed, as between AirSim's front cameras."""
COLLISION_DISTANCE_M = 0.3
"""A surface this close to the drone's centre touches it: its arms are 0.17 m long, and its rotors reach further."""

Pixels = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


def segmentation_colours(object_ids: npt.ArrayLike) -> Pixels:
    """Red, green and blue (..., 3) of objects (...) in segmentation images; 0 is black."""
    ids = np.asarray(object_ids, np.int64)[..., None]
    return (ids * np.array([67, 151, 223]) % 256).astype(np.uint8)


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


RAY_CAMERA = Camera(width=2, height=2, tilt=0.0)
"""A face of a cube whose pixels are as wide as it is far away, so that ray directions are easily turned into pixels."""


def _cube_pixels(directions: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.int64], Floats]:
    """The face of the cube (R,) that directions (R, 3), field frame, go through, and the pixel (R, 2) of that face."""
    axes = np.array(
        [
            [rotate_vector(rotation, axis) for axis in ((1, 0, 0), (0, 1, 0), (0, 0, 1))]
            for rotation in _CUBE_FACE_ROTATIONS
        ]
    )
    parts = np.einsum("fad,rd->rfa", axes, directions)
    face = parts[:, :, 0].argmax(1)
    ahead, left, up = np.take_along_axis(parts, face[:, None, None], 1)[:, 0].T
    return face, np.stack([1 - left / ahead, 1 - up / ahead], -1).astype(np.float32)


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

    def cast_rays(self, position: Vector, directions: npt.NDArray[np.float64]) -> tuple[Floats, npt.NDArray[np.int16]]:
        """Distance (R,) along rays (R, 3) from a position, field frame, 0 for sky; and the landmark hit, or -1."""
        rows = np.stack([make_camera_row(position, rotation, RAY_CAMERA) for rotation in _CUBE_FACE_ROTATIONS])
        face, pixels = _cube_pixels(directions)
        depth, landmark = torch.empty(len(face)), torch.empty(len(face), dtype=torch.int16)
        cpu.measure_rays(
            torch.from_numpy(rows), self._fields, self._num_solids, torch.from_numpy(face), torch.from_numpy(pixels),
            depth, landmark,
        )  # fmt: skip
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


@dataclass(frozen=True, kw_only=True)
class View:
    """What one camera sees at one moment."""

    renderer: CameraRenderer
    camera_row: Floats
    """(18,), see `simulator.rendering`."""
    camera: Camera
    object_ids: tuple[int, ...]
    """Segmentation numbers of the sky, of all that is neither sky nor landmark, and of each landmark."""

    def depth(self) -> Floats:
        """Depth (H, W) along the rays, metres; SKY_DEPTH_M for sky."""
        depth, _ = self.renderer.measure_depth(self.camera_row[None], self.camera)
        return np.where(depth[0] > 0, depth[0], np.float32(SKY_DEPTH_M))

    def planar_depth(self) -> Floats:
        """Depth (H, W) along the optical axis, metres; SKY_DEPTH_M for sky."""
        along_ray = self.depth()
        return np.where(along_ray < SKY_DEPTH_M, along_ray * _axis_cosines(self.camera), along_ray)

    def disparity(self) -> Floats:
        """Disparity (H, W) of two cameras STEREO_BASELINE_M apart, as a fraction of the width; at most 1."""
        pixels = self.camera.focal_px * STEREO_BASELINE_M / self.planar_depth()
        return np.clip(pixels / self.camera.width, 0, 1).astype(np.float32)

    def segments(self) -> npt.NDArray[np.int64]:
        """Segmentation numbers (H, W)."""
        depth, landmark_index = self.renderer.measure_depth(self.camera_row[None], self.camera)
        place = np.where(landmark_index[0] >= 0, landmark_index[0] + 2, (depth[0] > 0).astype(np.int16))
        return np.array(self.object_ids, np.int64)[place]

    def normals(self) -> npt.NDArray[np.float64]:
        """Unit normals (H, W, 3) of what is seen, north east down, towards the camera; 0 for sky.

        From three rays through each pixel, so those that straddle an edge of an object are wrong.
        """
        rows = np.repeat(self.camera_row[None], 3, 0)
        offset = 0.1  # pixels
        rows[1, AHEAD : AHEAD + 3] += offset * self.camera_row[AHEAD_U : AHEAD_U + 3]
        rows[2, AHEAD : AHEAD + 3] += offset * self.camera_row[AHEAD_V : AHEAD_V + 3]
        depth, _ = self.renderer.measure_depth(rows, self.camera)
        u, v = (np.arange(size) + 0.5 for size in (self.camera.width, self.camera.height))
        wide = rows.astype(np.float64)[:, None, None]
        rays = (
            wide[..., AHEAD : AHEAD + 3]
            + u[:, None] * wide[..., AHEAD_U : AHEAD_U + 3]
            + v[:, None, None] * wide[..., AHEAD_V : AHEAD_V + 3]
        )
        points = rays / np.linalg.norm(rays, axis=-1, keepdims=True) * depth[..., None]
        normals = np.cross(points[1] - points[0], points[2] - points[0])
        normals *= -np.sign((normals * points[0]).sum(-1, keepdims=True))
        normals /= np.maximum(np.linalg.norm(normals, axis=-1, keepdims=True), 1e-12)
        return np.where(depth.min(0)[..., None] > 0, normals[..., [1, 0, 2]] * [1, 1, -1], 0.0)


def _render_floats(view: View, image_type: int) -> npt.NDArray[Any]:
    """An image (H, W) of floats: depths in metres, or values from 0 to 1."""
    if image_type == DEPTH_PLANAR:
        return view.planar_depth()
    if image_type == DEPTH_PERSPECTIVE:
        return view.depth()
    if image_type == DEPTH_VIS:
        return np.clip(view.planar_depth() / DEPTH_VIS_RANGE_M, 0, 1)
    if image_type == DISPARITY:
        return view.disparity()
    return _render_pixels(view, image_type)[..., 0] / 255  # as in AirSim, the first channel of the picture


def _render_pixels(view: View, image_type: int) -> Pixels:
    """An image of any type for people to look at (H, W, 3), red green blue."""
    if image_type == SCENE:
        return view.renderer.render_scene(view.camera_row, view.camera)
    if image_type == SEGMENTATION:
        return segmentation_colours(view.segments())
    if image_type == NORMALS:
        return np.round((view.normals() + 1) * 127.5).astype(np.uint8)
    if image_type == INFRARED:  # as in AirSim, which shows an object's number as its warmth
        grey = (view.segments() % 256).astype(np.uint8)
    else:
        grey = (255 * _render_floats(view, DISPARITY if image_type == DISPARITY else DEPTH_VIS)).astype(np.uint8)
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


def render_image(view: View, request: ImageRequest) -> dict[str, Any]:
    """What a camera sees, as AirSim sends it: a PNG file, raw pixels (blue green red), or floats.

    The field that is not used holds a single zero, as in AirSim, whose RPC library cannot send empty lists.
    """
    if request.is_float:
        floats = _render_floats(view, request.image_type)
        return {"image_data_uint8": b"\0", "image_data_float": floats.ravel().tolist()}
    pixels = _render_pixels(view, request.image_type)
    data = encode_png(pixels) if request.is_compressed else np.ascontiguousarray(pixels[..., ::-1]).tobytes()
    return {"image_data_uint8": data, "image_data_float": [0.0]}
