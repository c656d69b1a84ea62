"""How the oracle flies LANI-like segments, beside the paper's figures.

python benchmarks/oracle.py --segments 500
"""

from __future__ import annotations

import itertools

import numpy as np
import tyro
from timing import print_report

from pvn.rollout.flight import fly
from pvn.rollout.oracle import Oracle
from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.simulator import simulator_for
from pvn.world.routes import sample_tour
from pvn.world.task import SUCCESS_M

PAPER = {
    "mean_steps": 18.0, "metres_per_step": 0.88, "mean_distance": 1.38, "median_distance": 1.29,
    "success_percent": 100.0, "mean_start_goal": 15.8, "median_start_goal": 14.8,
}  # fmt: skip


def main(segments: int = 500, device: str = "cpu") -> None:
    """Fly the oracle over segments of random routes in random fields."""
    tours = itertools.chain.from_iterable(map(sample_tour, itertools.count()))
    demonstrations = list(itertools.islice(tours, segments))
    tasks = [demonstration.task for demonstration in demonstrations]
    simulator = simulator_for(tasks, device=device, config=SimulatorConfig(quality="none"))
    log = fly(simulator, tasks, Oracle(demonstrations))
    goals = [demonstration.goal for demonstration in demonstrations]
    distance = log.goal_distance(goals).cpu()
    apart = np.hypot(*(np.array(goals) - [task.start[:2] for task in tasks]).T)
    here = {
        "mean_steps": float(log.num_steps.float().mean()),
        "metres_per_step": float((log.distance_flown() / log.num_steps).mean()),
        "mean_distance": float(distance.mean()),
        "median_distance": float(distance.median()),
        "success_percent": 100 * float((log.has_stopped.cpu() & (distance < SUCCESS_M)).float().mean()),
        "mean_start_goal": float(apart.mean()),
        "median_start_goal": float(np.median(apart)),
    }
    print_report({"segments": segments, "here": here, "paper": PAPER})


if __name__ == "__main__":
    tyro.cli(main)
