"""What PVN's predictions were worth, as a table and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from rich.console import Console
from rich.table import Table

from pvn.app.saving import save_figure
from pvn.evaluation.calibration import SHARES
from pvn.evaluation.predictions import DISTRIBUTIONS, WHEN, Judgement

COLOURS = {"first": "#0072b2", "last": "#d55e00"}  # told apart by colour-blind people too
MEDIANS = ("epsilon", "eta", "bound", "gap", "worst_gap")


def _figures(row: Mapping[str, Any]) -> list[str]:
    """A line of the table, from one prediction's report."""
    medians = [row[f"median_{name}"]["value"] for name in MEDIANS]
    shares = [row[name]["value"] for name in ("holds_percent", "says_something_percent")]
    figures = [*medians, row["mean_gap"]["value"], row["ratio_quantiles"]["0.95"]]
    return [f"{value:.2f}" for value in figures] + [f"{value:.1f}" for value in shares]


def print_bound(report: Mapping[str, Any]) -> None:
    """Medians of the theorem's two sides, the share of flights it holds for, and the calibration of the goals."""
    console = Console()
    console.print(f"{report['system']}, {report['flights']:,} flights of split {report['split']}: theorem 5.1, by step")
    headings = [name.replace("_", " ") for name in MEDIANS]
    for name in DISTRIBUTIONS:
        table = Table(
            "", *headings, "mean gap", "95% of gap/bound", "holds %", "bound < 1 %",
            title=f"{name} distribution: medians, mean, quantile, shares of flights", title_justify="left",
        )  # fmt: skip
        for column in table.columns[1:]:
            column.justify = "right"
        for when in WHEN:
            table.add_row(when, *_figures(report[when]["bound"][name]))
        console.print(table)
    table = Table(
        "goal distribution", "calibration error", "overconfidence", "error, spread goals", "overconf., spread goals"
    )
    for column in table.columns[1:]:
        column.justify = "right"
    for when in WHEN:
        found, spread = report[when]["calibration"], report[when]["spread_calibration"]
        figures = (part[key] for part in (found, spread) for key in ("error", "overconfidence"))
        table.add_row(when, *(f"{value:.3f}" for value in figures))
    console.print(table)


def draw_calibration(path: Path, judgement: Judgement, title: str) -> None:
    """Write the reliability curves: share of the goals within the likeliest p of the predicted mass, for each p."""
    figure, axis = plt.subplots(figsize=(6.4, 6.4), layout="constrained")
    percent = 100 * SHARES
    axis.plot((0, 100), (0, 100), color="0.6", linewidth=1, label="as predicted")
    for when, colour in COLOURS.items():
        for style, kind, found in (
            ("-", "goal", judgement.calibration[when]),
            (":", "goal spread as in training", judgement.spread_calibration[when]),
        ):
            label = f"{when} prediction, {kind} (error {100 * found.error:.1f})"
            axis.plot(percent, 100 * found.coverage, style, color=colour, linewidth=1.8, label=label)
    axis.text(97, 3, "below: overconfident", ha="right", color="0.4")
    axis.text(3, 97, "above: too wide", va="top", color="0.4")
    axis.set(
        xlim=(0, 100), ylim=(0, 100), aspect="equal", title=title,
        xlabel="likeliest share of the predicted mass (%)", ylabel="goals within it (%)",
    )  # fmt: skip
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), frameon=False)
    save_figure(figure, path)
