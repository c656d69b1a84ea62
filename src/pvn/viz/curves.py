"""Curves: losses during training, success by the radius of the goal, and how good predictions are."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pvn.evaluation.calibration import SHARES
from pvn.evaluation.predictions import DISTRIBUTIONS, FIRST_AND_LAST, PredictionQuality
from pvn.evaluation.summary import Summary
from pvn.systems import SYSTEMS
from pvn.viz import palette
from pvn.viz.saving import save_figure
from pvn.world.task import SUCCESS_M

PHASES = {
    "words/loss": ("reading words, in training", "cross entropy, sum over classes"),
    "stage1/dev_trajectory": ("stage 1: trajectory, on dev", "KL divergence"),
    "stage1/dev_goal": ("stage 1: goal, on dev", "KL divergence"),
    "stage1/loss": ("stage 1, in training", "weighted sum of losses"),
    "stage2/loss": ("stage 2, in training", "loss of actions"),
    "imitation/loss": ("imitation of the oracle, in training", "weighted sum of losses"),
    "DAggerFM/loss": ("DAggerFM, in training", "weighted sum of losses"),
}
"""Scalars of a training log that are drawn, by name: title, and quantity."""
DAGGER_NOTE = (
    "DAggerFM's loss is measured on its memory of flights. The first are the oracle's own; in iteration k the oracle "
    "flies only 0.92^k of the steps, so the memory fills with the learner's own, harder states, and the loss rises."
)
MIN_SMOOTHED = 50
"""Curves with at least this many points are smoothed."""
MAX_BANDS = 6
"""Intervals are drawn only in panels with at most this many curves; more would be one grey cloud."""
LINE_STYLES = ("-", "--", ":")
LABEL_GAP = 4.0
"""Least distance between the names of curves, percent."""

PREDICTIONS = dict(zip(FIRST_AND_LAST, (palette.FIRST_PREDICTION, palette.LAST_PREDICTION), strict=True))
MARKERS = ("o", "^")
"""Markers in the plot of bounds, by channel of the distributions."""

Curve = npt.NDArray[np.float64]


def read_curves(logs: Path) -> dict[str, Curve]:
    """Points (N, 2), step and value, of every scalar in a run's TensorBoard logs, before and after it was resumed."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    points: dict[str, dict[int, float]] = {}
    for file in sorted(logs.glob("events.out.tfevents.*"), key=lambda file: file.stat().st_mtime):
        events = EventAccumulator(str(file), size_guidance={"scalars": 0})
        events.Reload()
        for name in events.Tags()["scalars"]:
            # Steps that were repeated after resuming count once.
            points.setdefault(name, {}).update({event.step: event.value for event in events.Scalars(name)})
    return {name: np.array(sorted(found.items()), np.float64) for name, found in points.items()}


def _readable(name: str, curve: Curve) -> Curve:
    """A curve (N, 2) that can be read: running means if there are many points."""
    if "/dev_" in name:  # measured now and then, and logged again at every step in between
        return curve[np.diff(curve[:, 1], prepend=np.nan) != 0]
    if len(curve) < MIN_SMOOTHED:
        return curve
    width = len(curve) // 25
    kernel = np.ones(width) / width
    return np.stack([np.convolve(column, kernel, mode="valid") for column in curve.T], axis=1)


def system_colours(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """A colour and a line style for each system, the same in every figure."""
    pairs = itertools.cycle(itertools.product(LINE_STYLES, palette.SYSTEM_COLOURS))
    return {name: (colour, style) for name, (style, colour) in zip(names, pairs, strict=False)}


def _add_shared_legend(figure: Figure, cells: Iterable[Axes]) -> None:
    """One legend below all panels, with each label once."""
    named = {label: line for cell in cells for line, label in zip(*cell.get_legend_handles_labels(), strict=True)}
    figure.legend(
        list(named.values()), list(named), loc="outside lower center", ncols=min(5, len(named)), frameon=False
    )


def draw_learning(path: Path, curves: Mapping[str, Mapping[str, Curve]], names: Sequence[str]) -> None:
    """Write a panel for each phase of training, with the curves of all runs that have it.

    curves: points (N, 2), step and value, by system and scalar. names: all systems, so that each has the same
    colour in every figure.
    """
    phases = [name for name in PHASES if any(name in run for run in curves.values())]
    colours = system_colours(names)
    columns = min(4, len(phases))
    rows = -(-len(phases) // columns)
    figure, cells = plt.subplots(
        rows, columns, figsize=(4.2 * columns, 3.3 * rows), layout="constrained", squeeze=False
    )
    for cell in cells.flat[len(phases) :]:
        cell.set_axis_off()
    if "DAggerFM/loss" in phases and len(phases) < cells.size:
        note = textwrap.fill(DAGGER_NOTE, 40)
        cells.flat[-1].text(0.02, 0.95, note, fontsize=10, color=palette.NOTE, va="top", linespacing=1.4)
    for cell, phase in zip(cells.flat, phases, strict=False):
        for system, run in curves.items():
            if phase in run:
                colour, style = colours[system]
                curve = _readable(phase, run[phase])
                mark = "o" if len(curve) == 1 else ""  # a single point makes no line
                cell.plot(*curve.T, style, color=colour, label=system, linewidth=1.6, marker=mark)
        title, quantity = PHASES[phase]
        cell.set_title(title, fontsize=11)
        cell.set_ylabel(quantity)
        cell.set_xlabel("iteration" if phase.startswith(("stage2", "DAggerFM")) else "step")
        cell.grid(alpha=0.25)
        cell.spines[["top", "right"]].set_visible(False)
    _add_shared_legend(figure, cells.flat)
    save_figure(figure, path)


def _spread(heights: Sequence[float], gap: float) -> list[float]:
    """The heights, moved apart so that all are at least `gap` from each other, in the same order."""
    order = np.argsort(heights, kind="stable")
    placed = np.array(heights, float)[order]
    for _ in range(200):
        between = np.diff(placed)
        push = np.maximum(gap - between, 0) / 2
        if push.max(initial=0) < 1e-3:
            break
        placed[:-1] -= push
        placed[1:] += push
    spread = np.empty(len(placed))
    spread[order] = placed
    return spread.tolist()


def _draw_radii(axis: Axes, summaries: Sequence[Summary], colours: Mapping[str, tuple[str, str]], title: str) -> None:
    """The curves of some systems, each with its name where it ends."""
    ends = [list(summary.overall.success_by_radius.values())[-1].value for summary in summaries]
    for summary, end, height in zip(summaries, ends, _spread(ends, LABEL_GAP), strict=True):
        curve = summary.overall.success_by_radius
        radii = list(curve)
        colour, style = colours[summary.system]
        axis.plot(
            radii, [rate.value for rate in curve.values()], style,
            color=colour, linewidth=3.0 if summary.system == "pvn" else 1.6, label=summary.system,
        )  # fmt: skip
        axis.annotate(
            summary.system, (radii[-1], end), (radii[-1] + 0.45, height), color=colour, va="center", fontsize=9,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.7, "shrinkA": 1, "relpos": (0, 0.5)},
        )  # fmt: skip
        band = [rate.interval for rate in curve.values() if rate.interval is not None]  # none of too few fields
        if band and len(summaries) <= MAX_BANDS:
            low, high = np.array(band).T
            axis.fill_between(radii, low, high, color=colour, alpha=0.12, linewidth=0)
    axis.axvline(SUCCESS_M, color="#888888", linewidth=1.0, linestyle=(0, (2, 3)), zorder=0)
    axis.set(xlabel="radius of the goal (m)", ylim=(0, 102), xlim=(1, 10), title=title)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def _of_split(summaries: Sequence[Summary], preferred: str) -> list[Summary]:
    """The results on the preferred split, or on the first that there is."""
    splits = [summary.split for summary in summaries]
    split = preferred if preferred in splits else splits[0]
    return [summary for summary in summaries if summary.split == split]


def draw_success_by_radius(path: Path, summaries: Sequence[Summary], names: Sequence[str]) -> None:
    """Write the success rate of each system over the radius of the goal, with 95% bands where there are few.

    In two panels, as in the paper's table: different systems, on the test split; PVN and its changes, on dev. names:
    all systems, so that each has the same colour in every figure.
    """
    own = SYSTEMS["pvn"].agent_class
    changed = [summary for summary in summaries if SYSTEMS[summary.system].agent_class is own]
    others = [summary for summary in summaries if summary.system == "pvn" or summary not in changed]
    panels = [
        (title, _of_split(some, preferred))
        for title, some, preferred in (("systems", others, "test"), ("pvn and what was changed", changed, "dev"))
        # PVN alone is in the first panel already.
        if some and (some is others or {summary.system for summary in some} != {"pvn"})
    ]
    panels = [(f"{title}, {some[0].split} split", some) for title, some in panels]
    figure, cells = plt.subplots(
        1, len(panels), figsize=(6.6 * len(panels), 5.2), layout="constrained", squeeze=False, sharey=True
    )
    colours = system_colours(names)
    for cell, (title, some) in zip(cells.flat, panels, strict=True):
        _draw_radii(cell, some, colours, title)
    cells[0, 0].set_ylabel("success rate (%)")
    save_figure(figure, path)


def _draw_reliability(axis: Axes, quality: PredictionQuality) -> None:
    """Share of the goals within the likeliest p of the predicted mass, for each p."""
    percent = 100 * SHARES
    axis.plot((0, 100), (0, 100), color="0.6", linewidth=1, label="as predicted")
    for when, colour in PREDICTIONS.items():
        for style, kind, found in (
            ("-", "goal", quality.calibration[when]),
            (":", "goal spread as in training", quality.spread_calibration[when]),
        ):
            label = f"{when} prediction, {kind} (error {100 * found.error:.1f}%)"
            axis.plot(percent, 100 * found.coverage, style, color=colour, linewidth=1.8, label=label)
    axis.text(97, 3, "below: overconfident", ha="right", color="0.4")
    axis.text(3, 97, "above: too wide", va="top", color="0.4")
    axis.set(
        xlim=(0, 100), ylim=(0, 100), title="is the goal where it is predicted?",
        xlabel="likeliest share of the predicted mass (%)", ylabel="goals within it (%)",
    )  # fmt: skip


def _draw_bounds(axis: Axes, quality: PredictionQuality) -> None:
    """What each flight lost beside what the theorem allows by its last prediction."""
    greatest = 1.0
    for name, channel in DISTRIBUTIONS.items():
        found = quality.bounds["last", name]
        axis.scatter(
            found.bound, found.gap, s=14, marker=MARKERS[channel], color=palette.PREDICTION_COLOURS[channel],
            alpha=0.6, linewidth=0,
            label=f"{name} distribution, last prediction (median bound {np.median(found.bound):.1f})",
        )  # fmt: skip
        greatest = max(greatest, float(found.bound.max()))
    axis.plot((0, 1), (0, 1), color="0.6", linewidth=1, label="gap = bound; none may lie above it")
    axis.axvline(1, color="0.6", linewidth=1, linestyle="--", label="right of this the bound says nothing")
    axis.set(
        xlim=(0, 1.05 * greatest), title="what is lost, and what theorem 5.1 allows",
        xlabel="bound, by step", ylabel="gap to the demonstration's value, by step",
    )  # fmt: skip


def draw_prediction_quality(path: Path, quality: PredictionQuality, title: str) -> None:
    """Write a picture of the calibration of the goal distributions and of the bound on every flight."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11.2, 7.0), layout="constrained")
    _draw_reliability(left, quality)
    _draw_bounds(right, quality)
    for axis in (left, right):
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.11), frameon=False)
    figure.suptitle(title, parse_math=False)
    save_figure(figure, path)
