"""Drawing with Matplotlib: the field from above, paths and marks on it, and their legends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import matplotlib.patheffects as effects
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch, Polygon

from pvn.viz import palette
from pvn.viz.drawn_text import as_typed
from pvn.viz.labels import Floats, Rectangle, along_path, place_names, place_numbers
from pvn.viz.pictures import REACH, Picture, taken_from_above
from pvn.world.layout import Layout
from pvn.world.task import SUCCESS_M

THIN_EDGE, WIDE_EDGE = 0.4, 0.8
"""Width of a line's dark edge, both sides together, points."""
PATH_WIDTH, PATH_EDGE = 3.2, 1.6
"""Width of a flown path and of its edge, points."""
LARGE_FIELD_PX = 1000
"""Width of a large picture of the field, pixels."""
NAME_FONT = 8.0
"""Font of landmarks' names, points."""
ARROW = ((1.0, 0.0), (-0.75, 0.72), (-0.35, 0.0), (-0.75, -0.72))
"""Corners of an arrow of size 1: ahead, to the left."""
START_SIZE, END_SIZE = 1.3, 1.2
"""Size of the arrows at the start and the end of a flight, metres."""
LegendPlace = Literal["outside upper center", "outside lower center", "outside lower left"]
UPPER: LegendPlace = "outside upper center"


def outline(width: float, edge: float = WIDE_EDGE) -> list[Any]:
    """Path effects for a dark edge around a line; widths in points."""
    return [effects.withStroke(linewidth=width + edge, foreground=palette.OUTLINE)]


def draw_picture(axis: Axes, picture: Picture, title: str = "", *, font: float = 10) -> None:
    """A picture (H, W, 3) of the field; font in points."""
    axis.imshow(picture, extent=(*REACH, *REACH))
    axis.set(xlim=REACH, ylim=REACH, xticks=[], yticks=[])
    axis.set_title(title, fontsize=font, pad=2.5 / 7 * font, **as_typed(title))


def draw_names(
    axis: Axes,
    layout: Layout,
    metres_per_point: float,
    avoided: Sequence[npt.NDArray[Any]],
    *,
    font: float = NAME_FONT,
    **options: Any,
) -> list[Rectangle]:
    """The names of landmarks where they hide neither each other nor the avoided lines (P, 2); returns their places.

    A name is left out where there is no room. metres_per_point: the field's scale in the picture. options: for
    `place_names`.
    """
    points = np.concatenate([np.empty((0, 2)), *map(along_path, avoided)])
    names = place_names(layout, metres_per_point, font, points=points, **options)
    for name in names:
        axis.text(
            name.place.x, name.place.y, name.text, color="white", fontsize=font, linespacing=1.0,
            ha="center", va="center", path_effects=outline(0.2 * font, 0.0), zorder=6,
        )  # fmt: skip
    return [name.place for name in names]


def draw_top_down(
    axis: Axes,
    layout: Layout,
    size_px: int = LARGE_FIELD_PX,
    *,
    metres_per_point: float,
    avoided: Sequence[npt.NDArray[Any]] = (),
) -> list[Rectangle]:
    """The field from above, north up, with the names of landmarks beside the avoided lines; see `draw_names`."""
    axis.imshow(taken_from_above(layout, size_px), extent=(*REACH, *REACH))
    axis.set(xlim=REACH, ylim=REACH, xlabel="x east (m)", ylabel="y north (m)")
    return draw_names(axis, layout, metres_per_point, avoided)


def draw_path(
    axis: Axes, points: npt.NDArray[Any], colour: str, style: str, label: str,
    *, width: float = PATH_WIDTH, edge: float = PATH_EDGE,
) -> None:  # fmt: skip
    """A line through points (P, 2), field frame; width and dark edge in points."""
    axis.plot(
        *points.T, style, color=colour, linewidth=width, label=label, path_effects=outline(width, edge), zorder=4,
        solid_capstyle="round", solid_joinstyle="round",
    )  # fmt: skip


def start_arrow(start: Sequence[float], size: float = START_SIZE) -> Floats:
    """Corners (4, 2), field frame, of an arrow at a pose x, y, yaw; size in metres."""
    x, y, yaw = start
    turn = np.array([[math.cos(yaw), math.sin(yaw)], [-math.sin(yaw), math.cos(yaw)]])
    corners: Floats = size * np.array(ARROW) @ turn + np.array([x, y])
    return corners


def draw_start(axis: Axes, start: Sequence[float], *, size: float = START_SIZE, edge: float = 1.0) -> None:
    """An arrow for the start pose x, y, yaw, field frame; size in metres, edge in points."""
    arrow = Polygon(
        start_arrow(start, size), closed=True, facecolor=palette.START, edgecolor=palette.OUTLINE, linewidth=edge,
        zorder=7,
    )  # fmt: skip
    axis.add_patch(arrow)
    # The legend would show the arrow as a box.
    axis.scatter([], [], s=90, marker="^", color=palette.START, edgecolor=palette.OUTLINE, label="start")


def draw_end(axis: Axes, pose_world: npt.NDArray[Any]) -> None:
    """An arrow at the pose (6,), field frame, in which a flight ended: it may have turned there."""
    corners = start_arrow(pose_world[[0, 1, 5]].tolist(), END_SIZE)
    axis.add_patch(
        Polygon(corners, closed=True, facecolor=palette.DRONE, edgecolor=palette.OUTLINE, linewidth=0.8, zorder=5)
    )


def draw_goal(axis: Axes, goal: Sequence[float]) -> None:
    """A star at the goal (x, y), field frame."""
    x, y = goal
    axis.scatter(x, y, s=150, color=palette.GOAL, marker="*", edgecolor=palette.OUTLINE, zorder=7, label="goal")


def goal_circle(goal: Sequence[float]) -> Floats:
    """Points (49, 2) around the region in which a flight has to stop; goal (x, y), field frame."""
    angle = np.linspace(0, 2 * math.pi, 49)
    return np.array(goal) + SUCCESS_M * np.stack([np.cos(angle), np.sin(angle)], -1)


def draw_goal_region(axis: Axes, goal: Sequence[float], *, width: float = 1.1) -> None:
    """A circle around the region in which a flight has to stop; goal (x, y), field frame; width in points."""
    x, y = goal
    circle = Circle((x, y), SUCCESS_M, fill=False, edgecolor=palette.GOAL, linewidth=width, zorder=3)
    circle.set_path_effects(outline(width))
    axis.add_patch(circle)


def draw_numbers(
    axis: Axes,
    layout: Layout,
    poses: npt.NDArray[Any],
    metres_per_point: float,
    taken: Sequence[Rectangle],
    avoided: Sequence[npt.NDArray[Any]],
) -> None:
    """Numbers from 1 beside poses (N, 6), field frame, each with a line to its dot on the path.

    They avoid each other, names and marks (taken), landmarks, and the avoided lines (P, 2).
    """
    spots, points = poses[:, :2].astype(float), np.concatenate([along_path(line) for line in avoided])
    places = place_numbers(layout, spots, poses[:, 5].tolist(), metres_per_point, taken=taken, points=points)
    for number, ((x, y), place) in enumerate(zip(spots.tolist(), places, strict=True), start=1):
        axis.plot([x, place.x], [y, place.y], color=palette.OUTLINE, linewidth=0.9, zorder=5)
        axis.scatter(x, y, s=22, color=palette.FLOWN, edgecolor=palette.OUTLINE, linewidth=0.9, zorder=6)
        axis.text(
            place.x, place.y, str(number), fontsize=9, color="black", ha="center", va="center", zorder=8,
            bbox={"boxstyle": "circle,pad=0.18", "facecolor": palette.FLOWN, "edgecolor": "black", "linewidth": 0.7},
        )  # fmt: skip


def draw_drone(axis: Axes, pose_world: npt.NDArray[np.floating]) -> None:
    """A dot at the drone's pose (6,), field frame, and a short line along its heading."""
    x, y, yaw = pose_world[[0, 1, 5]].tolist()
    ahead = np.array([[x, y], [x + 3.5 * math.cos(yaw), y + 3.5 * math.sin(yaw)]])
    axis.plot(*ahead.T, color=palette.DRONE, linewidth=1.0, zorder=5, path_effects=outline(1.0))
    axis.scatter(x, y, s=13, color=palette.DRONE, edgecolor=palette.OUTLINE, linewidth=0.6, zorder=6)


def _line(colour: str, style: Any, label: str) -> Line2D:
    return Line2D([], [], color=colour, linestyle=style, linewidth=1.3, label=label, path_effects=outline(1.3))


def _dot(colour: str, label: str, marker: str = "o") -> Line2D:
    return Line2D(
        [], [], linestyle="", marker=marker, markersize=4.5, label=label,
        markerfacecolor=colour, markeredgecolor=palette.OUTLINE, markeredgewidth=0.7,
    )  # fmt: skip


def path_handles(*, has_goals: bool) -> list[Line2D]:
    """Legend entries for the paths and marks of a flight."""
    demonstrated = [_line(palette.DEMONSTRATED, (0, (2.2, 1.1)), "demonstrated"), goal_handle()] if has_goals else []
    return [_line(palette.FLOWN, "-", "flown"), _dot(palette.START, "start", "^"), *demonstrated]


def goal_handle() -> Line2D:
    """The legend entry for the circle around a goal."""
    return Line2D(
        [], [], linestyle="", marker="o", markersize=6, label="goal region",
        markerfacecolor="none", markeredgecolor=palette.GOAL, markeredgewidth=1.3,
    )  # fmt: skip


def drone_handles() -> list[Line2D]:
    """Legend entries for the drone on its maps."""
    return [_line(palette.DRONE, "-", "flown so far"), _dot(palette.DRONE, "drone")]


def prediction_handles() -> list[Any]:
    """Legend entries for the colours of predictions and for the drone."""
    colours = zip(palette.PREDICTION_COLOURS, palette.PREDICTION_LABELS, strict=True)
    return [*(Patch(facecolor=colour, label=label) for colour, label in colours), _dot(palette.DRONE, "drone")]


def add_legend(figure: FigureBase, handles: Sequence[Any], *, font: float, place: LegendPlace = UPPER) -> None:
    """A legend in one line; font in points."""
    figure.legend(
        handles=list(handles), loc=place, ncols=len(handles), frameon=False, fontsize=font,
        handlelength=2.0, handletextpad=0.5, columnspacing=1.2, borderaxespad=0.2,
    )  # fmt: skip
