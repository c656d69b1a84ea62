"""The page of one visitor: our panel, which gets JSON messages, and viser's 3D view; either may come, go and come back.

Everything that is shown is remembered, so that a reloaded page shows the same.
"""

from __future__ import annotations

import base64
import math
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import viser

from pvn.app.demo.cameras import CameraMode
from pvn.app.demo.door import Channel
from pvn.app.demo.field_view import Change, FieldView3D
from pvn.app.demo.flight_setup import MAX_FIELD_NUMBER, FlightSetup
from pvn.app.demo.pictures import decode, encode
from pvn.app.demo.shown_flight import ShownFlight, ShownStep
from pvn.viz import palette
from pvn.viz.flight_record import Floats
from pvn.viz.labels import place_names
from pvn.viz.pictures import EXTENT, REACH, as_bytes, field_from_above, in_muted_colours
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Layout
from pvn.world.shapes import solid_extent
from pvn.world.task import MAX_CHARACTERS, SUCCESS_M

State = Literal["choosing", "flying", "replaying", "closed"]

SPEEDS = {"real time": 1.0, "2 x": 2.0, "4 x": 4.0, "as fast as possible": 0.0}
DEFAULT_SPEED = "2 x"
MAX_LINKS = 100
"""Links that a page remembers having shown."""
LANDMARKS_BY_NOUN = {kind.noun: name for name, kind in sorted(LANDMARK_CLASSES.items(), key=lambda item: item[1].noun)}
FIELD_PX = 424
"""Width of the field under the predictions in the panel, pixels."""
NAME_M = 2.0
"""Font size of landmarks' names on the maps, metres of the field."""
COLOURS = {
    "trajectory": palette.PREDICTED_TRAJECTORY, "goal": palette.GOAL, "flown": palette.FLOWN,
    "demonstrated": palette.DEMONSTRATED, "stop": palette.STOP_PROBABILITY, "speed": palette.SPEED,
    "touched": palette.TOUCHED,
}  # fmt: skip


def _picture(content: bytes) -> str:
    """A JPEG or PNG file as an address that a browser can show."""
    kind = "png" if content.startswith(b"\x89PNG") else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def _curve(values: Floats) -> list[float | None]:
    """Values for JSON, which has no NaN."""
    return [None if math.isnan(value) else round(value, 3) for value in values.tolist()]


class Page:
    """What one visitor sees. Methods may be called from any thread."""

    def __init__(self, pilots: Sequence[str], has_corpus: bool) -> None:
        self._lock = threading.RLock()
        self._messages: dict[str, dict[str, Any]] = {}
        self._links: deque[str] = deque(maxlen=MAX_LINKS)
        self._channel: Channel | None = None
        self._view: FieldView3D | None = None
        self._change: Change = lambda edit: None
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
            colours=COLOURS,
        )
        self._send("camera", mode=self._camera)
        self.show_speed(DEFAULT_SPEED)

    def bind(self, change: Change) -> None:
        """From now on, call this with what the visitor moves in the 3D view."""
        self._change = change

    def _send(self, kind: str, **content: Any) -> None:
        with self._lock:
            if kind not in ("file", "view"):  # a reloaded page must not get these again
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
        # All at once, so that a browser that draws slowly draws it once.
        with self._lock, client.atomic():
            view = self._view = FieldView3D(client, self._change)
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

    def detach_view(self, client: viser.ClientHandle | None = None) -> None:
        """The visitor has closed this 3D view, or reloaded the page (None); another view may be there already."""
        with self._lock:
            if self._view is not None and client in (None, self._view.client):
                self._view = None

    def _in_view(self, draw: Callable[[FieldView3D], None]) -> None:
        with self._lock:
            if self._view is not None:
                draw(self._view)

    def show_setup(self, setup: FlightSetup, view: bytes, fills_box: bool) -> None:
        """Show the field, the menus and what the drone sees (a JPEG file); with fills_box, the instruction too."""
        self.show_menus(setup)
        self.show_field(setup)
        self._send("sees", image=_picture(view), maps=None, predictions=None, is_start=True)
        if fills_box:
            self._send("box", text=setup.instruction)

    def show_menus(self, setup: FlightSetup) -> None:
        """Show pilot and segment in their menus, and everything that was moved where it is set up."""
        self._send(
            "setup",
            title=setup.field.title,
            pilot=setup.pilot,
            field=setup.field.number,
            segments=[segment.task.instruction for segment in setup.field.segments],
            segment=setup.segment_index,
            segment_id=setup.segment.id if setup.field.is_from_corpus else "",
            is_edited=setup.is_edited,
        )
        if self._layout is setup.layout:
            self._in_view(lambda view: view.put_back(setup))

    def show_field(self, setup: FlightSetup) -> None:
        """Show field, start and demonstration of a flight that begins, or is shown again; nothing is flown yet."""
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
        # Measured at ten times the size, since letters have whole pixels.
        names = [
            {"text": name.text, "x": round(name.place.x, 2), "y": round(name.place.y, 2)}
            for name in place_names(layout, 0.1, 10 * NAME_M)
        ]
        above = as_bytes(in_muted_colours(field_from_above(layout, FIELD_PX)))
        self._send("layout", landmarks=marks, names=names, picture=_picture(encode(above)))

    def show_examples(self, examples: Sequence[str]) -> None:
        """Show instructions to try."""
        self._send("examples", examples=list(examples))

    def show_state(self, state: State, num_positions: int) -> None:
        """Show what can be done now; num_positions: how many there are to replay."""
        with self._lock:
            self._state = state
            if state == "flying":
                self._messages["box"] = {"text": ""}  # the panel has emptied it already
            self._in_view(lambda view: view.show_flying(state == "flying"))
        self._send("state", state=state, num_positions=num_positions)
        self._send("warning", text="")

    @staticmethod
    def _show_step_in_view(view: FieldView3D, shown: ShownStep) -> None:
        stored = shown.stored
        view.show_pose(shown.pose_world)
        view.show_path(shown.flown)
        view.show_predictions(None if stored.predictions is None else decode(stored.predictions))
        view.show_image(decode(stored.image))

    def show_step(self, shown: ShownStep, moves_slider: bool = True) -> None:
        """Show a step. If the slider asked for it, the slider stays: it may have moved on."""
        stored = shown.stored
        with self._lock:
            self._step = shown
            self._in_view(lambda view: self._show_step_in_view(view, shown))
        self._send(
            "sees",
            image=_picture(stored.image),
            maps=None if stored.maps is None else [_picture(picture) for picture in stored.maps],
            predictions=None if stored.predictions is None else _picture(stored.predictions),
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
        """Move the drone to a pose (6,), field frame, between two steps."""
        self._in_view(lambda view: view.show_pose(pose_world))

    def show_touched(self, flight: ShownFlight) -> None:
        """Mark the landmarks that a flight went through or brushed."""
        with self._lock:
            self._flight = flight
            self._in_view(lambda view: view.show_touched(flight.touched))

    def show_flights(self, flights: Sequence[ShownFlight], shown: int | None) -> None:
        """List what was said and flown; shown: the index of the flight that is shown."""
        listed = [
            {"said": flight.setup.instruction, "words": flight.words, "has_touched": bool(flight.touched)}
            for flight in flights
        ]
        self._send("flights", flights=listed, shown=shown)

    def show_unknown(self, words: Sequence[str], read_as: Mapping[str, str]) -> None:
        """Mark words of what is being typed: unknown ones, and those that are read as other words."""
        self._send("unknown", words=list(words), read_as=dict(read_as))

    def show_status(self, text: str) -> None:
        """Show a line about what is going on, plain text."""
        self._send("status", text=text)
        self._send("warning", text="")

    def show_warning(self, text: str) -> None:
        """Show a line about what cannot be done, and what to do instead, plain text."""
        self._send("warning", text=text)

    def show_command(self, command: str, needs_file: bool, link: str) -> None:
        """Show the command that repeats the flight (with needs_file, after downloading the field) and its link."""
        with self._lock:
            self._links.append(link)
            self._send("command", command=command, needs_file=needs_file, link=link)

    def has_shown(self, link: str) -> bool:
        """Whether this link is or was shown: a page that was away while a flight ended asks for an earlier link."""
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
