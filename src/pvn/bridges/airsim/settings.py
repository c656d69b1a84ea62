"""What AirSim's settings.json says about vehicles, cameras and sensors, read as AirSim reads it.

Positions and angles are AirSim's: x forward, y right, z down from the vehicle, or north, east, down; degrees in the
file, radians here.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pvn.bridges.shared.frames import Quaternion, Vector, multiply_quaternions
from pvn.bridges.shared.globe import GeoPoint
from pvn.files import parse_json

DISTANCE_SENSOR, LIDAR, GPU_LIDAR = 5, 6, 8
"""AirSim's numbers of the sensor types that can be mounted anywhere."""
MAX_CHANNELS, MAX_POINTS = 1024, 100_000
"""Of one rotation of a lidar; real ones have up to 128 channels."""
_ALIASES = {
    "": "front_center", "0": "front_center", "fpv": "front_center", "front-center": "front_center",
    "1": "front_right", "2": "front_left", "3": "bottom_center", "4": "back_center",
}  # fmt: skip
_ADVICE = "correct the file, docs/airsim.md lists the settings that are read"
AGENT_CAMERA = "pvn"
"""The camera of our agents: at the drone's centre, looking 15 degrees down."""
_NOWHERE: Vector = (0.0, 0.0, 0.0)
_LEVEL: Quaternion = (1.0, 0.0, 0.0, 0.0)


def camera_key(name: Any) -> str:
    """The full name of a camera, which has several names in AirSim."""
    return _ALIASES.get(str(name), str(name))


def rotation_from_angles(roll: float, pitch: float, yaw: float) -> Quaternion:
    """A rotation in AirSim's frames: yaw to the right, then pitch nose up, then roll right side down; radians."""
    about_z = (math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2))
    about_y = (math.cos(pitch / 2), 0.0, math.sin(pitch / 2), 0.0)
    about_x = (math.cos(roll / 2), math.sin(roll / 2), 0.0, 0.0)
    return multiply_quaternions(about_z, multiply_quaternions(about_y, about_x))


@dataclass(frozen=True)
class Capture:
    """The size of one type of image."""

    width: int = 256
    height: int = 144
    view: float = math.radians(90.0)
    """Horizontal field of view."""

    def __post_init__(self) -> None:
        if not (1 <= self.width <= 8192 and 1 <= self.height <= 8192):
            raise ValueError(f"image size: got {self.width} x {self.height}, expected 1 to 8192 pixels each way")
        if not 0 < self.view < math.pi:
            raise ValueError(f"FOV_Degrees: got {math.degrees(self.view):g}, expected more than 0 and less than 180")


@dataclass(frozen=True)
class CameraSettings:
    """A camera as it is mounted at first."""

    position: Vector = _NOWHERE
    rotation: Quaternion = _LEVEL
    captures: Mapping[int, Capture] = field(default_factory=dict)
    """By image type; those missing are as `default_capture`."""
    default_capture: Capture = Capture()


@dataclass(frozen=True)
class SensorSettings:
    """A distance sensor or a lidar."""

    kind: int = LIDAR
    position: Vector = _NOWHERE
    rotation: Quaternion = _LEVEL
    min_distance: float = 0.2
    max_distance: float = 40.0
    num_channels: int = 16
    points_per_rotation: int = 10_000
    horizontal_start: float = 0.0
    horizontal_end: float = 2 * math.pi
    upper: float = math.radians(-15.0)
    """Elevation of the highest channel."""
    lower: float = math.radians(-45.0)
    is_in_sensor_frame: bool = False
    """Whether points are given in the sensor's frame; else north, east, down from the vehicle's home."""


MOUNTS: Mapping[str, tuple[Vector, Quaternion]] = {
    "front_center": ((0.5, 0.0, 0.0), _LEVEL),
    "front_right": ((0.5, 0.125, 0.0), _LEVEL),
    "front_left": ((0.5, -0.125, 0.0), _LEVEL),
    "bottom_center": ((0.0, 0.0, 0.05), rotation_from_angles(0, -math.pi / 2, 0)),
    "back_center": ((-0.5, 0.0, 0.0), rotation_from_angles(0, 0, math.pi)),
}
"""Where AirSim's quadcopter has cameras; the two front ones are 25 cm apart."""


def default_cameras(usual: CameraSettings = CameraSettings()) -> dict[str, CameraSettings]:
    """The cameras that every drone has. usual: what AirSim's own have in common."""
    tilted_down = rotation_from_angles(0, -math.radians(15.0), 0)
    return {name: replace(usual, position=place, rotation=turn) for name, (place, turn) in MOUNTS.items()} | {
        AGENT_CAMERA: CameraSettings(rotation=tilted_down, default_capture=Capture(width=128, height=72))
    }


def default_sensors() -> dict[str, SensorSettings]:
    """A lidar and a distance sensor that looks ahead, so that scripts that read them find some."""
    lidar = SensorSettings(position=(0.0, 0.0, -0.1), max_distance=100.0)
    return {"Distance": SensorSettings(kind=DISTANCE_SENSOR), "LidarSensor1": lidar}


@dataclass(frozen=True, kw_only=True)
class VehicleSettings:
    """One drone."""

    position: Vector = _NOWHERE
    """Where it starts, north, east, down from the middle of the field."""
    yaw: float = 0.0
    """Clockwise from north."""
    is_armed: bool = True
    """Whether it starts armed, as AirSim's do unless DefaultVehicleState is Disarmed."""
    is_floating: bool = False
    """Whether it is AirSim's ComputerVision: cameras that float wherever they are put, in any attitude."""
    cameras: Mapping[str, CameraSettings] = field(default_factory=default_cameras)
    sensors: Mapping[str, SensorSettings] = field(default_factory=default_sensors)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What settings.json says, as far as we use it."""

    vehicles: Mapping[str, VehicleSettings] = field(default_factory=lambda: {"SimpleFlight": VehicleSettings()})
    external_cameras: Mapping[str, CameraSettings] = field(default_factory=dict)
    """Cameras that stand in the field: positions are north, east, down from its middle."""
    origin: GeoPoint = GeoPoint(47.641468, -122.140165, 122.0)
    """The middle of the field on the globe; AirSim's by default."""
    wind: Vector = _NOWHERE
    """m/s, north, east, down."""
    clock_speed: float = 1.0
    text: str = "{}"
    """The file itself, for clients that ask."""

    def __post_init__(self) -> None:
        if not self.vehicles:
            raise ValueError("Vehicles: got none that AutoCreate creates, expected at least one")


def _number(content: Mapping[str, Any], key: str, default: float) -> float:
    value = content.get(key, default)
    if isinstance(value, str) and value.lower() == "nan":
        return default
    # Not math.isfinite, which cannot take whole numbers of hundreds of digits.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise ValueError(f"settings: got {key} {value!r:.60}, expected a number")
    return float(value)


def _child(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = content.get(key, {})
    if not isinstance(value, dict):
        raise ValueError(f"settings: got {key} of type {type(value).__name__}, expected an object in braces")
    return value


def _children(content: Mapping[str, Any], key: str) -> dict[str, dict[str, Any]]:
    named = _child(content, key)
    return {name: _child(named, name) for name in named}


def _position(content: Mapping[str, Any], default: Vector = _NOWHERE) -> Vector:
    x, y, z = (_number(content, key, value) for key, value in zip("XYZ", default, strict=True))
    return x, y, z


def _rotation(content: Mapping[str, Any], default: Quaternion = _LEVEL) -> Quaternion:
    if not any(key in content for key in ("Roll", "Pitch", "Yaw")):
        return default
    roll, pitch, yaw = (math.radians(_number(content, key, 0.0)) for key in ("Roll", "Pitch", "Yaw"))
    return rotation_from_angles(roll, pitch, yaw)


def _captures(content: Mapping[str, Any], before: Mapping[int, Capture], usual: Capture) -> dict[int, Capture]:
    entries = content.get("CaptureSettings", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("settings: got CaptureSettings that is not a list of objects, expected [{...}]")
    captures = dict(before)
    for entry in entries:
        image_type = int(_number(entry, "ImageType", 0))
        old = captures.get(image_type, usual)
        captures[image_type] = Capture(
            width=int(_number(entry, "Width", old.width)),
            height=int(_number(entry, "Height", old.height)),
            view=math.radians(_number(entry, "FOV_Degrees", math.degrees(old.view))),
        )
    return captures


def _cameras(
    entries: Mapping[str, dict[str, Any]], usual: CameraSettings, known: Mapping[str, CameraSettings]
) -> dict[str, CameraSettings]:
    """The known cameras, changed by the entries of their names, and those that entries add, which are like `usual`."""
    cameras = dict(known)
    for name, entry in entries.items():
        old = cameras.get(camera_key(name), usual)
        cameras[camera_key(name)] = replace(
            old,
            position=_position(entry, old.position),
            rotation=_rotation(entry, old.rotation),
            captures=_captures(entry, old.captures, old.default_capture),
        )
    return cameras


def _sensor(entry: Mapping[str, Any], kind: int) -> SensorSettings:
    distances = ("MinDistance", 0.2), ("MaxDistance", 40.0)
    if kind != DISTANCE_SENSOR:
        distances = ("MinDistance", 0.0), ("Range", 100.0)
    min_distance, max_distance = (_number(entry, key, default) for key, default in distances)
    points = _number(entry, "PointsPerSecond", 100_000) / max(_number(entry, "RotationsPerSecond", 10.0), 1e-3)
    start, end = _number(entry, "HorizontalFOVStart", 0.0), _number(entry, "HorizontalFOVEnd", 360.0)
    return SensorSettings(
        kind=kind,
        position=_position(entry),
        rotation=_rotation(entry),
        min_distance=min_distance,
        max_distance=max_distance,
        num_channels=min(max(int(_number(entry, "NumberOfChannels", 16)), 1), MAX_CHANNELS),
        points_per_rotation=min(max(round(points), 1), MAX_POINTS),
        horizontal_start=math.radians(start),
        horizontal_end=math.radians(end if end > start else start + 360.0),  # equal ones mean all around
        upper=math.radians(_number(entry, "VerticalFOVUpper", -15.0)),
        lower=math.radians(_number(entry, "VerticalFOVLower", -45.0)),
        is_in_sensor_frame=entry.get("DataFrame") == "SensorLocalFrame",
    )


def _sensors(entries: Mapping[str, dict[str, Any]]) -> dict[str, SensorSettings]:
    kinds = {name: int(_number(entry, "SensorType", 0)) for name, entry in entries.items()}
    return {
        name: _sensor(entry, kinds[name])
        for name, entry in entries.items()
        if kinds[name] in (DISTANCE_SENSOR, LIDAR, GPU_LIDAR) and entry.get("Enabled", True)
    }


def parse_settings(text: str, capture: Capture = Capture(), where: Path | str = "settings") -> Settings:
    """Settings from the text of a settings.json; `capture` is the image size where it gives none.

    where: what an error calls a text that is not JSON.
    """
    content = parse_json(text, where, _ADVICE)
    if not isinstance(content, dict):
        raise ValueError(f"settings: got {type(content).__name__}, expected an object in braces")
    usual = CameraSettings(captures=_captures(_child(content, "CameraDefaults"), {}, capture), default_capture=capture)
    geo_point, sensors = _child(content, "OriginGeopoint"), _children(content, "DefaultSensors")

    def vehicle(entry: Mapping[str, Any]) -> VehicleSettings:
        return VehicleSettings(
            position=_position(entry),
            yaw=math.radians(_number(entry, "Yaw", 0.0)),
            is_armed=str(entry.get("DefaultVehicleState", "Armed")).lower() not in ("disarmed", "inactive"),
            is_floating=str(entry.get("VehicleType", content.get("SimMode", ""))).lower() == "computervision",
            cameras=_cameras(_children(entry, "Cameras"), usual, default_cameras(usual)),
            sensors=_sensors(sensors | _children(entry, "Sensors")) or default_sensors(),
        )

    return Settings(
        vehicles={
            name: vehicle(entry)
            for name, entry in (_children(content, "Vehicles") or {"SimpleFlight": {}}).items()
            if entry.get("AutoCreate", True)
        },
        external_cameras=_cameras(_children(content, "ExternalCameras"), usual, {}),
        origin=GeoPoint(
            *(_number(geo_point, key.capitalize(), value) for key, value in Settings.origin._asdict().items())
        ),
        wind=_position(_child(content, "Wind")),
        clock_speed=_number(content, "ClockSpeed", 1.0),
        text=text,
    )


def read_settings(path: Path, capture: Capture = Capture()) -> Settings:
    """Settings from a settings.json."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise FileNotFoundError(
            f"settings: cannot read {path} ({error.strerror}), expected AirSim's settings.json"
        ) from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text ({error}); {_ADVICE}") from None
    try:
        return parse_settings(text, capture, path)
    except ValueError as error:
        message = str(error).removeprefix("settings: ")
        raise ValueError(message if str(path) in message else f"{path}: {message}") from None
