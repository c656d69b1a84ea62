"""Flights that tests of pictures, films and recordings share."""

from dataclasses import replace

import pytest

from pvn.evaluation.pilots import load_pilot
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
