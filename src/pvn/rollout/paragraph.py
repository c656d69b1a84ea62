"""Instructions flown one after another: each flight starts where the last one ended, with what its policy kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pvn.rollout.flight import FlightLog, fly
from pvn.rollout.policy import FlightSimulator, KeepingPolicy, OnStep, Policy
from pvn.simulator.interface import STOP, Observation
from pvn.world.task import HORIZON, Task

Kept = tuple[Any, ...] | None
"""What a policy keeps of each of B flights; None for a policy that keeps nothing."""


@dataclass(frozen=True)
class _Continuing:
    """A policy that begins with what it kept of earlier flights."""

    policy: KeepingPolicy
    kept: Sequence[Any]

    def begin(self, tasks: Sequence[Task], device: torch.device) -> Any:
        """Memory at the start of the tasks' flights, with what was kept."""
        return self.policy.begin_with(self.kept, tasks, device)

    def act(self, observation: Observation, memory: Any) -> tuple[Tensor, Any]:
        """The policy's own action."""
        return self.policy.act(observation, memory)


def next_starts(log: FlightLog) -> list[tuple[float, float, float]]:
    """Where the next flights start, hovering at the ends of these: x, y (metres), yaw (radians), field frame."""
    return [(x, y, yaw) for x, y, yaw in log.pose_world[:, -1, [0, 1, 5]].tolist()]


def fly_on(
    simulator: FlightSimulator,
    tasks: Sequence[Task],
    policy: Policy,
    kept: Kept = None,
    *,
    horizon: int = HORIZON,
    watch: OnStep | None = None,
) -> tuple[FlightLog, Kept]:
    """Fly every task as `fly` does, and return with the log what the policy keeps for the flights that follow.

    kept: what it kept of the flights before, one for each task; None for the first ones. A policy that cannot keep
    anything begins anew.
    """
    if not isinstance(policy, KeepingPolicy):
        return fly(simulator, tasks, policy, horizon=horizon, watch=watch), None
    left: dict[int, Any] = {}

    def keep(step: int, observation: Observation, action: Tensor, memory: Any) -> None:
        # At a flight's own end: what it sees while it waits for the others in its batch must not change what it keeps.
        for flight, stops in enumerate((action[:, STOP] > 0.5).tolist()):
            if flight not in left and (stops or step == horizon - 1):
                left[flight] = policy.keep(memory, flight)
        if watch is not None:
            watch(step, observation, action, memory)

    flown = policy if kept is None else _Continuing(policy, kept)
    log = fly(simulator, tasks, flown, horizon=horizon, watch=keep)
    return log, tuple(left[flight] for flight in range(len(tasks)))
