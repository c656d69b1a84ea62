"""Systems that flew the same segments: means over training runs, and paired differences."""

from dataclasses import replace

import numpy as np
import pytest

from pvn.evaluation.intervals import Bootstrap, Estimate, bootstrap_difference, bootstrap_mean
from pvn.evaluation.metrics import measure_flights
from pvn.evaluation.pairing import difference_of, mean_over_runs
from pvn.evaluation.summary import summarise

QUICK = Bootstrap(num_resamples=2000)


@pytest.fixture(scope="module")
def with_successes(paragraph):
    """Results in which flights (fields, flights of a field) reached their goals or not."""
    demonstrations = [segment.demonstration for segment in paragraph]
    paths = [demonstration.path for demonstration in demonstrations]
    summary = summarise("pvn", "dev", measure_flights(paths, [True] * len(paths), demonstrations), paragraph)

    def make(reached):
        reached = np.asarray(reached, bool)
        rate = 100 * float(reached.mean())
        successes = {field: tuple(flights) for field, flights in enumerate(reached.tolist())}
        overall = replace(summary.overall, sr=Estimate(rate, 0.0, 100.0), environments=len(reached))
        return replace(summary, overall=overall, successes=successes)

    return make


def flights(seed, rate, num_fields=60):
    return np.random.default_rng(seed).random((num_fields, 5)) < rate


def test_a_paired_difference_is_that_of_the_single_flights(with_successes):
    one, other = flights(0, 0.7), flights(1, 0.5)
    found = difference_of({0: with_successes(one)}, {0: with_successes(other)}, QUICK)
    fields = np.repeat(np.arange(60), 5)
    known = bootstrap_difference(one.ravel(), other.ravel(), fields, QUICK) * 100
    assert found.points == pytest.approx(known.value) and found.num_runs == (1, 1)
    assert vars(found.interval) == pytest.approx(vars(known))


def test_what_makes_a_field_hard_for_both_cancels_out(with_successes):
    hard = np.arange(60)[:, None] % 2 == 0
    one = np.broadcast_to(~hard, (60, 5)).copy()
    other = one.copy()
    other[1::10, 0] = False  # 6 of 300 flights
    found = difference_of({0: with_successes(one)}, {0: with_successes(other)}, QUICK)
    assert found.points == pytest.approx(2.0) and found.interval.low > 0, "though both are near a half, give or take 13"
    apart = difference_of({0: with_successes(one)}, {0: with_successes(other[::-1])}, QUICK)
    assert apart.interval.low < -10, "paired with the wrong fields, nothing cancels"


def test_runs_that_differ_widen_the_interval(with_successes):
    base = {0: with_successes(flights(0, 0.5))}
    alike = {seed: with_successes(flights(9, 0.7)) for seed in range(3)}
    unlike = {seed: with_successes(flights(9, rate)) for seed, rate in enumerate((0.5, 0.7, 0.9))}
    narrow, wide = (difference_of(runs, base, QUICK) for runs in (alike, unlike))
    alone = difference_of({0: alike[0]}, base, QUICK)
    assert narrow.num_runs == (3, 1) and vars(narrow.interval) == pytest.approx(vars(alone.interval))
    assert wide.points == pytest.approx(narrow.points, abs=3) and wide.interval.low < narrow.interval.low - 5


def test_runs_of_the_same_seeds_are_resampled_as_pairs(with_successes):
    rates = (0.3, 0.5, 0.7, 0.9)
    one = {seed: with_successes(flights(seed, rate)) for seed, rate in enumerate(rates)}
    # The same weights flown in another way: a tenth less of each run's flights succeeds.
    less = {seed: with_successes(flights(seed, rate) & flights(50 + seed, 0.9)) for seed, rate in enumerate(rates)}
    paired = difference_of(one, less, QUICK)
    independent = difference_of(one, {seed + 7: run for seed, run in less.items()}, QUICK)
    assert paired.points == pytest.approx(independent.points) and paired.interval.low > 0 > independent.interval.low


def test_other_flights_are_not_paired(with_successes):
    one, fewer = with_successes(flights(0, 0.7)), with_successes(flights(0, 0.7, num_fields=59))
    unknown = replace(one, successes={})
    for other in (fewer, unknown, with_successes(flights(0, 0.7)[:, :4])):
        assert difference_of({0: one}, {0: other}, QUICK).interval is None
    alone = with_successes(flights(0, 0.7, num_fields=1))
    assert difference_of({0: alone}, {0: alone}, QUICK).interval == Estimate(0.0), "one field tells nothing"


def width(estimate):
    return estimate.high - estimate.low


def test_the_mean_of_one_run_has_the_interval_over_fields(with_successes):
    reached = flights(0, 0.6)
    found = mean_over_runs({0: with_successes(reached)}, QUICK)
    known = bootstrap_mean(reached.ravel(), np.repeat(np.arange(60), 5), QUICK) * 100
    assert vars(found) == pytest.approx(vars(known))


def test_runs_that_differ_widen_the_mean_and_more_of_the_same_do_not(with_successes):
    once, alike, unlike = (
        mean_over_runs({seed: with_successes(flights(seed, rate)) for seed, rate in enumerate(rates)}, QUICK)
        for rates in ((0.6,), (0.6, 0.6, 0.6), (0.4, 0.6, 0.8))
    )
    assert width(alike) < width(once) < width(unlike)
    # In one resample of 27 the worst run is drawn three times, and the interval leaves out one of 40 on each side.
    assert [unlike.value, unlike.low, unlike.high] == pytest.approx([60, 40, 80], abs=6)
    run = with_successes(flights(0, 0.6))
    again = mean_over_runs(dict.fromkeys(range(3), run), QUICK)
    assert again.value == once.value and width(again) == pytest.approx(width(once), rel=0.1), (
        "the same run adds nothing"
    )


def test_the_mean_of_results_without_single_flights_has_no_interval(with_successes):
    old = replace(with_successes(flights(0, 0.6)), successes={})
    assert mean_over_runs({0: old, 1: with_successes(flights(1, 0.6))}).low is None
