"""Frames, poses and the pinhole camera.

Field frame: origin at the south-west corner, x east, y north, z up, metres. Body frame: x forward, y left, z up.
Camera frame: x right, y down, z along the optical axis. A pose is (x, y, z, roll, pitch, yaw), field frame,
radians: yaw counter-clockwise from +x, then pitch about the body's left axis (positive: nose down), then roll
about its forward axis (positive: right side down).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


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


def rotation_world_body(roll_pitch_yaw: Tensor) -> Tensor:
    """Rotations (B, 3, 3), body to field frame, of angles (B, 3)."""
    roll, pitch, yaw = roll_pitch_yaw.unbind(-1)
    cr, sr, cp, sp = roll.cos(), roll.sin(), pitch.cos(), pitch.sin()
    cy, sy = yaw.cos(), yaw.sin()
    rows = (
        (cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr),
        (sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr),
        (-sp, cp * sr, cp * cr),
    )
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def rotation_body_camera(camera: Camera) -> Tensor:
    """Rotation (3, 3) float64, camera to body frame; its columns are the camera's right, down and forward."""
    cos, sin = math.cos(camera.tilt), math.sin(camera.tilt)
    rows = [[0.0, -sin, cos], [-1.0, 0.0, 0.0], [0.0, -cos, -sin]]
    return torch.tensor(rows, dtype=torch.float64)


def _rotation_world_camera(pose_world: Tensor, camera: Camera) -> Tensor:
    rotation = rotation_body_camera(camera).to(pose_world)
    return rotation_world_body(pose_world[:, 3:]) @ rotation


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
