"""Systems that flew the same segments: mean success over training runs, paired differences, and the paper's orders.

A field that is hard for one system is hard for the other, which cancels out in their difference. So two systems may
differ clearly though their own intervals overlap. A resample draws fields and, independently, the training runs of a
system that has several, both with replacement (Owen 2007, the pigeonhole bootstrap): the interval then also says how
another training might turn out. Runs drawn from a few vary less than all possible runs: with three, the variance is a
third too small.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from pvn.evaluation.intervals import Bootstrap, Estimate, Values, draw_counts, estimate_from
from pvn.evaluation.summary import Summary
from pvn.systems import SYSTEMS, PaperRow

SOURCE = "Blukis, Misra, Knepper, Artzi: CoRL 2018, table 1"
GAP = 3.0
"""The order of two systems counts if the paper has them this many points of success rate apart."""
COMPARED = tuple(name for name, system in SYSTEMS.items() if "test" in system.paper)
"""Systems of the table's first part, which fly both splits here."""
ANALYSED = tuple(name for name, system in SYSTEMS.items() if system.paper and name not in COMPARED)
"""Systems of its second part, which fly the development split."""
TABLE: tuple[tuple[str, str], ...] = (
    *((name, "test") for name in COMPARED),
    *((name, "dev") for name in (*COMPARED, *ANALYSED)),
)
"""Every row of our table, in its order: the paper's rows, and the first part's systems on the development split."""

Row = tuple[str, str]
"""System and split."""
Runs = Mapping[int, Summary]
"""Results of one system on one split, by the seed of the training run."""
Verdict = Literal["holds", "undecided", "reversed"]


@dataclass(frozen=True)
class Difference:
    """How much higher one system's success rate is than another's."""

    points: float
    interval: Estimate | None
    """The same with its paired 95% interval; None if the two did not fly the same flights."""
    num_runs: tuple[int, int]
    """Training runs of the two."""


@dataclass(frozen=True)
class Comparison:
    """Two systems of the paper's table, how far apart they are there, and here."""

    split: str
    first: str
    second: str
    paper_gap: float
    """By how many points of success rate the first is better than the second in the paper."""
    difference: Difference
    """The same here."""
    verdict: Verdict
    """holds or reversed if the paired 95% interval of the difference excludes 0, else undecided."""


def paper_row(system: str, split: str) -> PaperRow | None:
    """What the paper reports of a system on a split; None if nothing, or if the system is not in its table."""
    return SYSTEMS[system].paper.get(split) if system in SYSTEMS else None


def table_rows(results: Mapping[str, Summary]) -> dict[Row, dict[int, Summary]]:
    """The rows of the paper's table that are in some results, in its order, by the seed of the training run.

    results: by name, "pvn_dev" for seed 0 and "seed1/pvn_dev" for others.
    """
    rows: dict[Row, dict[int, Summary]] = {}
    for row in TABLE:
        for name in sorted(results):
            folder, _, stem = name.rpartition("/")
            if stem == "_".join(row):
                rows.setdefault(row, {})[int(folder.removeprefix("seed") or 0)] = results[name]
    return rows


def are_paired(summaries: Sequence[Summary]) -> bool:
    """Whether all of them are about the same number of flights in each of the same fields."""
    shapes = [{environment: len(flights) for environment, flights in one.successes.items()} for one in summaries]
    return all(shape == shapes[0] for shape in shapes)


def _successes(runs: Sequence[Summary]) -> Values:
    """Successful flights (U, R + 1) by environment and run; the last column counts all flights."""
    environments = runs[0].successes.items()
    return np.array([[*(sum(run.successes[name]) for run in runs), len(flights)] for name, flights in environments])


def _shares(num_runs: int, bootstrap: Bootstrap, stream: int) -> Iterator[Values]:
    """The weight (resamples, R) of each of R runs in a resample that draws R of them with replacement."""
    return (counts / num_runs for counts in draw_counts(num_runs, bootstrap, stream))


def mean_over_runs(runs: Runs, bootstrap: Bootstrap = Bootstrap()) -> Estimate:
    """Mean success rate of a system's runs, percent."""
    several = [runs[seed] for seed in sorted(runs)]
    counts, resampled = _successes(several), []
    for drawn, shares in zip(draw_counts(len(counts), bootstrap), _shares(len(several), bootstrap, 1), strict=True):
        sums = drawn @ counts  # (resamples, runs + 1)
        resampled.append(100 * (sums[:, :-1] * shares).sum(1) / sums[:, -1])
    value = float(np.mean([run.overall.sr.value for run in several]))
    return estimate_from(value, np.concatenate(resampled), len(counts), bootstrap)


def difference_of(first: Runs, second: Runs, bootstrap: Bootstrap = Bootstrap()) -> Difference:
    """How much more often the first system succeeds than the second, in points: the means over their runs.

    Systems that were trained with the same seeds are resampled as pairs, because they may share a first stage or all
    of their weights; otherwise their runs are drawn independently.
    """
    ours, theirs = ([runs[seed] for seed in sorted(runs)] for runs in (first, second))
    rates = [np.mean([run.overall.sr.value for run in runs]) for runs in (ours, theirs)]
    points, interval = float(rates[0] - rates[1]), None
    if are_paired([*ours, *theirs]):
        interval = _paired_interval(points, ours, theirs, set(first) == set(second), bootstrap)
    return Difference(points, interval, (len(ours), len(theirs)))


def _paired_interval(
    points: float, ours: Sequence[Summary], theirs: Sequence[Summary], is_same_seeds: bool, bootstrap: Bootstrap
) -> Estimate:
    """A difference between the mean success rates of two systems, with its interval."""
    counts, resampled = _successes([*ours, *theirs]), []
    for drawn, own, others in zip(
        draw_counts(len(counts), bootstrap),
        _shares(len(ours), bootstrap, 1),
        _shares(len(theirs), bootstrap, 2),
        strict=True,
    ):
        sums = drawn @ counts  # (resamples, runs of both + 1)
        more = (sums[:, : len(ours)] * own).sum(1)
        more -= (sums[:, len(ours) : -1] * (own if is_same_seeds else others)).sum(1)
        resampled.append(100 * more / sums[:, -1])
    return estimate_from(points, np.concatenate(resampled), len(counts), bootstrap)


def _compare(rows: Mapping[Row, Runs], first: Row, second: Row) -> Comparison:
    """Two rows of the table, both of one split."""
    paper_gap = SYSTEMS[first[0]].paper[first[1]].sr - SYSTEMS[second[0]].paper[second[1]].sr
    difference = difference_of(rows[first], rows[second])
    low, high = (difference.interval and difference.interval.interval) or (0.0, 0.0)
    sign = int(low > 0) - int(high < 0)
    verdict: Verdict = "undecided" if sign == 0 else "holds" if sign * paper_gap > 0 else "reversed"
    return Comparison(first[1], first[0], second[0], paper_gap, difference, verdict)


def compare_orderings(rows: Mapping[Row, Runs]) -> list[Comparison]:
    """Pairs of systems that the paper's success rates on one split put more than GAP apart, of those flown here.

    The first is the better one in the paper. rows: see `table_rows`.
    """
    reported = {row: paper for row in rows if (paper := paper_row(*row)) is not None}
    # Two of our systems may stand for one row of the paper, as for half the height: only the first is compared.
    distinct = {(paper, row[1]): row for row, paper in reversed(reported.items())}
    found = []
    for pair in combinations([row for row in reported if row in distinct.values()], 2):
        better, worse = sorted(pair, key=lambda row: -reported[row].sr)
        if better[1] == worse[1] and reported[better].sr - reported[worse].sr > GAP:
            found.append(_compare(rows, better, worse))
    return found


def compare_with_pvn(rows: Mapping[Row, Runs]) -> list[Comparison]:
    """Each system of the table's second part that was flown, compared with PVN on the development split."""
    pvn = ("pvn", "dev")
    return [_compare(rows, (name, "dev"), pvn) for name in ANALYSED if (name, "dev") in rows] if pvn in rows else []
