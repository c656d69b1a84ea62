"""Websockets of the demo: how many there may be, how long they may say nothing, and what a 3D view may send."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from viser import _messages
from websockets.asyncio.server import ServerConnection
from websockets.protocol import State

HELLO_S = 10.0
"""A panel that says nothing for this long is closed, seconds."""
PANEL_S = 30.0
"""For this long a 3D view waits for its panel, seconds; then it is closed."""
SOCKETS_PER_VISITOR = 4
"""A panel and a view, and those that a reloaded page has not closed yet."""
TOO_MANY = 1013
"""The websocket code for "try again later"."""
NONSENSE = 1008
"""The websocket code for messages that our pages never send."""

TAKEN = {
    kind.__name__: kind
    for kind in (
        _messages.ViewerCameraMessage,
        _messages.SceneNodeClickMessage,
        _messages.SceneNodeDragMessage,
    )
}
"""What our 3D views need to send, by viser's names."""
KNOWN = _messages.Message._subclass_from_type_string()
"""All that viser's page can send, and more."""


class Crowd:
    """Counts the open websockets, by the key of their visitor."""

    def __init__(self, limit: int) -> None:
        """limit: the most of all visitors together."""
        self._limit = limit
        self._open: Counter[str] = Counter()

    @contextmanager
    def place(self, key: str) -> Iterator[bool]:
        """A place for one more websocket of a visitor; whether there is one."""
        has_room = self._open.total() < self._limit and self._open[key] < SOCKETS_PER_VISITOR
        self._open[key] += has_room
        try:
            yield has_room
        finally:
            self._open[key] -= has_room
            if not self._open[key]:
                del self._open[key]


async def comes_true(condition: Callable[[], bool], connection: ServerConnection, seconds: float) -> bool:
    """Wait for a condition; False if it stays false for so long, or if the connection ends before."""
    for _ in range(round(seconds / 0.1)):
        if condition():
            return True
        if connection.state is not State.OPEN:
            return False
        await asyncio.sleep(0.1)
    return False


def _is_finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def is_taken(content: str | bytes) -> bool:
    """Whether a view's message is for us, rather than for panels of viser's that are hidden here.

    A ValueError if it is none that viser's page sends: of another kind, or with values of other types, or not finite.
    """
    try:
        message = msgspec.msgpack.decode(content.encode() if isinstance(content, str) else content)
        kind = message.pop("type")
        if kind not in TAKEN:
            return not KNOWN[kind]
        if not _is_finite(message):
            raise ValueError("got numbers that are not finite")
        msgspec.convert(message, TAKEN[kind])
    except (AttributeError, TypeError, KeyError, ValueError, RecursionError) as error:
        raise ValueError(f"view: got a message that no page sends ({error})") from None
    return True


class CheckedView:
    """The connection of a 3D view as viser sees it: messages that make no sense close it, and do not reach viser."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def recv(self) -> str | bytes:
        """The next message that is for us."""
        while True:
            content = await self._connection.recv()
            try:
                if is_taken(content):
                    return content
            except ValueError:
                await self._connection.close(NONSENSE, "got a message that the page never sends")
