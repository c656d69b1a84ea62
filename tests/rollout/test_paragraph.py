"""Flights that continue others: where they start, and what their policy keeps."""

import pytest
import torch

from pvn.rollout.flight import fly
from pvn.rollout.paragraph import fly_on, next_starts
from pvn.rollout.trivial_pilots import Average
from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.simulator import simulator_for
from pvn.world.layout import Layout
from pvn.world.task import Task

BLIND = SimulatorConfig(quality="none")


@pytest.fixture
def tasks():
    return [Task(Layout(()), (20.0, 25.0, 0.0), words) for words in ("two", "four")]


class Counting:
    """Flies as many steps as its instruction says, and keeps how many steps it has ever flown."""

    def begin(self, tasks, device):
        return self.begin_with([0] * len(tasks), tasks, device)

    def begin_with(self, carried, tasks, device):
        return {
            "limits": [{"two": 2, "four": 4}[task.instruction] for task in tasks],
            "now": 0,
            "before": list(carried),
        }

    def act(self, observation, memory):
        memory = {**memory, "now": memory["now"] + 1}
        return torch.tensor([[1.0, 0.0, float(memory["now"] >= limit)] for limit in memory["limits"]]), memory

    def carry(self, memory, flight):
        return memory["before"][flight] + memory["now"]


def test_a_flight_keeps_what_it_had_at_its_own_end_while_others_in_the_batch_fly_on(tasks):
    simulator = simulator_for(tasks, config=BLIND)
    log, carried = fly_on(simulator, tasks, Counting())
    assert log.num_steps.tolist() == [2, 4] and carried == (2, 4)
    _, carried = fly_on(simulator, tasks, Counting(), carried)
    assert carried == (4, 8), "the next flights began with it"
    _, carried = fly_on(simulator, tasks, Counting(), horizon=3)
    assert carried == (2, 3), "the horizon ends a flight, too"


def test_a_policy_that_keeps_nothing_begins_anew(tasks):
    policy = Average(num_steps=3)
    simulator = simulator_for(tasks, config=BLIND)
    log, carried = fly_on(simulator, tasks, policy)
    assert carried is None and torch.equal(log.pose_world, fly(simulator, tasks, policy).pose_world)


@pytest.mark.parametrize("policy", [Counting(), Average(num_steps=9)], ids=["keeping", "keeping nothing"])
def test_its_flights_end_at_the_horizon_and_are_watched_as_others_are(policy, tasks):
    simulator, seen = simulator_for(tasks, config=BLIND), []
    for way in (fly, fly_on):
        way(simulator, tasks, policy, horizon=3, watch=lambda *told: seen.append(told))
    assert [step for step, *_ in seen] == [0, 1, 2] * 2
    for (_, before, action, memory), (_, observation, same_action, same_memory) in zip(seen[:3], seen[3:], strict=True):
        assert torch.equal(observation.pose_world, before.pose_world) and torch.equal(same_action, action)
        assert repr(same_memory) == repr(memory)


def test_the_next_flight_starts_where_the_last_one_ended(tasks):
    log = fly(simulator_for(tasks, config=BLIND), tasks, Average(num_steps=3))
    for (x, y, yaw), pose in zip(next_starts(log), log.pose_world[:, -1].tolist(), strict=True):
        assert (x, y, yaw) == (pose[0], pose[1], pose[5]) and x > 20.5
