"""AirSim's calls that fly; each returns a future that holds, once the motion is over, whether it succeeded.

A new motion ends the current one, whose future then holds False. Positions and velocities are north, east, down (NED)
unless said otherwise. Yaws are clockwise; of a lean, roll is right side down and pitch is nose up.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable
from typing import Any

from pvn.bridges.airsim.drone import Drone
from pvn.bridges.airsim.host import Host
from pvn.bridges.airsim.wire_types import parse_number, parse_vector
from pvn.bridges.shared import motions
from pvn.bridges.shared.frames import Vector, from_ned, swap_yaw, to_ned
from pvn.bridges.shared.globe import GeoPoint
from pvn.bridges.shared.motions import HeightControl, Setpoint, VehicleState, YawControl

TAKEOFF_HEIGHT_M, TAKEOFF_SPEED, LANDING_SPEED, HOME_SPEED = 3.0, 1.0, 0.5, 2.0
FORWARD_ONLY = 1
MAX_PATH_POINTS = 10_000
HOVER_THROTTLE = 0.59375
"""AirSim's throttle of a hovering quadcopter; here, more climbs and less sinks."""
CLIMB_PER_THROTTLE = 10.0  # m/s
NO_LIMIT_S = 3e38


def takeoff(host: Host, drone: Drone, timeout_sec: float = 20.0) -> Awaitable[bool]:
    """Climb 3 m."""
    state = drone.state
    speed = math.hypot(*state.velocity)
    if speed > 0.1:
        raise ValueError(f"takeoff: got a vehicle moving at {speed:.1f} m/s, expected one at rest; hover first")
    x, y, z = state.position
    above = [(x, y, z + TAKEOFF_HEIGHT_M)]
    return host.fly(drone, motions.follow_path(above, TAKEOFF_SPEED, motions.turn_at_rate(0.0), timeout_sec, state))


def land(host: Host, drone: Drone, timeout_sec: float = 60.0) -> Awaitable[bool]:
    """Descend to the ground below."""
    return host.fly(drone, motions.land(LANDING_SPEED, timeout_sec, drone.state))


def goHome(host: Host, drone: Drone, timeout_sec: float = NO_LIMIT_S) -> Awaitable[bool]:
    """Fly straight to the vehicle's initial position, as AirSim does."""
    home, state = [drone.origin], drone.state
    return host.fly(drone, motions.follow_path(home, HOME_SPEED, motions.turn_at_rate(0.0), timeout_sec, state))


def hover(host: Host, drone: Drone) -> bool:
    """Brake and hover; answered at once, because hovering never ends."""
    drone.check_may_fly()
    if not drone.vehicle.is_landed:
        drone.vehicle.start_motion(motions.hover(drone.state.position[2]))
    return True


def cancelLastTask(host: Host, drone: Drone) -> None:
    """End the current motion and hover."""
    if not drone.vehicle.is_landed:
        drone.vehicle.cancel_motion()


def _turn(yaw_mode: Any, drivetrain: Any) -> YawControl:
    """How a YawMode turns the vehicle; with ForwardOnly its angle is relative to the direction of travel."""
    mode = yaw_mode if isinstance(yaw_mode, dict) else {}
    value = math.radians(parse_number(mode.get("yaw_or_rate", 0.0), "yaw_or_rate"))
    if mode.get("is_rate", True):
        return motions.turn_at_rate(-value)
    return motions.face_travel(-value) if drivetrain == FORWARD_ONLY else motions.turn_to_heading(swap_yaw(value))


def _at(drone: Drone, z: float) -> HeightControl:
    """Hold a z of NED."""
    return motions.hold_altitude(from_ned((0.0, 0.0, z), drone.origin)[2])


def _climbing(drone: Drone, down: float) -> HeightControl:
    """Climb or sink; at 0 m/s, hold the height at which the motion starts."""
    return motions.climb_at(-down) if down else motions.hold_altitude(drone.state.position[2])


def _east_north(drone: Drone, forward: float, right: float) -> tuple[float, float]:
    """A velocity, m/s, relative to the current heading, as east and north: AirSim reads the heading only once."""
    yaw = drone.state.yaw
    cos, sin = math.cos(yaw), math.sin(yaw)
    return forward * cos + right * sin, forward * sin - right * cos


def moveByVelocity(
    host: Host, drone: Drone, vx: float, vy: float, vz: float, duration: float, drivetrain: Any = 0,
    yaw_mode: Any = None,
) -> Awaitable[bool]:  # fmt: skip
    """Hold a velocity for a time."""
    turn, height = _turn(yaw_mode, drivetrain), _climbing(drone, vz)
    return host.fly(drone, motions.hold_velocity((vy, vx), height, turn, duration, drone.state))


def moveByVelocityZ(
    host: Host, drone: Drone, vx: float, vy: float, z: float, duration: float, drivetrain: Any = 0, yaw_mode: Any = None
) -> Awaitable[bool]:
    """Hold a velocity, north and east, and a height for a time."""
    turn, height = _turn(yaw_mode, drivetrain), _at(drone, z)
    return host.fly(drone, motions.hold_velocity((vy, vx), height, turn, duration, drone.state))


def moveByVelocityBodyFrame(
    host: Host, drone: Drone, vx: float, vy: float, vz: float, duration: float, drivetrain: Any = 0,
    yaw_mode: Any = None,
) -> Awaitable[bool]:  # fmt: skip
    """Hold a velocity for a time: forward, right and down, relative to the heading when the motion starts."""
    velocity, turn, height = _east_north(drone, vx, vy), _turn(yaw_mode, drivetrain), _climbing(drone, vz)
    return host.fly(drone, motions.hold_velocity(velocity, height, turn, duration, drone.state))


def moveByVelocityZBodyFrame(
    host: Host, drone: Drone, vx: float, vy: float, z: float, duration: float, drivetrain: Any = 0, yaw_mode: Any = None
) -> Awaitable[bool]:
    """Hold a height, and a velocity forward and right of the heading when the motion starts, for a time."""
    velocity, turn, height = _east_north(drone, vx, vy), _turn(yaw_mode, drivetrain), _at(drone, z)
    return host.fly(drone, motions.hold_velocity(velocity, height, turn, duration, drone.state))


def _follow_path(
    host: Host, drone: Drone, path_ned: list[Vector], speed: float, timeout_s: float, drivetrain: Any, yaw_mode: Any
) -> Awaitable[bool]:
    if speed <= 0:
        raise ValueError(f"velocity: got {speed:g} m/s, expected more than 0")
    if drivetrain == FORWARD_ONLY and (not isinstance(yaw_mode, dict) or yaw_mode.get("is_rate", True)):
        raise ValueError("got a yaw rate for ForwardOnly, expected an angle; pass yaw_mode=YawMode(False, 0)")
    path, turn = [host.reach(drone, point) for point in path_ned], _turn(yaw_mode, drivetrain)
    return host.fly(drone, motions.follow_path(path, speed, turn, timeout_s, drone.state))


def moveToPosition(
    host: Host, drone: Drone, x: float, y: float, z: float, velocity: float, timeout_sec: float = NO_LIMIT_S,
    drivetrain: Any = 0, yaw_mode: Any = None, lookahead: Any = -1, adaptive_lookahead: Any = 1,
) -> Awaitable[bool]:  # fmt: skip
    """Fly straight to a position and stop there."""
    return _follow_path(host, drone, [(x, y, z)], velocity, timeout_sec, drivetrain, yaw_mode)


def moveToGPS(
    host: Host, drone: Drone, latitude: float, longitude: float, altitude: float, velocity: float,
    timeout_sec: float = NO_LIMIT_S, drivetrain: Any = 0, yaw_mode: Any = None, lookahead: Any = -1,
    adaptive_lookahead: Any = 1,
) -> Awaitable[bool]:  # fmt: skip
    """Fly straight to a point on the globe and stop there."""
    goal = to_ned(host.globe.from_geo_point(GeoPoint(latitude, longitude, altitude)), drone.origin)
    return _follow_path(host, drone, [goal], velocity, timeout_sec, drivetrain, yaw_mode)


def moveToZ(
    host: Host, drone: Drone, z: float, velocity: float, timeout_sec: float = NO_LIMIT_S, yaw_mode: Any = None,
    lookahead: Any = -1, adaptive_lookahead: Any = 1,
) -> Awaitable[bool]:  # fmt: skip
    """Climb or descend to a height."""
    north, east, _ = to_ned(drone.state.position, drone.origin)
    return _follow_path(host, drone, [(north, east, z)], velocity, timeout_sec, 0, yaw_mode)


def moveOnPath(
    host: Host, drone: Drone, path: Any, velocity: float, timeout_sec: float = NO_LIMIT_S, drivetrain: Any = 0,
    yaw_mode: Any = None, lookahead: Any = -1, adaptive_lookahead: Any = 1,
) -> Awaitable[bool]:  # fmt: skip
    """Fly past the points of a path and stop at the last."""
    if not isinstance(path, list) or not 1 <= len(path) <= MAX_PATH_POINTS:
        got = len(path) if isinstance(path, list) else type(path).__name__
        raise ValueError(f"path: got {got}, expected a list of 1 to {MAX_PATH_POINTS} points")
    points = [parse_vector(point, "path") for point in path]
    return _follow_path(host, drone, points, velocity, timeout_sec, drivetrain, yaw_mode)


def rotateToYaw(
    host: Host, drone: Drone, yaw: float, timeout_sec: float = NO_LIMIT_S, margin: float = 5.0
) -> Awaitable[bool]:
    """Turn to a heading, degrees clockwise from north, to within a margin, degrees."""
    heading, tolerance = swap_yaw(math.radians(yaw)), math.radians(margin)
    return host.fly(drone, motions.rotate_to_yaw(heading, tolerance, timeout_sec, drone.state))


def rotateByYawRate(host: Host, drone: Drone, yaw_rate: float, duration: float) -> Awaitable[bool]:
    """Turn at a rate, degrees per second clockwise, for a time."""
    turn, height = motions.turn_at_rate(-math.radians(yaw_rate)), _climbing(drone, 0.0)
    return host.fly(drone, motions.hold_velocity((0.0, 0.0), height, turn, duration, drone.state))


def _by_throttle(throttle: float) -> HeightControl:
    return motions.climb_at(CLIMB_PER_THROTTLE * (throttle - HOVER_THROTTLE))


def _lean(
    host: Host, drone: Drone, roll: float, pitch: float, height: HeightControl, turn: YawControl, duration: float
) -> Awaitable[bool]:
    return host.fly(drone, motions.hold_attitude(roll, -pitch, height, turn, duration, drone.state))


def moveByRollPitchYawZ(
    host: Host, drone: Drone, roll: float, pitch: float, yaw: float, z: float, duration: float
) -> Awaitable[bool]:
    """Lean at a height with a heading for a time; angles are radians."""
    return _lean(host, drone, roll, pitch, _at(drone, z), motions.turn_to_heading(swap_yaw(yaw)), duration)


def moveByRollPitchYawrateZ(
    host: Host, drone: Drone, roll: float, pitch: float, yaw_rate: float, z: float, duration: float
) -> Awaitable[bool]:
    """Lean at a height, turning at a rate, rad/s, for a time."""
    return _lean(host, drone, roll, pitch, _at(drone, z), motions.turn_at_rate(-yaw_rate), duration)


def moveByRollPitchYawThrottle(
    host: Host, drone: Drone, roll: float, pitch: float, yaw: float, throttle: float, duration: float
) -> Awaitable[bool]:
    """Lean with a heading, climbing or sinking by the throttle, for a time."""
    turn = motions.turn_to_heading(swap_yaw(yaw))
    return _lean(host, drone, roll, pitch, _by_throttle(throttle), turn, duration)


def moveByRollPitchYawrateThrottle(
    host: Host, drone: Drone, roll: float, pitch: float, yaw_rate: float, throttle: float, duration: float
) -> Awaitable[bool]:
    """Lean, turning at a rate, rad/s, and climbing or sinking by the throttle, for a time."""
    return _lean(host, drone, roll, pitch, _by_throttle(throttle), motions.turn_at_rate(-yaw_rate), duration)


def moveByRC(host: Host, drone: Drone, rcdata: Any) -> None:
    """Move the sticks of the remote control, by which moveByManual flies."""
    if not isinstance(rcdata, dict):
        raise ValueError(f"rcdata: got {type(rcdata).__name__}, expected an RCData")
    drone.sticks |= {name: min(max(parse_number(rcdata.get(name, 0.0), name), -1.0), 1.0) for name in drone.sticks}


def moveByManual(
    host: Host, drone: Drone, vx_max: float, vy_max: float, z_min: Any, duration: float, drivetrain: Any = 0,
    yaw_mode: Any = None,
) -> Awaitable[bool]:  # fmt: skip
    """Fly by the remote control, see moveByRC, for a time; its throttle is a rate of climb."""
    start_s, max_speeds = drone.state.time_s, [min(limit, motions.MAX_SPEED) for limit in (vx_max, vy_max)]

    def motion(state: VehicleState) -> tuple[Setpoint, bool | None]:
        sticks = drone.sticks
        setpoint = Setpoint(
            _east_north(drone, max_speeds[0] * sticks["pitch"], max_speeds[1] * sticks["roll"]),
            -motions.MAX_YAW_RATE * sticks["yaw"],
            motions.climb_at(motions.MAX_CLIMB * sticks["throttle"])(state),
        )
        return setpoint, True if state.time_s - start_s >= duration else None

    return host.fly(drone, motion)
