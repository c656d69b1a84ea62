"""Summaries of results that tests of the report share."""

from dataclasses import replace

import pytest

from pvn.evaluation.intervals import Estimate
from pvn.evaluation.metrics import measure_flights
from pvn.evaluation.summary import summarise


@pytest.fixture(scope="session")
def summary(paragraph):
    """Results of flights exactly along the demonstrated paths of one field."""
    demonstrations = [segment.demonstration for segment in paragraph]
    paths = [demonstration.path for demonstration in demonstrations]
    return summarise("oracle", "test", measure_flights(paths, [True] * len(paths), demonstrations), paragraph)


@pytest.fixture(scope="session")
def with_rate(summary):
    """The same results with another system, split and success rate (percent, from low to high)."""

    def change(system, split, low, high):
        rate = Estimate((low + high) / 2, low, high)
        overall = replace(summary.overall, sr=rate, environments=50)
        return replace(summary, system=system, split=split, overall=overall, successes={})

    return change
