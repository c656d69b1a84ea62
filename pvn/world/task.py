"""A task, which is all a policy is given, and its demonstration: the path that should be flown."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Layout, sample_layout
from pvn.world.routes import Route, sample_route

SPLIT_SHARE = 0.18
"""Share of the legs of a tour that are told in two instructions."""
SUCCESS_M = 5.0
"""A flight that stops within this distance of its goal succeeds (paper)."""
HORIZON = 100
"""A flight that has not stopped ends after this many steps (authors' evaluation)."""


@dataclass(frozen=True, eq=False)
class Task:
    """What is asked: one instruction to carry out in one field."""

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

    def __post_init__(self) -> None:
        if self.path.ndim != 2 or self.path.shape[1] != 2 or len(self.path) < 2:
            raise ValueError(f"path: got shape {self.path.shape}, expected (P, 2) with at least two points")
        if not np.isfinite(self.path).all():
            raise ValueError("path: got NaN or infinite coordinates, expected finite ones")

    @property
    def goal(self) -> tuple[float, float]:
        """Where the flight should end, field frame, metres."""
        x, y = self.path[-1].tolist()
        return x, y


def distinct_layouts(tasks: Sequence[Task]) -> tuple[list[Layout], list[int]]:
    """The tasks' layouts, each once, and for each task the index of its own."""
    layouts = {id(task.layout): task.layout for task in tasks}
    place = {key: index for index, key in enumerate(layouts)}
    return list(layouts.values()), [place[id(task.layout)] for task in tasks]


def _heading(path: npt.NDArray[np.float64], index: int) -> float:
    """Direction of the path around one of its points, radians."""
    before, after = max(index - 2, 0), min(index + 2, len(path) - 1)
    ahead = path[after] - path[before]
    return math.atan2(ahead[1], ahead[0])


def _layout_and_route(seed: int, layout: Layout | None) -> tuple[Layout, Route]:
    if layout is not None:
        route = sample_route(seed, layout)
        if route is None:
            raise ValueError(
                f"no route through this field: got {len(layout.landmarks)} landmarks, expected at least two that are "
                "10 m apart with room to fly between them; add or move landmarks, or try another seed"
            )
        return layout, route
    for attempt in itertools.count():  # until a field has room for a route
        layout = sample_layout(seed + attempt * 1_000_000_007)
        route = sample_route(seed, layout)
        if route is not None:
            return layout, route
    raise AssertionError


def sample_tour(seed: int, layout: Layout | None = None) -> list[Demonstration]:
    """Demonstrations along one random route in a field (a random one by default), from landmark to landmark.

    The paths are drawn by LANI's rules, and there are as many: people gave 4.7 instructions for the 4 legs of a route,
    so about one leg in six is told in two parts. The sentences are as plain as can be ("go to the barrel").
    """
    layout, route = _layout_and_route(seed, layout)
    generator = np.random.default_rng(seed)
    demonstrations = []
    for leg, landmark in enumerate(route.visited[1:]):
        first, last = route.stops[leg], route.stops[leg + 1]
        if first == last:  # two landmarks so close that the leg between them has no points
            continue
        noun = LANDMARK_CLASSES[layout.landmarks[landmark].name].noun
        parts = [(first, last, f"go to the {noun}")]
        if last - first >= 6 and generator.random() < SPLIT_SHARE:
            half = (first + last) // 2
            parts = [(first, half, f"fly toward the {noun}"), (half, last, f"go to the {noun}")]
        for begin, end, instruction in parts:
            # The drone still heads the way it was flying at the end of the previous instruction.
            yaw = _heading(route.points[: begin + 1] if begin else route.points, begin)
            x, y = route.points[begin].tolist()
            task = Task(layout, (x, y, yaw), instruction)
            demonstrations.append(Demonstration(task, route.points[begin : end + 1]))
    return demonstrations
