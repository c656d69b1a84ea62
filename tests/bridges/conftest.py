"""Servers that run in a thread of the test's own process, and ways to watch and wait for them."""

import asyncio
import math
import threading
import time

import pytest

from pvn.bridges import AirSimServerOptions
from pvn.bridges.airsim.settings import (
    AGENT_CAMERA,
    CameraSettings,
    Capture,
    Settings,
    VehicleSettings,
    rotation_from_angles,
)
from pvn.world.layout import sample_layout

TIMEOUT_S = 60
"""How long tests wait for what takes milliseconds on an idle machine."""


class Served:
    """A server that runs in a thread until closed."""

    def __init__(self, make_server):
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(make_server)), daemon=True)
        self._thread.start()
        assert self._is_ready.wait(TIMEOUT_S), "the server did not start"

    async def _serve(self, make_server):
        self.server, self.loop = make_server(), asyncio.get_running_loop()
        self._task = asyncio.ensure_future(self.server._serve(self._note))
        await asyncio.wait([self._task])
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    def _note(self, announced):
        """What the server says once clients can connect."""
        self.announced = announced
        self._is_ready.set()

    @property
    def port(self):
        """The port that was announced."""
        return int(self.announced.partition("127.0.0.1:")[2].partition(",")[0])

    def call(self, function, *arguments):
        """Call a function in the server's thread."""
        self.loop.call_soon_threadsafe(function, *arguments)

    def close(self):
        """End the server; doing so twice is fine."""
        if self._thread.is_alive():
            self.call(self._task.cancel)
            self._thread.join(TIMEOUT_S)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


@pytest.fixture(scope="session")
def in_thread():
    """A function that runs a server in a thread."""
    return Served


@pytest.fixture(scope="session")
def layout():
    return sample_layout(3)


@pytest.fixture(scope="session")
def serve(layout, in_thread):
    """A function that serves AirSim; unless told otherwise, simulated time runs as fast as it can while awaited."""
    pytest.importorskip("msgpack", reason='needs MessagePack: pip install "pvn-drone[airsim]"')
    from pvn.bridges.airsim.protocol import Limits
    from pvn.bridges.airsim.server import AirSimServer

    AirSimServer(layout).compile()

    def start(layout=layout, *, limits=Limits(), camera=None, settings=None, **options):
        if camera is not None:  # in the place of our agents' camera
            mounted = CameraSettings(
                rotation=rotation_from_angles(0.0, -camera.tilt, 0.0),
                default_capture=Capture(camera.width, camera.height, camera.horizontal_view),
            )
            settings = Settings(vehicles={"SimpleFlight": VehicleSettings(cameras={AGENT_CAMERA: mounted})})
        served_as = AirSimServerOptions(**{"speed": math.inf, "port": 0, **options})
        served = in_thread(lambda: AirSimServer(layout, served_as, settings=settings, limits=limits))
        served.host = served.server.host
        return served

    return start


@pytest.fixture(scope="session")
def wait_until():
    """A function that waits until a condition holds."""

    def wait(condition):
        end = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < end, "waited in vain"
            time.sleep(0.01)

    return wait


@pytest.fixture
def recorded_calls(monkeypatch):
    """Names of the calls that servers receive, in order."""
    from pvn.bridges.airsim.api import CALLS

    names = []

    def recording(name, function):
        # The server has read the functions' signatures already, so a wrapper with another one will do.
        return lambda host, *arguments: names.append(name) or function(host, *arguments)

    for name, function in list(CALLS.items()):
        monkeypatch.setitem(CALLS, name, recording(name, function))
    return names


@pytest.fixture
def patient_hover(monkeypatch):
    """Give a busy machine time to answer when the drone is told to hover."""
    monkeypatch.setattr("pvn.bridges.airsim.field.HOVER_TIMEOUT_S", TIMEOUT_S)
