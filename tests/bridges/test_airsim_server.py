"""AirSim scripts in our field, with the unmodified client: every motion, image type and error."""

import io
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.image import imread

from pvn.bridges.airsim.images import SKY_DEPTH_M, segmentation_colours
from pvn.geometry import Camera, project
from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.simulator import Simulator
from pvn.world.layout import Landmark, Layout

cosysairsim = pytest.importorskip("cosysairsim", reason='needs the AirSim client: pip install "pvn-drone[airsim]"')
RPCError = pytest.importorskip("msgpackrpc.error").RPCError


def connect(served):
    return cosysairsim.MultirotorClient(port=served.port, timeout_value=60)


@pytest.fixture(scope="module")
def served(serve):
    with serve() as served:
        yield served


@pytest.fixture(scope="module")
def connection(served):
    return connect(served)


@pytest.fixture
def client(connection):
    """A client whose vehicle has just been reset and armed, and is under API control."""
    connection.reset()
    connection.simPause(False)
    connection.enableApiControl(True)
    assert connection.armDisarm(True)
    return connection


def position_of(client):
    position = client.simGetVehiclePose().position
    return np.array([position.x_val, position.y_val, position.z_val])


def yaw_of(client):
    """Degrees clockwise from north."""
    q = client.simGetVehiclePose().orientation
    return math.degrees(math.atan2(2 * (q.w_val * q.z_val + q.x_val * q.y_val), 1 - 2 * (q.y_val**2 + q.z_val**2)))


def image_request(image_type, is_float=False, is_compressed=False):
    return cosysairsim.ImageRequest("pvn", image_type, is_float, is_compressed)


def teleport_up(client, z=-5.0):
    client.simSetVehiclePose(cosysairsim.Pose(cosysairsim.Vector3r(0, 0, z)), True)


def test_the_client_confirms_the_connection(client, capsys):
    client.confirmConnection()
    assert "Connected!" in capsys.readouterr().out
    assert client.ping() and client.getServerVersion() == 4 and client.isApiControlEnabled()
    assert client.listVehicles() == ["SimpleFlight"]


@pytest.mark.long
def test_it_takes_off_flies_and_lands(client):
    assert client.getMultirotorState().landed_state == cosysairsim.LandedState.Landed
    assert position_of(client) == pytest.approx([0, 0, 0]) and yaw_of(client) == pytest.approx(0)
    assert client.takeoffAsync().get() is True
    assert position_of(client) == pytest.approx([0, 0, -3], abs=0.15)
    assert client.getMultirotorState().landed_state == cosysairsim.LandedState.Flying
    assert client.moveToPositionAsync(6, -4, -8, 4).get() is True
    assert position_of(client) == pytest.approx([6, -4, -8], abs=0.15)
    assert client.moveOnPathAsync([cosysairsim.Vector3r(10, 0, -8), cosysairsim.Vector3r(0, 0, -4)], 3).get() is True
    assert position_of(client) == pytest.approx([0, 0, -4], abs=0.15)
    assert client.moveToZAsync(-6, 2).get() is True and position_of(client)[2] == pytest.approx(-6, abs=0.15)
    assert client.landAsync().get() is True
    assert position_of(client)[2] == pytest.approx(0) and client.getMultirotorState().landed_state == 0
    assert client.takeoffAsync().get() is True, "and again"


def test_velocities_are_north_east_down(client):
    teleport_up(client)
    assert client.moveByVelocityAsync(2, 1, -0.5, 3).get() is True
    velocity = client.getMultirotorState().kinematics_estimated.linear_velocity
    assert [velocity.x_val, velocity.y_val, velocity.z_val] == pytest.approx([2, 1, -0.5], abs=0.1)
    north, east, down = position_of(client)
    assert 4 < north < 6.2 and 2 < east < 3.1 and -6.6 < down < -6


def test_body_velocities_are_forward_right_and_down_relative_to_the_heading_at_the_start(client):
    teleport_up(client)
    assert client.rotateToYawAsync(90, margin=1).get() is True
    assert yaw_of(client) == pytest.approx(90, abs=1.5)
    client.moveByVelocityBodyFrameAsync(2, 1, 0, 3, yaw_mode=cosysairsim.YawMode(True, 30)).join()
    north, east, _ = position_of(client)
    assert north / east == pytest.approx(-0.5, abs=0.03), (
        "east is ahead and south to the right, however the drone turns"
    )
    assert 4 < east < 6.2 and math.cos(math.radians(yaw_of(client) - 180)) == pytest.approx(1, abs=0.02)
    teleport_up(client)
    client.moveByVelocityZBodyFrameAsync(0, 2, -5, 3, yaw_mode=cosysairsim.YawMode(True, 60)).join()
    north, east, _ = position_of(client)
    assert east > 4 and abs(north) < 0.3


def test_with_body_velocities_a_forward_only_drive_train_faces_the_direction_of_travel(client):
    ahead = {"drivetrain": cosysairsim.DrivetrainType.ForwardOnly, "yaw_mode": cosysairsim.YawMode(False, 0)}
    for move, height in [(client.moveByVelocityBodyFrameAsync, 0), (client.moveByVelocityZBodyFrameAsync, -5)]:
        teleport_up(client)
        move(0, 2, height, 4, **ahead).join()
        north, east, _ = position_of(client)
        assert east > 6 and abs(north) < 0.1 and yaw_of(client) == pytest.approx(90, abs=2)


def test_a_height_is_reached_and_held(client):
    teleport_up(client)
    client.moveByVelocityZAsync(2, 0, -9, 6).join()
    assert position_of(client)[2] == pytest.approx(-9, abs=0.1)
    client.moveByVelocityZBodyFrameAsync(2, 0, -6, 6).join()
    assert position_of(client)[2] == pytest.approx(-6, abs=0.1)


def test_yaw_rates_are_degrees_per_second_clockwise(client):
    teleport_up(client)
    assert client.rotateByYawRateAsync(30, 2).get() is True
    assert yaw_of(client) == pytest.approx(60, abs=5)
    client.moveByVelocityAsync(0, 0, 0, 2, yaw_mode=cosysairsim.YawMode(True, -30)).join()
    assert yaw_of(client) == pytest.approx(0, abs=5)


def test_a_forward_only_drive_train_faces_the_direction_of_travel(client):
    teleport_up(client)
    client.moveToPositionAsync(
        0, 12, -5, 3, drivetrain=cosysairsim.DrivetrainType.ForwardOnly, yaw_mode=cosysairsim.YawMode(False, 0)
    ).join()
    assert yaw_of(client) == pytest.approx(90, abs=3)


def test_on_a_path_a_forward_only_drive_train_faces_along_each_leg(client):
    teleport_up(client)
    path = [cosysairsim.Vector3r(0, 12, -5), cosysairsim.Vector3r(12, 12, -5)]
    ahead = {"drivetrain": cosysairsim.DrivetrainType.ForwardOnly, "yaw_mode": cosysairsim.YawMode(False, 0)}
    assert client.moveOnPathAsync(path, 3, **ahead).get() is True
    assert yaw_of(client) == pytest.approx(0, abs=3)


@pytest.mark.long
def test_a_new_motion_ends_the_current_one_which_fails(client):
    teleport_up(client)
    first = client.moveByVelocityAsync(1, 0, 0, 1e6)
    second = client.moveByVelocityAsync(0, 1, 0, 1)
    assert second.get() is True and first.get() is False
    third = client.moveByVelocityAsync(1, 0, 0, 1e6)
    assert client.hoverAsync().get() is True and third.get() is False
    fourth = client.moveByVelocityAsync(1, 0, 0, 1e6)
    client.cancelLastTask()
    assert fourth.get() is False
    fifth = client.moveByVelocityAsync(1, 0, 0, 1e6)
    client.reset()
    assert fifth.get() is False


def test_a_motion_that_takes_too_long_fails(client):
    teleport_up(client)
    assert client.moveToPositionAsync(20, 0, -5, 1, timeout_sec=2).get() is False
    assert client.rotateToYawAsync(170, timeout_sec=0.1).get() is False


def test_motions_need_api_control_and_an_armed_vehicle(client):
    client.enableApiControl(False)
    with pytest.raises(RPCError, match="takeoff: API control is off; call enableApiControl"):
        client.takeoffAsync().get()
    client.enableApiControl(True)
    client.armDisarm(False)
    with pytest.raises(RPCError, match="not armed; call armDisarm"):
        client.takeoffAsync().get()
    client.armDisarm(True)
    teleport_up(client)
    assert client.armDisarm(False) is False, "in the air"


def test_an_unsupported_call_is_named_in_the_error(client):
    with pytest.raises(RPCError, match="getEchoData: not supported; docs/airsim.md"):
        client.client.call("getEchoData", "", "")


HUGE = {"w_val": 1e308, "x_val": 1e308, "y_val": 1e308, "z_val": 1e308}
NEAR = {"x_val": 0, "y_val": 8, "z_val": -5}
LEVEL = {"position": NEAR, "orientation": {"w_val": 1, "x_val": 0, "y_val": 0, "z_val": 0}}


@pytest.mark.parametrize(
    ("method", "arguments", "words"),
    [
        ("moveByVelocity", (math.nan, 0, 0, 1, 0, {}, ""), "vx: got nan, expected a finite number"),
        ("moveByVelocity", ("fast", 0, 0, 1, 0, {}, ""), "vx: got 'fast'"),
        ("moveByVelocity", (1,), "got 1 arguments, expected 4 to 7"),
        ("moveToPosition", (0, 0, -5, 0), "velocity: got 0 m/s, expected more than 0"),
        ("moveOnPath", ([NEAR], 3, 60, 1, {"is_rate": True, "yaw_or_rate": 0}), "got a yaw rate for ForwardOnly"),
        ("moveOnPath", ([NEAR], 3, 60, 1), "expected an angle; pass yaw_mode=YawMode(False, 0)"),
        ("moveOnPath", ([], 3), "path: got 0, expected a list of 1"),
        ("takeoff", (20, "Drone7"), "vehicle: got 'Drone7', expected 'SimpleFlight'"),
        ("takeoff", (20, ["SimpleFlight"]), "expected 'SimpleFlight'"),
        ("simSetVehiclePose", ({"position": NEAR, "orientation": HUGE},), "got a quaternion of length inf"),
        (
            "simSetKinematics",
            ({**LEVEL, "linear_velocity": HUGE, "angular_velocity": NEAR},),
            "expected at most 100",
        ),
        ("simGetImages", ([{"camera_name": "back"}], ""), "camera: got 'back', expected one of 0"),
        ("simGetImages", ([{"image_type": 8}], ""), "image_type: got '8', expected one of Scene"),
        ("simGetImages", ([{"image_type": ["Scene"]}], ""), "image_type: got \"['Scene']\", expected one of Scene"),
        ("simGetImages", ([{"camera_name": ["0"]}], ""), "camera: got \"['0']\", expected one of 0"),
        ("simGetCameraInfo", ({}, "", True), "external camera: got '{}', expected none; settings.json can add them"),
        ("simGetDetections", ("0", [], ""), "image_type: got [], expected a finite number"),
        ("simSetDistortionParam", ("0", ["K1"], 0.1), "param_name: got \"['K1']\", expected one of K1, K2"),
        ("getDistanceSensorData", (["Distance"], ""), "sensor: got \"['Distance']\", expected Distance;"),
        ("getLidarData", ({"name": 1}, ""), "sensor: got \"{'name': 1}\", expected LidarSensor1;"),
        ("simGetImages", ([{}] * 17,), "got 17 requests, expected a list of 1 to 16"),
        ("simGetImages", (3,), "got int requests"),
        ("simSetVehiclePose", (7, True, ""), "pose: got int, expected a map"),
        ("simListSceneObjects", ("(",), "name_regex: got '(', expected a regular expression"),
        ("simContinueForTime", (-1,), "seconds: got -1, expected 0 or more"),
    ],
)
def test_errors_say_what_is_wrong_with_a_call(client, method, arguments, words):
    with pytest.raises(RPCError) as caught:
        client.client.call(method, *arguments)
    assert words in str(caught.value)


def test_a_part_of_a_pose_that_contains_nan_is_left_as_it_is(client):
    teleport_up(client)
    client.rotateToYawAsync(90, margin=1).join()
    nan = cosysairsim.Quaternionr.nanQuaternionr()
    client.simSetVehiclePose(cosysairsim.Pose(cosysairsim.Vector3r(3, 4, -6), nan), True)
    assert position_of(client) == pytest.approx([3, 4, -6], abs=1e-6) and yaw_of(client) == pytest.approx(90, abs=2)


def test_two_landmarks_of_a_class_get_different_names(serve):
    layout = Layout((Landmark("Barrel", 10.0, 10.0, 4.0), Landmark("Barrel", 30.0, 10.0, 4.0)))
    with serve(layout) as served:
        client = connect(served)
        assert client.simListSceneObjects() == ["Barrel", "Barrel_2"]
        assert client.simGetObjectPose("Barrel_2").position.y_val == pytest.approx(5)


def native_simulator(client, layout):
    """Our simulator of the same field, and the pose (1, 6), field frame, of the client's vehicle."""
    north, east, down = position_of(client)
    yaw = math.pi / 2 - math.radians(yaw_of(client))
    pose = torch.tensor([[east + 25, north + 25, 0.1 - down, 0, 0, yaw]], dtype=torch.float64)
    return Simulator([layout], 1, config=SimulatorConfig(altitude=0.1 - down)), pose


def test_scene_images_are_those_of_our_simulator_blue_first(client, layout):
    teleport_up(client)
    response = client.simGetImages([image_request(0)])[0]
    assert (response.width, response.height) == (128, 72)
    pixels = np.frombuffer(response.image_data_uint8, np.uint8).reshape(72, 128, 3)[..., ::-1]
    simulator, pose = native_simulator(client, layout)
    expected = simulator.render(pose, torch.zeros(1, dtype=torch.int64))[0].numpy()
    assert (pixels != expected).any(-1).mean() < 0.002, "a pixel on an edge may round differently"
    png = client.simGetImage("pvn", 0)
    assert (np.round(imread(io.BytesIO(png))[..., :3] * 255) == pixels).all()
    both = client.simGetImages([image_request(0), image_request(0, is_compressed=True)])
    assert both[1].image_data_uint8 == png and both[0].image_data_uint8 == response.image_data_uint8


def test_depths_are_metres_along_the_optical_axis_or_the_ray(client, layout):
    teleport_up(client)
    planar, perspective, visible = client.simGetImages([image_request(image_type, True) for image_type in (1, 2, 3)])
    planar, perspective, visible = (
        np.array(image.image_data_float).reshape(72, 128) for image in (planar, perspective, visible)
    )
    simulator, pose = native_simulator(client, layout)
    simulator.place(pose[:, [0, 1, 5]])
    expected = simulator.depth_and_landmarks()[0][0].numpy()
    is_same = np.isclose(perspective, np.where(expected > 0, expected, SKY_DEPTH_M), rtol=1e-3)
    assert is_same.mean() > 0.998, "a pixel on an edge may round differently"
    is_sky = perspective == SKY_DEPTH_M
    assert is_sky.any() and (planar[is_sky] == SKY_DEPTH_M).all() and (visible[is_sky] == 1).all()
    ground = 5.1 / math.sin(Camera().tilt + math.atan(35.5 / Camera().focal_px))
    ray = math.hypot(1, 0.5 / 64, 35.5 / 64)
    assert planar[71, 64] * ray == pytest.approx(perspective[71, 64], rel=1e-4)
    assert planar[71, 64] == pytest.approx(ground / math.hypot(1, 35.5 / 64), rel=0.01)
    assert visible[71, 64] == pytest.approx(planar[71, 64] / 100, rel=1e-4)
    grey = np.frombuffer(client.simGetImages([image_request(1)])[0].image_data_uint8, np.uint8).reshape(72, 128, 3)
    assert grey[71, 64].tolist() == [int(255 * visible[71, 64])] * 3


def test_landmarks_are_listed_with_their_poses_and_appear_in_their_segmentation_colours(client, layout):
    teleport_up(client)
    names = client.simListSceneObjects()
    assert names == [landmark.name for landmark in layout.landmarks]
    assert client.simListSceneObjects("B.*") == [name for name in names if name.startswith("B")]
    response = client.simGetImages([image_request(5)])[0]
    pixels = np.frombuffer(response.image_data_uint8, np.uint8).reshape(72, 128, 3)[..., ::-1]
    _, pose = native_simulator(client, layout)
    num_seen = 0
    for object_id, landmark in enumerate(layout.landmarks, start=1):
        position = client.simGetObjectPose(landmark.name).position
        assert (position.y_val + 25, position.x_val + 25, position.z_val) == pytest.approx(
            (landmark.x, landmark.y, 0.1)
        )
        (uv,), (depth,) = project(torch.tensor([[[landmark.x, landmark.y, 0.4]]], dtype=torch.float64), pose, Camera())
        u, v = uv[0].tolist()
        if depth > 0 and 4 < u < 124 and 4 < v < 68:
            patch = pixels[int(v) - 3 : int(v) + 4, int(u) - 3 : int(u) + 4].reshape(-1, 3).tolist()
            num_seen += segmentation_colours(object_id).tolist() in patch
    assert num_seen >= 2
    assert client.simGetSegmentationObjectID(names[2]) == 3
    assert math.isnan(client.simGetObjectPose("Nothing").position.x_val)


def test_the_camera_reports_its_pose_and_can_be_turned(client):
    teleport_up(client)
    info = client.simGetCameraInfo("front_center")
    assert info.fov == pytest.approx(90)
    assert info.pose.orientation.w_val == pytest.approx(1), "level, as AirSim's"
    assert (info.pose.position.x_val, info.pose.position.z_val) == pytest.approx((0.5, -5))
    straight_down = cosysairsim.Quaternionr(0, math.sin(-math.pi / 4), 0, math.cos(math.pi / 4))
    client.simSetCameraPose("pvn", cosysairsim.Pose(cosysairsim.Vector3r(0, 0, -1), straight_down))
    depth = np.array(client.simGetImages([image_request(1, True)])[0].image_data_float).reshape(72, 128)
    assert np.median(depth) == pytest.approx(6.1, abs=0.05)


def test_touching_a_landmark_is_reported_as_a_collision(serve):
    layout = Layout((Landmark("House2", 25.0, 35.0, 4.0),))
    with serve(layout) as served:
        client = connect(served)
        client.enableApiControl(True)
        client.armDisarm(True)
        teleport_up(client, -1.0)
        assert not client.simGetCollisionInfo().has_collided
        client.moveByVelocityZAsync(3, 0, -1, 5).join()
        collision = client.simGetCollisionInfo()
        assert collision.has_collided and collision.object_name == "House2"
        assert 5 < collision.position.x_val < 14
        client.reset()
        assert not client.simGetCollisionInfo().has_collided


def test_a_paused_world_stands_still_and_continues_for_exactly_as_long_as_asked(client):
    teleport_up(client)
    client.simPause(True)
    assert client.simIsPause()
    begin = client.getMultirotorState().timestamp
    future = client.moveByVelocityAsync(2, 0, 0, 1.0)
    client.simContinueForTime(0.5)
    assert client.simIsPause() and client.getMultirotorState().timestamp - begin == 500_000_000
    half = position_of(client)[0]
    assert 0.2 < half < 1.0
    assert all(position_of(client)[0] == half for _ in range(20))
    client.simContinueForTime(0.5)
    assert future.get() is True and client.getMultirotorState().timestamp - begin == 1_000_000_000
    client.simPause(False)
    assert not client.simIsPause()


def test_reset_restores_the_initial_state(client):
    teleport_up(client)
    client.simPause(True)
    client.reset()
    assert position_of(client) == pytest.approx([0, 0, 0]) and not client.isApiControlEnabled()
    assert client.getMultirotorState().landed_state == 0
    client.enableApiControl(True)
    client.simPause(False)
    assert client.takeoffAsync().get() is True, "armed, as AirSim's SimpleFlight is"


@pytest.mark.long
def test_a_users_script_runs_from_start_to_finish(served):
    script = Path(__file__).parent / "airsim_script.py"
    command = [sys.executable, str(script), str(served.port)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert finished.returncode == 0, finished.stderr
    assert "every call worked" in finished.stdout


def test_the_documentation_names_every_supported_call():
    from pvn.bridges.airsim.api import CALLS

    text = (Path(__file__).parents[2] / "docs" / "airsim.md").read_text(encoding="utf-8")
    missing = {name for name in CALLS if f"`{name}`" not in text}
    assert missing == {"getServerVersion", "getMinRequiredClientVersion"}, "which it calls the versions"
