"""Results of systems as tables on the terminal, and the columns of all results tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from pvn.evaluation.intervals import TOO_FEW, Estimate, bootstrap_difference
from pvn.evaluation.manoeuvres import TURNED
from pvn.evaluation.metrics import FlightMetrics
from pvn.evaluation.predictions import DISTRIBUTIONS, FIRST_AND_LAST
from pvn.evaluation.summary import Group, Summary

HEADLINES = {"SR %": "sr", "mean m": "mean_distance", "median m": "median_distance"}
OTHERS = {
    "OSR %": "osr", "SPL": "spl", "nDTW": "ndtw", "SDTW": "sdtw", "CLS": "cls", "SEMD": "semd",
    "loose SR": "loose_sr", "hits": "collisions_per_100m", "steps": "steps",
}  # fmt: skip
IN_PARAGRAPHS = {
    "brought to the end %": "brought_to_end", "completed in a row %": "completed", "SR % in turn": "sr",
}  # fmt: skip
MEDIANS = ("epsilon", "eta", "bound", "gap", "worst_gap")
TWO_DECIMALS = ("spl", "ndtw", "sdtw", "cls", "semd", "collisions_per_100m")


def _with_interval(estimate: Estimate) -> str:
    """A value and its interval, if there is one; a table says once that there is none."""
    return f"{estimate.value:.1f}" + ("" if estimate.interval is None else f" [dim]{estimate.bracket()}[/dim]")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + "s" * (number != 1)


def _print(console: Console, table: Table, estimates: Iterable[Estimate]) -> None:
    """Print a table, and below it a line if some of its estimates have no interval."""
    console.print(table)
    has_interval = [estimate.interval is not None for estimate in estimates]
    if not all(has_interval):
        console.print(f"without brackets: {TOO_FEW}" if any(has_interval) else TOO_FEW)


def titled_table(title: str, *headings: str) -> Table:
    """An empty table, the first column left-aligned and the others right-aligned."""
    table = Table(*headings, title=title, title_justify="left")
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def _groups(summary: Summary) -> dict[str, Group | None]:
    """The summary's groups, by the names in the table."""
    phrases: dict[str, Group | None] = {"seen phrases": summary.seen, "unseen phrases": summary.unseen}
    lengths = {f"{words} words": group for words, group in summary.by_length.items()}
    bearings = {f"path: {where}": group for where, group in summary.by_bearing.items()}
    return phrases | dict(summary.by_manoeuvre) | lengths | bearings


def _print_paragraphs(console: Console, summaries: Sequence[Summary]) -> None:
    """Whole paragraphs beside their segments flown one by one; nothing if no paragraphs were flown."""
    found = summaries[0].paragraphs
    if found is None:
        return
    title = f"{_count(found.paragraphs, 'paragraph')} of {_count(found.instructions, 'instruction')}"
    title += ", 95% intervals" if found.sr.interval else ""
    table = titled_table(title, "system", *IN_PARAGRAPHS, "SR % one by one")
    for summary in summaries:
        rates = [getattr(summary.paragraphs, name) for name in IN_PARAGRAPHS.values()]
        table.add_row(summary.system, *map(_with_interval, [*rates, summary.overall.sr]))
    _print(console, table, [found.sr])


def print_results(
    summaries: Sequence[Summary], metrics: Mapping[str, FlightMetrics], environments: Sequence[int]
) -> None:
    """All systems with 95% intervals, their differences from the first, and their success rates by group."""
    console = Console()
    flown, split = summaries[0].overall, summaries[0].split
    title = f"{_count(flown.flights, 'flight')} of split {split} in {_count(flown.environments, 'field')}"
    title += ", 95% intervals" if flown.sr.interval else ""
    table = titled_table(title, "system", *HEADLINES)
    for summary in summaries:
        table.add_row(summary.system, *(_with_interval(getattr(summary.overall, name)) for name in HEADLINES.values()))
    _print(console, table, [flown.sr])
    _print_paragraphs(console, summaries)
    first, *others = summaries
    for other in others:
        successes, others_successes = (metrics[summary.system].is_success for summary in (other, first))
        more = bootstrap_difference(successes, others_successes, environments) * 100.0
        console.print(
            f"{other.system} compared with {first.system} on the same flights: success {more.value:+z.1f} points "
            f"{more.bracket('+z.1f')}"
        )
    table = titled_table("path metrics and the rest (docs/metrics.md)", "system", *OTHERS)
    for summary in summaries:
        values = ((name, getattr(summary.overall, name).value) for name in OTHERS.values())
        table.add_row(summary.system, *(f"{value:.{2 if name in TWO_DECIMALS else 1}f}" for name, value in values))
    console.print(table)
    table = titled_table("SR % by kind of instruction", "", "flights", *(summary.system for summary in summaries))
    rows, shown = [_groups(summary) for summary in summaries], list[Estimate]()
    for name, group in rows[0].items():
        if group is not None:
            rates = [part.sr for row in rows if (part := row[name]) is not None]
            shown += rates if len(rows) < 3 else []
            written = (_with_interval(rate) if len(rows) < 3 else f"{rate.value:.1f}" for rate in rates)
            table.add_row(name, str(group.flights), *written)
    _print(console, table, shown)
    _print_circles(console, summaries)
    _print_facing(console, summaries)


def _print_circles(console: Console, summaries: Sequence[Summary]) -> None:
    """How far round a landmark flights went whose instructions ask for a circle."""
    rows = [
        (summary.system, amount, circled.flights, circled.median_swept, circled.flown, circled.flown_and_reached)
        for summary in summaries
        for amount, circled in summary.circles.items()
    ]
    headings = ("system", "circle", "flights", "median swept", "flown %", "flown and reached %")
    _print_angles(console, "flights that should circle a landmark (docs/metrics.md)", headings, rows)


def _print_facing(console: Console, summaries: Sequence[Summary]) -> None:
    """Which way flights face at their ends, if some of them should turn there."""
    rows = [
        (summary.system, end, faced.flights, faced.median_off, faced.faced, faced.faced_and_reached)
        for summary in summaries
        if TURNED in summary.facing
        for end, faced in summary.facing.items()
    ]
    headings = ("system", "end", "flights", "median off", "faced %", "faced and reached %")
    _print_angles(console, "which way flights face at their ends (docs/metrics.md)", headings, rows)


def _print_angles(
    console: Console, title: str, headings: Sequence[str], rows: Sequence[tuple[str, str, int, float, float, float]]
) -> None:
    """A table of groups of flights, with a median angle (degrees) and two shares (percent); nothing without rows."""
    if not rows:
        return
    table = titled_table(title, *headings)
    for system, group, flights, degrees, *shares in rows:
        table.add_row(system, group, str(flights), f"{degrees:.0f}°", *(f"{share:.0f}" for share in shares))
    console.print(table)


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
