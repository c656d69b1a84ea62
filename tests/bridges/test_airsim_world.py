"""Calls that change the world, and what whoever runs the server is told about them."""

import logging
import math

import numpy as np
import pytest

from pvn.bridges.airsim.host import MAX_TOLD
from pvn.bridges.airsim.images import segmentation_colours
from pvn.bridges.airsim.settings import (
    CameraSettings,
    Settings,
    VehicleSettings,
    parse_settings,
    rotation_from_angles,
)

cosysairsim = pytest.importorskip("cosysairsim", reason='needs the AirSim client: pip install "pvn-drone[airsim]"')
RPCError = pytest.importorskip("msgpackrpc.error").RPCError
Vector3r, Pose, Quaternionr = cosysairsim.Vector3r, cosysairsim.Pose, cosysairsim.Quaternionr


def connect(served):
    client = cosysairsim.MultirotorClient(port=served.port, timeout_value=60)
    client.enableApiControl(True)
    return client


@pytest.fixture(scope="module")
def connection(serve):
    with serve(quality="fast") as served:
        yield connect(served)


@pytest.fixture
def client(connection):
    """A client whose drone hovers 5 m above the middle of the field."""
    connection.reset()
    connection.enableApiControl(True)
    connection.simSetVehiclePose(Pose(Vector3r(0, 0, -5)), True)
    return connection


def position_of(client, vehicle_name=""):
    position = client.simGetVehiclePose(vehicle_name).position
    return np.array([position.x_val, position.y_val, position.z_val])


def image_of(client, camera, image_type):
    (response,) = client.simGetImages([cosysairsim.ImageRequest(camera, image_type, False, False)])
    return np.frombuffer(response.image_data_uint8, np.uint8).reshape(response.height, response.width, 3)[..., ::-1]


def test_a_refused_motion_is_told_once_on_the_servers_console(client, caplog):
    client.enableApiControl(False)
    with caplog.at_level(logging.WARNING, logger="pvn.bridges"):
        for _ in range(3):
            client.moveToPositionAsync(1, 0, -4, 2).join()  # which raises nothing, whatever the answer
    told = [record.message for record in caplog.records]
    assert told == ["refused: moveToPosition: API control is off; call enableApiControl(True) first"]


def test_a_script_that_prints_a_counter_does_not_silence_what_is_refused_later(serve, caplog):
    with serve(quality="fast") as served, caplog.at_level(logging.WARNING, logger="pvn.bridges"):
        client = connect(served)
        for number in range(MAX_TOLD + 20):
            client.simPrintLogMessage("step ", str(number))
        assert len(caplog.messages) == MAX_TOLD + 1 and caplog.messages[:2] == ["step  0", "step  1"]
        assert caplog.messages[-1] == "200 messages of scripts: no more are printed"
        with pytest.raises(RPCError):
            client.simGetCameraInfo("back")
    assert "refused: simGetCameraInfo: camera: got 'back'" in caplog.messages[-1]


@pytest.mark.long
def test_a_goal_beyond_the_border_is_flown_as_far_as_the_border(client, caplog):
    with caplog.at_level(logging.WARNING, logger="pvn.bridges"):
        assert client.moveToPositionAsync(80, 0, -5, 12).get() is True
    assert position_of(client) == pytest.approx([35, 0, -5], abs=0.2), "10 m beyond the fence"
    assert "flown to (35, 0, -5) instead; --border open has no fence" in caplog.text


def test_meeting_the_border_is_told(serve, caplog):
    with serve(quality="fast") as served, caplog.at_level(logging.WARNING, logger="pvn.bridges"):
        client = connect(served)
        client.simSetVehiclePose(Pose(Vector3r(34, 0, -5)), True)
        client.moveByVelocityAsync(4, 0, 0, 2).join()
        assert position_of(client)[0] == pytest.approx(35)
    assert caplog.messages == ["a drone has met the border, 10 m beyond the fences; --border open has none"]


def test_a_goal_beyond_the_border_can_be_refused(serve):
    with serve(border="refuse") as served:
        client = connect(served)
        with pytest.raises(RPCError, match="the nearest place is .35, 0, -5.; start the server with --border open"):
            client.moveToPositionAsync(80, 0, -5, 12).get()
        with pytest.raises(RPCError, match="simSetVehiclePose: got position .500, 0, -5."):
            client.simSetVehiclePose(Pose(Vector3r(500, 0, -5)), True)


@pytest.mark.long
def test_an_open_world_has_no_border_and_is_flown_alike_within_the_field(serve, client):
    with serve(border="open") as served:
        other = connect(served)
        other.simSetVehiclePose(Pose(Vector3r(0, 0, -5)), True)
        for one in (client, other):
            one.moveByVelocityAsync(3, 1, -0.5, 2).join()
        assert position_of(other) == pytest.approx(position_of(client), abs=1e-9)
        assert other.moveToPositionAsync(45, 0, -8, 12).get() is True
        assert position_of(other) == pytest.approx([45, 0, -8], abs=0.2)
        other.simSetVehiclePose(Pose(Vector3r(500, -300, -150)), True)
        assert position_of(other) == pytest.approx([500, -300, -150], abs=1e-6)


def test_cameras_look_where_airsims_do(client):
    places = {name: client.simGetCameraInfo(name).pose.position for name in "01234"}
    assert [places[name].y_val for name in "12"] == pytest.approx([0.125, -0.125]), "front right, front left"
    assert [places[name].x_val for name in "04"] == pytest.approx([0.5, -0.5]), "front and back"
    ahead = image_of(client, "0", 0)
    assert ahead.shape == (144, 256, 3), "AirSim's size"
    for name in ("front_center", "fpv", ""):
        assert (image_of(client, name, 0) == ahead).all()
    assert (image_of(client, "back_center", 0) != ahead).any(-1).mean() > 0.5
    (down,) = client.simGetImages([cosysairsim.ImageRequest("bottom_center", 1, True, False)])
    assert np.median(down.image_data_float) == pytest.approx(5.05, abs=0.02), "5 cm below the drone's centre"


def test_a_cameras_field_of_view_can_be_set_and_is_reset(client):
    (before,) = client.simGetImages([cosysairsim.ImageRequest("3", 2, True, False)])
    client.simSetCameraFov("3", 30)
    assert client.simGetCameraInfo("bottom_center").fov == pytest.approx(30)
    (after,) = client.simGetImages([cosysairsim.ImageRequest("3", 2, True, False)])
    assert after.image_data_float[0] / before.image_data_float[0] == pytest.approx(
        math.hypot(1, math.tan(math.radians(15)) * 1.147) / math.hypot(1, 1.147), rel=0.02
    ), "the corner of the picture is nearer to its middle"
    client.reset()
    assert client.simGetCameraInfo("3").fov == pytest.approx(90)


def test_a_camera_can_stand_in_the_field(serve):
    tower = CameraSettings((0.0, 0.0, -10.0), rotation_from_angles(0.0, -math.pi / 2, 0.0))
    with serve(settings=Settings(external_cameras={"tower": tower}), quality="fast") as served:
        client = connect(served)
        request = {"camera_name": "tower", "image_type": 1, "pixels_as_float": True, "compress": False}
        ((response),) = client.client.call("simGetImages", [request], "", True)
        assert np.median(response["image_data_float"]) == pytest.approx(10.1, abs=0.1)
        with pytest.raises(RPCError, match="external camera: got 'mast', expected tower"):
            client.client.call("simGetCameraInfo", "mast", "", True)


def test_objects_can_be_spawned_moved_numbered_and_destroyed(client):
    names = client.simListSceneObjects()
    assert "Windmill" in client.simListAssets()
    made = client.simSpawnObject("mill", "Windmill", Pose(Vector3r(9, 4, 0)), Vector3r(1, 1, 1))
    assert made == "mill" and client.simListSceneObjects() == [*names, "mill"]
    assert client.simSetSegmentationObjectID("MI.*", 77, True) and client.simGetSegmentationObjectID("mill") == 77
    colour = segmentation_colours(77)
    before = (image_of(client, "0", 5) == colour).all(-1)
    assert 50 < before.sum() and np.nonzero(before)[1].mean() > 128, "it is on the right"
    assert client.simSetObjectPose("mill", Pose(Vector3r(9, -4, 0)))
    after = (image_of(client, "0", 5) == colour).all(-1)
    assert 50 < after.sum() and np.nonzero(after)[1].mean() < 128, "and now on the left"
    assert client.simSetObjectScale("mill", Vector3r(0.6, 0.6, 0.6)) and client.simGetObjectScale("mill").x_val < 0.61
    assert client.simDestroyObject("mill") and not client.simDestroyObject("mill")
    assert client.simListSceneObjects() == names and not (image_of(client, "0", 5) == colour).all(-1).any()


def test_whoever_lifts_or_tilts_an_object_is_told_that_it_stands_upright_on_the_ground(client, caplog):
    name = client.simListSceneObjects()[0]
    pose = client.simGetObjectPose(name)
    with caplog.at_level(logging.WARNING, logger="pvn.bridges"):
        assert client.simSetObjectPose(name, pose) and not caplog.records, "it stands as it stood"
        for lifted, tilted in ((2.0, 0.0), (0.0, 0.1)):
            other = Pose(pose.position - Vector3r(0, 0, lifted), cosysairsim.euler_to_quaternion(tilted, 0, 0))
            assert client.simSetObjectPose(name, other)
        told = [record.message for record in caplog.records]
    assert len(told) == 1 and "objects stand upright on the ground here" in told[0]
    assert client.simGetObjectPose(name).position.z_val == pytest.approx(pose.position.z_val)


def test_what_is_no_landmark_has_segmentation_numbers_too(client):
    assert client.simSetSegmentationObjectID("ground", 20) and client.simSetSegmentationObjectID("SkySphere", 42)
    image = image_of(client, "pvn", 5)
    assert (image[-1] == segmentation_colours(20)).all(-1).any() and (image[0] == segmentation_colours(42)).all()
    assert client.simSetSegmentationObjectID("(Ground|SkySphere)", 0, True)
    assert not client.simSetSegmentationObjectID("Nothing", 3)


def test_an_object_that_does_not_fit_is_refused(client):
    with pytest.raises(RPCError, match="stands outside the field"):
        client.simSpawnObject("far", "Barrel", Pose(Vector3r(60, 0, 0)), Vector3r(1, 1, 1))
    with pytest.raises(RPCError, match="asset: got 'Dragon', expected one of the names that simListAssets returns"):
        client.simSpawnObject("d", "Dragon", Pose(), Vector3r(1, 1, 1))
    assert not client.simSetObjectPose(client.simListSceneObjects()[0], Pose(Vector3r(60, 0, 0)))


def test_detections_have_the_boxes_of_what_a_camera_sees(client, layout):
    assert client.simGetDetections("0", 0) == [], "nothing was asked for"
    client.simAddDetectionFilterMeshName("0", 0, "*")
    client.simSetDetectionFilterRadius("0", 0, 100 * 100)
    found = client.simGetDetections("0", 0)
    segments = image_of(client, "0", 5)
    names = client.simListSceneObjects()
    assert len(found) >= 2
    for one in found:
        rows, columns = np.nonzero((segments == segmentation_colours(names.index(one.name) + 1)).all(-1))
        box = one.box2D
        assert (box.min.x_val, box.min.y_val) == (columns.min(), rows.min())
        assert (box.max.x_val, box.max.y_val) == (columns.max() + 1, rows.max() + 1)
        assert one.relative_pose.position.x_val > 0, "ahead of the camera"


@pytest.mark.long
def test_wind_leans_the_drone_and_blows_it_off_its_place_before_it_holds_it(client):
    client.simSetWind(Vector3r(0, 8, 0))
    client.moveByVelocityAsync(0, 0, 0, 1.0).join()
    assert client.getMultirotorState().kinematics_estimated.linear_velocity.y_val > 0.2, "blown to the east"
    client.moveByVelocityAsync(0, 0, 0, 8.0).join()
    state = client.getMultirotorState().kinematics_estimated
    assert abs(state.linear_velocity.y_val) < 0.1, "it holds against the wind"
    assert state.orientation.x_val < -0.1, "leaning to the left, into it"
    client.simSetWind(Vector3r(0, 0, 0))


def test_a_given_state_is_taken_over(client):
    state = client.simGetGroundTruthKinematics()
    state.position, state.linear_velocity = Vector3r(3, 2, -9), Vector3r(1, -2, 0)
    client.simPause(True)
    client.simSetKinematics(state, True)
    assert position_of(client) == pytest.approx([3, 2, -9])
    client.simContinueForFrames(10)
    assert client.simIsPause() and position_of(client) == pytest.approx([3.1, 1.8, -9], abs=0.02), "ten ticks of 10 ms"
    client.simPause(False)


def test_attitudes_are_flown(client):
    client.moveByRollPitchYawZAsync(0.0, 0.2, 0.0, -5, 1.5).join()  # the client's pitch is nose down
    state = client.getMultirotorState().kinematics_estimated
    assert 2 * math.asin(state.orientation.y_val) == pytest.approx(-0.2, abs=0.02)
    assert state.linear_velocity.x_val > 1.5 and state.position.z_val == pytest.approx(-5, abs=0.2)


def test_the_remote_controls_sticks_fly_a_manual_motion(client):
    client.moveByRC(cosysairsim.RCData(pitch=0.5, is_initialized=True, is_valid=True))
    client.moveByManualAsync(vx_max=4, vy_max=4, z_min=-20, duration=2).join()
    assert client.getMultirotorState().kinematics_estimated.linear_velocity.x_val == pytest.approx(2, abs=0.2)
    client.moveByRC(cosysairsim.RCData(yaw=0.25, is_initialized=True, is_valid=True))
    client.moveByManualAsync(vx_max=4, vy_max=4, z_min=-20, duration=2).join()
    turning = client.getMultirotorState().kinematics_estimated.angular_velocity.z_val
    assert turning == pytest.approx(math.radians(30), abs=0.05), "clockwise, about the axis that points down"
    assert client.getImuData().angular_velocity.z_val == pytest.approx(turning, abs=0.01)


def test_rotors_come_in_airsims_order_front_right_rear_left_front_left_rear_right(client):
    for velocity, faster in (((5, 0), (1, 3)), ((0, 5), (1, 2))):
        client.simSetVehiclePose(Pose(Vector3r(0, 0, -5)), True)
        client.simPause(True)
        client.moveByVelocityAsync(*velocity, 0, 5)
        client.simContinueForFrames(5)
        speeds = [rotor["speed"] for rotor in client.getRotorStates().rotors]
        client.simPause(False)
        assert set(np.argsort(speeds)[2:]) == set(faster), "the drone leans forward, and to the right"


@pytest.mark.long
def test_two_drones_fly_at_once_each_from_its_own_home(serve):
    vehicles = {
        "Drone1": VehicleSettings(position=(4.0, 0.0, -2.0)),
        "Drone2": VehicleSettings(position=(8.0, 0.0, 0.0)),
    }
    with serve(settings=Settings(vehicles=vehicles), quality="fast") as served:
        client = connect(served)
        client.enableApiControl(True, "Drone2")
        assert client.simAddVehicle("Drone3", "simpleflight", Pose(Vector3r(0, 5, 0)))
        assert client.listVehicles() == ["Drone1", "Drone2", "Drone3"]
        futures = [
            client.moveToPositionAsync(0, east, -4, 3, vehicle_name=name)
            for name, east in (("Drone1", 3), ("Drone2", -3))
        ]
        assert [future.get() for future in futures] == [True, True]
        assert position_of(client, "Drone1") == pytest.approx([0, 3, -4], abs=0.2)
        assert position_of(client, "Drone2") == pytest.approx([0, -3, -4], abs=0.2)
        assert served.host.find_drone("Drone2").vehicle.state.position[1] == pytest.approx(33, abs=0.2), (
            "8 m further north"
        )
        assert position_of(client, "Drone3") == pytest.approx([0, 0, 0])


def test_a_computer_vision_vehicle_floats_where_it_is_put_in_any_attitude(serve):
    with serve(settings=parse_settings('{"SimMode": "ComputerVision"}'), quality="fast") as served:
        client = connect(served)
        nose_down = cosysairsim.Quaternionr(0, math.sin(-math.pi / 4), 0, math.cos(math.pi / 4))
        client.simSetVehiclePose(Pose(Vector3r(1, 2, -8), nose_down), True)
        client.simContinueForFrames(50)
        assert position_of(client) == pytest.approx([1, 2, -8])
        (down,) = client.simGetImages([cosysairsim.ImageRequest("0", 1, True, False)])
        assert np.median(down.image_data_float) == pytest.approx(7.6, abs=0.02), "its camera is 0.5 m ahead, so below"
        with pytest.raises(RPCError, match="a vehicle of type ComputerVision does not fly"):
            client.takeoffAsync().get()


def test_sight_ends_at_the_ground(client):
    home = client.getHomeGeoPoint()
    home.altitude += 20
    assert client.simTestLineOfSightToPoint(home), "straight up"
    below = client.getHomeGeoPoint()
    below.altitude -= 20
    assert not client.simTestLineOfSightBetweenPoints(home, below), "through the ground"
    assert client.simTestLineOfSightBetweenPoints(home, home), "a point sees itself"
    south_west, north_east = client.simGetWorldExtents()
    assert south_west.latitude < home.latitude < north_east.latitude


def test_calls_without_effect_are_accepted_and_told_once(client, caplog):
    with caplog.at_level(logging.WARNING, logger="pvn.bridges"):
        for _ in range(2):
            client.simSetTraceLine([1.0, 0.0, 0.0, 1.0], 5)
        client.simPrintLogMessage("height: ", "5")
    assert caplog.messages == ["simSetTraceLine: accepted, but does nothing here", "height:  5"]


@pytest.mark.long
def test_a_pattern_that_would_take_years_is_refused_and_others_are_served_meanwhile(client):
    names = client.simListSceneObjects()
    slow = client.client.call_async("simListSceneObjects", "(.*)" * 20 + "=")
    assert client.simListSceneObjects(f"{names[0].lower()}|none") == [names[0]], "whatever the case"
    with pytest.raises(RPCError, match="takes too long to match; simplify it"):
        slow.get()
