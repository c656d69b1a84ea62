"""The drone that our autopilot flies, with its camera."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pvn.bridges.mavlink.autopilot import Autopilot, setpoint
from pvn.bridges.mavlink.modes import Firmware
from pvn.bridges.mavlink.progress import advance
from pvn.bridges.shared.clock import ClockedVehicles
from pvn.bridges.shared.frames import multiply_quaternions, rotation_from_pitch, rotation_from_yaw
from pvn.bridges.shared.motions import LANDED_HEIGHT_M, Setpoint, VehicleState
from pvn.bridges.shared.renderer import CameraRenderer, Floats, make_camera_row
from pvn.bridges.shared.vehicle import Vehicle
from pvn.geometry import Camera
from pvn.simulator.quadcopter import LOWEST

LIFT_M = 0.05
"""On the ground, a set-point this far above it makes the drone take off."""


class SimulatedDrone(ClockedVehicles):
    """The vehicle and its autopilot, on one clock and in one event loop."""

    def __init__(
        self,
        renderer: CameraRenderer,
        *,
        speed: float = 1.0,
        camera: Camera = Camera(),
        start: tuple[float, float, float] | None = None,
        firmware: Firmware = "px4",
    ) -> None:
        """start: x, y (metres) and yaw (radians) on the ground, field frame; by default the middle, facing north."""
        if not math.isfinite(speed):
            raise ValueError(f"speed: got {speed}, expected a finite number: MAVLink clients have clocks")
        super().__init__(speed)
        self.renderer, self.camera = renderer, camera
        self._vehicles = (Vehicle(),)
        if start is not None:
            self.vehicle.teleport((start[0], start[1], LOWEST), rotation_from_yaw(start[2]))
        self.autopilot = Autopilot(firmware=firmware, home=self.vehicle.state.position)
        self.on_tick: Callable[[Sequence[Any]], None] = lambda told: None
        """Called after each tick with the autopilot's messages to everyone."""

    @property
    def vehicles(self) -> Sequence[Vehicle]:
        """Its only one."""
        return self._vehicles

    def camera_row(self) -> Floats:
        """The camera (18,) of `simulator.rendering` at this moment: at the drone's centre, tilted down."""
        state = self.vehicle.state
        rotation = multiply_quaternions(state.rotation, rotation_from_pitch(self.camera.tilt))
        return make_camera_row(state.position, rotation, self.camera)

    def _motion(self, vehicle: VehicleState) -> tuple[Setpoint, bool | None]:
        """The autopilot's set-points as a motion, which ends on the ground."""
        wanted = setpoint(self.autopilot, vehicle) or Setpoint(altitude=vehicle.position[2])
        has_landed = wanted.altitude < LOWEST and vehicle.position[2] < LOWEST + LANDED_HEIGHT_M
        return wanted, True if has_landed else None

    def tick(self) -> None:
        """Advance vehicle and autopilot by one tick."""
        if self.vehicle.is_landed:
            wanted = setpoint(self.autopilot, self.vehicle.state)
            if wanted is not None and wanted.altitude > LOWEST + LIFT_M:
                self.vehicle.start_motion(self._motion)
        self.vehicle.tick()
        self.autopilot, told = advance(self.autopilot, self.vehicle.is_landed, self.vehicle.state)
        self.on_tick(told)
