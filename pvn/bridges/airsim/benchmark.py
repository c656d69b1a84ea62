"""How many images a second AirSim clients get from our server, and whether its memory grows."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack

from pvn.simulator.compiling import num_cores

IMAGE = {"camera_name": "0", "image_type": 0, "pixels_as_float": False, "compress": False}
NORTH = {"w_val": 1, "x_val": 0, "y_val": 0, "z_val": 0}
WARM_UP = 50


@contextmanager
def _server(quality: str) -> Iterator[tuple[int, int]]:
    """A server in a process of its own; yields its port and process number."""
    command = [sys.executable, "-m", "pvn.cli", "serve", "airsim", "--port", "0", "--quality", quality]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r":(\d+),", line)
        if found is None:
            raise ValueError(f'pvn serve airsim: got {line!r}, expected "AirSim on HOST:PORT"')
        yield int(found[1]), process.pid
    finally:
        process.terminate()
        process.wait()


class RawClient:
    """The least a client can be: a socket and MessagePack."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unpacker = msgpack.Unpacker(max_buffer_size=1 << 24)
        self._north = 0.0

    def call(self, method: str, *arguments: Any) -> Any:
        """The answer to a call."""
        self._socket.sendall(msgpack.packb([0, 0, method, list(arguments)]))
        while True:
            for _, _, error, result in self._unpacker:
                if error is not None:
                    raise ValueError(error)
                return result
            self._unpacker.feed(self._socket.recv(1 << 18))

    def image(self) -> None:
        """Fetch one raw picture."""
        (answer,) = self.call("simGetImages", [IMAGE], "")
        assert len(answer["image_data_uint8"]) == answer["width"] * answer["height"] * 3

    def image_elsewhere(self) -> None:
        """Fetch a picture of a place nobody has been at."""
        self._north = (self._north + 0.001) % 10
        self.put(self._north)
        self.image()

    def put(self, north: float) -> None:
        """Hover 5 m above a place north of home."""
        place = {"x_val": north, "y_val": 0, "z_val": -5}
        self.call("simSetVehiclePose", {"position": place, "orientation": NORTH}, True)

    def begin_flight(self) -> None:
        """Turn on the spot for ever."""
        self.call("enableApiControl", True)
        self.call("armDisarm", True)
        self.put(0.0)
        turn = {"is_rate": True, "yaw_or_rate": 20.0}
        message = [2, "moveByVelocityZ", [0, 0, -5, 1e9, 0, turn, ""]]
        self._socket.sendall(msgpack.packb(message))


def _rate(fetch: Callable[[], None], seconds: float) -> float:
    for _ in range(WARM_UP):
        fetch()
    count, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        fetch()
        count += 1
    return count / (time.perf_counter() - begin)


def _two_at_once(port: int, seconds: float) -> float:
    rates: list[float] = []
    threads = [threading.Thread(target=lambda: rates.append(_rate(RawClient(port).image, seconds))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(rates)


def _client_rate(port: int, seconds: float) -> float | None:
    """With AirSim's own client, where it is installed."""
    try:
        import cosysairsim
    except ModuleNotFoundError:
        return None
    client = cosysairsim.MultirotorClient(port=port)
    request = [cosysairsim.ImageRequest("0", cosysairsim.ImageType.Scene, False, False)]
    return _rate(lambda: client.simGetImages(request) and None, seconds)


def _memory_mb(process: int) -> float | None:
    """What a process holds; Linux alone tells."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return None
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else None


def _many(port: int, process: int, num_requests: int) -> dict[str, Any]:
    """Memory before and after many calls of every kind: most small, each tenth an image, some wrong."""
    client = RawClient(port)
    for _ in range(WARM_UP):
        client.image()
    before = _memory_mb(process)
    for number in range(num_requests):
        if number % 10 == 0:
            client.image()
        elif number % 10 == 1:
            try:
                client.call(f"noSuchCall{number}")
            except ValueError:
                continue
        else:
            client.call("getMultirotorState", "")
    return {"requests": num_requests, "before_mb": before, "after_mb": _memory_mb(process)}


def measure_airsim(seconds: float, num_requests: int) -> dict[str, Any]:
    """Images a second at 128x72, by quality and client, and memory over `num_requests`."""
    report: dict[str, Any] = {"cores": num_cores(), "load": os.getloadavg()[0]}
    for quality in ("fast", "full"):
        with _server(quality) as (port, process):
            RawClient(port).begin_flight()
            report[quality] = {
                "raw": _rate(RawClient(port).image, seconds),
                "two_raw": _two_at_once(port, seconds),
                "cosysairsim": _client_rate(port, seconds),
                "raw_each_from_elsewhere": _rate(RawClient(port).image_elsewhere, seconds),
            }
            if quality == "fast":
                report["memory"] = _many(port, process, num_requests)
    return report
