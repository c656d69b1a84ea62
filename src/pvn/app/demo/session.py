"""The session of one visitor: setting up flights, flying one after another, and replaying and saving them."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from pvn.app.demo.examples import example_instructions
from pvn.app.demo.flight_setup import (
    FIELD_FILE,
    MAX_FLIGHTS,
    FieldChoice,
    FlightSetup,
    change_instruction,
    corpus_field,
    random_field,
    segment_setup,
    with_first_segment,
    write_link,
)
from pvn.app.demo.limits import FlightQueue, RateLimit
from pvn.app.demo.page import Page, State
from pvn.app.demo.pictures import start_view
from pvn.app.demo.shown_flight import ShownFlight
from pvn.corpus.segments import Corpus
from pvn.corpus.typed_instruction import words_note
from pvn.corpus.vocabulary import Vocabulary
from pvn.evaluation.outcome import count_steps
from pvn.evaluation.pilots import Pilot
from pvn.viz.flight_files import write_flight
from pvn.viz.flight_record import Moment, fly_and_record, interpolate_pose
from pvn.world.lani import write_layout
from pvn.world.task import MAX_CHARACTERS

LOG = logging.getLogger(__name__)

FRAME_SECONDS = 0.07
"""Time between two positions of the drone as it moves from one step to the next."""
SUFFIXES = (".png", ".mp4", ".rrd")


@dataclass(frozen=True)
class SharedState:
    """What all sessions share."""

    pilots: Mapping[str, Pilot]
    """By the names under which they are offered."""
    flight_threads: Executor
    """Where flights and replays run."""
    queue: FlightQueue
    corpus: Corpus | None = None
    corpus_folder: str = ""
    device: str = "cpu"
    agent_files: Mapping[str, Path] = field(default_factory=dict)
    """Weights of pilots that are not shipped, for the command that repeats a flight."""
    drawing: threading.Lock = field(default_factory=threading.Lock)
    """Held while a file is written: figures are drawn one at a time."""


class Session:
    """Everything of one visitor. Public methods may be called from any thread, and return at once."""

    def __init__(self, page: Page, shared: SharedState, setup: FlightSetup) -> None:
        self._page, self._shared = page, shared
        self._lock = threading.RLock()
        self._rate_limit = RateLimit()
        # One thread for each visitor runs the requests in order, so that nobody else waits for them.
        self._requests = ThreadPoolExecutor(1, thread_name_prefix="session")
        self._flight: ShownFlight | None = None
        self._requested_step: int | None = None
        self._typed: str | None = None
        self._planned: list[str] = []
        self._speed = 2.0
        self.flights: list[ShownFlight] = []
        """What was said and flown, in order."""
        self.state: State = "choosing"
        self.setup = setup
        """The next flight but for its instruction; it starts where the drone is."""
        self._show_setup(setup, fills_box=True)

    @property
    def pilots(self) -> Sequence[str]:
        """Names of the pilots that can be chosen."""
        return tuple(self._shared.pilots)

    # Requests.

    def _request(self, action: Callable[[], None]) -> None:
        """Queue what the visitor asks for."""
        try:
            with self._lock:
                if self.state == "closed":
                    return
                self._rate_limit.check(time.monotonic())
                self._requests.submit(self._run_request, action)
        except ValueError as error:
            self._refuse(error)

    def _refuse(self, error: Exception) -> None:
        """Say why a request is refused, and move what the visitor moved or chose back to what is set up."""
        with self._lock:
            self._page.show_menus(self.setup)
        self._page.show_warning(str(error))

    def _run_request(self, action: Callable[[], None]) -> None:
        try:
            if self.state == "flying":
                raise ValueError("The drone is flying; press Stop, or wait until the flight has ended.")
            action()
        except (ValueError, OSError) as error:
            self._refuse(error)
        except Exception as error:
            LOG.exception("a visitor's request failed")
            self._page.show_warning(f"That failed ({type(error).__name__}: {error}); try something else.")

    def close(self) -> None:
        """End everything: the visitor has left."""
        with self._lock:
            self.state = "closed"
            self._interrupt()
            self._flight, self.flights = None, []
            self._requests.shutdown(wait=False, cancel_futures=True)

    def _interrupt(self) -> None:
        """End the flight or replay that is shown."""
        if self._flight is not None:
            self._flight.interrupted.set()

    # Setting up.

    def _show_setup(self, setup: FlightSetup, fills_box: bool) -> None:
        self._page.show_setup(setup, start_view(setup.layout, setup.start), fills_box)
        self._page.show_examples(example_instructions(setup.layout, setup.start))
        self._page.show_state("choosing", 0)
        self._page.show_flights(self.flights, None)
        self._show_command(setup, ())
        what = "You have rearranged this field." if setup.is_edited else f"This is {setup.field.title}."
        self._page.show_status(f"{what} Type what the drone should do, and press Enter.")

    def _show_command(self, setup: FlightSetup, flown: tuple[str, ...]) -> None:
        agent_file = self._shared.agent_files.get(setup.pilot)
        agent = None if agent_file is None else str(agent_file)
        command = setup.command(agent, self._shared.device)
        self._page.show_command(command, setup.needs_file, write_link(setup, flown))

    def _change_setup(self, setup: FlightSetup, fills_box: bool) -> None:
        """Set up another flight; the list of flights stays unless the field is another one."""
        with self._lock:
            if self.state in ("closed", "flying"):
                return
            self._interrupt()
            if setup.field is not self.setup.field:
                self.flights = []
            self.state, self.setup, self._flight = "choosing", setup, None
        self._show_setup(setup, fills_box)

    def _change_field(self, find: Callable[[], tuple[FieldChoice, int]]) -> None:
        self._page.show_status("Laying out the field …")
        field, index = find()
        self._change_setup(segment_setup(field, index, self.setup.pilot), fills_box=True)

    def change(self, edit: Callable[[FlightSetup], FlightSetup], *, fills_box: bool = False) -> None:
        """Set up what `edit` makes of the present setup; with fills_box, the page shows its instruction."""
        self._request(lambda: self._change_setup(edit(self.setup), fills_box))

    def go_to_field(self, number: int) -> None:
        """Set up a segment of a random field."""
        self._request(lambda: self._change_field(lambda: with_first_segment(random_field(number))))

    def go_to_segment(self, segment_id: str) -> None:
        """Set up a segment of the corpus; a random one if the id is empty."""
        corpus, folder = self._shared.corpus, self._shared.corpus_folder
        if corpus is not None:
            self._request(lambda: self._change_field(lambda: corpus_field(corpus, folder, segment_id[:40])))

    def note_typed(self, text: str) -> None:
        """Mark words of what is being typed that are unknown or read as others; only in the latest text."""
        with self._lock:
            if self.state == "closed":
                return
            is_waiting, self._typed = self._typed is not None, text
            if not is_waiting:
                self._requests.submit(self._mark_typed)

    def _mark_typed(self) -> None:
        with self._lock:
            text, self._typed = self._typed, None
        vocabulary, text = self._vocabulary(self.setup), (text or "")[: 2 * MAX_CHARACTERS]
        if vocabulary is None:
            self._page.show_unknown([], {})
        else:
            self._page.show_unknown(vocabulary.unknown_words(text), vocabulary.read_as(text))

    def _vocabulary(self, setup: FlightSetup) -> Vocabulary | None:
        """The words that the pilot knows; None for a pilot that does not read."""
        agent = self._shared.pilots[setup.pilot].agent
        return None if agent is None else agent.vocabulary

    # Flying.

    def set_speed(self, speed: float) -> None:
        """Show flights this many times faster than real time; 0 for as fast as possible."""
        self._speed = speed

    def fly(self, text: str) -> None:
        """Fly by this instruction from where the drone is, with what the pilot has seen so far."""
        self.fly_all([text])

    def fly_all(self, instructions: Sequence[str]) -> None:
        """Fly these one after another, as links do, all but the last as fast as possible."""
        if instructions:
            self._planned = list(instructions[1:])
            self._request(lambda: self._take_off(change_instruction(self.setup, instructions[0])))

    def _take_off(self, setup: FlightSetup) -> None:
        pilot = self._shared.pilots[setup.pilot]
        setup.check(self._vocabulary(setup))
        with self._lock:
            if self.state in ("closed", "flying"):
                return
            self._interrupt()
            flight = ShownFlight(setup, pilot.config)
            self.state, self._flight = "flying", flight
        self._page.show_field(setup)
        self._page.show_state("flying", 0)
        self._page.show_status("Taking off …")
        self._shared.flight_threads.submit(self._fly, flight, pilot)

    def stop(self) -> None:
        """End the flight."""
        with self._lock:
            self._planned = []
            if self.state == "flying" and self._flight is not None:
                self._flight.interrupted.set()

    def _tell_place(self, place: int) -> None:
        when = "one of them lands" if place == 1 else f"{place} of them have landed"
        self._page.show_status(f"Many visitors are flying: you are number {place} in line, and fly when {when}.")

    def _fly(self, flight: ShownFlight, pilot: Pilot) -> None:
        setup, failure = flight.setup, ""
        try:
            self._shared.queue.acquire(flight.interrupted.is_set, self._tell_place)
            try:
                record = fly_and_record(
                    pilot,
                    setup.task,
                    demonstrated=setup.demonstrated,
                    carried=None if setup.continues is None else setup.continues.carried,
                    device=self._shared.device,
                    watch=lambda moment: self._on_step(flight, moment),
                )
                # The flight is complete before its end is shown: pressing Stop now only ends the animation.
                flight.complete(record)
                self._animate(flight, len(flight.steps))
            finally:
                self._shared.queue.release()
        except InterruptedError:
            LOG.debug("a visitor ended a flight")
        except Exception as error:
            LOG.exception("a flight failed")
            failure = f"The flight failed ({type(error).__name__}: {error}); try again, or choose another field."
        self._end_flight(flight, failure)

    def _on_step(self, flight: ShownFlight, moment: Moment) -> None:
        if flight.interrupted.is_set():
            raise InterruptedError
        flight.add(moment)
        self._animate(flight, moment.step)

    def _end_flight(self, flight: ShownFlight, failure: str) -> None:
        """Show how a flight ended; the next one begins there."""
        with self._lock:
            if self.state == "closed" or self._flight is not flight:
                return
            flight.interrupted.clear()
            # After a failure nothing is drawn, since drawing may be what failed.
            has_flown = bool(flight.steps) and not failure
            self.state = "replaying" if has_flown else "choosing"
            if not has_flown:
                flight.words = "" if failure else "The flight was called off before it began."
            else:
                self._keep(flight)
                self._page.show_step(flight.show(flight.num_positions - 1))
                self._page.show_touched(flight)
                self._page.show_examples(example_instructions(self.setup.layout, self.setup.start))
            # Still under the lock, so that nothing can be set up before all this is shown.
            vocabulary = self._vocabulary(flight.setup)
            note = "" if vocabulary is None else words_note(flight.setup.instruction, vocabulary)
            self._page.show_state(self.state, flight.num_positions)
            self._page.show_status(f"{flight.words} {note}." if note else flight.words)
            self._page.show_flights(self.flights, len(self.flights) - 1)
            self._show_command(flight.setup, (*flight.setup.earlier, flight.setup.instruction))
            if failure:
                self._page.show_warning(failure)
            elif self._planned and flight.record is not None:
                following = change_instruction(self.setup, self._planned.pop(0))
                self._requests.submit(self._run_request, lambda: self._take_off(following))

    def _keep(self, flight: ShownFlight) -> None:
        """Put a flight at the end of the list, and set up what follows it."""
        if flight.record is not None:
            self.setup = flight.setup.after(flight.record)
        else:
            # The command cannot repeat an interrupted flight, so the next one starts without its map.
            flight.words = f"You ended the flight after {count_steps(len(flight.steps))}."
            x, y, yaw = flight.pose(len(flight.steps) - 1)[[0, 1, 5]].tolist()
            self.setup = change_instruction(flight.setup.starting_at((x, y, yaw)), "")
        flight.setup = flight.setup.flown()
        for earlier in self.flights:
            earlier.record = None
        self.flights = [*self.flights, flight][-MAX_FLIGHTS:]

    # Showing flights.

    def _animate(self, flight: ShownFlight, index: int) -> None:
        """Move the drone to a step at the chosen speed, then show the step."""
        duration = flight.config.step_seconds / self._speed if self._speed and not self._planned else 0.0
        count = max(round(duration / FRAME_SECONDS), 1)
        for frame in range(1, count) if index else ():
            pose = interpolate_pose(flight.pose(index - 1), flight.pose(index), frame / count)
            self._draw(flight, partial(self._page.move_drone, pose))
            flight.interrupted.wait(duration / count)
        self._draw(flight, partial(self._page.show_step, flight.show(index)))
        if self.state == "flying":
            self._page.show_status(f"Step {index + 1}: “{flight.setup.instruction}”")
        if flight.interrupted.wait(duration / count):
            raise InterruptedError

    def _draw(self, flight: ShownFlight, draw: Callable[[], None]) -> None:
        """Draw something of a flight unless it was interrupted: it must not overwrite what was set up since."""
        with self._lock:
            if flight.interrupted.is_set():
                raise InterruptedError
            draw()

    def show_again(self, index: int) -> None:
        """Show one step again; if several are asked for at once, only the last."""
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
            self._page.show_step(flight.show(index), moves_slider=False)

    def replay(self, number: int | None = None) -> None:
        """Show a whole flight again: the one with this index in the list, or the one that is shown."""
        with self._lock:
            listed = dict(enumerate(self.flights))
            flight = self._flight if number is None else listed.get(number)
            if self.state not in ("replaying", "choosing") or flight is None:
                return
            self._interrupt()  # ends an earlier replay
            again = replace(flight, interrupted=threading.Event())
            self._flight, self.state = again, "replaying"
            self._page.show_field(again.setup)
            self._page.show_state("replaying", again.num_positions)
            if number is not None:
                self._page.show_flights(self.flights, number)
                said = f"Again: {again.setup.instruction!r}. {again.words}"
                is_last = number == len(self.flights) - 1
                self._page.show_status(said if is_last else f"{said} What you type next starts after the last flight.")
        self._shared.flight_threads.submit(self._replay, again)

    def _replay(self, flight: ShownFlight) -> None:
        with contextlib.suppress(InterruptedError):
            for index in range(flight.num_positions):
                self._animate(flight, index)
            self._draw(flight, partial(self._page.show_touched, flight))

    # Saving.

    def save_field(self) -> None:
        """Send the field as an environment file, which the command needs to repeat a flight in an edited field."""
        self._request(lambda: self._save(FIELD_FILE, lambda path: write_layout(self.setup.layout, path)))

    def save_flight(self, suffix: str) -> None:
        """Send the last flight as a picture (.png), a film (.mp4) or a recording (.rrd)."""
        self._request(lambda: self._save_flight(suffix))

    def _save_flight(self, suffix: str) -> None:
        flight = self.flights[-1] if self.flights else None
        if flight is None or flight.record is None or suffix not in SUFFIXES:
            raise ValueError("There is nothing to save yet: fly to the end first.")
        record = flight.record
        self._page.show_status(f"Writing the {suffix} file …")
        with self._shared.drawing:
            self._save(f"flight{suffix}", lambda path: write_flight(record, path))
        self._page.show_status(flight.words)

    def _save(self, name: str, write: Callable[[Path], None]) -> None:
        with TemporaryDirectory() as folder:
            path = Path(folder) / name
            write(path)
            self._page.send_file(name, path.read_bytes())
