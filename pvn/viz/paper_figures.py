"""How PVN's predictions change as it flies, and galleries of what was flown: the paper's figures 4 and 5.

Figures are drawn as large as they are printed, across a page of text, so that a point in them is a point on paper.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.patheffects as effects
import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch
from torch import Tensor
from torch.nn import functional

from pvn.geometry import MapGrid, to_map
from pvn.model import visitation
from pvn.simulator.cameras import from_above, take_pictures
from pvn.viz.flight_picture import FLOWN, GOAL, MARGIN, SHOWN, START, draw_path, draw_start, outcome
from pvn.viz.flight_record import Floats, Maps, Moment, Recorded
from pvn.viz.saving import save_for_paper
from pvn.world.layout import FIELD_SIZE, Layout
from pvn.world.task import SUCCESS_M, Task, distinct_layouts

PAGE_INCHES = 17 / 2.54
FONT, LARGE_FONT = 7, 8
"""Points. Seven is the least that journals take."""
LETTERS = 100
"""In a line of the large font across the page."""
SIZE_PX = 480
NUM_PREDICTIONS = 4
REACH = (-MARGIN, FIELD_SIZE + MARGIN)
TRAJECTORY_COLOUR, GOAL_COLOUR = to_rgb(FLOWN), to_rgb(GOAL)
"""What is predicted has the colour of what is predicted: flown blue, goal orange. The paper's red and green are one
colour to one man in twelve."""
REACHED, MISSED = "#009e73", "#d55e00"
COMPONENTS = np.array([[0.84, 0.37, 0.0], [0.0, 0.3, 0.85], [0.16, 0.33, 0.15]])
"""Colours of a map's three components, red, green, blue; together white."""
DIMMED = 0.7
"""How bright the field is under predictions."""
GALLERY_COLUMNS = 4
WORD_SIZE = (0.45, 0.14)
"""Width and height of a word in the corner of a gallery's picture with room around it, in those of the picture."""

Picture = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Flown:
    """A flight of a gallery."""

    task: Task
    points: npt.NDArray[np.float32]
    """(T + 1, 2): where it was, field frame."""
    has_stopped: bool
    has_goal: bool = True
    """Whether the task's path was demonstrated; not for an instruction that someone typed."""

    @property
    def is_success(self) -> bool:
        """Whether it stopped near its goal."""
        return self.has_goal and self.has_stopped and math.dist(self.points[-1], self.task.goal) < SUCCESS_M


def field_from_above(layout: Layout) -> Picture:
    """The field from above (H, W, 3), 0 to 1, north up."""
    camera = from_above(REACH[0], REACH[0], REACH[1] - REACH[0], SIZE_PX)
    return np.asarray(take_pictures([layout], [camera], SIZE_PX, SIZE_PX)[0]) / 255


def lay_over_field(maps: Tensor, origin: Sequence[float], grid: MapGrid, size_px: int = SIZE_PX) -> Picture:
    """Maps (C, S, S) in the map frame of a pose (x, y, yaw) as a picture (H, W, C) of the field, north up."""
    along = (torch.arange(size_px) + 0.5) / size_px * (REACH[1] - REACH[0]) + REACH[0]
    y, x = torch.meshgrid(along.flip(0), along, indexing="ij")
    points = to_map(torch.stack([x, y], -1).view(1, -1, 2), torch.tensor([list(origin)], dtype=torch.float32))
    row, column = grid.cells(points)[0].unbind(-1)
    where = (torch.stack([column, row], -1) + 0.5) / grid.size * 2 - 1
    where = where.view(1, size_px, size_px, 2)
    laid = functional.grid_sample(maps[None].float().cpu(), where, mode="bilinear", align_corners=False)
    return laid[0].permute(1, 2, 0).double().numpy()


def glow(above: Picture, laid: Picture, channels: Sequence[int] = (visitation.TRAJECTORY, visitation.GOAL)) -> Picture:
    """Distributions of laid (H, W, 2), each as bright as it can be, over a dim grey picture of the field."""
    picture = np.repeat(above.mean(-1, keepdims=True), 3, axis=-1) * DIMMED
    colours = {visitation.TRAJECTORY: TRAJECTORY_COLOUR, visitation.GOAL: GOAL_COLOUR}
    for channel in channels:
        # The root shows where little is expected, too; the paper's pictures are as bright there.
        share = np.sqrt(laid[..., channel : channel + 1] / max(laid[..., channel].max(), 1e-12))
        picture = picture * (1 - share) + np.array(colours[channel]) * share
    return picture.clip(0, 1)


def paint_components(components: Floats, is_known: npt.NDArray[np.bool_]) -> Floats:
    """Three components (3, S, S) of a map as colours (3, S, S), 0 to 1; black where nothing is known, (S, S)."""
    known = components[:, is_known]  # (3, cells)
    if not known.size:
        return np.zeros_like(components)
    low, high = (np.quantile(known, share, axis=1)[:, None, None] for share in (0.02, 0.98))
    shares = ((components - low) / np.maximum(high - low, 1e-6)).clip(0, 1)
    # Some light even where all three are low: black is for what was never seen.
    painted = 0.12 + 0.88 * np.einsum("cst,cr->rst", shares, COMPONENTS)
    return (painted * is_known).astype(np.float32)


def semantic_picture(maps: Maps, origin: Sequence[float]) -> Picture:
    """Three components of the semantic map (H, W, 3) as they lie on the field; origin: the start pose x, y, yaw."""
    return lay_over_field(torch.from_numpy(paint_components(maps.semantic, maps.is_known)), origin, maps.grid)


def predictions(recorded: Recorded) -> list[Moment]:
    """The moments at which a flight's pilot predicted where to fly; refused if it never does."""
    found = [moment for moment in recorded.moments if moment.is_planned and has_prediction(moment)]
    if not found:
        raise ValueError(
            f"{recorded.system}: predicts no visitation distributions, expected a PVN; name pvn, one of its ablations "
            "or the weights of a PVN"
        )
    return found


def has_prediction(moment: Moment) -> bool:
    """Whether there are distributions to be drawn."""
    return moment.maps is not None and moment.maps.probability is not None


def show(axis: Axes, picture: Picture, title: str = "") -> None:
    """A picture (H, W, 3) of the whole field."""
    axis.imshow(picture, extent=(*REACH, *REACH))
    axis.set(xlim=REACH, ylim=REACH, xticks=[], yticks=[])
    axis.set_title(title, fontsize=FONT, pad=2.5, parse_math=False)


def draw_drone(axis: Axes, pose_world: Floats) -> None:
    """The drone (6,) as a white dot and the way it looks, field frame."""
    x, y, yaw = pose_world[[0, 1, 5]].tolist()
    ahead = np.array([[x, y], [x + 3.5 * math.cos(yaw), y + 3.5 * math.sin(yaw)]])
    axis.plot(*ahead.T, color="white", linewidth=1.0, zorder=5, path_effects=_edge(1.0))
    axis.scatter(x, y, s=13, color="white", edgecolor="black", linewidth=0.6, zorder=6)


def _edge(width: float) -> list[Any]:
    return [effects.withStroke(linewidth=width + 0.8, foreground="black")]


def _draw_flown(axis: Axes, flown: Flown) -> None:
    """The demonstrated path, the flown path and the goal region."""
    draw_path(axis, flown.points, FLOWN, "-", "flown", width=1.3)
    draw_start(axis, flown.task.start, size=16)
    if flown.has_goal:
        # Over the flown path, which shows between the dashes where both are one.
        draw_path(axis, flown.task.path, SHOWN, "--", "demonstrated", width=1.1)
        draw_goal(axis, flown.task)


def draw_goal(axis: Axes, task: Task, *, width: float = 1.1) -> None:
    """The region in which a flight should stop; width of its line in points."""
    edge = _edge(width)
    axis.add_patch(
        Circle(task.goal, SUCCESS_M, fill=False, edgecolor=GOAL, linewidth=width, path_effects=edge, zorder=3)
    )


def _line(colour: str, style: Any, label: str) -> Line2D:
    return Line2D([], [], color=colour, linestyle=style, linewidth=1.3, label=label, path_effects=_edge(1.3))


def _dot(colour: str, label: str, size: float = 4.5, face: str | None = None) -> Line2D:
    return Line2D(
        [], [], linestyle="", marker="o", markersize=size, label=label,
        markerfacecolor=colour if face is None else face, markeredgecolor="black" if face is None else colour,
        markeredgewidth=0.7 if face is None else 1.3,
    )  # fmt: skip


def path_handles(*, has_goals: bool) -> list[Line2D]:
    """What the lines and dots of a flight from above mean."""
    demonstrated = [_line(SHOWN, (0, (2.2, 1.1)), "demonstrated"), goal_handle()] if has_goals else []
    return [_line(FLOWN, "-", "flown"), _dot(START, "start"), *demonstrated]


def goal_handle() -> Line2D:
    """What the circle means."""
    return _dot(GOAL, "goal region", 6, "none")


def drone_handles() -> list[Line2D]:
    """What marks the drone on its maps."""
    return [_line("white", "-", "flown so far"), _dot("white", "drone")]


def prediction_handles() -> list[Any]:
    """What the colours of predictions mean."""
    return [
        Patch(facecolor=TRAJECTORY_COLOUR, label="predicted trajectory"),
        Patch(facecolor=GOAL_COLOUR, label="predicted goal"),
        _dot("white", "drone"),
    ]


def add_legend(figure: Figure, handles: Sequence[Any], *, is_below: bool = False) -> None:
    """One line, above everything or below."""
    figure.legend(
        handles=list(handles), loc="outside lower center" if is_below else "outside upper center",
        ncols=len(handles), frameon=False, fontsize=FONT,
        handlelength=2.0, handletextpad=0.5, columnspacing=1.2, borderaxespad=0.2,
    )  # fmt: skip


def spread(count: int, most: int) -> list[int]:
    """At most `most` of the places 0 to count - 1, first and last among them, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int)).tolist()


def _evolution_row(cells: Sequence[Axes], recorded: Recorded) -> None:
    """One flight: the field and both paths, successive predictions, the last semantic map."""
    task = recorded.task
    above = field_from_above(task.layout)
    show(cells[0], above, "field")
    _draw_flown(cells[0], Flown(task, recorded.flown_world[:, :2], recorded.has_stopped, recorded.has_goal))
    made = predictions(recorded)
    shown = spread(len(made), NUM_PREDICTIONS)
    for cell in cells[1 + len(shown) : -1]:
        cell.set_axis_off()
        cell.text(0.5, 0.5, "no further\nprediction", fontsize=FONT, color="#555555", ha="center", va="center")
    for cell, place in zip(cells[1:], shown, strict=False):
        moment, maps = made[place], made[place].maps
        assert maps is not None and maps.probability is not None
        laid = lay_over_field(torch.from_numpy(maps.probability), task.start, maps.grid)
        show(cell, glow(above, laid), f"{moment.step * recorded.step_seconds:.0f} s")
        draw_drone(cell, moment.pose_world)
    last = recorded.moments[-1].maps
    assert last is not None
    show(cells[-1], semantic_picture(last, task.start), "semantic map")


def told(recorded: Recorded, width: int) -> list[str]:
    """The instruction, in lines of at most `width` letters, and how the flight ended."""
    words = outcome(recorded.distance, len(recorded.moments), recorded.has_stopped)
    return [*textwrap.wrap(f"“{recorded.task.instruction}”", width), words]


def draw_evolutions(path: Path, flights: Sequence[Recorded]) -> None:
    """Write a figure with a row for each flight: the field and both paths, successive predictions, semantic map."""
    columns = NUM_PREDICTIONS + 2
    lines = [told(recorded, LETTERS) for recorded in flights]
    heights = [PAGE_INCHES / columns + 0.19 + 0.155 * len(row) for row in lines]
    figure = plt.figure(figsize=(PAGE_INCHES, sum(heights) + 0.28), layout="constrained")
    rows = np.ravel(figure.subfigures(len(flights), 1, height_ratios=heights))  # type: ignore[arg-type]
    for recorded, row, words in zip(flights, rows, lines, strict=True):
        _evolution_row(row.subplots(1, columns), recorded)
        row.suptitle("\n".join(words), fontsize=LARGE_FONT, parse_math=False)
    has_goals = any(recorded.has_goal for recorded in flights)
    add_legend(figure, [*path_handles(has_goals=has_goals), *prediction_handles()])
    save_for_paper(figure, path)


def _free_corner(points: Floats) -> tuple[int, int]:
    """The first corner, (0, 0) to (1, 1), in which a word hides none of the points (P, 2), field frame."""
    share = (points - REACH[0]) / (REACH[1] - REACH[0])
    corners = [(0, 0), (1, 0), (0, 1), (1, 1)]
    is_free = [not (np.abs(share - corner) < WORD_SIZE).all(1).any() for corner in corners]
    return corners[is_free.index(True)] if any(is_free) else corners[0]


def _mark_outcome(axis: Axes, flown: Flown) -> None:
    """A frame and a word where it hides no path: reached, missed, or never stopped."""
    if flown.has_goal:
        words, colour = ("reached", REACHED) if flown.is_success else ("missed", MISSED)
        for spine in axis.spines.values():
            spine.set(color=colour, linewidth=1.6)
    else:
        words, colour = "stopped", "black"
    words = words if flown.has_stopped else "never stopped"
    right, top = _free_corner(np.concatenate([flown.points, flown.task.path] if flown.has_goal else [flown.points]))
    axis.text(
        0.97 if right else 0.03, 0.97 if top else 0.03, words, transform=axis.transAxes, color="white", fontsize=FONT,
        ha="right" if right else "left", va="top" if top else "bottom", zorder=9,
        bbox={"boxstyle": "square,pad=0.25", "facecolor": colour, "edgecolor": "none"},
    )  # fmt: skip


def draw_gallery(path: Path, flights: Sequence[Flown]) -> None:
    """Write a sheet of flights from above, four in a row: demonstrated and flown, goal, instruction, outcome."""
    layouts, places = distinct_layouts([flown.task for flown in flights])
    pictures = [field_from_above(layout) for layout in layouts]
    columns = min(GALLERY_COLUMNS, len(flights))
    width = PAGE_INCHES * max(columns, 2) / GALLERY_COLUMNS  # the legend is as wide as two flights
    lines = [textwrap.wrap(f"“{flown.task.instruction}”", 30) for flown in flights]
    sheet = list(zip(flights, places, lines, strict=True))
    rows = [sheet[begin : begin + columns] for begin in range(0, len(sheet), columns)]
    heights = [width / columns + 0.02 + 0.125 * max(len(words) for _, _, words in row) for row in rows]
    figure = plt.figure(figsize=(width, sum(heights) + 0.28), layout="constrained")
    parts = np.ravel(figure.subfigures(len(rows), 1, height_ratios=heights))  # type: ignore[arg-type]
    for part, row in zip(parts, rows, strict=True):
        cells = part.subplots(1, columns, squeeze=False)[0]
        for cell in cells[len(row) :]:
            cell.set_axis_off()
        for cell, (flown, place, words) in zip(cells, row, strict=False):
            show(cell, pictures[place], "\n".join(words))
            _draw_flown(cell, flown)
            _mark_outcome(cell, flown)
    add_legend(figure, path_handles(has_goals=any(flown.has_goal for flown in flights)))
    save_for_paper(figure, path)
