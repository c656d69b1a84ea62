"""Intervals on data whose truth is known."""

import itertools

import numpy as np
import pytest

from pvn.evaluation.intervals import (
    MIN_UNITS,
    Bootstrap,
    Estimate,
    bootstrap_difference,
    bootstrap_mean,
    bootstrap_median,
    bootstrap_ratios,
)

QUICK = Bootstrap(num_resamples=1000)


def ratio(above, below, clusters=None):
    return bootstrap_ratios(np.array(above)[:, None], np.array(below)[:, None], clusters)[0]


def test_the_same_seed_gives_the_same_interval():
    values = np.random.default_rng(0).normal(size=300)
    for statistic in (bootstrap_mean, bootstrap_median):
        assert statistic(values) == statistic(values)
        assert statistic(values) != statistic(values, bootstrap=Bootstrap(seed=1))


@pytest.mark.long
def test_intervals_of_rates_hold_the_truth_about_95_times_in_100():
    generator = np.random.default_rng(0)
    estimates = [bootstrap_mean(generator.random(100) < 0.7, bootstrap=QUICK) for _ in range(400)]
    assert 0.92 < np.mean([estimate.low <= 0.7 <= estimate.high for estimate in estimates]) < 0.98


@pytest.mark.long
def test_flights_of_one_environment_are_not_independent_and_clusters_account_for_it():
    generator = np.random.default_rng(0)
    environments = np.repeat(np.arange(60), 5)
    covered = []
    for _ in range(200):
        values = (generator.random(60) < 0.7)[environments]  # all flights of an environment share its fate
        estimates = [bootstrap_mean(values, clusters, QUICK) for clusters in (None, environments)]
        covered.append([estimate.low <= 0.7 <= estimate.high for estimate in estimates])
    by_flights, by_environments = np.mean(covered, axis=0)
    assert by_flights < 0.7 and 0.90 < by_environments < 0.98


def test_resampled_means_and_medians_are_those_of_the_drawn_flights():
    values = np.random.default_rng(1).exponential(size=12)
    environments = np.array([0, 0, 1, 2, 2, 2, 3, 4, 4, 5, 5, 5])
    drawn = np.random.default_rng(7).integers(6, size=(400, 6))
    samples = [np.concatenate([values[environments == unit] for unit in units]) for units in drawn]
    few = Bootstrap(num_resamples=400, seed=7)
    for ours, numpy in ((bootstrap_mean, np.mean), (bootstrap_median, np.median)):
        found = ours(values, environments, few)
        expected = np.quantile([numpy(sample) for sample in samples], [0.025, 0.975])
        assert [found.value, found.low, found.high] == pytest.approx([numpy(values), *expected])


@pytest.mark.long
def test_the_percentile_interval_is_scipys():
    stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(2).exponential(size=200)
    theirs = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=10_000, rng=0).confidence_interval
    ours = bootstrap_mean(values)
    assert [ours.low, ours.high] == pytest.approx([theirs.low, theirs.high], abs=0.01)


def test_a_paired_difference_is_narrower_than_two_intervals():
    generator = np.random.default_rng(0)
    hardness = generator.normal(size=150)
    one, other = hardness + generator.normal(0.2, 0.2, 150), hardness + generator.normal(0.0, 0.2, 150)
    paired = bootstrap_difference(one, other)
    apart = [bootstrap_mean(system) for system in (one, other)]
    assert paired.low > 0.1 and paired.high < 0.3, "the first minus the second"
    assert apart[0].low < apart[1].high  # unpaired, the two intervals overlap
    assert paired.high - paired.low < min(estimate.high - estimate.low for estimate in apart) / 2
    assert bootstrap_difference(one, one) == Estimate(0.0, 0.0, 0.0)


def test_a_ratio_is_of_sums_not_of_flights():
    estimate = ratio([1, 0, 0, 0], [10, 10, 10, 70])
    assert estimate.value == pytest.approx(1 / 100) and estimate.low == 0 < estimate.high
    assert ratio([0] * 4, [0] * 4) == Estimate(0.0, 0.0, 0.0)


@pytest.mark.parametrize("bootstrapped", [bootstrap_mean, bootstrap_median])
def test_too_few_fields_have_no_interval(bootstrapped):
    values = np.arange(12.0)
    for num_fields in range(1, MIN_UNITS):
        alone = bootstrapped(values, clusters=np.arange(12) % num_fields)
        assert alone == Estimate(5.5) and alone.interval is None and str(alone * 10) == "55.0 (too few fields)"
    enough = bootstrapped(values, clusters=np.arange(12) % MIN_UNITS)
    assert enough.low < 5.5 < enough.high and Estimate.from_json(vars(enough)) == enough
    assert str(enough) == f"5.5 ({enough.low:.1f} to {enough.high:.1f})"


def test_of_three_fields_an_interval_would_be_their_range():
    """The reason for four: the extreme resamples, one field throughout, are more than the share outside."""
    values, outside = np.array([0.0, 0.5, 1.0, 1.0]), 0.025
    for num_fields in (2, 3, 4):
        resamples = [np.mean(drawn) for drawn in itertools.product(values[:num_fields], repeat=num_fields)]
        is_range = np.quantile(resamples, outside, method="inverted_cdf") == values[0]
        assert is_range == (num_fields < MIN_UNITS)


def test_estimates_from_no_flights_are_refused():
    with pytest.raises(ValueError, match="got none, expected at least one"):
        bootstrap_mean([])
    with pytest.raises(ValueError, match="one for each flight"):
        bootstrap_mean([1.0, 2.0], clusters=[0])


def test_every_column_is_divided_by_its_own_denominators():
    generator = np.random.default_rng(5)
    above, below = generator.random((60, 5)), np.ones((60, 5))
    below[:, 1] = below[:, 4] = generator.random(60) + 0.5
    below[:, 3] = 2.0
    clusters = np.arange(60) // 4
    together = bootstrap_ratios(above, below, clusters)
    for column, found in enumerate(together):
        alone = ratio(above[:, column], below[:, column], clusters)
        assert vars(found) == pytest.approx(vars(alone))
