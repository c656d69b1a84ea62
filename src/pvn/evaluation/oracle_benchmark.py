"""How the oracle flies LANI-like segments, beside the paper's numbers: `pvn bench oracle`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from pvn.rollout.flight import fly, simulator_for
from pvn.rollout.oracle import Oracle
from pvn.simulator.interface import SimulatorConfig
from pvn.world.routes import sample_tour
from pvn.world.task import SUCCESS_M, Demonstration

PAPER_ORACLE = {
    "mean_steps": 18.0, "metres_per_step": 0.88, "mean_distance": 1.38, "median_distance": 1.29,
    "success_percent": 100.0, "mean_start_goal": 15.8, "median_start_goal": 14.8,
}  # fmt: skip


def _demonstrations(count: int) -> list[Demonstration]:
    found: list[Demonstration] = []
    for seed in itertools.count():
        if len(found) >= count:
            break
        found += sample_tour(seed)
    return found[:count]


def measure_oracle(num_segments: int, device: str, watch: Callable[[str], None] = lambda what: None) -> dict[str, Any]:
    """Steps, speed and final distance of the oracle over LANI-like segments. watch: called with what is done next."""
    if num_segments < 1:
        raise ValueError(f"segments: got {num_segments}, expected at least 1")
    watch("drawing routes")
    demonstrations = _demonstrations(num_segments)
    watch("flying")
    tasks = [demonstration.task for demonstration in demonstrations]
    simulator = simulator_for(tasks, device=device, config=SimulatorConfig(quality="none"))
    log = fly(simulator, tasks, Oracle(demonstrations))
    goals = [demonstration.goal for demonstration in demonstrations]
    distance = log.goal_distance(goals).cpu()
    apart = np.array([np.hypot(*np.subtract(goal, task.start[:2])) for goal, task in zip(goals, tasks, strict=True)])
    is_success = log.has_stopped.cpu() & (distance < SUCCESS_M)
    return {
        "segments": num_segments,
        "mean_steps": float(log.num_steps.float().mean()),
        "metres_per_step": float((log.distance_flown() / log.num_steps).mean()),
        "mean_distance": float(distance.mean()),
        "median_distance": float(distance.median()),
        "success_percent": 100 * float(is_success.float().mean()),
        "mean_start_goal": float(apart.mean()),
        "median_start_goal": float(np.median(apart)),
    }
