"""Success of a system that was trained several times, with an interval over fields and training runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pvn.corpus.segments import Segment
from pvn.evaluation.flights import Flights
from pvn.evaluation.intervals import Bootstrap, Estimate, estimate_from
from pvn.evaluation.resampling import resampled_sums
from pvn.world.task import SUCCESS_M


@dataclass(frozen=True)
class RepeatedSystem:
    """The success rates of one system on one split, percent."""

    system: str
    split: str
    by_seed: Mapping[int, float]
    """Of each training run."""
    sr: Estimate
    """Their mean, with an interval over fields and runs."""


def find_successes(flights: Flights, segments: Sequence[Segment]) -> npt.NDArray[np.bool_]:
    """Which (N,) of the flights over the segments stopped by themselves within 5 m of the goal."""
    ends = np.array([path[-1] for path in flights.paths()])
    goals = np.array([segment.demonstration.goal for segment in segments])
    return flights.has_stopped.numpy() & (np.hypot(*(ends - goals).T) < SUCCESS_M)


def mean_over_runs(
    values: npt.ArrayLike, clusters: npt.ArrayLike, bootstrap: Bootstrap = Bootstrap(num_resamples=5000)
) -> Estimate:
    """The mean of values (R, B) of R training runs on the same B flights, which are in environments (B,).

    A resample draws environments and, independently of them, runs, both with replacement (Owen 2007, the pigeonhole
    bootstrap). The runs drawn from few vary less than the runs that there could be: by a third less variance with
    three. With one run the interval is over environments alone.
    """
    runs = np.asarray(values, np.float64)
    names, unit = np.unique(np.asarray(clusters), return_inverse=True)
    if runs.ndim != 2 or runs.shape[1] != len(unit):
        raise ValueError(f"values: got shape {runs.shape}, expected (runs, {len(unit)}), one for each flight")
    sums = np.zeros((len(names), len(runs) + 1))  # of each run, and the number of flights
    np.add.at(sums, unit, np.column_stack([runs.T, np.ones(len(unit))]))
    generator = np.random.default_rng(bootstrap.seed)
    drawn = generator.integers(len(names), size=(bootstrap.num_resamples, len(names)))
    chosen = generator.integers(len(runs), size=(bootstrap.num_resamples, len(runs)))
    totals = resampled_sums(drawn, sums)  # (resamples, R + 1)
    means = np.take_along_axis(totals, chosen, 1).mean(1) / totals[:, -1]
    return estimate_from(float(runs.mean()), means, len(names), bootstrap)


def summarise_runs(
    system: str, split: str, flown: Mapping[int, Flights], segments: Sequence[Segment]
) -> RepeatedSystem:
    """A system's success over flights by the seed of the training run, all over the same segments."""
    successes = {seed: find_successes(flights, segments) for seed, flights in flown.items()}
    environments = [segment.environment for segment in segments]
    return RepeatedSystem(
        system=system,
        split=split,
        by_seed={seed: 100 * float(own.mean()) for seed, own in successes.items()},
        sr=mean_over_runs(np.stack(list(successes.values())), environments) * 100.0,
    )
