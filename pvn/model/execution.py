"""Stage 2: from the two distributions around the drone to a velocity or a stop."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from pvn.geometry import MapGrid
from pvn.model.mapping import to_drone_frame
from pvn.simulator.interface import STOP, SimulatorConfig


@dataclass(frozen=True, kw_only=True)
class ExecutionConfig:
    """Sizes of stage 2."""

    crop: int = 12
    """Cells along an edge of the crop around the drone (paper: K)."""
    hidden: int = 32
    """Size of the hidden layer (authors' code)."""
    dropout: float = 0.5
    """Share of inputs dropped in training (authors' code)."""
    stop_threshold: float = 0.07
    """The drone stops when its stop probability exceeds this (paper: kappa)."""
    uses_goal: bool = True
    """Whether the goal distribution is an input; if not, this is the paper's "no d^g"."""
    grid: MapGrid = MapGrid()


def crop_around(probability: Tensor, pose_map: Tensor, config: ExecutionConfig) -> Tensor:
    """Distributions (B, 2, crop, crop) in the drones' own frames, from (B, 2, S, S) in their map frames.

    pose_map (B, 3): the drones' x, y, yaw, map frame. The drone is in the middle; columns run ahead of it, rows to its
    right.
    """
    own = MapGrid(size=config.crop, cell=config.grid.cell).places().to(pose_map)
    return to_drone_frame(probability, pose_map, own, config.grid)


def to_action(output: Tensor, stop_threshold: float, simulator: SimulatorConfig) -> Tensor:
    """Actions (B, 3), m/s, rad/s and stop, from a network's output (B, 3), as in Decision."""
    speed = output[:, 0].clamp(0, 1) * simulator.max_speed
    turn = output[:, 1].clamp(-1, 1) * simulator.max_yaw_rate
    stop = output[:, STOP].sigmoid() > stop_threshold
    return torch.stack([speed * ~stop, turn * ~stop, stop.to(speed)], -1)


class ExecutionModel(nn.Module):
    """A network of one hidden layer, with a skip connection from its inputs to its outputs."""

    def __init__(self, config: ExecutionConfig) -> None:
        super().__init__()
        self.config = config
        num_in = 2 * config.crop**2
        self.hidden = nn.Linear(num_in, config.hidden)
        self.output = nn.Linear(num_in + config.hidden, 3)
        for layer in (self.hidden, self.output):
            nn.init.orthogonal_(layer.weight, gain=nn.init.calculate_gain("leaky_relu"))
            nn.init.zeros_(layer.bias)

    def forward(self, cropped: Tensor) -> Tensor:
        """Outputs (B, 3), as in Decision, from distributions (B, 2, crop, crop) around the drones."""
        if not self.config.uses_goal:
            cropped = torch.cat([cropped[:, :1], torch.zeros_like(cropped[:, 1:])], 1)
        value = functional.dropout(cropped.flatten(1), self.config.dropout, self.training)
        hidden = functional.leaky_relu(self.hidden(value))
        return self.output(torch.cat([value, hidden], -1))
