"""The page that figures for papers are drawn for: as large as they are printed, so that a point is a point on paper."""

from __future__ import annotations

from pvn.viz.drawn_text import quoted, wrapped
from pvn.viz.flight_record import FlightRecord

PAGE_INCHES = 17 / 2.54
FONT, LARGE_FONT = 7, 8
"""Points. Seven is the smallest that journals accept."""
CAPTION_LINES = 4
"""Of an instruction, at most."""
FIELD_PX = 480
"""Pixels across a picture of the field."""


def caption(record: FlightRecord) -> list[str]:
    """The instruction, in lines across the page, and how the flight ended."""
    said = wrapped(quoted(record.task.instruction), LARGE_FONT, 72 * (PAGE_INCHES - 0.3), CAPTION_LINES)
    return [*said, record.outcome]
