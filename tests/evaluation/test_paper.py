"""The paper's table, and which of its orders hold in our results."""

import json
from dataclasses import replace

import pytest

from pvn.evaluation.intervals import Estimate
from pvn.evaluation.metrics import measure_flights
from pvn.evaluation.paper import (
    ANALYSED,
    COMPARED,
    GAP,
    TABLE,
    compare_orderings,
    compare_with_pvn,
    paper_row,
)
from pvn.evaluation.summary import Summary, summarise
from pvn.systems import SYSTEMS


@pytest.fixture(scope="module")
def summary(paragraph):
    """Results of flights exactly along the demonstrated paths of one field."""
    demonstrations = [segment.demonstration for segment in paragraph]
    paths = [demonstration.path for demonstration in demonstrations]
    return summarise("oracle", "test", measure_flights(paths, [True] * len(paths), demonstrations), paragraph)


def with_rate(summary, system, split, low, high, environments=50):
    rate = Estimate((low + high) / 2, low, high)
    overall = replace(summary.overall, sr=rate, environments=environments)
    return replace(summary, system=system, split=split, overall=overall, successes={})


def test_the_papers_table_is_as_printed():
    rows = {(name, split): row for name, system in SYSTEMS.items() for split, row in system.paper.items()}
    assert len(rows) == 16 and rows["pvn", "test"].sr == 41.21 and rows["pvn-full-observation", "dev"].sr == 60.59
    assert round(rows["pvn", "test"].sr - rows["gsmn", "test"].sr, 2) == 16.85  # as in its abstract
    assert rows["pvn-half-height", "dev"] == rows["pvn-height-0.7", "dev"], "two readings of one row"
    assert set(rows) <= set(TABLE) and len(TABLE) == 2 * len(COMPARED) + len(ANALYSED) == 21
    assert all(paper_row(*row) == rows.get(row) for row in TABLE) and paper_row("own-pvn", "test") is None


def test_a_summary_is_read_back_as_it_was_written(summary):
    assert Summary.from_json(json.loads(json.dumps(summary.to_json()))) == summary


def with_successes(summary, system, split, shares):
    """The results of a system that reaches these shares of the goals of its fields, four flights in each."""
    successes = {field: tuple(flight < 4 * share for flight in range(4)) for field, share in enumerate(shares)}
    rate = 100 * sum(map(sum, successes.values())) / (4 * len(successes))
    return replace(with_rate(summary, system, split, rate - 20, rate + 20), successes=successes)


def test_orders_are_judged_by_paired_differences(summary):
    found = compare_orderings(
        {
            0: [
                with_successes(summary, "pvn", "test", [1, 0.5] * 20),
                with_successes(summary, "gsmn", "test", [0.75, 0.25] * 20),
                with_successes(summary, "chaplot", "test", [1, 0] * 20),
                with_successes(summary, "average", "test", [1, 0.25] * 20),
            ]
        }
    )
    pairs = {(one.first, one.second): one for one in found}
    # The systems' own intervals, 40 points wide, all overlap.
    assert pairs["pvn", "gsmn"].verdict == "holds" and pairs["pvn", "gsmn"].difference.points == 25
    assert pairs["chaplot", "average"].verdict == "reversed" and pairs["chaplot", "average"].difference.points == -12.5
    assert pairs["gsmn", "chaplot"].verdict == "undecided" and pairs["gsmn", "chaplot"].difference.points == 0


def test_results_without_single_flights_are_told_apart_by_their_own_intervals(summary):
    found = compare_orderings(
        {
            0: [
                with_rate(summary, "pvn", "test", 40, 44),
                with_rate(summary, "gsmn", "test", 43, 47),
                with_rate(summary, "chaplot", "test", 30, 35),
                with_rate(summary, "average", "test", 36, 39),
                with_rate(summary, "pvn", "dev", 10, 12),
                with_rate(summary, "stop", "dev", 1, 2),  # not in the paper
            ]
        }
    )
    pairs = {(one.first, one.second): one for one in found}
    assert all(one.paper_gap > GAP and one.split == "test" and one.difference.interval is None for one in found)
    assert pairs["pvn", "gsmn"].verdict == "undecided" and pairs["pvn", "gsmn"].difference.points == -3
    assert pairs["pvn", "chaplot"].verdict == "holds" and pairs["chaplot", "average"].verdict == "reversed"
    assert pairs["gsmn", "chaplot"].verdict == "holds" and len(found) == 6


def test_ablations_are_compared_with_pvn_over_all_runs(summary):
    runs = {
        seed: [
            with_successes(summary, "pvn", "dev", [share] * 9),
            with_successes(summary, "pvn-no-aux", "dev", [share - 0.25] * 9),
            with_rate(summary, "pvn-ideal-act", "dev", 60, 64),
            with_successes(summary, "gsmn", "dev", [0.25] * 9),
        ]
        for seed, share in enumerate((0.5, 1.0))
    }
    no_aux, ideal = compare_with_pvn(runs)
    assert (no_aux.first, no_aux.second, no_aux.difference.num_runs) == ("pvn-no-aux", "pvn", (2, 2))
    assert no_aux.difference.interval == Estimate(-25, -25, -25) and no_aux.verdict == "holds"
    assert ideal.difference.interval is None and ideal.difference.points == 62 - 75
    assert compare_with_pvn({0: runs[0][1:]}) == []


def test_an_interval_from_one_field_tells_nothing_apart(summary):
    written = [with_rate(summary, name, "test", at, at, environments=1) for name, at in (("pvn", 50), ("stop", 5))]
    alone = [Summary.from_json(one.to_json()) for one in written]  # version 0.1 wrote such intervals
    assert [one.verdict for one in compare_orderings({0: alone})] == ["undecided"]
