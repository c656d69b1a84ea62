"""Where an autopilot flies, read from set-point messages and turned into set-points of our quadcopter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pvn.bridges.shared.frames import NED_ORIGIN_WORLD, swap_vector, swap_yaw
from pvn.bridges.shared.globe import GeoPoint, Globe
from pvn.bridges.shared.motions import APPROACH_GAIN, CLIMB_LEAD_S, YAW_GAIN, Setpoint, VehicleState
from pvn.bridges.shared.vehicle import TICK_SECONDS
from pvn.paths import wrap_radians
from pvn.simulator.quadcopter import EAST_LIMIT, HIGHEST, LOWEST, SUBSTEP_SECONDS, WEST_LIMIT

GLOBE = Globe(GeoPoint(47.397742, 8.545594, 488.0), math.radians(6371000.0))
"""The middle of the field is where PX4's simulator starts, so that scripts written for it find themselves at home."""
MAX_YAW_RATE = math.radians(120.0)
EDGE_MARGIN_M = 1.0
"""The autopilot stops this far before the border at which the simulator stops every drone."""

IGNORE_POSITION, IGNORE_ALTITUDE, IGNORE_VELOCITY, IGNORE_CLIMB = 1 | 2, 4, 8 | 16, 32
IGNORE_YAW, IGNORE_YAW_RATE = 1 << 10, 1 << 11
"""Bits of a set-point's type mask: what the autopilot has to ignore in it."""
LOCAL_FRAMES, OFFSET_FRAME, BODY_FRAMES = (1,), 7, (8, 12)
BODY_OFFSET_FRAME = 9
GLOBAL_FRAMES, RELATIVE_FRAMES = (0, 5), (3, 6)
"""Coordinate frames (MAV_FRAME): altitudes above the sea, and above home."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """What to hold, field frame; a place takes precedence over a velocity, and an altitude over a climb."""

    place: tuple[float, float] | None = None
    """x and y, metres."""
    velocity: tuple[float, float] = (0.0, 0.0)
    """m/s, east and north; if `is_body`, forward and left."""
    is_body: bool = False
    altitude: float | None = None
    """Height of the drone's centre, metres."""
    climb: float = 0.0
    """m/s."""
    yaw: float | None = None
    """Radians counter-clockwise from east; None: turn at `yaw_rate`."""
    yaw_rate: float = 0.0
    """rad/s, left is positive."""


@dataclass(frozen=True)
class SpeedLimits:
    """How fast an autopilot flies at most, m/s."""

    level: float
    up: float
    down: float


def clamp_place(x: float, y: float) -> tuple[float, float]:
    """The nearest place that the drone can reach, metres, field frame."""
    low, high = WEST_LIMIT + EDGE_MARGIN_M, EAST_LIMIT - EDGE_MARGIN_M
    return min(max(x, low), high), min(max(y, low), high)


def _level_velocity(target: Target, vehicle: VehicleState, limit: float) -> tuple[float, float]:
    """Velocity to hold now, m/s, east and north."""
    if target.place is not None:
        east, north = (goal - here for goal, here in zip(clamp_place(*target.place), vehicle.position[:2], strict=True))
        wanted = APPROACH_GAIN * east, APPROACH_GAIN * north
    elif target.is_body:
        # Along the mean heading until the next tick: the simulator holds a direction of the field meanwhile.
        yaw = vehicle.yaw + target.yaw_rate * (TICK_SECONDS - SUBSTEP_SECONDS) / 2
        (forward, left), cos, sin = target.velocity, math.cos(yaw), math.sin(yaw)
        wanted = forward * cos - left * sin, forward * sin + left * cos
    else:
        wanted = target.velocity
    speed = math.hypot(*wanted)
    scale = min(1.0, limit / speed) if speed else 1.0
    return wanted[0] * scale, wanted[1] * scale


def steer(target: Target, vehicle: VehicleState, limits: SpeedLimits) -> Setpoint:
    """What the quadcopter's controller has to hold now to get to a target; an altitude below LOWEST means: land."""
    height = vehicle.position[2]
    if target.altitude is not None and abs(target.altitude - height) * APPROACH_GAIN < min(limits.up, limits.down):
        altitude = target.altitude
    else:
        climb = target.climb if target.altitude is None else APPROACH_GAIN * (target.altitude - height)
        altitude = height + CLIMB_LEAD_S * min(max(climb, -limits.down), limits.up)
    yaw_rate = target.yaw_rate if target.yaw is None else YAW_GAIN * wrap_radians(target.yaw - vehicle.yaw)
    return Setpoint(
        _level_velocity(target, vehicle, limits.level),
        min(max(yaw_rate, -MAX_YAW_RATE), MAX_YAW_RATE),
        min(altitude, HIGHEST),
    )


def _heights(mask: int, altitude: float, climb: float) -> Mapping[str, Any]:
    """The vertical part of a target: an altitude, or a climb."""
    if not mask & IGNORE_ALTITUDE:
        return {"altitude": max(altitude, LOWEST)}
    return {"climb": 0.0 if mask & IGNORE_CLIMB else climb}


def hold_height(target: Target, previous: Target | None, vehicle: VehicleState) -> Target:
    """The target; without a climb or an altitude, it holds the altitude of the target before it, or the current one."""
    if target.altitude is not None or abs(target.climb) > 1e-3:
        return target
    held = None if previous is None else previous.altitude
    return replace(target, altitude=vehicle.position[2] if held is None else held)


def _turns(message: Any, mask: int, is_body: bool, vehicle: VehicleState) -> Mapping[str, Any]:
    """The heading of a target: a yaw, a yaw rate, or the heading as it is."""
    if not mask & IGNORE_YAW:
        return {"yaw": wrap_radians(vehicle.yaw - message.yaw) if is_body else swap_yaw(message.yaw)}
    return {"yaw_rate": 0.0 if mask & IGNORE_YAW_RATE else -message.yaw_rate}


def read_local_setpoint(message: Any, vehicle: VehicleState) -> Target | None:
    """The target of SET_POSITION_TARGET_LOCAL_NED; None if there is nothing in it that we can fly."""
    mask, frame = message.type_mask, message.coordinate_frame
    numbers = (message.x, message.y, message.z, message.vx, message.vy, message.vz, message.yaw, message.yaw_rate)
    is_body = frame in (*BODY_FRAMES, BODY_OFFSET_FRAME)
    is_known = is_body or frame in (*LOCAL_FRAMES, OFFSET_FRAME)
    if not is_known or not all(map(math.isfinite, numbers)):
        return None
    has_place, has_velocity = not mask & IGNORE_POSITION, not mask & IGNORE_VELOCITY
    if not has_place and not has_velocity and mask & (IGNORE_ALTITUDE | IGNORE_CLIMB) == IGNORE_ALTITUDE | IGNORE_CLIMB:
        return None
    level: dict[str, Any] = {}
    if has_place:
        ahead, aside = message.x, message.y  # north and east, or forward and right
        if is_body:
            east = ahead * math.cos(vehicle.yaw) + aside * math.sin(vehicle.yaw)
            north = ahead * math.sin(vehicle.yaw) - aside * math.cos(vehicle.yaw)
        else:
            east, north = aside, ahead
        origin = NED_ORIGIN_WORLD if frame in LOCAL_FRAMES else vehicle.position
        level["place"] = origin[0] + east, origin[1] + north
    elif has_velocity:
        velocity = (message.vx, -message.vy) if is_body else swap_vector((message.vx, message.vy, 0.0))[:2]
        level |= {"velocity": velocity, "is_body": is_body}
    ground = NED_ORIGIN_WORLD[2] if frame in LOCAL_FRAMES else vehicle.position[2]
    heights = _heights(mask, ground - message.z, -message.vz)
    return Target(**level, **heights, **_turns(message, mask, is_body, vehicle))


def read_global_setpoint(message: Any, vehicle: VehicleState, home_z: float) -> Target | None:
    """The target of SET_POSITION_TARGET_GLOBAL_INT; None if there is nothing in it that we can fly."""
    mask, frame = message.type_mask, message.coordinate_frame
    numbers = (message.alt, message.vx, message.vy, message.vz, message.yaw, message.yaw_rate)
    if frame not in (*GLOBAL_FRAMES, *RELATIVE_FRAMES) or not all(map(math.isfinite, numbers)):
        return None
    level: dict[str, Any] = {"velocity": (message.vy, message.vx)}
    if not mask & IGNORE_POSITION:
        level = {"place": global_place(message.lat_int / 1e7, message.lon_int / 1e7)}
    elif mask & IGNORE_VELOCITY:
        return None
    altitude = global_height(message.alt, frame, home_z)
    heights = _heights(mask, altitude, -message.vz)
    return Target(**level, **heights, **_turns(message, mask, False, vehicle))


def global_place(latitude: float, longitude: float) -> tuple[float, float]:
    """The place in the field, x and y in metres, of a latitude and longitude in degrees."""
    x, y, _ = GLOBE.from_geo_point(GeoPoint(latitude, longitude, 0.0))
    return x, y


def global_height(altitude: float, frame: int, home_z: float) -> float:
    """The height in the field, metres, of an altitude above the sea or above home, by its frame."""
    if frame in RELATIVE_FRAMES:
        return home_z + altitude
    return GLOBE.from_geo_point(GLOBE.origin._replace(altitude=altitude))[2]
