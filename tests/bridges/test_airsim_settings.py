"""AirSim's settings.json: what is read from it, and what is said about one that cannot be."""

import json
import math

import pytest

from pvn.bridges.airsim.settings import LIDAR, Capture, parse_settings, read_settings

SETTINGS = {
    "SettingsVersion": 1.2,
    "SimMode": "Multirotor",
    "ClockSpeed": 2,
    "OriginGeopoint": {"Latitude": 52.0, "Longitude": 13.0, "Altitude": 40},
    "Wind": {"X": 1, "Y": 2, "Z": 0},
    "CameraDefaults": {"CaptureSettings": [{"ImageType": 0, "Width": 640, "Height": 480, "FOV_Degrees": 120}]},
    "ExternalCameras": {"tower": {"X": 5, "Z": -10, "Pitch": -90}},
    "Vehicles": {
        "Drone1": {
            "VehicleType": "SimpleFlight",
            "X": 4, "Y": -2, "Z": -2, "Yaw": 90,
            "Cameras": {
                "1": {"X": 0.25, "Y": 0.1, "Z": "nan"},
                "gimbal": {"Pitch": -45, "CaptureSettings": [{"ImageType": 1, "Width": 32}]},
            },
            "Sensors": {
                "Imu": {"SensorType": 2, "Enabled": True},
                "Top": {"SensorType": 6, "Enabled": True, "Range": 12, "NumberOfChannels": 1, "PointsPerSecond": 8000,
                        "VerticalFOVUpper": 0, "VerticalFOVLower": 0, "DataFrame": "SensorLocalFrame"},
            },
        },
        "Drone2": {"VehicleType": "SimpleFlight", "DefaultVehicleState": "Disarmed"},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def settings():
    return parse_settings(json.dumps(SETTINGS))


def test_vehicles_have_their_names_places_and_arming(settings):
    first, second = settings.vehicles["Drone1"], settings.vehicles["Drone2"]
    assert first.position == (4, -2, -2) and first.yaw == pytest.approx(math.pi / 2) and first.is_armed
    assert second.position == (0, 0, 0) and not second.is_armed


def test_cameras_that_airsim_has_are_changed_and_others_added(settings):
    cameras = settings.vehicles["Drone1"].cameras
    assert cameras["front_right"].position == (0.25, 0.1, 0.0), '"1" is its number; nan leaves what AirSim has'
    assert cameras["front_center"].position == (0.5, 0, 0) and "pvn" in cameras
    assert cameras["gimbal"].rotation == pytest.approx((math.cos(math.pi / 8), 0, -math.sin(math.pi / 8), 0))
    assert cameras["gimbal"].captures[1] == Capture(width=32), "the height is the usual one"
    assert cameras["back_center"].captures[0] == Capture(640, 480, math.radians(120)), "CameraDefaults are for all"
    assert settings.external_cameras["tower"].position == (5, 0, -10)


def test_sensors_that_can_be_mounted_are_read(settings):
    (name, lidar), = settings.vehicles["Drone1"].sensors.items()  # fmt: skip
    assert name == "Top" and lidar.kind == LIDAR and lidar.max_distance == 12 and lidar.points_per_rotation == 800
    assert lidar.is_in_sensor_frame and lidar.upper == lidar.lower == 0


def test_the_origin_the_wind_and_the_clock_are_read(settings):
    assert settings.origin == (52, 13, 40) and settings.wind == (1, 2, 0) and settings.clock_speed == 2
    assert json.loads(settings.text) == SETTINGS


def test_without_vehicles_there_is_one_as_without_settings():
    (vehicle,) = parse_settings('{"SettingsVersion": 1.2}').vehicles.values()
    assert vehicle.is_armed and {"Distance", "LidarSensor1"} == set(vehicle.sensors)
    assert vehicle.cameras["front_center"].default_capture == Capture(256, 144)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "settings: not valid JSON"),
        ("[]", "got list, expected an object in braces"),
        ('{"Vehicles": 3}', "got Vehicles of type int"),
        ('{"Vehicles": {"A": {"X": "far"}}}', "got X 'far', expected a number"),
        ('{"Vehicles": {"A": {"X": 1' + "0" * 400 + "}}}", "000000, expected a number"),
        ('{"ClockSpeed": Infinity}', "got ClockSpeed inf, expected a number"),
        ('{"CameraDefaults": {"CaptureSettings": [{"Width": 0}]}}', "image size: got 0 x 144"),
        ('{"CameraDefaults": {"CaptureSettings": [{"FOV_Degrees": 180}]}}', "FOV_Degrees: got 180"),
        ('{"Vehicles": {"A": {"AutoCreate": false}}}', "Vehicles: got none that AutoCreate creates"),
        ('{"CameraDefaults": {"CaptureSettings": {}}}', "CaptureSettings that is not a list"),
    ],
)
def test_settings_that_cannot_be_read_are_explained(text, words):
    with pytest.raises(ValueError) as caught:
        parse_settings(text)
    assert words in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"cannot read .*nowhere\.json"):
        read_settings(tmp_path / "nowhere.json")
