"""What a flight may not exceed, whatever the agent wants, and what ends it: pure functions of what is known now.

Positions and velocities are in the field frame, metres and m/s; times are seconds of one monotonic clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # options are read before anything heavy is imported
    from pvn.bridges.shared.frames import Vector

BRAKING = 1.5
"""Deceleration that we rely on before the fence, m/s^2. Our quadcopter brakes twice as hard; PX4, in its own simulator,
braked less and went 1 to 2 m beyond the fence."""
FENCE_MARGIN_M = 2.0
"""How far beyond the fence the drone may be, by wind or delay, before the flight ends."""
HEIGHT_MARGIN_M = 1.0
HEIGHT_GAIN = 1.0
"""1/s: a drone that is a metre too low climbs at this many m/s."""
MOVING_SPEED, MOVING_YAW_RATE = 0.5, math.radians(10.0)
"""A drone that moves at least this fast must see its picture change."""
MIN_COMMAND_S = 1.0
"""When the agent has not renewed its command for this long, the drone hovers."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What the flight may not exceed, and what ends it."""

    fence: float = 40.0
    """Greatest distance from where the flight began, metres."""
    floor: float = 2.0
    """Lowest height above the ground at which the agent flies, metres."""
    ceiling: float = 15.0
    """Greatest height above the ground, metres."""
    speed: float = 3.0
    """Greatest speed along the ground, m/s."""
    climb: float = 1.0
    """Greatest speed up and down, m/s."""
    yaw_rate: float = math.radians(60.0)
    """Greatest turn rate, rad/s."""
    battery: float = 0.25
    """The drone lands when less than this fraction of the battery is left."""
    telemetry_timeout_s: float = 1.0
    """The flight ends when position or attitude are older than this, seconds."""
    camera_timeout_s: float = 1.0
    """The flight ends when the picture is older, or stays the same for longer while the drone moves, seconds."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name}: got {value}, expected a positive number")
        if self.floor >= self.ceiling:
            raise ValueError(f"ceiling: got {self.ceiling:g} m, expected more than the floor, {self.floor:g} m")
        if self.battery >= 1:
            raise ValueError(f"battery: got {self.battery:g}, expected a fraction, such as 0.25")


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What is known of the drone at a moment."""

    now: float
    telemetry_at: float
    """When the older of position and attitude arrived."""
    position: Vector
    yaw: float
    """Radians counter-clockwise from east."""
    battery: float | None
    """Fraction that is left; None: the autopilot does not say."""
    is_armed: bool
    mode: str
    """The autopilot's flight mode, in its words."""
    picture_at: float
    """When the last picture arrived."""
    picture_changed_at: float
    """When the picture last changed."""
    moving_since: float
    """Since when the drone has moved fast enough for its picture to change; infinite: it does not."""


@dataclass(frozen=True)
class Velocity:
    """A set-point: body frame, held until the next."""

    forward: float = 0.0
    """m/s."""
    climb: float = 0.0
    """m/s."""
    yaw_rate: float = 0.0
    """rad/s, left is positive."""


class Response(Enum):
    """What is done when a flight has to end."""

    HOLD = "the autopilot was asked to hold"
    LAND = "the autopilot was asked to land"
    LET_GO = "nothing more is sent, and the drone is its pilot's"


@dataclass(frozen=True)
class Ending:
    """Why a flight has to end, and what is done."""

    reason: str
    response: Response


def _room(position: Vector, direction: Vector, centre: Vector, fence: float) -> float:
    """Metres along a level direction (unit length) until the fence; 0 beyond it if that leads further away."""
    x, y = position[0] - centre[0], position[1] - centre[1]
    outwards = x * direction[0] + y * direction[1]
    excess = x * x + y * y - fence * fence
    if excess >= 0:
        return 0.0 if outwards > 0 else math.inf
    return -outwards + math.sqrt(outwards * outwards - excess)


def limit_velocity(
    wanted: Velocity, altitude: float, situation: Situation, start: Vector, limits: Limits, age_s: float = 0.0
) -> Velocity:
    """The set-point to send: what the agent wants, slowed before the fence and bounded, with the height held.

    altitude: height to hold, metres. start: the centre of the fence. age_s: how long ago the agent said what it wants.
    """
    if age_s > MIN_COMMAND_S or not all(map(math.isfinite, (wanted.forward, wanted.yaw_rate))):
        wanted = Velocity()
    ahead = (math.cos(situation.yaw), math.sin(situation.yaw), 0.0)
    room = _room(situation.position, ahead, start, limits.fence)
    forward = min(max(wanted.forward, 0.0), limits.speed, math.sqrt(2 * BRAKING * room))
    held = min(max(altitude, limits.floor), limits.ceiling)
    climb = HEIGHT_GAIN * (held - situation.position[2])
    return Velocity(
        forward,
        min(max(climb, -limits.climb), limits.climb),
        min(max(wanted.yaw_rate, -limits.yaw_rate), limits.yaw_rate),
    )


def _lost_senses(situation: Situation, limits: Limits) -> Ending | None:
    """An ending because the drone is not heard or does not see."""
    silence, darkness = situation.now - situation.telemetry_at, situation.now - situation.picture_at
    if silence > limits.telemetry_timeout_s:
        return Ending(f"no telemetry for {silence:.1f} s", Response.HOLD)
    if darkness > limits.camera_timeout_s:
        return Ending(f"no new picture for {darkness:.1f} s", Response.HOLD)
    frozen = situation.now - max(situation.moving_since, situation.picture_changed_at)
    if frozen > limits.camera_timeout_s:
        return Ending(f"the picture has not changed for {frozen:.1f} s while the drone moved", Response.HOLD)
    return None


def find_ending(situation: Situation, start: Vector, limits: Limits, offboard_modes: tuple[str, ...]) -> Ending | None:
    """Why the flight has to end now; None if it may go on.

    start: the centre of the fence. offboard_modes: the modes in which set-points are followed; in any other a pilot or
    the autopilot itself has taken over, and we let go. Empty: not checked, as set-points are not followed yet.
    """
    if offboard_modes and not situation.is_armed:
        return Ending("the drone was disarmed", Response.LET_GO)
    if offboard_modes and situation.mode not in offboard_modes:
        return Ending(f"the flight mode was changed to {situation.mode}", Response.LET_GO)
    lost = _lost_senses(situation, limits)
    if lost is not None:
        return lost
    if situation.battery is not None and situation.battery < limits.battery:
        return Ending(f"the battery is at {situation.battery:.0%}, below {limits.battery:.0%}", Response.LAND)
    distance, height = math.dist(situation.position[:2], start[:2]), situation.position[2]
    if distance > limits.fence + FENCE_MARGIN_M:
        return Ending(f"the drone is {distance:.1f} m from its start, the fence {limits.fence:g} m", Response.HOLD)
    if height > limits.ceiling + HEIGHT_MARGIN_M:
        return Ending(f"the drone is {height:.1f} m high, the ceiling {limits.ceiling:g} m", Response.HOLD)
    return None
