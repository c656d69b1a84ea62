"""A vehicle with all that is mounted on it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pvn.bridges.airsim.settings import CameraSettings, Capture, VehicleSettings, camera_key
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
from pvn.bridges.shared.vehicle import Border, Vehicle
from pvn.geometry import Camera


def to_our_body(rotation: Quaternion) -> Quaternion:
    """A rotation between AirSim's body frames as one between ours, or the other way: y and z change sign."""
    w, x, y, z = rotation
    return w, x, -y, -z


class MountedCamera:
    """A camera that clients may move, turn and zoom."""

    def __init__(self, settings: CameraSettings) -> None:
        self._settings = settings
        self.reset()

    def reset(self) -> None:
        """As at first."""
        self.position, self.rotation = self._settings.position, self._settings.rotation
        """Relative to the body, in AirSim's frames."""
        self.view: float | None = None
        """Horizontal field of view, radians, if a client has set it."""
        self.distortion = dict.fromkeys(("K1", "K2", "K3", "P1", "P2"), 0.0)
        self.detected_names: list[str] = []
        """Patterns of the objects that simGetDetections looks for, within this distance."""
        self.detection_radius_m = math.inf

    def lens(self, image_type: int) -> Camera:
        """Size and field of view of a type of image."""
        capture: Capture = self._settings.captures.get(image_type, self._settings.default_capture)
        view = capture.view if self.view is None else self.view
        return Camera(width=capture.width, height=capture.height, horizontal_view=view, tilt=0.0)


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
        self.cameras = {name: MountedCamera(camera) for name, camera in settings.cameras.items()}
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
        """The remote control's, which moveByRC moves; -1 to 1, the throttle 0 to 1."""

    @property
    def origin(self) -> Vector:
        """Where this drone's NED coordinates begin, field frame: its home, as in AirSim."""
        return self.vehicle.home

    def mounted_pose(self, position: Vector, rotation: Quaternion) -> tuple[Vector, Quaternion]:
        """Position and rotation, field frame, of something mounted on the body as AirSim says.

        The rotation takes x to where it looks, y to its left and z to its up.
        """
        body = self.vehicle.rotation
        offset = rotate_vector(body, swap_rates(position))  # y and z change sign, as for rates
        x, y, z = (one + other for one, other in zip(self.vehicle.position, offset, strict=True))
        return (x, y, z), multiply_quaternions(body, to_our_body(rotation))

    def camera_pose(self, camera: MountedCamera) -> tuple[Vector, Quaternion]:
        """Position and rotation of a camera, field frame, as for `mounted_pose`."""
        return self.mounted_pose(camera.position, camera.rotation)

    def find_camera(self, name: object) -> MountedCamera:
        """The camera of a name."""
        camera = self.cameras.get(camera_key(name))
        if camera is None:
            known = ", ".join(["0", "1", "2", "3", "4", *self.cameras])
            raise ValueError(f"camera: got {str(name)[:80]!r}, expected one of {known}; settings.json can add others")
        return camera


def external_pose(camera: MountedCamera) -> tuple[Vector, Quaternion]:
    """Position and rotation, field frame, of a camera that stands in the field."""
    return from_ned(camera.position, NED_ORIGIN_WORLD), swap_rotation(camera.rotation)
