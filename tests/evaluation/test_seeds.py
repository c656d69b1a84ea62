"""Intervals over fields and training runs."""

import numpy as np
import pytest

from pvn.evaluation.flights import Flights, flights_of
from pvn.evaluation.intervals import bootstrap_mean
from pvn.evaluation.seeds import find_successes, mean_over_runs, summarise_runs
from pvn.rollout.flight import fly, simulator_for
from pvn.rollout.oracle import Oracle
from pvn.rollout.trivial_pilots import Stop
from pvn.simulator.interface import SimulatorConfig

FIELDS = np.repeat(np.arange(60), 4)


def coin_flips(shares, seed=0):
    """Successes (R, 240) of runs with these rates, in fields of four flights."""
    generator = np.random.default_rng(seed)
    return generator.random((len(shares), len(FIELDS))) < np.array(shares)[:, None]


def width(estimate):
    return estimate.high - estimate.low


def test_with_one_run_the_interval_is_that_over_fields():
    values = coin_flips([0.6])
    found, known = mean_over_runs(values, FIELDS), bootstrap_mean(values[0], FIELDS)
    assert found.value == known.value
    assert (found.low, found.high) == pytest.approx((known.low, known.high), abs=0.01)


def test_runs_that_differ_widen_the_interval_and_more_of_the_same_do_not():
    alike, different = (
        mean_over_runs(coin_flips([0.6] * 3), FIELDS),
        mean_over_runs(coin_flips([0.4, 0.6, 0.8]), FIELDS),
    )
    assert alike.low < 0.6 < alike.high and different.low < 0.6 < different.high
    assert width(alike) < width(mean_over_runs(coin_flips([0.6]), FIELDS)) < width(different)
    # Of three runs drawn from 0.4, 0.6 and 0.8 the mean has a deviation of 0.16 / sqrt(3).
    assert width(different) == pytest.approx(2 * 1.96 * 0.163 / 3**0.5, rel=0.25)


def test_the_same_run_again_adds_nothing():
    values = coin_flips([0.6])
    once, again = mean_over_runs(values, FIELDS), mean_over_runs(np.repeat(values, 3, 0), FIELDS)
    assert once.value == again.value and width(again) == pytest.approx(width(once), rel=0.1)


def test_values_that_are_not_one_for_each_flight_are_refused():
    with pytest.raises(ValueError, match=r"values: got shape \(3, 239\), expected \(runs, 240\)"):
        mean_over_runs(coin_flips([0.5] * 3)[:, 1:], FIELDS)


def test_a_system_is_summarised_by_seed_and_over_all(meadow):
    segments = meadow["dev"][::5][:8]  # of as many fields
    demonstrations = [segment.demonstration for segment in segments]
    tasks = [demonstration.task for demonstration in demonstrations]
    flown: dict[int, Flights] = {
        seed: flights_of(fly(simulator_for(tasks, config=SimulatorConfig(quality="none")), tasks, policy))
        for seed, policy in enumerate((Oracle(demonstrations), Stop()))
    }
    for flights in flown.values():
        assert (find_successes(flights, segments) == flights.metrics(segments, 5.0).is_success).all()
    found = summarise_runs("pvn", "dev", flown, segments)
    assert found.by_seed[0] == 100 and found.by_seed[1] < 50
    assert found.sr.value == pytest.approx((found.by_seed[0] + found.by_seed[1]) / 2)
    assert found.sr.low <= found.by_seed[1] + 1e-6 and found.sr.high == 100, "both runs may be the same one"
