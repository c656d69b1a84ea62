"""Our agent in an AirSim world: through the unmodified client, over our own server, it flies as it does natively."""

import math

import numpy as np
import pytest
import torch
from airsim_serving import serving

from pvn.airsim.field import AirSimField, AirSimOptions, FlightLost, resampled
from pvn.corpus.flight import fly, simulator_for
from pvn.corpus.meadow import sample_paragraph
from pvn.evaluation.intervals import bootstrap_mean
from pvn.geometry import Camera
from pvn.learning.agent import shipped_agent
from pvn.simulator.simulator import Simulator, SimulatorConfig
from pvn.world.layout import sample_layout
from pvn.world.task import SUCCESS_M, Task

pytest.importorskip("cosysairsim", reason="needs the AirSim client: pip install cosysairsim")

STEPPED = AirSimOptions(is_stepped=True, can_teleport=True)


def flown_over_airsim(tasks, policy, horizon):
    """The tasks' logs; tasks of one field follow each other."""
    logs, layout, server, field = [], None, None, None
    try:
        for task in tasks:
            if task.layout is not layout:
                if server is not None:
                    server.__exit__(None, None, None)
                layout, server = task.layout, serving(task.layout)
                _, port = server.__enter__()
                field = AirSimField(port=port, layout=layout, options=STEPPED)
                field.take_off()
            logs.append(fly(field, [task], policy, horizon=horizon))
    finally:
        if server is not None:
            server.__exit__(None, None, None)
    return logs


def test_the_agent_flies_over_airsim_as_it_does_natively():
    tasks = [segment.task for segment in sample_paragraph(3)][:3]
    agent = shipped_agent()
    for task, log in zip(tasks, flown_over_airsim(tasks, agent, 12), strict=True):
        native = fly(simulator_for([task]), [task], agent, horizon=12)
        assert log.num_steps.equal(native.num_steps) and log.has_stopped.equal(native.has_stopped)
        assert (log.pose_world - native.pose_world).abs().max() < 1e-3
        assert (log.action - native.action).abs().max() < 1e-3


@pytest.mark.slow
def test_over_50_flights_the_success_rate_is_within_its_interval_of_the_native_one():
    tasks = []
    for seed in range(100, 120):
        tasks += [segment.task for segment in sample_paragraph(seed)]
    tasks, agent = tasks[:50], shipped_agent()

    def succeeded(log, task):
        return bool(log.has_stopped[0]) and float(log.goal_distance([task])[0]) < SUCCESS_M

    native = [succeeded(fly(simulator_for([task]), [task], agent, horizon=40), task) for task in tasks]
    logs = flown_over_airsim(tasks, agent, 40)
    ours = [succeeded(log, task) for log, task in zip(logs, tasks, strict=True)]
    interval = bootstrap_mean(np.array(native))
    assert interval.low <= np.mean(ours) <= interval.high, f"native {interval}, over AirSim {np.mean(ours):.2f}"
