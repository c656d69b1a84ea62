"""A figure for papers: what an agent sees, maps and predicts at several steps of one flight."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from pvn.model.visitation import GOAL, TRAJECTORY
from pvn.viz import palette
from pvn.viz.axes import (
    THIN_EDGE,
    add_legend,
    draw_drone,
    draw_goal_region,
    draw_path,
    draw_picture,
    drone_handles,
    goal_handle,
)
from pvn.viz.drawn_text import as_typed
from pvn.viz.drone_views import views_at
from pvn.viz.field_views import Bytes, Picture, field_from_above, in_grey
from pvn.viz.flight_record import FlightRecord, Moment, predicted_moments, spread_evenly
from pvn.viz.map_pictures import (
    MapRanges,
    grounding_picture,
    map_ranges,
    overlay_predictions,
    prediction_heat,
    semantic_picture,
)
from pvn.viz.paper_page import FIELD_PX, FONT, LARGE_FONT, PAGE_INCHES, caption
from pvn.viz.saving import save_for_paper

TITLES = ("what the drone sees", "semantic map", "grounding map", *palette.PREDICTION_LABELS)


def _draw_moment(
    cells: Sequence[Axes], record: FlightRecord, moment: Moment, ranges: MapRanges, ground: Picture, view: Bytes
) -> None:
    """One row: the view (H, W, 3), then four maps as they lie on the field, with the path up to that moment."""
    maps, origin = moment.maps, record.task.start
    assert maps is not None
    cells[0].imshow(view, interpolation="lanczos")
    cells[0].set(xticks=[], yticks=[])
    cells[0].set_ylabel(f"{moment.step * record.step_seconds:.0f} s", fontsize=FONT)
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
    lines = caption(record)
    ratio = shown[0].image.shape[1] / shown[0].image.shape[0]
    height = PAGE_INCHES * 0.95 / (ratio + len(TITLES) - 1)
    size = (PAGE_INCHES, height * len(shown) + 0.5 + 0.155 * len(lines))
    figure, cells = plt.subplots(
        len(shown), len(TITLES), figsize=size, layout="constrained", squeeze=False, width_ratios=(ratio, 1, 1, 1, 1)
    )
    ground = in_grey(field_from_above(record.task.layout, FIELD_PX))
    views = views_at(record, [moment.step for moment in shown])
    for row, moment, view in zip(cells, shown, views, strict=True):
        _draw_moment(row, record, moment, ranges, ground, view)
    for cell, title in zip(cells[0], TITLES, strict=True):
        cell.set_title(title, fontsize=FONT, pad=2.5)
    text = "\n".join(lines)
    figure.suptitle(text, fontsize=LARGE_FONT, **as_typed(text))
    handles = [*drone_handles(), *([] if record.goal is None else [goal_handle()])]
    add_legend(figure, handles, font=FONT, place="outside lower center")
    save_for_paper(figure, path)
