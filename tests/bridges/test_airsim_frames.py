"""Conversions between AirSim's frames and ours: there and back, and in agreement with the matrices of `geometry`."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pvn.bridges.shared.frames import (
    NED_ORIGIN_WORLD,
    from_ned,
    multiply_quaternions,
    roll_pitch_yaw,
    rotate_vector,
    rotation_from_pitch,
    rotation_from_yaw,
    swap_rates,
    swap_rotation,
    swap_vector,
    swap_yaw,
    to_ned,
)
from pvn.bridges.shared.renderer import make_camera_row
from pvn.geometry import Camera, pixel_rays, rotation_world_body
from pvn.simulator.rendering import AHEAD, AHEAD_U, AHEAD_V

pytest.importorskip("cosysairsim", reason='needs the AirSim client: pip install "pvn-drone[airsim]"')

from pvn.bridges.airsim.field import resample_image

coordinates = st.floats(-50, 50)
angles = st.floats(-1.4, 1.4)
positions = st.tuples(coordinates, coordinates, coordinates)
attitudes = st.tuples(angles, angles, st.floats(-3.1, 3.1))

NED_FROM_FIELD = np.array([[0, 1, 0], [1, 0, 0], [0, 0, -1.0]])
AIRSIM_FROM_OUR_BODY = np.diag([1.0, -1, -1])


def rotation_from_angles(attitude):
    """Our quaternion of a roll, pitch and yaw."""
    roll, pitch, yaw = attitude
    rolled = (math.cos(roll / 2), math.sin(roll / 2), 0.0, 0.0)
    return multiply_quaternions(rotation_from_yaw(yaw), multiply_quaternions(rotation_from_pitch(pitch), rolled))


def matrix(rotation):
    return np.stack([rotate_vector(rotation, axis) for axis in np.eye(3)], 1)


@settings(deadline=None)
@given(positions)
def test_converting_a_vector_there_and_back_changes_nothing(point):
    assert from_ned(to_ned(point)) == pytest.approx(point, abs=1e-12)
    assert swap_vector(swap_vector(point)) == point
    assert swap_rates(swap_rates(point)) == point


def test_north_is_x_east_is_y_and_down_is_z():
    x, y, z = NED_ORIGIN_WORLD
    assert to_ned(NED_ORIGIN_WORLD) == (0, 0, 0)
    assert to_ned((x, y + 2, z)) == (2, 0, 0) and to_ned((x + 3, y, z)) == (0, 3, 0) and to_ned((x, y, z + 1))[2] == -1


@settings(deadline=None)
@given(attitudes)
def test_angles_agree_with_geometry(attitude):
    assert roll_pitch_yaw(rotation_from_angles(attitude)) == pytest.approx(attitude, abs=1e-9)
    ours = rotation_world_body(torch.tensor([attitude], dtype=torch.float64))[0].numpy()
    assert matrix(rotation_from_angles(attitude)) == pytest.approx(ours, abs=1e-12)


@settings(deadline=None)
@given(attitudes)
def test_a_quaternion_is_converted_like_its_matrix_and_back_again(attitude):
    rotation = rotation_from_angles(attitude)
    assert swap_rotation(swap_rotation(rotation)) == pytest.approx(rotation, abs=1e-12)
    expected = NED_FROM_FIELD @ matrix(rotation) @ AIRSIM_FROM_OUR_BODY
    assert matrix(swap_rotation(rotation)) == pytest.approx(expected, abs=1e-12)


@settings(deadline=None)
@given(st.floats(-3.1, 3.1))
def test_a_heading_is_converted_like_its_rotation(yaw):
    w, _, _, z = swap_rotation(rotation_from_yaw(yaw))
    assert math.cos(2 * math.atan2(z, w) - swap_yaw(yaw)) == pytest.approx(1)


@settings(deadline=None)
@given(positions, attitudes)
def test_a_camera_row_has_the_rays_of_geometry(position, attitude):
    camera = Camera()
    rotation = multiply_quaternions(rotation_from_angles(attitude), rotation_from_pitch(camera.tilt))
    row = make_camera_row(position, rotation, camera)
    pixel = np.array([17.5, 60.5])
    ray = row[AHEAD : AHEAD + 3] + pixel[0] * row[AHEAD_U : AHEAD_U + 3] + pixel[1] * row[AHEAD_V : AHEAD_V + 3]
    pose = torch.tensor([[*position, *attitude]], dtype=torch.float64)
    expected = pixel_rays(torch.from_numpy(pixel)[None, None], pose, camera)[0, 0].numpy()
    assert ray / np.linalg.norm(ray) == pytest.approx(expected, abs=1e-5)


def test_whoever_changes_a_camera_row_changes_nobody_elses():
    place = (25.0, 25.0, 5.0), rotation_from_pitch(0.3), Camera()
    row = make_camera_row(*place)
    before = row.copy()
    row[:] = 0.0
    assert (make_camera_row(*place) == before).all()


def test_an_image_of_our_own_size_and_view_stays_as_it_is():
    image = np.random.default_rng(0).integers(0, 256, (72, 128, 3), np.uint8)
    assert (resample_image(image, Camera().horizontal_view, Camera())[0].numpy() == image).all()


def test_a_larger_image_is_shrunk_a_wider_view_cropped_and_a_narrower_one_framed_in_black():
    image = np.full((144, 256, 3), 200, np.uint8)
    assert (resample_image(image, math.radians(90), Camera()).numpy() == 200).all()
    wide = np.zeros((200, 400, 3), np.uint8)
    wide[:, 100:300] = 255  # the middle 90 degrees of 126.87, half of whose tangent is 2
    resampled = resample_image(wide, 2 * math.atan(2), Camera()).numpy()
    assert (resampled[:, :, 2:-2].max() == 255) and (resampled[30:40, 2:-2] == 255).all()
    narrow = resample_image(image, 2 * math.atan(0.5), Camera()).numpy()[0, ..., 0]
    assert narrow[0].max() == 0 and narrow[:, 0].max() == 0 and narrow[36, 64] == 200
    assert (narrow > 100).mean() == pytest.approx(0.25, abs=0.02)
