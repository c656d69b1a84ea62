"""Frames and the pinhole camera: what goes there comes back."""

import math

import pytest
import torch

from pvn.geometry import (
    Camera,
    ground_points,
    pixel_rays,
    project,
    rotation_body_camera,
    rotation_world_body,
    wrap_angle,
)


def random_poses(count, seed=0):
    """Poses (B, 6) a flying drone has: anywhere in the field, tilted by up to 20 degrees."""
    generator = torch.Generator().manual_seed(seed)
    unit = torch.rand((count, 6), generator=generator, dtype=torch.float64)
    low = torch.tensor([5.0, 5.0, 2.0, -0.35, -0.35, -math.pi])
    high = torch.tensor([45.0, 45.0, 8.0, 0.35, 0.35, math.pi])
    return low + unit * (high - low)


def test_rotations_are_orthonormal_and_right_handed():
    rotation = rotation_world_body(random_poses(20)[:, 3:])
    assert torch.allclose(rotation @ rotation.transpose(1, 2), torch.eye(3, dtype=torch.float64))
    assert torch.allclose(torch.linalg.det(rotation), torch.ones(20, dtype=torch.float64))
    assert torch.linalg.det(rotation_body_camera(Camera())) == pytest.approx(1)


def test_yaw_turns_left_and_positive_pitch_is_nose_down():
    forward = torch.tensor([1.0, 0.0, 0.0])
    turned = rotation_world_body(torch.tensor([[0.0, 0.0, math.pi / 2], [0.0, 0.3, 0.0]])) @ forward
    assert torch.allclose(turned[0], torch.tensor([0.0, 1.0, 0.0]), atol=1e-6)
    assert turned[1, 2] < 0


def test_camera_looks_15_degrees_below_the_horizon():
    camera = Camera()
    middle = torch.tensor([[[camera.width / 2, camera.height / 2]]])
    ray = pixel_rays(middle, torch.zeros(1, 6), camera)[0, 0]
    assert torch.allclose(ray, torch.tensor([math.cos(camera.tilt), 0.0, -math.sin(camera.tilt)]), atol=1e-6)


def test_ground_points_project_back_to_their_pixels_for_random_tilted_poses():
    camera, poses = Camera(), random_poses(50)
    generator = torch.Generator().manual_seed(1)
    unit = torch.rand((50, 20, 2), generator=generator, dtype=torch.float64)
    pixels = unit * torch.tensor([camera.width, camera.height])
    ground = ground_points(pixels, poses, camera)
    is_ground = torch.isfinite(ground).all(-1)
    assert is_ground.float().mean() > 0.5
    lifted = torch.cat([ground, torch.zeros_like(ground[..., :1])], -1)
    back, depth = project(lifted, poses, camera)
    assert torch.allclose(back[is_ground], pixels[is_ground], atol=1e-6)
    assert (depth[is_ground] > 0).all()


def test_left_of_the_drone_is_left_in_the_picture():
    camera = Camera()
    pose = torch.tensor([[25.0, 25.0, 5.0, 0.0, 0.0, 0.0]])
    pixel, _ = project(torch.tensor([[[35.0, 28.0, 0.0]]]), pose, camera)
    assert pixel[0, 0, 0] < camera.width / 2


def test_wrapped_angles_are_the_same_direction():
    angle = torch.linspace(-20, 20, 101, dtype=torch.float64)
    wrapped = wrap_angle(angle)
    assert wrapped.abs().max() <= math.pi + 1e-12
    assert torch.allclose(wrapped.sin(), angle.sin()) and torch.allclose(wrapped.cos(), angle.cos())


@pytest.mark.parametrize("options", [{"width": 0}, {"horizontal_view": math.pi}, {"horizontal_view": 0.0}])
def test_impossible_cameras_are_refused(options):
    with pytest.raises(ValueError, match="expected"):
        Camera(**options)
