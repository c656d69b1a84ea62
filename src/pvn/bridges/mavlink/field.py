"""A drone with a MAVLink autopilot as a field to fly in: one flight, driven like our own simulator.

with MavlinkField(MavlinkOptions(camera="http://127.0.0.1:8088/camera.mjpg", arm=True)) as field:
    task = Task(field.layouts[0], field.take_off(), "go to the tree")
    log = fly(field, [task], load_agent("pvn-plus"))
    field.hover()
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pvn.bridges.mavlink.calibration import read_calibration
from pvn.bridges.mavlink.camera import CameraReader
from pvn.bridges.mavlink.limits import (
    MOVING_SPEED,
    MOVING_YAW_RATE,
    Ending,
    Response,
    Situation,
    Velocity,
    find_ending,
    limit_velocity,
)
from pvn.bridges.mavlink.link import AutopilotLink, Telemetry
from pvn.bridges.mavlink.options import MavlinkOptions
from pvn.bridges.shared.frames import NED_ORIGIN_WORLD, Vector, roll_pitch_yaw
from pvn.bridges.shared.remote_field import Command, FlightAborted, RemoteField
from pvn.simulator.interface import Observation, SimulatorConfig
from pvn.world.layout import Layout

SETPOINT_HZ = 20.0
TAKEOFF_TIMEOUT_S, CLIMB_TIMEOUT_S, POSITION_TIMEOUT_S, STEP_TIMEOUT_S = 30.0, 60.0, 30.0, 20.0
ALTITUDE_TOLERANCE_M, SETTLE_S = 0.3, 1.0
OFFBOARD_MODES = ("OFFBOARD",)
"""MAVSDK's name for PX4's offboard and ArduPilot's GUIDED mode."""
OUR_MODES = ("TAKEOFF", "HOLD", *OFFBOARD_MODES)
"""The modes of a drone from its take-off on, if nobody takes over."""
CHANGE_S = 5.0
"""How long an autopilot may take to say that its mode has changed."""


@dataclass(frozen=True)
class SentSetpoint:
    """A set-point that was sent, or would have been in a dry run."""

    time_s: float
    """The autopilot's clock, seconds."""
    velocity: Velocity


class MavlinkField(RemoteField):
    """One flight of a drone with an autopilot."""

    def __init__(
        self, options: MavlinkOptions, *, config: SimulatorConfig = SimulatorConfig(), layout: Layout | None = None
    ) -> None:
        """Connect to the camera and the autopilot."""
        super().__init__(config, layout)
        limits = options.limits
        if not limits.floor <= config.altitude <= limits.ceiling:
            raise ValueError(
                f"altitude: got {config.altitude:g} m, expected {limits.floor:g} to {limits.ceiling:g} m, the "
                "floor and ceiling of the flight"
            )
        self.options, self.is_dry_run = options, not options.arm
        self.sent: list[SentSetpoint] = []
        self._wanted, self._wanted_at = Velocity(), -math.inf
        self._ground = NED_ORIGIN_WORLD[2]
        """Height of the resting drone, field frame, as the autopilot reports it."""
        self._start: Vector = (0.0, 0.0, 0.0)
        self._moving_since = math.inf
        self._ending: Ending | None = None
        self._is_engaged, self._is_sending = threading.Event(), threading.Event()
        """Whether the autopilot was asked for anything, and whether it gets set-points."""
        self._expected_modes: tuple[str, ...] = ()
        """In any other mode a pilot has taken over; empty: modes are not checked yet."""
        self._has_ended = threading.Event()
        self._controller = threading.Thread(target=self._control, name="pvn-setpoints", daemon=True)
        calibration = None if options.calibration is None else read_calibration(options.calibration)
        self._camera = CameraReader(options.camera, config.camera, calibration)
        try:
            self._camera.wait()
            self._link = AutopilotLink(options.address)
        except BaseException:
            self._camera.close()
            raise

    def close(self) -> None:
        """Disconnect; set-points end, so the autopilot is on its own."""
        self._has_ended.set()
        if self._controller.is_alive():
            self._controller.join(2.0)
        self._link.close()
        self._camera.close()

    # The controller: 20 times a second, in its own thread, whatever the agent does.

    def _situation(self, telemetry: Telemetry) -> Situation:
        now, picture = time.monotonic(), self._camera.wait()
        rotation, position = telemetry.rotation or (1.0, 0.0, 0.0, 0.0), telemetry.position or NED_ORIGIN_WORLD
        before = self._link.pose_at(telemetry.attitude_at - 0.2)
        yaw, seconds = roll_pitch_yaw(rotation)[2], max(telemetry.attitude_at - before.heard_at, 1e-3)
        turned = math.remainder(yaw - roll_pitch_yaw(before.rotation)[2], 2 * math.pi)
        is_moving = math.hypot(*telemetry.velocity) > MOVING_SPEED or abs(turned) / seconds > MOVING_YAW_RATE
        self._moving_since = min(self._moving_since, now) if is_moving else math.inf
        return Situation(
            now=now,
            telemetry_at=min(telemetry.position_at, telemetry.attitude_at),
            position=self._to_field(position),
            yaw=yaw,
            battery=telemetry.battery,
            is_armed=telemetry.is_armed,
            mode=telemetry.mode,
            picture_at=picture.arrived_at,
            picture_changed_at=picture.changed_at,
            moving_since=self._moving_since,
        )

    def _to_field(self, position: Vector) -> Vector:
        """A position whose height is above the ground on which the drone stood, as in our own field."""
        x, y, z = position
        return x, y, z - self._ground + NED_ORIGIN_WORLD[2]

    def _control(self) -> None:
        """Send set-points until the flight ends or has to."""
        while not self._has_ended.wait(1 / SETPOINT_HZ):
            try:
                telemetry = self._link.telemetry
                situation = self._situation(telemetry)
                ending = find_ending(situation, self._start, self.options.limits, self._expected_modes)
                if ending is None:
                    self._send(situation, telemetry)
            except Exception as error:  # whatever happens here, set-points must not go on as they were
                ending = Ending(str(error), Response.HOLD)
            if ending is not None:
                self._ending = ending
                self._respond(ending.response)
                return

    def _send(self, situation: Situation, telemetry: Telemetry) -> None:
        if not self._is_sending.is_set():
            return
        age_s, altitude = situation.now - self._wanted_at, self.config.altitude
        velocity = limit_velocity(self._wanted, altitude, situation, self._start, self.options.limits, age_s)
        if self.options.arm:
            self._link.send(velocity)
        self.sent.append(SentSetpoint(telemetry.vehicle_time_s, velocity))

    def _respond(self, response: Response) -> None:
        """End set-points, and ask the autopilot to take over, if it is ours to ask."""
        if not self._is_engaged.is_set():
            return
        self._link.let_go()
        with suppress(FlightAborted):  # without a connection, its own failsafe takes over
            if response is Response.HOLD:
                self._link.hold()
            elif response is Response.LAND:
                self._link.land()

    def _check(self) -> None:
        """Raise if the flight has ended."""
        ending = self._ending
        if ending is not None:
            done = ending.response.value if self._is_engaged.is_set() else "the drone got no command"
            raise FlightAborted(f"{ending.reason}; {done}; the flight ended after {self.num_steps} steps")

    def _wait(self, what: str, seconds: float, is_done: Callable[[Telemetry], bool]) -> Telemetry:
        """Wait for at most some seconds of wall-clock time, and raise as soon as the flight has to end."""

        def is_over(telemetry: Telemetry) -> bool:
            self._check()
            return is_done(telemetry)

        return self._link.wait_for(what, seconds, is_over)

    # What the roll-out loop and its callers use.

    def take_off(self) -> tuple[float, float, float]:
        """Arm, take off and climb to the altitude to be held; a drone in the air only climbs. In a dry run it stays.

        Returns x, y (metres) and yaw (radians) of the drone, field frame.
        """
        link, altitude = self._link, self.config.altitude
        telemetry = self._wait(
            "a position", POSITION_TIMEOUT_S,
            lambda now: now.position is not None and now.rotation is not None and now.is_position_known,
        )  # fmt: skip
        assert telemetry.position is not None
        if not telemetry.is_in_air:
            self._ground = telemetry.position[2]
        self._start = self._to_field(telemetry.position)
        ending = find_ending(self._situation(telemetry), self._start, self.options.limits, ())
        if ending is not None:
            raise FlightAborted(f"{ending.reason}; the drone was not armed")
        self._controller.start()
        if self.options.arm:
            self._is_engaged.set()
            if not telemetry.is_in_air:
                link.arm()
                link.take_off(altitude)
                self._wait("the take-off mode", CHANGE_S, lambda now: now.is_armed and now.mode in OUR_MODES)
                self._expected_modes = OUR_MODES
                self._wait("the take-off", TAKEOFF_TIMEOUT_S, lambda now: self._height(now) > min(2.0, altitude / 2))
            link.start_offboard()
            self._is_sending.set()
            self._wait("offboard control", CHANGE_S, lambda now: now.mode in OFFBOARD_MODES)
            self._expected_modes = OFFBOARD_MODES
            self._wait(
                "the climb", CLIMB_TIMEOUT_S, lambda now: abs(self._height(now) - altitude) < ALTITUDE_TOLERANCE_M
            )
            settled = link.telemetry.vehicle_time_s + SETTLE_S
            self._wait("hovering", STEP_TIMEOUT_S, lambda now: now.vehicle_time_s >= settled)
        else:
            self._is_sending.set()
        pose = self._observe().pose_world[0].tolist()
        return pose[0], pose[1], pose[5]

    def _height(self, telemetry: Telemetry) -> float:
        return -math.inf if telemetry.position is None else self._to_field(telemetry.position)[2]

    def _begin(self, start: tuple[float, float, float]) -> Observation:
        observation = self._observe()
        self._step_end = self._link.telemetry.vehicle_time_s
        return observation

    def _fly_step(self, command: Command) -> Observation:
        self._wanted, self._wanted_at = Velocity(command.speed, 0.0, command.yaw_rate), time.monotonic()
        # Decisions are due at equal intervals; a slow agent shortens the time its next one has, not the flight.
        now, seconds = self._link.telemetry.vehicle_time_s, self.config.step_seconds
        self._step_end = max(self._step_end + seconds, now + seconds / 2)
        self._wait("a step", STEP_TIMEOUT_S, lambda telemetry: telemetry.vehicle_time_s >= self._step_end)
        return self._observe()

    def _observe(self) -> Observation:
        """The newest picture, and the pose at which it was taken."""
        self._check()
        picture = self._camera.wait()
        pose = self._link.pose_at(picture.taken_at)
        image = torch.from_numpy(np.ascontiguousarray(self._camera.see(picture)))[None]
        row = torch.tensor([[*self._to_field(pose.position), *roll_pitch_yaw(pose.rotation)]], dtype=torch.float32)
        return Observation(image, row, torch.tensor([self._link.telemetry.velocity], dtype=torch.float32))

    def hover(self) -> bool:
        """End set-points, and ask the autopilot to hold, unless a pilot has taken over; returns False if it refused."""
        self._has_ended.set()
        if self._controller.is_alive() and self._controller is not threading.current_thread():
            self._controller.join(5.0)
        if self._ending is not None or not self._is_engaged.is_set():
            return True
        if self._link.telemetry.mode not in OUR_MODES:  # a pilot has taken over this very moment
            return True
        try:
            self._link.hold()
        except FlightAborted:
            return False
        return True

    @property
    def setpoints_per_step(self) -> int:
        """How many set-points a step of the policy has."""
        return max(round(self.config.step_seconds * SETPOINT_HZ), 1)

    def report(self) -> dict[str, Any]:
        """For JSON: what was flown so far, and what was sent: seconds, forward and climb (m/s), yaw rate (rad/s)."""
        sent = [[one.time_s, one.velocity.forward, one.velocity.climb, one.velocity.yaw_rate] for one in self.sent]
        return {**super().report(), "setpoints": sent}
