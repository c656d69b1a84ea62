"""The session of one visitor: setting up, flying and replaying flights."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pvn.app.demo.display import Display, State
from pvn.app.demo.flight_setup import (
    FIELD_FILE,
    FieldChoice,
    FlightSetup,
    RateLimit,
    add_landmark,
    change_instruction,
    corpus_field,
    move_landmark,
    random_field,
    remove_landmark,
    segment_setup,
)
from pvn.app.demo.pictures import MAP_PX
from pvn.app.demo.shown_flight import ShownFlight, outcome_sentence
from pvn.corpus.segments import Corpus
from pvn.corpus.typed_instruction import unknown_words_sentence
from pvn.corpus.vocabulary import Vocabulary
from pvn.evaluation.pilots import Pilot
from pvn.viz.field_views import field_from_above
from pvn.viz.flight_files import write_flight
from pvn.viz.flight_record import Moment, fly_and_record, interpolate_pose
from pvn.world.lani import write_layout

LOG = logging.getLogger(__name__)

FRAME_SECONDS = 0.07
"""Time between two positions of the drone as it moves from one step to the next."""


@dataclass(frozen=True)
class SharedState:
    """What all sessions share."""

    pilots: Mapping[str, Pilot]
    """By the names under which they are offered."""
    flight_threads: Executor
    """Where flights and replays run."""
    corpus: Corpus | None = None
    corpus_folder: str = ""
    device: str = "cpu"
    agent_files: Mapping[str, Path] = field(default_factory=dict)
    """Weights of the pilots that are not shipped, for the command that repeats a flight."""
    drawing: threading.Lock = field(default_factory=threading.Lock)
    """Held while a file is written: figures are drawn one at a time."""


class Session:
    """The state of one visitor. Methods may be called from any thread, and return at once."""

    def __init__(self, display: Display, shared: SharedState, first_field: FieldChoice) -> None:
        self._display, self._shared = display, shared
        self._lock = threading.RLock()
        self._rate_limit = RateLimit()
        # A thread of its own runs the visitor's requests in order, so that nobody else waits for them.
        self._requests = ThreadPoolExecutor(1, thread_name_prefix="session")
        self._requested_step: int | None = None
        self._next_instruction: str | None = None
        self._flight: ShownFlight | None = None
        self.state: State = "choosing"
        self._speed = 2.0
        self.setup = segment_setup(first_field, 0)
        self._show_setup(self.setup)

    def _show_setup(self, setup: FlightSetup) -> None:
        self._display.show_setup(setup)
        self._display.show_state("choosing", 0)
        self._show_command(setup)
        if setup.is_edited:
            self._display.show_status("You have rearranged this field. Type an instruction and press Fly.")
        else:
            self._display.show_status(f"This is {setup.field.title}. Press Fly, or type your own instruction first.")

    def _show_command(self, setup: FlightSetup) -> None:
        agent_file = self._shared.agent_files.get(setup.pilot)
        agent = None if agent_file is None else str(agent_file)
        self._display.show_command(setup.command(agent, self._shared.device), setup.is_edited)

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
        """Say why a request is refused; a menu that made it returns to what is set up."""
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

    def _change_setup(self, setup: FlightSetup) -> None:
        """Set up another flight from a segment's start; the last one is discarded."""
        setup = setup.from_the_start()
        with self._lock:
            if self.state in ("closed", "flying"):
                return
            self._discard_flight()
            self.state, self.setup = "choosing", setup
        self._show_setup(setup)

    def _discard_flight(self) -> None:
        if self._flight is not None:
            self._flight.interrupted.set()
        self._flight = None

    def go_to_field(self, number: int) -> None:
        """Set up the first segment of a random field."""
        self._request(lambda: self._change_field(lambda: (random_field(number), 0)))

    def go_to_segment(self, segment_id: str) -> None:
        """Set up a segment of the corpus; a random one if the id is empty."""
        corpus = self._shared.corpus
        if corpus is not None:
            wanted = segment_id[:40] or random.choice(list(corpus)).id
            self._request(lambda: self._change_field(lambda: corpus_field(corpus, self._shared.corpus_folder, wanted)))

    def _change_field(self, find: Callable[[], tuple[FieldChoice, int]]) -> None:
        self._display.show_status("Loading the field …")
        chosen, segment_index = find()
        self._change_setup(segment_setup(chosen, segment_index, self.setup.pilot))

    def choose_segment(self, index: int) -> None:
        """Set up another segment of the same field, without the visitor's changes."""
        self._request(lambda: self._change_setup(segment_setup(self.setup.field, index, self.setup.pilot)))

    def choose_pilot(self, name: str) -> None:
        """Set up another pilot."""
        self._request(lambda: self._change_setup(replace(self.setup, pilot=name)))

    def set_speed(self, speed: float) -> None:
        """Show flights this many times faster than real time; 0 for as fast as possible."""
        self._speed = speed

    def restore_field(self) -> None:
        """Undo all changes to the field and the instruction."""
        self._request(lambda: self._change_setup(self.setup.unchanged()))

    def move_landmark(self, index: int, x: float, y: float) -> None:
        """Move a landmark to x, y; field frame, metres."""
        self._request(lambda: self._change_setup(move_landmark(self.setup, index, x, y)))

    def add_landmark(self, name: str) -> None:
        """Add a landmark of this class."""
        self._request(lambda: self._change_setup(add_landmark(self.setup, name)))

    def remove_landmark(self, index: int) -> None:
        """Remove a landmark."""
        self._request(lambda: self._change_setup(remove_landmark(self.setup, index)))

    def set_instruction(self, text: str) -> None:
        """Keep what was typed, without flying yet; what is typed during a flight is for the next one."""
        with self._lock:
            if self.state == "flying":
                self._next_instruction = text
            else:
                self.setup = change_instruction(self.setup, text)

    def fly(self, text: str) -> None:
        """Fly by this instruction, from the segment's start."""
        self._request(lambda: self._take_off(change_instruction(self.setup.from_the_start(), text)))

    def continue_flight(self, text: str) -> None:
        """Fly by this instruction from where the last flight ended, with what the pilot kept of it."""
        self._request(lambda: self._take_off(change_instruction(self._after_last_flight(), text)))

    def _after_last_flight(self) -> FlightSetup:
        flight = self._flight
        if flight is None or flight.record is None:
            raise ValueError("There is no complete flight to continue; press Fly to start again.")
        return flight.setup.after(flight.record)

    def _take_off(self, setup: FlightSetup) -> None:
        setup.check(self._vocabulary(setup))
        pilot = self._shared.pilots[setup.pilot]
        with self._lock:
            if self.state in ("closed", "flying"):
                return
            self._discard_flight()
            self.state, self.setup, self._next_instruction = "flying", setup, None
            flight = ShownFlight(setup, np.zeros((0, 0, 3)), pilot.config.step_seconds)
            self._flight = flight
        self._display.show_setup(setup)  # a new instruction has no demonstration and no goal to show
        self._display.show_state("flying", 0)
        self._display.show_status("Taking off …")
        self._shared.flight_threads.submit(self._fly, flight, pilot)

    def stop(self) -> None:
        """End the flight."""
        with self._lock:
            if self.state == "flying" and self._flight is not None:
                self._flight.interrupted.set()

    def close(self) -> None:
        """End everything: the visitor has left."""
        with self._lock:
            self.state = "closed"
            self._discard_flight()
            self._requests.shutdown(wait=False, cancel_futures=True)

    def _fly(self, flight: ShownFlight, pilot: Pilot) -> None:
        setup, failure = flight.setup, ""
        try:
            flight.field_picture = field_from_above(setup.layout, MAP_PX)
            record = fly_and_record(
                pilot,
                setup.task,
                demonstrated=setup.demonstrated,
                kept=None if setup.continues is None else setup.continues.kept,
                device=self._shared.device,
                watch=lambda moment: self._on_step(flight, moment),
            )
            # The flight is complete before its end is shown: pressing Stop now only ends the animation.
            flight.end_world, flight.record = record.flown_world[-1], record
            self._animate(flight, len(flight.moments))
        except InterruptedError:
            LOG.debug("a visitor ended a flight")
        except Exception as error:
            LOG.exception("a flight failed")
            failure = f"The flight failed ({type(error).__name__}: {error}); try again, or choose another field."
        self._end_flight(flight, failure)

    def _end_flight(self, flight: ShownFlight, failure: str) -> None:
        """Show how a flight ended, and let the visitor replay it or set up another."""
        # After a failure nothing is drawn: drawing may be what failed.
        last = flight.show(flight.num_positions - 1) if flight.moments and not failure else None
        if flight.record is not None:
            words = outcome_sentence(flight.record)
        else:
            words = "" if failure else f"You ended the flight after {len(flight.moments)} steps."
        with self._lock:
            if self.state == "closed" or self._flight is not flight:
                return
            self.state = "choosing" if last is None else "replaying"
            flight.interrupted.clear()
            if self._next_instruction is not None:
                self.setup = change_instruction(self.setup, self._next_instruction)
            # Still under the lock, so that nothing can be set up before all this is shown.
            if last is not None:
                self._display.show_step(last)
            self._display.show_state(self.state, flight.num_positions)
            self._display.show_status(words + self._unknown_words_note(flight.setup))
            self._show_command(flight.setup)
            if failure:
                self._display.show_warning(failure)

    def _on_step(self, flight: ShownFlight, moment: Moment) -> None:
        if flight.interrupted.is_set():
            raise InterruptedError
        flight.moments.append(moment)
        self._animate(flight, moment.step)

    def _animate(self, flight: ShownFlight, index: int) -> None:
        """Move the drone from the step before to this one, at the chosen speed, then show the step."""
        duration = flight.step_seconds / self._speed if self._speed else 0.0
        count = max(round(duration / FRAME_SECONDS), 1)
        for frame in range(1, count) if index else ():
            pose = interpolate_pose(flight.pose(index - 1), flight.pose(index), frame / count)
            self._draw(flight, partial(self._display.move_drone, pose))
            flight.interrupted.wait(duration / count)
        self._draw(flight, partial(self._display.show_step, flight.show(index)))
        if self.state == "flying":
            self._display.show_status(f"Flying: step {index + 1}" + self._unknown_words_note(flight.setup))
        if flight.interrupted.wait(duration / count):
            raise InterruptedError

    def _draw(self, flight: ShownFlight, draw: Callable[[], None]) -> None:
        """Draw something of a flight, unless it was interrupted: it must not overwrite what was set up since."""
        with self._lock:
            if flight.interrupted.is_set():
                raise InterruptedError
            draw()

    def _unknown_words_note(self, setup: FlightSetup) -> str:
        """What is said about words of the instruction that the pilot does not know; Markdown."""
        vocabulary = self._vocabulary(setup)
        words = "" if vocabulary is None else unknown_words_sentence(vocabulary.unknown_words(setup.instruction))
        return f"\n\n{words}." if words else ""

    def _vocabulary(self, setup: FlightSetup) -> Vocabulary | None:
        """The words that the pilot knows; None for a pilot that does not read."""
        agent = self._shared.pilots[setup.pilot].agent
        return None if agent is None else agent.vocabulary

    def show_again(self, index: int) -> None:
        """Show one step again; if many are asked for at once, only the last of them."""
        with self._lock:
            if self.state != "replaying" or self._flight is None or not 0 <= index < self._flight.num_positions:
                return
            self._flight.interrupted.set()  # ends a replay of the whole flight
            self._requested_step = index
            self._requests.submit(self._show_requested_step)

    def _show_requested_step(self) -> None:
        with self._lock:
            index, self._requested_step = self._requested_step, None
            flight = self._flight
        if index is not None and flight is not None and self.state == "replaying":
            self._display.show_step(flight.show(index), moves_slider=False)

    def replay(self) -> None:
        """Show the whole flight again."""
        with self._lock:
            if self.state != "replaying" or self._flight is None:
                return
            flight = self._flight
            flight.interrupted.set()  # ends an earlier replay
            again = replace(flight, interrupted=threading.Event())
            self._flight = again
        self._shared.flight_threads.submit(self._replay, again)

    def _replay(self, flight: ShownFlight) -> None:
        try:
            for index in range(flight.num_positions):
                self._animate(flight, index)
        except InterruptedError:
            return

    def save_field(self) -> None:
        """Send the field as an environment file, which the command needs to repeat a flight in an edited field."""
        self._request(lambda: self._save(FIELD_FILE, lambda path: write_layout(self.setup.layout, path)))

    def save_flight(self, suffix: str) -> None:
        """Send the flight as a picture (.png), a film (.mp4) or a recording (.rrd)."""
        self._request(lambda: self._save_flight(suffix))

    def _save_flight(self, suffix: str) -> None:
        record = None if self._flight is None else self._flight.record
        if record is None:
            raise ValueError("There is nothing to save yet: fly to the end first.")
        self._display.show_status(f"Writing the {suffix} file …")
        with self._shared.drawing:
            self._save(f"flight{suffix}", lambda path: write_flight(record, path))
        self._display.show_status(outcome_sentence(record))

    def _save(self, name: str, write: Callable[[Path], None]) -> None:
        with TemporaryDirectory() as folder:
            path = Path(folder) / name
            write(path)
            self._display.send_file(name, path.read_bytes())
