"""Simulated time for the vehicles that clients fly, and how it follows the wall clock."""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pvn.bridges.shared.vehicle import TICK_SECONDS, Vehicle
from pvn.compiling import num_cores

MAX_LAG_S = 0.25
"""How far simulated time may fall behind the wall clock and still catch up, seconds; AirSim, too, drops the rest."""
MAX_BURST_S = 0.005
"""How long the clock may tick before clients get their turn, seconds of wall-clock time."""

Result = TypeVar("Result")


class ClockedVehicles(ABC):
    """Vehicles on one clock.

    Its methods must be called from one event loop; only images are rendered in other threads.
    """

    def __init__(self, speed: float) -> None:
        """speed: simulated seconds per second. Infinite: as fast as possible while a client waits for a motion or for
        `continue_for`, and paused otherwise.
        """
        if not speed > 0:
            raise ValueError(f"speed: got {speed}, expected more than 0; inf runs as fast as possible")
        self._speed = speed
        self.pause_at_tick: int | None = None
        """The tick at which the clock stops; None: it keeps running."""
        self._threads = ThreadPoolExecutor(num_cores(), thread_name_prefix="pvn-bridge")
        self._clock_wake_up = asyncio.Event()
        self._waiting_for_pause: list[asyncio.Future[None]] = []

    @property
    @abstractmethod
    def vehicles(self) -> Sequence[Vehicle]:
        """All vehicles that the clock moves."""

    @abstractmethod
    def tick(self) -> None:
        """Advance the simulation by one tick."""

    @property
    def vehicle(self) -> Vehicle:
        """The first; all share its clock."""
        return self.vehicles[0]

    @property
    def is_paused(self) -> bool:
        """Whether the clock is stopped."""
        return self.pause_at_tick is not None and self.vehicle.num_ticks >= self.pause_at_tick

    @property
    def is_awaited(self) -> bool:
        """Whether someone is waiting for simulated time to pass."""
        if self.is_paused:
            return False
        return self.pause_at_tick is not None or any(vehicle.is_awaited for vehicle in self.vehicles)

    def run_in_thread(self, work: Callable[[], Result]) -> Awaitable[Result]:
        """Run a function in another thread; await the result."""
        return asyncio.get_running_loop().run_in_executor(self._threads, work)

    def wake_clock(self) -> None:
        """Let the clock check whether it has to run."""
        self._clock_wake_up.set()

    def set_paused(self, is_paused: bool) -> None:
        """Stop the clock, or let it run."""
        self.pause_at_tick = self.vehicle.num_ticks if is_paused else None
        self._release_waiting()

    def _release_waiting(self) -> None:
        """Answer those who wait for a pause: it has come, or will not come any more."""
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
