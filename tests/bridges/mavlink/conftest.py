"""Our autopilot and its camera in a thread of the test's own process, on ports of their own."""

import re
import socket
from contextlib import contextmanager
from dataclasses import replace

import pytest

from pvn.bridges import MavlinkServerOptions

TIMEOUT_S = 60
PATIENCE_S = 600.0
"""How long the autopilot waits, on its own clock, for a client on a machine that may be busy with other tests."""


def free_port():
    """A UDP port that nobody uses now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class ServedDrone:
    """An autopilot that runs in a thread, and what a test can do to it."""

    def __init__(self, served, client_port):
        self.call, self.close, self.port, self.loop = served.call, served.close, served.port, served.loop
        self.drone, self.stream, self.clients = served.server.drone, served.server.stream, served.server.clients
        self.camera_url = re.search(r"http://\S+mjpg", served.announced)[0]
        self.address = f"udpin://127.0.0.1:{client_port}"
        """Where MAVSDK has to listen for it."""

    def after_each_tick(self, watch):
        """Call a function after each tick of the autopilot's clock, in its thread."""
        tick = self.drone.tick

        def tick_and_watch():
            tick()
            watch()

        self.drone.tick = tick_and_watch

    def stop_clock(self):
        """Fall silent, as an autopilot does whose radio fails."""
        self.call(self.drone.set_paused, True)

    def stop_pictures(self):
        """Keep the camera's connections open, and send nothing more."""
        never = self.loop.create_future()
        self.stream._picture = lambda: never


@pytest.fixture(autouse=True)
def patient_client(request, monkeypatch):
    """Our client, too, waits longer than is shipped until the autopilot says that its mode has changed.

    Not in slow tests, which are for machines with nothing else to do.
    """
    if request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr("pvn.bridges.mavlink.field.CHANGE_S", float(TIMEOUT_S))


@pytest.fixture(scope="session")
def fly_drone(layout, in_thread):
    """A context in which an autopilot runs."""
    from pvn.bridges.mavlink.server import MavlinkServer

    MavlinkServer(layout).compile()

    @contextmanager
    def serve(layout=layout, **options):
        client_port, served_as = free_port(), MavlinkServerOptions(port=0, camera_port=0, **options)

        def make():
            server = MavlinkServer(layout, served_as, listeners=[("127.0.0.1", client_port)])
            patient = {**server.drone.autopilot.parameters, "COM_OF_LOSS_T": PATIENCE_S, "COM_DISARM_PRFLT": PATIENCE_S}
            server.drone.autopilot = replace(server.drone.autopilot, parameters=patient)
            return server

        served = ServedDrone(in_thread(make), client_port)
        try:
            yield served
        finally:
            served.close()

    return serve
