"""Stage 2: from the distributions around the drone to a velocity or a stop.

Where the way is predicted in parts, the drone keeps track of which part it is in, by where it has been; stage 2 sees
that part, the next one and the goal.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from pvn.checks import check_limits
from pvn.geometry import MapGrid
from pvn.model.mapping import GroundedMaps, to_drone_frame
from pvn.simulator.interface import STOP, SimulatorConfig


@dataclass(frozen=True, kw_only=True)
class ExecutionConfig:
    """Sizes of stage 2."""

    crop: int = 12
    """Cells along an edge of the crop around the drone (paper: K)."""
    hidden: int = 32
    """Size of the hidden layer (authors' code)."""
    dropout: float = 0.5
    """Fraction of inputs dropped in training (authors' code)."""
    stop_threshold: float = 0.07
    """The drone stops when its stop probability exceeds this (paper: kappa)."""
    min_speed: float = 0.0
    """Lowest speed before the drone stops, as a fraction of the highest: one that hovers, unsure where to turn, sees
    nothing new."""
    look_threshold: float = 1.0
    """Before it flies, the drone turns on the spot until the probability that its goal lies on unseen ground, some way
    off, is at most this, or until it has seen everything around; 1: it flies at once."""
    uses_goal: bool = True
    """Whether the goal distribution is an input; if not, this is the paper's "no d^g"."""
    num_parts: int = 1
    """Parts of the way that have distributions of their own; 1: one for the whole trajectory (paper)."""
    grid: MapGrid = MapGrid()

    def __post_init__(self) -> None:
        check_limits(self, "crop hidden num_parts", 1)
        check_limits(self, "dropout stop_threshold min_speed look_threshold", 0, 1)


@dataclass(frozen=True)
class Decision:
    """Q decisions of a network that acts without predicting distributions, and the maps of one that has maps."""

    output: Tensor
    """(Q, 3): forward speed and yaw rate as fractions of their maxima, and log-odds of stopping."""
    maps: GroundedMaps | None = None
    goal_map: Tensor | None = None
    """(Q, C, S, S): where the goal filters respond, in the drones' own frames."""


ADVANCE = 0.15
"""Probability that a step leads from one part of the way into the next: a part takes about seven steps. Its k-th power
is the probability that a step leads into the k-th part after it, as on a short way."""
DOUBT = 0.02
"""Likelihood of a part in places that its distribution rules out, relative to the likeliest part."""


def begin_progress(num_flights: int, num_parts: int, device: torch.device) -> Tensor:
    """Probabilities (B, num_parts) of being in each part of the way, at the start."""
    progress = torch.zeros((num_flights, num_parts), device=device)
    progress[:, 0] = 1.0
    return progress


@functools.cache
def _transitions(num_parts: int) -> Tensor:
    """Probabilities (P, P) that a step leads from one part (row) into another (column), never back."""
    place = torch.arange(num_parts)
    chance = torch.triu((1 - ADVANCE) * ADVANCE ** (place - place[:, None]).clamp(min=0).float())
    chance[:, -1] += 1 - chance.sum(1)  # there is nothing after the last part
    return chance


def update_progress(progress: Tensor, parts: Tensor, pose_map: Tensor, grid: MapGrid) -> Tensor:
    """Probabilities (B, P) of being in each part of the way, after one more step: a Bayes filter that never goes back.

    parts (B, P, S, S): the parts' distributions, map frame; pose_map (B, 3): the drones' x, y, yaw, map frame.
    """
    if progress.shape[1] == 1:
        return progress
    here = torch.zeros((1, 2), device=pose_map.device)
    likelihood = to_drone_frame(parts, pose_map, here, grid).flatten(1)
    likelihood = likelihood + DOUBT * likelihood.amax(1, keepdim=True) + 1e-9
    belief = (progress @ _transitions(progress.shape[1]).to(progress)) * likelihood
    return belief / belief.sum(1, keepdim=True)


@functools.cache
def _crop_places(size: int, cell: float, device: torch.device) -> Tensor:
    """Ground points (size * size, 2) of a crop's cells, in the drone's own frame."""
    return MapGrid(size=size, cell=cell).places().to(device)


def look_around(distributions: Tensor, progress: Tensor, pose_map: Tensor, config: ExecutionConfig) -> Tensor:
    """The inputs of stage 2 (B, num_in): crops of distributions in the drones' own frames, and the progress.

    distributions (B, P + 1, S, S): the parts of the way and the goal, map frame; progress (B, P); pose_map (B, 3): the
    drones' x, y, yaw, map frame. In a crop the drone is in the middle; columns run ahead of it, rows to its right.
    With one part: the trajectory and the goal. With several: the part that the drone is in, the next one, the goal
    weighted by the probability of being in the last part, and the progress.
    """
    if not config.uses_goal:
        distributions = torch.cat([distributions[:, :-1], torch.zeros_like(distributions[:, -1:])], 1)
    own = _crop_places(config.crop, config.grid.cell, pose_map.device)
    cropped = to_drone_frame(distributions, pose_map, own, config.grid).flatten(2)  # (B, P + 1, crop * crop)
    if config.num_parts == 1:
        return cropped.flatten(1)
    here, following = ((progress[:, :, None] * parts).sum(1) for parts in (cropped[:, :-1], cropped[:, 1:]))
    # A full circle ends where it starts: a goal that was always in view would end it there.
    goal = progress[:, -1:] * cropped[:, -1]
    return torch.cat([here, following, goal, progress], 1)


def to_action(
    output: Tensor,
    stop_threshold: float,
    simulator: SimulatorConfig,
    min_speed: float = 0.0,
    in_last_part: Tensor | float = 1.0,
) -> Tensor:
    """Actions (B, 3), m/s, rad/s and stop, from a network's output (B, 3), as in Decision.

    min_speed: as a fraction of the simulator's highest, before the drone stops. in_last_part (B,): the probability of
    being in the last part of the way, which the stop probability is multiplied by.
    """
    speed = output[:, 0].clamp(min_speed, 1) * simulator.max_speed
    turn = output[:, 1].clamp(-1, 1) * simulator.max_yaw_rate
    stop = output[:, STOP].sigmoid() * in_last_part > stop_threshold
    return torch.stack([speed * ~stop, turn * ~stop, stop.to(speed)], -1)


class ExecutionModel(nn.Module):
    """A network of one hidden layer, with a skip connection from its inputs to its outputs."""

    def __init__(self, config: ExecutionConfig) -> None:
        super().__init__()
        self.config = config
        self.num_cropped = (2 if config.num_parts == 1 else 3) * config.crop**2
        num_in = self.num_cropped + (0 if config.num_parts == 1 else config.num_parts)
        self.hidden = nn.Linear(num_in, config.hidden)
        self.output = nn.Linear(num_in + config.hidden, 3)
        for layer in (self.hidden, self.output):
            nn.init.orthogonal_(layer.weight, gain=nn.init.calculate_gain("leaky_relu"))
            nn.init.zeros_(layer.bias)

    def forward(self, seen: Tensor) -> Tensor:
        """Outputs (B, 3), as in Decision, from inputs (B, num_in) as `look_around` makes them."""
        cropped, progress = seen[:, : self.num_cropped], seen[:, self.num_cropped :]
        cropped = functional.dropout(cropped, self.config.dropout, self.training)
        value = torch.cat([cropped, progress], -1)
        hidden = functional.leaky_relu(self.hidden(value))
        return self.output(torch.cat([value, hidden], -1))
