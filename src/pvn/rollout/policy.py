"""The protocols of a roll-out: the policy that decides and the simulator that flies, and what some of them can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import torch
from torch import Tensor

from pvn.simulator.interface import Observation, SimulatorConfig
from pvn.world.layout import Layout
from pvn.world.task import Task

Memory = TypeVar("Memory")
OnStep = Callable[[int, Observation, Tensor, Any], None]
"""Called before each step with its number, the observation, the action (B, 3) and the policy's memory."""


class Policy(Protocol):
    """Decides what B drones do next. It keeps no state: its memory is returned and passed back in.

    A policy may declare `memory_has_rows = True`: its memory consists of tensors with a row for each flight, and of
    numbers and None that all flights share, in dataclasses or alone. Flights that have ended can then leave its batch.
    """

    def begin(self, tasks: Sequence[Task], device: torch.device) -> Any:
        """Memory at the start of the tasks' flights."""

    def act(self, observation: Observation, memory: Any) -> tuple[Tensor, Any]:
        """Action (B, 3), forward speed (m/s), yaw rate (rad/s), stop; and the memory for the next call."""


@runtime_checkable
class CarryingPolicy(Policy, Protocol):
    """A policy that can carry something over from one flight to the next, such as its map."""

    def carry(self, memory: Any, flight: int) -> Any:
        """What it carries over from one flight, given by its index in the batch."""

    def begin_with(self, carried: Sequence[Any], tasks: Sequence[Task], device: torch.device) -> Any:
        """Memory at the start of the tasks' flights, with what was carried over from the flight before each."""


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
class SelectingSimulator(FlightSimulator, Protocol):
    """A simulator that can go on with some of its flights."""

    def select(self, flights: Tensor) -> FlightSimulator:
        """A simulator of some flights (b,) alone, as they are now, in the same fields."""


class RenderingSimulator(FlightSimulator, Protocol):
    """A simulator that takes pictures from any pose, as batches of training need them."""

    @property
    def config(self) -> SimulatorConfig:
        """Its settings."""

    def renderer(self, config: SimulatorConfig) -> RenderingSimulator:
        """A simulator of one flight in the same fields, with other settings."""

    def render(self, pose_world: Tensor, field_index: Tensor, tilt: Tensor | None = None) -> Tensor:
        """Pictures (K, H, W, 3) uint8 taken at poses (K, 6), field frame, in fields (K,).

        tilt (K,): how much further down than usual the cameras point, radians.
        """

    def render_from_above(self, field_index: Tensor, size_px: int, margin: float) -> Tensor:
        """Pictures (K, S, S, 3) uint8 of fields (K,) and `margin` metres around them, from straight above, north up."""

    def landmarks_at(self, pose_world: Tensor, field_index: Tensor, tilt: Tensor | None = None) -> Tensor:
        """The landmark (K, H, W) int16 in each pixel of `render`'s picture, as its index in the layout; -1 for none."""

    def ground_and_sky_at(
        self, pose_world: Tensor, field_index: Tensor, tilt: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Which pixels (K, H, W) bool of `render`'s picture show the ground, and which the sky."""


class MakeSimulator(Protocol):
    """Makes a simulator with one flight per task, in that task's field."""

    def __call__(
        self, tasks: Sequence[Task], *, device: str | torch.device, config: SimulatorConfig
    ) -> RenderingSimulator:
        """The simulator."""


def rows_of(memory: Memory, flights: Tensor) -> Memory:
    """The rows of some flights (b,) of a memory, given by their indices in the batch.

    Rows are taken from each tensor, also inside dataclasses; flights share numbers and None. Anything else is refused.
    """
    if isinstance(memory, Tensor):
        return cast(Memory, memory[flights])
    if is_dataclass(memory) and not isinstance(memory, type):
        return replace(memory, **{each.name: rows_of(getattr(memory, each.name), flights) for each in fields(memory)})
    if memory is None or isinstance(memory, int | float):
        return memory
    raise TypeError(f"memory: got {type(memory).__name__}, expected tensors, numbers and None, in dataclasses or alone")
