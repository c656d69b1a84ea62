"""One quadcopter in simulated time, flying one motion at a time, as AirSim's vehicles do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch

from pvn.bridges.shared import motions
from pvn.bridges.shared.frames import NED_ORIGIN_WORLD, Quaternion, Vector, roll_pitch_yaw, rotation_from_yaw
from pvn.bridges.shared.motions import Motion, Setpoint, VehicleState
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
from pvn.world.layout import FIELD_SIZE

NUM_SUBSTEPS = 5
TICK_SECONDS = NUM_SUBSTEPS * SUBSTEP_SECONDS
"""Time between two evaluations of the motion, 10 ms."""

WINDY_ACCELERATION, WINDY_CLIMB = 20.0, 10.0  # m/s^2, sideways (64 degrees of tilt) and vertically
WIND_GAIN = 1.0  # 1/s
MAX_WIND_CORRECTION, MAX_ALTITUDE_CORRECTION_M = 15.0, 3.0  # m/s, metres

OnDone = Callable[[bool], None]
"""Called with True when a motion succeeds, and with False when it fails or is superseded."""

Border = Literal["stop", "refuse", "open"]
"""What happens to a goal beyond the border, which is 10 m beyond the fences: the drone stops at the border, the motion
is refused, or there is no border."""
OPEN_HIGHEST = 10_000.0


def ceiling(border: Border) -> float:
    """The greatest height, metres."""
    return OPEN_HIGHEST if border == "open" else HIGHEST


def clamp_position(position: Vector, border: Border) -> Vector:
    """The place nearest to a position, field frame, metres, that the drone can reach."""
    x, y, z = position
    z = min(max(z, LOWEST), ceiling(border))
    if border == "open":
        return x, y, z
    return min(max(x, WEST_LIMIT), EAST_LIMIT), min(max(y, WEST_LIMIT), EAST_LIMIT), z


def _ignore(has_succeeded: bool) -> None:
    """Nobody is waiting for the motion."""


def _rate_of_change(before: Vector, after: Vector) -> Vector:
    """Per second, over a tick."""
    x, y, z = ((now - then) / TICK_SECONDS for now, then in zip(after, before, strict=True))
    return x, y, z


def _clamp(value: float, limit: float) -> float:
    return min(max(value, -limit), limit)


class Vehicle:
    """A quadcopter, its clock and its current motion. It knows nothing of clients, threads or wall-clock time."""

    def __init__(
        self,
        *,
        home: Vector = NED_ORIGIN_WORLD,
        home_yaw: float = math.pi / 2,
        border: Border = "stop",
        is_armed_at_first: bool = True,
        is_floating: bool = False,
        num_ticks: int = 0,
    ) -> None:
        """At home: by default on the ground in the middle of the field, facing north, armed as in AirSim.

        is_floating: it stays wherever it is put, in any attitude, and does not fly.
        """
        self.airframe, self.is_floating = Airframe(), is_floating
        self.home, self.border, self.num_ticks = home, border, num_ticks
        """Where it starts, field frame, metres; and ticks since the start, which not even a reset sets back."""
        self._home_yaw, self._is_armed_at_first = home_yaw, is_armed_at_first
        self._on_done: OnDone = _ignore
        self._state_tensor = torch.zeros((1, NUM_STATES), dtype=torch.float64)
        self._setpoint_tensor = torch.zeros((1, NUM_SETPOINTS), dtype=torch.float64)
        # Views of the same memory, whose elements are much quicker to read and write.
        self._row, self._setpoint_row = self._state_tensor.numpy()[0], self._setpoint_tensor.numpy()[0]
        self.reset()

    def reset(self) -> None:
        """Restore the initial state, except for the clock."""
        self._report(False)
        self.is_armed, self.has_api_control = self._is_armed_at_first, False
        self.acceleration: Vector = (0.0, 0.0, 0.0)
        """Over the last tick, field frame, m/s^2."""
        self.turn_acceleration: Vector = (0.0, 0.0, 0.0)
        """Over the last tick, our body frame, rad/s^2."""
        self._wind_correction = [0.0, 0.0, 0.0]
        self._put(self.home, rotation_from_yaw(self._home_yaw))

    def _put(self, position: Vector, rotation: Quaternion) -> None:
        """Put the vehicle somewhere, at rest: landed if that is on the ground, else hovering."""
        self.is_landed = self.is_floating or position[2] < LOWEST + motions.LANDED_HEIGHT_M
        self._row[:] = 0.0
        self._row[POSITION : POSITION + 3] = position
        self._row[QUATERNION : QUATERNION + 4] = rotation
        self._row[ROTORS:] = 0.0 if self.is_landed else hover_rotor_speed(self.airframe)
        self._motion: Motion = motions.hover(position[2])

    @property
    def state(self) -> VehicleState:
        """Where it is and how it moves."""
        row = self._row.tolist()
        x, y, z = row[POSITION : POSITION + 3]
        east, north, up = row[VELOCITY : VELOCITY + 3]
        qw, qx, qy, qz = row[QUATERNION : QUATERNION + 4]
        roll, pitch, yaw = row[RATES : RATES + 3]
        time_s = self.num_ticks * TICK_SECONDS
        return VehicleState(time_s, (x, y, z), (east, north, up), (qw, qx, qy, qz), (roll, pitch, yaw))

    @property
    def rotor_speeds(self) -> list[float]:
        """rad/s: front left, front right, back right, back left."""
        speeds: list[float] = self._row[ROTORS:].tolist()
        return speeds

    @property
    def is_awaited(self) -> bool:
        """Whether someone is waiting for its motion to end."""
        return self._on_done is not _ignore

    @property
    def is_at_border(self) -> bool:
        """Whether an invisible wall holds it."""
        east, north = self._row[POSITION : POSITION + 2].tolist()
        return self.border != "open" and not WEST_LIMIT < min(east, north) <= max(east, north) < EAST_LIMIT

    def teleport(self, position: Vector, rotation: Quaternion) -> None:
        """Move to another place, field frame, at once: level and hovering there, or landed if it is on the ground."""
        self._report(False)
        attitude = rotation if self.is_floating else rotation_from_yaw(roll_pitch_yaw(rotation)[2])
        self._put(clamp_position(position, self.border), attitude)

    def set_state(self, position: Vector, rotation: Quaternion, velocity: Vector, rates_body: Vector) -> None:
        """Take over a whole state: position, attitude and velocity in the field frame, body rates in our body frame."""
        self._report(False)
        self._put(clamp_position(position, self.border), rotation)
        self.is_landed = self.is_floating or (self.is_landed and not any(velocity))
        self._row[VELOCITY : VELOCITY + 3] = velocity
        self._row[RATES : RATES + 3] = rates_body

    def set_wind(self, wind: Vector) -> None:
        """Let the air move, m/s, field frame. Against wind the drone may lean as far as its rotors can hold it."""
        calm, is_windy = Airframe(), any(wind)
        self._wind_correction = [0.0, 0.0, 0.0]
        self.airframe = calm._replace(
            wind_x=wind[0], wind_y=wind[1], wind_z=wind[2],
            acceleration_max=WINDY_ACCELERATION if is_windy else calm.acceleration_max,
            climb_max=WINDY_CLIMB if is_windy else calm.climb_max,
        )  # fmt: skip

    def start_motion(self, motion: Motion, on_done: OnDone = _ignore) -> None:
        """Start a motion. The previous one ends here and counts as failed, as in AirSim."""
        self._report(False)
        self._motion, self._on_done = motion, on_done
        self.is_landed = False

    def stop_waiting(self, on_done: OnDone) -> None:
        """Forget whom to tell how the motion ends; the motion itself continues."""
        if self._on_done is on_done:
            self._on_done = _ignore

    def cancel_motion(self) -> None:
        """End the motion, which counts as failed, and hover."""
        self._report(False)
        self._motion = motions.hover(float(self._row[POSITION + 2]))

    def _report(self, has_succeeded: bool) -> None:
        """Tell whoever is waiting how the motion ended."""
        on_done, self._on_done = self._on_done, _ignore
        on_done(has_succeeded)

    def _advance(self, setpoint: Setpoint) -> None:
        """Fly one substep. Each changes the heading, along which the controller wants its speeds."""
        row, target, correction = self._row, self._setpoint_row, self._wind_correction
        yaw = roll_pitch_yaw(row[QUATERNION : QUATERNION + 4].tolist())[2]
        east, north = (want + extra for want, extra in zip(setpoint.velocity, correction[:2], strict=True))
        target[SPEED] = east * math.cos(yaw) + north * math.sin(yaw)
        target[LEFT_SPEED] = north * math.cos(yaw) - east * math.sin(yaw)
        target[YAW_RATE] = setpoint.yaw_rate
        target[ALTITUDE] = min(setpoint.altitude, ceiling(self.border)) + correction[2]
        if self.border != "open":
            cpu.advance(self._state_tensor, self._setpoint_tensor, self.airframe, 1)
            return
        # Nothing but the walls depends on where a drone is: without a border it flies as in the middle of the field.
        place = slice(POSITION, POSITION + 2)
        shift = row[place] - FIELD_SIZE / 2
        row[place] = FIELD_SIZE / 2
        cpu.advance(self._state_tensor, self._setpoint_tensor, self.airframe, 1)
        row[place] += shift

    def _correct_for_wind(self, setpoint: Setpoint, state: VehicleState) -> None:
        """Integrate the errors of velocity and altitude: without wind the controller needs no integrator."""
        if not (self.airframe.wind_x or self.airframe.wind_y or self.airframe.wind_z):
            return
        climb_error = (setpoint.altitude - state.position[2]) / motions.CLIMB_LEAD_S - state.velocity[2]
        errors = *(want - now for want, now in zip(setpoint.velocity, state.velocity, strict=False)), climb_error
        limits = MAX_WIND_CORRECTION, MAX_WIND_CORRECTION, MAX_ALTITUDE_CORRECTION_M
        self._wind_correction = [
            _clamp(old + WIND_GAIN * TICK_SECONDS * error, limit)
            for old, error, limit in zip(self._wind_correction, errors, limits, strict=True)
        ]

    def tick(self) -> None:
        """Advance the simulation by TICK_SECONDS."""
        self.num_ticks += 1
        if self.is_landed:
            return
        before = self.state
        setpoint, _ = self._motion(before)
        for _ in range(NUM_SUBSTEPS):
            self._advance(setpoint)
        after = self.state
        self.acceleration = _rate_of_change(before.velocity, after.velocity)
        self.turn_acceleration = _rate_of_change(before.rates_body, after.rates_body)
        self._correct_for_wind(setpoint, after)
        _, has_succeeded = self._motion(after)
        if has_succeeded is None:
            return
        if has_succeeded and setpoint.altitude < LOWEST:  # only landing has a set-point below the ground
            x, y, _ = after.position
            self._put((x, y, LOWEST), rotation_from_yaw(after.yaw))
        self._motion = motions.hover(after.position[2])
        self._report(has_succeeded)
