"""What a visitor sets up: the field, where its landmarks and the drone are, and who flies."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from pvn.app.demo.display import Display, State
from pvn.app.demo.examples import example_instructions
from pvn.app.demo.flight_setup import (
    FieldChoice,
    FlightSetup,
    RateLimit,
    add_landmark,
    change_instruction,
    corpus_field,
    first_segment,
    move_landmark,
    random_field,
    remove_landmark,
    segment_setup,
    turn_landmark,
)
from pvn.app.demo.link import write_link
from pvn.app.demo.pictures import start_view
from pvn.app.demo.shown_flight import ShownFlight
from pvn.app.demo.slots import Slots
from pvn.corpus.segments import Corpus
from pvn.evaluation.pilots import Pilot

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class SharedState:
    """What all sessions share."""

    pilots: Mapping[str, Pilot]
    """By the names under which they are offered."""
    flight_threads: Executor
    """Where flights and replays run."""
    slots: Slots = field(default_factory=lambda: Slots(8))
    """One for each flight that may be in the air at the same time; others wait for their turn."""
    corpus: Corpus | None = None
    corpus_folder: str = ""
    device: str = "cpu"
    agent_files: Mapping[str, Path] = field(default_factory=dict)
    """Weights of the pilots that are not shipped, for the command that repeats a flight."""
    drawing: threading.Lock = field(default_factory=threading.Lock)
    """Held while a file is written: figures are drawn one at a time."""


def _with_first_segment(field: FieldChoice) -> tuple[FieldChoice, int]:
    return field, first_segment(field)


class SetupSession:
    """Where one visitor sets up flights. Methods may be called from any thread, and return at once."""

    def __init__(self, display: Display, shared: SharedState, setup: FlightSetup) -> None:
        self._display, self._shared = display, shared
        self._lock = threading.RLock()
        self._rate_limit = RateLimit()
        # A thread of its own runs the visitor's requests in order, so that nobody else waits for them.
        self._requests = ThreadPoolExecutor(1, thread_name_prefix="session")
        self._flight: ShownFlight | None = None
        self.flights: list[ShownFlight] = []
        """What was said and flown, in order."""
        self.state: State = "choosing"
        self.setup = setup
        """What the next flight is, but for its instruction; it starts where the drone is."""
        self._show_setup(setup, fills_box=True)

    def _show_setup(self, setup: FlightSetup, fills_box: bool) -> None:
        self._display.show_setup(setup, start_view(setup.layout, setup.start), fills_box)
        self._display.show_examples(example_instructions(setup.layout, setup.start))
        self._display.show_state("choosing", 0)
        self._display.show_flights(self.flights, None)
        self._show_command(setup, ())
        what = "You have rearranged this field." if setup.is_edited else f"This is {setup.field.title}."
        self._display.show_status(f"{what} Type what the drone should do, and press Enter.")

    def _show_command(self, setup: FlightSetup, flown: tuple[str, ...]) -> None:
        agent_file = self._shared.agent_files.get(setup.pilot)
        agent = None if agent_file is None else str(agent_file)
        command = setup.command(agent, self._shared.device)
        self._display.show_command(command, setup.needs_file, write_link(setup, flown))

    def _request(self, action: Callable[[], None]) -> None:
        """Queue what the visitor asks for, after everything asked for before."""
        try:
            with self._lock:
                if self.state == "closed":
                    return
                self._rate_limit.check(time.monotonic())
                self._requests.submit(self._run_request, action)
        except ValueError as error:
            self._refuse(error)

    def _refuse(self, error: Exception) -> None:
        """Say why a request is refused; what the visitor moved or chose returns to what is set up."""
        with self._lock:
            self._display.show_menus(self.setup)
        self._display.show_warning(str(error))

    def _run_request(self, action: Callable[[], None]) -> None:
        """Do what was asked for, or say why not."""
        try:
            if self.state == "flying":
                raise ValueError("The drone is flying; press Stop, or wait until the flight has ended.")
            action()
        except (ValueError, OSError) as error:
            self._refuse(error)
        except Exception as error:
            LOG.exception("a visitor's request failed")
            self._display.show_warning(f"That failed ({type(error).__name__}: {error}); try something else.")

    def _change_setup(self, setup: FlightSetup, *, fills_box: bool = False) -> None:
        """Set up another flight; what was said and flown in the same field stays."""
        with self._lock:
            if self.state in ("closed", "flying"):
                return
            self._interrupt()
            if setup.field is not self.setup.field:
                self.flights = []
            self.state, self.setup, self._flight = "choosing", setup, None
        self._show_setup(setup, fills_box)

    def _interrupt(self) -> None:
        """End the flight or replay that is shown."""
        if self._flight is not None:
            self._flight.interrupted.set()

    def go_to_field(self, number: int) -> None:
        """Set up a segment of a random field."""
        self._request(lambda: self._change_field(lambda: _with_first_segment(random_field(number))))

    def go_to_segment(self, segment_id: str) -> None:
        """Set up a segment of the corpus; a random one if the id is empty."""
        corpus = self._shared.corpus
        if corpus is not None:
            wanted = segment_id[:40] or random.choice(list(corpus)).id
            self._request(lambda: self._change_field(lambda: corpus_field(corpus, self._shared.corpus_folder, wanted)))

    def _change_field(self, find: Callable[[], tuple[FieldChoice, int]]) -> None:
        self._display.show_status("Laying out the field …")
        field, index = find()
        self._change_setup(segment_setup(field, index, self.setup.pilot), fills_box=True)

    def choose_segment(self, index: int) -> None:
        """Set up another segment of the field."""
        if 0 <= index < len(self.setup.field.segments):
            self._request(
                lambda: self._change_setup(segment_setup(self.setup.field, index, self.setup.pilot), fills_box=True)
            )

    def choose_pilot(self, name: str) -> None:
        """Let another pilot fly, from where the drone is; it has seen nothing yet."""
        if name in self._shared.pilots:
            self._request(lambda: self._change_setup(replace(self.setup.standing(), pilot=name)))

    def start_again(self) -> None:
        """Put the drone back to where the segment starts; landmarks stay where they are."""
        self._request(lambda: self._change_setup(self._at_the_start(), fills_box=True))

    def _at_the_start(self) -> FlightSetup:
        return change_instruction(self.setup.from_the_start(), self.setup.segment.task.instruction)

    def restore_field(self) -> None:
        """Undo all changes to the field and the start."""
        self._request(lambda: self._change_setup(self.setup.unchanged(), fills_box=True))

    def move_start(self, x: float, y: float) -> None:
        """Put the drone at x, y; field frame, metres."""
        self._request(lambda: self._change_setup(self.setup.starting_at((x, y, self.setup.start[2]))))

    def turn_start(self, yaw: float) -> None:
        """Turn the drone to yaw; radians, field frame."""
        self._request(lambda: self._change_setup(self.setup.starting_at((*self.setup.start[:2], yaw))))

    def move_landmark(self, index: int, x: float, y: float) -> None:
        """Move a landmark to x, y; field frame, metres."""
        self._request(lambda: self._change_setup(move_landmark(self.setup, index, x, y).standing()))

    def turn_landmark(self, index: int, yaw: float) -> None:
        """Turn a landmark's front to yaw; radians, field frame."""
        self._request(lambda: self._change_setup(turn_landmark(self.setup, index, yaw).standing()))

    def add_landmark(self, name: str) -> None:
        """Add a landmark of this class."""
        self._request(lambda: self._change_setup(add_landmark(self.setup, name).standing()))

    def remove_landmark(self, index: int) -> None:
        """Remove a landmark."""
        if 0 <= index < len(self.setup.layout.landmarks):
            self._request(lambda: self._change_setup(remove_landmark(self.setup, index).standing()))
