"""The page of one visitor: our panels, which are sent JSON, around viser's 3D view; either may come, go and come back.

Everything that is shown is remembered, so that a page that was reloaded shows the same.
"""

from __future__ import annotations

import base64
import math
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import viser

from pvn.app.demo.cameras import CameraMode
from pvn.app.demo.channel import Channel
from pvn.app.demo.display import State
from pvn.app.demo.field_view import FieldView3D, Hands
from pvn.app.demo.flight_setup import MAX_FIELD_NUMBER, FlightSetup
from pvn.app.demo.pictures import decode, encode
from pvn.app.demo.shown_flight import ShownFlight, ShownStep
from pvn.viz import palette
from pvn.viz.flight_record import Floats
from pvn.viz.pictures import EXTENT, REACH, as_bytes, field_from_above, in_muted_colours
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Layout
from pvn.world.shapes import solid_extent
from pvn.world.task import MAX_CHARACTERS, SUCCESS_M

if TYPE_CHECKING:
    from pvn.app.demo.session import Session

SPEEDS = {"real time": 1.0, "2 x": 2.0, "4 x": 4.0, "as fast as possible": 0.0}
DEFAULT_SPEED = "2 x"
MAX_LINKS = 100
"""How many of the links that a page has shown are remembered."""
LANDMARKS_BY_NOUN = {kind.noun: name for name, kind in sorted(LANDMARK_CLASSES.items(), key=lambda item: item[1].noun)}
FIELD_PX = 424
"""Across the picture of the field under the predictions in the panel."""


def _picture(content: bytes) -> str:
    """A JPEG or PNG file as an address that a browser can show."""
    kind = "png" if content.startswith(b"\x89PNG") else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def _curve(values: Floats) -> list[float | None]:
    """Values for JSON, which has no NaN."""
    return [None if math.isnan(value) else round(value, 3) for value in values.tolist()]


class Page:
    """What one visitor sees; `bind` tells it whose hands move things in the 3D view."""

    def __init__(self, pilots: Sequence[str], has_corpus: bool) -> None:
        self._lock = threading.RLock()
        self._messages: dict[str, dict[str, Any]] = {}
        self._links: deque[str] = deque(maxlen=MAX_LINKS)
        self._channel: Channel | None = None
        self._view: FieldView3D | None = None
        self._session: Session | None = None
        self._layout: Layout | None = None
        self._setup: FlightSetup | None = None
        self._step: ShownStep | None = None
        self._flight: ShownFlight | None = None
        self._state: State = "choosing"
        self._camera: CameraMode = "overview"
        self._has_names = True
        self._send(
            "menus",
            pilots=list(pilots),
            has_corpus=has_corpus,
            max_field=MAX_FIELD_NUMBER,
            max_characters=MAX_CHARACTERS,
            speeds=list(SPEEDS),
            landmarks=list(LANDMARKS_BY_NOUN),
            success_m=SUCCESS_M,
            extent=EXTENT,
            south_west=REACH[0],
            colours={
                "trajectory": palette.PREDICTED_TRAJECTORY, "goal": palette.GOAL, "flown": palette.FLOWN,
                "demonstrated": palette.DEMONSTRATED, "stop": palette.STOP_PROBABILITY, "speed": palette.SPEED,
                "touched": palette.TOUCHED,
            },
        )  # fmt: skip

        self._send("camera", mode=self._camera)
        self.show_speed(DEFAULT_SPEED)

    def bind(self, session: Session) -> None:
        """Tell this session what the visitor moves from now on."""
        self._session = session

    def _send(self, kind: str, **content: Any) -> None:
        with self._lock:
            if kind not in ("file", "view"):  # which a page that was reloaded must not be told again
                self._messages[kind] = content
            if self._channel is not None:
                self._channel.send(kind, content)

    def attach_panel(self, channel: Channel | None) -> None:
        """Show everything in this panel from now on; None: the visitor has closed it."""
        with self._lock:
            self._channel = channel
            if channel is not None:
                for kind, content in self._messages.items():
                    channel.send(kind, content)
                if self._view is not None:  # it was quicker
                    channel.send("view", {"is_ready": True})

    def attach_view(self, client: viser.ClientHandle) -> None:
        """Show everything in this 3D view from now on."""
        session = self._session
        assert session is not None
        hands = Hands(session.move_landmark, session.turn_landmark, session.move_start, session.turn_start)
        # All at once, so that a browser that draws slowly draws it once.
        with self._lock, client.atomic():
            view = self._view = FieldView3D(client, hands)
            view.show_names(self._has_names)
            view.show_camera(self._camera)
            if self._layout is not None and self._setup is not None:
                view.show_layout(self._layout)
                view.show_setup(self._setup)
            if self._step is not None:
                self._show_step_in_view(view, self._step)
            view.show_flying(self._state == "flying")
            if self._flight is not None:
                view.show_touched(self._flight.touched)
        client.flush()
        self._send("view", is_ready=True)

    def forget_view(self) -> None:
        """The page was reloaded: another 3D view will come."""
        with self._lock:
            self._view = None

    def detach_view(self, client: viser.ClientHandle) -> None:
        """The visitor has closed this 3D view; a reloaded page may have another one already."""
        with self._lock:
            if self._view is not None and self._view.client is client:
                self._view = None

    def _in_view(self, draw: Callable[[FieldView3D], None]) -> None:
        with self._lock:
            if self._view is not None:
                draw(self._view)

    def show_setup(self, setup: FlightSetup, view: bytes, fills_box: bool) -> None:
        """Show the field, the menus and what the drone sees; with fills_box, the instruction too."""
        self.show_menus(setup)
        self.show_field(setup)
        self._send("sees", image=_picture(view), maps=None, predictions=None, is_start=True)
        if fills_box:
            self._send("box", text=setup.instruction)

    def show_menus(self, setup: FlightSetup) -> None:
        """Show pilot and segment in their menus, and everything that was moved where it is set up."""
        segments = [segment.task.instruction for segment in setup.field.segments]
        self._send(
            "setup",
            title=setup.field.title,
            pilot=setup.pilot,
            field=setup.field.number,
            segments=segments,
            segment=setup.segment_index,
            segment_id=setup.segment.id if setup.field.is_from_corpus else "",
            is_edited=setup.is_edited,
        )
        if self._layout is setup.layout:
            self._in_view(lambda view: view.put_back(setup))

    def show_field(self, setup: FlightSetup) -> None:
        """Show field, start and demonstration; nothing is flown yet."""
        with self._lock:
            self._setup, self._step, self._flight = setup, None, None
            if self._layout is not setup.layout:
                self._layout = setup.layout
                self._in_view(lambda view: view.show_layout(setup.layout))
                self._send_layout(setup.layout)
            self._in_view(lambda view: view.show_setup(setup))
        goal = None if setup.demonstrated is None else setup.demonstrated[-1].round(2).tolist()
        self._send("drone", pose=[round(part, 3) for part in setup.start], path=[], goal=goal)

    def _send_layout(self, layout: Layout) -> None:
        marks = [
            {
                "noun": LANDMARK_CLASSES[mark.name].noun, "x": round(mark.x, 2), "y": round(mark.y, 2),
                "radius": round(mark.scale * solid_extent(mark.name), 2),
            }
            for mark in layout.landmarks
        ]  # fmt: skip
        above = as_bytes(in_muted_colours(field_from_above(layout, FIELD_PX)))
        self._send("layout", landmarks=marks, picture=_picture(encode(above)))

    def show_examples(self, examples: Sequence[str]) -> None:
        """Show instructions to try."""
        self._send("examples", examples=list(examples))

    def show_state(self, state: State, num_positions: int) -> None:
        """Show what can be done now; num_positions is how many there are to replay."""
        with self._lock:
            self._state = state
            if state == "flying":
                self._messages["box"] = {"text": ""}  # the panel has emptied it already
            self._in_view(lambda view: view.show_flying(state == "flying"))
        self._send("state", state=state, num_positions=num_positions)
        self._send("warning", text="")

    @staticmethod
    def _show_step_in_view(view: FieldView3D, shown: ShownStep) -> None:
        kept = shown.kept
        view.show_pose(shown.pose_world)
        view.show_path(shown.flown)
        view.show_predictions(None if kept.predictions is None else decode(kept.predictions))
        view.show_image(decode(kept.image))

    def show_step(self, shown: ShownStep, moves_slider: bool = True) -> None:
        """Show a step of the flight on the whole page."""
        kept = shown.kept
        with self._lock:
            self._step = shown
            self._in_view(lambda view: self._show_step_in_view(view, shown))
        self._send(
            "sees",
            image=_picture(kept.image),
            maps=None if kept.maps is None else [_picture(picture) for picture in kept.maps],
            predictions=None if kept.predictions is None else _picture(kept.predictions),
            is_start=False,
        )
        self._send(
            "step",
            index=shown.index,
            num_positions=shown.num_positions,
            moves_slider=moves_slider,
            seconds=_curve(shown.seconds),
            speeds=_curve(shown.speeds),
            stops=_curve(shown.stop_probabilities),
            pose=np.round(shown.pose_world[[0, 1, 5]], 2).tolist(),
            path=np.round(shown.flown, 2).tolist(),
        )

    def move_drone(self, pose_world: Floats) -> None:
        """Move the drone to a pose (6,), field frame."""
        self._in_view(lambda view: view.show_pose(pose_world))

    def show_touched(self, flight: ShownFlight) -> None:
        """Mark the landmarks that a flight went through or brushed."""
        with self._lock:
            self._flight = flight
            self._in_view(lambda view: view.show_touched(flight.touched))

    def show_flights(self, flights: Sequence[ShownFlight], shown: int | None) -> None:
        """List what was said and flown."""
        listed = [
            {"said": flight.setup.instruction, "words": flight.words, "is_success": flight.is_success,
             "has_touched": bool(flight.touched)}
            for flight in flights
        ]  # fmt: skip
        self._send("flights", flights=listed, shown=shown)

    def show_unknown(self, words: Sequence[str], read_as: Mapping[str, str]) -> None:
        """Mark words of what is being typed: unknown ones, and those that are read as other words."""
        self._send("unknown", words=list(words), read_as=dict(read_as))

    def show_status(self, text: str) -> None:
        """Show a line about what is going on, plain text."""
        self._send("status", text=text)
        self._send("warning", text="")

    def show_warning(self, text: str) -> None:
        """Show a line about what cannot be done, plain text."""
        self._send("warning", text=text)

    def show_command(self, command: str, needs_file: bool, link: str) -> None:
        """Show the command that repeats the flight, and the link that does."""
        with self._lock:
            self._links.append(link)
            self._send("command", command=command, needs_file=needs_file, link=link)

    def has_shown(self, link: str) -> bool:
        """Whether this link is shown or was: a page that is away when a flight lands comes back with the one before."""
        with self._lock:
            return link in self._links

    def show_camera(self, mode: CameraMode) -> None:
        """Look at the field from another place."""
        with self._lock:
            self._camera = mode
            self._in_view(lambda view: view.show_camera(mode))
        self._send("camera", mode=mode)

    def show_names(self, is_shown: bool) -> None:
        """Show or hide the names of the landmarks."""
        with self._lock:
            self._has_names = is_shown
            self._in_view(lambda view: view.show_names(is_shown))
        self._send("names", is_shown=is_shown)

    def show_speed(self, name: str) -> None:
        """Show the chosen speed, one of SPEEDS."""
        self._send("speed", name=name)

    def send_file(self, name: str, content: bytes) -> None:
        """Send a file to download."""
        self._send("file", name=name, content=base64.b64encode(content).decode())
