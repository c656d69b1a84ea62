"""What tests of the demo share: pilots, and visitors whose panel only stores the messages that it is sent."""

import base64
import json
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

pytest.importorskip("viser", reason='no viser here: pip install "pvn-drone[app]"')

from pvn.app.demo.flight_setup import random_field, segment_setup
from pvn.app.demo.limits import FlightQueue
from pvn.app.demo.page import Page
from pvn.app.demo.server import DemoConfig, DemoServer
from pvn.app.demo.session import Session, SharedState
from pvn.evaluation.pilots import load_pilot
from pvn.simulator.interface import SimulatorConfig

LIMIT_S = 300.0
"""After this long a test gives up; far more than it takes, on a busy machine too."""


def _wait_until(condition, what, every=0.02):
    """The first true value of a condition, asked every so many seconds; fails if it stays false.

    what: what is waited for, in words, or a function that gives the words.
    """
    deadline = time.monotonic() + LIMIT_S
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what() if callable(what) else what} never happened"
        time.sleep(every)
    return value


@pytest.fixture(scope="session")
def wait_until():
    return _wait_until


@pytest.fixture(scope="session")
def field():
    return random_field(3)


@pytest.fixture(scope="session")
def pilots(quick_plus):
    oracle = load_pilot("oracle")
    return {
        "pvn-plus": load_pilot(str(quick_plus)),
        **{name: load_pilot(name) for name in ("gsmn", "chaplot")},
        "oracle": replace(oracle, config=SimulatorConfig()),
    }


@pytest.fixture
def shared(pilots, quick_plus):
    with ThreadPoolExecutor(4) as threads:
        yield SharedState(pilots, threads, FlightQueue(8), agent_files={"pvn-plus": quick_plus})


class Panel:
    """Takes the messages of a page as a channel to a browser does."""

    def __init__(self):
        self.sent = defaultdict(list)
        self.landed = threading.Event()

    def send(self, kind, content):
        self.sent[kind].append(json.loads(json.dumps(content, allow_nan=False)))
        if kind == "state" and content["state"] != "flying":
            self.landed.set()

    def last(self, kind):
        return self.sent[kind][-1]

    @property
    def warnings(self):
        return [message["text"] for message in self.sent["warning"] if message["text"]]

    @property
    def status(self):
        return self.last("status")["text"]

    @property
    def steps(self):
        return self.sent["step"]

    @property
    def flights(self):
        return self.last("flights")["flights"]

    def file(self, name):
        (content,) = [message["content"] for message in self.sent["file"] if message["name"] == name]
        return base64.b64decode(content)


class Visitor:
    """A session, its page and a panel."""

    def __init__(self, shared, field, speed):
        self.panel, self.page = Panel(), Page(tuple(shared.pilots), has_corpus=False)
        self.page.attach_panel(self.panel)
        self.session = Session(self.page, shared, segment_setup(field, 0))
        self.session.set_speed(speed)

    def change(self, edit, **options):
        self.session.change(edit, **options)
        self.settle()

    def choose_pilot(self, name):
        self.change(lambda setup: replace(setup.standing(), pilot=name))

    def choose_segment(self, index):
        self.change(lambda setup: segment_setup(setup.field, index, setup.pilot))

    def settle(self):
        """Wait until all requests are done, but not until a flight ends."""
        self.session._requests.submit(lambda: None).result(LIMIT_S)

    def take_off(self, text=None):
        """Start a flight and wait for its first step."""
        self.settle()
        self.panel.landed.clear()
        num_steps = len(self.panel.steps)
        self.session.fly(self.session.setup.instruction if text is None else text)
        _wait_until(lambda: len(self.panel.steps) > num_steps, lambda: f"a first step ({self.panel.warnings})")

    def land(self):
        """Wait until the flight has ended."""
        assert self.panel.landed.wait(LIMIT_S), self.panel.warnings
        self.settle()

    def fly_to_the_end(self, text=None):
        self.take_off(text)
        self.land()


@pytest.fixture
def visit(shared, field):
    """Open a session; flights are shown as fast as possible unless a speed is given."""
    return lambda speed=0.0, shared=shared: Visitor(shared, field, speed)


@pytest.fixture(scope="session")
def demo_server():
    """A running demo of field 3 for two visitors."""
    with DemoServer(DemoConfig(port=0, field=3, visitors=2)) as server:
        yield server
