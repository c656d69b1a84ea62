"""Fifty visitors at once, eight of them flying: what it takes, and that nothing of it is left when they have gone."""

import contextlib
import json
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("viser", reason='no viser here: pip install "pvn-drone[app]"')
import msgspec
import viser
from viser import _messages
from websockets.sync.client import connect

from pvn.app.demo.server import CLEANING_S, GRACE_S

NUM_VISITORS, NUM_FLYING = 50, 8


def first_camera():
    """The message with which viser's page says that it is there."""
    fields = _messages.ViewerCameraMessage.__dataclass_fields__
    values = {
        "wxyz": (1.0, 0.0, 0.0, 0.0), "position": (0.0, 0.0, 9.0), "fov": 1.3, "near": 0.1, "far": 1000.0,
        "image_height": 600, "image_width": 900, "look_at": (0.0, 0.0, 0.0), "up_direction": (0.0, 0.0, 1.0),
    }  # fmt: skip
    message = {name: values[name] for name in fields if name in values}
    return msgspec.msgpack.encode({"type": "ViewerCameraMessage", **message})


class Visitor:
    """A panel and a 3D view without a browser: both take what they are sent."""

    def __init__(self, server):
        key, self.seen, self.times = uuid.uuid4().hex, {}, {}
        address, origin = f"ws://127.0.0.1:{server.port}", f"http://127.0.0.1:{server.port}"
        self.panel = connect(f"{address}/panel?visitor={key}", origin=origin, max_size=None)
        self.panel.send(json.dumps({"link": ""}))
        protocols = [f"viser-v{viser.__version__}"]
        self.view = connect(f"{address}/?visitor={key}", origin=origin, subprotocols=protocols, max_size=None)
        self.view.send(first_camera())
        self.bytes = 0
        for take in (self._take_panel, self._take_view):
            threading.Thread(target=take, daemon=True).start()

    def _take_panel(self):
        with contextlib.suppress(Exception):
            for text in self.panel:
                message = json.loads(text)
                self.seen[message["kind"]] = message
                self.times.setdefault(message["kind"], time.perf_counter())

    def _take_view(self):
        with contextlib.suppress(Exception):
            for content in self.view:
                self.bytes += len(content)

    def say(self, do, value=None):
        self.panel.send(json.dumps({"do": do, "value": value}))

    def ask(self):
        """Seconds until what is typed is answered."""
        self.times.pop("unknown", None)
        begin = time.perf_counter()
        self.say("typed", "go to the zyzzyva")
        while "unknown" not in self.times:
            time.sleep(0.002)
        return self.times["unknown"] - begin

    def leave(self):
        self.panel.close()
        self.view.close()


class Demo:
    """A demo in a process of its own, whose memory is its own."""

    def __init__(self, command=("-m", "pvn.cli", "demo", "--port", "0", "--field", "3")):
        command = [sys.executable, *command]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.port = int(next(re.search(r":(\d+) ", line)[1] for line in self.process.stdout if "http://" in line))

    @property
    def memory_mb(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


@pytest.fixture(scope="module")
def demo():
    demo = Demo()
    yield demo
    demo.process.send_signal(signal.SIGINT)
    demo.process.wait(60)


def come_fly_and_leave(demo, wait_until):
    """Fifty come, eight of them fly, all leave; what it took, in words."""
    empty = demo.memory_mb
    crowd = [Visitor(demo) for _ in range(NUM_VISITORS)]
    wait_until(lambda: all("view" in visitor.seen for visitor in crowd), "that all fifty see the field")
    time.sleep(2.0)
    idle = demo.memory_mb
    alone = [visitor.ask() for visitor in crowd[-10:]]
    begin = time.perf_counter()
    for visitor in crowd[:NUM_FLYING]:
        visitor.say("fly", "go to the gorilla and stop")
    wait_until(lambda: all("step" in visitor.times for visitor in crowd[:NUM_FLYING]), "eight first steps")
    first_steps = [visitor.times["step"] - begin for visitor in crowd[:NUM_FLYING]]
    beside = [visitor.ask() for visitor in crowd[-10:]]
    wait_until(lambda: all(visitor.seen["flights"]["flights"] for visitor in crowd[:NUM_FLYING]), "eight landings")
    duration, flown = time.perf_counter() - begin, demo.memory_mb
    num_steps = crowd[0].seen["state"]["num_positions"] - 1
    sent = np.mean([visitor.bytes for visitor in crowd[NUM_FLYING:]]) / 1e6
    for visitor in crowd:
        visitor.leave()
    return (
        f"memory: {empty:.0f} MB empty, {idle:.0f} MB with {NUM_VISITORS} visitors "
        f"({(idle - empty) / NUM_VISITORS:.1f} MB each), {flown:.0f} MB after {NUM_FLYING} flights "
        f"({(flown - idle) / NUM_FLYING:.0f} MB each); {sent:.1f} MB were sent to each\n"
        f"typing is answered in {1e3 * np.median(alone):.0f} ms, at most {1e3 * max(alone):.0f}; "
        f"beside {NUM_FLYING} flights in {1e3 * np.median(beside):.0f} ms, at most {1e3 * max(beside):.0f}\n"
        f"first steps of {NUM_FLYING} flights that begin together: {1e3 * min(first_steps):.0f} to "
        f"{1e3 * max(first_steps):.0f} ms; {num_steps} steps of half a second took {duration:.1f} s at 2 x\n"
    )


@pytest.mark.slow
def test_fifty_visitors_look_while_eight_fly_and_a_second_crowd_finds_the_memory_of_the_first(demo, wait_until):
    left = []
    for _ in range(2):
        sys.stdout.write(come_fly_and_leave(demo, wait_until))
        sys.stdout.flush()
        time.sleep(GRACE_S + CLEANING_S + 5)
        left.append(demo.memory_mb)
    sys.stdout.write(f"memory when all had left: {left[0]:.0f} MB, and after a second crowd {left[1]:.0f} MB\n")
    assert left[1] < left[0] + 50, "what the first crowd left is used again"


QUICKLY_FORGETTING = """
import time
import pvn.app.demo.server as demo
demo.CLEANING_S = 5.0
with demo.DemoServer(demo.DemoConfig(port=0, field=3), grace_s=2.0) as server:
    print(server.url, "", flush=True)
    while True:
        time.sleep(1)
"""


def visit_once(demo, wait_until, is_flying):
    visitor = Visitor(demo)
    wait_until(lambda: "view" in visitor.seen, "that the visitor sees the field")
    if is_flying:
        visitor.say("speed", "as fast as possible")
        visitor.say("fly", "go to the gorilla and stop")
        wait_until(lambda: visitor.seen.get("flights", {}).get("flights"), "a landing")
    visitor.leave()


def memory_over_visits(demo, wait_until, num_visits, every):
    """Memory of a demo, MB, after every so many visits, four at a time, of which one in ten flies."""
    found = []
    for begin in range(0, num_visits, 4):
        crowd = [
            threading.Thread(target=visit_once, args=(demo, wait_until, number % 10 == 0))
            for number in range(begin, begin + 4)
        ]
        for visitor in crowd:
            visitor.start()
        for visitor in crowd:
            visitor.join()
        if (begin + 4) % every == 0:
            time.sleep(9)  # until what they left is given back
            found.append(demo.memory_mb)
            sys.stdout.write(f"{begin + 4} visits: {found[-1]:.0f} MB\n")
            sys.stdout.flush()
    return found


@pytest.mark.slow
def test_memory_is_flat_over_a_thousand_visits(wait_until):
    demo = Demo(("-c", QUICKLY_FORGETTING))
    try:
        found = memory_over_visits(demo, wait_until, 1000, 100)
    finally:
        demo.process.terminate()
        demo.process.wait(60)
    assert max(found[1:]) < found[0] + 50
