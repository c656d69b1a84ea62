"""A picture of a flight: the field from above with its paths, and what the drone saw on the way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib import patches
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pvn.evaluation.outcome import end_place, outcome
from pvn.geometry import Camera
from pvn.paths import Points
from pvn.rollout.flight import FlightLog
from pvn.simulator.display import compile_beside
from pvn.simulator.interface import SimulatorConfig
from pvn.viz import palette
from pvn.viz.axes import (
    draw_goal,
    draw_nose,
    draw_numbers,
    draw_path,
    draw_start,
    draw_top_down,
    start_arrow,
)
from pvn.viz.drawn_text import as_typed, quoted, wrapped
from pvn.viz.drone_views import views_from
from pvn.viz.field_views import taken_from_above
from pvn.viz.flight_record import FirstPictures, Floats, path_end
from pvn.viz.labels import Rectangle
from pvn.viz.saving import DOTS_PER_INCH, save_figure
from pvn.world.layout import Layout
from pvn.world.task import Task

STEP_SECONDS = SimulatorConfig().step_seconds
WIDTH_INCHES, FIELD_INCHES = 13.2, 6.36
"""Of the picture, and of the field in it, which is square."""
LEFT_INCHES, BOTTOM_INCHES, GAP_INCHES, LEGEND_INCHES, TITLE_LINE_INCHES = 0.56, 0.48, 0.14, 0.32, 0.22
"""Room for the field's labels, beside the field, and above it for the legend and each line of the title. Given, as
Matplotlib would take a fifth of the picture's time to find them out."""
METRES_PER_POINT = 0.122
"""Of the field in the picture."""
TITLE_FONT, TITLE_LINES = 13, 3
SMALL_VIEWS = (6, 4, 3, 2, 1, 0)
"""How many views there may be below the first: as many as fill their rows."""
START_SIZE = 1.3
"""Of the arrow at the start, metres."""
GOAL_SIZE = 1.6
"""Of the star at the goal, metres."""

VIEWS_INCHES = 0.992 * WIDTH_INCHES - LEFT_INCHES - FIELD_INCHES - GAP_INCHES
"""Across the view from the start, below which are the others."""
FIELD_PX, VIEW_PX = round(FIELD_INCHES * DOTS_PER_INCH), round(VIEWS_INCHES * DOTS_PER_INCH)
"""Across the field and that view: as many pixels as there are in the picture."""
TITLE_HEIGHT, VIEW_GAP, ROW_GAP, OWN_WIDTH = 0.032, 0.016, 0.05, 0.2
"""Of a view's title, between views, between rows of them, and of the agent's own picture, in widths of the first."""

View = npt.NDArray[np.uint8]
"""(H, W, 3)."""


def _draw_field(axis: Axes, task: Task, flown: Floats, shown: Sequence[int], demonstrated: Points | None) -> None:
    """The field with the flown poses (T + 1, 6) and the demonstrated path; the steps of views shown are numbered."""
    start = (float(flown[0, 0]), float(flown[0, 1]), float(flown[0, 5]))
    goal = path_end(demonstrated)
    lines: list[npt.NDArray[Any]] = [flown[:, :2], start_arrow(start, START_SIZE)]
    lines += [] if demonstrated is None else [demonstrated]
    names = draw_top_down(axis, task.layout, FIELD_PX, metres_per_point=METRES_PER_POINT, avoided=lines)
    draw_path(axis, flown[:, :2], palette.FLOWN, "-", "flown")
    if demonstrated is not None:
        # Over the flown path, which shows between the dashes where the two coincide.
        draw_path(axis, demonstrated, palette.DEMONSTRATED, "--", "demonstrated", width=1.7)
    draw_start(axis, start, size=START_SIZE)
    draw_nose(axis, flown[-1])
    if goal is not None:
        draw_goal(axis, goal)
    star = [] if goal is None else [Rectangle(*goal, GOAL_SIZE, GOAL_SIZE)]
    draw_numbers(axis, task.layout, flown[list(shown)], METRES_PER_POINT, [*names, *star], lines)
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False)


def _place_view(axis: Axes, view: View, left: float, top: float, width: float, **options: Any) -> float:
    """Draw a view (H, W, 3) at a place, y down; returns where it ends below."""
    bottom = top + width * view.shape[0] / view.shape[1]
    axis.imshow(view, extent=(left, left + width, bottom, top), **options)
    return bottom


def _small_views(count: int) -> tuple[int, float]:
    """How many of `count` views are in a row below the first, and how wide each is, in widths of the first."""
    columns = 3 if count in (3, 6) else max(1, min(2, count))
    return columns, (1 - VIEW_GAP * (columns - 1)) / columns


def _draw_views(axis: Axes, views: Sequence[View], titles: Sequence[str], own: View) -> None:
    """The view (H, W, 3) from the start, with the agent's own picture in its corner; the others smaller below it.

    All in one axis, whose unit is the width of the first: an axis for each took a third of the time of the picture.
    """
    count = len(views) - 1
    columns, width = _small_views(count)
    bottom = first_bottom = _place_view(axis, views[0], 0.0, TITLE_HEIGHT, 1.0)
    places = [(0.0, TITLE_HEIGHT)]
    for row in range(0, count, columns):
        top = bottom + ROW_GAP + TITLE_HEIGHT
        for column, view in enumerate(views[1 + row : 1 + row + columns]):
            places.append((column * (width + VIEW_GAP), top))
            bottom = _place_view(axis, view, *places[-1], width)
    for (left, top), title in zip(places, titles, strict=True):
        axis.text(left, top - 0.3 * TITLE_HEIGHT, title, fontsize=9)
    own_height = OWN_WIDTH * own.shape[0] / own.shape[1]
    corner = 1 - VIEW_GAP - OWN_WIDTH, first_bottom - VIEW_GAP - own_height
    _place_view(axis, own, *corner, OWN_WIDTH, interpolation="nearest")
    axis.add_patch(patches.Rectangle(corner, OWN_WIDTH, own_height, fill=False))
    axis.set(xlim=(0, 1), ylim=(bottom, 0), aspect="equal")
    axis.set_axis_off()


def _empty_figure(num_lines: int) -> tuple[Figure, Axes, Axes]:
    """A figure with a title of so many lines, the axis for the field, and that for the views on its right."""
    height = BOTTOM_INCHES + FIELD_INCHES + LEGEND_INCHES + TITLE_LINE_INCHES * num_lines + 0.15
    figure = plt.figure(figsize=(WIDTH_INCHES, height))
    left, views = LEFT_INCHES / WIDTH_INCHES, (LEFT_INCHES + FIELD_INCHES + GAP_INCHES) / WIDTH_INCHES
    bottom, tall = BOTTOM_INCHES / height, FIELD_INCHES / height
    above = figure.add_axes((left, bottom, FIELD_INCHES / WIDTH_INCHES, tall))
    tall = (BOTTOM_INCHES + FIELD_INCHES + LEGEND_INCHES) / height
    strip = figure.add_axes((views, 0.05 / height, VIEWS_INCHES / WIDTH_INCHES, tall))
    return figure, above, strip


def prepare(layout: Layout) -> None:
    """Draw ahead what every picture of flights in this field shows; it is remembered."""
    compile_beside()
    taken_from_above(layout, FIELD_PX)


def steps_shown(num_steps: int) -> list[int]:
    """The steps of a flight whose views are shown: the start, the end, and as many between as fill the rows."""
    count = next(count for count in SMALL_VIEWS if count <= num_steps)
    return np.linspace(0, num_steps, count + 1).round().astype(int).tolist()


def views_to_show(task: Task, log: FlightLog, camera: Camera, flight: int) -> list[View]:
    """What the drone saw at the steps that are shown, drawn anew, for people; the first is larger than the others."""
    flown = log.pose_world[flight, steps_shown(int(log.num_steps[flight]))].cpu().numpy()
    first = views_from(task.layout, flown[:1], camera, VIEW_PX)
    _, width = _small_views(len(flown) - 1)
    return [*first, *views_from(task.layout, flown[1:], camera, round(width * VIEW_PX))]


def draw_flight(
    path: Path,
    task: Task,
    log: FlightLog,
    first_pictures: FirstPictures,
    flight: int,
    demonstrated: Points | None = None,
    views: Sequence[View] | None = None,
) -> None:
    """Write the picture of one flight of a log: the field from above with both paths, and what the drone saw.

    first_pictures: the agents' own, of which this flight's is shown. demonstrated (P, 2), field frame: without it, as
    for a typed instruction, there is no goal. views: as from `views_to_show`, where they were drawn before.
    """
    num_steps, goal = int(log.num_steps[flight]), path_end(demonstrated)
    distance = None if goal is None else math.dist(log.end_world[flight].tolist(), goal)
    words = outcome(distance, num_steps, bool(log.has_stopped[flight]), end_place(log, flight, task))
    title = [*wrapped(quoted(task.instruction), TITLE_FONT, 72 * (WIDTH_INCHES - 0.6), TITLE_LINES), words]
    figure, above, strip = _empty_figure(len(title))
    flown = log.pose_world[flight, : num_steps + 1].cpu().numpy()
    shown, camera = steps_shown(num_steps), first_pictures.camera
    _draw_field(above, task, flown, shown, demonstrated)
    views = views or views_to_show(task, log, camera, flight)
    speeds = log.velocity_world[flight, :, :2].norm(dim=-1).tolist()
    titles = [
        f"{number}   {step * STEP_SECONDS:.1f} s, {speeds[step]:.1f} m/s" for number, step in enumerate(shown, start=1)
    ]
    titles[-1] += ", the end"
    titles[0] = f"1   the start; in the corner the agent's own picture, {camera.width} x {camera.height}"
    _draw_views(strip, views, titles, first_pictures.images[flight])
    text = "\n".join(title)
    figure.suptitle(text, fontsize=TITLE_FONT, y=1 - 0.08 / figure.get_figheight(), va="top", **as_typed(text))
    save_figure(figure, path)
