"""One visitor: choosing, flying and replaying; what there is to see goes to a view, which knows of nothing else."""

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
from typing import Literal, Protocol

import numpy as np

from pvn.app.demo.flight_setup import (
    FIELD_FILE,
    Choice,
    Ground,
    Pilot,
    Presses,
    add_landmark,
    choose,
    corpus_ground,
    move_landmark,
    random_ground,
    remove_landmark,
    retell,
)
from pvn.app.demo.pictures import HEAT_PX
from pvn.app.demo.shown_flight import Flight, Shown, between, describe
from pvn.corpus.segments import Corpus
from pvn.evaluation.systems import System
from pvn.viz.flight_files import write_flight
from pvn.viz.flight_record import Floats, Moment, fly_and_record
from pvn.viz.map_pictures import picture_of_field
from pvn.world.lani import write_layout

LOG = logging.getLogger(__name__)

State = Literal["choosing", "flying", "replaying", "gone"]
FRAME_SECONDS = 0.07
"""Between two places of the drone on its way from one step to the next."""


@dataclass(frozen=True)
class House:
    """What all visitors share."""

    systems: Mapping[Pilot, System]
    pool: Executor
    """Where flights are flown."""
    corpus: Corpus | None = None
    corpus_folder: str = ""
    device: str = "cpu"
    options: Mapping[Pilot, str] = field(default_factory=dict)
    """What to add to `pvn fly` where a pilot is not the package's, or flies elsewhere than on the CPU."""
    drawing: threading.Lock = field(default_factory=threading.Lock)
    """Held while a file is written: figures are drawn one at a time."""


class View(Protocol):
    """What a visitor sees."""

    def show_choice(self, choice: Choice) -> None:
        """The field, who flies, the segments to choose from, the instruction."""

    def show_menus(self, choice: Choice) -> None:
        """Who flies, and which segment; nothing else of the page changes."""

    def show_state(self, state: State, num_steps: int) -> None:
        """What can be done now; num_steps is how many there are to replay."""

    def show_step(self, shown: Shown, moves_slider: bool = True) -> None:
        """A step of the flight; one that the slider asked for must not move it, as it may be elsewhere by now."""

    def move_drone(self, pose_world: Floats) -> None:
        """Put the drone at a pose (6,), field frame, between two steps."""

    def say(self, text: str) -> None:
        """A line about what happens."""

    def warn(self, text: str) -> None:
        """A line about what cannot be done, and what can."""

    def share(self, command: str, is_edited: bool) -> None:
        """The command that repeats the flight."""

    def send_file(self, name: str, content: bytes) -> None:
        """A file to keep."""


class Visitor:
    """The state of one visitor. Methods are called from any thread, and return at once."""

    def __init__(self, view: View, house: House, seed: int) -> None:
        self._view, self._house = view, house
        self._lock = threading.RLock()
        self._presses = Presses()
        # What is asked for is done in this order, and never in a thread that others wait for.
        self._acts = ThreadPoolExecutor(1, thread_name_prefix="visitor")
        self._wanted: int | None = None
        self._told: str | None = None
        self._flight: Flight | None = None
        self.state: State = "choosing"
        self._speed = 2.0
        self.choice = choose(random_ground(seed), 0, "pvn")
        view.show_choice(self.choice)
        view.show_state(self.state, 0)
        self._introduce()

    def _share(self, choice: Choice) -> None:
        self._view.share(choice.command() + self._house.options.get(choice.pilot, ""), choice.is_edited)

    def _introduce(self) -> None:
        self._share(self.choice)
        if self.choice.is_edited:
            self._view.say("Your own arrangement: type what to do there, and press Fly.")
        else:
            self._view.say(f"This is {self.choice.ground.title}. Press Fly, or type something else to do first.")

    def _attempt(self, act: Callable[[], None]) -> None:
        """Do what a visitor asks for, after all that was asked for before."""
        try:
            with self._lock:
                if self.state == "gone":
                    return
                self._presses.check(time.monotonic())
                self._acts.submit(self._act, act)
        except ValueError as error:
            self._refuse(error)

    def _refuse(self, error: Exception) -> None:
        """Say what cannot be done; a menu that was to do it goes back to what is flown."""
        with self._lock:
            self._view.show_menus(self.choice)
        self._view.warn(str(error))

    def _act(self, act: Callable[[], None]) -> None:
        """Do it, unless it cannot be done, which is said."""
        try:
            if self.state == "flying":
                raise ValueError("The drone is flying; press Stop first, or wait until it has landed.")
            act()
        except (ValueError, OSError) as error:
            self._refuse(error)
        except Exception as error:
            LOG.exception("a visitor's request failed")
            self._view.warn(f"That failed here ({type(error).__name__}: {error}); try something else.")

    def _set(self, choice: Choice) -> None:
        """Another flight to be; what was flown is forgotten."""
        with self._lock:
            if self.state in ("gone", "flying"):
                return
            self._drop_flight()
            self.state, self.choice = "choosing", choice
        self._view.show_choice(choice)
        self._view.show_state("choosing", 0)
        self._introduce()

    def _drop_flight(self) -> None:
        if self._flight is not None:
            self._flight.is_cut.set()
        self._flight = None

    def go_to_seed(self, seed: int) -> None:
        """Another random field."""
        self._attempt(lambda: self._enter(lambda: (random_ground(seed), 0)))

    def go_to_segment(self, name: str) -> None:
        """The field of a segment of the corpus; of any segment where no name is given."""
        corpus = self._house.corpus
        if corpus is not None:
            name = name[:40] or random.choice(list(corpus)).id
            self._attempt(lambda: self._enter(lambda: corpus_ground(corpus, self._house.corpus_folder, name)))

    def _enter(self, find: Callable[[], tuple[Ground, int]]) -> None:
        self._view.say("Making the field …")
        ground, place = find()
        self._set(choose(ground, place, self.choice.pilot))

    def pick(self, place: int) -> None:
        """Another segment of the same field, which is put back as it was."""
        self._attempt(lambda: self._set(choose(self.choice.ground, place, self.choice.pilot)))

    def pick_pilot(self, pilot: Pilot) -> None:
        """Another pilot."""
        self._attempt(lambda: self._set(replace(self.choice, pilot=pilot)))

    def set_speed(self, speed: float) -> None:
        """How many times faster than the clock a flight is shown; 0 for as fast as it goes."""
        self._speed = speed

    def restore(self) -> None:
        """The field as it was before it was edited."""
        self._attempt(lambda: self._set(choose(self.choice.ground, self.choice.place, self.choice.pilot)))

    def move(self, index: int, x: float, y: float) -> None:
        """A landmark elsewhere; field frame, metres."""
        self._attempt(lambda: self._set(move_landmark(self.choice, index, x, y)))

    def add(self, name: str) -> None:
        """One landmark more."""
        self._attempt(lambda: self._set(add_landmark(self.choice, name)))

    def remove(self, index: int) -> None:
        """One landmark less."""
        self._attempt(lambda: self._set(remove_landmark(self.choice, index)))

    def tell(self, text: str) -> None:
        """Other words, not yet to be flown; while the drone flies, for the flight after it."""
        with self._lock:
            if self.state == "flying":
                self._told = text
            else:
                self.choice = retell(self.choice, text)

    def fly(self, text: str) -> None:
        """Fly as told."""
        self._attempt(lambda: self._take_off(text))

    def _take_off(self, text: str) -> None:
        choice = retell(self.choice, text)
        choice.check()
        system = self._house.systems[choice.pilot]
        with self._lock:
            if self.state in ("gone", "flying"):
                return
            self._drop_flight()
            self.state, self.choice, self._told = "flying", choice, None
            flight = Flight(choice, np.zeros((0, 0, 3)), system.config.step_seconds)
            self._flight = flight
        self._view.show_choice(choice)  # other words have no demonstration and no goal to show
        self._view.show_state("flying", 0)
        self._view.say("Taking off …")
        self._house.pool.submit(self._fly, flight, system)

    def stop(self) -> None:
        """End the flight that is on."""
        with self._lock:
            if self.state == "flying" and self._flight is not None:
                self._flight.is_cut.set()

    def leave(self) -> None:
        """End everything, for the visitor is gone."""
        with self._lock:
            self.state = "gone"
            self._drop_flight()
            self._acts.shutdown(wait=False, cancel_futures=True)

    def _fly(self, flight: Flight, system: System) -> None:
        choice, failure = flight.choice, ""
        try:
            flight.above = picture_of_field(choice.layout, HEAT_PX)
            recorded = fly_and_record(
                system,
                choice.task,
                has_goal=choice.has_goal,
                device=self._house.device,
                watch=lambda moment: self._watch(flight, moment),
            )
            # It is over before its end is shown: Stop, pressed meanwhile, only ends the showing.
            flight.end_world, flight.recorded = recorded.flown_world[-1], recorded
            self._glide(flight, len(flight.moments))
        except InterruptedError:
            LOG.debug("a visitor ended a flight")
        except Exception as error:
            LOG.exception("a flight failed")
            failure = f"The flight failed ({type(error).__name__}: {error}); try again, or choose another field."
        self._land(flight, failure)

    def _land(self, flight: Flight, failure: str) -> None:
        """Show the end of a flight, and what came of it; then others can be chosen."""
        # What failed may fail again if it is shown again.
        last = flight.shown(flight.num_places - 1) if flight.moments and not failure else None
        if flight.recorded is not None:
            words = describe(flight.recorded)
        else:
            words = "" if failure else f"You ended the flight after {len(flight.moments)} steps."
        with self._lock:
            if self.state == "gone" or self._flight is not flight:
                return
            self.state = "choosing" if last is None else "replaying"
            flight.is_cut.clear()
            if self._told is not None:
                self.choice = retell(self.choice, self._told)
            # Still under the lock, so that nothing is chosen before all this is shown.
            if last is not None:
                self._view.show_step(last)
            self._view.show_state(self.state, flight.num_places)
            self._view.say(words + self._unknown(flight.choice))
            self._share(flight.choice)
            if failure:
                self._view.warn(failure)

    def _watch(self, flight: Flight, moment: Moment) -> None:
        if flight.is_cut.is_set():
            raise InterruptedError
        flight.moments.append(moment)
        self._glide(flight, moment.step)

    def _glide(self, flight: Flight, index: int) -> None:
        """Show the way to a step, as fast as the visitor likes it, and then the step."""
        duration = flight.step_seconds / self._speed if self._speed else 0.0
        count = max(round(duration / FRAME_SECONDS), 1)
        for frame in range(1, count) if index else ():
            pose = between(flight.pose(index - 1), flight.pose(index), frame / count)
            self._draw(flight, partial(self._view.move_drone, pose))
            flight.is_cut.wait(duration / count)
        self._draw(flight, partial(self._view.show_step, flight.shown(index)))
        if self.state == "flying":
            self._view.say(f"Flying: step {index + 1}" + self._unknown(flight.choice))
        if flight.is_cut.wait(duration / count):
            raise InterruptedError

    def _draw(self, flight: Flight, draw: Callable[[], None]) -> None:
        """Draw something of a flight, unless it was cut: what was chosen since must not be drawn over."""
        with self._lock:
            if flight.is_cut.is_set():
                raise InterruptedError
            draw()

    def _unknown(self, choice: Choice) -> str:
        words = self.unknown_words(choice)
        return f"\n\nWords this pilot has never read, and will not heed: **{', '.join(words)}**" if words else ""

    def unknown_words(self, choice: Choice) -> list[str]:
        """Words of the instruction that the pilot does not know; none for one that does not read."""
        vocabulary = getattr(self._house.systems[choice.pilot].policy, "vocabulary", None)
        return [] if vocabulary is None else vocabulary.unknown_words(choice.instruction)

    def replay(self, index: int) -> None:
        """Show a step again; of many asked for at once, the last."""
        with self._lock:
            if self.state != "replaying" or self._flight is None or not 0 <= index < self._flight.num_places:
                return
            self._flight.is_cut.set()  # what is played again by itself ends
            self._wanted = index
            self._acts.submit(self._show_wanted)

    def _show_wanted(self) -> None:
        with self._lock:
            index, self._wanted = self._wanted, None
            flight = self._flight
        if index is not None and flight is not None and self.state == "replaying":
            self._view.show_step(flight.shown(index), moves_slider=False)

    def play(self) -> None:
        """Show the whole flight again."""
        with self._lock:
            if self.state != "replaying" or self._flight is None:
                return
            flight = self._flight
            flight.is_cut.set()  # an earlier replay ends
            again = replace(flight, is_cut=threading.Event())
            self._flight = again
        self._house.pool.submit(self._play, again)

    def _play(self, flight: Flight) -> None:
        try:
            for index in range(flight.num_places):
                self._glide(flight, index)
        except InterruptedError:
            return

    def save_field(self) -> None:
        """Send the field as an environment file, with which the shared command repeats a flight in an edited field."""
        self._attempt(lambda: self._save(FIELD_FILE, lambda path: write_layout(self.choice.layout, path)))

    def save_flight(self, suffix: str) -> None:
        """Send the flight as a picture (.png), a film (.mp4) or a recording (.rrd)."""
        self._attempt(lambda: self._save_flight(suffix))

    def _save_flight(self, suffix: str) -> None:
        recorded = None if self._flight is None else self._flight.recorded
        if recorded is None:
            raise ValueError("There is nothing to save yet: fly to the end first.")
        self._view.say(f"Writing the {suffix} file …")
        with self._house.drawing:
            self._save(f"flight{suffix}", lambda path: write_flight(recorded, path))
        self._view.say(describe(recorded))

    def _save(self, name: str, write: Callable[[Path], None]) -> None:
        with TemporaryDirectory() as folder:
            path = Path(folder) / name
            write(path)
            self._view.send_file(name, path.read_bytes())
