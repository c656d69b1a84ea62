"""Figures for papers: how PVN's predictions change during a flight, and galleries of flights (the paper's 4 and 5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from pvn.paths import Points
from pvn.viz import palette
from pvn.viz.axes import (
    add_legend,
    draw_drone,
    draw_goal_region,
    draw_names,
    draw_path,
    draw_picture,
    draw_start,
    goal_circle,
    path_handles,
    prediction_handles,
    start_arrow,
)
from pvn.viz.drawn_text import as_typed, quoted, wrapped
from pvn.viz.field_views import EXTENT, REACH, field_from_above, in_grey
from pvn.viz.flight_record import FlightRecord, path_end, predicted_moments, spread_evenly
from pvn.viz.labels import Rectangle
from pvn.viz.map_pictures import map_ranges, overlay_predictions, prediction_heat, semantic_picture
from pvn.viz.paper_page import FIELD_PX, FONT, LARGE_FONT, PAGE_INCHES, caption
from pvn.viz.saving import save_for_paper
from pvn.world.task import SUCCESS_M, Task, distinct_layouts

NUM_PREDICTIONS = 4
"""Predictions shown of a flight, the first and the last among them."""
GALLERY_COLUMNS = 3
"""Wide enough for the names of landmarks."""
GALLERY_LINES = 4
"""Of an instruction above a flight, at most."""
GALLERY_START = 2.2
"""Of the arrow at the start, metres."""
NAME_LETTERS = 13
"""Of a line of a landmark's name, at most."""
LABEL_SIZE = (0.35, 0.09)
"""Width and height of the label in a corner of a gallery's picture, with room around it, as shares of the picture."""


@dataclass(frozen=True, eq=False)
class GalleryFlight:
    """A flight of a gallery."""

    task: Task
    points: npt.NDArray[np.float32]
    """(T + 1, 2): where it was, field frame."""
    has_stopped: bool
    demonstrated: Points | None = None
    """The demonstrated path (P, 2), field frame; None for a typed instruction."""

    @property
    def goal(self) -> tuple[float, float] | None:
        """Where it should end (x, y), field frame, if it was demonstrated."""
        return path_end(self.demonstrated)

    @property
    def is_success(self) -> bool | None:
        """Whether it stopped near its goal, if there is one."""
        return None if self.goal is None else self.has_stopped and math.dist(self.points[-1], self.goal) < SUCCESS_M


def _draw_paths(axis: Axes, flight: GalleryFlight, *, width: float = 2.0, start_size: float = GALLERY_START) -> None:
    """The flown path, `width` points wide, and its start; with a demonstration, its path and the goal region."""
    draw_path(axis, flight.points, palette.FLOWN, "-", "flown", width=width, edge=0.8)
    if flight.demonstrated is not None and flight.goal is not None:
        # Over the flown path, which shows between the dashes where the two coincide.
        draw_path(axis, flight.demonstrated, palette.DEMONSTRATED, "--", "demonstrated", width=width / 2, edge=0.5)
        draw_goal_region(axis, flight.goal)
    draw_start(axis, flight.task.start, size=start_size, edge=0.6)


def _lines(flight: GalleryFlight) -> list[npt.NDArray[Any]]:
    """What labels should not hide: the paths, the arrow at the start, the goal region; points (P, 2) of each."""
    lines: list[npt.NDArray[Any]] = [flight.points, start_arrow(flight.task.start, GALLERY_START)]
    if flight.demonstrated is not None and flight.goal is not None:
        lines += [flight.demonstrated, goal_circle(flight.goal)]
    return lines


def _draw_names(axis: Axes, flight: GalleryFlight, width_inches: float, corner: tuple[int, int]) -> None:
    """The names of landmarks for which there is room, in a picture so wide; not in the corner of the outcome."""
    width, height = (share * EXTENT for share in LABEL_SIZE)
    x, y = (REACH[0] + at * EXTENT + (1 - 2 * at) * size / 2 for at, size in zip(corner, (width, height), strict=True))
    draw_names(
        axis, flight.task.layout, EXTENT / (72 * width_inches), _lines(flight),
        font=FONT, taken=[Rectangle(x, y, width, height)], line_letters=NAME_LETTERS,
    )  # fmt: skip


def _draw_evolution(cells: Sequence[Axes], record: FlightRecord) -> None:
    """One flight: the field with both paths, successive predictions, the last semantic map."""
    task = record.task
    above = field_from_above(task.layout, FIELD_PX)
    draw_picture(cells[0], above, "field", font=FONT)
    flight = GalleryFlight(task, record.flown_world[:, :2], record.has_stopped, record.demonstrated)
    _draw_paths(cells[0], flight, width=1.3, start_size=2.6)
    shown = spread_evenly(predicted_moments(record), NUM_PREDICTIONS)
    for cell in cells[1 + len(shown) : -1]:  # another flight in the figure has more
        cell.set_axis_off()
        cell.text(0.5, 0.5, "no further\nprediction", fontsize=FONT, color=palette.NOTE, ha="center", va="center")
    for cell, moment in zip(cells[1:], shown, strict=False):
        assert moment.maps is not None
        heat = prediction_heat(moment.maps, task.start, FIELD_PX)
        title = f"{moment.step * record.step_seconds:.0f} s"
        draw_picture(cell, overlay_predictions(in_grey(above), heat), title, font=FONT)
        draw_drone(cell, moment.pose_world)
    last, ranges = record.moments[-1].maps, map_ranges(record.moments)
    assert last is not None and ranges is not None
    draw_picture(cells[-1], semantic_picture(last, ranges, task.start, FIELD_PX), "semantic map", font=FONT)


def draw_evolutions(path: Path, flights: Sequence[FlightRecord]) -> None:
    """Write a figure with a row for each flight: the field with both paths, successive predictions, semantic map."""
    most = max(len(predicted_moments(record)) for record in flights)
    columns = min(most, NUM_PREDICTIONS) + 2
    captions = [caption(record) for record in flights]
    heights = [PAGE_INCHES / columns + 0.19 + 0.155 * len(lines) for lines in captions]
    figure = plt.figure(figsize=(PAGE_INCHES, sum(heights) + 0.28), layout="constrained")
    rows = np.ravel(figure.subfigures(len(flights), 1, height_ratios=heights))  # type: ignore[arg-type]
    for record, row, lines in zip(flights, rows, captions, strict=True):
        _draw_evolution(row.subplots(1, columns), record)
        text = "\n".join(lines)
        row.suptitle(text, fontsize=LARGE_FONT, **as_typed(text))
    has_goals = any(record.demonstrated is not None for record in flights)
    add_legend(figure, [*path_handles(has_goals=has_goals), *prediction_handles()], font=FONT)
    save_for_paper(figure, path)


def _free_corner(points: npt.NDArray[np.floating]) -> tuple[int, int]:
    """The first corner, (0, 0) to (1, 1), in which a label hides none of the points (P, 2), field frame."""
    share = (points - REACH[0]) / EXTENT
    corners = [(0, 0), (1, 0), (0, 1), (1, 1)]
    is_free = [not (np.abs(share - corner) < LABEL_SIZE).all(1).any() for corner in corners]
    return corners[is_free.index(True)] if any(is_free) else corners[0]


def _label_outcome(axis: Axes, flight: GalleryFlight, corner: tuple[int, int]) -> None:
    """A frame, and a label in a corner: reached, missed, or never stopped."""
    if flight.is_success is None:
        words, colour = "stopped", palette.OUTLINE
    else:
        words, colour = ("reached", palette.REACHED) if flight.is_success else ("missed", palette.MISSED)
        for spine in axis.spines.values():
            spine.set(color=colour, linewidth=1.6)
    words = words if flight.has_stopped else "never stopped"
    right, top = corner
    axis.text(
        0.97 if right else 0.03, 0.97 if top else 0.03, words, transform=axis.transAxes, color="white", fontsize=FONT,
        ha="right" if right else "left", va="top" if top else "bottom", zorder=9,
        bbox={"boxstyle": "square,pad=0.25", "facecolor": colour, "edgecolor": "none"},
    )  # fmt: skip


def draw_gallery(path: Path, flights: Sequence[GalleryFlight]) -> None:
    """Write a sheet of flights from above, three in a row: names, both paths, goal, instruction, outcome."""
    layouts, places = distinct_layouts([flight.task for flight in flights])
    pictures = [field_from_above(layout, FIELD_PX) for layout in layouts]
    columns = min(GALLERY_COLUMNS, len(flights))
    width = PAGE_INCHES * max(columns, 2) / GALLERY_COLUMNS  # the legend is as wide as two flights
    captions = [
        wrapped(quoted(flight.task.instruction), FONT, 70 * width / columns, GALLERY_LINES) for flight in flights
    ]
    sheet = list(zip(flights, places, captions, strict=True))
    rows = [sheet[begin : begin + columns] for begin in range(0, len(sheet), columns)]
    heights = [width / columns + 0.02 + 0.125 * max(len(lines) for _, _, lines in row) for row in rows]
    figure = plt.figure(figsize=(width, sum(heights) + 0.28), layout="constrained")
    parts = np.ravel(figure.subfigures(len(rows), 1, height_ratios=heights))  # type: ignore[arg-type]
    for part, row in zip(parts, rows, strict=True):
        cells = part.subplots(1, columns, squeeze=False)[0]
        for cell in cells[len(row) :]:
            cell.set_axis_off()
        for cell, (flight, place, lines) in zip(cells, row, strict=False):
            draw_picture(cell, pictures[place], "\n".join(lines), font=FONT)
            corner = _free_corner(np.concatenate(_lines(flight)))
            _draw_names(cell, flight, 0.97 * width / columns, corner)
            _draw_paths(cell, flight)
            _label_outcome(cell, flight, corner)
    has_goals = any(flight.demonstrated is not None for flight in flights)
    add_legend(figure, path_handles(has_goals=has_goals), font=FONT)
    save_for_paper(figure, path)
