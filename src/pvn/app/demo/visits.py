"""Visits: each has a session and a page; a visitor who reloads the page finds both again."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast, get_args

from websockets.asyncio.server import ServerConnection

from pvn.app.demo.cameras import CameraMode
from pvn.app.demo.flight_setup import MAX_FIELD_NUMBER
from pvn.app.demo.link import OpenedLink
from pvn.app.demo.page import LANDMARKS_BY_NOUN, SPEEDS, Page
from pvn.app.demo.session import Session
from pvn.app.demo.setup_session import SharedState

MAX_KEY = 64
"""Characters of a visitor's key."""


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


def _camera_mode(value: Any) -> CameraMode:
    if value not in get_args(CameraMode):
        raise ValueError(f"camera: got {value}, expected one of {get_args(CameraMode)}")
    return cast(CameraMode, value)


def _set_speed(visit: Visit, name: str) -> None:
    visit.session.set_speed(SPEEDS[name])
    visit.page.show_speed(name)


ACTIONS: Mapping[str, Callable[[Visit, Any], None]] = {
    "fly": lambda visit, value: visit.session.fly(str(value)),
    "typed": lambda visit, value: visit.session.note_typed(str(value)),
    "stop": lambda visit, value: visit.session.stop(),
    "start again": lambda visit, value: visit.session.start_again(),
    "replay": lambda visit, value: visit.session.replay(None if value is None else int(value)),
    "step": lambda visit, value: visit.session.show_again(int(value)),
    "pilot": lambda visit, value: visit.session.choose_pilot(str(value)),
    "segment": lambda visit, value: visit.session.choose_segment(int(value)),
    "field": lambda visit, value: visit.session.go_to_field(
        random.randrange(MAX_FIELD_NUMBER + 1) if value is None else int(value)
    ),
    "corpus segment": lambda visit, value: visit.session.go_to_segment(str(value or "")),
    "add": lambda visit, value: visit.session.add_landmark(LANDMARKS_BY_NOUN[str(value)]),
    "remove": lambda visit, value: visit.session.remove_landmark(int(value)),
    "restore": lambda visit, value: visit.session.restore_field(),
    "save field": lambda visit, value: visit.session.save_field(),
    "save flight": lambda visit, value: visit.session.save_flight(str(value)),
    "speed": lambda visit, value: _set_speed(visit, str(value)),
    "names": lambda visit, value: visit.page.show_names(bool(value)),
    "camera": lambda visit, value: visit.page.show_camera(_camera_mode(value)),
}
"""What a panel may ask for: the "do" of its message, called with the message's "value"."""


def act(visit: Visit, text: str | bytes) -> bool:
    """Do what a message of the panel says; False if it makes no sense, as none of our page's does."""
    try:
        message = json.loads(text)
        ACTIONS[message["do"]](visit, message.get("value"))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return False
    return True


@dataclass(eq=False)
class Visits:
    """All visits, at most so many at a time."""

    limit: int
    grace_s: float
    """For this long a visitor who has left is waited for, seconds."""
    shared: SharedState
    open_link: Callable[[str], OpenedLink]
    clock: Callable[[], float] = time.monotonic
    _visits: dict[str, Visit] = field(default_factory=dict)
    _num_entering: int = 0
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def find(self, key: str) -> Visit | None:
        """The visit with this key, if there is one."""
        with self._lock:
            return self._visits.get(key)

    def has(self, key: str) -> bool:
        """Whether there is a visit with this key."""
        return self.find(key) is not None

    def all(self) -> list[Visit]:
        """All visits, also those of visitors who may come back."""
        with self._lock:
            return list(self._visits.values())

    @property
    def num_present(self) -> int:
        """Visitors whose page is open."""
        return sum(visit.left_at is None for visit in self.all())

    def enter(self, key: str, link: str, panel: ServerConnection) -> Visit | None:
        """The visit of a visitor who opens the page: the one that was left, or a new one; None if all are taken.

        link: the query of the page's address. A visit that was left is found again if it shows what the link says, or
        has shown it.
        """
        if not 8 <= len(key) <= MAX_KEY:
            raise ValueError(f"visitor: got a key of {len(key)} characters, expected 8 to {MAX_KEY}")
        with self._lock:
            self.forget()
            visit = self._visits.get(key)
            if visit is not None and link != visit.link and not visit.page.has_shown(link):
                self._end(key)
                visit = None
            if visit is not None:
                visit.panel, visit.left_at = panel, None
                visit.page.forget_view()
                return visit
            if len(self._visits) + self._num_entering >= self.limit:
                self._make_room()
            if len(self._visits) + self._num_entering >= self.limit:
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
            opened = self.open_link(link)
        except (ValueError, OSError) as error:
            opened, problem = self.open_link(""), str(error)
        session = Session(page, self.shared, opened.setup)
        page.bind(session)
        if problem:
            page.show_warning(problem)
        session.fly_all(opened.instructions)
        return Visit(page, session, link)

    def leave(self, key: str, panel: ServerConnection) -> None:
        """A visitor has closed the page; the visit is kept for a while, unless another page has taken it over."""
        with self._lock:
            visit = self._visits.get(key)
            if visit is not None and visit.panel is panel:
                visit.panel, visit.left_at = None, self.clock()
                visit.page.attach_panel(None)

    def forget(self) -> bool:
        """End the visits of those who have been away for too long; whether there were any."""
        with self._lock:
            now = self.clock()
            away = [(key, visit.left_at) for key, visit in self._visits.items() if visit.left_at is not None]
            over = [key for key, left_at in away if now - left_at >= self.grace_s]
            for key in over:
                self._end(key)
            return bool(over)

    def _make_room(self) -> None:
        """End the visit of whoever has been away longest."""
        away = {key: visit.left_at for key, visit in self._visits.items() if visit.left_at is not None}
        if away:
            self._end(min(away, key=lambda key: away[key]))

    def _end(self, key: str) -> None:
        self._visits.pop(key).session.close()

    def end_all(self) -> None:
        """End all visits."""
        with self._lock:
            for key in list(self._visits):
                self._end(key)
