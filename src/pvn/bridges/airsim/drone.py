"""A vehicle with all that is mounted on it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pvn.bridges.airsim.settings import CameraSettings, VehicleSettings, camera_key
from pvn.bridges.airsim.wire_types import Pose
from pvn.bridges.shared.frames import (
    NED_ORIGIN_WORLD,
    Quaternion,
    Vector,
    from_ned,
    multiply_quaternions,
    rotate_vector,
    swap_rates,
    swap_rotation,
    swap_yaw,
)
from pvn.bridges.shared.motions import VehicleState
from pvn.bridges.shared.vehicle import Border, Vehicle
from pvn.geometry import Camera


class MountedCamera:
    """A camera that clients may move, turn and zoom: on a drone, or standing in the field."""

    def __init__(self, settings: CameraSettings, drone: Drone | None) -> None:
        self._settings, self._drone = settings, drone
        self.reset()

    def reset(self) -> None:
        """As at first."""
        self.position, self.rotation = self._settings.position, self._settings.rotation
        """In AirSim's frames: relative to the drone's body, or to the middle of the field."""
        self.view: float | None = None
        """Horizontal field of view, radians, if a client has set it."""
        self.distortion = dict.fromkeys(("K1", "K2", "K3", "P1", "P2"), 0.0)
        self.detected_names: list[str] = []
        """Patterns of the objects that simGetDetections looks for, within this distance."""
        self.detection_radius_m = math.inf

    def lens(self, image_type: int) -> Camera:
        """Size and field of view of a type of image."""
        capture = self._settings.captures.get(image_type, self._settings.default_capture)
        view = capture.view if self.view is None else self.view
        return Camera(width=capture.width, height=capture.height, horizontal_view=view, tilt=0.0)

    @property
    def origin(self) -> Vector:
        """Where the NED coordinates begin in which clients get its poses, field frame."""
        return NED_ORIGIN_WORLD if self._drone is None else self._drone.origin

    @property
    def pose(self) -> Pose:
        """Position and rotation, field frame; the rotation takes x to the optical axis."""
        if self._drone is None:
            return from_ned(self.position), swap_rotation(self.rotation)
        return self._drone.mounted_pose(self.position, self.rotation)


@dataclass(frozen=True)
class Collision:
    """A drone touched a landmark."""

    object_name: str
    object_id: int
    position: Vector
    """The drone's, field frame, metres."""
    time_ns: int
    """Simulated time, nanoseconds."""


class Drone:
    """One drone: its vehicle, cameras and remote control."""

    def __init__(self, settings: VehicleSettings, border: Border, num_ticks: int = 0) -> None:
        self.settings = settings
        self.vehicle = Vehicle(
            home=from_ned((*settings.position[:2], 0.0)),  # AirSim's fall to the ground from where they are put
            home_yaw=swap_yaw(settings.yaw),
            border=border,
            is_armed_at_first=settings.is_armed,
            is_floating=settings.is_floating,
            num_ticks=num_ticks,
        )
        self.cameras = {name: MountedCamera(camera, self) for name, camera in settings.cameras.items()}
        """By full name, see `settings.camera_key`."""
        self.reset()

    def reset(self) -> None:
        """Restore the initial state, except for the clock."""
        self.vehicle.reset()
        for camera in self.cameras.values():
            camera.reset()
        self.last_collision: Collision | None = None
        """Since the last reset."""
        self.sticks = dict.fromkeys(("pitch", "roll", "throttle", "yaw"), 0.0)
        """The remote control's, which moveByRC moves: -1 to 1."""

    @property
    def state(self) -> VehicleState:
        """Where it is and how it moves."""
        return self.vehicle.state

    @property
    def origin(self) -> Vector:
        """Where this drone's NED coordinates begin, field frame: its home, as in AirSim."""
        return self.vehicle.home

    def mounted_pose(self, position: Vector, rotation: Quaternion) -> Pose:
        """Position and rotation, field frame, of something mounted on the body, given in AirSim's body frame.

        The rotation takes x to where it looks, y to its left and z to its up.
        """
        state, (w, x, y, z) = self.state, rotation
        offset = rotate_vector(state.rotation, swap_rates(position))  # y and z change sign, as for rates
        east, north, up = (one + other for one, other in zip(state.position, offset, strict=True))
        return (east, north, up), multiply_quaternions(state.rotation, (w, x, -y, -z))

    def find_camera(self, name: object) -> MountedCamera:
        """The camera of a name."""
        camera = self.cameras.get(camera_key(name))
        if camera is None:
            known = ", ".join(["0", "1", "2", "3", "4", *self.cameras])
            raise ValueError(f"camera: got {str(name)[:80]!r}, expected one of {known}; settings.json can add others")
        return camera

    def check_may_fly(self) -> None:
        """Refuse motions of a vehicle that cannot fly now."""
        if self.vehicle.is_floating:
            raise ValueError("a vehicle of type ComputerVision does not fly; use simSetVehiclePose")
        if not self.vehicle.has_api_control:
            raise ValueError("API control is off; call enableApiControl(True) first")
        if not self.vehicle.is_armed:
            raise ValueError("the vehicle is not armed; call armDisarm(True) first")
