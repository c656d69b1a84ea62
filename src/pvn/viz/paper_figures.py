"""Figures for papers: predictions during a flight, the agent's maps, and galleries of flights (the paper's 4 and 5).

They are as large as they are printed, so that a point is a point on paper.
"""

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

from pvn.model.visitation import GOAL, TRAJECTORY
from pvn.paths import Points
from pvn.viz import palette
from pvn.viz.axes import (
    THIN_EDGE,
    add_legend,
    draw_drone,
    draw_goal_region,
    draw_names,
    draw_path,
    draw_picture,
    draw_start,
    drone_handles,
    goal_circle,
    goal_handle,
    path_handles,
    prediction_handles,
    start_arrow,
)
from pvn.viz.drawn_text import as_typed, quoted, wrapped
from pvn.viz.flight_record import FlightRecord, Moment, path_end, predicted_moments, spread_evenly
from pvn.viz.labels import Rectangle
from pvn.viz.pictures import (
    EXTENT,
    REACH,
    Bytes,
    MapRanges,
    Picture,
    field_from_above,
    grounding_picture,
    in_grey,
    map_ranges,
    overlay_predictions,
    prediction_heat,
    semantic_picture,
    views_at,
)
from pvn.viz.saving import save_for_paper
from pvn.world.task import SUCCESS_M, Task, distinct_layouts

PAGE_INCHES = 17 / 2.54
FONT, LARGE_FONT = 7, 8
"""Points. Seven is the smallest that journals accept."""
CAPTION_LINES = 4
"""Longest instruction above a flight, lines."""
FIELD_PX = 480
"""Width of a picture of the field, pixels."""
NUM_PREDICTIONS = 4
"""Predictions shown of a flight, the first and the last among them."""
GALLERY_COLUMNS = 3
"""Few enough for the names of landmarks."""
GALLERY_START = 2.2
"""Size of the arrow at the start, metres."""
NAME_LETTERS = 13
"""Longest line of a landmark's name."""
LABEL_SIZE = (0.35, 0.09)
"""Width and height of the label in a corner of a gallery's picture, with room around it, relative to the picture."""


def _caption(record: FlightRecord) -> list[str]:
    """The instruction, in lines across the page, and how the flight ended."""
    said = wrapped(quoted(record.task.instruction), LARGE_FONT, 72 * (PAGE_INCHES - 0.3), CAPTION_LINES)
    return [*said, record.outcome]


@dataclass(frozen=True, eq=False)
class GalleryFlight:
    """A flight of a gallery."""

    task: Task
    points: npt.NDArray[np.float32]
    """The flown path (T + 1, 2), field frame."""
    has_stopped: bool
    demonstrated: Points | None = None
    """The demonstrated path (P, 2), field frame; None for a typed instruction."""

    @property
    def goal(self) -> tuple[float, float] | None:
        """The end of the demonstrated path (x, y), field frame, if there is one."""
        return path_end(self.demonstrated)

    @property
    def is_success(self) -> bool | None:
        """Whether it stopped near its goal; None without a goal."""
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
    """What labels should not hide, each as points (P, 2): the paths, the arrow at the start, the goal region."""
    lines: list[npt.NDArray[Any]] = [flight.points, start_arrow(flight.task.start, GALLERY_START)]
    if flight.demonstrated is not None and flight.goal is not None:
        lines += [flight.demonstrated, goal_circle(flight.goal)]
    return lines


def _draw_names(axis: Axes, flight: GalleryFlight, width_inches: float, corner: tuple[int, int]) -> None:
    """The names of landmarks, as far as there is room; the corner is for the outcome."""
    width, height = (part * EXTENT for part in LABEL_SIZE)
    x, y = (REACH[0] + at * EXTENT + (1 - 2 * at) * size / 2 for at, size in zip(corner, (width, height), strict=True))
    draw_names(
        axis, flight.task.layout, EXTENT / (72 * width_inches), _lines(flight),
        font=FONT, taken=[Rectangle(x, y, width, height)], line_letters=NAME_LETTERS,
    )  # fmt: skip


# How predictions evolve.


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
        title = f"{moment.step * record.step_seconds:g} s"
        draw_picture(cell, overlay_predictions(in_grey(above), heat), title, font=FONT)
        draw_drone(cell, moment.pose_world)
    last, ranges = record.moments[-1].maps, map_ranges(record.moments)
    assert last is not None and ranges is not None
    draw_picture(cells[-1], semantic_picture(last, ranges, task.start, FIELD_PX), "semantic map", font=FONT)


def draw_evolutions(path: Path, flights: Sequence[FlightRecord]) -> None:
    """Write a figure with a row for each flight: the field with both paths, successive predictions, semantic map."""
    most = max(len(predicted_moments(record)) for record in flights)
    columns = min(most, NUM_PREDICTIONS) + 2
    captions = [_caption(record) for record in flights]
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


# What an agent sees, maps and predicts.


def _draw_moment(
    cells: Sequence[Axes], record: FlightRecord, moment: Moment, ranges: MapRanges, ground: Picture, view: Bytes
) -> None:
    """One row: the view (H, W, 3), then four maps laid over the field, with the path up to that moment."""
    maps, origin = moment.maps, record.task.start
    assert maps is not None
    cells[0].imshow(view, interpolation="lanczos")
    cells[0].set(xticks=[], yticks=[])
    cells[0].set_ylabel(f"{moment.step * record.step_seconds:g} s", fontsize=FONT)
    heat = prediction_heat(maps, origin, FIELD_PX)
    pictures = (
        semantic_picture(maps, ranges, origin, FIELD_PX),
        grounding_picture(maps, ranges, origin, FIELD_PX),
        overlay_predictions(ground, heat, [TRAJECTORY]),
        overlay_predictions(ground, heat, [GOAL]),
    )
    flown = record.flown_world[: moment.step + 1, :2]
    for cell, picture in zip(cells[1:], pictures, strict=True):
        draw_picture(cell, picture)
        draw_path(cell, flown, palette.DRONE, "-", "flown", width=0.9, edge=THIN_EDGE)
        draw_drone(cell, moment.pose_world)
    if record.goal is not None:
        draw_goal_region(cells[-1], record.goal, width=0.7)


def draw_maps(path: Path, record: FlightRecord, *, num_steps: int = 4) -> None:
    """Write a figure with a row for each of several predictions of a flight, the first and the last among them."""
    shown, ranges = spread_evenly(predicted_moments(record), num_steps), map_ranges(record.moments)
    assert ranges is not None
    titles = ("what the drone sees", "semantic map", "grounding map", *palette.PREDICTION_LABELS)
    lines = _caption(record)
    ratio = record.camera.width / record.camera.height
    height = PAGE_INCHES * 0.95 / (ratio + len(titles) - 1)
    size = (PAGE_INCHES, height * len(shown) + 0.5 + 0.155 * len(lines))
    figure, cells = plt.subplots(
        len(shown), len(titles), figsize=size, layout="constrained", squeeze=False, width_ratios=(ratio, 1, 1, 1, 1)
    )
    ground = in_grey(field_from_above(record.task.layout, FIELD_PX))
    views = views_at(record, [moment.step for moment in shown])
    for row, moment, view in zip(cells, shown, views, strict=True):
        _draw_moment(row, record, moment, ranges, ground, view)
    for cell, title in zip(cells[0], titles, strict=True):
        cell.set_title(title, fontsize=FONT, pad=2.5)
    text = "\n".join(lines)
    figure.suptitle(text, fontsize=LARGE_FONT, **as_typed(text))
    handles = [*drone_handles(), *([] if record.goal is None else [goal_handle()])]
    add_legend(figure, handles, font=FONT, place="outside lower center")
    save_for_paper(figure, path)


# Galleries.


def _free_corner(points: npt.NDArray[np.floating]) -> tuple[int, int]:
    """The first corner, (0, 0) to (1, 1), in which a label hides none of the points (P, 2), field frame."""
    relative = (points - REACH[0]) / EXTENT
    corners = [(0, 0), (1, 0), (0, 1), (1, 1)]
    is_free = [not (np.abs(relative - corner) < LABEL_SIZE).all(1).any() for corner in corners]
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
        wrapped(quoted(flight.task.instruction), FONT, 70 * width / columns, CAPTION_LINES) for flight in flights
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
