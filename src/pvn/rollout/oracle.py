"""The oracle: a policy that knows the demonstrated paths and steers towards a carrot that moves along them.

This is the authors' planner without three of its bugs: speed builds up with the steps of this flight rather than with
the index on the paragraph's path; the path's last point is the goal and may be the carrot; the test for having lost the
path compares two distances.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from pvn.geometry import padded_paths, wrap_angle
from pvn.simulator.interface import Observation, SimulatorConfig
from pvn.world.task import TURNED_WITHIN, Demonstration, Task


@dataclass(frozen=True, kw_only=True)
class OracleConfig:
    """Constants of the planner; lengths in metres."""

    lookahead: float = 6.0
    """How far ahead on the path the carrot is."""
    slow_down: float = 6.0
    """Within this distance of the goal, speed is proportional to the distance that is left."""
    stop: float = 1.5
    """Distance to the goal at which the oracle stops."""
    accelerate_steps: int = 3
    """Number of steps to reach full speed."""
    min_speed: float = 0.3
    """Minimum speed, as a share of the simulator's maximum."""
    turns_on_the_spot: float | None = None
    """Angle between heading and carrot, radians, from which the oracle turns without flying, and below which it flies
    the slower the larger the angle; None: it always flies (authors)."""
    max_left: float | None = None
    """The oracle stops at the goal only if no more than this of the path is left, so that it flies the whole of a path
    that leads past its own goal; None: it stops wherever the goal is near (authors)."""
    turns_at_end: bool = False
    """Whether the oracle turns to the demonstrated heading before it stops, where there is one; if not, it stops as it
    arrives (authors)."""
    max_deviation: float = 20.0
    """The oracle gives up and stops if both path and carrot are further away than this."""


@dataclass(frozen=True)
class OracleMemory:
    """Where each of B flights is on its path."""

    path_world: Tensor
    """Path points (B, P, 2), field frame, metres; shorter paths are padded with their goal."""
    arc: Tensor
    """Length (B, P) of the path up to each point, metres."""
    last: Tensor
    """Index (B,) of the goal."""
    index: Tensor
    """Index (B,) of the path point the drone has reached."""
    step: int
    """Number of steps taken."""
    turned_to: Tensor
    """Headings (B,) to turn to at the goal, radians, field frame; NaN: none."""
    has_arrived: Tensor
    """Whether (B,) the drone has arrived, or is lost; one that has a heading to turn to then only turns."""
    is_lost: Tensor
    """Whether (B,) the drone is so far from its path that the oracle's actions are meaningless."""


def _pick(values: Tensor, index: Tensor) -> Tensor:
    """values[b, index[b]] for each b."""
    return values[torch.arange(len(index), device=index.device), index]


class Oracle:
    """Follows each task's demonstrated path and stops at its end."""

    memory_has_rows = True

    def __init__(
        self,
        demonstrations: Iterable[Demonstration],
        config: OracleConfig = OracleConfig(),
        simulator: SimulatorConfig = SimulatorConfig(),
    ) -> None:
        """The oracle can fly the tasks of `demonstrations`, and no others."""
        self._demonstrations = {demonstration.task: demonstration for demonstration in demonstrations}
        self.config, self.simulator = config, simulator

    def _demonstration(self, task: Task) -> Demonstration:
        if task not in self._demonstrations:
            raise ValueError(
                f"oracle: got {task.instruction!r}, which has no demonstration, expected a task whose path it was "
                "given; choose an agent that reads instructions, such as pvn"
            )
        return self._demonstrations[task]

    def begin(self, tasks: Sequence[Task], device: torch.device) -> OracleMemory:
        """The demonstrated paths of all tasks, as one batch."""
        demonstrations = [self._demonstration(task) for task in tasks]
        points, counts = padded_paths([demonstration.path for demonstration in demonstrations])
        turned_to = [demonstration.turned_to if self.config.turns_at_end else None for demonstration in demonstrations]
        path = torch.from_numpy(points.astype(np.float32))
        lengths = path.diff(dim=1).norm(dim=-1)
        arc = torch.cat([torch.zeros(len(tasks), 1), lengths.cumsum(1)], 1)
        start = torch.zeros(len(tasks), dtype=torch.int64, device=device)
        return OracleMemory(
            path_world=path.to(device),
            arc=arc.to(device),
            last=torch.from_numpy(counts - 1).to(device),
            index=start,
            step=0,
            turned_to=torch.tensor([math.nan if each is None else each for each in turned_to], device=device),
            has_arrived=torch.zeros_like(start, dtype=torch.bool),
            is_lost=torch.zeros_like(start, dtype=torch.bool),
        )

    def _carrot(self, memory: OracleMemory, index: Tensor) -> Tensor:
        """Index (B,) of the first path point further ahead than the lookahead, or the goal's."""
        reach = _pick(memory.arc, index) + self.config.lookahead
        carrot = torch.searchsorted(memory.arc, reach[:, None], right=True)[:, 0]
        return torch.minimum(carrot, memory.last)

    def _advance(self, memory: OracleMemory, place: Tensor) -> Tensor:
        """Index (B,) after moving on for as long as the next path point is no further away than the present one."""
        distance = (memory.path_world - place[:, None]).norm(dim=-1)  # (B, P)
        position = torch.arange(distance.shape[1] - 1, device=place.device)
        gets_worse = distance[:, 1:] > distance[:, :-1] + 1e-3
        halts = gets_worse & (position >= memory.index[:, None])
        index = torch.where(halts.any(1), halts.int().argmax(1), memory.last)
        index = torch.minimum(index, memory.last)
        carrot = self._carrot(memory, memory.index)
        is_stuck = (index == memory.index) & (_pick(distance, carrot) < _pick(distance, index))
        return torch.where(is_stuck, carrot, index)

    def act(self, observation: Observation, memory: OracleMemory) -> tuple[Tensor, OracleMemory]:
        """Steer to the carrot, slower in turns and near the goal; at the goal or past it, perhaps turn, and stop."""
        config = self.config
        place, yaw = observation.pose_world[:, :2], observation.pose_world[:, 5]
        index = self._advance(memory, place)
        carrot = _pick(memory.path_world, self._carrot(memory, index))
        goal = _pick(memory.path_world, memory.last)
        to_carrot, to_goal = carrot - place, (goal - place).norm(dim=-1)
        last_leg = goal - _pick(memory.path_world, memory.last - 1)
        is_past = (index == memory.last) & (((place - goal) * last_leg).sum(-1) > 0)
        off_path = (_pick(memory.path_world, index) - place).norm(dim=-1)
        is_lost = memory.is_lost | (torch.minimum(off_path, to_carrot.norm(dim=-1)) > config.max_deviation)
        error = wrap_angle(torch.atan2(to_carrot[:, 1], to_carrot[:, 0]) - yaw)
        speed = 1.0 / (1.0 + 2.0 * error.abs() / math.pi)
        speed = speed * min(1.0, (memory.step + 1) / config.accelerate_steps)
        speed = speed * (to_goal / config.slow_down).clamp(max=1.0)
        speed = speed.clamp(config.min_speed, 1.0) * self.simulator.max_speed
        if config.turns_on_the_spot is not None:
            speed = speed * (1 - error.abs() / config.turns_on_the_spot).clamp(min=0.0)
        yaw_rate = error.clamp(-1.0, 1.0) * self.simulator.max_yaw_rate
        is_there = to_goal < config.stop
        if config.max_left is not None:
            is_there &= _pick(memory.arc, memory.last) - _pick(memory.arc, index) <= config.max_left
        # Only a drone that turns keeps having arrived: a learner that flies past its goal is told to come back.
        has_arrived = (memory.has_arrived & ~memory.turned_to.isnan()) | is_there | is_past | is_lost
        left = wrap_angle(memory.turned_to - yaw)
        is_turning = has_arrived & ~is_lost & (left.abs() > TURNED_WITHIN)  # never where there is no heading: NaN
        yaw_rate = torch.where(is_turning, self.simulator.yaw_rate_by(left), yaw_rate)
        stop = has_arrived & ~is_turning
        action = torch.stack([speed * ~has_arrived, yaw_rate * ~stop, stop.to(speed)], -1)
        return action, replace(memory, index=index, step=memory.step + 1, has_arrived=has_arrived, is_lost=is_lost)
