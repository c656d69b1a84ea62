"""MessagePack-RPC as AirSim speaks it: [0, id, method, arguments] is answered by [1, id, error, result].

What comes from outside is bounded here: the size of a message, how long half a message may take, how many calls of one
client may wait at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import msgpack

REQUEST, RESPONSE, NOTIFICATION = 0, 1, 2
READ_BYTES = 1 << 13
"""Read at a time: some 500 small calls, after which other clients get their turn."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one client may ask of a server."""

    message_bytes: int = 1 << 20
    """Largest message, to within one read; AirSim's largest, a path to fly, has some 40 bytes a point."""
    half_message_s: float = 10.0
    """How long the rest of a message may take, seconds. Between messages a client may be silent for ever."""
    waiting_calls: int = 256
    """Calls not answered yet; further ones are read when these are."""
    clients: int = 64
    """Connections at once; further ones are closed."""


class ProtocolError(Exception):
    """What came is no MessagePack-RPC, or is too much of it."""


@dataclass(frozen=True)
class Request:
    """One call; a notification has no number and gets no answer."""

    number: int | None
    method: str
    arguments: list[Any]


def _request(message: Any) -> Request:
    match message:
        case [kind, int() as number, str() as method, list() as arguments] if kind == REQUEST:
            return Request(number, method, arguments)
        case [kind, str() as method, list() as arguments] if kind == NOTIFICATION:
            return Request(None, method, arguments)
    raise ProtocolError(f"got {str(message)[:60]!r}, expected [0, id, method, arguments]")


async def requests(reader: asyncio.StreamReader, limits: Limits) -> AsyncIterator[Request]:
    """The calls a client sends, until it leaves."""
    # Whole messages leave the buffer before more is read, so it holds one that is too long and one read at most.
    unpacker = msgpack.Unpacker(max_buffer_size=limits.message_bytes + READ_BYTES, raw=False)
    num_read = num_understood = 0
    while True:
        is_half = num_understood < num_read
        try:
            async with asyncio.timeout(limits.half_message_s if is_half else None):
                data = await reader.read(READ_BYTES)
        except TimeoutError:
            raise ProtocolError(f"half a message, then nothing for {limits.half_message_s:g} s") from None
        if not data:
            return
        if len(data) == READ_BYTES:
            await asyncio.sleep(0)  # reading what has come already does not wait, and others want to be heard
        num_read += len(data)
        try:
            unpacker.feed(data)
            for message in unpacker:
                num_understood = unpacker.tell()
                yield _request(message)
        except msgpack.exceptions.BufferFull:
            raise ProtocolError(f"got a message over {limits.message_bytes} bytes") from None
        except (ValueError, msgpack.exceptions.UnpackException) as error:
            raise ProtocolError(f"not MessagePack: {type(error).__name__}") from None


def response(number: int, error: str | None, result: Any) -> bytes:
    """The bytes of an answer."""
    packed: bytes = msgpack.packb([RESPONSE, number, error, result], use_bin_type=True)
    return packed
