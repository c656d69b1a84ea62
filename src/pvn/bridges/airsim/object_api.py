"""AirSim's calls about the objects in the field, which are its landmarks."""

from __future__ import annotations

import math
from collections.abc import Coroutine
from typing import Any

import numpy as np

from pvn.bridges.airsim.drone import Drone
from pvn.bridges.airsim.host import Host
from pvn.bridges.airsim.scene import class_of_asset, match_names
from pvn.bridges.airsim.wire_types import (
    Pose,
    encode_pose,
    encode_quaternion,
    encode_vector,
    parse_pose,
    parse_vector,
)
from pvn.bridges.shared.frames import Vector, from_ned, roll_pitch_yaw, rotation_from_yaw, swap_rotation
from pvn.bridges.shared.globe import GeoPoint
from pvn.simulator.quadcopter import EAST_LIMIT, WEST_LIMIT
from pvn.world.landmarks import LANDMARK_NAMES

GROUND_M, UPRIGHT_RAD = 0.2, 0.01
"""Up to this height and tilt an object counts as standing upright on the ground. A script's ground is where a drone's
centre is after landing, 0.1 m above ours."""


def simListSceneObjects(host: Host, name_regex: str = ".*", *rest: Any) -> Coroutine[Any, Any, list[str]]:
    """Names of the landmarks that match a regular expression."""
    return match_names(name_regex, host.scene.names)


def simListInstanceSegmentationObjects(host: Host) -> list[str]:
    """Names of the landmarks."""
    return host.scene.names


def simListInstanceSegmentationPoses(host: Host, *rest: Any) -> list[dict[str, Any]]:
    """Poses of the landmarks, NED."""
    return [simGetObjectPose(host, name) for name in host.scene.names]


def simGetObjectPose(host: Host, object_name: Any, *rest: Any) -> dict[str, Any]:
    """A landmark's pose, NED from the middle of the field; NaN for an unknown name, as in AirSim."""
    landmark = host.scene.landmark(object_name)
    if landmark is None:
        nan = (math.nan,) * 3
        return {"position": encode_vector(nan), "orientation": encode_quaternion((math.nan, *nan))}
    return encode_pose((landmark.x, landmark.y, 0.0), rotation_from_yaw(landmark.yaw))


def _standing(host: Host, pose: Pose) -> tuple[float, float, float]:
    """x, y and yaw, field frame, of an object's pose."""
    x, y, height = from_ned(pose[0])
    roll, pitch, yaw = roll_pitch_yaw(swap_rotation(pose[1]))
    if abs(height) > GROUND_M or max(abs(roll), abs(pitch)) > UPRIGHT_RAD:
        host.tell_once("objects stand upright on the ground here; of a pose only position and heading are used")
    return x, y, yaw


def _uniform(host: Host, scale: Vector) -> float:
    """The one scale that stands for three."""
    if max(scale) - min(scale) > 1e-6:
        host.tell_once("objects grow in all directions alike here; the largest of three scales is used")
    return max(scale)


def _change(host: Host, name: str, x: float, y: float, yaw: float, scale: float) -> bool:
    """Move or scale a landmark; returns whether it can stand there."""
    try:
        host.scene.change(name, x, y, yaw, scale)
    except ValueError as error:
        host.tell_once(str(error))
        return False
    return True


def simSetObjectPose(host: Host, object_name: Any, pose: Any, teleport: Any = True, *rest: Any) -> bool:
    """Move a landmark; returns whether it exists and can stand there."""
    landmark = host.scene.landmark(object_name)
    return landmark is not None and _change(host, object_name, *_standing(host, parse_pose(pose)), landmark.scale)


def simGetObjectScale(host: Host, object_name: Any) -> dict[str, float]:
    """A landmark's size relative to its class, the same in all directions; NaN for an unknown name."""
    landmark = host.scene.landmark(object_name)
    return encode_vector((math.nan if landmark is None else landmark.scale,) * 3)


def simSetObjectScale(host: Host, object_name: Any, scale_vector: Any) -> bool:
    """Scale a landmark; returns whether it exists and there is room for it."""
    old = host.scene.landmark(object_name)
    if old is None:
        return False
    return _change(host, object_name, old.x, old.y, old.yaw, _uniform(host, parse_vector(scale_vector, "scale")))


def simListAssets(host: Host) -> list[str]:
    """The landmark classes, of which simSpawnObject can make objects."""
    return list(LANDMARK_NAMES)


def simSpawnObject(
    host: Host, object_name: str, asset_name: str, pose: Pose, scale: Vector, physics_enabled: Any = False,
    is_blueprint: Any = False,
) -> str:  # fmt: skip
    """Put a landmark into the field; returns the name it got, which is numbered if it was taken."""
    made = host.scene.spawn(object_name, asset_name, *_standing(host, pose), _uniform(host, scale))
    stands_in = class_of_asset(asset_name)
    if stands_in.lower() != asset_name.lower():
        host.tell_once(f"simSpawnObject: there is no asset {asset_name!r} here; a {stands_in} stands for it")
    return made


def simDestroyObject(host: Host, object_name: Any) -> bool:
    """Remove a landmark; returns whether it existed."""
    if host.scene.landmark(object_name) is None:
        return False
    host.scene.destroy(object_name)
    return True


def simSetSegmentationObjectID(
    host: Host, mesh_name: str, object_id: float, is_name_regex: bool = False
) -> Coroutine[Any, Any, bool]:
    """Give the objects of a name, or of all names that match, a segmentation number; returns whether any exist."""

    async def set_ids() -> bool:
        names = host.scene.all_names
        if is_name_regex:
            found = await match_names(mesh_name, names)
        else:
            found = [name for name in names if name.lower() == mesh_name.lower()]
        host.scene.set_object_ids(found, round(object_id))
        return bool(found)

    return set_ids()


def simGetSegmentationObjectID(host: Host, mesh_name: str) -> int:
    """An object's number in segmentation images; -1 for an unknown name."""
    return host.scene.object_id(mesh_name)


def _sees(host: Host, start: Vector, end: Vector) -> bool:
    """Whether nothing stands between two points, field frame."""
    offset = np.subtract(end, start)
    distance = float(np.linalg.norm(offset))
    if distance < 1e-6:
        return True
    depth, _ = host.scene.renderer.cast_rays(start, (offset / distance)[None])
    return bool(depth[0] == 0 or depth[0] >= distance - 0.05)


def simTestLineOfSightToPoint(host: Host, drone: Drone, point: GeoPoint) -> bool:
    """Whether the vehicle sees a point on the globe."""
    return _sees(host, drone.state.position, host.globe.from_geo_point(point))


def simTestLineOfSightBetweenPoints(host: Host, point1: GeoPoint, point2: GeoPoint) -> bool:
    """Whether nothing stands between two points on the globe."""
    start, end = (host.globe.from_geo_point(point) for point in (point1, point2))
    return _sees(host, start, end)


def simGetWorldExtents(host: Host) -> list[dict[str, float]]:
    """South-western and north-eastern corner of the world, 10 m beyond the fences, on the globe."""
    return [host.globe.to_geo_point((end, end, 0.0))._asdict() for end in (WEST_LIMIT, EAST_LIMIT)]
