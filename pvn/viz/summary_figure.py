"""One flight on one page: paths, what was seen, how the predictions changed, maps, and how it came to stop."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.patches import Circle, Patch

from pvn.viz.flight_picture import FLOWN, GOAL, OUTLINE, SHOWN, draw_path, draw_start, draw_top_down, outcome
from pvn.viz.flight_record import Maps, Moment, Recorded
from pvn.viz.map_pictures import (
    EXPECTED_GOAL,
    EXPECTED_PATH,
    Picture,
    blend_heat,
    grounding_picture,
    heat,
    map_ranges,
    picture_of_field,
    semantic_picture,
    speeds,
)
from pvn.viz.paper_figures import NUM_PREDICTIONS, REACH
from pvn.viz.saving import picture_path, save_figure
from pvn.world.task import SUCCESS_M

SIZE_PX = 400
NUM_SEEN = 4
STOP_COLOUR, SPEED_COLOUR = "#d55e00", "#0072b2"


def _spread(moments: Sequence[Moment], count: int) -> list[Moment]:
    """At most so many of them, from the first to the last."""
    return [moments[place] for place in np.unique(np.linspace(0, len(moments) - 1, count).round().astype(int))]


def _draw_field(axis: Axes, recorded: Recorded) -> None:
    task, flown = recorded.task, recorded.flown_world
    draw_top_down(axis, task.layout)
    if recorded.has_goal:
        draw_path(axis, task.path, SHOWN, "--", "demonstrated")
    draw_path(axis, flown[:, :2], FLOWN, "-", "flown")
    draw_start(axis, task.start)
    if recorded.has_goal:
        axis.add_patch(Circle(task.goal, SUCCESS_M, fill=False, edgecolor=GOAL, linewidth=1.6, path_effects=OUTLINE))
        axis.scatter(*task.goal, s=150, color=GOAL, marker="*", edgecolor="black", zorder=7, label="goal")
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False)


def _draw_seen(figure: SubFigure, recorded: Recorded) -> None:
    """What the drone saw on the way."""
    cells = np.ravel(figure.subplots(2, NUM_SEEN // 2))
    for cell in cells:
        cell.set_axis_off()
    for cell, moment in zip(cells, _spread(recorded.moments, NUM_SEEN), strict=False):
        cell.imshow(moment.image, interpolation="lanczos")
        cell.set_title(f"seen at {moment.step * recorded.step_seconds:.1f} s", fontsize=9, loc="left", pad=3)


def _draw_curves(figure: SubFigure, recorded: Recorded) -> None:
    """Stop probability, dotted where the pilot stops, and speed over time."""
    chances = [(moment.step, moment.stop_chance) for moment in recorded.moments if moment.stop_chance is not None]
    axes = np.ravel(figure.subplots(1, 2))
    speed = speeds(recorded)
    axes[0].plot(np.arange(len(speed)) * recorded.step_seconds, speed, color=SPEED_COLOUR, linewidth=2)
    axes[0].set(title="speed (m/s)", xlabel="time (s)", ylim=(0, max(3.2, 1.1 * float(speed.max()))))
    if chances and recorded.stop_threshold is not None:
        steps, values = zip(*chances, strict=True)
        axes[1].plot(np.array(steps) * recorded.step_seconds, values, color=STOP_COLOUR, linewidth=2)
        axes[1].axhline(recorded.stop_threshold, color="#999999", linewidth=0.8, linestyle=":")
        axes[1].set(title="stop probability", xlabel="time (s)", ylim=(-0.03, 1.03))
    else:
        axes[1].set_axis_off()
    for axis in axes:
        axis.title.set_fontsize(10)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.3)


def _show(axis: Axes, picture: Picture, title: str, moment: Moment) -> None:
    axis.imshow(picture.clip(0, 1), extent=(*REACH, *REACH))
    axis.set(xlim=REACH, ylim=REACH, xticks=[], yticks=[])
    axis.set_title(title, fontsize=10, pad=4)
    x, y = moment.pose_world[:2]
    axis.add_patch(Circle((x, y), 1.1, facecolor="white", edgecolor="black", linewidth=1.0))


def _draw_maps(figure: SubFigure, recorded: Recorded, above: npt.NDArray[np.float64]) -> None:
    """Four stages of what was predicted, or of the semantic map where nothing is, and both maps at the end."""
    start, ranges = recorded.task.start, map_ranges(recorded.moments)
    assert ranges is not None
    cells = np.ravel(figure.subplots(1, NUM_PREDICTIONS + 2))
    known = [moment for moment in recorded.moments if moment.maps is not None]
    planned = [moment for moment in known if moment.is_planned and cast(Maps, moment.maps).probability is not None]
    stages = _spread(planned, NUM_PREDICTIONS) if planned else _spread(known, NUM_PREDICTIONS + 1)[:-1]
    for cell in cells[len(stages) : NUM_PREDICTIONS]:
        cell.set_axis_off()  # a short flight has fewer
    for cell, moment in zip(cells, stages, strict=False):
        maps, when = cast(Maps, moment.maps), f"at {moment.step * recorded.step_seconds:.1f} s"
        if planned:
            _show(cell, blend_heat(above, heat(maps, start, SIZE_PX)), f"expected {when}", moment)
        else:
            _show(cell, semantic_picture(maps, ranges[0], start, SIZE_PX), f"semantic map {when}", moment)
    last = known[-1]
    maps = cast(Maps, last.maps)
    _show(cells[-2], semantic_picture(maps, ranges[0], start, SIZE_PX), "semantic map at the end", last)
    _show(cells[-1], grounding_picture(maps, ranges[1], start, SIZE_PX), "grounding map at the end", last)
    if planned:
        patches = [Patch(color=EXPECTED_PATH, label="expected path"), Patch(color=EXPECTED_GOAL, label="expected goal")]
        figure.legend(handles=patches, loc="outside lower left", ncols=2, frameon=False, fontsize=10)


def draw_summary(path: Path, recorded: Recorded) -> None:
    """Write the page; a pilot without maps has only what it flew and saw on it."""
    picture_path(path)
    has_maps = any(moment.maps is not None for moment in recorded.moments)
    figure = plt.figure(figsize=(15.2, 10.4 if has_maps else 7.4), layout="constrained")
    if has_maps:
        upper, lower = np.ravel(figure.subfigures(2, 1, height_ratios=(2.35, 1)))  # type: ignore[arg-type]
        _draw_maps(lower, recorded, picture_of_field(recorded.task.layout, SIZE_PX))
    else:
        upper = np.ravel(figure.subfigures(1, 1))[0]  # type: ignore[arg-type]
    left, right = np.ravel(upper.subfigures(1, 2, width_ratios=(1, 1.12)))
    _draw_field(left.subplots(), recorded)
    seen, curves = np.ravel(right.subfigures(2, 1, height_ratios=(1.75, 1)))
    _draw_seen(seen, recorded)
    _draw_curves(curves, recorded)
    words = outcome(recorded.distance, len(recorded.moments), recorded.has_stopped)
    verdict = "" if recorded.is_success is None else " (success)" if recorded.is_success else " (failure)"
    told = textwrap.fill(f"“{recorded.task.instruction}”   {recorded.system} {words}{verdict}", 120)
    figure.suptitle(told, fontsize=13, parse_math=False)
    save_figure(figure, path)
