"""Flights for tests of pictures, films and recordings, and results for tests of tables and pages."""

from dataclasses import replace

import pytest

from pvn.evaluation.intervals import Estimate
from pvn.evaluation.metrics import measure_flights
from pvn.evaluation.pilots import load_pilot
from pvn.evaluation.summary import summarise
from pvn.simulator.interface import SimulatorConfig
from pvn.viz.flight_record import fly_and_record


@pytest.fixture(scope="session")
def segment(paragraph):
    return paragraph[1]


@pytest.fixture(scope="session")
def pilot():
    return load_pilot("pvn")


@pytest.fixture(scope="session")
def record(pilot, segment):
    """Eight steps of PVN, two of them with predictions, with a demonstration to compare with."""
    return fly_and_record(pilot, segment.task, demonstrated=segment.demonstration.path, horizon=8)


@pytest.fixture(scope="session")
def mapless_record(segment):
    """Two steps of a pilot that has no maps and estimates no probability."""
    pilot = replace(load_pilot("oracle"), config=SimulatorConfig())
    return fly_and_record(pilot, segment.task, demonstrated=segment.demonstration.path, horizon=2)


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
        return replace(summary, system=system, split=split, overall=overall)

    return change
