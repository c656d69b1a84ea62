"""The calls of the AirSim API about the objects in the field, which are its landmarks."""

from __future__ import annotations

import math
from collections.abc import Coroutine
from typing import Any

import numpy as np

from pvn.bridges.airsim import sensors
from pvn.bridges.airsim.host import Host
from pvn.bridges.airsim.scene import class_of_asset, match_names
from pvn.bridges.airsim.state_api import encode_geo_point, parse_geo_point
from pvn.bridges.airsim.wire_types import (
    encode_pose,
    encode_quaternion,
    encode_vector,
    parse_number,
    parse_pose,
    parse_text,
    parse_vector,
)
from pvn.bridges.shared.frames import Vector, from_ned, roll_pitch_yaw, rotation_from_yaw, swap_rotation
from pvn.simulator.quadcopter import EAST_LIMIT, WEST_LIMIT
from pvn.world.landmarks import LANDMARK_NAMES

GROUND_M, UPRIGHT_RAD = 0.2, 0.01
"""An object stands on the ground and upright up to this height and tilt. A script's ground is where a drone's centre is
after landing, 0.1 m above ours."""


def simListSceneObjects(host: Host, name_regex: Any = ".*", *rest: Any) -> Coroutine[Any, Any, list[str]]:
    """Names of the landmarks that match a regular expression."""
    return match_names(parse_text(name_regex, "name_regex"), host.scene.names)


def simListInstanceSegmentationObjects(host: Host) -> list[str]:
    """Names of the landmarks."""
    return host.scene.names


def simListInstanceSegmentationPoses(host: Host, *rest: Any) -> list[dict[str, Any]]:
    """Poses of the landmarks, NED."""
    return [simGetObjectPose(host, name) for name in host.scene.names]


def simGetObjectPose(host: Host, object_name: Any, *rest: Any) -> dict[str, Any]:
    """A landmark's pose, NED from the middle of the field; NaN for an unknown name, as in AirSim."""
    if object_name not in host.scene.names:
        nan = (math.nan,) * 3
        return {"position": encode_vector(nan), "orientation": encode_quaternion((math.nan, *nan))}
    landmark = host.scene.landmark(object_name)
    return encode_pose((landmark.x, landmark.y, 0.0), rotation_from_yaw(landmark.yaw))


def _parse_place(host: Host, method: str, pose: Any) -> tuple[float, float, float]:
    """x, y and yaw, field frame, of an object's pose."""
    position, rotation = parse_pose(pose)
    x, y, height = from_ned(position)
    roll, pitch, yaw = roll_pitch_yaw(swap_rotation(rotation))
    if abs(height) > GROUND_M or max(abs(roll), abs(pitch)) > UPRIGHT_RAD:
        host.tell_once(f"{method}: objects stand upright on the ground here; only position and heading were used")
    return x, y, yaw


def simSetObjectPose(host: Host, object_name: Any, pose: Any, teleport: Any = True, *rest: Any) -> bool:
    """Move a landmark; returns whether it exists and can stand there."""
    if object_name not in host.scene.names:
        return False
    try:
        host.scene.change(object_name, *_parse_place(host, "simSetObjectPose", pose), _scale(host, object_name))
    except ValueError as error:
        host.tell_once(f"simSetObjectPose: {error}")
        return False
    return True


def _scale(host: Host, name: str) -> float:
    return host.scene.landmark(name).scale


def simGetObjectScale(host: Host, object_name: Any) -> dict[str, float]:
    """A landmark's size relative to its class, the same in all directions; NaN for an unknown name."""
    scale = _scale(host, object_name) if object_name in host.scene.names else math.nan
    return encode_vector((scale, scale, scale))


def _uniform(host: Host, method: str, scale: Any) -> float:
    """The one scale that stands for three."""
    parts = parse_vector(scale, "scale")
    if max(parts) - min(parts) > 1e-6:
        host.tell_once(f"{method}: objects here grow in all directions alike; the largest of the scales was used")
    return max(parts)


def simSetObjectScale(host: Host, object_name: Any, scale_vector: Any) -> bool:
    """Scale a landmark; returns whether it exists and there is room for it."""
    if object_name not in host.scene.names:
        return False
    landmark = host.scene.landmark(object_name)
    try:
        scale = _uniform(host, "simSetObjectScale", scale_vector)
        host.scene.change(object_name, landmark.x, landmark.y, landmark.yaw, scale)
    except ValueError as error:
        host.tell_once(f"simSetObjectScale: {error}")
        return False
    return True


def simListAssets(host: Host) -> list[str]:
    """The landmark classes, of which simSpawnObject can make objects."""
    return list(LANDMARK_NAMES)


def simSpawnObject(
    host: Host, object_name: Any, asset_name: Any, pose: Any, scale: Any, physics_enabled: Any = False,
    is_blueprint: Any = False,
) -> str:  # fmt: skip
    """Put a landmark into the field; returns the name it got, which is numbered if it was taken."""
    name, asset = parse_text(object_name, "object_name"), parse_text(asset_name, "asset_name")
    place = _parse_place(host, "simSpawnObject", pose)
    made = host.scene.spawn(name, asset, *place, _uniform(host, "simSpawnObject", scale))
    if class_of_asset(asset).lower() != asset.lower():
        host.tell_once(f"simSpawnObject: there is no asset {asset!r} here; a {class_of_asset(asset)} stands for it")
    return made


def simDestroyObject(host: Host, object_name: Any) -> bool:
    """Take a landmark away; returns whether it existed."""
    if object_name not in host.scene.names:
        return False
    host.scene.destroy(object_name)
    return True


async def _set_ids(host: Host, name: str, is_regex: bool, object_id: int) -> bool:
    names = host.scene.all_names
    found = await match_names(name, names) if is_regex else [one for one in names if one.lower() == name.lower()]
    host.scene.set_object_ids(found, object_id)
    return bool(found)


def simSetSegmentationObjectID(
    host: Host, mesh_name: Any, object_id: Any, is_name_regex: Any = False
) -> Coroutine[Any, Any, bool]:
    """Give the objects of a name, or of all names that match, a segmentation number; returns whether any exist."""
    name, number = parse_text(mesh_name, "mesh_name"), round(parse_number(object_id, "object_id"))
    return _set_ids(host, name, bool(is_name_regex), number)


def simGetSegmentationObjectID(host: Host, mesh_name: Any) -> int:
    """An object's number in segmentation images; -1 for an unknown name."""
    return host.scene.object_id(parse_text(mesh_name, "mesh_name"))


def _sees(host: Host, start: Vector, end: Vector) -> bool:
    """Whether nothing stands between two points, field frame."""
    offset = np.subtract(end, start)
    distance = float(np.linalg.norm(offset))
    if distance < 1e-6:
        return True
    depth, _ = host.scene.renderer.cast_rays(start, (offset / distance)[None])
    return bool(depth[0] == 0 or depth[0] >= distance - 0.05)


def simTestLineOfSightToPoint(host: Host, point: Any, vehicle_name: str = "") -> bool:
    """Whether the vehicle sees a point on the globe."""
    end = from_ned(sensors.from_geo_point(parse_geo_point(point), host.settings.origin))
    return _sees(host, host.find_drone(vehicle_name).vehicle.position, end)


def simTestLineOfSightBetweenPoints(host: Host, point1: Any, point2: Any) -> bool:
    """Whether nothing stands between two points on the globe."""
    start, end = (
        from_ned(sensors.from_geo_point(parse_geo_point(point), host.settings.origin)) for point in (point1, point2)
    )
    return _sees(host, start, end)


def simGetWorldExtents(host: Host) -> list[dict[str, float]]:
    """South-western and north-eastern corner of the world, 10 m beyond the fences, on the globe."""
    return [
        encode_geo_point(sensors.to_geo_point((end, end, 0.0), host.settings.origin))
        for end in (WEST_LIMIT, EAST_LIMIT)
    ]
