"""Our autopilot and its camera in a thread of the test's own process, on ports of their own."""

import asyncio
import socket
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

from pvn.bridges.mavlink.mjpeg import STREAM_PATH, CameraStream
from pvn.bridges.shared.clock import compile_kernels
from pvn.bridges.shared.renderer import CameraRenderer
from pvn.geometry import Camera

TIMEOUT_S = 60
PATIENCE_S = 600.0
"""How long the autopilot waits, on its own clock, for a client on a machine that may be busy with other tests."""


def free_port():
    """A UDP port that nobody uses now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class ServedDrone:
    """An autopilot that speaks to `client_port`, running in a thread until closed."""

    def __init__(self, layout, *, speed=1.0, is_full=True, **options):
        self.client_port = free_port()
        self._ready, self._has_ended = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(layout, speed, is_full, options)), daemon=True
        )
        self._thread.start()
        assert self._ready.wait(TIMEOUT_S), "the autopilot did not start"

    async def _serve(self, layout, speed, is_full, options):
        from pvn.bridges.mavlink.server import SimulatedDrone, listen

        self.drone = SimulatedDrone(CameraRenderer(layout, is_full=is_full), speed=speed, **options)
        known = {**self.drone.autopilot.parameters, "COM_OF_LOSS_T": PATIENCE_S, "COM_DISARM_PRFLT": PATIENCE_S}
        self.drone.autopilot = replace(self.drone.autopilot, parameters=known)
        self.loop = asyncio.get_running_loop()
        self.transport, self.server = await listen(self.drone, "127.0.0.1", 0, [("127.0.0.1", self.client_port)])
        self.port = self.transport.get_extra_info("sockname")[1]
        self.stream = CameraStream(self.drone)
        viewers = await self.stream.listen("127.0.0.1", 0)
        self.camera_url = f"http://127.0.0.1:{viewers.sockets[0].getsockname()[1]}{STREAM_PATH}"
        self.clock = asyncio.ensure_future(self.drone.run_clock())
        self._ready.set()
        await self._has_ended.wait()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        self.transport.close()
        viewers.close()
        self.drone.close()

    @property
    def address(self):
        """Where MAVSDK has to listen for it."""
        return f"udpin://127.0.0.1:{self.client_port}"

    def call(self, function, *arguments):
        """Call a function in the autopilot's thread."""
        self.loop.call_soon_threadsafe(function, *arguments)

    def after_each_tick(self, watch):
        """Call a function after each tick of the autopilot's clock, in its thread."""
        tick = self.drone.tick

        def tick_and_watch():
            tick()
            watch()

        self.drone.tick = tick_and_watch

    def stop_clock(self):
        """Fall silent, as an autopilot does whose radio fails."""
        self.call(self.clock.cancel)

    def stop_pictures(self):
        """Keep the camera's connections open, and send nothing more."""
        never = self.loop.create_future()
        self.stream._picture = lambda: never

    def close(self):
        """End the autopilot; doing so twice is fine."""
        if self._thread.is_alive():
            self.call(self._has_ended.set)
            self._thread.join(TIMEOUT_S)


@pytest.fixture(autouse=True)
def patient_client(request, monkeypatch):
    """Our client waits longer than is shipped, too, until the autopilot says that its mode has changed.

    Not in slow tests, which are for machines with nothing else to do.
    """
    if request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr("pvn.bridges.mavlink.field.CHANGE_S", float(TIMEOUT_S))


@pytest.fixture(scope="session")
def fly_drone(layout):
    """A context in which an autopilot runs."""
    compile_kernels(CameraRenderer(layout), Camera())

    @contextmanager
    def serve(layout=layout, **options):
        served = ServedDrone(layout, **options)
        try:
            yield served
        finally:
            served.close()

    return serve
