"""What a pilot sees, maps and predicts at several steps of one flight, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes

from pvn.model.visitation import GOAL, TRAJECTORY
from pvn.viz.flight_picture import draw_path
from pvn.viz.flight_record import Moment, Recorded
from pvn.viz.paper_figures import (
    FONT,
    LARGE_FONT,
    LETTERS,
    PAGE_INCHES,
    Picture,
    add_legend,
    draw_drone,
    draw_goal,
    drone_handles,
    field_from_above,
    glow,
    goal_handle,
    lay_over_field,
    paint_components,
    predictions,
    semantic_picture,
    show,
    spread,
    told,
)
from pvn.viz.saving import save_for_paper

TITLES = ("what the drone sees", "semantic map", "grounding map", "predicted trajectory", "predicted goal")


def _draw_moment(cells: Sequence[Axes], recorded: Recorded, moment: Moment, above: Picture) -> None:
    """One row: the picture, then four maps as they lie on the field (above: H, W, 3), with the flight up to then."""
    maps, origin = moment.maps, recorded.task.start
    assert maps is not None and maps.probability is not None
    cells[0].imshow(moment.image, interpolation="lanczos")
    cells[0].set(xticks=[], yticks=[])
    cells[0].set_ylabel(f"{moment.step * recorded.step_seconds:.0f} s", fontsize=FONT)
    laid = lay_over_field(torch.from_numpy(maps.probability), origin, maps.grid)
    grounding = torch.from_numpy(paint_components(maps.grounding, maps.is_known))
    pictures = (
        semantic_picture(maps, origin),
        lay_over_field(grounding, origin, maps.grid),
        glow(above, laid, [TRAJECTORY]),
        glow(above, laid, [GOAL]),
    )
    flown = recorded.flown_world[: moment.step + 1, :2]
    for cell, picture in zip(cells[1:], pictures, strict=True):
        show(cell, picture)
        draw_path(cell, flown, "white", "-", "flown", width=0.9)
        draw_drone(cell, moment.pose_world)
    if recorded.has_goal:
        draw_goal(cells[-1], recorded.task, width=0.7)


def draw_maps(path: Path, recorded: Recorded, *, num_steps: int = 4) -> None:
    """Write a figure with a row for each of several predictions of a flight, first and last among them."""
    made = predictions(recorded)
    shown = [made[place] for place in spread(len(made), num_steps)]
    words = told(recorded, LETTERS)
    ratio = shown[0].image.shape[1] / shown[0].image.shape[0]
    height = PAGE_INCHES * 0.95 / (ratio + len(TITLES) - 1)
    size = (PAGE_INCHES, height * len(shown) + 0.5 + 0.155 * len(words))
    figure, cells = plt.subplots(
        len(shown), len(TITLES), figsize=size, layout="constrained", squeeze=False, width_ratios=(ratio, 1, 1, 1, 1)
    )
    above = field_from_above(recorded.task.layout)
    for row, moment in zip(cells, shown, strict=True):
        _draw_moment(row, recorded, moment, above)
    for cell, title in zip(cells[0], TITLES, strict=True):
        cell.set_title(title, fontsize=FONT, pad=2.5)
    figure.suptitle("\n".join(words), fontsize=LARGE_FONT, parse_math=False)
    add_legend(figure, [*drone_handles(), *[goal_handle()] * recorded.has_goal], is_below=True)
    save_for_paper(figure, path)
