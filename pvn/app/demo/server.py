"""The demo's server: warms up, lets visitors in up to a limit, and frees all of one who leaves."""

from __future__ import annotations

import contextlib
import io
import shlex
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import viser

from pvn.app.demo.flight_setup import PILOTS, Pilot, choose, random_ground
from pvn.app.demo.page import Page
from pvn.app.demo.pictures import HEAT_PX, ground_picture, heat_picture, maps_sheet
from pvn.app.demo.scene import furnish, landmark_glb
from pvn.app.demo.session import House, Visitor
from pvn.corpus.store import read_corpus
from pvn.evaluation.systems import System, make_system
from pvn.viz.flight_record import fly_and_record
from pvn.viz.map_pictures import picture_of_field


@dataclass(frozen=True, kw_only=True)
class DemoConfig:
    """Who may come, and what they find."""

    host: str = "127.0.0.1"
    """Address to listen at; 0.0.0.0 lets others in."""
    port: int = 8080
    visitors: int = 8
    """Visitors at once."""
    seed: int = 0
    """The field that is shown first."""
    corpus: Path | None = None
    """A corpus whose segments can be flown."""
    runs: Path | None = None
    """A folder with agents that were trained here, to fly in place of those in the package."""
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.visitors < 1:
            raise ValueError(f"visitors: got {self.visitors}, expected at least 1")
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port: got {self.port}, expected 1 to 65535, or 0 for any that is free")


class LocalServer(viser.ViserServer):
    """viser's server without its public tunnel, which any visitor could otherwise ask for."""

    def request_share_url(self, verbose: bool = True) -> str | None:
        """Open no tunnel: the demo is where its owner put it."""
        return None


def _seeing(system: System) -> System:
    """The system with pictures from its camera, also for one who flies blind."""
    return replace(system, config=replace(system.config, quality="full"))


def warm_up(config: DemoConfig, watch: Callable[[str], None]) -> dict[Pilot, System]:
    """All pilots, each flown for some steps, so that the first visitor waits for no compiler and no file."""
    choice = choose(random_ground(config.seed), 0, "pvn")
    systems: dict[Pilot, System] = {}
    for name in PILOTS:
        watch(f"warming up: {name}")
        systems[name] = _seeing(make_system(name, runs=config.runs, device=config.device))
        recorded = fly_and_record(systems[name], choice.task, device=config.device, horizon=2)
        for moment in recorded.moments[:1] if name == "pvn" else ():
            assert moment.maps is not None
            heat_picture(moment.maps, choice.task.start)
            maps_sheet(picture_of_field(choice.layout, HEAT_PX), moment, choice.task.start, (0.0, 0.0))
    watch("warming up: the field")
    ground_picture(choice.layout)
    for mark in choice.layout.landmarks:
        landmark_glb(mark.name)
    return systems


def _options(config: DemoConfig) -> dict[Pilot, str]:
    """What `pvn fly` needs to be told of pilots that are not the package's, and of the device."""
    device = "" if config.device == "cpu" else f" --device {config.device}"
    options = {name: device for name in PILOTS}
    for name in PILOTS if config.runs is not None else ():
        weights = Path(config.runs or "") / name / "agent.safetensors"
        if weights.exists():
            options[name] += f" --weights {shlex.quote(str(weights))}"
    return options


def _check_port(host: str, port: int) -> None:
    """Refuse a port that someone else listens at; viser would quietly take the next one."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise OSError(
                f"port: got {port} at {host}, but it cannot be listened at ({error.strerror}); "
                f"stop what uses it, or choose another with --port {port + 1}"
            ) from None


class DemoServer:
    """A running demo."""

    def __init__(self, config: DemoConfig, watch: Callable[[str], None] = lambda text: None) -> None:
        """Warm up, then listen. watch(text) is told what is going on."""
        _check_port(config.host, config.port)
        # Flights of several visitors share the cores; threads within one would only wait for each other.
        torch.set_num_threads(1)
        corpus = None if config.corpus is None else read_corpus(config.corpus)
        systems = warm_up(config, watch)
        self._config = config
        self._lock = threading.Lock()
        self._places: set[int] = set()
        self._visitors: dict[int, Visitor] = {}
        # One worker for each flight, and some for replays.
        self._pool = ThreadPoolExecutor(2 * config.visitors, thread_name_prefix="flight")
        self._house = House(systems, self._pool, corpus, str(config.corpus or ""), config.device, _options(config))
        with contextlib.redirect_stdout(io.StringIO()):  # viser's own greeting
            self._server = LocalServer(config.host, config.port, label="PVN: fly by language", verbose=False)
        self._server.gui.configure_theme(show_logo=False, show_share_button=False, brand_color=(30, 110, 60))
        furnish(self._server)
        self._server.on_client_disconnect(self._leave)
        self._server.on_client_connect(self._enter)

    @property
    def url(self) -> str:
        """Where the page is."""
        host = "localhost" if self._config.host in ("0.0.0.0", "::") else self._config.host
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{self._server.get_port()}"

    @property
    def num_visitors(self) -> int:
        """Visitors who are there now; those turned away do not count."""
        with self._lock:
            return len(self._places)

    def _enter(self, client: viser.ClientHandle) -> None:
        with self._lock:
            is_full = len(self._places) >= self._config.visitors
            if not is_full:
                self._places.add(client.client_id)
        if is_full:
            self._turn_away(client)
            return
        page = Page(client, self._house.corpus is not None)
        visitor = Visitor(page, self._house, self._config.seed)
        page.bind(visitor)
        with self._lock:
            self._visitors[client.client_id] = visitor
        if client.client_id not in self._server.get_clients():  # gone before the page was made
            self._leave(client)

    def _turn_away(self, client: viser.ClientHandle) -> None:
        with client.gui.add_modal("The demo is full"):
            client.gui.add_markdown(
                f"All {self._config.visitors} places are taken, and each flight needs its share of the computer. "
                "Please reload this page in a few minutes."
            )

    def _leave(self, client: viser.ClientHandle) -> None:
        with self._lock:
            self._places.discard(client.client_id)
            visitor = self._visitors.pop(client.client_id, None)
        if visitor is not None:
            visitor.leave()

    def wait(self) -> None:
        """Serve until interrupted."""
        threading.Event().wait()

    def close(self) -> None:
        """Send everybody home."""
        with self._lock:
            visitors = list(self._visitors.values())
        for visitor in visitors:
            visitor.leave()
        self._server.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> DemoServer:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
