"""An autopilot through MAVSDK: its latest telemetry in our frames, and the few things that we ask of it."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

import mavsdk
from mavsdk.plugins.action import Action
from mavsdk.plugins.offboard import Offboard, VelocityBodyYawspeed
from mavsdk.plugins.telemetry import FlightMode
from mavsdk.plugins.telemetry import Telemetry as TelemetryPlugin

from pvn.bridges.mavlink.limits import Velocity
from pvn.bridges.shared.frames import NED_ORIGIN_WORLD, Quaternion, Vector, from_ned, swap_rotation, swap_vector
from pvn.bridges.shared.remote_field import FlightAborted

CONNECT_TIMEOUT_S = 20.0
HISTORY_S = 2.0
"""How long poses are remembered, to find the one at which a picture was taken."""
TELEMETRY_HZ = 50.0


@dataclass(frozen=True, kw_only=True)
class Telemetry:
    """The latest from the autopilot. Times are seconds of the monotonic clock, unless said otherwise."""

    position: Vector | None = None
    """Field frame, metres; the origin of the autopilot's north, east, down is the middle of the field."""
    velocity: Vector = (0.0, 0.0, 0.0)
    """Field frame, m/s."""
    position_at: float = -math.inf
    rotation: Quaternion | None = None
    """Body to field frame."""
    attitude_at: float = -math.inf
    vehicle_time_s: float = 0.0
    """When the attitude was measured, by the autopilot's own clock."""
    battery: float | None = None
    """Fraction that is left."""
    mode: str = "UNKNOWN"
    is_armed: bool = False
    is_in_air: bool = False
    is_position_known: bool = False


@dataclass(frozen=True)
class TimedPose:
    """A pose and when it was heard, on the monotonic clock."""

    heard_at: float
    position: Vector
    rotation: Quaternion


class AutopilotLink:
    """A connection to one autopilot. Telemetry arrives in MAVSDK's threads; reading it never waits."""

    def __init__(self, address: str) -> None:
        """Connect to an address as MAVSDK writes it, such as udpin://0.0.0.0:14540, and wait for an autopilot."""
        mavsdk.log_subscribe(lambda level, text, file, line: True)  # we report what matters
        self.address = address
        self._lock = threading.Lock()
        self._telemetry, self._poses = Telemetry(), deque[TimedPose]()
        self._mavsdk = mavsdk.Mavsdk(
            mavsdk.Configuration.create_with_component_type(mavsdk.ComponentType.GROUND_STATION)
        )
        try:
            result = self._mavsdk.add_any_connection(address)
            if result != mavsdk.ConnectionResult.SUCCESS:
                raise ValueError(
                    f"address: cannot use {address} ({result.name}), expected one such as udpin://0.0.0.0:14540, "
                    "udpout://192.168.1.7:14550 or serial:///dev/ttyUSB0:57600; is another program using the port?"
                )
            system = self._mavsdk.first_autopilot(CONNECT_TIMEOUT_S)
            if system is None:
                raise FlightAborted(
                    f"no autopilot at {address} within {CONNECT_TIMEOUT_S:g} s; does it send MAVLink here?"
                )
            self._system, self._action = system, Action(system)
            self._offboard: Any = None
            self._plugin = TelemetryPlugin(system)
            self._subscribe()
        except BaseException:
            self._mavsdk.destroy()
            raise

    def _update(self, **values: Any) -> None:
        with self._lock:
            self._telemetry = replace(self._telemetry, **values)

    def _subscribe(self) -> None:
        plugin = self._plugin
        for set_rate in (plugin.set_rate_position_velocity_ned_async, plugin.set_rate_attitude_quaternion_async):
            set_rate(TELEMETRY_HZ, lambda result, data: None)  # an autopilot that cannot keeps its own rate
        plugin.subscribe_position_velocity_ned(self._on_position)
        plugin.subscribe_attitude_quaternion(self._on_attitude)
        plugin.subscribe_battery(self._on_battery)
        plugin.subscribe_flight_mode(lambda mode, data: self._update(mode=FlightMode(mode).name))
        plugin.subscribe_armed(lambda is_armed, data: self._update(is_armed=bool(is_armed)))
        plugin.subscribe_in_air(lambda is_in_air, data: self._update(is_in_air=bool(is_in_air)))
        plugin.subscribe_health(lambda health, data: self._update(is_position_known=health.is_local_position_ok))

    def _on_position(self, ned: Any, data: Any) -> None:
        here, moving = ned.position, ned.velocity
        position = from_ned((here.north_m, here.east_m, here.down_m), NED_ORIGIN_WORLD)
        velocity = swap_vector((moving.north_m_s, moving.east_m_s, moving.down_m_s))
        if all(map(math.isfinite, (*position, *velocity))):
            self._update(position=position, velocity=velocity, position_at=time.monotonic())

    def _on_attitude(self, attitude: Any, data: Any) -> None:
        rotation = swap_rotation((attitude.w, attitude.x, attitude.y, attitude.z))
        now = time.monotonic()
        if not all(map(math.isfinite, rotation)):
            return
        self._update(rotation=rotation, attitude_at=now, vehicle_time_s=attitude.timestamp_us / 1e6)
        with self._lock:
            if self._telemetry.position is not None:
                self._poses.append(TimedPose(now, self._telemetry.position, rotation))
            while self._poses and self._poses[0].heard_at < now - HISTORY_S:
                self._poses.popleft()

    def _on_battery(self, battery: Any, data: Any) -> None:
        percent = battery.remaining_percent
        self._update(battery=percent / 100 if math.isfinite(percent) and percent >= 0 else None)

    @property
    def telemetry(self) -> Telemetry:
        """The latest."""
        with self._lock:
            return self._telemetry

    def pose_at(self, moment: float) -> TimedPose:
        """The remembered pose that was heard nearest to a moment of the monotonic clock."""
        with self._lock:
            if not self._poses:
                raise FlightAborted("no telemetry; does the autopilot know its position?")
            return min(self._poses, key=lambda pose: abs(pose.heard_at - moment))

    def wait_for(self, what: str, seconds: float, is_true: Any) -> Telemetry:
        """Wait until is_true(telemetry); raises FlightAborted after some seconds."""
        end = time.monotonic() + seconds
        while not is_true(self.telemetry):
            if time.monotonic() > end:
                raise FlightAborted(f"{what} did not happen within {seconds:g} s")
            time.sleep(0.02)
        return self.telemetry

    def _ask(self, what: str, call: Any, *arguments: Any) -> None:
        try:
            call(*arguments)
        except Exception as error:  # MAVSDK has an error class for each plugin
            raise FlightAborted(f"{what}: the autopilot refused ({error})") from None

    def arm(self) -> None:
        """Start the motors."""
        self._ask("arm", self._action.arm)

    def take_off(self, height: float) -> None:
        """Climb to about a height, metres."""
        self._ask("take-off height", self._action.set_takeoff_altitude, height)
        self._ask("take off", self._action.takeoff)

    def hold(self) -> None:
        """Stop set-points, and ask the autopilot to hold its place."""
        self.let_go()
        self._ask("hold", self._action.hold)

    def land(self) -> None:
        """Stop set-points, and ask the autopilot to land."""
        self.let_go()
        self._ask("land", self._action.land)

    def start_offboard(self) -> None:
        """Ask the autopilot to follow set-points, beginning with hovering."""
        self._offboard = Offboard(self._system)
        self.send(Velocity())
        time.sleep(0.2)  # PX4 wants to have seen some before
        self._ask("offboard control", self._offboard.start)

    def send(self, velocity: Velocity) -> None:
        """Send a set-point, which MAVSDK repeats at 20 Hz until the next."""
        if self._offboard is not None:
            yaw_rate = -math.degrees(velocity.yaw_rate)
            setpoint = VelocityBodyYawspeed(velocity.forward, 0.0, -velocity.climb, yaw_rate)
            self._ask("set-point", self._offboard.set_velocity_body, setpoint)

    def let_go(self) -> None:
        """Stop set-points, and ask for nothing."""
        offboard, self._offboard = self._offboard, None
        if offboard is not None:
            offboard.destroy()

    def close(self) -> None:
        """Disconnect; nothing more is sent."""
        self.let_go()
        self._mavsdk.destroy()
