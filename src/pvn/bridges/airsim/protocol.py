"""MessagePack-RPC as AirSim speaks it: [0, id, method, arguments] is answered by [1, id, error, result].

What clients can demand is bounded here: the size and depth of a message, how long an incomplete message may take, and
how many calls of one client may be pending at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import msgpack

REQUEST, RESPONSE, NOTIFICATION = 0, 1, 2
READ_BYTES = 1 << 13
"""Bytes per read: about 500 small calls, after which other clients get their turn."""

_SIZES = {
    0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8,
    0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17,
}  # fmt: skip
"""Bytes after the first one, by the first one: nil, booleans, numbers, and extensions of fixed size."""
_COUNTS = {
    0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4, 0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4,
}  # fmt: skip
"""Bytes of the count that follows, by the first one: bytes, extensions, texts, lists and maps."""
_EXTENSIONS, _LISTS, _MAPS = (0xC7, 0xC8, 0xC9), (0xDC, 0xDD), (0xDE, 0xDF)


class ProtocolError(Exception):
    """A client sent something other than MessagePack-RPC, or exceeded the limits."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What clients may demand of a server."""

    max_message_bytes: int = 1 << 20
    """Largest message; AirSim's largest, a path to fly, takes about 40 bytes per point."""
    partial_message_timeout_s: float = 10.0
    """How long a client may take for a message, seconds. Between messages it may stay silent forever."""
    max_values: int = 10_000
    """Values of one list or map; each key counts too."""
    max_depth: int = 8
    """Lists and maps within one another; AirSim's calls need five."""
    unread_timeout_s: float = 30.0
    """How long a client may leave an answer unread before its connection is closed, seconds."""
    max_pending_calls: int = 256
    """Unanswered calls per client; more are read once these are answered."""
    max_clients: int = 64
    """Simultaneous connections; more are closed."""


def _read_value(data: bytearray, begin: int) -> tuple[int, int] | None:
    """Where the value at `begin` ends, and how many values follow if it is a list or map.

    None: its length has not arrived yet.
    """
    first = data[begin]
    if first < 0x80 or first >= 0xE0:  # a small number
        return begin + 1, 0
    if first < 0x90:  # a small map
        return begin + 1, 2 * (first & 0x0F)
    if first < 0xA0:  # a small list
        return begin + 1, first & 0x0F
    if first < 0xC0:  # a short text
        return begin + 1 + (first & 0x1F), 0
    if first in _SIZES:
        return begin + 1 + _SIZES[first], 0
    if first not in _COUNTS:
        raise ProtocolError(f"not MessagePack: got the byte {first:#x}")
    end = begin + 1 + _COUNTS[first]
    if end > len(data):
        return None
    count = int.from_bytes(data[begin + 1 : end], "big")
    if first in _LISTS or first in _MAPS:
        return end, count if first in _LISTS else 2 * count
    return end + count + (first in _EXTENSIONS), 0  # an extension has a byte for its type


class MessageSplitter:
    """Cuts what arrives into whole messages, before anything is unpacked.

    msgpack's own Unpacker takes memory for a list as soon as its length is announced, and keeps what it has unpacked of
    an incomplete message: a client that announces lists within lists would take megabytes for kilobytes. Here an
    incomplete message stays as it came, and one beyond the limits is refused at the byte that exceeds them.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits, self._data = limits, bytearray()
        self._place = 0
        """Where the next value of the first message begins."""
        self._missing = [1]
        """How many values have yet to begin: of the message, which is one value, and of each list and map around that
        place, from the outermost in. Empty: the message ends at that place."""

    @property
    def is_empty(self) -> bool:
        """Whether everything that has arrived were whole messages."""
        return not self._data

    def split(self, data: bytes) -> Iterator[bytes]:
        """The messages that these bytes complete."""
        self._data += data
        while True:
            if not self._missing:
                if self._place > len(self._data):  # the end of its last text is still to come
                    return
                message = bytes(self._data[: self._place])
                del self._data[: self._place]
                self._place, self._missing = 0, [1]
                yield message
            value = _read_value(self._data, self._place) if self._place < len(self._data) else None
            if value is None:
                return
            self._place, num_values = value
            missing = self._missing
            missing[-1] -= 1
            if num_values:
                missing.append(num_values)
            while missing and not missing[-1]:
                missing.pop()
            if num_values or self._place > self._limits.max_message_bytes:
                self._check(num_values)

    def _check(self, num_values: int) -> None:
        """Refuse a message for its size, or for the values of the list or map that has just begun."""
        if self._place > self._limits.max_message_bytes:
            raise ProtocolError(f"got a message of more than {self._limits.max_message_bytes} bytes")
        if num_values > self._limits.max_values:
            raise ProtocolError(f"got a list or map of {num_values} values, expected at most {self._limits.max_values}")
        if len(self._missing) - 1 > self._limits.max_depth:
            raise ProtocolError(f"got lists and maps in more than {self._limits.max_depth} levels")


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
    splitter = MessageSplitter(limits)
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
