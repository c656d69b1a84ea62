"""The pages say about results what the stored results say: tables cell by cell, figures with their intervals."""

import re
import runpy
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from pvn.evaluation.comparison import difference_of, table_rows
from pvn.evaluation.intervals import Estimate
from pvn.evaluation.summary import Summary

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [*(DOCS / f"{name}.md" for name in ("results", "index", "agent", "benchmarks")), DOCS.parent / "README.md"]
TABLES = runpy.run_path(str(DOCS / "results_tables.py"))
stored = TABLES["stored"]
FAMILIES = ("table", "quick", "variants", "looks", "plus")
WITH_INTERVAL = re.compile(r"(-?\d+\.\d)(?:%| points)? \((-?\d+\.\d) to (-?\d+\.\d)(?:, paired)?\)")
CLOSE = ("pvn", "pvn-no-aux", "pvn-no-goal", "pvn-no-dagger", "pvn-ideal-act", "pvn-half-height", "pvn-height-0.7")
COMPARED = [
    # Family and name, twice: the first compared with the second.
    ("table", "pvn_true-distributions_dev", "table", "pvn-no-goal_true-distributions_dev"),
    ("table", "seed2/pvn-ideal-act_dev", "variants", "no-dagger_yaw2_seed2_dev"),
    ("variants", "literal_dev", "variants", "literal-in-large-batches_dev"),
    ("variants", "random-looks_dev", "variants", "paper_dev"),
    ("variants", "narrow-targets_dev", "table", "pvn_dev"),
    ("variants", "paper_delay1_ideal-act_dev", "table", "pvn-ideal-act_dev"),
    ("variants", "varied-heights_altitude2.5_dev", "table", "pvn-no-aux_dev"),
    ("variants", "varied-heights_altitude2.5_dev", "table", "pvn-no-goal_dev"),
    *(("variants", "varied-heights_dev", "table", f"{seed}pvn_dev") for seed in ("", "seed1/", "seed2/")),
    *(("looks", f"random-looks_{look}_dev_500", "looks", f"pvn_{look}_dev_500") for look in ("mujoco", "pybullet")),
    ("looks", "random-looks_pybullet_dev_500", "looks", "random-looks_dev_500"),
    *(
        ("plus", f"augmentation/{split}/{name}", "plus", f"augmentation/{split}/pvn-plus")
        for split in ("natural", "dev")
        for name in TABLES["TEXTS"][1:]
    ),
    *(
        ("plus", f"five-epochs/{split}/pvn-plus", "plus", f"five-epochs/{split}/without-bearing")
        for split in ("dev", "test")
    ),
]
MEASURED_ONCE = """
    -1.6 to 2.0 | -1.9 to 8.2 | 16.3 to 22.9 | 1.8 to 4.1 | 72.9 to 75.4 | 68.4 to 71.2 | -2.0 to 0.7 | -0.3 to 0.3 |
    -0.2 to 0.3 | -1.0 to 3.2 | 87.0 to 93.7 | -2.7 to 5.3 | -0.1 to 1.1 | 15.0 to 23.2 | 36.9 to 58.3 | 76.2 to 91.7 |
    0.5 to 6.1 | 29.8 to 32.6 | 68.1 to 70.8 | 68.5 to 71.2 | 69.3 to 72.0
"""
"""Intervals on the pages whose flights are not stored."""


def rows_of(text):
    """The cells of every row of every table, without the headings."""
    tables = re.findall(r"^\|.*\|\n\|[ :|-]+\|\n((?:\|.*\|\n)+)", text, re.MULTILINE)
    return [[cell.strip() for cell in line.split("|")[1:-1]] for rows in tables for line in rows.splitlines()]


@cache
def all_tables():
    return TABLES["page"]()


@pytest.mark.long
def test_every_row_about_a_system_is_part_of_a_row_of_the_stored_results():
    """A table on the page may leave out columns and rows, but every cell that it has is a cell of that row."""
    rows = rows_of(all_tables())
    known = {row[0] for row in rows}
    shown = [row for row in rows_of((DOCS / "results.md").read_text(encoding="utf-8")) if row[0] in known]
    assert len(shown) > 40
    wrong = [row for row in shown if not any(row[0] == own[0] and {*row} - {""} <= {*own} for own in rows)]
    assert wrong == []


def estimates(summary: Summary):
    """Every rate of a summary."""
    groups = [summary.overall, summary.seen, summary.unseen]
    groups += chain(summary.by_manoeuvre.values(), summary.by_length.values(), summary.by_bearing.values())
    for group in filter(None, groups):
        yield from (group.sr, group.osr, group.early_stops, group.loose_sr)
    if summary.paragraphs:
        yield from (one for one in vars(summary.paragraphs).values() if isinstance(one, Estimate))


def written(estimate):
    return tuple(f"{value:z.1f}" for value in (estimate.value, estimate.low, estimate.high))


@cache
def known_intervals():
    """Every rate in the stored results, every figure in the tables, and the differences that the pages quote."""
    found = {match.groups() for match in WITH_INTERVAL.finditer(all_tables())}
    for family in FAMILIES:
        found |= {written(one) for summary in stored(family).values() for one in estimates(summary) if one.interval}
    pairs = [({0: stored(a)[first]}, {0: stored(b)[second]}) for a, first, b, second in COMPARED]
    rows = table_rows(stored("table"))
    runs = {name: rows[name, "dev"] for name in CLOSE}
    pairs += [(runs[first], runs[second]) for first in CLOSE for second in CLOSE if first < second]
    for first, second in pairs:
        difference = difference_of(first, second).interval
        found |= {written(difference), written(Estimate(-difference.value, -difference.high, -difference.low))}
    return found


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_figure_with_an_interval_is_in_the_stored_results(page):
    once = {interval.strip() for interval in MEASURED_ONCE.split("|")}
    quoted = [match.groups() for match in WITH_INTERVAL.finditer(page.read_text(encoding="utf-8"))]
    wrong = [one for one in quoted if one not in known_intervals() and f"{one[1]} to {one[2]}" not in once]
    assert wrong == [], f"{page.name}: mend these, list what they compare, or list them as measured once"
