"""Pictures of segments of a corpus."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from pvn.corpus.meadow.manoeuvres import SLOTS
from pvn.corpus.segments import Segment
from pvn.simulator.interface import SimulatorConfig
from pvn.viz import palette
from pvn.viz.axes import draw_goal, draw_path, draw_start, draw_top_down, start_arrow
from pvn.viz.drawn_text import as_typed, quoted, wrapped
from pvn.viz.pictures import views_from
from pvn.viz.saving import save_figure

SHEET_PX = 600
METRES_PER_POINT, SHEET_METRES_PER_POINT = 0.118, 0.14
"""Scale of the field in the picture of one segment, and of several."""
VIEW_PX = 640
"""Width of the view from the start, pixels."""
START_SIZE = 1.5
"""Size of the arrow at the start, metres."""
SIDE_INCHES, SHEET_INCHES = 4.8, 5.6
"""Width of the column beside the field, and of a segment on a sheet."""


def _draw_above(axis: Axes, segment: Segment, size_px: int, scale: float) -> None:
    """The field from above with the demonstrated path, its start and its goal; scale: metres per point.

    Where the manoeuvres are known, letters mark the landmarks meant, and dots the ends of manoeuvres.
    """
    task, path, note = segment.task, segment.demonstration.path, segment.annotation
    draw_top_down(
        axis, task.layout, size_px, metres_per_point=scale, avoided=[path, start_arrow(task.start, START_SIZE)]
    )
    draw_path(axis, path, palette.DEMONSTRATED, "-", "demonstrated", width=2.4)
    draw_start(axis, task.start, size=START_SIZE)
    draw_goal(axis, segment.demonstration.goal)
    if note is None:
        return
    for slot, mark in zip(SLOTS, note.meant, strict=False):
        landmark = task.layout.landmarks[mark]
        axis.text(
            landmark.x, landmark.y, slot, fontsize=12, weight="bold", ha="center", va="center", zorder=8,
            bbox={"boxstyle": "circle,pad=0.2", "facecolor": "white", "edgecolor": "black", "alpha": 0.85},
        )  # fmt: skip
    for stop in note.stops[:-1]:
        x, y = path[stop].tolist()
        axis.scatter(x, y, s=28, color=palette.DEMONSTRATED, edgecolor=palette.OUTLINE, zorder=6)


def _annotation_lines(segment: Segment) -> list[str]:
    """The manoeuvres, and the phrase that the sentence was made from, or its author; none without an annotation."""
    note = segment.annotation
    if note is None:
        return []
    author = "" if segment.author is None else f", author {segment.author}"
    wording = f"{'seen' if note.is_seen else 'unseen'} phrase {note.phrase}" if note.phrase else segment.source + author
    return ["; ".join(note.manoeuvres), wording]


def draw_segment(path: Path, segment: Segment) -> None:
    """Write one segment's picture: the field from above, the demonstrated path, and the drone's first view."""
    task = segment.task
    figure = plt.figure(figsize=(12.4, 7.6), layout="constrained")
    above, aside = np.ravel(figure.subfigures(1, 2, width_ratios=(1.45, 1)))  # type: ignore[arg-type]
    axis = above.subplots()
    _draw_above(axis, segment, 1000, METRES_PER_POINT)
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False)
    sentence, view = aside.subplots(2, 1)
    for cell in (sentence, view):
        cell.set_axis_off()
    config, (x, y, yaw) = SimulatorConfig(), task.start
    pose = np.array([[x, y, config.altitude, 0.0, 0.0, yaw]])
    view.imshow(views_from(task.layout, pose, config.camera, VIEW_PX)[0], interpolation="lanczos")
    view.set_title("what the drone sees at the start", fontsize=10, loc="left")
    sentence.set_title(f"segment {segment.id}", fontsize=10, loc="left")
    words = "\n".join(wrapped(quoted(task.instruction), 15, 72 * SIDE_INCHES, 10))
    sentence.text(0.0, 0.9, words, fontsize=15, va="top", linespacing=1.4, **as_typed(words))
    note = "\n".join(_annotation_lines(segment))
    sentence.text(0.0, 0.0, note, fontsize=10, va="bottom", color=palette.NOTE, **as_typed(note))
    save_figure(figure, path)


def draw_segments(path: Path, segments: Sequence[Segment]) -> None:
    """Write a sheet of segments from above, three in a row, each under its sentence."""
    columns = min(3, len(segments))
    titles = [
        [*wrapped(quoted(segment.task.instruction), 12, 72 * (SHEET_INCHES - 0.2), 4), *_annotation_lines(segment)[:1]]
        for segment in segments
    ]
    sheet = list(zip(segments, titles, strict=True))
    rows = [sheet[begin : begin + columns] for begin in range(0, len(sheet), columns)]
    heights = [SHEET_INCHES + 0.25 * max(len(lines) for _, lines in row) for row in rows]
    figure, cells = plt.subplots(
        len(rows), columns, figsize=(SHEET_INCHES * columns, sum(heights)), layout="constrained", squeeze=False,
        height_ratios=heights,
    )  # fmt: skip
    for cell in cells.flat[len(segments) :]:
        cell.set_axis_off()
    for cell, (segment, lines) in zip(cells.flat, sheet, strict=False):
        _draw_above(cell, segment, SHEET_PX, SHEET_METRES_PER_POINT)
        cell.set(xlabel="", ylabel="", xticks=[], yticks=[], anchor="S")  # room is above, for the title
        text = "\n".join(lines)
        cell.set_title(text, fontsize=12, **as_typed(text))
    save_figure(figure, path)
