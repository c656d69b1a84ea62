"""The session of one visitor: flying one instruction after another, and replaying what was flown."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from pvn.app.demo.display import Display
from pvn.app.demo.examples import example_instructions
from pvn.app.demo.flight_setup import FIELD_FILE, FlightSetup, change_instruction
from pvn.app.demo.link import MAX_FLIGHTS
from pvn.app.demo.setup_session import SetupSession, SharedState
from pvn.app.demo.shown_flight import ShownFlight
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


class Session(SetupSession):
    """Everything of one visitor. Methods may be called from any thread, and return at once."""

    def __init__(self, display: Display, shared: SharedState, setup: FlightSetup) -> None:
        self._requested_step: int | None = None
        self._typed: str | None = None
        self._planned: list[str] = []
        self._speed = 2.0
        super().__init__(display, shared, setup)

    def set_speed(self, speed: float) -> None:
        """Show flights this many times faster than real time; 0 for as fast as possible."""
        self._speed = speed

    def note_typed(self, text: str) -> None:
        """Mark what is being typed where words are unknown or read as others; of many texts at once, only the last."""
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
            self._display.show_unknown([], {})
        else:
            self._display.show_unknown(vocabulary.unknown_words(text), vocabulary.read_as(text))

    def fly(self, text: str) -> None:
        """Fly by this instruction from where the drone is, with what the pilot has seen so far."""
        self._planned = []
        self._request(lambda: self._take_off(change_instruction(self.setup, text)))

    def fly_all(self, instructions: Sequence[str]) -> None:
        """Fly these one after another, all but the last as fast as possible: the flights of a link."""
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
        self._display.show_field(setup)
        self._display.show_state("flying", 0)
        self._display.show_status("Taking off …")
        self._shared.flight_threads.submit(self._fly, flight, pilot)

    def stop(self) -> None:
        """End the flight."""
        with self._lock:
            self._planned = []
            if self.state == "flying" and self._flight is not None:
                self._flight.interrupted.set()

    def close(self) -> None:
        """End everything: the visitor has left."""
        with self._lock:
            self.state = "closed"
            self._interrupt()
            self._flight, self.flights = None, []
            self._requests.shutdown(wait=False, cancel_futures=True)

    def _wait_for_a_slot(self, flight: ShownFlight) -> None:
        def tell(place: int) -> None:
            when = "one of them lands" if place == 1 else f"{place} of them have landed"
            self._display.show_status(f"Many visitors are flying: you are number {place} in line, and fly when {when}.")

        self._shared.slots.acquire(flight.interrupted.is_set, tell)

    def _fly(self, flight: ShownFlight, pilot: Pilot) -> None:
        setup, failure = flight.setup, ""
        try:
            self._wait_for_a_slot(flight)
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
                self._shared.slots.release()
        except InterruptedError:
            LOG.debug("a visitor ended a flight")
        except Exception as error:
            LOG.exception("a flight failed")
            failure = f"The flight failed ({type(error).__name__}: {error}); try again, or choose another field."
        self._end_flight(flight, failure)

    def _end_flight(self, flight: ShownFlight, failure: str) -> None:
        """Show how a flight ended; the next one begins where it did."""
        with self._lock:
            if self.state == "closed" or self._flight is not flight:
                return
            flight.interrupted.clear()
            # After a failure nothing is drawn: drawing may be what failed.
            has_flown = bool(flight.steps) and not failure
            self.state = "replaying" if has_flown else "choosing"
            if not has_flown:
                flight.words = "" if failure else "The flight was called off before it began."
            else:
                self._keep(flight)
                self._display.show_step(flight.show(flight.num_positions - 1))
                self._display.show_touched(flight)
                self._display.show_examples(example_instructions(self.setup.layout, self.setup.start))
            # Still under the lock, so that nothing can be set up before all this is shown.
            self._display.show_state(self.state, flight.num_positions)
            self._display.show_status(flight.words + self._words_note(flight.setup))
            self._display.show_flights(self.flights, len(self.flights) - 1)
            self._show_command(flight.setup, (*flight.setup.earlier, flight.setup.instruction))
            if failure:
                self._display.show_warning(failure)
            elif self._planned and flight.record is not None:
                following = change_instruction(self.setup, self._planned.pop(0))
                self._requests.submit(self._run_request, lambda: self._take_off(following))

    def _keep(self, flight: ShownFlight) -> None:
        """Put a flight at the end of the list, and set up what follows it."""
        if flight.record is not None:
            self.setup = flight.setup.after(flight.record)
        else:
            # An interrupted flight leaves no map that its command could repeat.
            flight.words = f"You ended the flight after {count_steps(len(flight.steps))}."
            x, y, yaw = flight.pose(len(flight.steps) - 1)[[0, 1, 5]].tolist()
            self.setup = change_instruction(flight.setup.starting_at((x, y, yaw)), "")
        flight.setup = flight.setup.flown()
        for earlier in self.flights:
            earlier.record = None
        self.flights = [*self.flights, flight][-MAX_FLIGHTS:]

    def _on_step(self, flight: ShownFlight, moment: Moment) -> None:
        if flight.interrupted.is_set():
            raise InterruptedError
        flight.add(moment)
        self._animate(flight, moment.step)

    def _animate(self, flight: ShownFlight, index: int) -> None:
        """Move the drone from the step before to this one, at the chosen speed, then show the step."""
        duration = flight.config.step_seconds / self._speed if self._speed and not self._planned else 0.0
        count = max(round(duration / FRAME_SECONDS), 1)
        for frame in range(1, count) if index else ():
            pose = interpolate_pose(flight.pose(index - 1), flight.pose(index), frame / count)
            self._draw(flight, partial(self._display.move_drone, pose))
            flight.interrupted.wait(duration / count)
        self._draw(flight, partial(self._display.show_step, flight.show(index)))
        if self.state == "flying":
            self._display.show_status(f"Step {index + 1}: “{flight.setup.instruction}”")
        if flight.interrupted.wait(duration / count):
            raise InterruptedError

    def _draw(self, flight: ShownFlight, draw: Callable[[], None]) -> None:
        """Draw something of a flight, unless it was interrupted: it must not overwrite what was set up since."""
        with self._lock:
            if flight.interrupted.is_set():
                raise InterruptedError
            draw()

    def _vocabulary(self, setup: FlightSetup) -> Vocabulary | None:
        """The words that the pilot knows; None for a pilot that does not read."""
        agent = self._shared.pilots[setup.pilot].agent
        return None if agent is None else agent.vocabulary

    def _words_note(self, setup: FlightSetup) -> str:
        vocabulary = self._vocabulary(setup)
        note = "" if vocabulary is None else words_note(setup.instruction, vocabulary)
        return f" {note}." if note else ""

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
            self._display.show_field(again.setup)
            self._display.show_state("replaying", again.num_positions)
            if number is not None:
                self._display.show_flights(self.flights, number)
                said = f"Again: {again.setup.instruction!r}. {again.words}"
                is_last = number == len(self.flights) - 1
                self._display.show_status(
                    said if is_last else f"{said} What you type next starts after the last flight."
                )
        self._shared.flight_threads.submit(self._replay, again)

    def _replay(self, flight: ShownFlight) -> None:
        with contextlib.suppress(InterruptedError):
            for index in range(flight.num_positions):
                self._animate(flight, index)
            self._draw(flight, partial(self._display.show_touched, flight))

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
        self._display.show_status(f"Writing the {suffix} file …")
        with self._shared.drawing:
            self._save(f"flight{suffix}", lambda path: write_flight(record, path))
        self._display.show_status(flight.words)

    def _save(self, name: str, write: Callable[[Path], None]) -> None:
        with TemporaryDirectory() as folder:
            path = Path(folder) / name
            write(path)
            self._display.send_file(name, path.read_bytes())
