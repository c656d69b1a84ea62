"""What the calls of all clients share: the drones, their clock, the objects in the field and the renderer."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable
from typing import Any

from pvn.bridges.airsim.drone import Collision, Drone, MountedCamera
from pvn.bridges.airsim.images import ImageRequest, View, render_image
from pvn.bridges.airsim.scene import Scene
from pvn.bridges.airsim.settings import Settings, VehicleSettings
from pvn.bridges.shared.clock import ClockedVehicles
from pvn.bridges.shared.frames import Vector, from_ned, swap_vector, to_ned
from pvn.bridges.shared.globe import Globe
from pvn.bridges.shared.motions import Motion
from pvn.bridges.shared.renderer import CameraRenderer, make_camera_row
from pvn.bridges.shared.vehicle import Border, Vehicle, clamp_position

log = logging.getLogger(__name__)

MAX_CACHED_IMAGES = 16
MAX_TOLD = 200
"""Most different messages on the console, counted apart for the server's own and for those that scripts print."""
MAX_DRONES = 16
METRES_PER_DEGREE = 111_319.5
"""Of latitude, as in AirSim."""


class Host(ClockedVehicles):
    """The drones of one field for all clients.

    Its methods must be called from one event loop; only images are rendered in other threads.
    """

    def __init__(
        self,
        renderer: CameraRenderer,
        settings: Settings = Settings(),
        *,
        border: Border = "stop",
        speed: float = 1.0,
    ) -> None:
        """The field is the renderer's. speed: simulated seconds per second, see `ClockedVehicles`."""
        super().__init__(speed)
        self.settings, self.border = settings, border
        self.scene, self.globe = Scene(renderer), Globe(settings.origin, METRES_PER_DEGREE)
        self.drones: dict[str, Drone] = {}
        self.external_cameras = {
            name: MountedCamera(camera, None) for name, camera in settings.external_cameras.items()
        }
        self.wind: Vector = swap_vector(settings.wind)
        """m/s, field frame."""
        for name, vehicle in settings.vehicles.items():
            self.add_drone(name, vehicle)
        self._told: set[str] = set()
        self._printed: set[str] = set()
        self._rendered_moment: object = None
        self._rendered_images: dict[object, asyncio.Future[dict[str, Any]]] = {}

    @property
    def vehicles(self) -> list[Vehicle]:
        """The vehicles of all drones."""
        return [drone.vehicle for drone in self.drones.values()]

    def add_drone(self, name: str, settings: VehicleSettings) -> None:
        """Put another drone into the field."""
        if len(self.drones) >= MAX_DRONES:
            raise ValueError(f"vehicle: got {name!r} as one more, expected at most {MAX_DRONES} vehicles")
        num_ticks = self.vehicle.num_ticks if self.drones else 0
        self.drones[name] = Drone(settings, self.border, num_ticks)
        self.drones[name].vehicle.set_wind(self.wind)

    def find_drone(self, name: Any) -> Drone:
        """The drone of a name; the first if it is empty."""
        if name == "":
            return next(iter(self.drones.values()))
        if not isinstance(name, str) or name not in self.drones:
            known = ", ".join(repr(one) for one in self.drones)
            raise ValueError(f"vehicle: got {str(name)[:80]!r}, expected {known} or ''")
        return self.drones[name]

    def set_wind(self, wind: Vector) -> None:
        """Let the air move, m/s, field frame."""
        self.wind = wind
        for drone in self.drones.values():
            drone.vehicle.set_wind(wind)

    def tell_once(self, message: str, *, is_from_script: bool = False) -> None:
        """Print a message on the server's console, unless it has been printed before.

        is_from_script: whether a script prints it. These are counted apart, so that a script that prints a counter does
        not silence later refusals.
        """
        told = self._printed if is_from_script else self._told
        if message not in told and len(told) <= MAX_TOLD:
            told.add(message)
            whose = "of scripts" if is_from_script else "of the server"
            log.warning("%s", message if len(told) <= MAX_TOLD else f"{MAX_TOLD} messages {whose}: no more are printed")

    def reset(self) -> None:
        """Restore the initial state, except for the clock and the objects."""
        for drone in self.drones.values():
            drone.reset()
        for camera in self.external_cameras.values():
            camera.reset()

    def find_camera(self, name: Any, vehicle_name: Any, is_external: bool) -> MountedCamera:
        """A drone's camera, or one that stands in the field."""
        if not is_external:
            return self.find_drone(vehicle_name).find_camera(name)
        if not isinstance(name, str) or name not in self.external_cameras:
            known = ", ".join(self.external_cameras) or "none; settings.json can add them under ExternalCameras"
            raise ValueError(f"external camera: got {str(name)[:80]!r}, expected {known}")
        return self.external_cameras[name]

    def reach(self, drone: Drone, position_ned: Vector) -> Vector:
        """Where a drone gets, field frame, when it is sent to an NED position.

        If that is beyond the border, this is printed, or refused.
        """
        wanted = from_ned(position_ned, drone.origin)
        reached = clamp_position(wanted, self.border)
        if max(abs(one - other) for one, other in zip(wanted, reached, strict=True)) > 1e-6:
            got = ", ".join(f"{part:g}" for part in position_ned)
            place = ", ".join(f"{part:g}" for part in to_ned(reached, drone.origin))
            message = f"got position ({got}), north east down, which is beyond where drones can fly"
            if self.border == "refuse":
                raise ValueError(
                    f"{message}; the nearest place is ({place}); start the server with --border open or stop"
                )
            self.tell_once(f"{message}: flown to ({place}) instead; --border open has no fence")
        return reached

    def fly(self, drone: Drone, motion: Motion) -> asyncio.Future[bool]:
        """Start a motion; the future holds whether it succeeded, once it is over."""
        drone.check_may_fly()
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def on_done(has_succeeded: bool) -> None:
            if not future.done():
                future.set_result(has_succeeded)

        # A client that disconnects cancels its futures; the clock must not keep running on its account.
        future.add_done_callback(lambda _: drone.vehicle.stop_waiting(on_done))
        drone.vehicle.start_motion(motion, on_done)
        self.wake_clock()
        return future

    def view(self, camera: MountedCamera, image_type: int) -> View:
        """What a camera sees at this moment."""
        lens = camera.lens(image_type)
        row = make_camera_row(*camera.pose, lens)
        return View(renderer=self.scene.renderer, camera_row=row, camera=lens, object_ids=self.scene.object_ids)

    def render_image(self, view: View, request: ImageRequest) -> Awaitable[dict[str, Any]]:
        """An encoded image, rendered only once for all clients that request it before anything moves."""
        states = [drone.state for drone in self.drones.values()]
        moment = self.scene.version, [(state.position, state.rotation) for state in states]
        if moment != self._rendered_moment or len(self._rendered_images) >= MAX_CACHED_IMAGES:
            self._rendered_moment, self._rendered_images = moment, {}
        key = (view.camera_row.tobytes(), view.camera, request)
        if key not in self._rendered_images:
            work = functools.partial(render_image, view, request)
            self._rendered_images[key] = asyncio.ensure_future(self.run_in_thread(work))
        # Shielded: a client that disconnects must not cancel the image for the others.
        return asyncio.shield(self._rendered_images[key])

    def tick(self) -> None:
        """Advance the simulation by one tick and note collisions."""
        for drone in self.drones.values():
            vehicle = drone.vehicle
            vehicle.tick()
            if vehicle.is_at_border:
                self.tell_once("a drone has met the border, 10 m beyond the fences; --border open has none")
            if not vehicle.is_landed:
                state = vehicle.state
                index = self.scene.renderer.find_collision(state.position)
                if index is not None:
                    name = self.scene.names[index]
                    drone.last_collision = Collision(name, self.scene.object_id(name), state.position, state.time_ns)
        if self.is_paused:
            self._release_waiting()
