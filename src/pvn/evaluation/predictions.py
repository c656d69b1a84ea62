"""PVN's predictions at the start and at the end of its flights, and their quality: goals, bounds and calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pvn.corpus.segments import Segment
from pvn.evaluation.bound import FLOOR, Bounds, bounds, joined_bounds, rewards, visited
from pvn.evaluation.calibration import Calibration, calibration, credible_levels, spread_goals
from pvn.evaluation.flights import Flights, flights_of, joined
from pvn.evaluation.intervals import Estimate, bootstrap_mean
from pvn.evaluation.metrics import resample
from pvn.evaluation.pilots import Pilot, predicting_agent
from pvn.geometry import MapGrid, padded_paths, to_map
from pvn.learning.losses import VisitationLosses, target_distributions
from pvn.model.pvn import PVNMemory
from pvn.model.visitation import GOAL, TRAJECTORY
from pvn.rollout.flight import fly
from pvn.simulator.interface import STOP, Observation
from pvn.simulator.simulator import simulator_for
from pvn.world.task import SUCCESS_M

FIRST_AND_LAST = ("first", "last")
"""The predictions of a flight that are evaluated."""
DISTRIBUTIONS = {"trajectory": TRAJECTORY, "goal": GOAL}
FLIGHTS_PER_CHUNK = 64
"""Flights whose predictions are evaluated at a time, to limit memory."""
SIGMA_CELLS = VisitationLosses().sigma_cells
"""Width of the Gaussians around a path's points, as in training."""


WATCHED_PER_BATCH = {"cpu": 1, "cuda": 1024}
"""By device. Flights whose predictions are watched stay in their batch until the last one has ended, so half of the
work is spent on flights that have already stopped; on a CPU, batching does not make up for that."""


@dataclass(frozen=True)
class Predictions:
    """N flights and the predictions made in them, on the host; maps are in the frames of the flights' start poses."""

    flights: Flights
    first: Tensor
    """(N, 2, S, S) float32: logarithms of the trajectory's and the goal's distribution, predicted at the first step."""
    last: Tensor
    """(N, 2, S, S) float32: the same at the end of the flight."""

    def __len__(self) -> int:
        return len(self.first)


class _FirstAndLast:
    """Watches a batch of flights and remembers the first and the last prediction of each."""

    first: Tensor
    last: Tensor
    is_flying: Tensor

    def __call__(self, step: int, observation: Observation, action: Tensor, memory: PVNMemory) -> None:
        assert memory.visitation is not None, "PVN predicts at its first step"
        predicted = memory.visitation.log_probability
        if step == 0:
            self.first = self.last = predicted
            self.is_flying = torch.ones(len(predicted), dtype=torch.bool, device=predicted.device)
        # After its end a flight hovers, and predictions continue while others fly; those do not belong to it.
        self.last = torch.where(self.is_flying[:, None, None, None], predicted, self.last)
        self.is_flying = self.is_flying & (action[:, STOP] <= 0.5)


def _fly_segments(segments: Sequence[Segment], pilot: Pilot, device: str) -> Predictions:
    tasks = [segment.task for segment in segments]
    keeper = _FirstAndLast()
    log = fly(simulator_for(tasks, device=device, config=pilot.config), tasks, predicting_agent(pilot), watch=keeper)
    return Predictions(flights_of(log), keeper.first.cpu(), keeper.last.cpu())


def fly_with_predictions(
    segments: Sequence[Segment],
    pilot: Pilot,
    *,
    device: str = "cpu",
    watch: Callable[[int], None] = lambda done: None,
) -> Predictions:
    """Fly all segments, in batches, with their predictions, 64 KiB a flight. watch(done): called after each batch."""
    parts: list[Predictions] = []
    for begin in range(0, len(segments), WATCHED_PER_BATCH[device]):
        parts.append(_fly_segments(segments[begin : begin + WATCHED_PER_BATCH[device]], pilot, device))
        watch(sum(map(len, parts)))
    return Predictions(
        joined([part.flights for part in parts]),
        torch.cat([part.first for part in parts]),
        torch.cat([part.last for part in parts]),
    )


@dataclass(frozen=True)
class PredictionQuality:
    """How good the predictions in N flights were."""

    bounds: Mapping[tuple[str, str], Bounds]
    """By prediction (first, last) and distribution (trajectory, goal)."""
    calibration: Mapping[str, Calibration]
    """How well calibrated the goal distributions are, by prediction."""
    spread_calibration: Mapping[str, Calibration]
    """The same for goals spread as in training."""
    goal_distance: Mapping[str, np.ndarray]
    """Metres (N,) between goals and the most likely cells of their distributions, by prediction."""

    def _goals_found(self, when: str, environments: Sequence[int]) -> Estimate:
        """Percent of the most likely cells that are within 5 m of the goal, with an interval over environments (N,)."""
        return bootstrap_mean(self.goal_distance[when] < SUCCESS_M, environments) * 100

    def to_json(self, environments: Sequence[int]) -> dict[str, Any]:
        """By prediction: goals found, bounds for both distributions, calibration; intervals over environments (N,)."""
        return {
            "flights": len(environments),
            "sigma_cells": SIGMA_CELLS,
            "floor": FLOOR,
            **{
                when: {
                    "goals_found_percent": asdict(self._goals_found(when, environments)),
                    "bound": {name: self.bounds[when, name].to_json(environments) for name in DISTRIBUTIONS},
                    "calibration": self.calibration[when].to_json(),
                    "spread_calibration": self.spread_calibration[when].to_json(),
                }
                for when in FIRST_AND_LAST
            },
        }


def paths_in_map(paths: Sequence[np.ndarray], origin: Tensor) -> tuple[Tensor, Tensor]:
    """Points (B, P, 2) float64 evenly along paths (T, 2), field frame, in the map frames of poses (B, 3).

    Each path is padded with its end; the second result is how many (B,) points are not padding.
    """
    points, num_points = padded_paths([resample(path) for path in paths])
    return to_map(torch.from_numpy(points), origin.double()), torch.from_numpy(num_points)


def evaluate_predictions(predictions: Predictions, segments: Sequence[Segment], grid: MapGrid) -> PredictionQuality:
    """Bounds and calibration of the predictions in N flights over N segments."""
    if len(predictions) != len(segments):
        raise ValueError(f"flights: got {len(predictions)} and {len(segments)} segments, expected one flight for each")
    flown_paths = predictions.flights.paths()
    parts: dict[tuple[str, str], list[Bounds]] = {(when, name): [] for when in FIRST_AND_LAST for name in DISTRIBUTIONS}
    goals, spread = [], []
    generator = torch.Generator().manual_seed(0)
    for begin in range(0, len(segments), FLIGHTS_PER_CHUNK):
        rows = slice(begin, begin + FLIGHTS_PER_CHUNK)
        demonstrations = [segment.demonstration for segment in segments[rows]]
        origin = torch.tensor([demonstration.task.start for demonstration in demonstrations], dtype=torch.float64)
        path, num_points = paths_in_map([demonstration.path for demonstration in demonstrations], origin)
        oracle = visited(path, num_points, grid, SIGMA_CELLS)
        flown = visited(*paths_in_map(flown_paths[rows], origin), grid, SIGMA_CELLS)
        reward = rewards(path, num_points, grid)
        for (when, name), found in parts.items():
            which = DISTRIBUTIONS[name]
            log_predicted = getattr(predictions, when)[rows, which]
            found.append(bounds(oracle[:, which], log_predicted, flown[:, which], reward[:, which]))
        goals.append(path[:, -1])
        spread.append(spread_goals(target_distributions(path, num_points, grid, SIGMA_CELLS)[:, GOAL], grid, generator))

    def calibrated(points_map: Tensor) -> dict[str, Calibration]:
        return {
            when: calibration(credible_levels(getattr(predictions, when)[:, GOAL].exp(), points_map, grid))
            for when in FIRST_AND_LAST
        }

    def distance(log_probability: Tensor, goals_map: Tensor) -> np.ndarray:
        likeliest = grid.places()[log_probability[:, GOAL].flatten(1).argmax(1)]
        return (likeliest - goals_map).norm(dim=-1).numpy()

    return PredictionQuality(
        bounds={key: joined_bounds(found) for key, found in parts.items()},
        calibration=calibrated(torch.cat(goals)),
        spread_calibration=calibrated(torch.cat(spread)),
        goal_distance={when: distance(getattr(predictions, when), torch.cat(goals)) for when in FIRST_AND_LAST},
    )
