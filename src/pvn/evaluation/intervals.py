"""Estimates with 95% intervals: percentile bootstrap over flights, or over whole environments where they are given.

Flights in one environment share a field and a paragraph and are not independent. Resampling whole environments keeps
what they share (Davison and Hinkley 1997, section 3.8). The same seed gives the same intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

CHUNK = 500
"""Resamples drawn at a time, to limit memory."""
MIN_UNITS = 4
"""Fields that an interval needs. Of three, one resample in 27 is the same field three times, which is more than the
2.5% outside the interval on either side: the interval would be no more than the range of the fields."""
TOO_FEW = "too few fields for an interval"


@dataclass(frozen=True)
class Estimate:
    """A value and its 95% interval; low and high are None where there were too few fields for an interval."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Low and high, or None."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    def __mul__(self, factor: float) -> Estimate:
        """In another unit: a share times 100 is a percentage."""
        return Estimate(self.value * factor, *(end * factor for end in self.interval or ()))

    def __str__(self) -> str:
        return f"{self.value:z.1f} {self.bracket()}"

    def bracket(self, form: str = "z.1f") -> str:
        """The interval in brackets, each end formatted; or that there is none."""
        if self.interval is None:
            return "(too few fields)"
        return "({:{form}} to {:{form}})".format(*self.interval, form=form)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Estimate:
        """The estimate whose fields a file has."""
        return Estimate(content["value"], content["low"], content["high"])


@dataclass(frozen=True, kw_only=True)
class Bootstrap:
    """How intervals are estimated."""

    num_resamples: int = 10_000
    seed: int = 0
    coverage: float = 0.95
    """Share of the resamples inside the interval."""

    def __post_init__(self) -> None:
        if self.num_resamples < 1:
            raise ValueError(f"num_resamples: got {self.num_resamples}, expected at least 1")
        if not 0 < self.coverage < 1:
            raise ValueError(f"coverage: got {self.coverage}, expected a share between 0 and 1")


def _units(num_flights: int, clusters: npt.ArrayLike | None) -> tuple[npt.NDArray[np.int64], int]:
    """Which unit (B,) each flight belongs to, and how many units there are; without clusters each is a unit."""
    if num_flights == 0:
        raise ValueError("flights: got none, expected at least one")
    if clusters is None:
        return np.arange(num_flights), num_flights
    labels = np.asarray(clusters)
    if labels.shape != (num_flights,):
        raise ValueError(f"clusters: got shape {labels.shape}, expected ({num_flights},), one for each flight")
    names, unit = np.unique(labels, return_inverse=True)
    return unit.astype(np.int64), len(names)


def draw_counts(num_units: int, bootstrap: Bootstrap, stream: int = 0) -> Iterator[Values]:
    """How often (R, U) each of U units is in a resample, R resamples at a time; U units are drawn with replacement.

    Draws of different streams are independent of each other.
    """
    generator = np.random.default_rng([bootstrap.seed, stream] if stream else bootstrap.seed)
    for begin in range(0, bootstrap.num_resamples, CHUNK):
        count = min(CHUNK, bootstrap.num_resamples - begin)
        drawn = generator.integers(num_units, size=(count, num_units)) + num_units * np.arange(count)[:, None]
        yield np.bincount(drawn.ravel(), minlength=count * num_units).reshape(count, num_units).astype(np.float64)


def estimate_from(value: float, resampled: Values, num_units: int, bootstrap: Bootstrap) -> Estimate:
    """A value with the interval of its resamples (R,), if they were drawn from enough units."""
    if num_units < MIN_UNITS:
        return Estimate(float(value))
    outside = (1 - bootstrap.coverage) / 2
    low, high = np.quantile(resampled, [outside, 1 - outside]).tolist()
    return Estimate(float(value), low, high)


def bootstrap_ratios(
    numerators: npt.ArrayLike,
    denominators: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    bootstrap: Bootstrap = Bootstrap(),
) -> list[Estimate]:
    """For each of K columns the sum of its numerators (B, K) over the sum of its denominators (B, K).

    All columns share their resamples. Where the denominators sum to 0, as the metres of flights that never moved do,
    the ratio is 0. clusters: which environment (B,) each flight is in.
    """
    above, below = np.asarray(numerators, np.float64), np.asarray(denominators, np.float64)
    if above.ndim != 2 or above.shape != below.shape:
        raise ValueError(
            f"numerators and denominators: got shapes {above.shape} and {below.shape}, expected both (flights, columns)"
        )
    unit, num_units = _units(len(above), clusters)
    num_columns = above.shape[1]
    sums = np.zeros((num_units, 2 * num_columns))
    np.add.at(sums, unit, np.concatenate([above, below], axis=1))

    def divide(total: Values) -> Values:
        top, bottom = total[..., :num_columns], total[..., num_columns:]
        return np.divide(top, bottom, out=np.zeros_like(top), where=bottom != 0)

    resampled = np.concatenate([divide(counts @ sums) for counts in draw_counts(num_units, bootstrap)])
    values = divide(sums.sum(axis=0))
    return [estimate_from(values[column], resampled[:, column], num_units, bootstrap) for column in range(num_columns)]


def bootstrap_mean(
    values: npt.ArrayLike, clusters: npt.ArrayLike | None = None, bootstrap: Bootstrap = Bootstrap()
) -> Estimate:
    """The mean of values (B,); of booleans, the share that is true."""
    column = np.asarray(values, np.float64)[:, None]
    return bootstrap_ratios(column, np.ones_like(column), clusters, bootstrap)[0]


def bootstrap_median(
    values: npt.ArrayLike, clusters: npt.ArrayLike | None = None, bootstrap: Bootstrap = Bootstrap()
) -> Estimate:
    """The median of values (B,)."""
    array = np.asarray(values, np.float64)
    unit, num_units = _units(len(array), clusters)
    order = np.argsort(array, kind="stable")
    ascending, medians = array[order], []
    for counts in draw_counts(num_units, bootstrap):
        # How many flights of each resample are at or below each value: its middle two are where this passes a half.
        passed = np.take(counts.astype(np.int32), unit[order], axis=1).cumsum(axis=1)
        size = passed[:, -1]
        places = [_first_above(passed, middle) for middle in ((size - 1) // 2, size // 2)]
        medians.append(ascending[places].mean(axis=0))
    return estimate_from(float(np.median(array)), np.concatenate(medians), num_units, bootstrap)


def _first_above(rising: npt.NDArray[np.int64], limits: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where (R,) each of the rising rows (R, B) first exceeds its limit (R,), by bisection."""
    rows = np.arange(len(rising))
    first, last = np.zeros_like(rows), np.full_like(rows, rising.shape[1] - 1)
    while (first < last).any():
        middle = (first + last) // 2
        is_above = rising[rows, middle] > limits
        first, last = np.where(is_above, first, middle + 1), np.where(is_above, middle, last)
    return first


def bootstrap_difference(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    bootstrap: Bootstrap = Bootstrap(),
) -> Estimate:
    """How much the first system's mean exceeds the second's; values (B,) of both on the same flights, in order.

    Paired: a resample draws the same flights for both, so what makes a flight hard for both cancels out.
    """
    one, other = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if one.shape != other.shape:
        raise ValueError(f"systems: got {one.shape} and {other.shape} flights, expected the same flights for both")
    return bootstrap_mean(one - other, clusters, bootstrap)
