"""Calibration of the goal distribution: is the goal in the likeliest p of its mass p of the time?

Cells are ordered by probability. `above` is the mass of all cells likelier than the goal's, `level` the mass of all
cells at least as likely: the goal's credible level. Cells are coarse, and the likeliest may hold half of all mass. So
the likeliest share p takes in a part of the cells at its rim, and a goal in such a cell counts for that part. Goals
drawn from the distributions themselves are then covered exactly p of the time, for every p.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pvn.geometry import MapGrid

SHARES: npt.NDArray[np.float64] = np.linspace(0.0, 1.0, 101)
"""Shares of mass at which the reliability curve is taken."""


@dataclass(frozen=True)
class CredibleLevels:
    """Where N goals rank among the cells of their distributions."""

    above: npt.NDArray[np.float64]
    """(N,): mass of the cells likelier than the goal's."""
    level: npt.NDArray[np.float64]
    """(N,): mass of the cells at least as likely as the goal's, including it; 1 for a goal off the map."""

    def __len__(self) -> int:
        return len(self.level)


@dataclass(frozen=True)
class Calibration:
    """How well calibrated N goal distributions are."""

    coverage: npt.NDArray[np.float64]
    """(101,): share of the goals within the likeliest 0, 1, ... 100% of mass; the reliability curve."""
    error: float
    """Expected calibration error: |coverage - p|, mean over p from 0 to 1. 0 is best, 0.5 worst."""
    overconfidence: float
    """p - coverage, mean over p: above 0 where goals lie further out than the distributions predict, below 0
    where the distributions are wider than necessary."""
    median_level: float
    """Median of the goals' credible levels."""

    def to_json(self) -> dict[str, Any]:
        """Every field by name; the curve as a list."""
        return {
            "error": self.error,
            "overconfidence": self.overconfidence,
            "median_level": self.median_level,
            "coverage": self.coverage.tolist(),
        }


def credible_levels(probability: Tensor, goal_map: Tensor, grid: MapGrid) -> CredibleLevels:
    """Levels of goals (N, 2), map frame, in distributions (N, S, S) over the map's cells."""
    if probability.shape != (len(goal_map), grid.size, grid.size):
        raise ValueError(
            f"distributions: got {tuple(probability.shape)}, expected ({len(goal_map)}, {grid.size}, {grid.size}), "
            "one for each goal"
        )
    cell = grid.cells(goal_map).round().long()  # (N, 2)
    is_on_map = ((cell >= 0) & (cell < grid.size)).all(1)
    row, column = cell.clamp(0, grid.size - 1).unbind(1)
    own = probability[torch.arange(len(cell)), row, column][:, None, None]
    # In single precision, the error of a sum over thousands of cells would exceed the mass of the least likely ones.
    above = (probability.double() * (probability > own)).sum((1, 2))
    level = (probability.double() * (probability >= own)).sum((1, 2))
    # A goal off the map ranks behind every cell.
    return CredibleLevels(*(torch.where(is_on_map, mass, 1.0).clamp(max=1.0).numpy() for mass in (above, level)))


def calibration(levels: CredibleLevels) -> Calibration:
    """The reliability curve of N goals and its distance from the diagonal."""
    if len(levels) == 0:
        raise ValueError("goals: got none, expected at least one")
    above, level = levels.above[:, None], levels.level[:, None]
    own = np.maximum(level - above, 1e-12)
    coverage = np.clip((SHARES - above) / own, 0.0, 1.0).mean(axis=0)
    off = coverage - SHARES
    return Calibration(
        coverage=coverage,
        error=float(np.trapezoid(np.abs(off), SHARES)),
        overconfidence=float(np.trapezoid(-off, SHARES)),
        median_level=float(np.median(levels.level)),
    )


def spread_goals(spread: Tensor, grid: MapGrid, generator: torch.Generator) -> Tensor:
    """A place (N, 2), map frame, drawn from each of the target distributions (N, S, S) that stage 1 is trained on.

    A network that has learned its targets perfectly is calibrated for these places, and a little too wide for goals.
    """
    return grid.places()[torch.multinomial(spread.flatten(1), 1, generator=generator)[:, 0]]
