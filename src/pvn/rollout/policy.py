"""The protocols of a roll-out: the policy that decides and the simulator that flies, and what some of them can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import torch
from torch import Tensor

from pvn.simulator.interface import Observation
from pvn.world.layout import Layout
from pvn.world.task import Task

Memory = TypeVar("Memory")
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


@runtime_checkable
class NarrowingPolicy(Policy, Protocol):
    """A policy that can go on with some of its flights, so that those that have ended cost nothing more."""

    def narrow(self, memory: Any, flights: Tensor) -> Any:
        """The memory of some flights (b,) alone, given by their indices in the batch."""


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


@runtime_checkable
class NarrowingSimulator(FlightSimulator, Protocol):
    """A simulator that can go on with some of its flights."""

    def narrowed(self, flights: Tensor) -> FlightSimulator:
        """A simulator of some flights (b,) alone, as they are now, in the same fields."""


def rows_of(memory: Memory, flights: Tensor) -> Memory:
    """The rows of some flights (b,) of a memory: of each tensor, whose first axis must be the flights, in it and in
    the dataclasses in it. Numbers and None are what flights share; anything else is refused.
    """
    if isinstance(memory, Tensor):
        return cast(Memory, memory[flights])
    if is_dataclass(memory) and not isinstance(memory, type):
        return replace(memory, **{each.name: rows_of(getattr(memory, each.name), flights) for each in fields(memory)})
    if memory is None or isinstance(memory, int | float):
        return memory
    raise TypeError(f"memory: got {type(memory).__name__}, expected tensors, numbers and None, in dataclasses or alone")
