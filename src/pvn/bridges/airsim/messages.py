"""Where one MessagePack message ends and the next begins, found before anything is unpacked.

msgpack's own Unpacker takes memory for a list as soon as its length is announced, and keeps what it has unpacked of an
incomplete message: a client that announces lists within lists would take megabytes for kilobytes. Here an incomplete
message is kept as it came, and one that exceeds the limits is refused at the very byte that does.
"""

from __future__ import annotations

from collections.abc import Iterator

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


def _read_value(data: bytearray, begin: int) -> tuple[int, int] | None:
    """Where the value at `begin` ends, and how many values a list or map holds, which come after that.

    None: the value's own length has not arrived yet.
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
    """Cuts what arrives into whole messages."""

    def __init__(self, *, max_bytes: int, max_values: int, max_depth: int) -> None:
        """max_bytes: of a message. max_values: in one list or map. max_depth: lists and maps within one another."""
        self._max_bytes, self._max_values, self._max_depth = max_bytes, max_values, max_depth
        self._data = bytearray()
        self._place = 0
        """Where the next value of the first message begins."""
        self._missing = [1]
        """How many values are still to begin: one, the message itself, then those of each list and map around that
        place, from the outermost in. Empty: the message ends at that place."""

    @property
    def is_empty(self) -> bool:
        """Whether all that has arrived were whole messages."""
        return not self._data

    def split(self, data: bytes) -> Iterator[bytes]:
        """The messages that are whole now that some more bytes have arrived."""
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
            if num_values or self._place > self._max_bytes:
                self._check(num_values)

    def _check(self, num_values: int) -> None:
        """Refuse a message for its size, or for the values of the list or map that has just begun."""
        if self._place > self._max_bytes:
            raise ProtocolError(f"got a message of more than {self._max_bytes} bytes")
        if num_values > self._max_values:
            raise ProtocolError(f"got a list or map of {num_values} values, expected at most {self._max_values}")
        if len(self._missing) - 1 > self._max_depth:
            raise ProtocolError(f"got lists and maps in more than {self._max_depth} levels")
