"""A task, which is all that a policy is given, and its demonstration: the path that it should fly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pvn.world.layout import Layout

SUCCESS_M = 5.0
"""A flight that stops within this distance of its goal succeeds (paper)."""
HORIZON = 100
"""A flight that has not stopped ends after this many steps (authors' evaluation)."""
TURNED_WITHIN = 0.1
"""A drone that turns on the spot has turned when it faces its heading this closely, radians."""
MAX_WORDS = 100
"""Longest instruction that may be typed, on the command line or in the demo; of longer ones in a corpus, agents read
this many words."""
MAX_CHARACTERS = 1000
"""Likewise, counted in characters."""


@dataclass(frozen=True, eq=False)
class Task:
    """One instruction to carry out in one field, from one start pose."""

    layout: Layout
    start: tuple[float, float, float]
    """Where the drone starts, hovering: x, y (metres), yaw (radians), field frame."""
    instruction: str

    def __post_init__(self) -> None:
        if not np.isfinite(self.start).all():
            raise ValueError(f"start: got {self.start}, expected finite numbers")


@dataclass(frozen=True, eq=False)
class Demonstration:
    """How a task should be flown: for the oracle, for training and for scoring, never for the policy that is scored."""

    task: Task
    path: npt.NDArray[np.float64]
    """The demonstrated path (P, 2), field frame, metres; its last point is the goal."""
    turned_to: float | None = None
    """Heading to which the drone turns on the spot at the end, radians, field frame; None: it does not turn there."""

    def __post_init__(self) -> None:
        if self.path.ndim != 2 or self.path.shape[1] != 2 or len(self.path) < 2:
            raise ValueError(f"path: got shape {self.path.shape}, expected (P, 2) with at least two points")
        if not np.isfinite(self.path).all():
            raise ValueError("path: got NaN or infinite coordinates, expected finite ones")
        if self.turned_to is not None and not math.isfinite(self.turned_to):
            raise ValueError(f"turned_to: got {self.turned_to}, expected a finite heading, or None for no turn")

    @property
    def goal(self) -> tuple[float, float]:
        """Where the flight should end, field frame, metres."""
        x, y = self.path[-1].tolist()
        return x, y

    @property
    def end_heading(self) -> float:
        """Which way the drone faces at the end, radians, field frame: along its path, unless it turns there."""
        if self.turned_to is not None:
            return self.turned_to
        x, y = self.goal
        for before_x, before_y in self.path[-2::-1].tolist():
            if (before_x, before_y) != (x, y):
                return math.atan2(y - before_y, x - before_x)
        return self.task.start[2]

    def ahead_of_goal(self, metres: float) -> tuple[float, float]:
        """The place this far ahead of the drone when it has arrived, and turned, field frame, metres."""
        (x, y), heading = self.goal, self.end_heading
        return x + metres * math.cos(heading), y + metres * math.sin(heading)


def distinct_layouts(tasks: Sequence[Task]) -> tuple[list[Layout], list[int]]:
    """The distinct layouts of the tasks, and for each task the index of its layout."""
    layouts = {id(task.layout): task.layout for task in tasks}
    place = {key: index for index, key in enumerate(layouts)}
    return list(layouts.values()), [place[id(task.layout)] for task in tasks]
