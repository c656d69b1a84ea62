"""Flights in words."""

import math

import pytest
import torch

from pvn.evaluation.outcome import describe_flights, outcome
from pvn.rollout.flight import FlightLog
from pvn.world.layout import Landmark, Layout
from pvn.world.task import Task


def test_outcomes_in_words():
    assert outcome(4.25, 21, True) == "stopped 4.2 m from the goal after 21 steps"
    assert outcome(4.25, 100, False) == "never stopped in 100 steps; 4.2 m from the goal"
    assert outcome(None, 21, True, "over the lake") == "stopped over the lake after 21 steps"
    assert outcome(None, 21, True, "with nothing near") == "stopped after 21 steps with nothing near"
    assert outcome(None, 21, True) == "stopped after 21 steps"


def test_a_flight_that_only_turns_is_described_by_its_turn():
    layout = Layout((Landmark("Gorilla", 25.0, 25.0, 4.0),))
    tasks = [Task(layout, (20.0, 25.0, 3.0), "turn") for _ in range(3)]
    pose = torch.tensor([20.0, 25.0, 5.0, 0.0, 0.0, 3.0]).repeat(3, 2, 1)
    pose[:, 1, 5] = torch.tensor([-3.0 + math.pi / 2, 3.0 - math.pi / 2, 3.1])
    log = FlightLog(pose, torch.zeros(3, 2, 3), torch.zeros(3, 1, 3), torch.ones(3, dtype=torch.int64), torch.ones(3))
    assert describe_flights(log, tasks) == [
        "stopped facing 106 degrees further left after 1 step",
        "stopped facing 90 degrees further right after 1 step",
        "stopped 5 m from the gorilla after 1 step",
    ]


@pytest.mark.long
def test_flights_are_described_by_what_they_stopped_near_and_by_what_their_agent_does_not_know(shipped_pvn):
    layout = Layout((Landmark("Gorilla", 25.0, 25.0, 4.0),))
    tasks = [Task(layout, (20.0, 25.0, 0.0), f"go to the {noun}") for noun in ("gorilla", "zyzzyva shop")]
    pose = torch.tensor([20.0, 25.0, 5.0, 0.0, 0.0, 0.0]).repeat(2, 2, 1)
    pose[:, 1, 0] = 22.0
    log = FlightLog(
        pose, torch.zeros(2, 2, 3), torch.zeros(2, 1, 3), torch.ones(2, dtype=torch.int64), torch.tensor([True, False])
    )
    assert describe_flights(log, tasks, shipped_pvn) == [
        "stopped 3 m from the gorilla after 1 step",
        "never stopped in 1 step; 3 m from the gorilla; 'zyzzyva' is not a word I know; 'shop' is read as 'stop'",
    ]
    assert describe_flights(log, tasks, goals=[(22.0, 26.0), None])[0] == "stopped 1.0 m from the goal after 1 step"
