"""A picture of several instructions flown one after another: all paths on one field, and a row for each instruction."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure

from pvn.viz import palette
from pvn.viz.axes import draw_path, draw_start, draw_top_down, number_in_circle
from pvn.viz.drawn_text import quoted
from pvn.viz.flight_record import FlightRecord, spread_evenly
from pvn.viz.saving import save_figure

CELLS = {1: (2, 2), 2: (2, 2), 3: (1, 3)}
"""Rows and columns of camera pictures for each flight, by the number of flights."""
CELLS_OF_MANY = (1, 4)
"""The same for more flights."""
ROW_INCHES, MIN_INCHES = 1.75, 7.2
TITLE_WIDTH = 96
"""Characters in a line above a row."""


def _draw_field(axis: Axes, records: Sequence[FlightRecord]) -> None:
    """The field with all flights; a number where each ended."""
    draw_top_down(axis, records[0].task.layout)
    for number, record in enumerate(records, start=1):
        flown = record.flown_world
        draw_path(axis, flown[:, :2], palette.FLOWN, "-", "flown" if number == 1 else "_nolegend_")
        number_in_circle(axis, flown[-1], number)
    draw_start(axis, records[0].task.start)
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False)


def _draw_row(row: SubFigure, number: int, record: FlightRecord, cells: tuple[int, int]) -> None:
    """What was to be done, how it ended, and what the drone saw on the way."""
    title = textwrap.fill(f"{number}   {quoted(record.task.instruction)}   {record.outcome}", TITLE_WIDTH)
    row.suptitle(title, fontsize=10, x=0.01, ha="left", parse_math=False)
    axes = np.ravel(row.subplots(*cells))
    for cell in axes:
        cell.set_axis_off()
    for cell, moment in zip(axes, spread_evenly(record.moments, len(axes)), strict=False):
        cell.imshow(moment.image, interpolation="lanczos")
        cell.set_title(f"{moment.step * record.step_seconds:.1f} s", fontsize=8, loc="left", pad=2)


def draw_paragraph(path: Path, records: Sequence[FlightRecord]) -> None:
    """Write the picture of flights that follow each other in one field: all from above, and a row for each."""
    lines = [len(quoted(record.task.instruction)) // TITLE_WIDTH + 1 for record in records]
    heights = [ROW_INCHES + 0.18 * count for count in lines]
    figure = plt.figure(figsize=(15.2, max(sum(heights), MIN_INCHES)), layout="constrained")
    above, right = np.ravel(figure.subfigures(1, 2, width_ratios=(1, 1.12)))  # type: ignore[arg-type]
    _draw_field(above.subplots(), records)
    rows = np.ravel(right.subfigures(len(records), 1, height_ratios=heights))
    for number, (row, record) in enumerate(zip(rows, records, strict=True), start=1):
        _draw_row(row, number, record, CELLS.get(len(records), CELLS_OF_MANY))
    save_figure(figure, path)
