"""Pictures of flights: one flight, several that follow each other, and a summary of one with its pilot's maps."""

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
from matplotlib.figure import Figure, SubFigure

from pvn.evaluation.outcome import end_place, outcome
from pvn.geometry import Camera
from pvn.paths import Points
from pvn.rollout.flight import FlightLog
from pvn.simulator.interface import SimulatorConfig
from pvn.viz import palette
from pvn.viz.axes import (
    LARGE_FIELD_PX,
    add_legend,
    draw_end,
    draw_goal,
    draw_goal_region,
    draw_numbers,
    draw_path,
    draw_picture,
    draw_start,
    draw_top_down,
    goal_circle,
    prediction_handles,
    start_arrow,
)
from pvn.viz.drawn_text import as_typed, quoted, wrapped
from pvn.viz.flight_record import FirstPictures, FlightRecord, Floats, Moment, path_end, spread_evenly
from pvn.viz.labels import Rectangle
from pvn.viz.pictures import (
    Bytes,
    Picture,
    field_from_above,
    grounding_picture,
    in_muted_colours,
    map_ranges,
    overlay_predictions,
    prediction_heat,
    semantic_picture,
    taken_from_above,
    views_at,
    views_from,
)
from pvn.viz.saving import DOTS_PER_INCH, picture_path, save_figure
from pvn.world.layout import Layout
from pvn.world.task import Task

STEP_SECONDS = SimulatorConfig().step_seconds
TITLE_FONT, TITLE_LINES = 13, 3
GOAL_SIZE = 1.6
"""Width of the star at the goal, metres."""

WIDTH_INCHES, FIELD_INCHES = 13.2, 6.36
"""Width of the picture of one flight, and of the field in it, which is square."""
LEFT_INCHES, BOTTOM_INCHES, GAP_INCHES, LEGEND_INCHES, TITLE_LINE_INCHES = 0.56, 0.48, 0.14, 0.32, 0.22
"""Room for the field's labels, beside the field, and above it for the legend and each line of the title. Fixed, since
Matplotlib would take a fifth of the drawing time to find them out."""
METRES_PER_POINT = 0.122
"""Scale of the field in the picture of one flight."""
SMALL_VIEWS = (6, 4, 3, 2, 1, 0)
"""How many views there may be below the first: numbers that fill their rows."""
VIEWS_INCHES = 0.992 * WIDTH_INCHES - LEFT_INCHES - FIELD_INCHES - GAP_INCHES
"""Width of the view from the start, with the other views below it."""
FIELD_PX, VIEW_PX = round(FIELD_INCHES * DOTS_PER_INCH), round(VIEWS_INCHES * DOTS_PER_INCH)
"""Width of the field and of that view: exactly the pixels that they take in the picture."""
VIEW_TITLE, VIEW_GAP, ROW_GAP, OWN_WIDTH = 0.032, 0.016, 0.05, 0.2
"""Height of a view's title, gaps between views and between rows, and width of the agent's own picture, all relative to
the width of the first view."""

PAGE_INCHES, PAGE_METRES_PER_POINT = 15.2, 0.115
"""Width of the other two pictures, and the scale of the field in them."""
CELLS = {1: (3, 2), 2: (2, 3), 3: (1, 3)}
"""Rows and columns of views for each flight, by the number of flights."""
CELLS_OF_MANY = (1, 4)
"""The same for more flights."""
FIELD_SHARE, MIN_INCHES, LINE_INCHES, ROW_FONT = 0.47, 7.6, 0.19, 10
"""Width of the field relative to the page, least height, and height and font size of a row's title."""

MAP_PX = 400
NUM_VIEWS, NUM_STAGES = 4, 4
"""Views, and stages of predictions or maps, in a summary."""


def _draw_field(
    axis: Axes,
    layout: Layout,
    flown: Sequence[Floats],
    *,
    demonstrated: Points | None = None,
    numbered: Floats | None = None,
    size_px: int = LARGE_FIELD_PX,
    metres_per_point: float = PAGE_METRES_PER_POINT,
) -> None:
    """The field with flights that follow each other: poses (T + 1, 6) of each, field frame.

    demonstrated: the demonstrated path (P, 2); it ends at the goal. numbered: poses (N, 6) marked with 1, 2, 3, ...
    """
    x, y, yaw = flown[0][0, [0, 1, 5]].tolist()
    start, goal = (x, y, yaw), path_end(demonstrated)
    lines: list[npt.NDArray[Any]] = [*(poses[:, :2] for poses in flown), start_arrow(start)]
    if demonstrated is not None and goal is not None:
        lines += [demonstrated, goal_circle(goal)]
    taken = draw_top_down(axis, layout, size_px, metres_per_point=metres_per_point, avoided=lines)
    for poses in flown:
        draw_path(axis, poses[:, :2], palette.FLOWN, "-", "flown" if poses is flown[0] else "_nolegend_")
    if demonstrated is not None and goal is not None:
        # Over the flown path, which shows between the dashes where the two coincide.
        draw_path(axis, demonstrated, palette.DEMONSTRATED, "--", "demonstrated", width=1.7)
        draw_goal_region(axis, goal, width=1.6)
    draw_start(axis, start)
    for poses in flown:
        draw_end(axis, poses[-1])
    if goal is not None:
        draw_goal(axis, goal)
        taken.append(Rectangle(*goal, GOAL_SIZE, GOAL_SIZE))
    if numbered is not None:
        draw_numbers(axis, layout, numbered, metres_per_point, taken, lines)
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False)


# One flight.


def _place_view(axis: Axes, view: Bytes, left: float, top: float, width: float, **options: Any) -> float:
    """Draw a view (H, W, 3) with its upper left corner at a place, y down; returns where its lower edge is."""
    bottom = top + width * view.shape[0] / view.shape[1]
    axis.imshow(view, extent=(left, left + width, bottom, top), **options)
    return bottom


def _small_views(count: int) -> tuple[int, float]:
    """How many of `count` views are in a row below the first, and the width of each relative to the first."""
    columns = 3 if count in (3, 6) else max(1, min(2, count))
    return columns, (1 - VIEW_GAP * (columns - 1)) / columns


def _draw_views(axis: Axes, views: Sequence[Bytes], titles: Sequence[str], own: Bytes) -> None:
    """The view (H, W, 3) from the start, with the agent's own picture in its corner; the others smaller below it.

    All in one axis, in which the first view is 1 wide: an axis for each took a third of the drawing time.
    """
    count = len(views) - 1
    columns, width = _small_views(count)
    bottom = first_bottom = _place_view(axis, views[0], 0.0, VIEW_TITLE, 1.0)
    places = [(0.0, VIEW_TITLE)]
    for row in range(0, count, columns):
        top = bottom + ROW_GAP + VIEW_TITLE
        for column, view in enumerate(views[1 + row : 1 + row + columns]):
            places.append((column * (width + VIEW_GAP), top))
            bottom = _place_view(axis, view, *places[-1], width)
    for (left, top), title in zip(places, titles, strict=True):
        axis.text(left, top - 0.3 * VIEW_TITLE, title, fontsize=9)
    own_height = OWN_WIDTH * own.shape[0] / own.shape[1]
    corner = 1 - VIEW_GAP - OWN_WIDTH, first_bottom - VIEW_GAP - own_height
    _place_view(axis, own, *corner, OWN_WIDTH, interpolation="nearest")
    axis.add_patch(patches.Rectangle(corner, OWN_WIDTH, own_height, fill=False))
    axis.set(xlim=(0, 1), ylim=(bottom, 0), aspect="equal")
    axis.set_axis_off()


def _empty_figure(num_lines: int) -> tuple[Figure, Axes, Axes]:
    """A figure with room for a title of so many lines, an axis for the field, and one for the views right of it."""
    height = BOTTOM_INCHES + FIELD_INCHES + LEGEND_INCHES + TITLE_LINE_INCHES * num_lines + 0.15
    figure = plt.figure(figsize=(WIDTH_INCHES, height))
    left, views = LEFT_INCHES / WIDTH_INCHES, (LEFT_INCHES + FIELD_INCHES + GAP_INCHES) / WIDTH_INCHES
    bottom, tall = BOTTOM_INCHES / height, FIELD_INCHES / height
    above = figure.add_axes((left, bottom, FIELD_INCHES / WIDTH_INCHES, tall))
    tall = (BOTTOM_INCHES + FIELD_INCHES + LEGEND_INCHES) / height
    strip = figure.add_axes((views, 0.05 / height, VIEWS_INCHES / WIDTH_INCHES, tall))
    return figure, above, strip


def prepare(layout: Layout) -> None:
    """Draw and cache the field that every picture of a flight in this layout shows."""
    taken_from_above(layout, FIELD_PX)


def steps_shown(num_steps: int) -> list[int]:
    """The steps of a flight at which views are shown: the start, the end, and as many between as fill the rows."""
    count = next(count for count in SMALL_VIEWS if count <= num_steps)
    return np.linspace(0, num_steps, count + 1).round().astype(int).tolist()


def views_to_show(task: Task, log: FlightLog, camera: Camera, flight: int) -> list[Bytes]:
    """The views for `draw_flight`; the first is larger than the others."""
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
    views: Sequence[Bytes] | None = None,
) -> None:
    """Write a picture of one flight of a log: its path in the field from above, and what the drone saw on the way.

    first_pictures: the agents' own first pictures. demonstrated (P, 2), field frame: None, as for a typed instruction,
    means that there is no goal. views: those of `views_to_show` if they were drawn before.
    """
    num_steps, goal = int(log.num_steps[flight]), path_end(demonstrated)
    distance = None if goal is None else math.dist(log.end_world[flight].tolist(), goal)
    words = outcome(distance, num_steps, bool(log.has_stopped[flight]), end_place(log, flight, task))
    title = [*wrapped(quoted(task.instruction), TITLE_FONT, 72 * (WIDTH_INCHES - 0.6), TITLE_LINES), words]
    figure, above, strip = _empty_figure(len(title))
    flown = log.pose_world[flight, : num_steps + 1].cpu().numpy()
    shown, camera = steps_shown(num_steps), first_pictures.camera
    _draw_field(
        above, task.layout, [flown], demonstrated=demonstrated, numbered=flown[shown], size_px=FIELD_PX,
        metres_per_point=METRES_PER_POINT,
    )  # fmt: skip
    speeds = log.velocity_world[flight, :, :2].norm(dim=-1).tolist()
    titles = [
        f"{number}   {step * STEP_SECONDS:.1f} s, {speeds[step]:.1f} m/s" for number, step in enumerate(shown, start=1)
    ]
    titles[-1] += ", the end"
    titles[0] = f"1   the start; in the corner the agent's own picture, {camera.width} x {camera.height}"
    views = views or views_to_show(task, log, camera, flight)
    _draw_views(strip, views, titles, first_pictures.images[flight])
    text = "\n".join(title)
    figure.suptitle(text, fontsize=TITLE_FONT, y=1 - 0.08 / figure.get_figheight(), va="top", **as_typed(text))
    save_figure(figure, path)


# Several flights.


def _row_title(number: int, record: FlightRecord, width_inches: float) -> list[str]:
    """The instruction and how its flight ended, in lines that fit in a row of this width."""
    said = wrapped(f"{number}. {quoted(record.task.instruction)}", ROW_FONT, 72 * width_inches, TITLE_LINES)
    together = wrapped(f"{said[-1]}: {record.outcome}", ROW_FONT, 72 * width_inches)
    return [*said[:-1], *together] if len(together) == 1 else [*said, record.outcome]


def _draw_row(row: SubFigure, title: Sequence[str], record: FlightRecord, cells: tuple[int, int]) -> None:
    """A title, and what the drone saw on the way, from the start to the end."""
    text = "\n".join(title)
    row.suptitle(text, fontsize=ROW_FONT, x=0.01, ha="left", **as_typed(text))
    axes = np.ravel(row.subplots(*cells, squeeze=False))
    # A short flight has fewer views than there are cells.
    steps = np.unique(np.linspace(0, len(record.moments), len(axes)).round().astype(int)).tolist()
    for cell in axes[len(steps) :]:
        cell.set_axis_off()
    for cell, step, view in zip(axes, steps, views_at(record, steps), strict=False):
        _draw_view(cell, view, f"{step * record.step_seconds:.1f} s", font=8)


def _draw_view(cell: Axes, view: Bytes, title: str, *, font: float) -> None:
    cell.set_axis_off()
    cell.imshow(view, interpolation="lanczos")
    cell.set_title(title, fontsize=font, loc="left", pad=2)


def draw_paragraph(path: Path, records: Sequence[FlightRecord]) -> None:
    """Write a picture of flights that follow each other: all paths on one field, and a row of views for each flight."""
    (most_rows, columns), width = CELLS.get(len(records), CELLS_OF_MANY), PAGE_INCHES * (1 - FIELD_SHARE)
    camera, layout = records[0].camera, records[0].task.layout
    titles = [_row_title(number, record, width - 0.3) for number, record in enumerate(records, start=1)]
    num_rows = [min(most_rows, -(-(len(record.moments) + 1) // columns)) for record in records]
    view_height = width / columns * camera.height / camera.width + 0.22
    heights = [
        count * view_height + 0.1 + LINE_INCHES * len(title) for count, title in zip(num_rows, titles, strict=True)
    ]
    figure = plt.figure(figsize=(PAGE_INCHES, max(sum(heights), MIN_INCHES)), layout="constrained")
    above, right = np.ravel(figure.subfigures(1, 2, width_ratios=(FIELD_SHARE, 1 - FIELD_SHARE)))  # type: ignore[arg-type]
    flown = [record.flown_world for record in records]
    _draw_field(above.subplots(), layout, flown, numbered=np.stack([poses[-1] for poses in flown]))
    # Room that the rows do not need is left below them.
    spare = max(0.0, MIN_INCHES - sum(heights)) + 0.2
    rows = np.ravel(right.subfigures(len(records) + 1, 1, height_ratios=[*heights, spare]))
    for row, title, record, count in zip(rows, titles, records, num_rows, strict=False):
        _draw_row(row, title, record, (count, columns))
    note = f"The agent itself gets pictures of {camera.width} x {camera.height} pixels."
    rows[-1].text(0.01, 0.02, note, fontsize=8, color=palette.NOTE, ha="left", va="bottom")
    save_figure(figure, path)


# A summary of one flight.


def _draw_seen(figure: SubFigure, record: FlightRecord) -> None:
    """What the drone saw on the way."""
    count = next(count for count in (NUM_VIEWS, 2, 1) if count <= len(record.moments))
    steps = [moment.step for moment in spread_evenly(record.moments, count)]
    cells = np.ravel(figure.subplots(-(-count // 2), min(count, 2), squeeze=False))
    for cell, step, view in zip(cells, steps, views_at(record, steps), strict=True):
        _draw_view(cell, view, f"seen at {step * record.step_seconds:.1f} s", font=9)


def _draw_curves(figure: SubFigure, record: FlightRecord) -> None:
    """Speed and stop probability over time, with a dotted line at the threshold above which the pilot stops."""
    known = [moment for moment in record.moments if moment.stop_probability is not None]
    has_probability = bool(known) and record.stop_threshold is not None
    axes = np.ravel(figure.subplots(1, 1 + has_probability, squeeze=False))
    speed = record.speeds
    axes[0].plot(np.arange(len(speed)) * record.step_seconds, speed, color=palette.SPEED, linewidth=2)
    axes[0].set(title="speed (m/s)", xlabel="time (s)", ylim=(0, max(3.2, 1.1 * float(speed.max()))))
    if has_probability and record.stop_threshold is not None:
        times = [moment.step * record.step_seconds for moment in known]
        values = [moment.stop_probability for moment in known]
        axes[1].plot(times, values, color=palette.STOP_PROBABILITY, linewidth=2)
        axes[1].axhline(record.stop_threshold, color=palette.NOTE, linewidth=1.0, linestyle=":")
        axes[1].text(0, record.stop_threshold + 0.015, "stops above", fontsize=8, color=palette.NOTE)
        axes[1].set(title="stop probability", xlabel="time (s)", ylim=(-0.03, 1.03))
    for axis in axes:
        axis.title.set_fontsize(10)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.3)


def _draw_map(axis: Axes, picture: Picture, title: str, moment: Moment) -> None:
    """A picture of the field with a large dot where the drone was."""
    draw_picture(axis, picture, title)
    x, y = moment.pose_world[:2]
    axis.add_patch(patches.Circle((x, y), 1.1, facecolor=palette.DRONE, edgecolor=palette.OUTLINE, linewidth=1.0))


def _draw_maps(figure: SubFigure, record: FlightRecord) -> None:
    """Four stages of the predictions, or of the semantic map if there are none, and both maps at the end."""
    start, ranges = record.task.start, map_ranges(record.moments)
    assert ranges is not None
    mapped = [(moment, moment.maps) for moment in record.moments if moment.maps is not None]
    planned = [moment for moment in record.moments if moment.is_planned and moment.has_prediction]
    every = [moment for moment, _ in mapped]
    stages = spread_evenly(planned, NUM_STAGES) if planned else spread_evenly(every, NUM_STAGES + 1)[:-1]
    cells = np.ravel(figure.subplots(1, len(stages) + 2))  # a short flight has fewer
    ground = in_muted_colours(field_from_above(record.task.layout, MAP_PX))
    for cell, moment in zip(cells, stages, strict=False):
        when = f"at {moment.step * record.step_seconds:.1f} s"
        assert moment.maps is not None
        if planned:
            picture = overlay_predictions(ground, prediction_heat(moment.maps, start, MAP_PX))
            _draw_map(cell, picture, f"predicted {when}", moment)
        else:
            picture = semantic_picture(moment.maps, ranges, start, MAP_PX)
            _draw_map(cell, picture, f"semantic map {when}", moment)
    last, maps = mapped[-1]
    _draw_map(cells[-2], semantic_picture(maps, ranges, start, MAP_PX), "semantic map at the end", last)
    _draw_map(cells[-1], grounding_picture(maps, ranges, start, MAP_PX), "grounding map at the end", last)
    if planned:
        add_legend(figure, prediction_handles(), font=10, place="outside lower left")


def draw_summary(path: Path, record: FlightRecord) -> None:
    """Write one flight on one page: its path, views, speed and stop probability, and its pilot's maps if any."""
    picture_path(path)
    has_maps = any(moment.maps is not None for moment in record.moments)
    said = wrapped(quoted(record.task.instruction), TITLE_FONT, 72 * (PAGE_INCHES - 0.6), TITLE_LINES)
    height = (10.4 if has_maps else 7.5) + 0.3 * len(said)
    figure = plt.figure(figsize=(PAGE_INCHES, height), layout="constrained")
    if has_maps:
        upper, lower = np.ravel(figure.subfigures(2, 1, height_ratios=(2.35, 1)))  # type: ignore[arg-type]
        _draw_maps(lower, record)
    else:
        upper = np.ravel(figure.subfigures(1, 1))[0]  # type: ignore[arg-type]
    left, right = np.ravel(upper.subfigures(1, 2, width_ratios=(1, 1.12)))
    _draw_field(left.subplots(), record.task.layout, [record.flown_world], demonstrated=record.demonstrated)
    seen, curves = np.ravel(right.subfigures(2, 1, height_ratios=(1.75, 1)))
    _draw_seen(seen, record)
    _draw_curves(curves, record)
    verdict = "" if record.is_success is None else " (success)" if record.is_success else " (failure)"
    text = "\n".join([*said, f"{record.pilot} {record.outcome}{verdict}"])
    figure.suptitle(text, fontsize=TITLE_FONT, **as_typed(text))
    save_figure(figure, path)
