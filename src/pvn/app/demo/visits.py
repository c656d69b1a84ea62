"""Visits: each has a session and a page, which a visitor who reloads the page finds again."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from websockets.asyncio.server import ServerConnection

from pvn.app.demo.cameras import CameraMode
from pvn.app.demo.flight_setup import (
    MAX_FIELD_NUMBER,
    FlightSetup,
    add_landmark,
    remove_landmark,
    segment_setup,
)
from pvn.app.demo.page import LANDMARKS_BY_NOUN, SPEEDS, Page
from pvn.app.demo.session import Session, SharedState

KEY_LENGTHS = range(8, 65)
"""How many characters a visitor's key may have."""


@dataclass(eq=False)
class Visit:
    """One visitor's page and session."""

    page: Page
    session: Session
    link: str
    """The query with which it began."""
    left_at: float | None = None
    """When the panel was closed; None while it is open."""
    panel: ServerConnection | None = None
    """The connection of the panel that is open."""


def _choose_pilot(visit: Visit, name: str) -> None:
    if name not in visit.session.pilots:
        raise ValueError(f"pilot: got {name}, expected one of {visit.session.pilots}")
    visit.session.change(lambda setup: replace(setup.standing(), pilot=name))


def _choose_segment(visit: Visit, index: int) -> None:
    visit.session.change(lambda setup: segment_setup(setup.field, index, setup.pilot), fills_box=True)


def _add(visit: Visit, noun: str) -> None:
    name = LANDMARKS_BY_NOUN[noun]
    visit.session.change(lambda setup: add_landmark(setup, name))


def _remove(visit: Visit, index: int) -> None:
    visit.session.change(lambda setup: remove_landmark(setup, index))


def _show_camera(visit: Visit, mode: Any) -> None:
    if mode not in get_args(CameraMode):
        raise ValueError(f"camera: got {mode}, expected one of {get_args(CameraMode)}")
    visit.page.show_camera(mode)


def _set_speed(visit: Visit, name: str) -> None:
    visit.session.set_speed(SPEEDS[name])
    visit.page.show_speed(name)


ACTIONS: Mapping[str, Callable[[Visit, Any], None]] = {
    "fly": lambda visit, value: visit.session.fly(str(value)),
    "typed": lambda visit, value: visit.session.note_typed(str(value)),
    "stop": lambda visit, value: visit.session.stop(),
    "start again": lambda visit, value: visit.session.change(FlightSetup.start_again, fills_box=True),
    "replay": lambda visit, value: visit.session.replay(None if value is None else int(value)),
    "step": lambda visit, value: visit.session.show_again(int(value)),
    "pilot": lambda visit, value: _choose_pilot(visit, str(value)),
    "segment": lambda visit, value: _choose_segment(visit, int(value)),
    "field": lambda visit, value: visit.session.go_to_field(
        random.randrange(MAX_FIELD_NUMBER + 1) if value is None else int(value)
    ),
    "corpus segment": lambda visit, value: visit.session.go_to_segment(str(value or "")),
    "add": lambda visit, value: _add(visit, str(value)),
    "remove": lambda visit, value: _remove(visit, int(value)),
    "restore": lambda visit, value: visit.session.change(FlightSetup.unchanged, fills_box=True),
    "save field": lambda visit, value: visit.session.save_field(),
    "save flight": lambda visit, value: visit.session.save_flight(str(value)),
    "speed": lambda visit, value: _set_speed(visit, str(value)),
    "names": lambda visit, value: visit.page.show_names(bool(value)),
    "camera": lambda visit, value: _show_camera(visit, value),
}
"""What a panel may ask for: the "do" of its message, called with the message's "value"."""


def act(visit: Visit, text: str | bytes) -> bool:
    """Do what a message of the panel says; False for a message that our page never sends."""
    try:
        message = json.loads(text)
        ACTIONS[message["do"]](visit, message.get("value"))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return False
    return True


@dataclass(eq=False)
class Visits:
    """All visits, up to a limit."""

    limit: int
    grace_s: float
    """How long the visit of someone who has left is kept, seconds."""
    shared: SharedState
    open_link: Callable[[str], tuple[FlightSetup, tuple[str, ...]]]
    clock: Callable[[], float] = time.monotonic
    _visits: dict[str, Visit] = field(default_factory=dict)
    _num_entering: int = 0
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def find(self, key: str) -> Visit | None:
        """The visit with this key, if there is one."""
        with self._lock:
            return self._visits.get(key)

    @property
    def num_present(self) -> int:
        """Visitors whose page is open."""
        with self._lock:
            return sum(visit.left_at is None for visit in self._visits.values())

    def enter(self, key: str, link: str, panel: ServerConnection) -> Visit | None:
        """The visit of a visitor who opens the page: an earlier one, or a new one; None if all places are taken.

        link: the query of the page's address. An earlier visit continues if it shows what the link says, or has shown
        it.
        """
        if len(key) not in KEY_LENGTHS:
            raise ValueError(f"visitor: got a key of {len(key)} characters, expected 8 to 64")
        with self._lock:
            self.forget()
            visit = self._visits.get(key)
            if visit is not None and link != visit.link and not visit.page.has_shown(link):
                self._end(key)
                visit = None
            if visit is not None:
                visit.panel, visit.left_at = panel, None
                visit.page.detach_view()
                return visit
            if not self._has_room():
                self._make_room()
            if not self._has_room():
                return None
            self._num_entering += 1
        try:
            visit = self._begin(link)  # takes a while, in which others come and go
        finally:
            with self._lock:
                self._num_entering -= 1
        with self._lock:
            visit.panel = panel
            if key in self._visits:
                self._end(key)
            self._visits[key] = visit
        return visit

    def _begin(self, link: str) -> Visit:
        page = Page(tuple(self.shared.pilots), self.shared.corpus is not None)
        problem = ""
        try:
            setup, instructions = self.open_link(link)
        except (ValueError, OSError) as error:
            (setup, instructions), problem = self.open_link(""), str(error)
        session = Session(page, self.shared, setup)
        page.bind(session.change)
        if problem:
            page.show_warning(problem)
        session.fly_all(instructions)
        return Visit(page, session, link)

    def leave(self, key: str, panel: ServerConnection) -> None:
        """A visitor has closed the page; nothing happens if another page has taken the visit over."""
        with self._lock:
            visit = self._visits.get(key)
            if visit is not None and visit.panel is panel:
                visit.panel, visit.left_at = None, self.clock()
                visit.page.attach_panel(None)

    def _away(self) -> dict[str, float]:
        """When each visitor who is away left, by key."""
        return {key: visit.left_at for key, visit in self._visits.items() if visit.left_at is not None}

    def forget(self) -> bool:
        """End the visits of those who have been away for too long; whether there were any."""
        with self._lock:
            now = self.clock()
            over = [key for key, left_at in self._away().items() if now - left_at >= self.grace_s]
            for key in over:
                self._end(key)
            return bool(over)

    def _has_room(self) -> bool:
        return len(self._visits) + self._num_entering < self.limit

    def _make_room(self) -> None:
        """End the visit of whoever has been away longest."""
        away = self._away()
        if away:
            self._end(min(away, key=lambda key: away[key]))

    def _end(self, key: str) -> None:
        self._visits.pop(key).session.close()

    def end_all(self) -> None:
        """End all visits."""
        with self._lock:
            for key in list(self._visits):
                self._end(key)
