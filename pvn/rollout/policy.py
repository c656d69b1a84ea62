"""The two protocols of a roll-out: the policy that decides and the simulator that flies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from pvn.simulator.interface import Observation
from pvn.world.layout import Layout
from pvn.world.task import Task

OnStep = Callable[[int, Observation, Tensor, Any], None]
"""Called before each step with its number, the observation, the action (B, 3) and the policy's memory."""


class Policy(Protocol):
    """Decides what B drones do next. It keeps nothing between calls: its memory is returned and passed back in."""

    def begin(self, tasks: Sequence[Task], device: torch.device) -> Any:
        """Memory at the start of the tasks' flights."""

    def act(self, observation: Observation, memory: Any) -> tuple[Tensor, Any]:
        """Action (B, 3), forward speed (m/s), yaw rate (rad/s), stop; and the memory for the next call."""


@runtime_checkable
class KeepingPolicy(Policy, Protocol):
    """A policy that can begin a flight with something it keeps of the flight before, such as its map."""

    def keep(self, memory: Any, flight: int) -> Any:
        """What it keeps of one flight, given by its index in the batch."""

    def begin_with(self, kept: Sequence[Any], tasks: Sequence[Task], device: torch.device) -> Any:
        """Memory at the start of the tasks' flights, with what was kept of the flight before each."""


class FlightSimulator(Protocol):
    """Where flights take place: our simulator, or another with the same interface."""

    @property
    def device(self) -> torch.device:
        """The device of its tensors."""

    @property
    def num_flights(self) -> int:
        """Number of flights, B."""

    @property
    def layouts(self) -> Sequence[Layout]:
        """Its fields."""

    @property
    def field_index(self) -> Tensor:
        """The field (B,) of each flight, as an index into `layouts`."""

    def reset(self, start: Tensor) -> Observation:
        """Hover at start (B, 3): x, y (metres), yaw (radians), field frame; and observe."""

    def step(self, action: Tensor) -> Observation:
        """Fly one step with an action (B, 3) and observe."""
