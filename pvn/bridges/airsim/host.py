"""What the calls of all clients share: the drones, their clock, the objects in the field and the renderer."""

from __future__ import annotations

import asyncio
import functools
import logging
import math
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from pvn.bridges.airsim import motions
from pvn.bridges.airsim.drone import Collision, Drone, MountedCamera, external_pose
from pvn.bridges.airsim.frames import Quaternion, Vector, swap_vector
from pvn.bridges.airsim.images import CameraRenderer, ImageRequest, View, make_camera_row, render_image
from pvn.bridges.airsim.scene import Scene
from pvn.bridges.airsim.settings import Settings, VehicleSettings
from pvn.bridges.airsim.vehicle import TICK_SECONDS, Border, Vehicle
from pvn.geometry import Camera
from pvn.simulator.compiling import num_cores

log = logging.getLogger(__name__)

MAX_LAG_S = 0.25
"""How far simulated time may fall behind the wall clock and still catch up, seconds; anything beyond is dropped, as in
AirSim."""
MAX_BURST_S = 0.005
"""How long the clock may tick before it lets clients have their turn, seconds of wall-clock time."""

MAX_CACHED_IMAGES = 16
MAX_TOLD = 200
MAX_DRONES = 16

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class HostConfig:
    """How a host simulates its vehicle."""

    settings: Settings = Settings()
    """The drones and what is mounted on them."""
    border: Border = "stop"
    """Where drones can fly, and what happens to goals elsewhere."""
    speed: float = 1.0
    """Simulated seconds per second. Infinite: the clock runs as fast as it can while a client waits for a motion or for
    simContinueForTime, and stands still otherwise."""

    def __post_init__(self) -> None:
        if not self.speed > 0:
            raise ValueError(f"speed: got {self.speed}, expected more than 0; inf runs as fast as possible")


def compile_kernels(renderer: CameraRenderer, camera: Camera) -> None:
    """Fly and render a little beforehand, so that no client has to wait for compilation."""
    vehicle = Vehicle()
    vehicle.start_motion(motions.rotate_to_yaw(0.0, 0.0, math.inf, vehicle.state))
    vehicle.tick()
    camera_row = make_camera_row(vehicle.position, vehicle.rotation, camera)
    renderer.render_scene(camera_row, camera)
    renderer.measure_depth(camera_row[None], camera)
    renderer.cast_rays(vehicle.position, np.array([[1.0, 0.0, 0.0]]))


class Host:
    """The drones of one field for all clients.

    Its methods must be called from one event loop; only images are rendered in other threads.
    """

    def __init__(self, renderer: CameraRenderer, config: HostConfig = HostConfig()) -> None:
        """The field is the renderer's."""
        self.settings, self.border = config.settings, config.border
        self.scene = Scene(renderer)
        self.drones: dict[str, Drone] = {}
        self.external_cameras = {
            name: MountedCamera(camera) for name, camera in config.settings.external_cameras.items()
        }
        self.pause_at_tick: int | None = None
        """The tick at which the clock stops; None: it keeps running."""
        self.wind: Vector = swap_vector(config.settings.wind)
        """m/s, field frame."""
        for name, vehicle in config.settings.vehicles.items():
            self.add_drone(name, vehicle)
        self._speed = config.speed
        self._told: set[str] = set()
        self._threads = ThreadPoolExecutor(num_cores(), thread_name_prefix="pvn-airsim")
        self._clock_wake_up = asyncio.Event()
        self._rendered_moment: object = None
        self._rendered_images: dict[object, asyncio.Future[dict[str, Any]]] = {}
        self._waiting_for_pause: list[asyncio.Future[None]] = []

    @property
    def vehicle(self) -> Vehicle:
        """The first drone's, whose clock is that of all."""
        return next(iter(self.drones.values())).vehicle

    @property
    def is_paused(self) -> bool:
        """Whether the clock is stopped."""
        return self.pause_at_tick is not None and self.vehicle.num_ticks >= self.pause_at_tick

    @property
    def is_awaited(self) -> bool:
        """Whether someone is waiting for simulated time to pass."""
        if self.is_paused:
            return False
        return self.pause_at_tick is not None or any(drone.vehicle.is_awaited for drone in self.drones.values())

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

    def tell_once(self, message: str) -> None:
        """Tell whoever runs the server something, unless it has been told already."""
        if message not in self._told and len(self._told) <= MAX_TOLD:
            self._told.add(message)
            log.warning("%s", message if len(self._told) <= MAX_TOLD else "enough was told; no more messages")

    def reset(self) -> None:
        """Restore the initial state, except for the clock and the objects."""
        for drone in self.drones.values():
            drone.reset()
        for camera in self.external_cameras.values():
            camera.reset()

    def find_camera(self, name: Any, vehicle_name: str, is_external: Any) -> MountedCamera:
        """A drone's camera, or one that stands in the field."""
        if not is_external:
            return self.find_drone(vehicle_name).find_camera(name)
        if name not in self.external_cameras:
            known = ", ".join(self.external_cameras) or "none; settings.json can add them under ExternalCameras"
            raise ValueError(f"external camera: got {str(name)[:80]!r}, expected {known}")
        return self.external_cameras[name]

    def camera_pose(self, name: Any, vehicle_name: str, is_external: Any) -> tuple[Vector, Quaternion]:
        """Position and rotation of a camera, field frame; the rotation takes x to the optical axis."""
        camera = self.find_camera(name, vehicle_name, is_external)
        return external_pose(camera) if is_external else self.find_drone(vehicle_name).camera_pose(camera)

    def view(self, name: Any, image_type: int, vehicle_name: str, is_external: Any) -> View:
        """What a camera sees at this moment."""
        lens = self.find_camera(name, vehicle_name, is_external).lens(image_type)
        row = make_camera_row(*self.camera_pose(name, vehicle_name, is_external), lens)
        return View(renderer=self.scene.renderer, camera_row=row, camera=lens, object_ids=self.scene.object_ids)

    def run_in_thread(self, work: Callable[[], Result]) -> Awaitable[Result]:
        """Run a function in another thread; await the result."""
        return asyncio.get_running_loop().run_in_executor(self._threads, work)

    def render_image(self, view: View, request: ImageRequest) -> Awaitable[dict[str, Any]]:
        """An encoded image, rendered once however many clients request it before anything moves."""
        poses = [(drone.vehicle.position, drone.vehicle.rotation) for drone in self.drones.values()]
        moment = (self.scene.version, poses)
        if moment != self._rendered_moment or len(self._rendered_images) >= MAX_CACHED_IMAGES:
            self._rendered_moment, self._rendered_images = moment, {}
        key = (view.camera_row.tobytes(), view.camera, request)
        if key not in self._rendered_images:
            work = functools.partial(render_image, view, request)
            self._rendered_images[key] = asyncio.ensure_future(self.run_in_thread(work))
        # Shielded: a client that disconnects must not cancel the image for the others.
        return asyncio.shield(self._rendered_images[key])

    def wake_clock(self) -> None:
        """Let the clock check whether it has to run."""
        self._clock_wake_up.set()

    def set_paused(self, is_paused: bool) -> None:
        """Stop the clock, or let it run."""
        self.pause_at_tick = self.vehicle.num_ticks if is_paused else None
        self._release_waiting()

    def _release_waiting(self) -> None:
        """Answer those who wait for a pause: it has come, or is no longer coming."""
        for future in self._waiting_for_pause:
            if not future.done():
                future.set_result(None)
        self._waiting_for_pause = []
        self.wake_clock()

    def continue_for(self, seconds: float) -> Awaitable[None]:
        """Let the clock run for some simulated seconds, then stop it; await the stop."""
        if seconds < 0:
            raise ValueError(f"seconds: got {seconds:g}, expected 0 or more")
        self._release_waiting()
        self.pause_at_tick = self.vehicle.num_ticks + round(min(seconds, 1e9) / TICK_SECONDS)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting_for_pause.append(future)
        if self.is_paused:
            self._release_waiting()
        return future

    def tick(self) -> None:
        """Advance the simulation by one tick and note collisions."""
        for drone in self.drones.values():
            vehicle = drone.vehicle
            vehicle.tick()
            if vehicle.is_at_border:
                self.tell_once("a drone has met the border, 10 m beyond the fences; --border open has none")
            if not vehicle.is_landed:
                index = self.scene.renderer.find_collision(vehicle.position)
                if index is not None:
                    name = self.scene.names[index]
                    drone.last_collision = Collision(
                        name, self.scene.object_id(name), vehicle.position, vehicle.time_ns
                    )
        if self.is_paused:
            self._release_waiting()

    async def run_clock(self) -> None:
        """Keep simulated time going, forever."""
        wall_clock = asyncio.get_running_loop().time
        last, lag = wall_clock(), 0.0
        while True:
            if self.is_paused or (math.isinf(self._speed) and not self.is_awaited):
                self._clock_wake_up.clear()
                await self._clock_wake_up.wait()
                last, lag = wall_clock(), 0.0
            elif math.isinf(self._speed):
                burst_start = wall_clock()
                while self.is_awaited and wall_clock() - burst_start < MAX_BURST_S:
                    self.tick()
                await asyncio.sleep(0)
            else:
                now = wall_clock()
                max_lag = max(MAX_LAG_S * self._speed, TICK_SECONDS)
                lag, last = min(lag + (now - last) * self._speed, max_lag), now
                while lag >= TICK_SECONDS and not self.is_paused and wall_clock() - now < MAX_BURST_S:
                    lag -= TICK_SECONDS
                    self.tick()
                await asyncio.sleep(max(TICK_SECONDS - lag, 0.0) / self._speed)

    def close(self) -> None:
        """Shut down the rendering threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)
