"""The calls of the AirSim API that fly; each returns a future that holds in simulated time.

A newer one ends the one before it, whose future then holds False.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable
from typing import Any

from pvn.bridges.airsim import motions
from pvn.bridges.airsim.frames import Vector, from_ned, swap_yaw, to_ned
from pvn.bridges.airsim.host import Service
from pvn.bridges.airsim.motions import Course, Motion, Turn
from pvn.bridges.airsim.vehicle import inside
from pvn.bridges.airsim.wire_types import number, vector_of

TAKEOFF_M, TAKEOFF_SPEED = 3.0, 1.0
HOME_SPEED = 2.0
LANDING_SPEED = 0.5
FORWARD_ONLY = 1
MOST_POINTS = 10_000


def _check_may_fly(service: Service, name: str) -> None:
    if not service.world.has_api_control:
        raise ValueError(f"{name}: API control is off; call enableApiControl(True) first")
    if not service.world.is_armed:
        raise ValueError(f"{name}: the vehicle is not armed; call armDisarm(True) first")


def _fly(service: Service, name: str, motion: Motion) -> asyncio.Future[bool]:
    """Begin a motion; the future holds once it is over, in simulated time."""
    _check_may_fly(service, name)
    future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def done(result: bool) -> None:
        if not future.done():
            future.set_result(result)

    # A client that leaves cancels its futures; an awaited clock must not run for it any more.
    future.add_done_callback(lambda _: service.world.forget(done))
    service.world.start(motion, done)
    service.wake()
    return future


def _turn(yaw_mode: Any, drivetrain: Any) -> Turn:
    """The turn of a YawMode, whose angle a drive train that looks ahead counts from where it flies."""
    mode = yaw_mode if isinstance(yaw_mode, dict) else {}
    value = math.radians(number(mode.get("yaw_or_rate", 0.0), "yaw_or_rate"))
    if mode.get("is_rate", True):
        return motions.at_rate(-value)
    return motions.ahead(-value) if drivetrain == FORWARD_ONLY else motions.to_heading(swap_yaw(value))


def takeoff(service: Service, timeout_sec: Any = 20, vehicle_name: str = "") -> Awaitable[bool]:
    """Climb 3 m."""
    world = service.world
    x, y, z = world.position
    speed = math.hypot(*world.velocity)
    if speed > 0.1:
        raise ValueError(f"takeoff: got a vehicle that moves at {speed:.1f} m/s, expected one at rest; hover first")
    timeout = number(timeout_sec, "timeout_sec")
    motion = motions.along([(x, y, z + TAKEOFF_M)], TAKEOFF_SPEED, motions.at_rate(0.0), timeout, world.vehicle)
    return _fly(service, "takeoff", motion)


def land(service: Service, timeout_sec: Any = 60, vehicle_name: str = "") -> Awaitable[bool]:
    """Sink to the ground below."""
    motion = motions.land(LANDING_SPEED, number(timeout_sec, "timeout_sec"), service.world.vehicle)
    return _fly(service, "land", motion)


def goHome(service: Service, timeout_sec: Any = 3e38, vehicle_name: str = "") -> Awaitable[bool]:
    """Fly to where the vehicle stood at first, straight, as AirSim does."""
    timeout = number(timeout_sec, "timeout_sec")
    home = [from_ned((0.0, 0.0, 0.0))]
    return _fly(
        service, "goHome", motions.along(home, HOME_SPEED, motions.at_rate(0.0), timeout, service.world.vehicle)
    )


def hover(service: Service, vehicle_name: str = "") -> bool:
    """Brake and stay; answered at once, as hovering has no end."""
    _check_may_fly(service, "hover")
    if not service.world.is_landed:
        service.world.start(motions.hover(service.world.position[2]))
    return True


def cancelLastTask(service: Service, vehicle_name: str = "") -> None:
    """End what the vehicle is doing; it hovers."""
    if not service.world.is_landed:
        service.world.cancel()


def _by_velocity(service: Service, name: str, course: Course, duration: Any, turn: Turn) -> Awaitable[bool]:
    seconds = number(duration, "duration")
    return _fly(service, name, motions.by_velocity(course, turn, seconds, service.world.vehicle))


def moveByVelocity(
    service: Service, vx: Any, vy: Any, vz: Any, duration: Any, drivetrain: Any = 0, yaw_mode: Any = None,
    vehicle_name: str = "",
) -> Awaitable[bool]:  # fmt: skip
    """Hold a velocity, NED, for a time."""
    north, east, down = number(vx, "vx"), number(vy, "vy"), number(vz, "vz")
    course = Course(velocity=(east, north), climb=-down)
    return _by_velocity(service, "moveByVelocity", course, duration, _turn(yaw_mode, drivetrain))


def moveByVelocityZ(
    service: Service, vx: Any, vy: Any, z: Any, duration: Any, drivetrain: Any = 0, yaw_mode: Any = None,
    vehicle_name: str = "",
) -> Awaitable[bool]:  # fmt: skip
    """Hold a velocity to the north and east, and a height, for a time."""
    north, east = number(vx, "vx"), number(vy, "vy")
    altitude = from_ned((0.0, 0.0, number(z, "z")))[2]
    course = Course(velocity=(east, north), altitude=altitude)
    return _by_velocity(service, "moveByVelocityZ", course, duration, _turn(yaw_mode, drivetrain))


def _east_north(service: Service, forward: float, right: float) -> tuple[float, float]:
    """The velocity, m/s, of one along the heading of this moment: AirSim looks at the heading once."""
    yaw = service.world.vehicle.yaw
    ahead, aside = (math.cos(yaw), math.sin(yaw)), (math.sin(yaw), -math.cos(yaw))
    return forward * ahead[0] + right * aside[0], forward * ahead[1] + right * aside[1]


def moveByVelocityBodyFrame(
    service: Service, vx: Any, vy: Any, vz: Any, duration: Any, drivetrain: Any = 0, yaw_mode: Any = None,
    vehicle_name: str = "",
) -> Awaitable[bool]:  # fmt: skip
    """Hold a velocity for a time: forward, to the right and down as the vehicle heads when it begins."""
    forward, right, down = number(vx, "vx"), number(vy, "vy"), number(vz, "vz")
    course = Course(velocity=_east_north(service, forward, right), climb=-down)
    return _by_velocity(service, "moveByVelocityBodyFrame", course, duration, _turn(yaw_mode, drivetrain))


def moveByVelocityZBodyFrame(
    service: Service, vx: Any, vy: Any, z: Any, duration: Any, drivetrain: Any = 0, yaw_mode: Any = None,
    vehicle_name: str = "",
) -> Awaitable[bool]:  # fmt: skip
    """Hold a velocity, forward and to the right as the vehicle heads when it begins, and a height, for a time."""
    forward, right = number(vx, "vx"), number(vy, "vy")
    altitude = from_ned((0.0, 0.0, number(z, "z")))[2]
    course = Course(velocity=_east_north(service, forward, right), altitude=altitude)
    return _by_velocity(service, "moveByVelocityZBodyFrame", course, duration, _turn(yaw_mode, drivetrain))


def _along(
    service: Service, name: str, path: list[Vector], velocity: Any, timeout_sec: Any, drivetrain: Any, yaw_mode: Any
) -> Awaitable[bool]:
    speed = number(velocity, "velocity")
    if speed <= 0:
        raise ValueError(f"velocity: got {speed:g} m/s, expected more than 0")
    if drivetrain == FORWARD_ONLY and (not isinstance(yaw_mode, dict) or yaw_mode.get("is_rate", True)):
        raise ValueError(f"{name}: got a yaw rate for ForwardOnly, expected an angle; pass yaw_mode=YawMode(False, 0)")
    points = [inside(point) for point in path]
    turn, timeout = _turn(yaw_mode, drivetrain), number(timeout_sec, "timeout_sec")
    return _fly(service, name, motions.along(points, speed, turn, timeout, service.world.vehicle))


def moveToPosition(
    service: Service, x: Any, y: Any, z: Any, velocity: Any, timeout_sec: Any = 3e38, drivetrain: Any = 0,
    yaw_mode: Any = None, lookahead: Any = -1, adaptive_lookahead: Any = 1, vehicle_name: str = "",
) -> Awaitable[bool]:  # fmt: skip
    """Fly straight to a place, NED, and arrive there."""
    goal = number(x, "x"), number(y, "y"), number(z, "z")
    return _along(service, "moveToPosition", [goal], velocity, timeout_sec, drivetrain, yaw_mode)


def moveToZ(
    service: Service, z: Any, velocity: Any, timeout_sec: Any = 3e38, yaw_mode: Any = None, lookahead: Any = -1,
    adaptive_lookahead: Any = 1, vehicle_name: str = "",
) -> Awaitable[bool]:  # fmt: skip
    """Climb or sink to a height, NED."""
    north, east, _ = to_ned(service.world.position)
    return _along(service, "moveToZ", [(north, east, number(z, "z"))], velocity, timeout_sec, 0, yaw_mode)


def moveOnPath(
    service: Service, path: Any, velocity: Any, timeout_sec: Any = 3e38, drivetrain: Any = 0, yaw_mode: Any = None,
    lookahead: Any = -1, adaptive_lookahead: Any = 1, vehicle_name: str = "",
) -> Awaitable[bool]:  # fmt: skip
    """Fly past the points of a path, NED, and arrive at the last."""
    if not isinstance(path, list) or not 1 <= len(path) <= MOST_POINTS:
        got = len(path) if isinstance(path, list) else type(path).__name__
        raise ValueError(f"path: got {got}, expected a list of 1 to {MOST_POINTS} points")
    points = [vector_of(point, "path") for point in path]
    return _along(service, "moveOnPath", points, velocity, timeout_sec, drivetrain, yaw_mode)


def rotateToYaw(
    service: Service, yaw: Any, timeout_sec: Any = 3e38, margin: Any = 5, vehicle_name: str = ""
) -> Awaitable[bool]:
    """Turn to a heading, degrees clockwise from north, to within a margin."""
    target = swap_yaw(math.radians(number(yaw, "yaw")))
    within = math.radians(number(margin, "margin"))
    motion = motions.rotate_to(target, within, number(timeout_sec, "timeout_sec"), service.world.vehicle)
    return _fly(service, "rotateToYaw", motion)


def rotateByYawRate(service: Service, yaw_rate: Any, duration: Any, vehicle_name: str = "") -> Awaitable[bool]:
    """Turn at a rate, degrees a second clockwise, for a time."""
    rate = -math.radians(number(yaw_rate, "yaw_rate"))
    course = Course(velocity=(0.0, 0.0), climb=0.0)
    return _by_velocity(service, "rotateByYawRate", course, duration, motions.at_rate(rate))
