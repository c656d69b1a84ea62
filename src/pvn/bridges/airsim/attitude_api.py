"""The calls of the AirSim API that fly by attitude or by remote control.

Angles are AirSim's: roll right side down, pitch nose up, yaw clockwise; the clients turn the signs of what scripts say.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable
from typing import Any

from pvn.bridges.airsim.drone import Drone
from pvn.bridges.airsim.host import Host
from pvn.bridges.airsim.motion_api import start_motion
from pvn.bridges.airsim.wire_types import parse_number
from pvn.bridges.shared import motions
from pvn.bridges.shared.frames import from_ned, swap_yaw
from pvn.bridges.shared.motions import MAX_CLIMB, MAX_SPEED, Motion, Setpoint, VehicleState, YawControl

HOVER_THROTTLE = 0.59375
"""AirSim's throttle of a hovering quadcopter; here, more climbs and less sinks."""
CLIMB_PER_THROTTLE = 10.0  # m/s


def _lean(
    host: Host, drone: Drone, method: str, angles: tuple[Any, Any], yaw_control: YawControl, z: Any, throttle: Any,
    duration: Any,
) -> Awaitable[bool]:  # fmt: skip
    roll, pitch = parse_number(angles[0], "roll"), parse_number(angles[1], "pitch")
    climb = None if throttle is None else CLIMB_PER_THROTTLE * (parse_number(throttle, "throttle") - HOVER_THROTTLE)
    altitude = 0.0 if z is None else from_ned((0.0, 0.0, parse_number(z, "z")), drone.origin)[2]
    seconds = parse_number(duration, "duration")
    motion = motions.hold_attitude(roll, -pitch, yaw_control, climb, altitude, seconds, drone.vehicle.state)
    return start_motion(host, drone, method, motion)


def _heading(yaw: Any) -> YawControl:
    return motions.turn_to_heading(swap_yaw(parse_number(yaw, "yaw")))


def _rate(yaw_rate: Any) -> YawControl:
    return motions.turn_at_rate(-parse_number(yaw_rate, "yaw_rate"))


def moveByRollPitchYawZ(
    host: Host, roll: Any, pitch: Any, yaw: Any, z: Any, duration: Any, vehicle_name: str = ""
) -> Awaitable[bool]:
    """Lean at a height, NED, with a heading, radians, for a time."""
    drone = host.find_drone(vehicle_name)
    return _lean(host, drone, "moveByRollPitchYawZ", (roll, pitch), _heading(yaw), z, None, duration)


def moveByRollPitchYawrateZ(
    host: Host, roll: Any, pitch: Any, yaw_rate: Any, z: Any, duration: Any, vehicle_name: str = ""
) -> Awaitable[bool]:
    """Lean at a height, NED, turning at a rate, rad/s, for a time."""
    drone = host.find_drone(vehicle_name)
    return _lean(host, drone, "moveByRollPitchYawrateZ", (roll, pitch), _rate(yaw_rate), z, None, duration)


def moveByRollPitchYawThrottle(
    host: Host, roll: Any, pitch: Any, yaw: Any, throttle: Any, duration: Any, vehicle_name: str = ""
) -> Awaitable[bool]:
    """Lean with a heading, radians, climbing or sinking by the throttle, for a time."""
    drone = host.find_drone(vehicle_name)
    return _lean(host, drone, "moveByRollPitchYawThrottle", (roll, pitch), _heading(yaw), None, throttle, duration)


def moveByRollPitchYawrateThrottle(
    host: Host, roll: Any, pitch: Any, yaw_rate: Any, throttle: Any, duration: Any, vehicle_name: str = ""
) -> Awaitable[bool]:
    """Lean, turning at a rate, rad/s, and climbing or sinking by the throttle, for a time."""
    drone = host.find_drone(vehicle_name)
    return _lean(
        host, drone, "moveByRollPitchYawrateThrottle", (roll, pitch), _rate(yaw_rate), None, throttle, duration
    )


def moveByRC(host: Host, rcdata: Any, vehicle_name: str = "") -> None:
    """Move the sticks of the remote control, which moveByManual flies by."""
    if not isinstance(rcdata, dict):
        raise ValueError(f"rcdata: got {type(rcdata).__name__}, expected an RCData")
    sticks = host.find_drone(vehicle_name).sticks
    sticks |= {name: min(max(parse_number(rcdata.get(name, 0.0), name), -1.0), 1.0) for name in sticks}


def _follow_sticks(drone: Drone, max_forward: float, max_right: float, duration_s: float) -> Motion:
    """Fly by the remote control for a time: the throttle climbs, as moveByManual's does."""
    start = drone.vehicle.state

    def motion(state: VehicleState) -> tuple[Setpoint, bool | None]:
        sticks = drone.sticks
        forward = min(max_forward, MAX_SPEED) * sticks["pitch"]
        right = min(max_right, MAX_SPEED) * sticks["roll"]
        cos, sin = math.cos(state.yaw), math.sin(state.yaw)
        setpoint = Setpoint(
            (forward * cos + right * sin, forward * sin - right * cos),
            -motions.MAX_YAW_RATE * sticks["yaw"],
            motions.altitude_for_climb(state, MAX_CLIMB * sticks["throttle"]),
        )
        return setpoint, True if state.time_s - start.time_s >= duration_s else None

    return motion


def moveByManual(
    host: Host, vx_max: Any, vy_max: Any, z_min: Any, duration: Any, drivetrain: Any = 0, yaw_mode: Any = None,
    vehicle_name: str = "",
) -> Awaitable[bool]:  # fmt: skip
    """Fly by the remote control, see moveByRC, for a time."""
    drone = host.find_drone(vehicle_name)
    limits = parse_number(vx_max, "vx_max"), parse_number(vy_max, "vy_max")
    motion = _follow_sticks(drone, *limits, parse_number(duration, "duration"))
    return start_motion(host, drone, "moveByManual", motion)
