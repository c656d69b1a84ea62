"""A drone's sensors against its true state and against the pictures of the same field."""

import math
from dataclasses import replace

import numpy as np
import pytest

from pvn.bridges.airsim import sensors
from pvn.bridges.airsim.drone import Drone
from pvn.bridges.airsim.host import METRES_PER_DEGREE
from pvn.bridges.airsim.images import View
from pvn.bridges.airsim.settings import SensorSettings, VehicleSettings, default_sensors, rotation_from_angles
from pvn.bridges.shared.frames import from_ned, rotation_from_yaw, to_ned
from pvn.bridges.shared.globe import GeoPoint, Globe
from pvn.bridges.shared.renderer import CameraRenderer, make_camera_row
from pvn.geometry import Camera

SEATTLE = GeoPoint(47.641468, -122.140165, 122.0)


@pytest.fixture(scope="module")
def renderer(layout):
    return CameraRenderer(layout, is_full=False)


@pytest.fixture
def drone():
    drone = Drone(VehicleSettings(), "stop")
    drone.vehicle.teleport(from_ned((0.0, 0.0, -5.0)), rotation_from_yaw(math.pi / 2))
    return drone


def test_an_accelerometer_at_rest_feels_its_weight_pushed_upwards(drone):
    assert sensors.specific_force(drone) == pytest.approx((0, 0, -9.81), abs=1e-6)


def test_noise_has_its_width_and_is_the_same_within_a_tick(drone):
    readings = []
    for drone.vehicle.num_ticks in range(2000):
        readings.append(sensors.noise(drone, 0, 2.0))
    assert np.std(readings) == pytest.approx(2.0, rel=0.05) and abs(np.mean(readings)) < 0.1
    assert (sensors.noise(drone, 0, 2.0) == readings[-1]).all() and (sensors.noise(drone, 1, 2.0) != readings[-1]).all()


def test_places_on_the_globe_there_and_back():
    globe = Globe(SEATTLE, METRES_PER_DEGREE)
    north_east = globe.to_geo_point(from_ned((111_319.5, 111_319.5 * math.cos(math.radians(SEATTLE.latitude)), 0.0)))
    assert north_east[:2] == pytest.approx((SEATTLE.latitude + 1, SEATTLE.longitude + 1)), "a degree each way"
    point = globe.to_geo_point(from_ned((30.0, -20.0, -7.0)))
    assert point.latitude > SEATTLE.latitude and point.longitude < SEATTLE.longitude
    assert point.altitude == pytest.approx(129)
    assert to_ned(globe.from_geo_point(point)) == pytest.approx((30, -20, -7), abs=1e-6)


def test_air_gets_thinner_and_pressure_gives_the_altitude_back():
    assert sensors.air(0.0)[0] == 101_325 and sensors.air(0.0)[2] == pytest.approx(1.225, rel=1e-3)
    assert sensors.air(1000.0)[0] == pytest.approx(89_875, rel=1e-3), "the standard atmosphere's table"
    assert sensors.altitude_of_pressure(sensors.air(500.0)[0]) == pytest.approx(500)


def test_the_magnetic_field_points_north_and_down_and_turns_with_the_body(drone):
    field = sensors.magnetic_field(SEATTLE)
    assert 0.4 < math.hypot(*field) < 0.65 and field[0] > 0.1 and field[2] > 0.3
    assert sensors.to_body(drone, field) == pytest.approx(field, abs=1e-9), "it faces north"
    drone.vehicle.teleport(drone.vehicle.state.position, rotation_from_yaw(0.0))
    assert sensors.to_body(drone, field) == pytest.approx((field[1], -field[0], field[2]), abs=1e-9), "it faces east"


def test_rays_in_all_directions_agree_with_pictures(renderer, layout):
    camera, position = Camera(width=40, height=30, tilt=0.0), (25.0, 25.0, 2.0)
    u, v = np.meshgrid(np.arange(40) + 0.5, np.arange(30) + 0.5)
    num_landmarks_seen = 0
    for yaw in np.arange(0.3, 6.0, 1.0):
        row = make_camera_row(position, rotation_from_yaw(yaw), camera)
        depth, seen = renderer.measure_depth(row[None], camera)
        wide = row.astype(np.float64)
        directions = wide[9:12] + u[..., None] * wide[12:15] + v[..., None] * wide[15:18]
        directions = directions.reshape(-1, 3) / np.linalg.norm(directions.reshape(-1, 3), axis=-1, keepdims=True)
        distance, landmark = renderer.cast_rays(position, directions)
        is_same = np.isclose(distance, depth.ravel(), rtol=1e-4) & (landmark == seen.ravel())
        assert is_same.mean() > 0.99, "a ray along an edge may round differently"
        num_landmarks_seen += len(np.unique(landmark[landmark >= 0]))
    assert num_landmarks_seen >= 5


def test_a_lidars_points_lie_on_the_ground_or_on_landmarks(drone, renderer):
    lidar = default_sensors()["LidarSensor1"]
    points, landmark = sensors.prepare_scan(drone, lidar, renderer)()
    assert len(points) > 5000 and np.isin(landmark, range(-1, len(renderer.layout.landmarks))).all()
    on_ground = points[landmark < 0]
    assert np.isclose(on_ground[:, 2], 0.1, atol=1e-3).mean() > 0.95, (
        "home is 0.1 m above the ground; the rest are fences"
    )
    local, same = sensors.prepare_scan(drone, replace(lidar, is_in_sensor_frame=True), renderer)()
    assert (same == landmark).all() and np.allclose(local + np.array([0, 0, -5.1]), points, atol=1e-6), (
        "it is level, facing north"
    )


def test_a_distance_sensor_measures_where_it_looks_within_its_limits(drone, renderer):
    down = SensorSettings(kind=5, rotation=rotation_from_angles(0.0, -math.pi / 2, 0.0), max_distance=40.0)
    assert sensors.measure_distance(drone, down, renderer) == pytest.approx(5.1, abs=1e-4)
    up = replace(down, rotation=rotation_from_angles(0.0, math.pi / 2, 0.0))
    assert sensors.measure_distance(drone, up, renderer) == 40.0, "the sky is further away"


@pytest.fixture
def view(renderer):
    camera = Camera(width=64, height=48, tilt=0.0)
    row = make_camera_row((25.0, 25.0, 5.0), rotation_from_yaw(1.0), camera)
    ids = (0, 0, *range(1, len(renderer.layout.landmarks) + 1))
    return View(renderer=renderer, camera_row=row, camera=camera, object_ids=ids)


def test_disparities_are_those_of_two_cameras_25_centimetres_apart(view):
    depth = view.planar_depth()
    is_near = depth < 60
    assert view.disparity()[is_near] == pytest.approx(0.25 / 2 / depth[is_near], rel=1e-4), (
        "half the width is the focus"
    )


def test_normals_point_up_from_the_ground_and_along_the_walls_of_fences(view):
    normals, depth = view.normals(), view.planar_depth()
    assert (normals[depth > 1000] == 0).all(), "sky"
    on_ground = normals[(view.segments() == 0) & (depth < 15)]
    is_up = np.isclose(on_ground, [0, 0, -1], atol=1e-2).all(-1)
    assert len(on_ground) > 200 and is_up.mean() > 0.97, (
        "down is positive; rays beside a landmark may straddle its edge"
    )
    lengths = np.linalg.norm(normals, axis=-1)
    assert lengths[depth < 1000] == pytest.approx(1)
