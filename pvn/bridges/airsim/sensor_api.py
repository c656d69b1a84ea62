"""The calls of the AirSim API about the vehicle's state, what it sees and touches, and the objects in the field."""

from __future__ import annotations

import math
import re
from collections.abc import Coroutine
from typing import Any

from pvn.bridges.airsim.frames import rotation_from_yaw, swap_rates, swap_rotation, swap_vector, to_ned
from pvn.bridges.airsim.host import CAMERA_NAMES, Host
from pvn.bridges.airsim.images import IMAGE_TYPES, SCENE, SEGMENTATION, ImageRequest
from pvn.bridges.airsim.wire_types import encode_pose, encode_quaternion, encode_vector, parse_pose

MAX_IMAGES = 16
MAX_PATTERN_LENGTH = 200


def simGetVehiclePose(host: Host, vehicle_name: str = "") -> dict[str, Any]:
    """The vehicle's pose, NED."""
    return encode_pose(host.vehicle.position, host.vehicle.rotation)


def _has_nan(values: Any) -> bool:
    return isinstance(values, dict) and any(isinstance(one, float) and math.isnan(one) for one in values.values())


def simSetVehiclePose(host: Host, vehicle_pose: Any, ignore_collision: Any = True, vehicle_name: str = "") -> None:
    """Move the vehicle to a pose at once, level and at rest; its motion ends.

    A position or orientation that contains NaN is left as it is.
    """
    if isinstance(vehicle_pose, dict):
        current = simGetVehiclePose(host)
        vehicle_pose = {
            part: current[part] if _has_nan(vehicle_pose.get(part)) else vehicle_pose.get(part) for part in current
        }
    host.vehicle.teleport(*parse_pose(vehicle_pose))


def _kinematics(host: Host) -> dict[str, Any]:
    vehicle = host.vehicle
    return {
        **encode_pose(vehicle.position, vehicle.rotation),
        "linear_velocity": encode_vector(swap_vector(vehicle.velocity)),
        "angular_velocity": encode_vector(swap_rates(vehicle.rates_body)),
        "linear_acceleration": encode_vector(swap_vector(vehicle.acceleration)),
        "angular_acceleration": encode_vector((0.0, 0.0, 0.0)),
    }


def simGetGroundTruthKinematics(host: Host, vehicle_name: str = "") -> dict[str, Any]:
    """Pose, velocities and accelerations, NED; angular accelerations are not computed and always 0."""
    return _kinematics(host)


def simGetCollisionInfo(host: Host, vehicle_name: str = "") -> dict[str, Any]:
    """The last collision since the last reset; collisions are reported, but do not stop the vehicle."""
    collision = host.last_collision
    position = encode_vector(to_ned(collision.position)) if collision else encode_vector((0.0, 0.0, 0.0))
    return {
        "has_collided": collision is not None,
        "normal": encode_vector((0.0, 0.0, 0.0)),
        "impact_point": position,
        "position": position,
        "penetration_depth": 0.0,
        "time_stamp": collision.time_ns if collision else 0,
        "object_name": host.object_names[collision.landmark_index] if collision else "",
        "object_id": collision.landmark_index + 1 if collision else -1,
    }


_HOME_LATITUDE, _HOME_LONGITUDE, _HOME_ALTITUDE = 47.641468, -122.140165, 122.0  # AirSim's default home
_METRES_PER_DEGREE = 111_319.5


def _geo_point(host: Host) -> dict[str, float]:
    north, east, down = to_ned(host.vehicle.position)
    metres_per_degree_east = _METRES_PER_DEGREE * math.cos(math.radians(_HOME_LATITUDE))
    return {
        "latitude": _HOME_LATITUDE + north / _METRES_PER_DEGREE,
        "longitude": _HOME_LONGITUDE + east / metres_per_degree_east,
        "altitude": _HOME_ALTITUDE - down,
    }


def getHomeGeoPoint(host: Host, vehicle_name: str = "") -> dict[str, float]:
    """Latitude, longitude and altitude of AirSim's default home."""
    return {"latitude": _HOME_LATITUDE, "longitude": _HOME_LONGITUDE, "altitude": _HOME_ALTITUDE}


def getMultirotorState(host: Host, vehicle_name: str = "") -> dict[str, Any]:
    """The vehicle's complete state; there is no remote control."""
    remote = dict.fromkeys(("pitch", "roll", "throttle", "yaw"), 0.0)
    switches = {f"switch{number}": 0 for number in range(1, 9)}
    return {
        "collision": simGetCollisionInfo(host),
        "kinematics_estimated": _kinematics(host),
        "gps_location": _geo_point(host),
        "timestamp": host.vehicle.time_ns,
        "landed_state": 0 if host.vehicle.is_landed else 1,
        "rc_data": {"timestamp": 0, **remote, **switches, "is_initialized": False, "is_valid": False},
        "ready": True,
        "ready_message": "",
        "can_arm": True,
    }


def _check_camera(name: Any) -> None:
    if str(name) not in CAMERA_NAMES:
        raise ValueError(f"camera: got {name!r}, expected one of {', '.join(CAMERA_NAMES)}, all the same camera")


def _parse_image_request(request: Any) -> ImageRequest:
    if not isinstance(request, dict):
        raise ValueError(f"simGetImages: got a request of {type(request).__name__}, expected an ImageRequest")
    _check_camera(request.get("camera_name", "0"))
    image_type = request.get("image_type", SCENE)
    if image_type not in IMAGE_TYPES:
        known = ", ".join(f"{name} ({number})" for number, name in IMAGE_TYPES.items())
        raise ValueError(f"image_type: got {image_type!r}, expected one of {known}")
    is_float = bool(request.get("pixels_as_float", False))
    if is_float and image_type in (SCENE, SEGMENTATION):
        raise ValueError(f"pixels_as_float: got True for {IMAGE_TYPES[image_type]}, expected a depth type")
    return ImageRequest(image_type, is_float, bool(request.get("compress", True)))


async def _images(host: Host, requests: list[ImageRequest]) -> list[dict[str, Any]]:
    """Images of the moment of the call, rendered in other threads."""
    position, rotation = host.camera_pose()
    shared = {
        "camera_position": encode_vector(to_ned(position)),
        "camera_orientation": encode_quaternion(swap_rotation(rotation)),
        "time_stamp": host.vehicle.time_ns,
        "message": "",
        "width": host.camera.width,
        "height": host.camera.height,
    }
    images = host.render_images(requests)
    return [
        {
            **shared,
            **await image,
            "pixels_as_float": request.is_float,
            "compress": request.is_compressed,
            "image_type": request.image_type,
        }
        for request, image in zip(requests, images, strict=True)
    ]


def simGetImages(
    host: Host, requests: Any, vehicle_name: str = "", *rest: Any
) -> Coroutine[Any, Any, list[dict[str, Any]]]:
    """Several images of the same moment."""
    if not isinstance(requests, list) or not 1 <= len(requests) <= MAX_IMAGES:
        got = len(requests) if isinstance(requests, list) else type(requests).__name__
        raise ValueError(f"simGetImages: got {got} requests, expected a list of 1 to {MAX_IMAGES}")
    return _images(host, [_parse_image_request(request) for request in requests])


def simGetImage(
    host: Host, camera_name: Any, image_type: Any, vehicle_name: str = "", *rest: Any
) -> Coroutine[Any, Any, bytes]:
    """One image as a PNG file."""
    request = _parse_image_request({"camera_name": camera_name, "image_type": image_type})

    async def png() -> bytes:
        images = await _images(host, [request])
        data: bytes = images[0]["image_data_uint8"]
        return data

    return png()


def simGetCameraInfo(host: Host, camera_name: Any, vehicle_name: str = "", *rest: Any) -> dict[str, Any]:
    """The camera's pose, NED, its horizontal field of view, degrees, and its projection matrix.

    The matrix is that of a pinhole camera, without near and far planes.
    """
    _check_camera(camera_name)
    position, rotation = host.camera_pose()
    across = 1 / math.tan(host.camera.horizontal_view / 2)
    down = across * host.camera.width / host.camera.height
    matrix = [[across, 0.0, 0.0, 0.0], [0.0, down, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0]]
    view = math.degrees(host.camera.horizontal_view)
    return {"pose": encode_pose(position, rotation), "fov": view, "proj_mat": {"matrix": matrix}}


def simSetCameraPose(host: Host, camera_name: Any, camera_pose: Any, vehicle_name: str = "", *rest: Any) -> None:
    """Turn the camera relative to the body; its position stays at the drone's centre."""
    _check_camera(camera_name)
    # Unlike in a vehicle's pose, both frames are body frames: y and z change sign, and north and east do not come in.
    w, x, y, z = parse_pose(camera_pose)[1]
    host.camera_mount = (w, x, -y, -z)


def simListSceneObjects(host: Host, name_regex: Any = ".*") -> list[str]:
    """Names of the landmarks that match a regular expression."""
    if not isinstance(name_regex, str) or len(name_regex) > MAX_PATTERN_LENGTH:
        got = f"{len(name_regex)} characters" if isinstance(name_regex, str) else type(name_regex).__name__
        raise ValueError(
            f"name_regex: got {got}, expected a regular expression of at most {MAX_PATTERN_LENGTH} characters"
        )
    try:
        pattern = re.compile(name_regex)
    except re.error as error:
        raise ValueError(f"name_regex: got {name_regex!r}, expected a regular expression: {error}") from None
    return [name for name in host.object_names if pattern.fullmatch(name)]


def simGetObjectPose(host: Host, object_name: Any, *rest: Any) -> dict[str, Any]:
    """A landmark's pose, NED; NaN for an unknown name, as in AirSim."""
    if object_name not in host.object_names:
        nan = (math.nan,) * 3
        return {"position": encode_vector(nan), "orientation": encode_quaternion((math.nan, *nan))}
    landmark = host.renderer.layout.landmarks[host.object_names.index(object_name)]
    return encode_pose((landmark.x, landmark.y, 0.0), rotation_from_yaw(landmark.yaw))


def simGetSegmentationObjectID(host: Host, mesh_name: Any) -> int:
    """A landmark's number in segmentation images; -1 for an unknown name."""
    return host.object_names.index(mesh_name) + 1 if mesh_name in host.object_names else -1
