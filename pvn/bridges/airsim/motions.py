"""The motions AirSim knows, as functions from where the drone is to what it should do now, until they are done.

Field frame throughout: metres, radians, x east, y north, z up, yaw counter-clockwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pvn.bridges.airsim.frames import Vector, wrap
from pvn.simulator.quadcopter import HIGHEST, LOWEST, Airframe, hover_rotor_speed

MAX_SPEED = 15.0  # m/s, sideways
MAX_CLIMB = 5.0  # m/s
MAX_YAW_RATE = math.radians(120.0)
APPROACH = 1.2  # 1/s: near its target the drone flies no faster than this times the distance
ARRIVED_M, ARRIVED_SPEED = 0.1, 0.3
STRAIGHT = 0.9  # cosine of the turn up to which a path goes on straight
TURN_GAIN = 2.0  # 1/s
SHORT_WAY = 0.5  # metres or m/s: below it, as in AirSim, a way does not tell where to look
ON_THE_GROUND_M = 0.02


@dataclass(frozen=True)
class Vehicle:
    """The drone as a motion sees it."""

    time_s: float
    """Simulated time."""
    position: Vector
    """Metres, field frame."""
    velocity: Vector
    """m/s, field frame."""
    yaw: float
    """Radians counter-clockwise from east."""


@dataclass(frozen=True)
class Setpoint:
    """What the quadcopter's controller is to hold."""

    velocity: tuple[float, float] = (0.0, 0.0)
    """m/s, east and north."""
    yaw_rate: float = 0.0
    """rad/s, left is positive."""
    altitude: float = LOWEST
    """Metres above the ground."""


Motion = Callable[[Vehicle], tuple[Setpoint, bool | None]]
"""What to do now, and whether it has succeeded (True), failed (False) or goes on (None)."""

Way = tuple[float, float]
"""Where the drone flies, east and north: a velocity, or what is left to the next point."""

Turn = Callable[[Vehicle, Way], float]
"""The yaw rate to hold now, rad/s."""


def _limited(value: float, most: float) -> float:
    return min(max(value, -most), most)


def at_rate(rate: float) -> Turn:
    """Turn at a rate, rad/s."""
    limited = _limited(rate, MAX_YAW_RATE)
    return lambda vehicle, way: limited


def to_heading(yaw: float) -> Turn:
    """Turn to a heading and keep it."""
    return lambda vehicle, way: _limited(TURN_GAIN * wrap(yaw - vehicle.yaw), MAX_YAW_RATE)


def ahead(left: float) -> Turn:
    """Look `left` radians to the left of where the drone flies at each moment."""

    def turn(vehicle: Vehicle, way: Way) -> float:
        if math.hypot(*way) < SHORT_WAY:
            return 0.0
        return to_heading(math.atan2(way[1], way[0]) + left)(vehicle, way)

    return turn


def _climb_lead(airframe: Airframe) -> float:
    """Seconds: how far ahead of a climb its altitude set-point must be for the controller to hold the rate of climb.

    The controller knows altitudes alone: acceleration = altitude_gain * (altitude - z) - climb_gain * v. With the
    set-point v * lead above the drone, it holds v; the rotors' inflow drag is leant against beforehand.
    """
    inflow = 4 * airframe.inflow_drag * hover_rotor_speed(airframe) / airframe.mass
    return (airframe.climb_gain + inflow) / airframe.altitude_gain


CLIMB_LEAD = _climb_lead(Airframe())


def _climbing(vehicle: Vehicle, climb: float) -> float:
    """The altitude set-point that climbs at a rate, m/s."""
    return min(max(vehicle.position[2] + CLIMB_LEAD * _limited(climb, MAX_CLIMB), LOWEST), HIGHEST)


def hover(altitude: float) -> Motion:
    """Brake and stay, for ever."""
    setpoint = Setpoint(altitude=min(max(altitude, LOWEST), HIGHEST))
    return lambda vehicle: (setpoint, None)


@dataclass(frozen=True, kw_only=True)
class Course:
    """A velocity to hold."""

    velocity: tuple[float, float]
    """m/s, east and north."""
    climb: float | None = None
    """m/s; 0 holds the altitude the motion begins at, None another one."""
    altitude: float = 0.0
    """Metres, held where climb is None."""


def by_velocity(course: Course, turn: Turn, duration_s: float, begin: Vehicle) -> Motion:
    """Hold a velocity and turn for a time."""
    fast = math.hypot(*course.velocity)
    shrink = min(1.0, MAX_SPEED / fast) if fast else 1.0
    velocity = course.velocity[0] * shrink, course.velocity[1] * shrink
    held = begin.position[2] if course.climb == 0 else course.altitude
    held = min(max(held, LOWEST), HIGHEST)

    def aim(vehicle: Vehicle) -> tuple[Setpoint, bool | None]:
        altitude = _climbing(vehicle, course.climb) if course.climb else held
        setpoint = Setpoint(velocity, turn(vehicle, velocity), altitude)
        # Half a microsecond of grace: times are sums of many steps.
        return setpoint, True if vehicle.time_s - begin.time_s >= duration_s - 5e-7 else None

    return aim


def _is_passed(here: Vector, point: Vector, before: Vector, after: Vector, speed: float) -> bool:
    """Whether a drone on its way to a point may fly on to the one after it.

    It may as soon as flying on to the point would mean slowing down; where the path turns there, only in the second
    half of the leg, or a small round trip would be over before it began.
    """
    off, on = ([b - a for a, b in zip(*ends, strict=True)] for ends in ((here, point), (point, after)))
    distance, near = math.hypot(*off), speed / APPROACH
    if sum(a * b for a, b in zip(off, on, strict=True)) <= STRAIGHT * distance * math.hypot(*on):
        near = min(near, math.dist(before, point) / 2)
    return distance < max(near, ARRIVED_M)


def along(path: Sequence[Vector], speed: float, turn: Turn, timeout_s: float, begin: Vehicle) -> Motion:
    """Fly to each point in turn and arrive at the last; False after `timeout_s`."""
    remaining, before = list(path), begin.position
    speed = _limited(speed, MAX_SPEED)

    def aim(vehicle: Vehicle) -> tuple[Setpoint, bool | None]:
        nonlocal before
        while len(remaining) > 1 and _is_passed(vehicle.position, remaining[0], before, remaining[1], speed):
            before = remaining.pop(0)
        east, north, up = (goal - here for goal, here in zip(remaining[0], vehicle.position, strict=True))
        distance = math.hypot(east, north, up)
        pace = min(speed, APPROACH * distance) / max(distance, 1e-9)
        altitude = _climbing(vehicle, up * pace)
        has_arrived = distance < ARRIVED_M and math.hypot(*vehicle.velocity) < ARRIVED_SPEED
        is_late = vehicle.time_s - begin.time_s >= timeout_s
        setpoint = Setpoint((east * pace, north * pace), turn(vehicle, (east, north)), altitude)
        return setpoint, True if has_arrived else (False if is_late else None)

    return aim


def rotate_to(yaw: float, margin: float, timeout_s: float, begin: Vehicle) -> Motion:
    """Hover and turn to a heading, to within `margin` radians."""
    turn, altitude = to_heading(yaw), begin.position[2]

    def aim(vehicle: Vehicle) -> tuple[Setpoint, bool | None]:
        is_there = abs(wrap(yaw - vehicle.yaw)) <= margin
        is_late = vehicle.time_s - begin.time_s >= timeout_s
        return Setpoint(yaw_rate=turn(vehicle, (0.0, 0.0)), altitude=altitude), True if is_there else (
            False if is_late else None
        )

    return aim


def land(speed: float, timeout_s: float, begin: Vehicle) -> Motion:
    """Sink at a speed, m/s, until the ground."""

    def aim(vehicle: Vehicle) -> tuple[Setpoint, bool | None]:
        is_down = vehicle.position[2] < LOWEST + ON_THE_GROUND_M
        is_late = vehicle.time_s - begin.time_s >= timeout_s
        # No lower limit here: the set-point must stay below the ground for the drone to come down to it.
        altitude = vehicle.position[2] - CLIMB_LEAD * speed
        return Setpoint(altitude=altitude), True if is_down else (False if is_late else None)

    return aim
