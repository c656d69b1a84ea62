"""What cameras and rays anywhere in our field see, one field at a time, on the CPU."""

from __future__ import annotations

import functools
import math

import numpy as np
import numpy.typing as npt
import torch

from pvn.bridges.shared.frames import Quaternion, Vector, rotate_vector, rotation_from_pitch, rotation_from_yaw
from pvn.geometry import Camera
from pvn.simulator import cpu
from pvn.simulator.cameras import camera_row
from pvn.simulator.fields import num_solids, pack
from pvn.world.layout import Layout

COLLISION_DISTANCE_M = 0.3
"""A surface this close to the drone's centre touches it: its arms are 0.17 m long, and its rotors reach further."""

Pixels = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


def make_camera_row(position: Vector, rotation: Quaternion, camera: Camera) -> Floats:
    """A camera row (18,) of `simulator.rendering` for a camera with this position and rotation in the field frame.

    The rotation takes x to the camera's optical axis, y to its left and z to its up.
    """
    return _camera_row(position, rotation, camera).copy()


@functools.lru_cache(maxsize=256)  # clients ask for several pictures before the camera moves on
def _camera_row(position: Vector, rotation: Quaternion, camera: Camera) -> Floats:
    ahead, left, up = (np.array(rotate_vector(rotation, axis)) for axis in ((1, 0, 0), (0, 1, 0), (0, 0, 1)))
    return camera_row(position, (-left, -up, ahead), camera)


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
