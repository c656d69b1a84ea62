"""The oracle at its goal: it stops as it arrives, or turns first to the demonstrated heading."""

import math
from dataclasses import replace

import pytest
import torch

from pvn.rollout.flight import fly, simulator_for
from pvn.rollout.oracle import Oracle, OracleConfig
from pvn.simulator.interface import SimulatorConfig
from pvn.world.task import TURNED_WITHIN

BLIND = SimulatorConfig(quality="none")


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
