"""The calls of the AirSim API that fly; each returns a future that is resolved in simulated time.

A new motion ends the current one, whose future then holds False.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable
from typing import Any

from pvn.bridges.airsim import sensors
from pvn.bridges.airsim.drone import Drone
from pvn.bridges.airsim.host import Host
from pvn.bridges.airsim.state_api import reach
from pvn.bridges.airsim.wire_types import parse_number, parse_vector
from pvn.bridges.shared import motions
from pvn.bridges.shared.frames import Vector, from_ned, swap_yaw, to_ned
from pvn.bridges.shared.motions import Motion, VelocityTarget, YawControl

TAKEOFF_HEIGHT_M, TAKEOFF_SPEED = 3.0, 1.0
HOME_SPEED = 2.0
LANDING_SPEED = 0.5
FORWARD_ONLY = 1
MAX_PATH_POINTS = 10_000


def _check_may_fly(drone: Drone, method: str) -> None:
    if drone.vehicle.is_floating:
        raise ValueError(f"{method}: a vehicle of type ComputerVision does not fly; use simSetVehiclePose")
    if not drone.vehicle.has_api_control:
        raise ValueError(f"{method}: API control is off; call enableApiControl(True) first")
    if not drone.vehicle.is_armed:
        raise ValueError(f"{method}: the vehicle is not armed; call armDisarm(True) first")


def start_motion(host: Host, drone: Drone, method: str, motion: Motion) -> asyncio.Future[bool]:
    """Start a motion; the future holds whether it succeeded, once it is over."""
    _check_may_fly(drone, method)
    future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def on_done(has_succeeded: bool) -> None:
        if not future.done():
            future.set_result(has_succeeded)

    # A client that disconnects cancels its futures; the clock must not keep running on its account.
    future.add_done_callback(lambda _: drone.vehicle.stop_waiting(on_done))
    drone.vehicle.start_motion(motion, on_done)
    host.wake_clock()
    return future


def _parse_yaw_mode(yaw_mode: Any, drivetrain: Any) -> YawControl:
    """How a YawMode turns the vehicle; with ForwardOnly its angle is relative to the direction of travel."""
    mode = yaw_mode if isinstance(yaw_mode, dict) else {}
    value = math.radians(parse_number(mode.get("yaw_or_rate", 0.0), "yaw_or_rate"))
    if mode.get("is_rate", True):
        return motions.turn_at_rate(-value)
    return motions.face_travel(-value) if drivetrain == FORWARD_ONLY else motions.turn_to_heading(swap_yaw(value))


def takeoff(host: Host, timeout_sec: Any = 20, vehicle_name: str = "") -> Awaitable[bool]:
    """Climb 3 m."""
    drone = host.find_drone(vehicle_name)
    vehicle = drone.vehicle
    x, y, z = vehicle.position
    speed = math.hypot(*vehicle.velocity)
    if speed > 0.1:
        raise ValueError(f"takeoff: got a vehicle moving at {speed:.1f} m/s, expected one at rest; hover first")
    timeout = parse_number(timeout_sec, "timeout_sec")
    above = [(x, y, z + TAKEOFF_HEIGHT_M)]
    motion = motions.follow_path(above, TAKEOFF_SPEED, motions.turn_at_rate(0.0), timeout, vehicle.state)
    return start_motion(host, drone, "takeoff", motion)


def land(host: Host, timeout_sec: Any = 60, vehicle_name: str = "") -> Awaitable[bool]:
    """Descend to the ground below."""
    drone = host.find_drone(vehicle_name)
    motion = motions.land(LANDING_SPEED, parse_number(timeout_sec, "timeout_sec"), drone.vehicle.state)
    return start_motion(host, drone, "land", motion)


def goHome(host: Host, timeout_sec: Any = 3e38, vehicle_name: str = "") -> Awaitable[bool]:
    """Fly straight to the vehicle's initial position, as AirSim does."""
    drone, timeout = host.find_drone(vehicle_name), parse_number(timeout_sec, "timeout_sec")
    motion = motions.follow_path([drone.origin], HOME_SPEED, motions.turn_at_rate(0.0), timeout, drone.vehicle.state)
    return start_motion(host, drone, "goHome", motion)


def hover(host: Host, vehicle_name: str = "") -> bool:
    """Brake and hover; answered at once, because hovering never ends."""
    drone = host.find_drone(vehicle_name)
    _check_may_fly(drone, "hover")
    if not drone.vehicle.is_landed:
        drone.vehicle.start_motion(motions.hover(drone.vehicle.position[2]))
    return True


def cancelLastTask(host: Host, vehicle_name: str = "") -> None:
    """End the current motion and hover."""
    vehicle = host.find_drone(vehicle_name).vehicle
    if not vehicle.is_landed:
        vehicle.cancel_motion()


def _hold_velocity(
    host: Host, drone: Drone, method: str, target: VelocityTarget, duration: Any, yaw_control: YawControl
) -> Awaitable[bool]:
    seconds = parse_number(duration, "duration")
    return start_motion(host, drone, method, motions.hold_velocity(target, yaw_control, seconds, drone.vehicle.state))


def _altitude(drone: Drone, z: Any) -> float:
    """The height above the ground, metres, of a z of NED."""
    return from_ned((0.0, 0.0, parse_number(z, "z")), drone.origin)[2]


def moveByVelocity(
    host: Host, vx: Any, vy: Any, vz: Any, duration: Any, drivetrain: Any = 0, yaw_mode: Any = None,
    vehicle_name: str = "",
) -> Awaitable[bool]:  # fmt: skip
    """Hold a velocity, NED, for a time."""
    drone = host.find_drone(vehicle_name)
    north, east, down = parse_number(vx, "vx"), parse_number(vy, "vy"), parse_number(vz, "vz")
    target = VelocityTarget(velocity=(east, north), climb=-down)
    return _hold_velocity(host, drone, "moveByVelocity", target, duration, _parse_yaw_mode(yaw_mode, drivetrain))


def moveByVelocityZ(
    host: Host, vx: Any, vy: Any, z: Any, duration: Any, drivetrain: Any = 0, yaw_mode: Any = None,
    vehicle_name: str = "",
) -> Awaitable[bool]:  # fmt: skip
    """Hold a velocity, north and east, and a height, NED, for a time."""
    drone = host.find_drone(vehicle_name)
    north, east = parse_number(vx, "vx"), parse_number(vy, "vy")
    target = VelocityTarget(velocity=(east, north), altitude=_altitude(drone, z))
    return _hold_velocity(host, drone, "moveByVelocityZ", target, duration, _parse_yaw_mode(yaw_mode, drivetrain))


def _body_to_world(drone: Drone, forward: float, right: float) -> tuple[float, float]:
    """A velocity, m/s, relative to the current heading, as east and north: AirSim reads the heading only once."""
    yaw = drone.vehicle.yaw
    ahead, aside = (math.cos(yaw), math.sin(yaw)), (math.sin(yaw), -math.cos(yaw))
    return forward * ahead[0] + right * aside[0], forward * ahead[1] + right * aside[1]


def moveByVelocityBodyFrame(
    host: Host, vx: Any, vy: Any, vz: Any, duration: Any, drivetrain: Any = 0, yaw_mode: Any = None,
    vehicle_name: str = "",
) -> Awaitable[bool]:  # fmt: skip
    """Hold a velocity for a time: forward, right and down, relative to the heading when the motion starts."""
    drone = host.find_drone(vehicle_name)
    forward, right, down = parse_number(vx, "vx"), parse_number(vy, "vy"), parse_number(vz, "vz")
    target = VelocityTarget(velocity=_body_to_world(drone, forward, right), climb=-down)
    yaw_control = _parse_yaw_mode(yaw_mode, drivetrain)
    return _hold_velocity(host, drone, "moveByVelocityBodyFrame", target, duration, yaw_control)


def moveByVelocityZBodyFrame(
    host: Host, vx: Any, vy: Any, z: Any, duration: Any, drivetrain: Any = 0, yaw_mode: Any = None,
    vehicle_name: str = "",
) -> Awaitable[bool]:  # fmt: skip
    """Hold a height, NED, and a velocity, forward and right of the heading when the motion starts, for a time."""
    drone = host.find_drone(vehicle_name)
    forward, right = parse_number(vx, "vx"), parse_number(vy, "vy")
    target = VelocityTarget(velocity=_body_to_world(drone, forward, right), altitude=_altitude(drone, z))
    yaw_control = _parse_yaw_mode(yaw_mode, drivetrain)
    return _hold_velocity(host, drone, "moveByVelocityZBodyFrame", target, duration, yaw_control)


def _follow_path(
    host: Host, drone: Drone, method: str, path_ned: list[Vector], velocity: Any, timeout_sec: Any, drivetrain: Any,
    yaw_mode: Any,
) -> Awaitable[bool]:  # fmt: skip
    speed = parse_number(velocity, "velocity")
    if speed <= 0:
        raise ValueError(f"velocity: got {speed:g} m/s, expected more than 0")
    if drivetrain == FORWARD_ONLY and (not isinstance(yaw_mode, dict) or yaw_mode.get("is_rate", True)):
        raise ValueError(
            f"{method}: got a yaw rate for ForwardOnly, expected an angle; pass yaw_mode=YawMode(False, 0)"
        )
    path = [reach(host, drone, method, point) for point in path_ned]
    yaw_control, timeout = _parse_yaw_mode(yaw_mode, drivetrain), parse_number(timeout_sec, "timeout_sec")
    return start_motion(
        host, drone, method, motions.follow_path(path, speed, yaw_control, timeout, drone.vehicle.state)
    )


def moveToPosition(
    host: Host, x: Any, y: Any, z: Any, velocity: Any, timeout_sec: Any = 3e38, drivetrain: Any = 0,
    yaw_mode: Any = None, lookahead: Any = -1, adaptive_lookahead: Any = 1, vehicle_name: str = "",
) -> Awaitable[bool]:  # fmt: skip
    """Fly straight to a position, NED, and stop there."""
    goal = parse_number(x, "x"), parse_number(y, "y"), parse_number(z, "z")
    drone = host.find_drone(vehicle_name)
    return _follow_path(host, drone, "moveToPosition", [goal], velocity, timeout_sec, drivetrain, yaw_mode)


def moveToGPS(
    host: Host, latitude: Any, longitude: Any, altitude: Any, velocity: Any, timeout_sec: Any = 3e38,
    drivetrain: Any = 0, yaw_mode: Any = None, lookahead: Any = -1, adaptive_lookahead: Any = 1,
    vehicle_name: str = "",
) -> Awaitable[bool]:  # fmt: skip
    """Fly straight to a point on the globe and stop there."""
    drone = host.find_drone(vehicle_name)
    point = parse_number(latitude, "latitude"), parse_number(longitude, "longitude"), parse_number(altitude, "altitude")
    goal = to_ned(from_ned(sensors.from_geo_point(point, host.settings.origin)), drone.origin)
    return _follow_path(host, drone, "moveToGPS", [goal], velocity, timeout_sec, drivetrain, yaw_mode)


def moveToZ(
    host: Host, z: Any, velocity: Any, timeout_sec: Any = 3e38, yaw_mode: Any = None, lookahead: Any = -1,
    adaptive_lookahead: Any = 1, vehicle_name: str = "",
) -> Awaitable[bool]:  # fmt: skip
    """Climb or descend to a height, NED."""
    drone = host.find_drone(vehicle_name)
    north, east, _ = to_ned(drone.vehicle.position, drone.origin)
    goal = north, east, parse_number(z, "z")
    return _follow_path(host, drone, "moveToZ", [goal], velocity, timeout_sec, 0, yaw_mode)


def moveOnPath(
    host: Host, path: Any, velocity: Any, timeout_sec: Any = 3e38, drivetrain: Any = 0, yaw_mode: Any = None,
    lookahead: Any = -1, adaptive_lookahead: Any = 1, vehicle_name: str = "",
) -> Awaitable[bool]:  # fmt: skip
    """Fly past the points of a path, NED, and stop at the last."""
    if not isinstance(path, list) or not 1 <= len(path) <= MAX_PATH_POINTS:
        got = len(path) if isinstance(path, list) else type(path).__name__
        raise ValueError(f"path: got {got}, expected a list of 1 to {MAX_PATH_POINTS} points")
    points = [parse_vector(point, "path") for point in path]
    drone = host.find_drone(vehicle_name)
    return _follow_path(host, drone, "moveOnPath", points, velocity, timeout_sec, drivetrain, yaw_mode)


def rotateToYaw(
    host: Host, yaw: Any, timeout_sec: Any = 3e38, margin: Any = 5, vehicle_name: str = ""
) -> Awaitable[bool]:
    """Turn to a heading, degrees clockwise from north, to within a margin, degrees."""
    drone = host.find_drone(vehicle_name)
    target = swap_yaw(math.radians(parse_number(yaw, "yaw")))
    tolerance = math.radians(parse_number(margin, "margin"))
    timeout = parse_number(timeout_sec, "timeout_sec")
    return start_motion(
        host, drone, "rotateToYaw", motions.rotate_to_yaw(target, tolerance, timeout, drone.vehicle.state)
    )


def rotateByYawRate(host: Host, yaw_rate: Any, duration: Any, vehicle_name: str = "") -> Awaitable[bool]:
    """Turn at a rate, degrees per second clockwise, for a time."""
    rate = -math.radians(parse_number(yaw_rate, "yaw_rate"))
    target = VelocityTarget(velocity=(0.0, 0.0), climb=0.0)
    drone = host.find_drone(vehicle_name)
    return _hold_velocity(host, drone, "rotateByYawRate", target, duration, motions.turn_at_rate(rate))
