"""Instructions flown one after another: each flight starts where the last one ended, with the map carried over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pvn.rollout.flight import FlightLog, fly
from pvn.rollout.policy import CarryingPolicy, FlightSimulator, OnStep, Policy
from pvn.simulator.interface import STOP, Observation
from pvn.world.task import HORIZON, Task

Carried = tuple[Any, ...] | None
"""What a policy carries over from each of B flights; None for a policy that carries nothing."""


@dataclass(frozen=True)
class _Continuing:
    """A policy that begins with what it carries over from earlier flights."""

    policy: CarryingPolicy
    carried: Sequence[Any]

    def begin(self, tasks: Sequence[Task], device: torch.device) -> Any:
        """Memory at the start of the tasks' flights, with what was carried over."""
        return self.policy.begin_with(self.carried, tasks, device)

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
    carried: Carried = None,
    *,
    horizon: int = HORIZON,
    watch: OnStep | None = None,
) -> tuple[FlightLog, Carried]:
    """Fly every task as `fly` does, and return with the log what the policy carries over to the flights that follow.

    carried: from the flights before, one for each task; None for the first ones. A policy that carries nothing begins
    anew.
    """
    if not isinstance(policy, CarryingPolicy):
        return fly(simulator, tasks, policy, horizon=horizon, watch=watch), None
    left: dict[int, Any] = {}

    def keep(step: int, observation: Observation, action: Tensor, memory: Any) -> None:
        # At a flight's own end: what it sees while it waits for the others must not change what it carries over.
        for flight, stops in enumerate((action[:, STOP] > 0.5).tolist()):
            if flight not in left and (stops or step == horizon - 1):
                left[flight] = policy.carry(memory, flight)
        if watch is not None:
            watch(step, observation, action, memory)

    flown = policy if carried is None else _Continuing(policy, carried)
    log = fly(simulator, tasks, flown, horizon=horizon, watch=keep)
    return log, tuple(left[flight] for flight in range(len(tasks)))
