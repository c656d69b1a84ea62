"""Images per second that AirSim clients get from our server, and whether its memory grows."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack

from pvn.compiling import num_cores

CAMERA = "pvn"
"""Of 128 x 72 pixels; AirSim's own have four times as many."""
IMAGE_REQUEST = {"camera_name": CAMERA, "image_type": 0, "pixels_as_float": False, "compress": False}
FACING_NORTH = {"w_val": 1, "x_val": 0, "y_val": 0, "z_val": 0}
NUM_WARM_UP_IMAGES = 50


@contextmanager
def _server(quality: str) -> Iterator[tuple[int, int]]:
    """Run a server in a process of its own; yields its port and process id."""
    command = [sys.executable, "-m", "pvn.cli", "serve", "airsim", "--port", "0", "--quality", quality]
    with tempfile.TemporaryFile("w+") as console:  # it tells of each call that is refused, of which there are many
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=console, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            match = re.search(r":(\d+),", line)
            if match is None:
                console.seek(0)
                told = line or console.read()[-500:]
                raise ValueError(f'pvn serve airsim: got {told!r}, expected "AirSim on ADDRESS:PORT"')
            yield int(match[1]), process.pid
        finally:
            process.terminate()
            process.wait()


class RawClient:
    """A minimal client: a socket and MessagePack."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unpacker = msgpack.Unpacker(max_buffer_size=1 << 24)
        self._north = 0.0

    def call(self, method: str, *arguments: Any) -> Any:
        """Make a call; returns its result."""
        self._socket.sendall(msgpack.packb([0, 0, method, list(arguments)]))
        while True:
            for _, _, error, result in self._unpacker:
                if error is not None:
                    raise ValueError(error)
                return result
            self._unpacker.feed(self._socket.recv(1 << 18))

    def fetch_image(self) -> None:
        """Fetch one uncompressed image."""
        (response,) = self.call("simGetImages", [IMAGE_REQUEST], "")
        assert len(response["image_data_uint8"]) == response["width"] * response["height"] * 3

    def fetch_image_from_new_position(self) -> None:
        """Move the drone a little, and fetch an image that cannot have been rendered before."""
        self._north = (self._north + 0.001) % 10
        self.teleport(self._north)
        self.fetch_image()

    def teleport(self, north: float) -> None:
        """Hover `north` metres north of home, 5 m up."""
        position = {"x_val": north, "y_val": 0, "z_val": -5}
        self.call("simSetVehiclePose", {"position": position, "orientation": FACING_NORTH}, True)

    def start_turning(self) -> None:
        """Hover and turn, forever."""
        self.call("enableApiControl", True)
        self.call("armDisarm", True)
        self.teleport(0.0)
        yaw_mode = {"is_rate": True, "yaw_or_rate": 20.0}
        message = [2, "moveByVelocityZ", [0, 0, -5, 1e9, 0, yaw_mode, ""]]  # a notification, so nothing is awaited
        self._socket.sendall(msgpack.packb(message))


def _rate(fetch: Callable[[], None], seconds: float) -> float:
    """Calls per second, after a warm-up."""
    for _ in range(NUM_WARM_UP_IMAGES):
        fetch()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        fetch()
        count += 1
    return count / (time.perf_counter() - start)


def _rate_of_two_clients(port: int, seconds: float) -> float:
    """The rates of two simultaneous clients, added."""
    rates: list[float] = []

    def run_client() -> None:
        rates.append(_rate(RawClient(port).fetch_image, seconds))

    threads = [threading.Thread(target=run_client) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(rates)


def _cosysairsim_rate(port: int, seconds: float) -> float | None:
    """The rate of AirSim's own client, if it is installed."""
    try:
        import cosysairsim
    except ModuleNotFoundError:
        return None
    client = cosysairsim.MultirotorClient(port=port)
    request = [cosysairsim.ImageRequest(CAMERA, cosysairsim.ImageType.Scene, False, False)]
    return _rate(lambda: client.simGetImages(request) and None, seconds)


def _memory_mb(process_id: int) -> float | None:
    """Resident memory of a process; known on Linux only."""
    try:
        status = Path(f"/proc/{process_id}/status").read_text()
    except OSError:
        return None
    match = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(match[1]) / 1024 if match else None


def _memory_over_requests(port: int, process_id: int, num_requests: int) -> dict[str, Any]:
    """Memory before and after many calls: a tenth are images, a tenth unknown calls, the others small ones."""
    client = RawClient(port)
    for _ in range(NUM_WARM_UP_IMAGES):
        client.fetch_image()
    before = _memory_mb(process_id)
    for number in range(num_requests):
        if number % 10 == 0:
            client.fetch_image()
        elif number % 10 == 1:
            try:
                client.call(f"noSuchCall{number}")
            except ValueError:
                continue
        else:
            client.call("getMultirotorState", "")
    return {"requests": num_requests, "before_mb": before, "after_mb": _memory_mb(process_id)}


def measure_airsim(
    seconds: float, num_requests: int, watch: Callable[[str], None] = lambda what: None
) -> dict[str, Any]:
    """Images per second at 128x72, by quality and client, and memory over `num_requests`.

    watch: called with what is measured next.
    """
    report: dict[str, Any] = {"cores": num_cores(), "load": os.getloadavg()[0]}
    for quality in ("fast", "full"):
        with _server(quality) as (port, process_id):
            RawClient(port).start_turning()
            watch(f"fetching {quality} images")
            report[quality] = {
                "raw": _rate(RawClient(port).fetch_image, seconds),
                "two_raw": _rate_of_two_clients(port, seconds),
                "cosysairsim": _cosysairsim_rate(port, seconds),
                "raw_new_positions": _rate(RawClient(port).fetch_image_from_new_position, seconds),
            }
            if quality == "fast":
                watch(f"making {num_requests:,} requests")
                report["memory"] = _memory_over_requests(port, process_id, num_requests)
    return report
