"""What a session shows, and where: the page of a visitor, or a stand-in for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from pvn.app.demo.flight_setup import FlightSetup
from pvn.app.demo.shown_flight import ShownFlight, ShownStep
from pvn.viz.flight_record import Floats

State = Literal["choosing", "flying", "replaying", "closed"]


class Display(Protocol):
    """Where a session is shown: the page, or a stand-in for it."""

    def show_setup(self, setup: FlightSetup, view: bytes, fills_box: bool) -> None:
        """Show the field, the menus and what the drone sees (a JPEG file); with fills_box, the instruction too."""

    def show_field(self, setup: FlightSetup) -> None:
        """Show the field, start and demonstration of a flight that begins, or is shown again; nothing is flown yet."""

    def show_examples(self, examples: Sequence[str]) -> None:
        """Show instructions to try."""

    def show_menus(self, setup: FlightSetup) -> None:
        """Show pilot and segment in their menus, and leave the rest as it is."""

    def show_state(self, state: State, num_positions: int) -> None:
        """Show what can be done now; num_positions is how many there are to replay."""

    def show_step(self, shown: ShownStep, moves_slider: bool = True) -> None:
        """Show a step of the flight. If the slider asked for it, leave the slider alone: it may have moved on."""

    def move_drone(self, pose_world: Floats) -> None:
        """Move the drone to a pose (6,), field frame, between two steps."""

    def show_touched(self, flight: ShownFlight) -> None:
        """Mark the landmarks that a flight went through or brushed."""

    def show_flights(self, flights: Sequence[ShownFlight], shown: int | None) -> None:
        """List what was said and flown; shown: the index of the flight that is shown."""

    def show_unknown(self, words: Sequence[str], read_as: Mapping[str, str]) -> None:
        """Mark words of what is being typed: those the pilot does not know, and those it reads as other words."""

    def show_status(self, text: str) -> None:
        """Show a line about what is going on, plain text."""

    def show_warning(self, text: str) -> None:
        """Show a line about what cannot be done, and what to do instead, plain text."""

    def show_command(self, command: str, needs_file: bool, link: str) -> None:
        """Show the command that repeats the flight (with needs_file, after downloading the field) and its link."""

    def send_file(self, name: str, content: bytes) -> None:
        """Send a file to download."""
