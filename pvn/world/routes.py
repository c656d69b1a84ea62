"""Routes past landmarks, drawn as LANI's own generator drew the paths its instructions describe.

A point mass walks from landmark to landmark with random steps, pushed away from landmarks and lakes, and leaves a
point every two metres; routes that leave the field, cross themselves or hardly pass a landmark are thrown away.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pvn.world.lakes import LAKE_CELLS
from pvn.world.layout import FIELD_SIZE, Layout

# LANI's constants, in metres.
STEP = 0.2
NOISE = 0.2
POINT_EVERY = 2.0
REACHED = 1.0
LEAST_LEG = 10.0
LAKE_REACH = 6.0
LAKE_PUSH = 0.19
CROSSING = 2.0
PASSING = 2.0
MAX_STEPS = 500
NUM_LANDMARKS = 5
NUM_NEAREST = 4

Points = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Route:
    """A path through a field and the landmarks it calls at."""

    points: Points
    """Points (P, 2), field frame, metres, about two metres apart."""
    stops: tuple[int, ...]
    """Index in `points` at which each landmark is reached; the first is 0."""
    visited: tuple[int, ...]
    """Places in the layout of the landmarks called at, in order."""


def _next_landmark(
    generator: np.random.Generator, centres: Points, visited: list[int]
) -> int | None:
    distance = np.hypot(*(centres - centres[visited[-1]]).T)
    far_enough = [i for i in np.argsort(distance) if i not in visited and distance[i] >= LEAST_LEG]
    return int(generator.choice(far_enough[:NUM_NEAREST])) if far_enough else None


def _on_circle(generator: np.random.Generator, centre: Points, radius: float) -> Points:
    angle = generator.uniform(-math.pi, math.pi)
    return centre + radius * np.array([math.cos(angle), math.sin(angle)])


def _walk(
    generator: np.random.Generator, start: Points, target: Points, centres: Points, radii: Points, shore: Points
) -> Points | None:
    """Steps (S, 2) from start to target; None if it is not reached in time or the way leaves the field."""
    angles = generator.uniform(-math.pi, math.pi, MAX_STEPS)
    sizes = generator.uniform(0, NOISE, MAX_STEPS)
    noise = np.stack([np.cos(angles), np.sin(angles)], axis=-1) * sizes[:, None]
    place, steps = start, [start]
    for push in noise:
        ahead = target - place
        distance = math.hypot(*ahead)
        if distance < REACHED:
            return np.array(steps)
        move = ahead / distance * STEP + push
        away = place - centres
        gaps = np.hypot(away[:, 0], away[:, 1])
        for i in np.flatnonzero(gaps < radii):
            move = move + away[i] / gaps[i] * (radii[i] - gaps[i])
        if len(shore):
            away = place - shore
            gaps = np.hypot(away[:, 0], away[:, 1])
            near = np.argsort(gaps)[:20]
            near = near[(gaps[near] < LAKE_REACH) & (gaps[near] > 0)]
            if len(near):
                move = move + (away[near] / gaps[near, None]).mean(axis=0) * LAKE_PUSH
        place = place + move
        if not (0 <= place[0] <= FIELD_SIZE and 0 <= place[1] <= FIELD_SIZE):
            return None
        steps.append(place)
    return None


def _resampled(walk: Points) -> Points:
    """The walk's points at every two metres travelled."""
    travelled = np.r_[0.0, np.hypot(*np.diff(walk, axis=0).T).cumsum()]
    keep = np.r_[True, np.floor(travelled[1:] / POINT_EVERY) > np.floor(travelled[:-1] / POINT_EVERY)]
    return walk[keep]


def _crosses_itself(points: Points) -> bool:
    gaps = np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1))
    older = np.arange(len(points))[:, None] - np.arange(len(points))[None] > 3
    return bool((gaps[older] < CROSSING).any())


def _try_route(generator: np.random.Generator, layout: Layout, shore: Points) -> Route | None:
    centres = np.array([(mark.x, mark.y) for mark in layout.landmarks])
    radii = np.array([mark.radius for mark in layout.landmarks])
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
        walk = _walk(generator, legs[-1][-1], target, centres, radii, shore)
        if walk is None:
            return None
        legs.append(walk)
        visited.append(following)
    points, stops = [legs[0]], [0]
    for leg in legs[1:]:
        points.append(_resampled(leg)[1:])
        stops.append(stops[-1] + len(points[-1]))
    route = np.concatenate(points)
    gaps = np.hypot(*(route[:, None] - centres[visited][None]).transpose(2, 0, 1))
    is_boring = ((gaps < radii[visited] + PASSING).sum(axis=0)[1:] < 4).any()
    if len(visited) < 2 or is_boring or _crosses_itself(route):
        return None
    return Route(route, tuple(stops), tuple(visited))


def sample_route(seed: int, layout: Layout, tries: int = 400) -> Route | None:
    """A random route through the layout; None if it has no room for one, as happens with odd layouts."""
    if len(layout.landmarks) < 2:
        return None
    generator = np.random.default_rng(seed)
    shore = (np.argwhere(layout.lake)[::20] + 0.5) * (FIELD_SIZE / LAKE_CELLS)
    for _ in range(tries):
        route = _try_route(generator, layout, shore)
        if route is not None:
            return route
    return None
