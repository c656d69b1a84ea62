"""Systems that flew the same segments, some of them trained several times: mean success, and paired differences.

What makes a field hard is the same for two systems and cancels out in their difference, so they can be told apart
though their own intervals overlap. A resample draws fields and, independently of them, the runs of a system that was
trained several times, both with replacement (Owen 2007, the pigeonhole bootstrap): the interval then also says how
another training might turn out. Runs drawn from few vary less than the runs that there could be: by a third less
variance with three.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pvn.evaluation.intervals import Bootstrap, Estimate, draw_units, estimate_from
from pvn.evaluation.resampling import resampled_sums
from pvn.evaluation.summary import Summary

Runs = Mapping[int, Summary]
"""Results of one system on one split, by the seed of the training run."""


@dataclass(frozen=True)
class Difference:
    """How much higher one system's success rate is than another's."""

    points: float
    interval: Estimate | None
    """The same with its paired 95% interval; None if they did not fly the same flights, or that is not stored."""
    num_runs: tuple[int, int]
    """Training runs of the two."""


def runs_by_row(by_seed: Mapping[int, Sequence[Summary]]) -> dict[tuple[str, str], dict[int, Summary]]:
    """Results by system and split, and by the seed of the training run."""
    rows: dict[tuple[str, str], dict[int, Summary]] = {}
    for seed, summaries in by_seed.items():
        for summary in summaries:
            rows.setdefault((summary.system, summary.split), {})[seed] = summary
    return rows


def are_paired(summaries: Sequence[Summary]) -> bool:
    """Whether the same flights of the same fields were flown in all of them."""
    shapes = [{environment: len(flown) for environment, flown in summary.successes.items()} for summary in summaries]
    return bool(shapes[0]) and all(shape == shapes[0] for shape in shapes)


def _successes(runs: Sequence[Summary], environments: Sequence[int]) -> npt.NDArray[np.float64]:
    """Flights (U, R) that reached their goals, by environment and run."""
    return np.array([[sum(run.successes[name]) for run in runs] for name in environments], np.float64)


def _shares(num_runs: int, bootstrap: Bootstrap, stream: int) -> Iterator[npt.NDArray[np.float64]]:
    """How large a share (resamples, R) each of R runs has in a resample that draws R of them with replacement."""
    for drawn in draw_units(num_runs, bootstrap, stream):
        yield np.stack([np.bincount(row, minlength=num_runs) for row in drawn]) / num_runs


def mean_over_runs(runs: Runs, bootstrap: Bootstrap = Bootstrap()) -> Estimate:
    """Mean success rate of a system's runs, percent, with an interval where it is stored which flights succeeded."""
    several = [runs[seed] for seed in sorted(runs)]
    value = float(np.mean([run.overall.sr.value for run in several]))
    if not are_paired(several):
        return Estimate(value)
    environments = list(several[0].successes)
    flights = np.array([[len(several[0].successes[name])] for name in environments], np.float64)
    counts = np.hstack([_successes(several, environments), flights])
    resampled = []
    for drawn, shares in zip(
        draw_units(len(environments), bootstrap), _shares(len(several), bootstrap, 1), strict=True
    ):
        sums = resampled_sums(drawn, counts)  # (resamples, runs + 1)
        resampled.append(100 * (sums[:, :-1] * shares).sum(1) / sums[:, -1])
    return estimate_from(value, np.concatenate(resampled), len(environments), bootstrap)


def difference_of(first: Runs, second: Runs, bootstrap: Bootstrap = Bootstrap()) -> Difference:
    """How much more often the first system succeeds than the second, in points: the means over their runs.

    Systems that were trained with the same seeds are resampled as pairs, because they may share a first stage or all
    of their weights; otherwise their runs are drawn independently.
    """
    ours, theirs = ([runs[seed] for seed in sorted(runs)] for runs in (first, second))
    rates = [np.mean([run.overall.sr.value for run in runs]) for runs in (ours, theirs)]
    interval = None
    if are_paired([*ours, *theirs]):
        interval = _paired_interval(ours, theirs, set(first) == set(second), bootstrap)
    return Difference(float(rates[0] - rates[1]), interval, (len(ours), len(theirs)))


def _paired_interval(
    ours: Sequence[Summary], theirs: Sequence[Summary], is_same_seeds: bool, bootstrap: Bootstrap
) -> Estimate:
    environments = list(ours[0].successes)
    flights = np.array([[len(ours[0].successes[name])] for name in environments], np.float64)
    counts = np.hstack([_successes(ours, environments), _successes(theirs, environments), flights])

    def difference(
        sums: npt.NDArray[np.float64], own: npt.NDArray[np.float64], others: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """Points (resamples,), from sums (resamples, runs of both + 1) and the runs' shares (resamples, runs)."""
        more = (sums[:, : len(ours)] * own).sum(1) - (sums[:, len(ours) : -1] * others).sum(1)
        return 100 * more / sums[:, -1]

    resampled = [
        difference(resampled_sums(drawn, counts), own, own if is_same_seeds else others)
        for drawn, own, others in zip(
            draw_units(len(environments), bootstrap),
            _shares(len(ours), bootstrap, 1),
            _shares(len(theirs), bootstrap, 2),
            strict=True,
        )
    ]
    even = [np.full((1, len(runs)), 1 / len(runs)) for runs in (ours, theirs)]
    value = difference(counts.sum(0, keepdims=True), *even)[0]
    return estimate_from(value, np.concatenate(resampled), len(environments), bootstrap)
