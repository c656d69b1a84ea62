"""Systems that flew the same segments: means over training runs, paired differences, and the paper's orders."""

from dataclasses import replace

import numpy as np
import pytest

from pvn.evaluation.comparison import (
    ANALYSED,
    COMPARED,
    GAP,
    TABLE,
    compare_orderings,
    compare_with_pvn,
    difference_of,
    mean_over_runs,
    paper_row,
    table_rows,
)
from pvn.evaluation.intervals import Bootstrap, Estimate, bootstrap_difference, bootstrap_mean
from pvn.systems import SYSTEMS

QUICK = Bootstrap(num_resamples=2000)


def flights(seed, rate, num_fields=60):
    return np.random.default_rng(seed).random((num_fields, 5)) < rate


def width(estimate):
    return estimate.high - estimate.low


def test_a_paired_difference_is_the_one_between_the_single_flights(with_successes):
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
    assert difference_of(one, dict(reversed(less.items())), QUICK) == paired, "whatever order the seeds come in"


def test_other_flights_are_not_paired_and_one_field_tells_nothing(with_successes):
    one, fewer = with_successes(flights(0, 0.7)), with_successes(flights(0, 0.7, num_fields=59))
    for other in (fewer, with_successes(flights(0, 0.7)[:, :4])):
        assert difference_of({0: one}, {0: other}, QUICK).interval is None
    alone = with_successes(flights(0, 0.7, num_fields=1))
    assert difference_of({0: alone}, {0: alone}, QUICK).interval == Estimate(0.0)


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
    again = mean_over_runs(dict.fromkeys(range(3), with_successes(flights(0, 0.6))), QUICK)
    assert again.value == once.value and width(again) == pytest.approx(width(once), rel=0.1)


def test_the_papers_table_is_as_printed():
    rows = {(name, split): row for name, system in SYSTEMS.items() for split, row in system.paper.items()}
    assert len(rows) == 16 and rows["pvn", "test"].sr == 41.21 and rows["pvn-full-observation", "dev"].sr == 60.59
    assert round(rows["pvn", "test"].sr - rows["gsmn", "test"].sr, 2) == 16.85  # as in its abstract
    assert rows["pvn-half-height", "dev"] == rows["pvn-height-0.7", "dev"], "two readings of one row"
    assert set(rows) <= set(TABLE) and len(TABLE) == 2 * len(COMPARED) + len(ANALYSED) == 21
    assert all(paper_row(*row) == rows.get(row) for row in TABLE) and paper_row("own-pvn", "test") is None


def test_orders_are_judged_by_paired_differences(with_successes):
    shares = {"pvn": [1, 0.5], "gsmn": [0.75, 0.25], "chaplot": [1, 0], "average": [1, 0.25], "stop": [0, 0]}
    summaries = [
        with_successes([[flight < 4 * share for flight in range(4)] for share in fields * 20], name, "test")
        for name, fields in shares.items()
    ]
    rows = {(one.system, one.split): {0: one} for one in (*summaries, replace(summaries[-1], split="dev"))}
    found = compare_orderings(rows)  # the last of these is not in the paper
    assert all(one.paper_gap > GAP and one.split == "test" for one in found)
    pairs = {(one.first, one.second): one for one in found}
    assert len(found) == 10, "each pair of five systems once, the better one in the paper first"
    # The systems' own intervals all overlap.
    assert pairs["pvn", "gsmn"].verdict == "holds" and pairs["pvn", "gsmn"].difference.points == 25
    assert pairs["chaplot", "average"].verdict == "reversed" and pairs["chaplot", "average"].difference.points == -12.5
    assert pairs["gsmn", "chaplot"].verdict == "undecided" and pairs["gsmn", "chaplot"].difference.points == 0


def test_ablations_are_compared_with_pvn_over_all_runs(with_successes):
    def flown(share, system):
        return with_successes([[flight < 4 * share for flight in range(4)]] * 9, system)

    less = {"pvn": 0.0, "pvn-no-aux": 0.25, "gsmn": 0.5}
    rows = {
        (name, "dev"): {seed: flown(at - by, name) for seed, at in enumerate((0.5, 1.0))} for name, by in less.items()
    }
    (no_aux,) = compare_with_pvn(rows)
    assert (no_aux.first, no_aux.second, no_aux.difference.num_runs) == ("pvn-no-aux", "pvn", (2, 2))
    assert no_aux.difference.interval == Estimate(-25, -25, -25) and no_aux.verdict == "holds"
    del rows["pvn", "dev"]
    assert compare_with_pvn(rows) == []


def test_results_are_sorted_by_the_seed_of_the_run(with_successes):
    pvn, stop = with_successes([[True]]), with_successes([[False]], "stop")
    results = {"seed10/pvn_dev": pvn, "seed2/pvn_dev": pvn, "pvn_dev": pvn, "stop_dev": stop, "pvn_yaw2_dev": pvn}
    found = table_rows(results)
    assert list(found) == [("stop", "dev"), ("pvn", "dev")], "in the order of the paper's table"
    assert {seed: one.system for seed, one in found["pvn", "dev"].items()} == dict.fromkeys((0, 2, 10), "pvn")
