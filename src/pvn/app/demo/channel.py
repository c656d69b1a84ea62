"""Messages from the server to one panel, from any thread: JSON objects, each of a kind."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

from websockets.asyncio.server import ServerConnection


class Channel:
    """Sends messages; of those that a slow browser has not taken yet, only the last of each kind is kept."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._waiting: dict[str, dict[str, Any]] = {}
        self._wake = asyncio.Event()

    def send(self, kind: str, content: dict[str, Any]) -> None:
        """Send a message as soon as possible."""
        with self._lock:
            self._waiting.pop(kind, None)
            self._waiting[kind] = content
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake.set)

    async def deliver(self, connection: ServerConnection) -> None:
        """Send what is waiting, and what comes, until the connection ends."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            with self._lock:
                messages, self._waiting = self._waiting, {}
            for kind, content in messages.items():
                await connection.send(json.dumps({"kind": kind, **content}, allow_nan=False))
