"""Messages are cut where msgpack ends them, whatever is in them and however they arrive."""

import pytest

pytest.importorskip("msgpack", reason='needs MessagePack: pip install "pvn-drone[airsim]"')

import msgpack

from pvn.bridges.airsim.protocol import Limits, MessageSplitter, ProtocolError

VALUES = {
    "numbers": [0, 127, 128, 255, 65535, 2**32 - 1, 2**64 - 1, -1, -32, -33, -128, -(2**15), -(2**31), -(2**63), 0.5],
    "nil and booleans": [None, True, False],
    "texts": ["a" * length for length in (0, 31, 32, 255, 256, 65535, 65536)],
    "bytes": [b"a" * length for length in (0, 255, 256, 65535, 65536)],
    "extensions": [msgpack.ExtType(5, b"a" * length) for length in (0, 1, 2, 3, 4, 8, 16, 17, 255, 256, 65536)],
    "lists": [[7] * length for length in (0, 1, 15, 16, 65535, 65536)],
    "maps": [{str(key): key for key in range(length)} for length in (0, 1, 15, 16, 65536)],
    "lists and maps in one another": [[], [[]], [{}, {"a": [1, {"b": []}], "c": "d"}], {"a": {"b": [[], [[1]]]}}],
}


def splitter(**limits):
    return MessageSplitter(Limits(**{"max_message_bytes": 1 << 24, "max_values": 1 << 20, **limits}))


@pytest.mark.long
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("step", [7, 1000])
def test_messages_are_cut_where_they_end(kind, step):
    messages = [msgpack.packb(value) for value in VALUES[kind]]
    messages += [msgpack.packb(VALUES[kind], use_single_float=True), msgpack.packb(1)]
    arriving, split = splitter(), []
    content = b"".join(messages)
    for begin in range(0, len(content), step):
        split += arriving.split(content[begin : begin + step])
    assert split == messages and arriving.is_empty


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xc1", "not MessagePack: got the byte 0xc1"),
        (b"\xda\x03\xe8", "got a message of more than 1000 bytes"),
        (b"\xdb\xff\xff\xff\xff", "got a message of more than 1000 bytes"),
        (b"\x93" + msgpack.packb("a" * 400) * 3, "got a message of more than 1000 bytes"),
        (b"\xdc\x00\x65", "got a list or map of 101 values, expected at most 100"),
        (b"\xde\x00\x33", "got a list or map of 102 values"),
        (b"\x91\x81\x01" + b"\x91" * 3, "got lists and maps in more than 4 levels"),
    ],
)
def test_a_message_is_refused_at_the_byte_that_exceeds_a_limit(content, words):
    arriving = splitter(max_message_bytes=1000, max_values=100, max_depth=4)
    with pytest.raises(ProtocolError, match=words):
        for place in range(len(content)):
            assert list(arriving.split(content[place : place + 1])) == []


def test_limits_are_of_each_message_and_each_list():
    arriving = splitter(max_message_bytes=250, max_values=100, max_depth=2)
    for value in ([[1] * 100] * 2, ["a" * 200], [[], [], {}]):
        assert list(arriving.split(msgpack.packb(value) * 3)) == [msgpack.packb(value)] * 3
