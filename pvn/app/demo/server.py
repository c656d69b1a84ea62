"""The demo's server: warms up, admits visitors up to a limit, and frees everything when one of them leaves."""

from __future__ import annotations

import contextlib
import io
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import viser

from pvn.app.demo.flight_setup import FieldChoice, FlightSetup, file_field, random_field, segment_setup
from pvn.app.demo.page import Page
from pvn.app.demo.pictures import MAP_PX, ground_picture
from pvn.app.demo.scene import add_surroundings, landmark_glb
from pvn.app.demo.session import Session, SharedState
from pvn.app.demo.shown_flight import ShownFlight
from pvn.corpus.store import read_corpus
from pvn.evaluation.pilots import Pilot, load_pilot
from pvn.learning.agent import shipped_names
from pvn.systems import AGENT_FILE
from pvn.viz.field_views import field_from_above
from pvn.viz.flight_record import fly_and_record, interpolate_pose


@dataclass(frozen=True, kw_only=True)
class DemoConfig:
    """Where the demo is served, to how many visitors, and what they can fly."""

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 admits visitors from other computers."""
    port: int = 8080
    visitors: int = 8
    """Maximum number of simultaneous visitors."""
    field: int | Path = 0
    """The field that is shown first: the number of a random one, or a LANI environment file."""
    corpus: Path | None = None
    """A corpus whose segments can be flown."""
    runs: Path | None = None
    """A folder of training runs, whose agents fly instead of the shipped ones."""
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.visitors < 1:
            raise ValueError(f"visitors: got {self.visitors}, expected at least 1")
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port: got {self.port}, expected 1 to 65535, or 0 for any free port")


class LocalServer(viser.ViserServer):
    """viser's server without its public tunnel, which any visitor could otherwise open."""

    def request_share_url(self, verbose: bool = True) -> str | None:
        """Never open a tunnel: only the person who runs the demo decides who can reach it."""
        return None


def offered_pilots() -> list[str]:
    """Names of the pilots that can be chosen: the shipped agents, and the oracle."""
    # The table of systems goes from weak to strong; the menu begins with the strongest.
    return [*reversed(shipped_names()), "oracle"]


def load_pilots(config: DemoConfig, setup: FlightSetup, watch: Callable[[str], None]) -> dict[str, Pilot]:
    """All offered pilots by name, each flown for two steps, so that no visitor waits for files or for compilation."""
    field_picture = field_from_above(setup.layout, MAP_PX)
    pilots: dict[str, Pilot] = {}
    for name in offered_pilots():
        watch(f"warming up: {name}")
        pilot = load_pilot(name, runs=config.runs, device=config.device)
        # Visitors see camera images even of a pilot that does not use them.
        pilots[name] = replace(pilot, config=replace(pilot.config, quality="full"))
        flight = ShownFlight(setup, field_picture, pilot.config.step_seconds)
        fly_and_record(
            pilots[name],
            setup.task,
            demonstrated=setup.demonstrated,
            device=config.device,
            horizon=2,
            watch=flight.moments.append,
        )
        flight.show(0)
        interpolate_pose(flight.pose(0), flight.pose(1), 0.5)
    return pilots


def _first_field(field: int | Path) -> FieldChoice:
    return random_field(field) if isinstance(field, int) else file_field(field)


def _agent_files(runs: Path | None) -> dict[str, Path]:
    """Weights of the agents that fly instead of the shipped ones, by pilot."""
    files = {} if runs is None else {name: runs / name / AGENT_FILE for name in offered_pilots()}
    return {name: path for name, path in files.items() if path.exists()}


def _check_port(host: str, port: int) -> None:
    """Refuse a port that is in use; viser would silently take the next one."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise OSError(
                f"port: got {port} on {host}, which cannot be opened ({error.strerror}); "
                f"stop the program that uses it, or choose another port with --port {port + 1}"
            ) from None


class DemoServer:
    """A running demo."""

    def __init__(self, config: DemoConfig, watch: Callable[[str], None] = lambda text: None) -> None:
        """Warm up, then listen. watch(text) is called with what is being done."""
        _check_port(config.host, config.port)
        # Flights of several visitors share the cores; several threads in one flight would only wait for each other.
        torch.set_num_threads(1)
        corpus = None if config.corpus is None else read_corpus(config.corpus)
        self._first_field = _first_field(config.field)
        first_setup = segment_setup(self._first_field, 0)
        pilots = load_pilots(config, first_setup, watch)
        watch("warming up: the field")
        ground_picture(first_setup.layout)
        for landmark in first_setup.layout.landmarks:
            landmark_glb(landmark.name)
        self._config = config
        self._lock = threading.Lock()
        self._admitted: set[int] = set()
        self._sessions: dict[int, Session] = {}
        # One thread for each flight, and some for replays.
        self._flight_threads = ThreadPoolExecutor(2 * config.visitors, thread_name_prefix="flight")
        self._shared = SharedState(
            pilots,
            self._flight_threads,
            corpus=corpus,
            corpus_folder=str(config.corpus or ""),
            device=config.device,
            agent_files=_agent_files(config.runs),
        )
        with contextlib.redirect_stdout(io.StringIO()):  # viser's own greeting
            self._server = LocalServer(config.host, config.port, label="PVN: fly by language", verbose=False)
        self._server.gui.configure_theme(show_logo=False, show_share_button=False, brand_color=(30, 110, 60))
        add_surroundings(self._server)
        self._server.on_client_disconnect(self._on_disconnect)
        self._server.on_client_connect(self._on_connect)

    @property
    def url(self) -> str:
        """Address of the page."""
        host = "localhost" if self._config.host in ("0.0.0.0", "::") else self._config.host
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{self._server.get_port()}"

    @property
    def num_visitors(self) -> int:
        """Visitors who are connected now, not counting those who were turned away."""
        with self._lock:
            return len(self._admitted)

    def _on_connect(self, client: viser.ClientHandle) -> None:
        with self._lock:
            is_full = len(self._admitted) >= self._config.visitors
            if not is_full:
                self._admitted.add(client.client_id)
        if is_full:
            self._turn_away(client)
            return
        page = Page(client, tuple(self._shared.pilots), self._shared.corpus is not None)
        session = Session(page, self._shared, self._first_field)
        page.bind(session)
        with self._lock:
            self._sessions[client.client_id] = session
        if client.client_id not in self._server.get_clients():  # left before the page was complete
            self._on_disconnect(client)

    def _turn_away(self, client: viser.ClientHandle) -> None:
        with client.gui.add_modal("The demo is full"):
            client.gui.add_markdown(
                f"The limit of {self._config.visitors} visitors is reached; more would slow down everyone's flights. "
                "Please reload this page in a few minutes."
            )

    def _on_disconnect(self, client: viser.ClientHandle) -> None:
        with self._lock:
            self._admitted.discard(client.client_id)
            session = self._sessions.pop(client.client_id, None)
        if session is not None:
            session.close()

    def wait(self) -> None:
        """Serve until interrupted."""
        threading.Event().wait()

    def close(self) -> None:
        """End all sessions and stop serving."""
        with self._lock:
            sessions = list(self._sessions.values())
        for session in sessions:
            session.close()
        self._server.stop()
        self._flight_threads.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> DemoServer:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
