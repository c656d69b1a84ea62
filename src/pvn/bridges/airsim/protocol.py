"""MessagePack-RPC as AirSim speaks it: [0, id, method, arguments] is answered by [1, id, error, result].

What clients can demand is bounded here: the size and depth of a message, how long an incomplete message may take, and
how many calls of one client may be pending at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import msgpack

from pvn.bridges.airsim.messages import MessageSplitter, ProtocolError

REQUEST, RESPONSE, NOTIFICATION = 0, 1, 2
READ_BYTES = 1 << 13
"""Bytes per read: about 500 small calls, after which other clients get their turn."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What clients may demand of a server."""

    max_message_bytes: int = 1 << 20
    """Largest message; AirSim's largest, a path to fly, takes about 40 bytes per point."""
    partial_message_timeout_s: float = 10.0
    """How long a client may take for a message, seconds. Between messages, it may stay silent forever."""
    max_values: int = 10_000
    """Values of one list or map, in which each key counts too."""
    max_depth: int = 8
    """Lists and maps within one another; AirSim's calls need five."""
    unread_timeout_s: float = 30.0
    """How long a client may leave an answer unread before its connection is closed, seconds."""
    max_pending_calls: int = 256
    """Unanswered calls per client; further ones are read once these are answered."""
    max_clients: int = 64
    """Simultaneous connections; further ones are closed."""


@dataclass(frozen=True)
class RpcRequest:
    """One call."""

    message_id: int | None
    """Echoed in the response; None for a notification, which gets no response."""
    method: str
    arguments: list[Any]


def _parse_request(content: bytes) -> RpcRequest:
    try:
        message = msgpack.unpackb(content)
    except (ValueError, msgpack.exceptions.UnpackException) as error:
        raise ProtocolError(f"not MessagePack: {type(error).__name__}") from None
    match message:
        case [kind, int() as message_id, str() as method, list() as arguments] if kind == REQUEST:
            return RpcRequest(message_id, method, arguments)
        case [kind, str() as method, list() as arguments] if kind == NOTIFICATION:
            return RpcRequest(None, method, arguments)
    raise ProtocolError(f"got {str(message)[:60]!r}, expected [0, id, method, arguments]")


async def read_requests(reader: asyncio.StreamReader, limits: Limits) -> AsyncIterator[RpcRequest]:
    """The calls a client sends, until it disconnects."""
    splitter = MessageSplitter(
        max_bytes=limits.max_message_bytes, max_values=limits.max_values, max_depth=limits.max_depth
    )
    deadline: float | None = None
    while True:
        try:
            async with nullcontext() if deadline is None else asyncio.timeout_at(deadline):
                data = await reader.read(READ_BYTES)
        except TimeoutError:
            raise ProtocolError(f"got only part of a message within {limits.partial_message_timeout_s:g} s") from None
        if not data:
            return
        if len(data) == READ_BYTES:
            await asyncio.sleep(0)  # reading buffered data does not yield to the event loop, and others are waiting
        for message in splitter.split(data):
            deadline = None
            yield _parse_request(message)
        if deadline is None and not splitter.is_empty:  # one for the whole message, however slowly it trickles in
            deadline = asyncio.get_running_loop().time() + limits.partial_message_timeout_s


def encode_response(message_id: int, error: str | None, result: Any) -> bytes:
    """The bytes of a response."""
    packed: bytes = msgpack.packb([RESPONSE, message_id, error, result], use_bin_type=True)
    return packed
