"""Frames, the pinhole camera, map cells and points along a path: what is converted there comes back."""

import math

import numba
import numpy as np
import pytest
import torch

from pvn.geometry import (
    Camera,
    MapGrid,
    even_paths,
    ground_homography,
    ground_points,
    padded_paths,
    pixel_rays,
    project,
    rotation_body_camera,
    rotation_world_body,
    to_map,
    wrap_angle,
)
from pvn.paths import distances_along, points_along, wrap_radians


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


def test_ahead_of_a_pose_is_x_of_its_map_frame_and_left_is_y():
    origin = torch.tensor([[10.0, 20.0, math.pi / 2]])  # facing north
    points = torch.tensor([[[10.0, 23.0], [8.0, 20.0], [10.0, 20.0]]])
    expected = torch.tensor([[[3.0, 0.0], [0.0, 2.0], [0.0, 0.0]]])
    assert torch.allclose(to_map(points, origin), expected, atol=1e-5)


def test_columns_run_ahead_rows_to_the_right_and_the_origin_is_in_the_middle():
    grid = MapGrid(size=4, cell=2.0)
    points = torch.tensor([[0.0, 0.0], [1.0, 1.0], [3.0, 1.0], [1.0, -3.0]])
    assert grid.cells(points).tolist() == [[1.5, 1.5], [1.0, 2.0], [1.0, 3.0], [3.0, 2.0]]


def test_a_cells_place_is_in_that_cell_and_cells_are_counted_row_by_row():
    grid = MapGrid()
    cells = grid.cells(grid.places())
    number = torch.arange(grid.size**2)
    assert torch.allclose(cells, torch.stack([number // grid.size, number % grid.size], -1).float(), atol=1e-4)


def test_a_landmarks_ground_point_is_seen_where_its_map_point_and_its_cell_are():
    """Through the map frame of any start pose, from any tilted pose; a cell's middle is at most half a cell away."""
    camera, grid, poses = Camera(), MapGrid(), random_poses(50)
    origin = random_poses(50, seed=1)[:, [0, 1, 5]]
    places = random_poses(50 * 8, seed=2)[:, :2].view(50, 8, 2)  # where landmarks stand, field frame
    expected, depth = project(torch.cat([places, torch.zeros_like(places[..., :1])], -1), poses, camera)
    points = to_map(places, origin)
    ray = torch.cat([points, torch.ones_like(points[..., :1])], -1) @ ground_homography(poses, origin, camera).mT
    assert torch.allclose(ray[..., 2], depth)
    assert torch.allclose(ray[..., :2], expected * depth[..., None], atol=1e-6)
    row, column = grid.cells(points).round().long().unbind(-1)
    is_inside = (row >= 0) & (row < grid.size) & (column >= 0) & (column < grid.size)
    assert is_inside.float().mean() > 0.95
    middle = grid.places().double()[(row * grid.size + column)[is_inside]]
    assert (middle - points[is_inside]).abs().max() <= grid.cell / 2 + 1e-4


def test_wrapped_angles_are_the_same_direction():
    angle = torch.linspace(-20, 20, 101, dtype=torch.float64)
    wrapped = wrap_angle(angle)
    assert wrapped.abs().max() <= math.pi + 1e-12
    assert torch.allclose(wrapped.sin(), angle.sin()) and torch.allclose(wrapped.cos(), angle.cos())


def test_numbers_arrays_and_compiled_code_are_wrapped_as_tensors_are():
    @numba.njit
    def compiled(angle):
        return wrap_radians(angle)

    angles = np.linspace(-20, 20, 101)
    expected = wrap_angle(torch.from_numpy(angles)).numpy()
    assert np.allclose(wrap_radians(angles), expected, atol=1e-12)
    for angle, wrapped in zip(angles.tolist(), expected.tolist(), strict=True):
        assert wrap_radians(angle) == compiled(angle) == pytest.approx(wrapped, abs=1e-12)
    assert wrap_radians(math.pi) == -math.pi, "the half-open end"


def test_distances_along_a_path_are_its_legs_added_up():
    path = np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0], [3.0, 14.0]])
    assert distances_along(path).tolist() == [0.0, 5.0, 5.0, 15.0]


def test_points_along_a_path_lie_on_it_at_their_distances():
    corner = np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 4.0]])
    points = points_along(corner, np.array([0.0, 1.0, 4.0, 6.5, 8.0]))
    assert points.tolist() == [[0.0, 0.0], [1.0, 0.0], [4.0, 0.0], [4.0, 2.5], [4.0, 4.0]]
    assert np.array_equal(points_along(corner, distances_along(corner)), corner)


@pytest.mark.parametrize("options", [{"width": 0}, {"horizontal_view": math.pi}, {"horizontal_view": 0.0}])
def test_impossible_cameras_are_refused(options):
    with pytest.raises(ValueError, match="expected"):
        Camera(**options)


def test_many_paths_are_resampled_as_each_alone(monkeypatch):
    """Of any length, with points that repeat, in several tables: by the distances along each path."""
    generator = np.random.default_rng(0)
    paths = [generator.uniform(0, 50, (int(count), 2)) for count in generator.integers(2, 30, 40)]
    paths += [
        np.repeat(paths[0], 2, axis=0),
        np.array([(3.0, 4.0)] * 2),
        np.array([(0.0, 0.0), (0.75, 0.0), (1.5, 0.0)]),
    ]
    paths.append(np.stack([np.linspace(0.0, 1.0, 50), np.zeros(50)], -1))  # short, and with more points than any other
    monkeypatch.setattr("pvn.geometry.PATHS_AT_ONCE", 16)
    table, counts = even_paths(paths, 0.75)
    assert table.dtype == torch.float32 and counts[-2:].tolist() == [3, 3]
    for row, count, path in zip(table.numpy(), counts.tolist(), paths, strict=True):
        length = distances_along(path)[-1]
        assert count == max(math.ceil(length / 0.75), 1) + 1
        assert np.allclose(row[:count], points_along(path, np.linspace(0, length, count)), atol=1e-5)
        assert (row[count - 1 :] == path[-1].astype(np.float32)).all()
    given, sizes = padded_paths(paths)
    assert [len(path) for path in paths] == sizes.tolist()
    assert all((row[size - 1 :] == path[-1]).all() for row, size, path in zip(given, sizes, paths, strict=True))
    assert all((row[:size] == path).all() for row, size, path in zip(given, sizes, paths, strict=True))
