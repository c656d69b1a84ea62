"""The simulated drone's camera as a stream of JPEG pictures over HTTP, for browsers and OpenCV."""

from __future__ import annotations

import asyncio
import functools
import io
import logging

import numpy as np
from PIL import Image

from pvn.bridges.mavlink.drone import SimulatedDrone
from pvn.bridges.shared.serving import cannot_listen

log = logging.getLogger(__name__)

STREAM_PATH, PICTURE_PATH = "/camera.mjpg", "/camera.jpg"
FRAMES_PER_SECOND = 30.0
JPEG_QUALITY = 95
MAX_CLIENTS, MAX_REQUEST_BYTES, REQUEST_TIMEOUT_S = 8, 4096, 5.0
BOUNDARY = b"pvn-picture"


def encode_jpeg(pixels: np.ndarray) -> bytes:
    """A JPEG file of pixels (H, W, 3), red green blue, whose colours are as sharp as its brightness."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=JPEG_QUALITY, subsampling=0)
    return file.getvalue()


class CameraStream:
    """Serves one drone's camera. A client that reads slowly gets fewer pictures, not old ones."""

    def __init__(self, drone: SimulatedDrone, frames_per_second: float = FRAMES_PER_SECOND) -> None:
        self._drone, self._interval_s = drone, 1 / frames_per_second
        self._num_clients = 0
        self._rendered: tuple[int, asyncio.Future[bytes]] | None = None

    def _picture(self) -> asyncio.Future[bytes]:
        """The JPEG file of this tick, rendered once for all clients."""
        tick = self._drone.vehicle.num_ticks
        if self._rendered is None or self._rendered[0] != tick:
            drone = self._drone
            render = functools.partial(drone.renderer.render_scene, drone.camera_row(), drone.camera)
            self._rendered = tick, asyncio.ensure_future(drone.run_in_thread(lambda: encode_jpeg(render())))
        return self._rendered[1]

    async def _serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._num_clients += 1
        try:
            if self._num_clients > MAX_CLIENTS:
                writer.write(b"HTTP/1.0 503 Too many viewers\r\n\r\n")
                return
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                request = await reader.readuntil(b"\r\n\r\n")
            await self._answer(request.split(b" ")[1].partition(b"?")[0].decode("latin-1"), writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, IndexError) as error:
            log.info("camera: a viewer left (%s)", type(error).__name__)
        except (asyncio.CancelledError, RuntimeError):  # the latter from rendering threads that have shut down already
            log.info("camera: closed")
        finally:
            self._num_clients -= 1
            writer.close()

    async def _answer(self, path: str, writer: asyncio.StreamWriter) -> None:
        if path == PICTURE_PATH:
            picture = await asyncio.shield(self._picture())
            head = f"HTTP/1.0 200 OK\r\nContent-Type: image/jpeg\r\nContent-Length: {len(picture)}\r\n\r\n"
            writer.write(head.encode() + picture)
            await writer.drain()
        elif path == STREAM_PATH:
            kind = b"Content-Type: multipart/x-mixed-replace; boundary=" + BOUNDARY
            writer.write(b"HTTP/1.0 200 OK\r\nCache-Control: no-store\r\n" + kind + b"\r\n\r\n")
            await self._stream(writer)
        else:
            writer.write(f"HTTP/1.0 404 Not found\r\n\r\nexpected {STREAM_PATH} or {PICTURE_PATH}\n".encode())

    async def _stream(self, writer: asyncio.StreamWriter) -> None:
        """Send pictures until the client leaves."""
        loop = asyncio.get_running_loop()
        while True:
            start = loop.time()
            picture = await asyncio.shield(self._picture())
            head = b"--" + BOUNDARY + b"\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n" % len(picture)
            writer.write(head + picture + b"\r\n")
            await writer.drain()
            await asyncio.sleep(max(self._interval_s - (loop.time() - start), 0.0))

    async def listen(self, address: str, port: int) -> asyncio.Server:
        """Start to answer viewers; port 0 picks a free one."""
        try:
            return await asyncio.start_server(self._serve_client, address, port, limit=MAX_REQUEST_BYTES)
        except OSError as error:
            raise cannot_listen(address, port, error, "--camera-port") from None
