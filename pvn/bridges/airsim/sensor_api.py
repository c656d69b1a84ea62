"""The calls of the AirSim API that tell what the vehicle is, sees and touches, and what is in the field."""

from __future__ import annotations

import math
import re
from collections.abc import Coroutine
from typing import Any

from pvn.bridges.airsim.frames import swap_rates, swap_rotation, swap_vector, to_ned, turned
from pvn.bridges.airsim.host import CAMERAS, Service
from pvn.bridges.airsim.images import IMAGE_TYPES, SCENE, SEGMENTATION, Asked
from pvn.bridges.airsim.wire_types import pose, pose_of, quaternion, vector

MOST_IMAGES = 16
LONGEST_PATTERN = 200


def simGetVehiclePose(service: Service, vehicle_name: str = "") -> dict[str, Any]:
    """Where the vehicle is, NED."""
    return pose(service.world.position, service.world.rotation)


def _is_nan(values: Any) -> bool:
    return isinstance(values, dict) and any(isinstance(one, float) and math.isnan(one) for one in values.values())


def simSetVehiclePose(
    service: Service, vehicle_pose: Any, ignore_collision: Any = True, vehicle_name: str = ""
) -> None:
    """Put the vehicle somewhere else, level and at rest; what it was doing ends. A part that is NaN stays as it is."""
    if isinstance(vehicle_pose, dict):
        kept = simGetVehiclePose(service)
        vehicle_pose = {
            name: kept[name] if _is_nan(vehicle_pose.get(name)) else vehicle_pose.get(name) for name in kept
        }
    service.world.place(*pose_of(vehicle_pose))


def _kinematics(service: Service) -> dict[str, Any]:
    world = service.world
    return {
        **pose(world.position, world.rotation),
        "linear_velocity": vector(swap_vector(world.velocity)),
        "angular_velocity": vector(swap_rates(world.rates)),
        "linear_acceleration": vector(swap_vector(world.acceleration)),
        "angular_acceleration": vector((0.0, 0.0, 0.0)),
    }


def simGetGroundTruthKinematics(service: Service, vehicle_name: str = "") -> dict[str, Any]:
    """Pose, velocities and accelerations, NED; angular accelerations are not kept and are 0."""
    return _kinematics(service)


def simGetCollisionInfo(service: Service, vehicle_name: str = "") -> dict[str, Any]:
    """The last thing touched since the last reset; nothing stops the vehicle, landmarks only notice it."""
    touch = service.touch
    place = vector(to_ned(touch.position)) if touch else vector((0.0, 0.0, 0.0))
    return {
        "has_collided": touch is not None,
        "normal": vector((0.0, 0.0, 0.0)),
        "impact_point": place,
        "position": place,
        "penetration_depth": 0.0,
        "time_stamp": touch.time_ns if touch else 0,
        "object_name": service.names[touch.landmark] if touch else "",
        "object_id": touch.landmark + 1 if touch else -1,
    }


_HOME_LATITUDE, _HOME_LONGITUDE, _HOME_ALTITUDE = 47.641468, -122.140165, 122.0  # AirSim's default home
_METRES_PER_DEGREE = 111_319.5


def _geo_point(service: Service) -> dict[str, float]:
    north, east, down = to_ned(service.world.position)
    across = _METRES_PER_DEGREE * math.cos(math.radians(_HOME_LATITUDE))
    return {
        "latitude": _HOME_LATITUDE + north / _METRES_PER_DEGREE,
        "longitude": _HOME_LONGITUDE + east / across,
        "altitude": _HOME_ALTITUDE - down,
    }


def getHomeGeoPoint(service: Service, vehicle_name: str = "") -> dict[str, float]:
    """AirSim's default home on the globe."""
    return {"latitude": _HOME_LATITUDE, "longitude": _HOME_LONGITUDE, "altitude": _HOME_ALTITUDE}


def getMultirotorState(service: Service, vehicle_name: str = "") -> dict[str, Any]:
    """All of the vehicle; there is no remote control."""
    remote = dict.fromkeys(("pitch", "roll", "throttle", "yaw"), 0.0)
    switches = {f"switch{number}": 0 for number in range(1, 9)}
    return {
        "collision": simGetCollisionInfo(service),
        "kinematics_estimated": _kinematics(service),
        "gps_location": _geo_point(service),
        "timestamp": service.world.time_ns,
        "landed_state": 0 if service.world.is_landed else 1,
        "rc_data": {"timestamp": 0, **remote, **switches, "is_initialized": False, "is_valid": False},
        "ready": True,
        "ready_message": "",
        "can_arm": True,
    }


def _check_camera(name: Any) -> None:
    if str(name) not in CAMERAS:
        raise ValueError(f"camera: got {name!r}, expected one of {', '.join(CAMERAS)}, all the same camera")


def _asked(request: Any) -> Asked:
    """What an ImageRequest asks for."""
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
    return Asked(image_type, is_float, bool(request.get("compress", True)))


async def _images(service: Service, asked: list[Asked]) -> list[dict[str, Any]]:
    """Images of the moment of the call, made in other threads."""
    position, rotation = service.camera_pose()
    moment = {
        "camera_position": vector(to_ned(position)),
        "camera_orientation": quaternion(swap_rotation(rotation)),
        "time_stamp": service.world.time_ns,
        "message": "",
        "width": service.camera.width,
        "height": service.camera.height,
    }
    pixels = service.images(asked)
    return [
        {
            **moment,
            **await data,
            "pixels_as_float": one.is_float,
            "compress": one.is_compressed,
            "image_type": one.image_type,
        }
        for one, data in zip(asked, pixels, strict=True)
    ]


def simGetImages(
    service: Service, requests: Any, vehicle_name: str = "", *rest: Any
) -> Coroutine[Any, Any, list[dict[str, Any]]]:
    """Images of one moment."""
    if not isinstance(requests, list) or not 1 <= len(requests) <= MOST_IMAGES:
        got = len(requests) if isinstance(requests, list) else type(requests).__name__
        raise ValueError(f"simGetImages: got {got} requests, expected a list of 1 to {MOST_IMAGES}")
    return _images(service, [_asked(request) for request in requests])


def simGetImage(
    service: Service, camera_name: Any, image_type: Any, vehicle_name: str = "", *rest: Any
) -> Coroutine[Any, Any, bytes]:
    """One image as a PNG file."""
    asked = _asked({"camera_name": camera_name, "image_type": image_type})

    async def first() -> bytes:
        images = await _images(service, [asked])
        data: bytes = images[0]["image_data_uint8"]
        return data

    return first()


def simGetCameraInfo(service: Service, camera_name: Any, vehicle_name: str = "", *rest: Any) -> dict[str, Any]:
    """Pose, NED, and horizontal field of view, degrees; the projection matrix is a pinhole's, without planes."""
    _check_camera(camera_name)
    position, rotation = service.camera_pose()
    across = 1 / math.tan(service.camera.horizontal_view / 2)
    down = across * service.camera.width / service.camera.height
    matrix = [[across, 0.0, 0.0, 0.0], [0.0, down, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0]]
    view = math.degrees(service.camera.horizontal_view)
    return {"pose": pose(position, rotation), "fov": view, "proj_mat": {"matrix": matrix}}


def simSetCameraPose(service: Service, camera_name: Any, camera_pose: Any, vehicle_name: str = "", *rest: Any) -> None:
    """Turn the camera on its body; its place there, the drone's centre, stays."""
    _check_camera(camera_name)
    # Both are body frames here, so y and z change their signs, and nothing is swapped.
    w, x, y, z = pose_of(camera_pose)[1]
    service.mount = (w, x, -y, -z)


def simListSceneObjects(service: Service, name_regex: Any = ".*") -> list[str]:
    """Names of the landmarks that a pattern matches."""
    if not isinstance(name_regex, str) or len(name_regex) > LONGEST_PATTERN:
        raise ValueError(f"name_regex: expected a pattern of at most {LONGEST_PATTERN} characters")
    try:
        pattern = re.compile(name_regex)
    except re.error as error:
        raise ValueError(f"name_regex: got {name_regex!r}, which is no pattern: {error}") from None
    return [name for name in service.names if pattern.fullmatch(name)]


def simGetObjectPose(service: Service, object_name: Any, *rest: Any) -> dict[str, Any]:
    """Where a landmark stands, NED; NaN for a name that is not there, as in AirSim."""
    if object_name not in service.names:
        nan = (math.nan,) * 3
        return {"position": vector(nan), "orientation": quaternion((math.nan, *nan))}
    mark = service.eye.layout.landmarks[service.names.index(object_name)]
    return pose((mark.x, mark.y, 0.0), turned(mark.yaw))


def simGetSegmentationObjectID(service: Service, mesh_name: Any) -> int:
    """A landmark's number in segmentation images; -1 for a name that is not there."""
    return service.names.index(mesh_name) + 1 if mesh_name in service.names else -1
