"""How good PVN's predictions are, in tables and a picture: goals, calibration, the bound of the paper's theorem 5.1."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from rich.console import Console

from pvn.evaluation.calibration import SHARES
from pvn.evaluation.intervals import Estimate
from pvn.evaluation.predictions import DISTRIBUTIONS, FIRST_AND_LAST, PredictionQuality
from pvn.viz import palette
from pvn.viz.results_table import titled_table
from pvn.viz.saving import save_figure

COLOURS = dict(zip(FIRST_AND_LAST, (palette.FIRST_PREDICTION, palette.LAST_PREDICTION), strict=True))
MARKERS = ("o", "^")
"""Of flights in the plot of bounds, by channel of the distributions."""
MEDIANS = ("epsilon", "eta", "bound", "gap", "worst_gap")


def _cells(row: Mapping[str, Any]) -> list[str]:
    """The cells of a table's row, from the report on one prediction."""
    medians = [row[f"median_{name}"]["value"] for name in MEDIANS]
    figures = [*medians, row["mean_gap"]["value"], row["ratio_quantiles"]["0.95"]]
    holds, says_something = (row[name]["value"] for name in ("holds_percent", "says_something_percent"))
    return [*(f"{value:.2f}" for value in figures), f"{holds:.1f}", f"{says_something:.0f}"]


def print_bound(report: Mapping[str, Any]) -> None:
    """Medians of the theorem's two sides, the share of flights it holds for, and how good the goals are."""
    console = Console()
    console.print(
        f"{report['system']}, {report['flights']:,} flights of split {report['split']}: theorem 5.1, values by step; "
        "medians, the mean gap, the 95% quantile of gap / bound, and the share of flights for which the bound holds "
        "and for which it is below 1, so that it says something"
    )
    headings = [name.replace("_", "\n") for name in MEDIANS]  # on two lines, to fit 80 columns
    for name in DISTRIBUTIONS:
        table = titled_table(f"{name} distribution", "", *headings, "mean\ngap", "95%\nratio", "holds\n%", "< 1\n%")
        for when in FIRST_AND_LAST:
            table.add_row(when, *_cells(report[when]["bound"][name]))
        console.print(table)
    table = titled_table(
        "goal distribution: share whose most likely cell is within 5 m of the goal; calibration; spread: for goals "
        "spread as in training",
        *("", "within 5 m, %", "error", "over-\nconfidence", "error,\nspread", "over-\nconfidence,\nspread"),
    )
    for when in FIRST_AND_LAST:
        parts = (report[when]["calibration"], report[when]["spread_calibration"])
        figures = (part[key] for part in parts for key in ("error", "overconfidence"))
        found = Estimate(**report[when]["goals_found_percent"])
        table.add_row(when, str(found), *(f"{value:.3f}" for value in figures))
    console.print(table)


def _draw_reliability(axis: Axes, quality: PredictionQuality) -> None:
    """Share of the goals within the likeliest p of the predicted mass, for each p."""
    percent = 100 * SHARES
    axis.plot((0, 100), (0, 100), color="0.6", linewidth=1, label="as predicted")
    for when, colour in COLOURS.items():
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
    """What each flight lost beside what the theorem allows, by its last prediction."""
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
