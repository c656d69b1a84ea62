"""Frames, poses, the pinhole camera and the map grid.

Field frame: origin at the south-west corner, x east, y north, z up, metres. Body frame: x forward, y left, z up.
Camera frame: x right, y down, z along the optical axis. A pose is (x, y, z, roll, pitch, yaw), field frame,
radians: yaw counter-clockwise from +x, then pitch about the body's left axis (positive: nose down), then roll
about its forward axis (positive: right side down). Map frame of a pose (x, y, yaw): origin on the ground below it, x
along its heading, y to its left, metres.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pvn.paths import Points

PATHS_AT_ONCE = 8192
"""Paths that are resampled at a time, to limit memory."""


@dataclass(frozen=True, kw_only=True)
class Camera:
    """A pinhole camera fixed to the body, looking forward and down."""

    width: int = 128
    """Pixels across."""
    height: int = 72
    """Pixels down."""
    horizontal_view: float = math.radians(90.0)
    """Horizontal field of view, radians."""
    tilt: float = math.radians(15.0)
    """How far the optical axis points below the body's forward axis, radians."""

    def __post_init__(self) -> None:
        if self.width < 1 or self.height < 1:
            raise ValueError(f"camera size: got {self.width} x {self.height}, expected at least 1 x 1 pixels")
        if not 0 < self.horizontal_view < math.pi:
            raise ValueError(f"horizontal_view: got {self.horizontal_view} rad, expected more than 0 and less than pi")

    @property
    def focal_px(self) -> float:
        """Focal length, pixels; the principal point is the picture's centre."""
        return self.width / 2 / math.tan(self.horizontal_view / 2)


def wrap_angle(angle: Tensor) -> Tensor:
    """The same angle in [-pi, pi), radians."""
    return torch.remainder(angle + math.pi, 2 * math.pi) - math.pi


def padded_paths(paths: Sequence[Points]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Points (N, L, 2) of N paths, padded with the last of each; and how many (N,) of them are not padding."""
    sizes = np.array([len(path) for path in paths])
    place = np.minimum(np.arange(sizes.max()), sizes[:, None] - 1)
    return np.concatenate(paths)[place + (sizes.cumsum() - sizes)[:, None]], sizes


def even_paths(paths: Sequence[Points], spacing: float) -> tuple[Tensor, Tensor]:
    """Points (N, P, 2) float32 at equal distances along N paths, at most `spacing` apart, padded with the last one.

    With them, how many (N,) of each path's points are not padding.
    """
    begins = range(0, len(paths), PATHS_AT_ONCE)
    parts = [_even_paths(paths[begin : begin + PATHS_AT_ONCE], spacing) for begin in begins]
    counts = torch.cat([count for _, count in parts])
    table = torch.empty((len(counts), int(counts.max()), 2))
    for rows, (points, _) in zip(torch.split(table, PATHS_AT_ONCE), parts, strict=True):
        rows[:, : points.shape[1]] = points
        rows[:, points.shape[1] :] = points[:, -1:]
    return table, counts


def _even_paths(paths: Sequence[Points], spacing: float) -> tuple[Tensor, Tensor]:
    """The same for paths that are few enough to be one table: a training corpus has 200,000."""
    given, _ = padded_paths(paths)  # (N, L, 2)
    legs = np.hypot(*np.diff(given, axis=1).transpose(2, 0, 1))
    travelled = np.concatenate([np.zeros((len(paths), 1)), legs.cumsum(1)], 1)
    length = travelled[:, -1:]
    last = np.maximum(np.ceil(length / spacing), 1.0).astype(np.int64)  # (N, 1): number of the last point
    distance = np.arange(last.max() + 1) * (length / last)  # (N, P)
    found = torch.searchsorted(torch.from_numpy(travelled), torch.from_numpy(distance), right=True).numpy() - 1
    leg = np.minimum(found, legs.shape[1] - 1)[..., None]  # (N, P, 1)
    along = distance[..., None] - np.take_along_axis(travelled[..., None], leg, 1)
    metres = np.take_along_axis(legs[..., None], leg, 1)
    begin, end = (np.take_along_axis(given, leg + after, 1) for after in (0, 1))
    slope = np.divide(end - begin, metres, out=np.zeros_like(begin), where=metres > 0)
    is_end = np.arange(last.max() + 1) >= last
    points = np.where(is_end[..., None], given[:, -1:], slope * along + begin)
    return torch.from_numpy(points.astype(np.float32)), torch.from_numpy(last[:, 0] + 1)


def rotation_world_body(roll_pitch_yaw: Tensor) -> Tensor:
    """Rotations (B, 3, 3), body to field frame, of angles (B, 3)."""
    (cr, cp, cy), (sr, sp, sy) = roll_pitch_yaw.cos().unbind(-1), roll_pitch_yaw.sin().unbind(-1)
    rows = (
        (cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr),
        (sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr),
        (-sp, cp * sr, cp * cr),
    )
    return torch.stack([entry for row in rows for entry in row], -1).view(-1, 3, 3)


def rotation_body_camera(camera: Camera) -> Tensor:
    """Rotation (3, 3) float64, camera to body frame; its columns are the camera's right, down and forward."""
    cos, sin = math.cos(camera.tilt), math.sin(camera.tilt)
    rows = [[0.0, -sin, cos], [-1.0, 0.0, 0.0], [0.0, -cos, -sin]]
    return torch.tensor(rows, dtype=torch.float64)


@functools.lru_cache(maxsize=64)
def _rotation_like(camera: Camera, dtype: torch.dtype, device: torch.device) -> Tensor:
    # Cached: copying it to a GPU for every call would stall the host.
    return rotation_body_camera(camera).to(device, dtype)


@functools.lru_cache(maxsize=64)
def _pixels_of_body(camera: Camera, device: torch.device) -> Tensor:
    """Matrix (3, 3) float64 that takes points of the body frame to pixels (u, v, 1) times their depth."""
    focal, half = camera.focal_px, (camera.width / 2, camera.height / 2)
    pixels = torch.tensor([[focal, 0, half[0]], [0, focal, half[1]], [0, 0, 1]], dtype=torch.float64)
    return (pixels @ rotation_body_camera(camera).T).to(device)


def _rotation_world_camera(pose_world: Tensor, camera: Camera) -> Tensor:
    return rotation_world_body(pose_world[:, 3:]) @ _rotation_like(camera, pose_world.dtype, pose_world.device)


def project(points_world: Tensor, pose_world: Tensor, camera: Camera) -> tuple[Tensor, Tensor]:
    """Pixels (B, P, 2) as (u right, v down) and depths (B, P) along the optical axis of points (B, P, 3).

    pose_world (B, 6) is the body's pose. Points at depth 0 or less are behind the camera.
    """
    offset = points_world - pose_world[:, None, :3]
    point_camera = offset @ _rotation_world_camera(pose_world, camera)  # R^T applied to rows
    depth = point_camera[..., 2]
    centre = torch.tensor([camera.width / 2, camera.height / 2]).to(pose_world)
    return point_camera[..., :2] / depth[..., None] * camera.focal_px + centre, depth


def pixel_rays(pixels: Tensor, pose_world: Tensor, camera: Camera) -> Tensor:
    """Unit directions (B, P, 3), field frame, of the rays through pixels (B, P, 2) from poses (B, 6)."""
    centre = torch.tensor([camera.width / 2, camera.height / 2]).to(pose_world)
    flat = (pixels - centre) / camera.focal_px
    ray_camera = torch.cat([flat, torch.ones_like(flat[..., :1])], -1)
    ray_world = ray_camera @ _rotation_world_camera(pose_world, camera).transpose(-1, -2)
    return ray_world / ray_world.norm(dim=-1, keepdim=True)


def ground_points(pixels: Tensor, pose_world: Tensor, camera: Camera) -> Tensor:
    """Points (B, P, 2) of the ground seen at pixels (B, P, 2) from poses (B, 6); NaN above the horizon."""
    rays = pixel_rays(pixels, pose_world, camera)
    height = pose_world[:, None, 2]
    distance = torch.where(rays[..., 2] < 0, -height / rays[..., 2], torch.nan)
    return pose_world[:, None, :2] + rays[..., :2] * distance[..., None]


@dataclass(frozen=True, kw_only=True)
class MapGrid:
    """A square of cells around the origin of a map frame. Columns run forward (+x), rows to the right (-y)."""

    size: int = 64
    """Cells along an edge."""
    cell: float = 50.0 / 32
    """Edge of a cell, metres: 32 across the field, so the map covers 50 m ahead, behind and to either side."""

    def places(self) -> Tensor:
        """Ground points (size * size, 2) float32 of the cells' centres, map frame, row by row."""
        along = (torch.arange(self.size) - (self.size - 1) / 2) * self.cell
        y, x = torch.meshgrid(-along, along, indexing="ij")
        return torch.stack([x, y], -1).flatten(0, 1)

    def cells(self, points_map: Tensor) -> Tensor:
        """Row and column (..., 2) of points (..., 2), map frame; whole numbers at the cells' centres."""
        x, y = points_map.unbind(-1)
        middle = (self.size - 1) / 2
        return torch.stack([middle - y / self.cell, middle + x / self.cell], -1)


def to_map(points_world: Tensor, origin: Tensor) -> Tensor:
    """Points (B, P, 2) in the map frames of poses (B, 3) from points (B, P, 2) of the field frame."""
    off = points_world - origin[:, None, :2]
    cos, sin = origin[:, None, 2].cos(), origin[:, None, 2].sin()
    return torch.stack([off[..., 0] * cos + off[..., 1] * sin, off[..., 1] * cos - off[..., 0] * sin], -1)


def pose_in_map(pose_world: Tensor, origin: Tensor) -> Tensor:
    """Poses (B, 3), x, y, yaw, in the map frames of origins (B, 3), of poses (B, 6), field frame."""
    place = to_map(pose_world[:, None, :2], origin)[:, 0]
    return torch.cat([place, wrap_angle(pose_world[:, 5:] - origin[:, 2:])], -1)


def restarted(pose_world: Tensor, begin: Tensor, to: Tensor) -> Tensor:
    """Poses (K, 6), field frame, as if their flights had started at `to` instead of `begin`, (K, 3) x, y, yaw."""
    turn = to[:, 2] - begin[:, 2]
    off = (pose_world[:, :2] - begin[:, :2])[:, None]
    turned = to_map(off, torch.stack([torch.zeros_like(turn), torch.zeros_like(turn), -turn], -1))[:, 0]
    return torch.cat([to[:, :2] + turned, pose_world[:, 2:5], wrap_angle(pose_world[:, 5:] + turn[:, None])], -1)


def ground_homography(pose_world: Tensor, origin: Tensor, camera: Camera) -> Tensor:
    """Matrices (B, 3, 3) that take ground points (x, y, 1) of map frames to pixels (u, v, 1) times their depth.

    pose_world (B, 6): the bodies' poses; origin (B, 3): the poses x, y, yaw whose map frames these are.
    """
    pose_world, origin = pose_world.double(), origin.double()
    cos, sin, zero = origin[:, 2].cos(), origin[:, 2].sin(), torch.zeros_like(origin[:, 2])
    x, y = (origin[:, :2] - pose_world[:, :2]).unbind(-1)
    # From (x, y, 1) of the map frame to offsets from the body, field frame. Few calls, because every step makes them.
    plane = torch.stack([cos, -sin, x, sin, cos, y, zero, zero, -pose_world[:, 2]], -1).view(-1, 3, 3)
    in_body = rotation_world_body(pose_world[:, 3:]).transpose(-1, -2) @ plane
    return _pixels_of_body(camera, pose_world.device) @ in_body


def overhead_homography(origin: Tensor, side: float, margin: float, size_px: int) -> Tensor:
    """Matrices (B, 3, 3) that take ground points (x, y, 1) of map frames to pixels (u, v, 1) of views straight down.

    origin (B, 3): the poses x, y, yaw whose map frames these are, in a square field of `side` metres; the views are
    size_px pixels wide, north up, and show `margin` metres around the field.
    """
    scale = size_px / (side + 2 * margin)
    x, y, cos, sin = origin[:, 0], origin[:, 1], origin[:, 2].cos(), origin[:, 2].sin()
    zero, one = torch.zeros_like(x), torch.ones_like(x)
    rows = [
        [cos * scale, -sin * scale, (x + margin) * scale],
        [-sin * scale, -cos * scale, (side + margin - y) * scale],
        [zero, zero, one],
    ]
    return torch.stack([torch.stack(row, -1) for row in rows], 1)
