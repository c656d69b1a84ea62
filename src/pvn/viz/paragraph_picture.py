"""A picture of several instructions flown one after another: all paths on one field, and a row for each instruction."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure

from pvn.viz import palette
from pvn.viz.axes import draw_nose, draw_numbers, draw_path, draw_start, draw_top_down, start_arrow
from pvn.viz.drawn_text import as_typed, quoted, wrapped
from pvn.viz.drone_views import picture_note, views_at
from pvn.viz.flight_record import FlightRecord
from pvn.viz.saving import save_figure

CELLS = {1: (3, 2), 2: (2, 3), 3: (1, 3)}
"""Rows and columns of views of each flight, by the number of flights."""
CELLS_OF_MANY = (1, 4)
"""The same for more flights."""
WIDTH_INCHES, MIN_INCHES = 15.2, 7.6
FIELD_SHARE, METRES_PER_POINT, START_SIZE = 0.47, 0.115, 1.3
"""Of the picture's width; of the field, in the picture; and of the arrow at the start, metres."""
TITLE_FONT, TITLE_LINES = 10, 3
LINE_INCHES = 0.19


def _draw_field(axis: Axes, records: Sequence[FlightRecord]) -> None:
    """The field with all flights; a number where each ended."""
    start = records[0].task.start
    lines: list[npt.NDArray[Any]] = [start_arrow(start, START_SIZE)]
    lines += [record.flown_world[:, :2] for record in records]
    names = draw_top_down(axis, records[0].task.layout, metres_per_point=METRES_PER_POINT, avoided=lines)
    for record in records:
        label = "flown" if record is records[0] else "_nolegend_"
        draw_path(axis, record.flown_world[:, :2], palette.FLOWN, "-", label)
    draw_start(axis, start, size=START_SIZE)
    ends = np.stack([record.flown_world[-1] for record in records])
    for end in ends:
        draw_nose(axis, end)
    draw_numbers(axis, records[0].task.layout, ends, METRES_PER_POINT, names, lines)
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False)


def _title(number: int, record: FlightRecord, width_inches: float) -> list[str]:
    """What was to be done and how it ended, in lines of a row that is so wide."""
    said = wrapped(f"{number}. {quoted(record.task.instruction)}", TITLE_FONT, 72 * width_inches, TITLE_LINES)
    together = wrapped(f"{said[-1]}: {record.outcome}", TITLE_FONT, 72 * width_inches)
    return [*said[:-1], *together] if len(together) == 1 else [*said, record.outcome]


def _draw_row(row: SubFigure, title: Sequence[str], record: FlightRecord, cells: tuple[int, int]) -> None:
    """What was to be done, how it ended, and what the drone saw on the way: at the start first, at the end last."""
    text = "\n".join(title)
    row.suptitle(text, fontsize=TITLE_FONT, x=0.01, ha="left", **as_typed(text))
    rows, columns = cells
    if rows * columns > len(record.moments) + 1:  # a short flight has fewer views, in one row
        rows, columns = 1, min(columns, len(record.moments) + 1)
    steps = np.linspace(0, len(record.moments), rows * columns).round().astype(int).tolist()
    axes = np.ravel(row.subplots(rows, columns, squeeze=False))
    for cell, step, view in zip(axes, steps, views_at(record, steps), strict=True):
        cell.set_axis_off()
        cell.imshow(view, interpolation="lanczos")
        cell.set_title(f"{step * record.step_seconds:.1f} s", fontsize=8, loc="left", pad=2)


def draw_paragraph(path: Path, records: Sequence[FlightRecord]) -> None:
    """Write the picture of flights that follow each other in one field: all from above, and a row for each."""
    cells, width = CELLS.get(len(records), CELLS_OF_MANY), WIDTH_INCHES * (1 - FIELD_SHARE)
    titles = [_title(number, record, width - 0.3) for number, record in enumerate(records, start=1)]
    view_height = width / cells[1] * records[0].camera.height / records[0].camera.width
    heights = [cells[0] * (view_height + 0.22) + 0.1 + LINE_INCHES * len(title) for title in titles]
    figure = plt.figure(figsize=(WIDTH_INCHES, max(sum(heights), MIN_INCHES)), layout="constrained")
    above, right = np.ravel(figure.subfigures(1, 2, width_ratios=(FIELD_SHARE, 1 - FIELD_SHARE)))  # type: ignore[arg-type]
    _draw_field(above.subplots(), records)
    # Room that the rows do not need is left below them.
    spare = max(0.0, MIN_INCHES - sum(heights)) + 0.2
    rows = np.ravel(right.subfigures(len(records) + 1, 1, height_ratios=[*heights, spare]))
    for row, title, record in zip(rows, titles, records, strict=False):
        _draw_row(row, title, record, cells)
    note = picture_note(records[0].camera)
    rows[-1].text(0.01, 0.02, note, fontsize=8, color=palette.NOTE, ha="left", va="bottom")
    save_figure(figure, path)
