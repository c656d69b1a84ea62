"""The paper's table, and which of its orders hold in our results."""

import json
import math
from dataclasses import replace

import pytest

from pvn.evaluation.intervals import Estimate
from pvn.evaluation.metrics import measure_flights
from pvn.evaluation.paper import ANALYSED, COMPARED, GAP, TABLE, compare_orderings, paper_row
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
    return replace(summary, system=system, split=split, overall=overall)


def test_the_papers_table_is_as_printed():
    rows = {(name, split): row for name, system in SYSTEMS.items() for split, row in system.paper.items()}
    assert len(rows) == 15 and rows["pvn", "test"].sr == 41.21 and rows["pvn-full-observation", "dev"].sr == 60.59
    assert round(rows["pvn", "test"].sr - rows["gsmn", "test"].sr, 2) == 16.85  # as in its abstract
    assert set(rows) <= set(TABLE) and len(TABLE) == 2 * len(COMPARED) + len(ANALYSED) == 20
    assert all(paper_row(*row) == rows.get(row) for row in TABLE) and paper_row("own-pvn", "test") is None


def test_a_summary_is_read_back_as_it_was_written(summary):
    assert Summary.from_json(json.loads(json.dumps(summary.to_json()))) == summary


def test_orders_hold_only_where_intervals_are_apart(summary):
    found = compare_orderings(
        [
            with_rate(summary, "pvn", "test", 40, 44),
            with_rate(summary, "gsmn", "test", 43, 47),
            with_rate(summary, "chaplot", "test", 30, 35),
            with_rate(summary, "average", "test", 36, 39),
            with_rate(summary, "pvn", "dev", 10, 12),
            with_rate(summary, "stop", "dev", 1, 2),  # not in the paper
        ]
    )
    pairs = {(ordering.better, ordering.worse): ordering for ordering in found}
    assert all(ordering.paper_gap > GAP and ordering.split == "test" for ordering in found)
    assert pairs["pvn", "gsmn"].verdict == "too close to tell" and math.isclose(pairs["pvn", "gsmn"].gap, -3)
    assert pairs["pvn", "chaplot"].verdict == "holds" and pairs["chaplot", "average"].verdict == "reversed"
    assert pairs["gsmn", "chaplot"].verdict == "holds" and len(found) == 6


def test_an_interval_from_one_field_tells_nothing_apart(summary):
    alone = [with_rate(summary, name, "test", at, at, environments=1) for name, at in (("pvn", 50), ("stop", 5))]
    assert [ordering.verdict for ordering in compare_orderings(alone)] == ["too close to tell"]
