"""Routes past landmarks, drawn as LANI's generator drew the paths its instructions describe; tours along them.

A point mass walks from landmark to landmark in random steps, is pushed away from landmarks and lakes, and leaves a
point every two metres. Routes that leave the field, cross themselves or hardly come near a landmark are discarded.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from pvn.compiling import compiled
from pvn.paths import Points, distances_along, length_of
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import FIELD_SIZE, LAKE_CELL, Layout, sample_layout
from pvn.world.task import Demonstration, Task

SPLIT_SHARE = 0.18
"""Share of the legs of a tour that are split into two instructions."""

# LANI's constants, in metres.
STEP = 0.2  # towards the next landmark
NOISE = 0.2  # at most, in any direction, added to each step
ROUTE_SPACING = 2.0  # between points of the finished route
REACHED = 1.0  # a leg ends this close to its target
MIN_LEG = 10.0  # between two landmarks visited one after the other
LAKE_REACH = 6.0  # a shore pushes from this close
LAKE_PUSH = 0.19
CROSSING = 2.0  # a route this close to an earlier part of itself crosses it
PASSING = 2.0  # beyond a landmark's radius: route points this close pass it
MAX_STEPS = 500
NUM_LANDMARKS = 5
NUM_NEAREST = 4  # the next landmark is one of this many


@dataclass(frozen=True)
class Route:
    """A path through a field and the landmarks it visits."""

    points: Points
    """Points (P, 2), field frame, metres, about two metres apart."""
    stops: tuple[int, ...]
    """Index in `points` at which each landmark is reached; the first is 0."""
    visited: tuple[int, ...]
    """Indices in the layout of the landmarks visited, in order."""


def _next_landmark(generator: np.random.Generator, centres: Points, visited: list[int]) -> int | None:
    distance = np.hypot(*(centres - centres[visited[-1]]).T)
    far_enough = [i for i in np.argsort(distance) if i not in visited and distance[i] >= MIN_LEG]
    return int(generator.choice(far_enough[:NUM_NEAREST])) if far_enough else None


def _on_circle(generator: np.random.Generator, centre: Points, radius: float) -> Points:
    angle = generator.uniform(-math.pi, math.pi)
    return centre + radius * np.array([math.cos(angle), math.sin(angle)])


@compiled
def _walk(noise, start, target, centres, radii, shore):
    """Steps (S, 2) from start to target; none if the target is not reached in time or the walk leaves the field."""
    steps = np.empty((len(noise) + 1, 2))
    steps[0] = start
    for step in range(len(noise)):
        x, y = steps[step]
        ahead_x, ahead_y = target[0] - x, target[1] - y
        distance = length_of(ahead_x, ahead_y)
        if distance < REACHED:
            return steps[: step + 1]
        move_x = ahead_x / distance * STEP + noise[step, 0]
        move_y = ahead_y / distance * STEP + noise[step, 1]
        for landmark in range(len(centres)):
            away_x, away_y = x - centres[landmark, 0], y - centres[landmark, 1]
            gap = length_of(away_x, away_y)
            if gap < radii[landmark]:
                move_x += away_x / gap * (radii[landmark] - gap)
                move_y += away_y / gap * (radii[landmark] - gap)
        push_x, push_y, count = 0.0, 0.0, 0
        for cell in range(len(shore)):
            away_x, away_y = x - shore[cell, 0], y - shore[cell, 1]
            if away_x * away_x + away_y * away_y > 1.001 * LAKE_REACH * LAKE_REACH:  # most are; a root takes longer
                continue
            gap = length_of(away_x, away_y)
            if 0.0 < gap < LAKE_REACH:
                push_x, push_y, count = push_x + away_x / gap, push_y + away_y / gap, count + 1
        if count > 0:
            move_x += push_x / count * LAKE_PUSH
            move_y += push_y / count * LAKE_PUSH
        x, y = x + move_x, y + move_y
        if not (0.0 <= x <= FIELD_SIZE and 0.0 <= y <= FIELD_SIZE):
            break
        steps[step + 1, 0], steps[step + 1, 1] = x, y
    return steps[:0]


def _resampled(walk: Points) -> Points:
    """The walk's first point and the first one after every two metres travelled."""
    travelled = distances_along(walk)
    keep = np.r_[True, np.floor(travelled[1:] / ROUTE_SPACING) > np.floor(travelled[:-1] / ROUTE_SPACING)]
    return walk[keep]


def _crosses_itself(points: Points) -> bool:
    gaps = np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1))
    older = np.arange(len(points))[:, None] - np.arange(len(points))[None] > 3
    return bool((gaps[older] < CROSSING).any())


def _try_route(generator: np.random.Generator, layout: Layout, shore: Points) -> Route | None:
    centres, radii = layout.centres, layout.radii
    visited = [int(generator.integers(len(centres)))]
    place = _on_circle(generator, centres[visited[0]], radii[visited[0]])
    if not (0 <= place[0] <= FIELD_SIZE and 0 <= place[1] <= FIELD_SIZE):
        return None
    legs = [place[None]]
    for _ in range(min(NUM_LANDMARKS, len(centres)) - 1):
        following = _next_landmark(generator, centres, visited)
        if following is None:
            break
        target = _on_circle(generator, centres[following], radii[following])
        angles = generator.uniform(-math.pi, math.pi, MAX_STEPS)
        sizes = generator.uniform(0, NOISE, MAX_STEPS)
        noise = np.stack([np.cos(angles), np.sin(angles)], axis=-1) * sizes[:, None]
        walk = _walk(noise, legs[-1][-1], target, centres, radii, shore)
        if not len(walk):
            return None
        legs.append(walk)
        visited.append(following)
    points, stops = [legs[0]], [0]
    for leg in legs[1:]:
        points.append(_resampled(leg)[1:])
        stops.append(stops[-1] + len(points[-1]))
    route = np.concatenate(points)
    gaps = np.hypot(*(route[:, None] - centres[visited][None]).transpose(2, 0, 1))
    misses_a_landmark = ((gaps < radii[visited] + PASSING).sum(axis=0)[1:] < 4).any()
    if len(visited) < 2 or misses_a_landmark or _crosses_itself(route):
        return None
    return Route(route, tuple(stops), tuple(visited))


def sample_route(seed: int, layout: Layout, tries: int = 400) -> Route | None:
    """A random route through the layout; None if none was found, as happens where landmarks leave little room."""
    if len(layout.landmarks) < 2:
        return None
    generator = np.random.default_rng(seed)
    shore = (np.argwhere(layout.lake)[::20].astype(np.float64) + 0.5) * LAKE_CELL
    for _ in range(tries):
        route = _try_route(generator, layout, shore)
        if route is not None:
            return route
    return None


def _heading(path: Points, index: int) -> float:
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

    The paths are drawn by LANI's rules. People gave 4.7 instructions for the 4 legs of a route, so about one leg in six
    is split into two instructions. The sentences are as simple as possible ("go to the barrel").
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
            # The drone keeps the heading it had at the end of the previous instruction.
            yaw = _heading(route.points[: begin + 1] if begin else route.points, begin)
            x, y = route.points[begin].tolist()
            task = Task(layout, (x, y, yaw), instruction)
            demonstrations.append(Demonstration(task, route.points[begin : end + 1]))
    return demonstrations
