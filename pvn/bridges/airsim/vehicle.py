"""One quadcopter in simulated time, flying one motion at a time, as AirSim's vehicles do."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from pvn.bridges.airsim import motions
from pvn.bridges.airsim.frames import (
    NED_ORIGIN_WORLD,
    Quaternion,
    Vector,
    from_ned,
    roll_pitch_yaw,
    rotation_from_yaw,
    swap_rotation,
)
from pvn.bridges.airsim.motions import Motion, Setpoint, VehicleState
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

NUM_SUBSTEPS = 5
TICK_SECONDS = NUM_SUBSTEPS * SUBSTEP_SECONDS
"""Time between two evaluations of the motion, 10 ms."""

OnDone = Callable[[bool], None]
"""Called with True when a motion succeeds, and with False when it fails or is superseded."""


def _ignore(has_succeeded: bool) -> None:
    """Used when nobody is waiting for the motion."""


def reachable_position(position_ned: Vector) -> Vector:
    """Convert an NED position to the field frame, metres; raises ValueError if the drone cannot get there."""
    x, y, z = from_ned(position_ned)
    if not (all(WEST_LIMIT <= one <= EAST_LIMIT for one in (x, y)) and LOWEST - 1e-6 <= z <= HIGHEST):
        raise ValueError(
            f"position: got {position_ned}, which is ({x:g}, {y:g}, {z:g}) in the field, expected x and y in "
            f"{WEST_LIMIT:g} to {EAST_LIMIT:g} m and z in {LOWEST:g} to {HIGHEST:g} m"
        )
    return x, y, z


class Vehicle:
    """A quadcopter, its clock and its current motion. It knows nothing of clients, threads or wall-clock time."""

    def __init__(self, airframe: Airframe = Airframe()) -> None:
        """On the ground in the middle of the field, facing north, disarmed."""
        self.airframe = airframe
        self.num_ticks = 0
        """Ticks since the start; not even a reset sets it back."""
        self.pause_at_tick: int | None = None
        """The tick at which the clock stops; None: it keeps running."""
        self._on_done: OnDone = _ignore
        self._state_tensor = torch.zeros((1, NUM_STATES), dtype=torch.float64)
        self._setpoint_tensor = torch.zeros((1, NUM_SETPOINTS), dtype=torch.float64)
        # Views of the same memory, whose elements are much quicker to read and write.
        self._state_row, self._setpoint_row = self._state_tensor.numpy()[0], self._setpoint_tensor.numpy()[0]
        self.reset()

    def reset(self) -> None:
        """Restore the initial state, except for the clock."""
        self._report(False)
        self.is_armed, self.has_api_control, self.is_landed = False, False, True
        self.acceleration: Vector = (0.0, 0.0, 0.0)
        """Over the last tick, field frame, m/s^2."""
        self._motion: Motion = motions.hover(LOWEST)
        self._set_pose(NED_ORIGIN_WORLD, rotation_from_yaw(math.pi / 2), 0.0)

    def _set_pose(self, position: Vector, rotation: Quaternion, rotor_speed: float) -> None:
        """Put the vehicle somewhere, at rest."""
        self._state_row[:] = 0.0
        self._state_row[POSITION : POSITION + 3] = position
        self._state_row[QUATERNION : QUATERNION + 4] = rotation
        self._state_row[ROTORS:] = rotor_speed

    @property
    def time_s(self) -> float:
        """Simulated time, seconds."""
        return self.num_ticks * TICK_SECONDS

    @property
    def time_ns(self) -> int:
        """Simulated time, nanoseconds."""
        return self.num_ticks * round(TICK_SECONDS * 1e9)

    @property
    def is_paused(self) -> bool:
        """Whether the clock is stopped."""
        return self.pause_at_tick is not None and self.num_ticks >= self.pause_at_tick

    @property
    def is_awaited(self) -> bool:
        """Whether someone is waiting for simulated time to pass."""
        return not self.is_paused and (self.pause_at_tick is not None or self._on_done is not _ignore)

    @property
    def position(self) -> Vector:
        """Field frame, metres."""
        x, y, z = self._state_row[POSITION : POSITION + 3].tolist()
        return x, y, z

    @property
    def velocity(self) -> Vector:
        """Field frame, m/s."""
        x, y, z = self._state_row[VELOCITY : VELOCITY + 3].tolist()
        return x, y, z

    @property
    def rotation(self) -> Quaternion:
        """Body to field frame."""
        w, x, y, z = self._state_row[QUATERNION : QUATERNION + 4].tolist()
        return w, x, y, z

    @property
    def rates_body(self) -> Vector:
        """Angular velocity, our body frame, rad/s."""
        x, y, z = self._state_row[RATES : RATES + 3].tolist()
        return x, y, z

    @property
    def yaw(self) -> float:
        """Heading, radians counter-clockwise from east."""
        return roll_pitch_yaw(self.rotation)[2]

    @property
    def state(self) -> VehicleState:
        """What a motion knows of the vehicle."""
        return VehicleState(self.time_s, self.position, self.velocity, self.yaw)

    def teleport(self, position_ned: Vector, rotation_ned: Quaternion) -> None:
        """Move to another place at once: level and hovering there, or landed if it is on the ground."""
        x, y, z = reachable_position(position_ned)
        level = rotation_from_yaw(roll_pitch_yaw(swap_rotation(rotation_ned))[2])
        self._report(False)
        self.is_landed = z < LOWEST + motions.LANDED_HEIGHT_M
        self._set_pose((x, y, max(z, LOWEST)), level, 0.0 if self.is_landed else hover_rotor_speed(self.airframe))
        self._motion = motions.hover(z)

    def start_motion(self, motion: Motion, on_done: OnDone = _ignore) -> None:
        """Start a motion. The previous one ends here and counts as failed, as in AirSim."""
        self._report(False)
        self._motion, self._on_done = motion, on_done
        self.is_landed = False

    def stop_waiting(self, on_done: OnDone) -> None:
        """Tell the vehicle that nobody waits for this callback any longer; the motion itself continues."""
        if self._on_done is on_done:
            self._on_done = _ignore

    def cancel_motion(self) -> None:
        """End the motion, which counts as failed, and hover."""
        self._report(False)
        self._motion = motions.hover(self.position[2])

    def _report(self, has_succeeded: bool) -> None:
        """Tell whoever is waiting how the motion ended."""
        on_done, self._on_done = self._on_done, _ignore
        on_done(has_succeeded)

    def _apply(self, setpoint: Setpoint) -> None:
        """Write the set-point as the controller wants it, with speeds along the current heading."""
        yaw = self.yaw
        east, north = setpoint.velocity
        self._setpoint_row[SPEED] = east * math.cos(yaw) + north * math.sin(yaw)
        self._setpoint_row[LEFT_SPEED] = north * math.cos(yaw) - east * math.sin(yaw)
        self._setpoint_row[YAW_RATE], self._setpoint_row[ALTITUDE] = setpoint.yaw_rate, setpoint.altitude

    def tick(self) -> None:
        """Advance the simulation by TICK_SECONDS."""
        self.num_ticks += 1
        if self.is_landed:
            return
        setpoint, _ = self._motion(self.state)
        velocity_before = self.velocity
        for _ in range(NUM_SUBSTEPS):  # each substep changes the heading, along which the controller wants its speeds
            self._apply(setpoint)
            cpu.advance(self._state_tensor, self._setpoint_tensor, self.airframe, 1)
        x, y, z = ((now - then) / TICK_SECONDS for now, then in zip(self.velocity, velocity_before, strict=True))
        self.acceleration = (x, y, z)
        _, has_succeeded = self._motion(self.state)
        if has_succeeded is not None:
            self._end_motion(setpoint, has_succeeded)

    def _end_motion(self, setpoint: Setpoint, has_succeeded: bool) -> None:
        """Rest on the ground after landing, hover after any other motion."""
        z = self.position[2]
        if has_succeeded and setpoint.altitude < LOWEST:  # only landing has a set-point below the ground
            self.is_landed = True
            self._set_pose((*self.position[:2], LOWEST), rotation_from_yaw(self.yaw), 0.0)
        self._motion = motions.hover(z)
        self._report(has_succeeded)
