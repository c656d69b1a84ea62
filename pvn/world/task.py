"""A task: where a flight starts, what it is told, and the path a person would have flown."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Layout, sample_layout
from pvn.world.routes import sample_route


@dataclass(frozen=True, eq=False)
class Task:
    """One instruction to be carried out in one field."""

    layout: Layout
    start: tuple[float, float, float]
    """Where the drone hovers at first: x, y (metres), yaw (radians), field frame."""
    path: npt.NDArray[np.float64]
    """The demonstrated path (P, 2), field frame, metres; its last point is the goal."""
    instruction: str
    """What the pilot is told."""

    def __post_init__(self) -> None:
        if self.path.ndim != 2 or self.path.shape[1] != 2 or len(self.path) < 2:
            raise ValueError(
                f"path: got shape {self.path.shape}, expected (P, 2) with at least two points"
            )
        if not (np.isfinite(self.path).all() and np.isfinite(self.start).all()):
            raise ValueError("task: got NaN or infinite numbers in start or path, expected finite ones")

    @property
    def goal(self) -> tuple[float, float]:
        """Where the flight should end, field frame, metres."""
        x, y = self.path[-1].tolist()
        return x, y


def sample_tour(seed: int) -> list[Task]:
    """Tasks along one random route in one random field: fly on to the next landmark, again and again.

    The paths are LANI's; the sentences are the plainest there are ("go to the barrel").
    """
    route = None
    while route is None:
        layout = sample_layout(seed)
        route = sample_route(seed, layout)
        seed += 1_000_000_007  # a field with no room for a route gives way to another
    tasks = []
    for leg, landmark in enumerate(route.visited[1:]):
        path = route.points[route.stops[leg] : route.stops[leg + 1] + 1]
        # A person has already turned towards where the next stretch goes.
        ahead = path[min(2, len(path) - 1)] - path[0]
        noun = LANDMARK_CLASSES[layout.landmarks[landmark].name].noun
        start = (float(path[0, 0]), float(path[0, 1]), math.atan2(ahead[1], ahead[0]))
        tasks.append(Task(layout, start, path, f"go to the {noun}"))
    return tasks
