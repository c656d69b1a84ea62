"""Policies that use neither pictures nor instructions: the two trivial baselines of the paper's results table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pvn.simulator.interface import Observation
from pvn.world.task import Task


class Stop:
    """Stops in the first step."""

    memory_has_rows = True

    def begin(self, tasks: Sequence[Task], device: torch.device) -> None:
        """No memory is needed."""

    def act(self, observation: Observation, memory: None) -> tuple[Tensor, None]:
        """Stop."""
        action = torch.zeros((len(observation.pose_world), 3), device=observation.pose_world.device)
        action[:, 2] = 1.0
        return action, None


@dataclass(frozen=True, kw_only=True)
class Average:
    """Flies straight ahead at the oracle's mean speed and stops after its mean number of steps."""

    speed: float = 1.76
    """Forward speed, m/s: the paper's 0.88 m a step."""
    num_steps: int = 18
    """The step in which it stops (paper)."""
    memory_has_rows: ClassVar[bool] = True

    def begin(self, tasks: Sequence[Task], device: torch.device) -> int:
        """The number of steps taken: 0."""
        return 0

    def act(self, observation: Observation, memory: int) -> tuple[Tensor, int]:
        """Fly straight ahead until it is time to stop."""
        stops = memory + 1 >= self.num_steps
        row = torch.tensor([0.0 if stops else self.speed, 0.0, float(stops)])
        action = row.to(observation.pose_world.device).repeat(len(observation.pose_world), 1)
        return action, memory + 1
