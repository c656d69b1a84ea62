"""One quadcopter in one field in simulated time, flown by one motion at a time, as AirSim's vehicles are."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from pvn.bridges.airsim import motions
from pvn.bridges.airsim.frames import ORIGIN, Quaternion, Vector, angles, from_ned, swap_rotation, turned
from pvn.bridges.airsim.motions import Motion, Setpoint, Vehicle
from pvn.simulator import cpu
from pvn.simulator.quadcopter import (
    ALTITUDE,
    EAST_LIMIT,
    HIGHEST,
    LEFT_SPEED,
    LOWEST,
    NUM_SETPOINTS,
    NUM_STATES,
    POSITION,
    QUATERNION,
    RATES,
    ROTORS,
    SPEED,
    SUBSTEP_SECONDS,
    VELOCITY,
    WEST_LIMIT,
    YAW_RATE,
    Airframe,
    hover_rotor_speed,
)

SUBSTEPS = 5
TICK_SECONDS = SUBSTEPS * SUBSTEP_SECONDS
"""Time between two looks at the motion, 10 ms."""

Done = Callable[[bool], None]


def _ignore(result: bool) -> None:
    """Nobody waits."""


def inside(position_ned: Vector) -> Vector:
    """The place in the field, metres, of an NED position; refuses those that no drone can get to."""
    x, y, z = from_ned(position_ned)
    if not (all(WEST_LIMIT <= one <= EAST_LIMIT for one in (x, y)) and LOWEST - 1e-6 <= z <= HIGHEST):
        raise ValueError(
            f"position: got {position_ned}, which is ({x:g}, {y:g}, {z:g}) in the field, expected x and y in "
            f"{WEST_LIMIT:g} to {EAST_LIMIT:g} m and z in {LOWEST:g} to {HIGHEST:g} m"
        )
    return x, y, z


class World:
    """A vehicle, its clock and what it is doing. Nothing here knows of clients, threads or wall time."""

    def __init__(self, airframe: Airframe = Airframe()) -> None:
        """On the ground in the middle of the field, facing north, disarmed."""
        self.airframe = airframe
        self.num_ticks = 0
        """Of the clock; it never goes back."""
        self.pause_at: int | None = None
        """The tick to stop the clock at; None: it runs on."""
        self._done: Done = _ignore
        self._state = torch.zeros((1, NUM_STATES), dtype=torch.float64)
        self._setpoints = torch.zeros((1, NUM_SETPOINTS), dtype=torch.float64)
        self._row, self._wanted = self._state.numpy()[0], self._setpoints.numpy()[0]
        self.reset()

    def reset(self) -> None:
        """Back to the beginning, all but the clock."""
        self._finish(False)
        self.is_armed, self.has_api_control, self.is_landed = False, False, True
        self.acceleration: Vector = (0.0, 0.0, 0.0)
        self._motion: Motion = motions.hover(LOWEST)
        self._put(ORIGIN, turned(math.pi / 2), 0.0)

    def _put(self, position: Vector, rotation: Quaternion, rotor_speed: float) -> None:
        self._row[:] = 0.0
        self._row[POSITION : POSITION + 3] = position
        self._row[QUATERNION : QUATERNION + 4] = rotation
        self._row[ROTORS:] = rotor_speed

    @property
    def time_s(self) -> float:
        """Simulated time."""
        return self.num_ticks * TICK_SECONDS

    @property
    def time_ns(self) -> int:
        """Simulated time, nanoseconds."""
        return self.num_ticks * round(TICK_SECONDS * 1e9)

    @property
    def is_paused(self) -> bool:
        """Whether the clock stands."""
        return self.pause_at is not None and self.num_ticks >= self.pause_at

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for simulated time to pass."""
        return not self.is_paused and (self.pause_at is not None or self._done is not _ignore)

    @property
    def position(self) -> Vector:
        """Field frame, metres."""
        x, y, z = self._row[POSITION : POSITION + 3].tolist()
        return x, y, z

    @property
    def velocity(self) -> Vector:
        """Field frame, m/s."""
        x, y, z = self._row[VELOCITY : VELOCITY + 3].tolist()
        return x, y, z

    @property
    def rotation(self) -> Quaternion:
        """Body to field frame."""
        w, x, y, z = self._row[QUATERNION : QUATERNION + 4].tolist()
        return w, x, y, z

    @property
    def rates(self) -> Vector:
        """Of the body, our body frame, rad/s."""
        x, y, z = self._row[RATES : RATES + 3].tolist()
        return x, y, z

    @property
    def vehicle(self) -> Vehicle:
        """The drone as a motion sees it."""
        return Vehicle(self.time_s, self.position, self.velocity, angles(self.rotation)[2])

    def place(self, position_ned: Vector, rotation_ned: Quaternion) -> None:
        """Hover somewhere else at once, level; on the ground if it is there."""
        x, y, z = inside(position_ned)
        level = turned(angles(swap_rotation(rotation_ned))[2])
        self._finish(False)
        self.is_landed = z < LOWEST + motions.ON_THE_GROUND_M
        self._put((x, y, max(z, LOWEST)), level, 0.0 if self.is_landed else hover_rotor_speed(self.airframe))
        self._motion = motions.hover(z)

    def start(self, motion: Motion, done: Done = _ignore) -> None:
        """Begin a motion. The one before it ends now, without success, as AirSim's do."""
        self._finish(False)
        self._motion, self._done = motion, done
        self.is_landed = False

    def forget(self, done: Done) -> None:
        """Who waited for the motion has left; the motion goes on."""
        if self._done is done:
            self._done = _ignore

    def cancel(self) -> None:
        """End the motion, without success, and hover."""
        self._finish(False)
        self._motion = motions.hover(self.position[2])

    def _finish(self, result: bool) -> None:
        done, self._done = self._done, _ignore
        done(result)

    def _hold(self, setpoint: Setpoint) -> None:
        yaw = angles(self.rotation)[2]
        east, north = setpoint.velocity
        self._wanted[SPEED] = east * math.cos(yaw) + north * math.sin(yaw)
        self._wanted[LEFT_SPEED] = north * math.cos(yaw) - east * math.sin(yaw)
        self._wanted[YAW_RATE], self._wanted[ALTITUDE] = setpoint.yaw_rate, setpoint.altitude

    def tick(self) -> None:
        """Let TICK_SECONDS pass."""
        self.num_ticks += 1
        if self.is_landed:
            return
        setpoint, _ = self._motion(self.vehicle)
        before = self.velocity
        for _ in range(SUBSTEPS):  # the controller wants speeds along the heading, which each of them changes
            self._hold(setpoint)
            cpu.advance(self._state, self._setpoints, self.airframe, 1)
        x, y, z = ((now - then) / TICK_SECONDS for now, then in zip(self.velocity, before, strict=True))
        self.acceleration = (x, y, z)
        _, result = self._motion(self.vehicle)
        if result is not None:
            self._end(setpoint, result)

    def _end(self, setpoint: Setpoint, result: bool) -> None:
        """The motion is over: rest on the ground, or hover."""
        z = self.position[2]
        if result and setpoint.altitude < LOWEST:  # only landing wants to be below it
            self.is_landed = True
            self._put((*self.position[:2], LOWEST), turned(angles(self.rotation)[2]), 0.0)
        self._motion = motions.hover(z)
        self._finish(result)
