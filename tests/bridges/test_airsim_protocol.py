"""What may arrive over the wire: garbage, oversized and incomplete messages, clients that die, flood or do not read."""

import asyncio
import contextlib
import itertools
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import tracemalloc

import pytest

pytest.importorskip("msgpack", reason='needs MessagePack: pip install "pvn-drone[airsim]"')

import msgpack

from pvn.bridges.airsim.protocol import READ_BYTES, Limits, ProtocolError, RpcRequest, read_requests
from pvn.bridges.airsim.settings import SensorSettings, Settings, VehicleSettings
from pvn.bridges.shared.renderer import CameraRenderer
from pvn.corpus.meadow.generator import sample_paragraph


@pytest.fixture(scope="module")
def strict_port(serve):
    """The port of a server that soon loses patience with incomplete messages."""
    with serve(limits=Limits(partial_message_timeout_s=0.3, max_message_bytes=4096)) as served:
        yield served.port


@pytest.fixture(scope="module")
def patient_port(serve):
    """The port of a server that waits long for the rest of a message."""
    with serve(limits=Limits(partial_message_timeout_s=600.0)) as served:
        yield served.port


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def is_closed_by_server(connection):
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


def send_call(connection, message_id, method, *arguments):
    connection.sendall(msgpack.packb([0, message_id, method, list(arguments)]))


def receive(connection):
    """The next message of the server, of which nothing else is expected."""
    unpacker = msgpack.Unpacker()
    while True:
        data = connection.recv(1 << 16)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        unpacker.feed(data)
        for message in unpacker:
            return message


def ping(connection, message_id):
    send_call(connection, message_id, "ping")
    assert receive(connection) == [1, message_id, None, True]


@pytest.mark.long
@pytest.mark.parametrize(
    "bytes_sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xc1" * 100,
        bytes(range(256)),
        msgpack.packb([0, 1]),
        msgpack.packb([0, "one", "ping", []]),
        msgpack.packb([0, 1, 7, []]),
        msgpack.packb([1, 1, None, None]),
        msgpack.packb({"ping": 1}),
        msgpack.packb([0, 1, "ping", [b"x" * 100_000]]),
        b"\xdd\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff" + b"a" * 100_000,
        b"\x91" * 3000,
        b"\x94\x00\x01\xa4\xff\xff\xff\xff\x90",
        msgpack.packb([0, 1, "ping", []])[:3],
    ],
)
def test_garbage_and_oversized_or_incomplete_messages_end_their_own_connection_only(strict_port, bytes_sent):
    with connect(strict_port) as other, connect(strict_port) as connection:
        ping(other, 1)
        connection.sendall(bytes_sent)
        assert is_closed_by_server(connection)
        ping(other, 2)


@pytest.mark.long
def test_between_messages_a_client_may_stay_silent_for_longer_than_within_one(strict_port):
    with connect(strict_port) as silent, connect(strict_port) as incomplete:
        ping(silent, 1)
        incomplete.sendall(msgpack.packb([0, 1, "ping", []])[:3])
        assert is_closed_by_server(incomplete), "its time is over, and that of the silent one would be too"
        ping(silent, 2)


@pytest.mark.long
def test_a_message_that_trickles_in_has_one_deadline_for_all_of_it(strict_port):
    message = msgpack.packb([0, 1, "ping", ["x" * 4000]])
    with connect(strict_port) as connection:
        with pytest.raises(OSError):
            for place in range(len(message)):  # 40 s, were it not for the deadline of 0.3 s
                connection.sendall(message[place : place + 1])
                time.sleep(0.01)
        assert is_closed_by_server(connection)


@pytest.mark.parametrize("opening", [b"\xdd\x00\x0f\x42\x40", b"\xdf\x00\x0f\x42\x40", b"\xdc\x27\x10", b"\x91"])
def test_lists_and_maps_of_a_million_values_or_many_levels_are_refused_at_once(patient_port, opening):
    with connect(patient_port) as connection:
        connection.sendall(b"\x94\x00\x01\xa4ping" + opening * 100)
        assert is_closed_by_server(connection), "though the message is not complete, and there is much time for it"


def read_all(content):
    """The calls in bytes that arrive at once."""

    async def read():
        reader = asyncio.StreamReader()
        reader.feed_data(content)
        reader.feed_eof()
        return [request async for request in read_requests(reader, Limits())]

    return asyncio.run(read())


def test_calls_may_have_eight_levels():
    """The message itself and its arguments are two; a path of poses, AirSim's deepest, has five."""
    argument = 5
    for _ in range(6):
        argument = [argument]
    assert read_all(msgpack.packb([0, 1, "ping", [argument]]))[0].arguments == [argument]
    with pytest.raises(ProtocolError, match="got lists and maps in more than 8 levels"):
        read_all(msgpack.packb([0, 1, "ping", [[argument]]]))


@pytest.mark.long
@pytest.mark.parametrize("content", [b"\xdc\x27\x10" * 1000, b"\x98" + (b"\xdc\x27\x10" + b"\x90" * 10_000) * 7])
def test_an_incomplete_message_takes_little_more_memory_than_its_bytes(content):
    """Lists of 10,000 within lists would take 70 MB, empty ones 50 times their bytes."""
    asyncio.run(asyncio.sleep(0))  # what the first loop of a process leaves behind does not count
    tracemalloc.start()
    try:
        with contextlib.suppress(ProtocolError):
            assert read_all(content) == []
        assert tracemalloc.get_traced_memory()[1] < 3 * len(content) + 10 * READ_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("method", ["getLidarData", "getGPULidarData"])
def test_a_client_that_does_not_read_its_scans_has_few_of_them_made(
    method, serve, recorded_calls, wait_until, monkeypatch
):
    cast_rays, num_scans = CameraRenderer.cast_rays, itertools.count()

    def count_and_cast_rays(*arguments):
        next(num_scans)
        return cast_rays(*arguments)

    monkeypatch.setattr(CameraRenderer, "cast_rays", count_and_cast_rays)
    lidar = SensorSettings(points_per_rotation=100_000, max_distance=500.0)  # three megabytes
    settings = Settings(vehicles={"Drone": VehicleSettings(sensors={"Lidar": lidar})})
    with (
        serve(settings=settings, quality="fast") as served,
        connect(served.port) as deaf,
        connect(served.port) as other,
    ):
        for message_id in range(30):
            send_call(deaf, message_id, method)
        wait_until(lambda: recorded_calls.count(method) == 30)
        # Threads take work in the order in which it comes: all that is due for the other client is begun before this.
        send_call(other, 1, "getLidarData")
        assert receive(other)[2] is None
        assert next(num_scans) < 10, "those that fit into the system's buffers, and one"


@pytest.mark.long
def test_a_client_that_does_not_read_its_answers_is_closed_in_the_end(serve, wait_until):
    with serve(limits=Limits(unread_timeout_s=0.3)) as served, connect(served.port) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wait_until(lambda: served.server.num_clients == 1)
        request = {"camera_name": "0", "image_type": 1, "pixels_as_float": True}
        for message_id in range(40):
            send_call(connection, message_id, "simGetImages", [request] * 4, "")
        wait_until(lambda: served.server.num_clients == 0)


def test_a_message_may_arrive_byte_by_byte():
    message = msgpack.packb([0, 5, "ping", []])

    async def read_slowly_sent():
        reader = asyncio.StreamReader()

        async def send():
            for byte in message:
                reader.feed_data(bytes([byte]))
                await asyncio.sleep(0)
            reader.feed_eof()

        sender = asyncio.ensure_future(send())
        requests = [request async for request in read_requests(reader, Limits())]
        await sender
        return requests

    assert asyncio.run(read_slowly_sent()) == [RpcRequest(5, "ping", [])]


def test_notifications_get_no_answer(strict_port):
    with connect(strict_port) as connection:
        connection.sendall(msgpack.packb([2, "ping", []]))
        ping(connection, 9)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("moveByVelocity", (1, 0, 0, 1e9)),
        ("simGetImages", ([{"compress": False}] * 16,)),
        ("simContinueForTime", (1e8,)),
    ],
)
def test_a_client_that_dies_in_the_middle_of_a_call_does_not_disturb_others(
    strict_port, recorded_calls, wait_until, method, arguments
):
    with connect(strict_port) as other:
        for message_id, (setting, *values) in enumerate([("reset",), ("enableApiControl", True), ("armDisarm", True)]):
            send_call(other, message_id, setting, *values)
            assert receive(other)[2] is None
        dying = connect(strict_port)
        # Close it with a reset, as happens when a process is killed with unread data.
        dying.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        send_call(dying, 1, method, *arguments)
        wait_until(lambda: method in recorded_calls)
        dying.close()
        send_call(other, 3, "simPause", False)
        assert receive(other) == [1, 3, None, None]
        send_call(other, 4, "moveByVelocity", 0, 1, 0, 0.5)
        assert receive(other) == [1, 4, None, True]


def test_clients_beyond_the_limit_are_refused_until_others_leave(serve, wait_until):
    with serve(limits=Limits(max_clients=5)) as served:
        clients = [connect(served.port) for _ in range(5)]
        for message_id, client in enumerate(clients):
            ping(client, message_id)
        with connect(served.port) as refused:
            assert is_closed_by_server(refused)
        for client in clients:
            client.close()
        wait_until(lambda: served.server.num_clients == 0)
        with connect(served.port) as late:
            ping(late, 1)


@pytest.mark.long
def test_a_client_that_does_not_read_its_answers_is_not_read_from_either(patient_port):
    with connect(patient_port) as deaf, connect(patient_port) as other:
        deaf.settimeout(1.0)
        message = b"".join(msgpack.packb([0, n, "simGetImages", [[{"compress": False}]]]) for n in range(100))
        with pytest.raises(TimeoutError):
            for _ in range(2000):
                deaf.sendall(message)
        ping(other, 1)


def test_a_client_that_floods_the_server_does_not_keep_others_waiting(patient_port):
    flood = b"".join(msgpack.packb([2, "getMultirotorState", []]) for _ in range(1000))
    has_ended = threading.Event()

    def send_flood():
        while not has_ended.is_set():
            greedy.sendall(flood)

    with connect(patient_port) as greedy, connect(patient_port) as other:
        sender = threading.Thread(target=send_flood)
        sender.start()
        try:
            for message_id in range(5):
                ping(other, message_id)
        finally:
            has_ended.set()
            sender.join()


SERVE_AS_IN_PYTHON_3_12 = """
import asyncio, sys
async def wait_closed(self):
    await asyncio.Event().wait()  # since Python 3.12 this waits while a client is connected
if sys.version_info < (3, 12):
    asyncio.base_events.Server.wait_closed = wait_closed
from pvn.cli import main
main(sys.argv[1:])
"""


@pytest.mark.long
def test_a_server_says_where_it_is_and_ctrl_c_ends_it_even_if_a_client_is_connected():
    options = "--field 3 --host 127.0.0.1 --port 0 --speed inf --quality fast --width 32 --height 18 --vehicle Drone1"
    command = [sys.executable, "-c", SERVE_AS_IN_PYTHON_3_12, "serve", "airsim", *options.split()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        found = re.match(r"AirSim on 127.0.0.1:(\d+), (\d+) landmarks", process.stdout.readline())
        assert int(found[2]) == len(sample_paragraph(3)[0].task.layout.landmarks)
        with connect(int(found[1])) as connection:
            ping(connection, 1)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
            assert is_closed_by_server(connection)
    finally:
        process.kill()
        process.communicate()
