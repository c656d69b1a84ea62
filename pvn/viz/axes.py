"""What is drawn onto matplotlib's axes: the field from above, paths and marks on it, and their legends."""

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
from matplotlib.patches import Circle, Patch

from pvn.viz import palette
from pvn.viz.field_views import REACH, Picture, field_from_above
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Layout
from pvn.world.task import SUCCESS_M

THIN_EDGE, WIDE_EDGE = 0.4, 0.8
"""Points of outline, half on each side of a line."""
LegendPlace = Literal["outside upper center", "outside lower center", "outside lower left"]
UPPER: LegendPlace = "outside upper center"


def outline(width: float, edge: float = WIDE_EDGE) -> list[Any]:
    """Path effects that draw a dark edge around a line; widths in points."""
    return [effects.withStroke(linewidth=width + edge, foreground=palette.OUTLINE)]


def draw_picture(axis: Axes, picture: Picture, title: str = "", *, font: float = 10) -> None:
    """A picture (H, W, 3) of the whole field; font in points."""
    axis.imshow(picture, extent=(*REACH, *REACH))
    axis.set(xlim=REACH, ylim=REACH, xticks=[], yticks=[])
    axis.set_title(title, fontsize=font, pad=2.5 / 7 * font, parse_math=False)


def draw_top_down(axis: Axes, layout: Layout, size_px: int = 1000) -> None:
    """The whole field from above, north up, with the name of each landmark."""
    axis.imshow(field_from_above(layout, size_px), extent=(*REACH, *REACH), interpolation="lanczos")
    for mark in layout.landmarks:
        # Below the landmark, so that a path that ends at it does not cross its name.
        axis.text(
            mark.x, mark.y - 0.52 * mark.radius - 0.2, LANDMARK_CLASSES[mark.name].noun,
            color="white", fontsize=8, ha="center", va="top", path_effects=outline(1.8, THIN_EDGE), zorder=6,
        )  # fmt: skip
    axis.set(xlim=REACH, ylim=REACH, xlabel="x east (m)", ylabel="y north (m)")


def draw_path(axis: Axes, points: npt.NDArray[Any], colour: str, style: str, label: str, *, width: float = 1.8) -> None:
    """A line through points (P, 2), field frame; width in points."""
    edge = outline(width, THIN_EDGE)
    axis.plot(*points.T, style, color=colour, linewidth=width, label=label, path_effects=edge, zorder=4)


def draw_start(axis: Axes, start: Sequence[float], *, size: float = 70) -> None:
    """A dot (size in square points) and an arrow for the start pose x, y, yaw, field frame."""
    x, y, yaw = start
    axis.scatter(x, y, s=size, color=palette.START, edgecolor=palette.OUTLINE, zorder=7, label="start")
    axis.quiver(
        x, y, math.cos(yaw), math.sin(yaw),
        color=palette.START, edgecolor=palette.OUTLINE, linewidth=0.7, scale=18, width=0.009, zorder=7,
    )  # fmt: skip


def draw_goal(axis: Axes, goal: Sequence[float]) -> None:
    """A star at the goal (x, y), field frame."""
    x, y = goal
    axis.scatter(x, y, s=150, color=palette.GOAL, marker="*", edgecolor=palette.OUTLINE, zorder=7, label="goal")


def draw_goal_region(axis: Axes, goal: Sequence[float], *, width: float = 1.1) -> None:
    """A circle around the region in which a flight has to stop; goal (x, y), field frame; width in points."""
    x, y = goal
    circle = Circle((x, y), SUCCESS_M, fill=False, edgecolor=palette.GOAL, linewidth=width, zorder=3)
    circle.set_path_effects(outline(width))
    axis.add_patch(circle)


def number_in_circle(axis: Axes, pose: npt.NDArray[Any], number: int) -> None:
    """A number 1.3 m to the right of a pose (6,), field frame, where it hides neither path, start nor goal."""
    x, y = pose[0] + 1.3 * math.sin(pose[5]), pose[1] - 1.3 * math.cos(pose[5])
    axis.text(
        x, y, str(number), fontsize=9, color="black", ha="center", va="center", zorder=8,
        bbox={"boxstyle": "circle,pad=0.18", "facecolor": palette.FLOWN, "edgecolor": "black", "linewidth": 0.7},
    )  # fmt: skip


def draw_drone(axis: Axes, pose_world: npt.NDArray[np.floating]) -> None:
    """A dot where the drone is (6,), field frame, and a short line along its heading."""
    x, y, yaw = pose_world[[0, 1, 5]].tolist()
    ahead = np.array([[x, y], [x + 3.5 * math.cos(yaw), y + 3.5 * math.sin(yaw)]])
    axis.plot(*ahead.T, color=palette.DRONE, linewidth=1.0, zorder=5, path_effects=outline(1.0))
    axis.scatter(x, y, s=13, color=palette.DRONE, edgecolor=palette.OUTLINE, linewidth=0.6, zorder=6)


def _line(colour: str, style: Any, label: str) -> Line2D:
    return Line2D([], [], color=colour, linestyle=style, linewidth=1.3, label=label, path_effects=outline(1.3))


def _dot(colour: str, label: str) -> Line2D:
    return Line2D(
        [], [], linestyle="", marker="o", markersize=4.5, label=label,
        markerfacecolor=colour, markeredgecolor=palette.OUTLINE, markeredgewidth=0.7,
    )  # fmt: skip


def path_handles(*, has_goals: bool) -> list[Line2D]:
    """Legend entries for the paths and marks of a flight."""
    demonstrated = [_line(palette.DEMONSTRATED, (0, (2.2, 1.1)), "demonstrated"), goal_handle()] if has_goals else []
    return [_line(palette.FLOWN, "-", "flown"), _dot(palette.START, "start"), *demonstrated]


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
    """Legend entries for the colours of predictions, and for the drone among them."""
    colours = zip(palette.PREDICTION_COLOURS, palette.PREDICTION_LABELS, strict=True)
    return [*(Patch(facecolor=colour, label=label) for colour, label in colours), _dot(palette.DRONE, "drone")]


def add_legend(figure: FigureBase, handles: Sequence[Any], *, font: float, place: LegendPlace = UPPER) -> None:
    """A legend in one line; font in points."""
    figure.legend(
        handles=list(handles), loc=place, ncols=len(handles), frameon=False, fontsize=font,
        handlelength=2.0, handletextpad=0.5, columnspacing=1.2, borderaxespad=0.2,
    )  # fmt: skip
