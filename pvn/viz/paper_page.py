"""The page that figures for papers are drawn for: as large as they are printed, so that a point is a point on paper."""

from __future__ import annotations

import textwrap

from pvn.viz.drawn_text import quoted
from pvn.viz.flight_record import FlightRecord

PAGE_INCHES = 17 / 2.54
FONT, LARGE_FONT = 7, 8
"""Points. Seven is the smallest that journals accept."""
LINE_CHARACTERS = 100
"""Characters per line across the page, in the large font."""
FIELD_PX = 480
"""Pixels across a picture of the field."""


def caption(record: FlightRecord, width: int = LINE_CHARACTERS) -> list[str]:
    """The instruction, in lines of at most `width` characters, and how the flight ended."""
    return [*textwrap.wrap(quoted(record.task.instruction), width), record.outcome]
