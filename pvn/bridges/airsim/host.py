"""What the calls of all clients share: the world, its clock against the wall's, and the eye that sees it."""

from __future__ import annotations

import asyncio
import functools
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from pvn.bridges.airsim import motions
from pvn.bridges.airsim.frames import Quaternion, Vector, multiply, pitched
from pvn.bridges.airsim.images import Asked, Eye, camera_row, encoded
from pvn.bridges.airsim.vehicle import TICK_SECONDS, World
from pvn.geometry import Camera
from pvn.simulator.compiling import num_cores

CAMERAS = ("0", "front_center", "front-center", "fpv")
"""Names of the one camera, looking forward and a little down from the drone's centre."""

MOST_BEHIND_S = 0.25
"""Wall time that is made up for after a pause of the machine; what is beyond it is lost, as in AirSim."""
BURST_S = 0.005
"""Wall time that the clock may take before clients are heard again."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class ServiceConfig:
    """What a server serves."""

    camera: Camera = Camera()
    """The camera at first; clients may turn it."""
    speed: float = 1.0
    """Simulated seconds a second. Infinite: as fast as asked; the clock runs as fast as it can while a client waits for
    a motion or for simContinueForTime, and stands otherwise."""
    vehicle: str = "SimpleFlight"
    """Its name; clients may also say nothing."""

    def __post_init__(self) -> None:
        if not self.speed > 0:
            raise ValueError(f"speed: got {self.speed}, expected more than 0; inf is as fast as asked")


@dataclass(frozen=True)
class Touch:
    """The vehicle touched a landmark."""

    landmark: int
    """Its place in the layout."""
    position: Vector
    """Of the vehicle, field frame, metres."""
    time_ns: int


def _distinct(names: Sequence[str]) -> list[str]:
    """The names; a class's second landmark is Barrel_2."""
    counts = [names[: place + 1].count(name) for place, name in enumerate(names)]
    return [name if count == 1 else f"{name}_{count}" for name, count in zip(names, counts, strict=True)]


def compile_kernels(eye: Eye, camera: Camera) -> None:
    """Fly and see a little in a world of its own, so that no client waits while that is compiled."""
    world = World()
    world.start(motions.hover(world.position[2]))
    world.tick()
    row = camera_row(world.position, world.rotation, camera)
    eye.picture(row, camera)
    eye.measure(row[None], camera)


class Service:
    """One world for all clients. Its functions belong to one event loop; images alone are made in other threads."""

    def __init__(self, eye: Eye, config: ServiceConfig = ServiceConfig()) -> None:
        """Serve the eye's field."""
        self.world, self.eye, self.camera, self.vehicle = World(), eye, config.camera, config.vehicle
        self.names = _distinct([mark.name for mark in eye.layout.landmarks])
        """Of the landmarks, in the layout's order; AirSim's object names."""
        self._speed = config.speed
        self._tilt = config.camera.tilt
        self._threads = ThreadPoolExecutor(num_cores(), thread_name_prefix="pvn-airsim")
        self._awake = asyncio.Event()
        self._moment = b""
        self._images: dict[Asked, asyncio.Future[dict[str, Any]]] = {}
        self._continued: list[asyncio.Future[None]] = []
        self.reset()

    def reset(self) -> None:
        """All as at first, but the clock."""
        self.world.reset()
        self.touch: Touch | None = None
        self.mount: Quaternion = pitched(self._tilt)
        """The camera's rotation on the body."""

    def camera_pose(self) -> tuple[Vector, Quaternion]:
        """Place and rotation of the camera in the field; x of the rotation is the optical axis."""
        return self.world.position, multiply(self.world.rotation, self.mount)

    def in_thread(self, work: Callable[[], Answer]) -> Awaitable[Answer]:
        """The work, done in another thread."""
        return asyncio.get_running_loop().run_in_executor(self._threads, work)

    def images(self, asked: Sequence[Asked]) -> list[Awaitable[dict[str, Any]]]:
        """The images of this moment, encoded. Each is made once, however many clients ask for it before time passes."""
        row = camera_row(*self.camera_pose(), self.camera)
        if row.tobytes() != self._moment:
            self._moment, self._images = row.tobytes(), {}
        for one in asked:
            if one not in self._images:
                work = functools.partial(encoded, self.eye, row, self.camera, one)
                self._images[one] = asyncio.ensure_future(self.in_thread(work))
        # Shielded: a client that leaves must not take the image away from the others.
        return [asyncio.shield(self._images[one]) for one in asked]

    def wake(self) -> None:
        """There may be something to do for the clock."""
        self._awake.set()

    def resume(self) -> None:
        """The pause has changed: nobody waits for its end any more."""
        for future in self._continued:
            if not future.done():
                future.set_result(None)
        self._continued = []
        self.wake()

    def continue_for(self, seconds: float) -> Awaitable[None]:
        """Let the clock run for a time, then stop it."""
        if seconds < 0:
            raise ValueError(f"seconds: got {seconds:g}, expected 0 or more")
        self.resume()
        self.world.pause_at = self.world.num_ticks + round(min(seconds, 1e9) / TICK_SECONDS)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._continued.append(future)
        if self.world.is_paused:
            self.resume()
        return future

    def tick(self) -> None:
        """Let one tick pass and see what it brings."""
        self.world.tick()
        if not self.world.is_landed:
            landmark = self.eye.touched(self.world.position)
            if landmark is not None:
                self.touch = Touch(landmark, self.world.position, self.world.time_ns)
        if self.world.is_paused:
            self.resume()

    async def run_clock(self) -> None:
        """Keep simulated time going, for ever."""
        last, behind = time.monotonic(), 0.0
        while True:
            if self.world.is_paused or (math.isinf(self._speed) and not self.world.is_awaited):
                self._awake.clear()
                await self._awake.wait()
                last, behind = time.monotonic(), 0.0
            elif math.isinf(self._speed):
                begin = time.monotonic()
                while self.world.is_awaited and time.monotonic() - begin < BURST_S:
                    self.tick()
                await asyncio.sleep(0)
            else:
                now = time.monotonic()
                most = max(MOST_BEHIND_S * self._speed, TICK_SECONDS)
                behind, last = min(behind + (now - last) * self._speed, most), now
                while behind >= TICK_SECONDS and not self.world.is_paused and time.monotonic() - now < BURST_S:
                    behind -= TICK_SECONDS
                    self.tick()
                await asyncio.sleep(max(TICK_SECONDS - behind, 0.0) / self._speed)

    def close(self) -> None:
        """Let go of the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)
