"""One flight on one page: paths, what was seen, how the predictions changed, maps, and how it came to stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.patches import Circle

from pvn.viz import palette
from pvn.viz.axes import (
    add_legend,
    draw_goal,
    draw_goal_region,
    draw_path,
    draw_picture,
    draw_start,
    draw_top_down,
    goal_circle,
    prediction_handles,
    start_arrow,
)
from pvn.viz.drawn_text import as_typed, quoted, wrapped
from pvn.viz.drone_views import views_at
from pvn.viz.field_views import Picture, field_from_above, in_muted_colours
from pvn.viz.flight_record import FlightRecord, Moment, spread_evenly
from pvn.viz.map_pictures import grounding_picture, map_ranges, overlay_predictions, prediction_heat, semantic_picture
from pvn.viz.saving import picture_path, save_figure

FIELD_PX = 400
WIDTH_INCHES = 15.2
METRES_PER_POINT, START_SIZE = 0.115, 1.3
"""Of the field in the picture, and of the arrow at the start, metres."""
TITLE_FONT, TITLE_LINES = 13, 3
NUM_SEEN, NUM_STAGES = 4, 4
"""Camera pictures, and stages of predictions or maps, that are shown."""


def _draw_field(axis: Axes, record: FlightRecord) -> None:
    lines: list[npt.NDArray[Any]] = [record.flown_world[:, :2], start_arrow(record.task.start, START_SIZE)]
    lines += [] if record.demonstrated is None else [record.demonstrated]
    lines += [] if record.goal is None else [goal_circle(record.goal)]
    draw_top_down(axis, record.task.layout, metres_per_point=METRES_PER_POINT, avoided=lines)
    draw_path(axis, record.flown_world[:, :2], palette.FLOWN, "-", "flown")
    if record.demonstrated is not None:
        draw_path(axis, record.demonstrated, palette.DEMONSTRATED, "--", "demonstrated", width=1.7)
    draw_start(axis, record.task.start, size=START_SIZE)
    if record.goal is not None:
        draw_goal_region(axis, record.goal, width=1.6)
        draw_goal(axis, record.goal)
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False)


def _draw_seen(figure: SubFigure, record: FlightRecord) -> None:
    """What the drone saw on the way."""
    count = next(count for count in (NUM_SEEN, 2, 1) if count <= len(record.moments))
    moments = spread_evenly(record.moments, count)
    cells = np.ravel(figure.subplots(-(-count // 2), min(count, 2), squeeze=False))
    views = views_at(record, [moment.step for moment in moments])
    for cell, moment, view in zip(cells, moments, views, strict=True):
        cell.set_axis_off()
        cell.imshow(view, interpolation="lanczos")
        cell.set_title(f"seen at {moment.step * record.step_seconds:.1f} s", fontsize=9, loc="left", pad=3)


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
        axes[1].axhline(record.stop_threshold, color="#999999", linewidth=0.8, linestyle=":")
        axes[1].set(title="stop probability", xlabel="time (s)", ylim=(-0.03, 1.03))
    for axis in axes:
        axis.title.set_fontsize(10)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.3)


def _draw_map(axis: Axes, picture: Picture, title: str, moment: Moment) -> None:
    """A picture of the field with a large dot where the drone was."""
    draw_picture(axis, picture, title)
    x, y = moment.pose_world[:2]
    axis.add_patch(Circle((x, y), 1.1, facecolor=palette.DRONE, edgecolor=palette.OUTLINE, linewidth=1.0))


def _draw_maps(figure: SubFigure, record: FlightRecord) -> None:
    """Four stages of the predictions, or of the semantic map if there are none, and both maps at the end."""
    start, ranges = record.task.start, map_ranges(record.moments)
    assert ranges is not None
    mapped = [(moment, moment.maps) for moment in record.moments if moment.maps is not None]
    planned = [moment for moment in record.moments if moment.is_planned and moment.has_prediction]
    every = [moment for moment, _ in mapped]
    stages = spread_evenly(planned, NUM_STAGES) if planned else spread_evenly(every, NUM_STAGES + 1)[:-1]
    cells = np.ravel(figure.subplots(1, len(stages) + 2))  # a short flight has fewer
    ground = in_muted_colours(field_from_above(record.task.layout, FIELD_PX))
    for cell, moment in zip(cells, stages, strict=False):
        when = f"at {moment.step * record.step_seconds:.1f} s"
        assert moment.maps is not None
        if planned:
            picture = overlay_predictions(ground, prediction_heat(moment.maps, start, FIELD_PX))
            _draw_map(cell, picture, f"predicted {when}", moment)
        else:
            picture = semantic_picture(moment.maps, ranges, start, FIELD_PX)
            _draw_map(cell, picture, f"semantic map {when}", moment)
    last, maps = mapped[-1]
    _draw_map(cells[-2], semantic_picture(maps, ranges, start, FIELD_PX), "semantic map at the end", last)
    _draw_map(cells[-1], grounding_picture(maps, ranges, start, FIELD_PX), "grounding map at the end", last)
    if planned:
        add_legend(figure, prediction_handles(), font=10, place="outside lower left")


def draw_summary(path: Path, record: FlightRecord) -> None:
    """Write the page; for a pilot without maps it shows only what was flown and seen."""
    picture_path(path)
    has_maps = any(moment.maps is not None for moment in record.moments)
    said = wrapped(quoted(record.task.instruction), TITLE_FONT, 72 * (WIDTH_INCHES - 0.6), TITLE_LINES)
    height = (10.4 if has_maps else 7.5) + 0.3 * len(said)
    figure = plt.figure(figsize=(WIDTH_INCHES, height), layout="constrained")
    if has_maps:
        upper, lower = np.ravel(figure.subfigures(2, 1, height_ratios=(2.35, 1)))  # type: ignore[arg-type]
        _draw_maps(lower, record)
    else:
        upper = np.ravel(figure.subfigures(1, 1))[0]  # type: ignore[arg-type]
    left, right = np.ravel(upper.subfigures(1, 2, width_ratios=(1, 1.12)))
    _draw_field(left.subplots(), record)
    seen, curves = np.ravel(right.subfigures(2, 1, height_ratios=(1.75, 1)))
    _draw_seen(seen, record)
    _draw_curves(curves, record)
    verdict = "" if record.is_success is None else " (success)" if record.is_success else " (failure)"
    text = "\n".join([*said, f"{record.pilot} {record.outcome}{verdict}"])
    figure.suptitle(text, fontsize=TITLE_FONT, **as_typed(text))
    save_figure(figure, path)
