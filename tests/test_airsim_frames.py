"""Between AirSim's frames and ours: there and back, and the same as the matrices of `geometry`."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pvn.bridges.airsim.frames import (
    ORIGIN,
    angles,
    from_ned,
    multiply,
    pitched,
    rotate,
    swap_rates,
    swap_rotation,
    swap_vector,
    swap_yaw,
    to_ned,
    turned,
)
from pvn.bridges.airsim.images import camera_row
from pvn.bridges.airsim.pictures import resampled
from pvn.geometry import Camera, pixel_rays, rotation_world_body
from pvn.simulator.rendering import AHEAD, AHEAD_U, AHEAD_V

number = st.floats(-50, 50)
angle = st.floats(-1.4, 1.4)
place = st.tuples(number, number, number)
attitude = st.tuples(angle, angle, st.floats(-3.1, 3.1))

NED_FIELD = np.array([[0, 1, 0], [1, 0, 0], [0, 0, -1.0]])
OTHER_BODY = np.diag([1.0, -1, -1])


def rotation_of(roll_pitch_yaw):
    """Our quaternion of our angles."""
    roll, pitch, yaw = roll_pitch_yaw
    rolled = (math.cos(roll / 2), math.sin(roll / 2), 0.0, 0.0)
    return multiply(turned(yaw), multiply(pitched(pitch), rolled))


def matrix(rotation):
    return np.stack([rotate(rotation, axis) for axis in np.eye(3)], 1)


@given(place)
def test_positions_and_velocities_come_back_as_they_were(point):
    assert from_ned(to_ned(point)) == pytest.approx(point, abs=1e-12)
    assert swap_vector(swap_vector(point)) == point
    assert swap_rates(swap_rates(point)) == point


def test_north_is_x_east_is_y_and_down_is_z():
    x, y, z = ORIGIN
    assert to_ned(ORIGIN) == (0, 0, 0)
    assert to_ned((x, y + 2, z)) == (2, 0, 0) and to_ned((x + 3, y, z)) == (0, 3, 0) and to_ned((x, y, z + 1))[2] == -1


@given(attitude)
def test_angles_are_those_of_geometry(roll_pitch_yaw):
    assert angles(rotation_of(roll_pitch_yaw)) == pytest.approx(roll_pitch_yaw, abs=1e-9)
    ours = rotation_world_body(torch.tensor([roll_pitch_yaw], dtype=torch.float64))[0].numpy()
    assert matrix(rotation_of(roll_pitch_yaw)) == pytest.approx(ours, abs=1e-12)


@given(attitude)
def test_a_rotation_is_swapped_as_its_matrix_is_and_comes_back(roll_pitch_yaw):
    rotation = rotation_of(roll_pitch_yaw)
    assert swap_rotation(swap_rotation(rotation)) == pytest.approx(rotation, abs=1e-12)
    assert matrix(swap_rotation(rotation)) == pytest.approx(NED_FIELD @ matrix(rotation) @ OTHER_BODY, abs=1e-12)


@given(st.floats(-3.1, 3.1))
def test_a_heading_is_swapped_as_its_rotation_is(yaw):
    w, _, _, z = swap_rotation(turned(yaw))
    assert math.cos(2 * math.atan2(z, w) - swap_yaw(yaw)) == pytest.approx(1)


@given(place, attitude)
def test_a_camera_sees_along_the_rays_of_geometry(point, roll_pitch_yaw):
    camera = Camera()
    row = camera_row(point, multiply(rotation_of(roll_pitch_yaw), pitched(camera.tilt)), camera)
    pixel = np.array([17.5, 60.5])
    ray = row[AHEAD : AHEAD + 3] + pixel[0] * row[AHEAD_U : AHEAD_U + 3] + pixel[1] * row[AHEAD_V : AHEAD_V + 3]
    pose = torch.tensor([[*point, *roll_pitch_yaw]], dtype=torch.float64)
    expected = pixel_rays(torch.from_numpy(pixel)[None, None], pose, camera)[0, 0].numpy()
    assert ray / np.linalg.norm(ray) == pytest.approx(expected, abs=1e-5)


def test_a_picture_of_our_size_and_view_is_not_touched():
    image = np.random.default_rng(0).integers(0, 256, (72, 128, 3), np.uint8)
    assert (resampled(image, Camera().horizontal_view, Camera())[0].numpy() == image).all()


def test_a_larger_picture_is_shrunk_a_wider_view_cut_and_a_narrower_one_framed_in_black():
    image = np.full((144, 256, 3), 200, np.uint8)
    assert (resampled(image, math.radians(90), Camera()).numpy() == 200).all()
    wide = np.zeros((200, 400, 3), np.uint8)
    wide[:, 100:300] = 255  # the middle 90 degrees of 126.87, whose tangent is twice as far
    seen = resampled(wide, 2 * math.atan(2), Camera()).numpy()
    assert (seen[:, :, 2:-2].max() == 255) and (seen[30:40, 2:-2] == 255).all()
    narrow = resampled(image, 2 * math.atan(0.5), Camera()).numpy()[0, ..., 0]
    assert narrow[0].max() == 0 and narrow[:, 0].max() == 0 and narrow[36, 64] == 200
    assert (narrow > 100).mean() == pytest.approx(0.25, abs=0.02)
