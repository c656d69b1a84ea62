"""A policy whose commands arrive late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pvn.rollout.policy import CarryingPolicy, Policy
from pvn.simulator.interface import Observation
from pvn.world.task import Task


@dataclass(frozen=True)
class DelayedMemory:
    """What B flights remember."""

    policy: Any
    """The memory of the policy itself."""
    waiting: Tensor
    """Actions (B, num_steps, 3) that were decided on and not yet taken, the oldest first."""


@dataclass(frozen=True)
class Delayed:
    """Another policy whose actions, stopping too, are all taken some steps late; until then the drone hovers."""

    policy: Policy
    num_steps: int

    @property
    def memory_has_rows(self) -> bool:
        """Whether flights that have ended can leave the batch."""
        return getattr(self.policy, "memory_has_rows", False)

    def begin(self, tasks: Sequence[Task], device: torch.device) -> DelayedMemory:
        """Nothing is decided on yet."""
        return self._undecided(self.policy.begin(tasks, device), len(tasks), device)

    def carry(self, memory: DelayedMemory, flight: int) -> Any:
        """What the policy carries over from one flight; None if it carries nothing."""
        return self.policy.carry(memory.policy, flight) if isinstance(self.policy, CarryingPolicy) else None

    def begin_with(self, carried: Sequence[Any], tasks: Sequence[Task], device: torch.device) -> DelayedMemory:
        """The policy's memory with what it carried over; nothing is decided on yet."""
        if not isinstance(self.policy, CarryingPolicy):
            return self.begin(tasks, device)
        return self._undecided(self.policy.begin_with(carried, tasks, device), len(tasks), device)

    def _undecided(self, memory: Any, num_flights: int, device: torch.device) -> DelayedMemory:
        return DelayedMemory(memory, torch.zeros((num_flights, self.num_steps, 3), device=device))

    def act(self, observation: Observation, memory: DelayedMemory) -> tuple[Tensor, DelayedMemory]:
        """The action decided on num_steps ago."""
        decided, own = self.policy.act(observation, memory.policy)
        waiting = torch.cat([memory.waiting, decided[:, None]], 1)
        return waiting[:, 0], DelayedMemory(own, waiting[:, 1:])
