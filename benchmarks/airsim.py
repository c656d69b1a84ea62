"""Images per second that AirSim clients get from `pvn serve airsim`, and whether its memory grows.

python benchmarks/airsim.py --seconds 3 --requests 100000
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgpack
import tyro
from timing import print_report, rate

from pvn.compiling import num_cores

CAMERA = "pvn"
"""This camera has 128 x 72 pixels; AirSim's own have four times as many."""
IMAGE_REQUEST = {"camera_name": CAMERA, "image_type": 0, "pixels_as_float": False, "compress": False}
NUM_WARM_UP_IMAGES = 50


@contextmanager
def server(quality: str) -> Iterator[tuple[int, int]]:
    """Run a server in another process; yields its port and process id."""
    command = [sys.executable, "-m", "pvn.cli", "serve", "airsim", "--port", "0", "--quality", quality]
    with tempfile.TemporaryFile("w+") as console:  # the server reports each refused call here; we make many
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=console, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            match = re.search(r":(\d+),", line)
            if match is None:
                console.seek(0)
                raise ValueError(
                    f'pvn serve airsim: got {line or console.read()[-500:]!r}, expected "AirSim on ADDRESS:PORT"'
                )
            yield int(match[1]), process.pid
        finally:
            process.terminate()
            process.wait()


class Client:
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

    def fetch_image_elsewhere(self) -> None:
        """Move the drone a little, and fetch an image that cannot have been rendered before."""
        self._north = (self._north + 0.001) % 10
        self.teleport(self._north)
        self.fetch_image()

    def teleport(self, north: float) -> None:
        """Hover `north` metres north of home, 5 m up."""
        pose = {
            "position": {"x_val": north, "y_val": 0, "z_val": -5},
            "orientation": {"w_val": 1, "x_val": 0, "y_val": 0, "z_val": 0},
        }
        self.call("simSetVehiclePose", pose, True)

    def start_turning(self) -> None:
        """Hover and turn until the server ends."""
        self.call("enableApiControl", True)
        self.call("armDisarm", True)
        self.teleport(0.0)
        yaw_mode = {"is_rate": True, "yaw_or_rate": 20.0}
        # A notification, so there is no answer to wait for.
        self._socket.sendall(msgpack.packb([2, "moveByVelocityZ", [0, 0, -5, 1e9, 0, yaw_mode, ""]]))


def warm_rate(fetch: Callable[[], object], seconds: float) -> float:
    """Calls per second, after a warm-up."""
    for _ in range(NUM_WARM_UP_IMAGES):
        fetch()
    return rate(fetch, 1, seconds)


def rate_of_two(port: int, seconds: float) -> float:
    """Images per second that two clients get at the same time, added."""
    rates: list[float] = []
    threads = [
        threading.Thread(target=lambda: rates.append(warm_rate(Client(port).fetch_image, seconds))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(rates)


def cosysairsim_rate(port: int, seconds: float) -> float | None:
    """Images per second that AirSim's own client gets, if it is installed."""
    try:
        import cosysairsim
    except ModuleNotFoundError:
        return None
    client = cosysairsim.MultirotorClient(port=port)
    request = [cosysairsim.ImageRequest(CAMERA, cosysairsim.ImageType.Scene, False, False)]
    return warm_rate(lambda: client.simGetImages(request), seconds)


def memory_mb(process_id: int) -> float | None:
    """Resident memory of a process; known on Linux only."""
    try:
        status = Path(f"/proc/{process_id}/status").read_text()
    except OSError:
        return None
    match = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(match[1]) / 1024 if match else None


def memory_over_requests(port: int, process_id: int, requests: int) -> dict[str, Any]:
    """Memory before and after many calls: a tenth fetch images, a tenth are unknown, the others are small."""
    client = Client(port)
    for _ in range(NUM_WARM_UP_IMAGES):
        client.fetch_image()
    before = memory_mb(process_id)
    for number in range(requests):
        if number % 10 == 0:
            client.fetch_image()
        elif number % 10 == 1:
            with suppress(ValueError):
                client.call(f"noSuchCall{number}")
        else:
            client.call("getMultirotorState", "")
    return {"requests": requests, "before_mb": before, "after_mb": memory_mb(process_id)}


def main(seconds: float = 3.0, requests: int = 100_000) -> None:
    """Measure each rate for at least `seconds`, and memory over `requests` calls."""
    report: dict[str, Any] = {"cores": num_cores(), "load": os.getloadavg()[0]}
    for quality in ("fast", "full"):
        with server(quality) as (port, process_id):
            Client(port).start_turning()
            report[quality] = {
                "raw": warm_rate(Client(port).fetch_image, seconds),
                "two_raw": rate_of_two(port, seconds),
                "cosysairsim": cosysairsim_rate(port, seconds),
                "raw_elsewhere": warm_rate(Client(port).fetch_image_elsewhere, seconds),
            }
            if quality == "fast":
                report["memory"] = memory_over_requests(port, process_id, requests)
    print_report(report)


if __name__ == "__main__":
    tyro.cli(main)
