"""Estimates with 95% intervals: percentile bootstrap over flights, or over whole environments where they are given.

Flights of one environment share a field and a paragraph and are not independent; resampling environments whole keeps
what they share (Davison and Hinkley 1997, section 3.8). The same seed gives the same numbers to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pvn.evaluation.resampling import resampled_medians, resampled_sums

CHUNK = 500
"""Resamples drawn at a time, to limit memory."""
MIN_UNITS = 4
"""Fields that an interval needs. Of three, one resample in 27 is the same field three times, which is more than the
2.5% outside the interval on either side: it would be no more than the range of the fields, and of one field a point."""
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
        return f"{self.value:.1f} {self.bracket()}"

    def bracket(self, form: str = ".1f") -> str:
        """The interval in brackets, each end formatted; or a word that there is none."""
        return (
            "(too few fields)"
            if self.interval is None
            else "({:{form}} to {:{form}})".format(*self.interval, form=form)
        )

    def to_json(self) -> dict[str, float | None]:
        """Value, low and high by name."""
        return {"value": self.value, "low": self.low, "high": self.high}

    @staticmethod
    def from_json(content: Mapping[str, float | None], num_fields: int) -> Estimate:
        """The estimate that `to_json` gave; earlier versions also gave intervals for too few fields."""
        value = content["value"]
        assert value is not None
        return Estimate(value, content["low"], content["high"]) if num_fields >= MIN_UNITS else Estimate(value)


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
    """Which unit (B,) each flight belongs to, and how many units there are; without clusters each is its own."""
    if num_flights == 0:
        raise ValueError("flights: got none, expected at least one")
    if clusters is None:
        return np.arange(num_flights), num_flights
    labels = np.asarray(clusters)
    if labels.shape != (num_flights,):
        raise ValueError(f"clusters: got shape {labels.shape}, expected ({num_flights},), one for each flight")
    names, unit = np.unique(labels, return_inverse=True)
    return unit.astype(np.int64), len(names)


def draw_units(num_units: int, bootstrap: Bootstrap, stream: int = 0) -> Iterator[npt.NDArray[np.int64]]:
    """Resamples in chunks (R, U): indices of U units, drawn with replacement from U units.

    Draws of different streams are independent of each other.
    """
    generator = np.random.default_rng([bootstrap.seed, stream] if stream else bootstrap.seed)
    for begin in range(0, bootstrap.num_resamples, CHUNK):
        yield generator.integers(num_units, size=(min(CHUNK, bootstrap.num_resamples - begin), num_units))


def estimate_from(value: float, resampled: npt.NDArray[np.float64], num_units: int, bootstrap: Bootstrap) -> Estimate:
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

    All columns share their resamples. Where the denominators sum to 0, as the metres of flights that never moved, the
    ratio is 0. clusters: which environment (B,) each flight is in.
    """
    above, below = np.asarray(numerators, np.float64), np.asarray(denominators, np.float64)
    if above.ndim != 2 or above.shape != below.shape:
        raise ValueError(
            f"numerators and denominators: got shapes {above.shape} and {below.shape}, expected both (flights, columns)"
        )
    unit, num_units = _units(len(above), clusters)
    num_columns = above.shape[1]
    different, which = np.unique(below, axis=1, return_inverse=True)  # most are ones
    which = which.reshape(-1)  # NumPy 2.0 gives it an axis more
    sums = np.zeros((num_units, num_columns + different.shape[1]))
    np.add.at(sums, unit, np.concatenate([above, different], axis=1))
    totals = np.concatenate([resampled_sums(drawn, sums) for drawn in draw_units(num_units, bootstrap)])

    def divide(total: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        top, bottom = total[..., :num_columns], total[..., num_columns + which]
        return np.divide(top, bottom, out=np.zeros_like(top), where=bottom != 0)

    resampled = divide(totals)  # (resamples, K)
    values = divide(sums.sum(axis=0))
    return [estimate_from(values[column], resampled[:, column], num_units, bootstrap) for column in range(num_columns)]


def bootstrap_ratio(
    numerators: npt.ArrayLike,
    denominators: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    bootstrap: Bootstrap = Bootstrap(),
) -> Estimate:
    """The sum of the flights' numerators (B,) over the sum of their denominators (B,)."""
    above, below = np.asarray(numerators)[:, None], np.asarray(denominators)[:, None]
    return bootstrap_ratios(above, below, clusters, bootstrap)[0]


def bootstrap_mean(
    values: npt.ArrayLike, clusters: npt.ArrayLike | None = None, bootstrap: Bootstrap = Bootstrap()
) -> Estimate:
    """The mean of values (B,); of booleans, the share that is true."""
    array = np.asarray(values, np.float64)
    return bootstrap_ratio(array, np.ones_like(array), clusters, bootstrap)


def bootstrap_median(
    values: npt.ArrayLike, clusters: npt.ArrayLike | None = None, bootstrap: Bootstrap = Bootstrap()
) -> Estimate:
    """The median of values (B,)."""
    array = np.asarray(values, np.float64)
    unit, num_units = _units(len(array), clusters)
    order = np.argsort(array, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    by_unit = np.argsort(unit, kind="stable")
    first = np.concatenate([[0], np.bincount(unit, minlength=num_units).cumsum()])
    medians = [
        resampled_medians(drawn, first, rank[by_unit], array[order]) for drawn in draw_units(num_units, bootstrap)
    ]
    return estimate_from(float(np.median(array)), np.concatenate(medians), num_units, bootstrap)


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
