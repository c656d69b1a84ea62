"""AirSim's motions: functions from the vehicle's state to the current set-point and whether the motion is over.

Field frame throughout: metres, radians, x east, y north, z up, yaw counter-clockwise from east.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pvn.bridges.shared.frames import Quaternion, Vector, roll_pitch_yaw
from pvn.paths import wrap_radians
from pvn.simulator.quadcopter import GRAVITY, LOWEST, Airframe, hover_rotor_speed

MAX_SPEED = 15.0  # m/s, horizontal
MAX_CLIMB = 5.0  # m/s
MAX_YAW_RATE = math.radians(120.0)
APPROACH_GAIN = 1.2  # 1/s: near its target the drone flies no faster than this times the distance
ARRIVAL_DISTANCE_M, ARRIVAL_SPEED = 0.1, 0.3
STRAIGHT_COSINE = 0.9  # where the cosine of a path's turn is larger, the path counts as straight
YAW_GAIN = 2.0  # 1/s
MIN_TRAVEL = 0.5  # metres or m/s; as in AirSim, a drone does not turn towards a shorter travel vector
LANDED_HEIGHT_M = 0.02


@dataclass(frozen=True)
class VehicleState:
    """Where a vehicle is and how it moves."""

    time_s: float
    """Simulated time."""
    position: Vector
    """Metres, field frame."""
    velocity: Vector
    """m/s, field frame."""
    rotation: Quaternion = (1.0, 0.0, 0.0, 0.0)
    """Body to field frame."""
    rates_body: Vector = (0.0, 0.0, 0.0)
    """Angular velocity, our body frame, rad/s."""

    @property
    def time_ns(self) -> int:
        """Simulated time, nanoseconds."""
        return round(self.time_s * 1e9)

    @property
    def yaw(self) -> float:
        """Heading, radians counter-clockwise from east."""
        return roll_pitch_yaw(self.rotation)[2]


@dataclass(frozen=True)
class Setpoint:
    """What the quadcopter's controller has to hold."""

    velocity: tuple[float, float] = (0.0, 0.0)
    """m/s, east and north."""
    yaw_rate: float = 0.0
    """rad/s, left is positive."""
    altitude: float = LOWEST
    """Metres above the ground."""


Motion = Callable[[VehicleState], tuple[Setpoint, bool | None]]
"""Returns the current set-point, and whether the motion has succeeded (True), failed (False) or continues (None)."""

Travel = tuple[float, float]
"""The direction of travel, east and north: a velocity, or the offset to the next point."""

YawControl = Callable[[VehicleState, Travel], float]
"""Returns the yaw rate to hold now, rad/s."""


def _clamp(value: float, limit: float) -> float:
    return min(max(value, -limit), limit)


def turn_at_rate(yaw_rate: float) -> YawControl:
    """Turn at a constant rate, rad/s."""
    limited = _clamp(yaw_rate, MAX_YAW_RATE)
    return lambda state, travel: limited


def turn_to_heading(yaw: float) -> YawControl:
    """Turn to a heading, radians, and hold it."""
    return lambda state, travel: _clamp(YAW_GAIN * wrap_radians(yaw - state.yaw), MAX_YAW_RATE)


def face_travel(offset: float) -> YawControl:
    """Face `offset` radians to the left of the current direction of travel."""

    def control(state: VehicleState, travel: Travel) -> float:
        if math.hypot(*travel) < MIN_TRAVEL:
            return 0.0
        return turn_to_heading(math.atan2(travel[1], travel[0]) + offset)(state, travel)

    return control


def _climb_lead(airframe: Airframe) -> float:
    """How far ahead of the drone, in seconds of climb, the altitude set-point has to be to hold a rate of climb.

    The controller tracks altitudes only: acceleration = altitude_gain * (altitude - z) - climb_gain * v. With the
    set-point v * lead above the drone it holds v; the lead also compensates for the rotors' inflow drag.
    """
    inflow = 4 * airframe.inflow_drag * hover_rotor_speed(airframe) / airframe.mass
    return (airframe.climb_gain + inflow) / airframe.altitude_gain


CLIMB_LEAD_S = _climb_lead(Airframe())


HeightControl = Callable[[VehicleState], float]
"""Returns the altitude set-point now, metres."""


def hold_altitude(altitude: float) -> HeightControl:
    """Hold an altitude above the ground, metres."""
    held = max(altitude, LOWEST)
    return lambda state: held


def climb_at(rate: float) -> HeightControl:
    """Climb at a rate, m/s."""
    limited = _clamp(rate, MAX_CLIMB)
    return lambda state: max(state.position[2] + CLIMB_LEAD_S * limited, LOWEST)


def hover(altitude: float) -> Motion:
    """Brake and hover; this never ends."""
    setpoint = Setpoint(altitude=max(altitude, LOWEST))
    return lambda state: (setpoint, None)


def _is_over(state: VehicleState, start: VehicleState, duration_s: float) -> bool | None:
    # Half a microsecond of tolerance, as times are sums of many steps.
    return True if state.time_s - start.time_s >= duration_s - 5e-7 else None


def hold_velocity(
    velocity: tuple[float, float], height: HeightControl, yaw_control: YawControl, duration_s: float,
    start: VehicleState,
) -> Motion:  # fmt: skip
    """Hold a velocity, m/s, east and north, for a time."""
    speed = math.hypot(*velocity)
    scale = min(1.0, MAX_SPEED / speed) if speed else 1.0
    held = velocity[0] * scale, velocity[1] * scale

    def motion(state: VehicleState) -> tuple[Setpoint, bool | None]:
        return Setpoint(held, yaw_control(state, held), height(state)), _is_over(state, start, duration_s)

    return motion


_DRAG = 4 * Airframe().rotor_drag * hover_rotor_speed(Airframe()) / Airframe().mass
"""Deceleration per speed, 1/s, that the controller expects of the rotors."""


def hold_attitude(
    right_down: float, nose_down: float, height: HeightControl, yaw_control: YawControl, duration_s: float,
    start: VehicleState,
) -> Motion:  # fmt: skip
    """Lean by two angles, radians, for a time.

    The controller holds velocities. In each tick the one that makes it lean so far is computed from its law; it leans
    at most as far as the airframe allows.
    """
    ahead, right = GRAVITY * math.tan(_clamp(nose_down, 1.0)), GRAVITY * math.tan(_clamp(right_down, 1.0))
    gain = Airframe().velocity_gain

    def motion(state: VehicleState) -> tuple[Setpoint, bool | None]:
        cos, sin = math.cos(state.yaw), math.sin(state.yaw)
        push = ahead * cos + right * sin, ahead * sin - right * cos
        east, north = ((want + gain * now) / (gain + _DRAG) for want, now in zip(push, state.velocity[:2], strict=True))
        setpoint = Setpoint((east, north), yaw_control(state, (0.0, 0.0)), height(state))
        return setpoint, _is_over(state, start, duration_s)

    return motion


def _may_proceed(position: Vector, point: Vector, previous: Vector, following: Vector, speed: float) -> bool:
    """Whether a drone on its way from the `previous` point to `point` may already head for the `following` one.

    It may as soon as it would have to slow down for the point. Where the path turns, it may do so only on the second
    half of the leg; otherwise a small round trip would be over before it began.
    """
    to_point, onwards = (
        [b - a for a, b in zip(*ends, strict=True)] for ends in ((position, point), (point, following))
    )
    distance, threshold = math.hypot(*to_point), speed / APPROACH_GAIN
    if sum(a * b for a, b in zip(to_point, onwards, strict=True)) <= STRAIGHT_COSINE * distance * math.hypot(*onwards):
        threshold = min(threshold, math.dist(previous, point) / 2)
    return distance < max(threshold, ARRIVAL_DISTANCE_M)


def follow_path(
    path: Sequence[Vector], speed: float, yaw_control: YawControl, timeout_s: float, start: VehicleState
) -> Motion:
    """Fly past each point of a path and arrive at the last; fails after `timeout_s`."""
    remaining, previous = list(path), start.position
    speed = _clamp(speed, MAX_SPEED)

    def motion(state: VehicleState) -> tuple[Setpoint, bool | None]:
        nonlocal previous
        while len(remaining) > 1 and _may_proceed(state.position, remaining[0], previous, remaining[1], speed):
            previous = remaining.pop(0)
        east, north, up = (goal - here for goal, here in zip(remaining[0], state.position, strict=True))
        distance = math.hypot(east, north, up)
        pace = min(speed, APPROACH_GAIN * distance) / max(distance, 1e-9)
        altitude = climb_at(up * pace)(state)
        has_arrived = distance < ARRIVAL_DISTANCE_M and math.hypot(*state.velocity) < ARRIVAL_SPEED
        is_late = state.time_s - start.time_s >= timeout_s
        setpoint = Setpoint((east * pace, north * pace), yaw_control(state, (east, north)), altitude)
        return setpoint, True if has_arrived else (False if is_late else None)

    return motion


def rotate_to_yaw(yaw: float, margin: float, timeout_s: float, start: VehicleState) -> Motion:
    """Hover and turn to a heading, to within `margin` radians; fails after `timeout_s`."""
    yaw_control, altitude = turn_to_heading(yaw), start.position[2]

    def motion(state: VehicleState) -> tuple[Setpoint, bool | None]:
        has_arrived = abs(wrap_radians(yaw - state.yaw)) <= margin
        is_late = state.time_s - start.time_s >= timeout_s
        setpoint = Setpoint(yaw_rate=yaw_control(state, (0.0, 0.0)), altitude=altitude)
        return setpoint, True if has_arrived else (False if is_late else None)

    return motion


def land(speed: float, timeout_s: float, start: VehicleState) -> Motion:
    """Descend at a speed, m/s, to the ground; fails after `timeout_s`."""

    def motion(state: VehicleState) -> tuple[Setpoint, bool | None]:
        has_landed = state.position[2] < LOWEST + LANDED_HEIGHT_M
        is_late = state.time_s - start.time_s >= timeout_s
        # Not clamped to LOWEST: the set-point must stay below the ground for the drone to come all the way down.
        setpoint = Setpoint(altitude=state.position[2] - CLIMB_LEAD_S * speed)
        return setpoint, True if has_landed else (False if is_late else None)

    return motion
