"""The oracle at its goal: it stops as it arrives, or turns first to the demonstrated heading."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from pvn.rollout.flight import fly
from pvn.rollout.oracle import Oracle, OracleConfig
from pvn.simulator.interface import STOP, SimulatorConfig
from pvn.simulator.simulator import simulator_for
from pvn.world.layout import Layout
from pvn.world.task import TURNED_WITHIN, Demonstration, Task

BLIND = SimulatorConfig(quality="none")


class FlyOn:
    """Flies straight on at full speed, whatever the oracle that it asks says; and keeps what that says."""

    def __init__(self, oracle):
        self.oracle, self.told = oracle, []

    def begin(self, tasks, device):
        return self.oracle.begin(tasks, device)

    def act(self, observation, memory):
        told, memory = self.oracle.act(observation, memory)
        self.told.append(told)
        return torch.tensor([[BLIND.max_speed, 0.0, 0.0]]).repeat(len(told), 1), memory


def flown(demonstrations, **config):
    tasks = [demonstration.task for demonstration in demonstrations]
    return fly(simulator_for(tasks, config=BLIND), tasks, Oracle(demonstrations, OracleConfig(**config), BLIND))


@pytest.mark.parametrize("turn", [math.pi / 2, -2.5, math.pi])
def test_it_turns_at_its_goal_to_the_demonstrated_heading(paragraph, turn):
    plain = [replace(segment.demonstration, turned_to=None) for segment in paragraph]
    turning = [replace(one, turned_to=one.end_heading + turn) for one in plain]
    usual, log = flown(plain, turns_at_end=True), flown(turning, turns_at_end=True)
    assert torch.equal(flown(turning).pose_world, usual.pose_world), "it turns only where it is told to"
    for flight, one in enumerate(turning):
        before = int(usual.num_steps[flight]) - 1
        assert torch.equal(log.pose_world[flight, :before], usual.pose_world[flight, :before]), "the same way there"
        off = math.remainder(float(log.pose_world[flight, -1, 5]) - one.turned_to, 2 * math.pi)
        assert abs(off) < TURNED_WITHIN + 0.1, "which it may overshoot a little while it brakes"
        moved = (log.end_world[flight] - usual.end_world[flight]).norm()
        assert log.num_steps[flight] > usual.num_steps[flight] and moved < 0.5
    assert bool(log.has_stopped.all())


def told_beyond(demonstration, num_steps, **config):
    """What the oracle says at each step to a drone that flies straight on."""
    pilot = FlyOn(Oracle([demonstration], OracleConfig(**config), BLIND))
    fly(simulator_for([demonstration.task], config=BLIND), [demonstration.task], pilot, horizon=num_steps)
    return torch.cat(pilot.told)


def test_a_drone_that_flies_past_its_goal_is_told_to_come_back_unless_it_has_to_turn_there():
    """The path leads east and ends with a step to the north; the drone flies on to the east."""
    path = np.array([(10.0, 25.0), (12.0, 25.0), (14.0, 25.0), (16.0, 25.0), (16.0, 26.0)])
    plain = Demonstration(Task(Layout(()), (10.0, 25.0, 0.0), "ahead"), path)
    turning = replace(plain, turned_to=-math.pi / 2)
    for some, turns_at_end in ((plain, False), (plain, True), (turning, False)):
        told = told_beyond(some, 12, turns_at_end=turns_at_end)
        assert 0 < told[:, STOP].sum() < 12 and (told[0, STOP], told[-1, STOP]) == (0, 0)
        assert told[-1, 0] > 0 and told[-1, 1] > 0, "fly, and turn left"
    told = told_beyond(turning, 12, turns_at_end=True)
    arrived = (told[:, 0] == 0).tolist().index(True)
    assert 0 < arrived < 10 and (told[arrived:, 0] == 0).all(), "it is told to stay where it arrived"
    assert (told[:, STOP] == 0).all() and (told[arrived:, 1] < 0).all(), "it has not turned, and so may not stop"


def test_a_lost_drone_stops_at_once_and_turns_nowhere():
    path = np.stack([np.linspace(10.0, 16.0, 7), np.full(7, 25.0)], -1)
    away = Demonstration(Task(Layout(()), (40.0, 25.0, 0.0), "ahead"), path, turned_to=math.pi / 2)
    assert told_beyond(away, 1, max_deviation=5.0, turns_at_end=True).tolist() == [[0.0, 0.0, 1.0]]
