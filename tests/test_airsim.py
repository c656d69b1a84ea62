"""AirSim scripts in our field, with the unmodified client; and whatever else may come over the wire."""

import io
import json
import math
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from airsim_serving import serving
from matplotlib.image import imread

from pvn.bridges.airsim import motions
from pvn.bridges.airsim.api import CALLS
from pvn.bridges.airsim.frames import from_ned, to_ned
from pvn.bridges.airsim.images import SKY_M, Eye, segmentation_colour
from pvn.bridges.airsim.protocol import Limits
from pvn.bridges.airsim.vehicle import World
from pvn.cli import main
from pvn.geometry import Camera, project
from pvn.simulator.simulator import Simulator, SimulatorConfig
from pvn.world.layout import Landmark, Layout, sample_layout

cosysairsim = pytest.importorskip("cosysairsim", reason='needs the AirSim client: pip install "pvn[airsim]"')
msgpack = pytest.importorskip("msgpack")
RPCError = pytest.importorskip("msgpackrpc.error").RPCError

LAYOUT = sample_layout(3)


def test_without_msgpack_it_says_how_to_install_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "msgpack", None)
    for module in ("pvn.bridges.airsim.protocol", "pvn.bridges.airsim.server"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(SystemExit):
        main(["serve", "airsim"])
    assert 'msgpack: not installed here; install it with: pip install "pvn[airsim]"' in capsys.readouterr().err


@pytest.fixture(scope="module")
def served():
    with serving(LAYOUT) as (service, port):
        yield service, port


@pytest.fixture
def client(served):
    """A client of a vehicle that has just been reset, armed, under API control."""
    one = cosysairsim.MultirotorClient(port=served[1], timeout_value=20)
    one.reset()
    one.simPause(False)
    one.enableApiControl(True)
    assert one.armDisarm(True)
    return one


def at(client):
    position = client.simGetVehiclePose().position
    return np.array([position.x_val, position.y_val, position.z_val])


def yaw_of(client):
    q = client.simGetVehiclePose().orientation
    return math.degrees(math.atan2(2 * (q.w_val * q.z_val + q.x_val * q.y_val), 1 - 2 * (q.y_val**2 + q.z_val**2)))


def request(image_type, is_float=False, is_compressed=False):
    return cosysairsim.ImageRequest("0", image_type, is_float, is_compressed)


def up(client, z=-5.0):
    client.simSetVehiclePose(cosysairsim.Pose(cosysairsim.Vector3r(0, 0, z)), True)


def test_the_client_confirms_the_connection(client, capsys):
    client.confirmConnection()
    assert "Connected!" in capsys.readouterr().out
    assert client.ping() and client.getServerVersion() == 4 and client.isApiControlEnabled()
    assert client.listVehicles() == ["SimpleFlight"]


def test_it_takes_off_flies_and_lands(client):
    assert client.getMultirotorState().landed_state == cosysairsim.LandedState.Landed
    assert at(client) == pytest.approx([0, 0, 0]) and yaw_of(client) == pytest.approx(0)
    assert client.takeoffAsync().get() is True
    assert at(client) == pytest.approx([0, 0, -3], abs=0.15)
    assert client.getMultirotorState().landed_state == cosysairsim.LandedState.Flying
    assert client.moveToPositionAsync(6, -4, -8, 4).get() is True
    assert at(client) == pytest.approx([6, -4, -8], abs=0.15)
    assert client.moveOnPathAsync([cosysairsim.Vector3r(10, 0, -8), cosysairsim.Vector3r(0, 0, -4)], 3).get() is True
    assert at(client) == pytest.approx([0, 0, -4], abs=0.15)
    assert client.moveToZAsync(-6, 2).get() is True and at(client)[2] == pytest.approx(-6, abs=0.15)
    assert client.landAsync().get() is True
    assert at(client)[2] == pytest.approx(0) and client.getMultirotorState().landed_state == 0
    assert client.takeoffAsync().get() is True, "and again"


def flown(path, speed):
    """The track (T, 3), NED, of a drone that begins at (0, 0, -5) and arrives at the end of a path, in ticks."""
    world, results, track = World(), [], []
    world.place((0.0, 0.0, -5.0), (1.0, 0.0, 0.0, 0.0))
    points = [from_ned(point) for point in path]
    world.start(motions.along(points, speed, motions.at_rate(0.0), 120.0, world.vehicle), results.append)
    while not results:
        world.tick()
        track.append(to_ned(world.position))
    assert results == [True]
    return np.array(track)


def test_a_small_round_trip_is_flown_however_fast_it_is_asked_for():
    corners = [(5, 0, -5), (5, 5, -5), (0, 5, -5), (0, 0, -5)]
    track = flown(corners, 10)
    nearest = [np.linalg.norm(track - corner, axis=1) for corner in corners]
    assert max(one.min() for one in nearest) < 2.5
    assert nearest[0].argmin() < nearest[1].argmin() < nearest[2].argmin(), "in the order of the path"


def test_a_path_of_many_points_is_flown_at_its_speed_a_point_told_twice_too():
    angles = np.linspace(0, 2 * np.pi, 101)
    circle = [(6 * np.sin(angle), 6 - 6 * np.cos(angle), -5.0) for angle in angles]
    track = flown([circle[0], *circle, circle[-1]], 3)
    length = np.linalg.norm(np.diff(track, axis=0), axis=1).sum()
    assert length == pytest.approx(2 * np.pi * 6, rel=0.15)
    assert len(track) * 0.01 < 1.4 * length / 3 + 2


def test_go_home_goes_back_to_the_start(client):
    up(client)
    client.moveByVelocityAsync(3, 3, 0, 4).join()
    assert np.hypot(*at(client)[:2]) > 10
    assert client.goHomeAsync().get() is True
    assert at(client) == pytest.approx([0, 0, 0], abs=0.15)


def test_velocities_are_north_east_down(client):
    up(client)
    assert client.moveByVelocityAsync(2, 1, -0.5, 3).get() is True
    velocity = client.getMultirotorState().kinematics_estimated.linear_velocity
    assert [velocity.x_val, velocity.y_val, velocity.z_val] == pytest.approx([2, 1, -0.5], abs=0.1)
    north, east, down = at(client)
    assert 4 < north < 6.2 and 2 < east < 3.1 and -6.6 < down < -6


def test_body_velocities_are_forward_right_down_of_the_heading_at_the_beginning(client):
    up(client)
    assert client.rotateToYawAsync(90, margin=1).get() is True
    assert yaw_of(client) == pytest.approx(90, abs=1.5)
    client.moveByVelocityBodyFrameAsync(2, 1, 0, 3, yaw_mode=cosysairsim.YawMode(True, 30)).join()
    north, east, _ = at(client)
    assert north / east == pytest.approx(-0.5, abs=0.03), "east is ahead, south to the right, however it turns"
    assert 4 < east < 6.2 and math.cos(math.radians(yaw_of(client) - 180)) == pytest.approx(1, abs=0.02)
    up(client)
    client.moveByVelocityZBodyFrameAsync(0, 2, -5, 3, yaw_mode=cosysairsim.YawMode(True, 60)).join()
    north, east, _ = at(client)
    assert east > 4 and abs(north) < 0.3


def test_body_velocities_with_a_forward_only_drive_train_turn_it_where_it_flies(client):
    ahead = {"drivetrain": cosysairsim.DrivetrainType.ForwardOnly, "yaw_mode": cosysairsim.YawMode(False, 0)}
    for move, height in [(client.moveByVelocityBodyFrameAsync, 0), (client.moveByVelocityZBodyFrameAsync, -5)]:
        up(client)
        move(0, 2, height, 4, **ahead).join()
        north, east, _ = at(client)
        assert east > 6 and abs(north) < 0.1 and yaw_of(client) == pytest.approx(90, abs=2)


def test_height_is_held_or_reached(client):
    up(client)
    client.moveByVelocityZAsync(2, 0, -9, 6).join()
    assert at(client)[2] == pytest.approx(-9, abs=0.1)
    client.moveByVelocityZBodyFrameAsync(2, 0, -6, 6).join()
    assert at(client)[2] == pytest.approx(-6, abs=0.1)


def test_yaw_rates_are_clockwise_in_degrees(client):
    up(client)
    assert client.rotateByYawRateAsync(30, 2).get() is True
    assert yaw_of(client) == pytest.approx(60, abs=5)
    client.moveByVelocityAsync(0, 0, 0, 2, yaw_mode=cosysairsim.YawMode(True, -30)).join()
    assert yaw_of(client) == pytest.approx(0, abs=5)


def test_a_forward_only_drive_train_looks_where_it_flies(client):
    up(client)
    client.moveToPositionAsync(
        0, 12, -5, 3, drivetrain=cosysairsim.DrivetrainType.ForwardOnly, yaw_mode=cosysairsim.YawMode(False, 0)
    ).join()
    assert yaw_of(client) == pytest.approx(90, abs=3)


def test_on_a_path_a_forward_only_drive_train_looks_along_each_leg(client):
    up(client)
    path = [cosysairsim.Vector3r(0, 12, -5), cosysairsim.Vector3r(12, 12, -5)]
    ahead = {"drivetrain": cosysairsim.DrivetrainType.ForwardOnly, "yaw_mode": cosysairsim.YawMode(False, 0)}
    assert client.moveOnPathAsync(path, 3, **ahead).get() is True
    assert yaw_of(client) == pytest.approx(0, abs=3)


def test_a_newer_motion_ends_the_one_before_without_success(client):
    up(client)
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
    up(client)
    assert client.moveToPositionAsync(20, 0, -5, 1, timeout_sec=2).get() is False
    assert client.rotateToYawAsync(170, timeout_sec=0.1).get() is False


def test_motions_want_control_and_arms(client):
    client.enableApiControl(False)
    with pytest.raises(RPCError, match="takeoff: API control is off; call enableApiControl"):
        client.takeoffAsync().get()
    client.enableApiControl(True)
    client.armDisarm(False)
    with pytest.raises(RPCError, match="not armed; call armDisarm"):
        client.takeoffAsync().get()
    client.armDisarm(True)
    up(client)
    assert client.armDisarm(False) is False, "in the air"


def test_unknown_calls_are_named(client):
    with pytest.raises(RPCError, match="simSpawnObject: not answered here; docs/airsim.md"):
        client.simSpawnObject("a", "b", cosysairsim.Pose(), cosysairsim.Vector3r())


NEAR, FAR = ({"x_val": 0, "y_val": east, "z_val": -5} for east in (8, -80))


@pytest.mark.parametrize(
    ("method", "arguments", "words"),
    [
        ("moveByVelocity", (math.nan, 0, 0, 1, 0, {}, ""), "vx: got nan, expected a finite number"),
        ("moveByVelocity", ("fast", 0, 0, 1, 0, {}, ""), "vx: got 'fast'"),
        ("moveByVelocity", (1,), "got 1 arguments, expected 4 to 7"),
        ("moveToPosition", (0, 0, -5, 0), "velocity: got 0 m/s, expected more than 0"),
        ("moveToPosition", (100, 0, -5, 5), "which is (25, 125, 5.1) in the field, expected x and y in -10 to 60 m"),
        ("moveToZ", (3, 2), "and z in 0.1 to 100 m"),
        ("moveToZ", (-101, 2), "and z in 0.1 to 100 m"),
        ("moveOnPath", ([NEAR, FAR], 3), "position: got (0.0, -80.0, -5.0)"),
        ("moveOnPath", ([NEAR], 3, 60, 1, {"is_rate": True, "yaw_or_rate": 0}), "got a yaw rate for ForwardOnly"),
        ("moveOnPath", ([NEAR], 3, 60, 1), "expected an angle; pass yaw_mode=YawMode(False, 0)"),
        ("moveOnPath", ([], 3), "path: got 0, expected a list of 1"),
        ("takeoff", (20, "Drone7"), "no vehicle 'Drone7' here, expected 'SimpleFlight'"),
        ("simGetImages", ([{"camera_name": "back"}], ""), "camera: got 'back', expected one of 0"),
        ("simGetImages", ([{"image_type": 7}], ""), "image_type: got 7, expected one of Scene"),
        ("simGetImages", ([{"image_type": 0, "pixels_as_float": True}],), "expected a depth type"),
        ("simGetImages", ([{}] * 17,), "got 17 requests, expected a list of 1 to 16"),
        ("simGetImages", (3,), "got int requests"),
        ("simSetVehiclePose", (7, True, ""), "pose: got int, expected a map"),
        ("simListSceneObjects", ("(",), "which is no pattern"),
        ("simContinueForTime", (-1,), "seconds: got -1, expected 0 or more"),
    ],
)
def test_errors_say_what_is_wrong_with_the_call(client, method, arguments, words):
    with pytest.raises(RPCError) as caught:
        client.client.call(method, *arguments)
    assert words in str(caught.value)


def test_a_vehicle_cannot_be_put_outside(client):
    with pytest.raises(RPCError, match="expected x and y in -10 to 60 m"):
        client.simSetVehiclePose(cosysairsim.Pose(cosysairsim.Vector3r(500, 0, -5)), True)


def test_a_part_of_a_pose_that_is_nan_stays(client):
    up(client)
    client.rotateToYawAsync(90, margin=1).join()
    nan = cosysairsim.Quaternionr.nanQuaternionr()
    client.simSetVehiclePose(cosysairsim.Pose(cosysairsim.Vector3r(3, 4, -6), nan), True)
    assert at(client) == pytest.approx([3, 4, -6], abs=1e-6) and yaw_of(client) == pytest.approx(90, abs=2)


def test_two_landmarks_of_a_class_have_two_names():
    layout = Layout((Landmark("Barrel", 10.0, 10.0, 4.0), Landmark("Barrel", 30.0, 10.0, 4.0)))
    with serving(layout) as (_, port):
        client = cosysairsim.MultirotorClient(port=port, timeout_value=20)
        assert client.simListSceneObjects() == ["Barrel", "Barrel_2"]
        assert client.simGetObjectPose("Barrel_2").position.y_val == pytest.approx(5)


def native(client):
    """A simulator of the same field, with the pose (1, 6) at which the client's vehicle is."""
    north, east, down = at(client)
    yaw = math.pi / 2 - math.radians(yaw_of(client))
    pose = torch.tensor([[east + 25, north + 25, 0.1 - down, 0, 0, yaw]], dtype=torch.float64)
    return Simulator([LAYOUT], 1, config=SimulatorConfig(altitude=0.1 - down)), pose


def test_pictures_are_our_simulators_blue_first(client):
    up(client)
    response = client.simGetImages([request(0)])[0]
    assert (response.width, response.height) == (128, 72)
    pixels = np.frombuffer(response.image_data_uint8, np.uint8).reshape(72, 128, 3)[..., ::-1]
    simulator, pose = native(client)
    expected = simulator.render(pose, torch.zeros(1, dtype=torch.int64))[0].numpy()
    assert (pixels != expected).any(-1).mean() < 0.002, "a pixel on an edge may round differently"
    png = client.simGetImage("0", 0)
    assert (np.round(imread(io.BytesIO(png))[..., :3] * 255) == pixels).all()
    both = client.simGetImages([request(0), request(0, is_compressed=True)])
    assert both[1].image_data_uint8 == png and both[0].image_data_uint8 == response.image_data_uint8


def test_depths_are_metres_along_the_axis_or_the_ray(client):
    up(client)
    planar, perspective, visible = client.simGetImages([request(kind, True) for kind in (1, 2, 3)])
    planar, perspective, visible = (
        np.array(one.image_data_float).reshape(72, 128) for one in (planar, perspective, visible)
    )
    simulator, pose = native(client)
    simulator.place(pose[:, [0, 1, 5]])
    expected = simulator.measure()[0][0].numpy()
    is_same = np.isclose(perspective, np.where(expected > 0, expected, SKY_M), rtol=1e-3)
    assert is_same.mean() > 0.998, "a pixel on an edge may round differently"
    is_sky = perspective == SKY_M
    assert is_sky.any() and (planar[is_sky] == SKY_M).all() and (visible[is_sky] == 1).all()
    ground = 5.1 / math.sin(Camera().tilt + math.atan(35.5 / Camera().focal_px))
    ray = math.hypot(1, 0.5 / 64, 35.5 / 64)
    assert planar[71, 64] * ray == pytest.approx(perspective[71, 64], rel=1e-4)
    assert planar[71, 64] == pytest.approx(ground / math.hypot(1, 35.5 / 64), rel=0.01)
    assert visible[71, 64] == pytest.approx(planar[71, 64] / 100, rel=1e-4)
    grey = np.frombuffer(client.simGetImages([request(1)])[0].image_data_uint8, np.uint8).reshape(72, 128, 3)
    assert grey[71, 64].tolist() == [int(255 * visible[71, 64])] * 3


def test_a_landmark_is_where_its_pose_and_its_segmentation_colour_are(client):
    up(client)
    names = client.simListSceneObjects()
    assert names == [mark.name for mark in LAYOUT.landmarks]
    assert client.simListSceneObjects("B.*") == [name for name in names if name.startswith("B")]
    response = client.simGetImages([request(5)])[0]
    pixels = np.frombuffer(response.image_data_uint8, np.uint8).reshape(72, 128, 3)[..., ::-1]
    _, pose = native(client)
    num_seen = 0
    for number, mark in enumerate(LAYOUT.landmarks, start=1):
        stands = client.simGetObjectPose(mark.name).position
        assert (stands.y_val + 25, stands.x_val + 25, stands.z_val) == pytest.approx((mark.x, mark.y, 0.1))
        (uv,), (depth,) = project(torch.tensor([[[mark.x, mark.y, 0.4]]], dtype=torch.float64), pose, Camera())
        u, v = uv[0].tolist()
        if depth > 0 and 4 < u < 124 and 4 < v < 68:
            patch = pixels[int(v) - 3 : int(v) + 4, int(u) - 3 : int(u) + 4].reshape(-1, 3).tolist()
            num_seen += list(segmentation_colour(number)) in patch
    assert num_seen >= 2
    assert client.simGetSegmentationObjectID(names[2]) == 3
    assert math.isnan(client.simGetObjectPose("Nothing").position.x_val)


def test_the_camera_tells_its_pose_and_can_be_turned(client):
    up(client)
    info = client.simGetCameraInfo("front_center")
    assert info.fov == pytest.approx(90)
    tilt = -2 * math.degrees(math.asin(info.pose.orientation.y_val))
    assert tilt == pytest.approx(15) and info.pose.position.z_val == pytest.approx(-5)
    straight_down = cosysairsim.Quaternionr(0, math.sin(-math.pi / 4), 0, math.cos(math.pi / 4))
    client.simSetCameraPose("0", cosysairsim.Pose(cosysairsim.Vector3r(), straight_down))
    depth = np.array(client.simGetImages([request(1, True)])[0].image_data_float).reshape(72, 128)
    assert np.median(depth) == pytest.approx(5.1, abs=0.05)


def test_touching_a_landmark_is_told():
    layout = Layout((Landmark("House2", 25.0, 35.0, 4.0),))
    with serving(layout) as (_, port):
        client = cosysairsim.MultirotorClient(port=port, timeout_value=20)
        client.enableApiControl(True)
        client.armDisarm(True)
        up(client, -1.0)
        assert not client.simGetCollisionInfo().has_collided
        client.moveByVelocityZAsync(3, 0, -1, 5).join()
        collision = client.simGetCollisionInfo()
        assert collision.has_collided and collision.object_name == "House2"
        assert 5 < collision.position.x_val < 14
        client.reset()
        assert not client.simGetCollisionInfo().has_collided


def test_a_paused_world_stands_and_goes_on_for_exactly_as_long_as_asked(client):
    up(client)
    client.simPause(True)
    assert client.simIsPause()
    begin = client.getMultirotorState().timestamp
    future = client.moveByVelocityAsync(2, 0, 0, 1.0)
    client.simContinueForTime(0.5)
    assert client.simIsPause() and client.getMultirotorState().timestamp - begin == 500_000_000
    half = at(client)[0]
    assert 0.2 < half < 1.0
    time.sleep(0.05)
    assert at(client)[0] == half
    client.simContinueForTime(0.5)
    assert future.get() is True and client.getMultirotorState().timestamp - begin == 1_000_000_000
    client.simPause(False)
    assert not client.simIsPause()


def test_reset_puts_all_back(client):
    up(client)
    client.simPause(True)
    client.reset()
    assert at(client) == pytest.approx([0, 0, 0]) and not client.isApiControlEnabled()
    assert client.getMultirotorState().landed_state == 0


@pytest.mark.parametrize("speed", [1.0, 4.0])
def test_time_passes_as_fast_as_was_said(speed):
    with serving(LAYOUT, speed=speed) as (_, port):
        client = cosysairsim.MultirotorClient(port=port, timeout_value=20)
        client.enableApiControl(True)
        client.armDisarm(True)
        up(client)
        client.moveByVelocityAsync(1, 0, 0, 0.1).join()
        begin = time.perf_counter()
        client.moveByVelocityAsync(1, 0, 0, 1.2).join()
        assert 1.1 / speed < time.perf_counter() - begin < 1.2 / speed + 1.0


def test_a_users_script_runs_from_its_first_line_to_its_last(served):
    script = Path(__file__).parent / "airsim_script.py"
    ran = subprocess.run([sys.executable, str(script), str(served[1])], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert "all of it worked" in ran.stdout


# What else may come over the wire.


@pytest.fixture(scope="module")
def strict():
    """A server that loses patience soon."""
    with serving(LAYOUT, limits=Limits(half_message_s=0.3, message_bytes=4096, clients=5)) as (service, port):
        yield service, port


def raw(port):
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def is_closed(connection):
    """Whether the server closes the connection, in the test's patience."""
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


def call(connection, number, method, *arguments):
    connection.sendall(msgpack.packb([0, number, method, list(arguments)]))


def answer(connection):
    unpacker = msgpack.Unpacker()
    while True:
        data = connection.recv(1 << 16)
        assert data, "the server closed the connection"
        unpacker.feed(data)
        for message in unpacker:
            return message


@pytest.mark.parametrize(
    "bytes_sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xc1" * 100,
        bytes(range(256)),
        msgpack.packb([0, 1]),
        msgpack.packb([0, "one", "ping", []]),
        msgpack.packb([0, 1, 7, []]),
        msgpack.packb([1, 1, None, None]),
        msgpack.packb({"ping": 1}),
        msgpack.packb([0, 1, "ping", [b"x" * 100_000]]),
        b"\xdd\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff" + b"a" * 100_000,
        b"\x91" * 3000,
        b"\x94\x00\x01\xa4\xff\xff\xff\xff\x90",
        msgpack.packb([0, 1, "ping", []])[:3],
    ],
)
def test_garbage_too_much_and_half_a_message_end_that_connection_alone(strict, bytes_sent):
    with raw(strict[1]) as other, raw(strict[1]) as connection:
        call(other, 1, "ping")
        assert answer(other) == [1, 1, None, True]
        connection.sendall(bytes_sent)
        assert is_closed(connection)
        call(other, 2, "ping")
        assert answer(other) == [1, 2, None, True]


def test_silence_between_messages_and_slow_messages_are_welcome(strict):
    message = msgpack.packb([0, 5, "ping", []])
    with raw(strict[1]) as connection:
        time.sleep(0.5)
        for byte in message:
            connection.sendall(bytes([byte]))
            time.sleep(0.02)
        assert answer(connection) == [1, 5, None, True]


def test_notifications_get_no_answer(strict):
    with raw(strict[1]) as connection:
        connection.sendall(msgpack.packb([2, "ping", []]))
        call(connection, 9, "ping")
        assert answer(connection)[1] == 9


def test_a_client_that_dies_in_the_middle_of_a_call_is_not_missed(strict):
    _, port = strict
    for method, arguments in [
        ("moveByVelocity", (1, 0, 0, 1e9)),
        ("simGetImages", ([{"compress": False}] * 16,)),
        ("simContinueForTime", (1e8,)),
    ]:
        with raw(port) as other:
            call(other, 0, "reset")
            answer(other)
            for number, (name, value) in enumerate([("enableApiControl", True), ("armDisarm", True)]):
                call(other, number, name, value)
                answer(other)
            dying = raw(port)
            # Closed with a reset, as when a process is killed with unread data.
            dying.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            call(dying, 1, method, *arguments)
            time.sleep(0.05)
            dying.close()
            call(other, 3, "simPause", False)
            assert answer(other) == [1, 3, None, None]
            call(other, 4, "moveByVelocity", 0, 1, 0, 0.5)
            assert answer(other) == [1, 4, None, True]


def test_too_many_clients_are_turned_away_and_come_in_when_others_leave(strict):
    crowd = [raw(strict[1]) for _ in range(5)]
    for number, one in enumerate(crowd):
        call(one, number, "ping")
        assert answer(one)[1] == number
    with raw(strict[1]) as late:
        assert is_closed(late)
    for one in crowd:
        one.close()
    time.sleep(0.2)
    with raw(strict[1]) as later:
        call(later, 1, "ping")
        assert answer(later) == [1, 1, None, True]


def test_a_client_that_does_not_read_its_answers_is_not_heard_further(strict):
    with raw(strict[1]) as deaf, raw(strict[1]) as other:
        deaf.settimeout(1.0)
        message = b"".join(msgpack.packb([0, n, "simGetImages", [[{"compress": False}]]]) for n in range(100))
        with pytest.raises(TimeoutError):
            for _ in range(2000):
                deaf.sendall(message)
        call(other, 1, "ping")
        assert answer(other) == [1, 1, None, True]


def test_a_client_that_asks_and_asks_does_not_keep_others_waiting(strict):
    with raw(strict[1]) as greedy, raw(strict[1]) as other:
        flood = b"".join(msgpack.packb([2, "getMultirotorState", []]) for _ in range(20_000))
        sender = threading.Thread(target=greedy.sendall, args=(flood,))
        sender.start()
        begin = time.perf_counter()
        for number in range(5):
            call(other, number, "ping")
            assert answer(other) == [1, number, None, True]
        assert time.perf_counter() - begin < 2.0
        sender.join()


def bench(capsys, options):
    main(["bench", "airsim", *options.split()])
    return json.loads(capsys.readouterr().out)


def test_the_benchmark_reports_rates_and_memory(capsys):
    report = bench(capsys, "--seconds 0.2 --requests 300")
    assert report["full"]["cosysairsim"] > 0 and report["memory"]["requests"] == 300


@pytest.mark.slow
def test_500_images_a_second_and_memory_that_stays_flat_over_100_000_requests(capsys):
    report = bench(capsys, "--seconds 3 --requests 100000")
    assert report["full"]["cosysairsim"] > 500 and report["fast"]["raw_each_from_elsewhere"] > 500
    assert report["memory"]["after_mb"] - report["memory"]["before_mb"] < 5


AS_SINCE_3_12 = """
import asyncio, sys
async def wait_closed(self):
    await asyncio.Event().wait()  # as since 3.12 while a client is connected
if sys.version_info < (3, 12):
    asyncio.base_events.Server.wait_closed = wait_closed
from pvn.cli import main
main(sys.argv[1:])
"""


def test_ctrl_c_ends_the_server_though_a_client_is_connected():
    command = [sys.executable, "-c", AS_SINCE_3_12, "serve", "airsim", "--port", "0", "--quality", "fast"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        port = int(process.stdout.readline().split(":")[1].split(",")[0])
        with raw(port) as connection:
            call(connection, 1, "ping")
            assert answer(connection) == [1, 1, None, True]
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
            assert is_closed(connection)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--port 70000", "port: got 70000, expected 0 to 65535"),
        ("--host nowhere.invalid", "expected an address of this machine as --host"),
        ("--host 192.0.2.1", "expected an address of this machine as --host"),
    ],
)
def test_a_port_or_host_that_cannot_be_is_told(options, words, capsys):
    with pytest.raises(SystemExit):
        main(["serve", "airsim", *options.split()])
    message = capsys.readouterr().err
    assert words in message and "another AirSim" not in message


def test_all_is_compiled_before_clients_are_told_to_come(monkeypatch):
    done = []

    def noted(owner, name):
        usual = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *arguments: done.append(name) or usual(*arguments))

    async def serve(*arguments):
        done.append("serve")

    for owner, name in [(Eye, "picture"), (Eye, "measure"), (World, "tick")]:
        noted(owner, name)
    monkeypatch.setattr("pvn.bridges.airsim.server.serve", serve)
    main(["serve", "airsim", "--port", "0"])
    assert sorted(done[:-1]) == ["measure", "picture", "tick"] and done[-1] == "serve"


def test_every_call_a_multirotor_script_uses_is_answered():
    wanted = """ping getServerVersion getMinRequiredClientVersion enableApiControl isApiControlEnabled armDisarm
    takeoff land hover goHome moveByVelocity moveByVelocityZ moveByVelocityBodyFrame moveToPosition rotateToYaw
    rotateByYawRate simGetImages simGetVehiclePose simSetVehiclePose getMultirotorState simGetCollisionInfo
    simListSceneObjects simGetObjectPose simGetCameraInfo simPause simContinueForTime simIsPaused reset""".split()
    assert set(wanted) <= set(CALLS)
