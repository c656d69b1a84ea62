"""Who may fly now: a limited number of flights at the same time, and a queue for the others."""

from __future__ import annotations

import threading
from collections.abc import Callable

LOOK_SECONDS = 0.2
"""Time between two looks at whether a waiting flight was called off."""


class Slots:
    """So many flights at the same time; those that wait take off in the order in which they came."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: list[object] = []
        self._changed = threading.Condition()

    def acquire(self, is_called_off: Callable[[], bool], tell: Callable[[int], None]) -> None:
        """Wait for a slot; InterruptedError if the flight is called off before.

        tell: called with the place in the queue, from 1, whenever it changes; not called if there is no need to wait.
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
                    self._changed.wait(LOOK_SECONDS)
                self._free -= 1
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()

    def release(self) -> None:
        """Give a slot back."""
        with self._changed:
            self._free += 1
            self._changed.notify_all()
