"""The demo's server: warms up, admits visitors up to a limit, and frees everything of those who leave."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import io
import json
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import viser
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from pvn.app.demo.door import (
    HELLO_S,
    INVALID,
    SOCKETS_PER_VISITOR,
    VISITOR,
    Channel,
    Door,
    check_origin,
    own_addresses,
    serving,
)
from pvn.app.demo.flight_setup import (
    FieldChoice,
    FlightSetup,
    corpus_field,
    file_field,
    first_segment,
    open_link,
    random_field,
    segment_setup,
)
from pvn.app.demo.limits import FlightQueue
from pvn.app.demo.page import FIELD_PX
from pvn.app.demo.pictures import ground_picture, start_view
from pvn.app.demo.scene import add_surroundings, landmark_glb
from pvn.app.demo.session import SharedState
from pvn.app.demo.shown_flight import ShownFlight
from pvn.app.demo.visits import Visit, Visits, act
from pvn.corpus.store import read_corpus
from pvn.evaluation.pilots import Pilot, load_pilot
from pvn.systems import AGENT_FILE, shipped_names
from pvn.viz.flight_record import fly_and_record, interpolate_pose
from pvn.viz.pictures import field_from_above

GRACE_S = 60.0
"""A visitor who comes back within this time, seconds, loses nothing."""
CLEANING_S = 10.0
"""Least time between two garbage collections, seconds: each stops all flights for a moment."""
ENTRANCES = 4
"""How many newcomers' fields are laid out at the same time."""
TAKEN_OVER, FULL = 4001, 4002
"""Codes with which a panel is closed: its visit goes on in another tab, or all places are taken."""


@dataclass(frozen=True, kw_only=True)
class DemoConfig:
    """Where the demo is served, to how many visitors, and what they can fly."""

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 admits visitors from other computers."""
    port: int = 8080
    visitors: int = 64
    """Maximum number of simultaneous visitors."""
    flights: int = 8
    """Maximum number of simultaneous flights; others wait in line."""
    allow_origin: tuple[str, ...] = ()
    """Other addresses of the page, such as https://demo.example.org behind a proxy."""
    field: int | Path = 3
    """The field that is shown first: the number of a random field, or a LANI environment file."""
    corpus: Path | None = None
    """A corpus whose segments can be flown."""
    runs: Path | None = None
    """A folder of training runs, whose agents fly instead of the shipped ones."""
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("visitors", "flights"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: got {getattr(self, name)}, expected at least 1")
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port: got {self.port}, expected 1 to 65535, or 0 for any free port")


def offered_pilots() -> list[str]:
    """Names of the pilots that can be chosen: the shipped agents, the strongest first, and the oracle."""
    return [*reversed(shipped_names()), "oracle"]


def load_pilots(config: DemoConfig, setup: FlightSetup, watch: Callable[[str], None]) -> dict[str, Pilot]:
    """All offered pilots by name. Each flies two steps, so that no visitor waits for files or for compiling."""
    pilots: dict[str, Pilot] = {}
    for name in offered_pilots():
        watch(f"warming up: {name}")
        pilot = load_pilot(name, runs=config.runs, device=config.device)
        # Visitors see pictures even if the pilot does not use its camera.
        pilots[name] = replace(pilot, config=replace(pilot.config, quality="full"))
        flight = ShownFlight(setup, pilot.config)
        record = fly_and_record(
            pilots[name],
            setup.task,
            demonstrated=setup.demonstrated,
            device=config.device,
            horizon=2,
            watch=flight.add,
        )
        flight.complete(record)
        flight.show(0)
        interpolate_pose(flight.pose(0), flight.pose(1), 0.5)
    return pilots


def _first_field(field: int | Path) -> FieldChoice:
    return random_field(field) if isinstance(field, int) else file_field(field)


def _agent_files(runs: Path | None) -> dict[str, Path]:
    """Files of the agents that fly instead of the shipped ones, by pilot."""
    files = {} if runs is None else {name: runs / name / AGENT_FILE for name in offered_pilots()}
    return {name: path for name, path in files.items() if path.exists()}


def _check_port(host: str, port: int) -> None:
    """Refuse a port that is in use; viser would silently take another one."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise OSError(
                f"port: got {port} on {host}, which cannot be opened ({error.strerror}); "
                f"stop the program that uses it, or choose another port with --port {port + 1}"
            ) from None


def _return_memory() -> None:
    """Give the memory of visitors who left back to the system."""
    # viser's objects for a page refer to each other, and are so few that Python would collect them late.
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # where there is no glibc
        ctypes.CDLL("libc.so.6").malloc_trim(0)


class DemoServer:
    """A running demo."""

    def __init__(
        self, config: DemoConfig, watch: Callable[[str], None] = lambda text: None, *, grace_s: float = GRACE_S
    ) -> None:
        """Warm up, then listen; watch(text) is called with what is being done."""
        _check_port(config.host, config.port)
        self.door = Door(config.host, frozenset(map(check_origin, config.allow_origin)))
        # Flights of several visitors share the cores; several threads in one flight would only compete.
        torch.set_num_threads(1)
        corpus = None if config.corpus is None else read_corpus(config.corpus)
        self._first_field = _first_field(config.field)
        first_setup = segment_setup(self._first_field, first_segment(self._first_field))
        pilots = load_pilots(config, first_setup, watch)
        watch("warming up: the field")
        ground_picture(first_setup.layout)
        field_from_above(first_setup.layout, FIELD_PX)
        start_view(first_setup.layout, first_setup.start)
        for landmark in first_setup.layout.landmarks:
            landmark_glb(landmark.name, landmark.yaw)
        self._config = config
        # One thread for each visitor's flight, which may be in line, and one for a replay.
        self._flight_threads = ThreadPoolExecutor(2 * config.visitors + config.flights, thread_name_prefix="flight")
        self._entrance = ThreadPoolExecutor(ENTRANCES, thread_name_prefix="entrance")
        self._shared = SharedState(
            pilots,
            self._flight_threads,
            queue=FlightQueue(config.flights),
            corpus=corpus,
            corpus_folder=str(config.corpus or ""),
            device=config.device,
            agent_files=_agent_files(config.runs),
        )
        self.visits = Visits(config.visitors, grace_s, self._shared, self._open_link)
        self._views: dict[int, Visit] = {}
        self._closed = threading.Event()
        num_sockets = SOCKETS_PER_VISITOR * config.visitors
        with (
            contextlib.redirect_stdout(io.StringIO()),  # viser's greeting
            serving(self.door, self._serve_panel, lambda key: self.visits.find(key) is not None, num_sockets),
        ):
            self._server = viser.ViserServer(config.host, config.port, label="PVN: fly by language", verbose=False)
        self._server.gui.configure_theme(show_logo=False, show_share_button=False)
        add_surroundings(self._server)
        self._server.on_client_disconnect(self._on_disconnect)
        self._server.on_client_connect(self._on_connect)
        threading.Thread(target=self._forget_those_who_left, daemon=True, name="visits").start()

    def _open_link(self, query: str) -> tuple[FlightSetup, tuple[str, ...]]:
        corpus, folder = self._shared.corpus, self._shared.corpus_folder
        find = None if corpus is None else lambda segment_id: corpus_field(corpus, folder, segment_id[:40])
        return open_link(query, self._first_field, tuple(self._shared.pilots), random_field, find)

    @property
    def url(self) -> str:
        """Address of the page."""
        host = "localhost" if self._config.host in ("0.0.0.0", "::") else self._config.host
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{self.port}"

    @property
    def port(self) -> int:
        """Port of the page."""
        return self._server.get_port()

    def opened(self) -> list[str]:
        """What other computers can do here, in lines; none if they cannot connect."""
        if not self.door.is_open:
            return []
        addresses = [*own_addresses(self.port), *sorted(self.door.origins)]
        return [
            f"open to everyone who can reach port {self.port} of this computer: {', '.join(addresses) or self.url}",
            f"there is no password; up to {self._config.visitors} visitors can look, {self._config.flights} can fly "
            "at the same time, and download their flights; they cannot read or write files of this computer",
            "pages of other sites cannot use it; if it is served under another name, as behind a proxy, start it with "
            "--allow-origin https://that.name",
        ]

    @property
    def num_visitors(self) -> int:
        """Visitors whose page is open."""
        return self.visits.num_present

    def _enter(self, key: str, link: str, connection: ServerConnection) -> Visit | None:
        """The visit of a panel whose turn has come; a ValueError if it was closed meanwhile."""
        # Laying out a field for nobody would keep others waiting.
        if connection.state is not State.OPEN:
            raise ValueError("panel: closed before its turn")
        return self.visits.enter(key, link, connection)

    async def _serve_panel(self, connection: ServerConnection) -> None:
        """Talk with one panel until it is closed."""
        loop, key = asyncio.get_running_loop(), VISITOR.get()
        try:
            hello = json.loads(await asyncio.wait_for(connection.recv(), HELLO_S))
            link, found = str(hello["link"]), self.visits.find(key)
            previous = None if found is None else found.panel
            # In a thread, since laying out a field takes a while.
            visit = await loop.run_in_executor(self._entrance, self._enter, key, link, connection)
        except (ValueError, TypeError, KeyError, RecursionError, TimeoutError, ConnectionClosed):
            await connection.close(INVALID, "expected a page of this demo")
            return
        if visit is None:
            await connection.close(FULL, f"the limit of {self._config.visitors} visitors is reached")
            return
        if previous is not None:
            background = asyncio.create_task(previous.close(TAKEN_OVER, "this visit goes on in another tab"))
            background.add_done_callback(lambda _: None)
        channel = Channel(loop)
        visit.page.attach_panel(channel)
        delivery = asyncio.create_task(channel.deliver(connection))
        try:
            async for text in connection:
                if not act(visit, text):
                    await connection.close(INVALID, "got a message that the page never sends")
        except ConnectionClosed:
            pass
        finally:
            delivery.cancel()
            self.visits.leave(key, connection)

    async def _on_connect(self, client: viser.ClientHandle) -> None:
        visit = self.visits.find(VISITOR.get())
        if visit is not None:
            self._views[client.client_id] = visit
            self._entrance.submit(visit.page.attach_view, client)

    def _on_disconnect(self, client: viser.ClientHandle) -> None:
        visit = self._views.pop(client.client_id, None)
        if visit is not None:
            visit.page.detach_view(client)

    def _forget_those_who_left(self) -> None:
        has_left, cleaned_at = False, time.monotonic()
        while not self._closed.wait(1.0):
            has_left |= self.visits.forget()
            if has_left and time.monotonic() - cleaned_at > CLEANING_S:
                _return_memory()
                has_left, cleaned_at = False, time.monotonic()

    def wait(self) -> None:
        """Serve until interrupted."""
        threading.Event().wait()

    def close(self) -> None:
        """End all sessions and stop serving."""
        self._closed.set()
        self.visits.end_all()
        self._server.stop()
        self._entrance.shutdown(wait=True, cancel_futures=True)
        self._flight_threads.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> DemoServer:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
