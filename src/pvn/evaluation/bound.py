"""The paper's theorem 5.1 as a diagnostic: for each flight the bound, and the value that was actually lost.

The theorem: if KL(d* || d) <= epsilon for the predicted distribution d and the oracle's d*, then a policy whose own
distribution d_pi has KL(d || d_pi) <= eta loses at most V* - V_pi <= H (R_max + alpha) (sqrt(2 epsilon) + sqrt(2 eta)).
As stated it is true only for alpha = 0 (docs/metrics.md), which we assume. How we apply it where the paper leaves a
choice:

- Each segment has one start state s. Pilot and simulator are deterministic, so there is exactly one flight from s.
- The small state space is the map's cells. A place is mapped to cells as the paper spreads a path: by a Gaussian of
  sigma_cells, and with probability FLOOR to a cell drawn uniformly. Without that floor, eta would be infinite for every
  flight: softmax gives mass to all cells, and no flight visits them all.
- d* comes from the demonstrated path, which the oracle policy follows, d_pi from the flown path. Both are sampled
  evenly along the path, not in time: demonstrations have no times, and stage 1 is trained this way.
- epsilon and eta are the divergences themselves, the smallest values that meet the theorem's conditions.
- The theorem is applied twice: to the trajectory distribution, and to the goal distribution, which is the visitation
  distribution of the state in which a flight ends.
- The reward of a cell is 1 if its centre is within 5 m of the demonstrated path (trajectory) or of the goal (goal),
  else 0. So R_max = 1. The reward of a place is the mean over its cells, so that alpha = 0.
- Values are per step, V / H = sum of d R; H multiplies gap and bound alike. So a gap is at most 1, and a bound of 1 or
  more says nothing.
- d is one distribution, but PVN predicts repeatedly: the first prediction and the last are both evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pvn.evaluation.intervals import bootstrap_mean, bootstrap_median
from pvn.geometry import MapGrid
from pvn.learning.losses import target_distributions
from pvn.world.task import SUCCESS_M

FLOOR = 1e-3
"""Probability with which a place is mapped to a cell drawn uniformly."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Bounds:
    """The theorem's two sides for B flights, each (B,) float64, values per step."""

    epsilon: Values
    """KL(oracle || predicted), nats."""
    eta: Values
    """KL(predicted || flown), nats."""
    bound: Values
    """The paper's bound, sqrt(2 epsilon) + sqrt(2 eta)."""
    gap: Values
    """The oracle's value minus the flight's; negative where the flight was worth more."""
    worst_gap: Values
    """The largest gap that any reward from 0 to 1 could give: half the sum of |oracle - flown|."""

    def __len__(self) -> int:
        return len(self.gap)

    @property
    def holds(self) -> npt.NDArray[np.bool_]:
        """(B,): whether the gap is within the bound, up to rounding."""
        return self.gap <= self.bound + 1e-9

    @property
    def ratio(self) -> Values:
        """(B,): gap over bound, the share of the allowed loss that was lost; 0 where the bound is 0."""
        return np.divide(self.gap, self.bound, out=np.zeros_like(self.gap), where=self.bound > 0)

    def to_json(self, environments: Sequence[int]) -> dict[str, Any]:
        """Medians and percentages with 95% intervals over the environments (B,), and quantiles of the ratio."""
        medians = {field.name: getattr(self, field.name) for field in fields(self)} | {"ratio": self.ratio}
        shares = {"holds": self.holds, "says_something": self.bound < 1.0}
        quantiles = np.quantile(self.ratio, QUANTILES).tolist()
        return {
            **{f"median_{name}": asdict(bootstrap_median(v, environments)) for name, v in medians.items()},
            "mean_gap": asdict(bootstrap_mean(self.gap, environments)),
            **{f"{name}_percent": asdict(bootstrap_mean(v, environments) * 100) for name, v in shares.items()},
            "ratio_quantiles": dict(zip(map(str, QUANTILES), quantiles, strict=True)),
        }


def joined_bounds(parts: Sequence[Bounds]) -> Bounds:
    """All flights of all parts, in order."""
    return Bounds(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Bounds)))


def visited(path_map: Tensor, num_points: Tensor, grid: MapGrid, sigma_cells: float, floor: float = FLOOR) -> Tensor:
    """Distributions (B, 2, S, S) float64, trajectory and goal, of paths (B, P, 2), map frame.

    num_points (B,): how many of each path's points are not padding. Points off the map are moved to its edge.
    """
    reach = (grid.size - 1) / 2 * grid.cell
    spread = target_distributions(path_map.double().clamp(-reach, reach), num_points, grid, sigma_cells)
    return (1 - floor) * spread + floor / grid.size**2


def rewards(path_map: Tensor, num_points: Tensor, grid: MapGrid, radius: float = SUCCESS_M) -> Tensor:
    """Rewards (B, 2, S, S) float64 of the cells: 1 within a radius of the path (B, P, 2), map frame, or of its end."""
    distance = torch.cdist(grid.places().double().expand(len(path_map), -1, -1), path_map.double())  # (B, S * S, P)
    number = torch.arange(path_map.shape[1])
    is_own, is_goal = number < num_points[:, None], number == num_points[:, None] - 1
    near = [((distance < radius) & which[:, None]).any(-1) for which in (is_own, is_goal)]
    return torch.stack(near, 1).view(-1, 2, grid.size, grid.size).double()


def bounds(oracle: Tensor, log_predicted: Tensor, flown: Tensor, reward: Tensor) -> Bounds:
    """The theorem for B flights, from distributions and rewards from 0 to 1, all (B, S, S) over the map's cells.

    log_predicted: logarithms of the predicted distributions.
    """
    oracle, flown, reward = (values.double().flatten(1) for values in (oracle, flown, reward))
    log_predicted = log_predicted.double().flatten(1).log_softmax(-1)  # so that it sums to one in double precision
    predicted = log_predicted.exp()
    # Rounding can leave the divergence of equal distributions just below 0.
    epsilon = (torch.xlogy(oracle, oracle) - oracle * log_predicted).sum(1).clamp(min=0)
    eta = (predicted * log_predicted - torch.xlogy(predicted, flown)).sum(1).clamp(min=0)
    return Bounds(
        epsilon=epsilon.numpy(),
        eta=eta.numpy(),
        bound=((2 * epsilon).sqrt() + (2 * eta).sqrt()).numpy(),
        gap=((oracle - flown) * reward).sum(1).numpy(),
        worst_gap=(0.5 * (oracle - flown).abs().sum(1)).numpy(),
    )
