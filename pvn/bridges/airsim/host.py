"""What the calls of all clients share: the vehicle, its clock and the renderer of its camera."""

from __future__ import annotations

import asyncio
import functools
import math
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from pvn.bridges.airsim import motions
from pvn.bridges.airsim.frames import Quaternion, Vector, multiply_quaternions, rotation_from_pitch
from pvn.bridges.airsim.images import CameraRenderer, ImageRequest, make_camera_row, render_image
from pvn.bridges.airsim.vehicle import TICK_SECONDS, Vehicle
from pvn.geometry import Camera
from pvn.simulator.compiling import num_cores

CAMERA_NAMES = ("0", "front_center", "front-center", "fpv")
"""Names of the one camera, which looks forward and slightly down from the drone's centre."""

MAX_LAG_S = 0.25
"""How far simulated time may fall behind the wall clock and still catch up, seconds; anything beyond is dropped, as in
AirSim."""
MAX_BURST_S = 0.005
"""How long the clock may tick before it lets clients have their turn, seconds of wall-clock time."""

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class HostConfig:
    """How a host simulates its vehicle."""

    camera: Camera = Camera()
    """The camera, as mounted at first; clients may turn it."""
    speed: float = 1.0
    """Simulated seconds per second. Infinite: the clock runs as fast as it can while a client waits for a motion or for
    simContinueForTime, and stands still otherwise."""
    vehicle_name: str = "SimpleFlight"
    """The vehicle's name; clients may also leave it empty."""

    def __post_init__(self) -> None:
        if not self.speed > 0:
            raise ValueError(f"speed: got {self.speed}, expected more than 0; inf runs as fast as possible")


@dataclass(frozen=True)
class Collision:
    """The vehicle touched a landmark."""

    landmark_index: int
    """Which landmark of the layout."""
    position: Vector
    """The vehicle's, field frame, metres."""
    time_ns: int
    """Simulated time, nanoseconds."""


def _unique_names(names: Sequence[str]) -> list[str]:
    """Number repeated names: the second Barrel becomes Barrel_2."""
    counts = [names[: place + 1].count(name) for place, name in enumerate(names)]
    return [name if count == 1 else f"{name}_{count}" for name, count in zip(names, counts, strict=True)]


def compile_kernels(renderer: CameraRenderer, camera: Camera) -> None:
    """Fly and render a little beforehand, so that no client has to wait for compilation."""
    vehicle = Vehicle()
    vehicle.start_motion(motions.rotate_to_yaw(0.0, 0.0, math.inf, vehicle.state))
    vehicle.tick()
    camera_row = make_camera_row(vehicle.position, vehicle.rotation, camera)
    renderer.render_scene(camera_row, camera)
    renderer.measure_depth(camera_row[None], camera)


class Host:
    """One vehicle in one field for all clients.

    Its methods must be called from one event loop; only images are rendered in other threads.
    """

    def __init__(self, renderer: CameraRenderer, config: HostConfig = HostConfig()) -> None:
        """The field is the renderer's."""
        self.vehicle, self.renderer = Vehicle(), renderer
        self.camera, self.vehicle_name = config.camera, config.vehicle_name
        self.object_names = _unique_names([landmark.name for landmark in renderer.layout.landmarks])
        """AirSim's names of the landmarks, in the layout's order."""
        self._speed = config.speed
        self._threads = ThreadPoolExecutor(num_cores(), thread_name_prefix="pvn-airsim")
        self._clock_wake_up = asyncio.Event()
        self._rendered_row = b""
        self._rendered_images: dict[ImageRequest, asyncio.Future[dict[str, Any]]] = {}
        self._waiting_for_pause: list[asyncio.Future[None]] = []
        self.reset()

    def reset(self) -> None:
        """Restore the initial state, except for the clock."""
        self.vehicle.reset()
        self.last_collision: Collision | None = None
        """Since the last reset."""
        self.camera_mount: Quaternion = rotation_from_pitch(self.camera.tilt)
        """The camera's rotation relative to the body, our frames."""

    def camera_pose(self) -> tuple[Vector, Quaternion]:
        """Position and rotation of the camera, field frame; the rotation takes x to the optical axis."""
        return self.vehicle.position, multiply_quaternions(self.vehicle.rotation, self.camera_mount)

    def run_in_thread(self, work: Callable[[], Result]) -> Awaitable[Result]:
        """Run a function in another thread; await the result."""
        return asyncio.get_running_loop().run_in_executor(self._threads, work)

    def render_images(self, requests: Sequence[ImageRequest]) -> list[Awaitable[dict[str, Any]]]:
        """Encoded images of this moment, each rendered once however many clients request it before time passes."""
        camera_row = make_camera_row(*self.camera_pose(), self.camera)
        if camera_row.tobytes() != self._rendered_row:
            self._rendered_row, self._rendered_images = camera_row.tobytes(), {}
        for request in requests:
            if request not in self._rendered_images:
                work = functools.partial(render_image, self.renderer, camera_row, self.camera, request)
                self._rendered_images[request] = asyncio.ensure_future(self.run_in_thread(work))
        # Shielded: a client that disconnects must not cancel the image for the others.
        return [asyncio.shield(self._rendered_images[request]) for request in requests]

    def wake_clock(self) -> None:
        """Let the clock check whether it has to run."""
        self._clock_wake_up.set()

    def set_paused(self, is_paused: bool) -> None:
        """Stop the clock, or let it run."""
        self.vehicle.pause_at_tick = self.vehicle.num_ticks if is_paused else None
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
        self.vehicle.pause_at_tick = self.vehicle.num_ticks + round(min(seconds, 1e9) / TICK_SECONDS)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting_for_pause.append(future)
        if self.vehicle.is_paused:
            self._release_waiting()
        return future

    def tick(self) -> None:
        """Advance the simulation by one tick and note collisions."""
        self.vehicle.tick()
        if not self.vehicle.is_landed:
            landmark_index = self.renderer.find_collision(self.vehicle.position)
            if landmark_index is not None:
                self.last_collision = Collision(landmark_index, self.vehicle.position, self.vehicle.time_ns)
        if self.vehicle.is_paused:
            self._release_waiting()

    async def run_clock(self) -> None:
        """Keep simulated time going, forever."""
        wall_clock = asyncio.get_running_loop().time
        last, lag = wall_clock(), 0.0
        while True:
            if self.vehicle.is_paused or (math.isinf(self._speed) and not self.vehicle.is_awaited):
                self._clock_wake_up.clear()
                await self._clock_wake_up.wait()
                last, lag = wall_clock(), 0.0
            elif math.isinf(self._speed):
                burst_start = wall_clock()
                while self.vehicle.is_awaited and wall_clock() - burst_start < MAX_BURST_S:
                    self.tick()
                await asyncio.sleep(0)
            else:
                now = wall_clock()
                max_lag = max(MAX_LAG_S * self._speed, TICK_SECONDS)
                lag, last = min(lag + (now - last) * self._speed, max_lag), now
                while lag >= TICK_SECONDS and not self.vehicle.is_paused and wall_clock() - now < MAX_BURST_S:
                    lag -= TICK_SECONDS
                    self.tick()
                await asyncio.sleep(max(TICK_SECONDS - lag, 0.0) / self._speed)

    def close(self) -> None:
        """Shut down the rendering threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)
