"""What tests of the demo share: pilots, and visitors whose page only remembers what it was shown."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from pvn.app.demo.flight_setup import random_field, segment_setup
from pvn.app.demo.session import Session
from pvn.app.demo.setup_session import SharedState
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
        yield SharedState(pilots, threads, agent_files={"pvn-plus": quick_plus})


class FakePage:
    """A display that remembers what it was shown."""

    def __init__(self):
        self.setup, self.menus, self.state, self.num_positions = None, None, None, 0
        self.steps, self.statuses, self.warnings, self.commands, self.files = [], [], [], [], {}
        self.links, self.flights, self.shown, self.examples, self.box = [], [], None, [], ""
        self.unknown, self.read_as = [], {}
        self.fields, self.touched, self.view = [], [], b""
        self.num_moves, self.first_step_at = 0, None
        self.landed = threading.Event()

    def show_setup(self, setup, view, fills_box):
        self.setup = self.menus = setup
        self.view = view
        if fills_box:
            self.box = setup.instruction

    def show_field(self, setup):
        self.fields.append(setup)

    def show_examples(self, examples):
        self.examples = examples

    def show_touched(self, flight):
        self.touched.append(flight.touched)

    def show_flights(self, flights, shown):
        self.flights, self.shown = [(flight.setup.instruction, flight.words) for flight in flights], shown

    def show_unknown(self, words, read_as):
        self.unknown, self.read_as = words, read_as

    def show_menus(self, setup):
        self.menus = setup

    def show_state(self, state, num_positions):
        self.state, self.num_positions = state, num_positions
        if state != "flying":
            self.landed.set()

    def show_step(self, shown, moves_slider=True):
        self.first_step_at = self.first_step_at or time.perf_counter()
        self.steps.append(shown)

    def move_drone(self, pose_world):
        self.num_moves += 1

    def show_status(self, text):
        self.statuses.append(text)

    def show_warning(self, text):
        self.warnings.append(text)

    def show_command(self, command, needs_file, link):
        self.commands.append(command)
        self.links.append(link)

    def send_file(self, name, content):
        self.files[name] = content


class Visitor:
    """A session and the page on which it is shown."""

    def __init__(self, shared, field, speed):
        self.page = FakePage()
        self.session = Session(self.page, shared, segment_setup(field, 0))
        self.session.set_speed(speed)

    def settle(self):
        """Wait until all requests are done, but not until a flight ends."""
        self.session._requests.submit(lambda: None).result(LIMIT_S)

    def take_off(self, text=None):
        """Start a flight and wait for its first step."""
        self.settle()
        self.page.landed.clear()
        num_steps = len(self.page.steps)
        self.session.fly(self.session.setup.instruction if text is None else text)
        _wait_until(lambda: len(self.page.steps) > num_steps, lambda: f"a first step ({self.page.warnings})")

    def land(self):
        """Wait until the flight has ended."""
        assert self.page.landed.wait(LIMIT_S), self.page.warnings

    def fly_to_the_end(self, text=None):
        self.take_off(text)
        self.land()
        self.settle()


@pytest.fixture
def visit(shared, field):
    """Open a session; flights are shown as fast as possible unless a speed is given."""
    return lambda speed=0.0, shared=shared: Visitor(shared, field, speed)


@pytest.fixture(scope="session")
def demo_server():
    """A running demo of field 3 for two visitors."""
    pytest.importorskip("viser", reason='no viser here: pip install "pvn-drone[app]"')
    from pvn.app.demo.server import DemoConfig, DemoServer

    with DemoServer(DemoConfig(port=0, field=3, visitors=2)) as server:
        yield server
