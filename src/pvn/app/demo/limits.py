"""Limits: how often a visitor may ask for something, and how many flights there are at once."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

MAX_REQUESTS, REQUEST_SECONDS = 8, 10.0
"""A visitor may make so many requests in so many seconds."""
POLL_SECONDS = 0.2
"""How often a flight in the queue checks whether it was called off."""


class RateLimit:
    """Limits how often one visitor may ask for something."""

    def __init__(self) -> None:
        self._times: deque[float] = deque()

    def check(self, now: float) -> None:
        """Count one more request, at `now` (seconds), or refuse it."""
        while self._times and now - self._times[0] > REQUEST_SECONDS:
            self._times.popleft()
        if len(self._times) >= MAX_REQUESTS:
            raise ValueError(
                f"That was {MAX_REQUESTS} requests within {REQUEST_SECONDS:.0f} seconds; wait a moment, then try again."
            )
        self._times.append(now)


class FlightQueue:
    """A limited number of flights at the same time; further flights wait, and take off in the order they came."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: list[object] = []
        self._changed = threading.Condition()

    def acquire(self, is_called_off: Callable[[], bool], tell: Callable[[int], None]) -> None:
        """Wait until the flight may take off; InterruptedError if it is called off before.

        tell: called with its place in the queue, from 1, whenever the place changes; never if it need not wait.
        """
        ticket, told = object(), 0
        with self._changed:
            self._waiting.append(ticket)
            try:
                while (place := self._waiting.index(ticket) + 1) > self._free:
                    if is_called_off():
                        raise InterruptedError
                    if place - self._free != told:
                        told = place - self._free
                        tell(told)
                    self._changed.wait(POLL_SECONDS)
                self._free -= 1
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()

    def release(self) -> None:
        """A flight has ended."""
        with self._changed:
            self._free += 1
            self._changed.notify_all()
