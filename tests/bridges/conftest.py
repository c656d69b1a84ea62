"""An AirSim server in a thread of the test's own process, and ways to watch and wait for it."""

import asyncio
import math
import threading
import time

import pytest

from pvn.bridges.airsim.host import Host, HostConfig
from pvn.bridges.airsim.settings import (
    AGENT_CAMERA,
    CameraSettings,
    Capture,
    Settings,
    VehicleSettings,
    rotation_from_angles,
)
from pvn.bridges.shared.clock import compile_kernels
from pvn.bridges.shared.renderer import CameraRenderer
from pvn.geometry import Camera
from pvn.world.layout import sample_layout

TIMEOUT_S = 60
"""How long tests wait for what takes milliseconds on an idle machine."""


class ServedHost:
    """A host and its server, running in a thread until closed."""

    def __init__(self, layout, limits, is_full, config):
        self._ready, self._has_ended = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(layout, limits, is_full, config)), daemon=True
        )
        self._thread.start()
        assert self._ready.wait(TIMEOUT_S), "the server did not start"

    async def _serve(self, layout, limits, is_full, config):
        from pvn.bridges.airsim.server import Server

        self.host = Host(CameraRenderer(layout, is_full=is_full), config)
        self.server = Server(self.host, **({} if limits is None else {"limits": limits}))
        self._loop = asyncio.get_running_loop()
        listener, clock = await self.server.listen(port=0)
        self.port = listener.sockets[0].getsockname()[1]
        self._ready.set()
        await self._has_ended.wait()
        clock.cancel()
        listener.close()
        self.host.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    def close(self):
        """End the server; doing so twice is fine."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._has_ended.set)
            self._thread.join(TIMEOUT_S)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


@pytest.fixture(scope="session")
def layout():
    return sample_layout(3)


@pytest.fixture(scope="session")
def serve(layout):
    """A function that serves a field; unless told otherwise, simulated time runs as fast as it can while awaited."""
    pytest.importorskip("msgpack", reason='needs MessagePack: pip install "pvn-drone[airsim]"')
    compile_kernels(CameraRenderer(layout), Camera())

    def start(layout=layout, *, limits=None, is_full=True, camera=None, **config):
        if camera is not None:  # in the place of our agents' camera
            mounted = CameraSettings(
                rotation=rotation_from_angles(0.0, -camera.tilt, 0.0),
                default_capture=Capture(camera.width, camera.height, camera.horizontal_view),
            )
            config["settings"] = Settings(vehicles={"SimpleFlight": VehicleSettings(cameras={AGENT_CAMERA: mounted})})
        return ServedHost(layout, limits, is_full, HostConfig(**{"speed": math.inf, **config}))

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
