"""Flights there and back: past a landmark, round, and back to where they began or to the landmark."""

from __future__ import annotations

import itertools
import math

import numpy as np

from pvn.corpus.meadow.scene import Pose, Scene, in_sight, is_clear
from pvn.corpus.meadow.steering import STRIDE, arc, every_metre, fly_along, straight_line
from pvn.corpus.meadow.tours import MAX_PATH, NEARLY_IN_VIEW, first_pose
from pvn.paths import Points, length_of
from pvn.world.layout import sample_layout
from pvn.world.task import Demonstration, Task

MAX_DISTANCE = 16.0
"""Landmarks further away are not passed, metres: there must be room beyond, and time for the way back."""
LOOP_SHARE = 0.5
"""Share of flights that come back in a curve; the others turn on the spot."""
TO_START_SHARE = 0.65
"""Share of flights that end where they began; the others end at the landmark."""
ASIDE = 0.6
"""The way back is at least this much further from the landmark than the way out, metres, so that it is clear on which
side the landmark is passed."""
MIN_BACK = 4.0
"""Shortest way back, metres."""
TRIES_PER_FIELD = 400


def _way_out(scene: Scene, pose: Pose, mark: int, side: int, generator: np.random.Generator) -> tuple[Points, float]:
    """A line straight past a landmark, on one side of the drone, and further; and its direction, radians."""
    off = pose.offsets(scene.centres[mark])
    gap = scene.radii[mark] * generator.uniform(0.75, 0.9)
    angle = math.atan2(off[1], off[0]) - side * math.asin(min(gap / length_of(*off), 1.0))
    metres = length_of(*off) + generator.uniform(5.0, 9.0)
    end = pose.x + metres * math.cos(angle), pose.y + metres * math.sin(angle)
    return straight_line(pose.x, pose.y, *end), angle


def _end(scene: Scene, pose: Pose, mark: int, place: Points, generator: np.random.Generator) -> Points:
    """Where a flight that comes back from a place (2,) ends: where it began, or on this side of the landmark."""
    if generator.random() < TO_START_SHARE:
        return np.array([pose.x, pose.y]) + generator.uniform(-0.6, 0.6, 2)
    off = place - scene.centres[mark]
    return scene.centres[mark] + off / length_of(*off) * scene.radii[mark] * generator.uniform(1.0, 1.15)


def _try_flight(scene: Scene, pose: Pose, mark: int, generator: np.random.Generator) -> Points | None:
    """A path (P, 2) there and back, or None if there is no room for it."""
    side = 1 if generator.random() < 0.5 else -1
    out, angle = _way_out(scene, pose, mark, side, generator)
    far, away, is_loop = out[-1], angle - side * math.pi / 2, generator.random() < LOOP_SHARE
    if is_loop:  # away from the landmark, so that it is not circled
        radius = generator.uniform(3.0, 4.0)
        centre = far + radius * np.array([math.cos(away), math.sin(away)])
        curve = arc(centre[0], centre[1], radius, away + math.pi, -side * math.pi)
        far = curve[-1]
    end = _end(scene, pose, mark, far, generator)
    is_to_start = math.hypot(end[0] - pose.x, end[1] - pose.y) < 1.0
    back = straight_line(far[0], far[1], end[0], end[1])
    if len(back) * STRIDE < MIN_BACK:
        return None
    if is_loop:
        parts = [fly_along(np.concatenate([out, curve[1:], back[1:]]), pose.heading, generator)[0]]
    else:
        if is_to_start:
            metres = generator.uniform(1.0, 2.5)
            x, y = out[len(out) // 2] + metres * np.array([math.cos(away), math.sin(away)])
            back = np.concatenate([straight_line(far[0], far[1], x, y), straight_line(x, y, end[0], end[1])[1:]])
        parts = [fly_along(out, pose.heading, generator)[0], fly_along(back, angle + math.pi, generator)[0]]
    if not all(len(part) > 4 and is_clear(part[1:], scene.centres, scene.solids) for part in parts):
        return None
    path = np.concatenate([parts[0][:1], *map(every_metre, parts)])
    distance = length_of(*(path - scene.centres[mark]).T)
    nearest, turned = int(distance.argmin()), int(length_of(*(path - path[0]).T).argmax())
    later = distance[turned:] if is_to_start else distance[turned:-4]
    is_passed_once = 2 <= nearest < turned and later.min(initial=math.inf) > distance[nearest] + ASIDE
    return path if is_passed_once and len(path) <= MAX_PATH else None


def sample_returns(seed: int, count: int) -> list[Demonstration]:
    """Flights there and back in one random field; fewer than `count` where there is little room."""
    flights: list[Demonstration] = []
    layouts = (sample_layout(seed + attempt * 1_000_000_007) for attempt in itertools.count())
    scene = Scene.of(next(layout for layout in layouts if layout.landmarks))
    generator = np.random.default_rng((seed, 7))
    for _ in range(TRIES_PER_FIELD):
        if len(flights) == count:
            break
        pose = first_pose(scene, generator)
        seen = in_sight(scene.centres, pose.x, pose.y, pose.heading, 0.0, NEARLY_IN_VIEW, MAX_DISTANCE)
        far_enough = [mark for mark in seen.tolist() if math.hypot(*pose.offsets(scene.centres[mark])) > 5.0]
        if not far_enough:
            continue
        mark = far_enough[int(generator.integers(len(far_enough)))]
        path = _try_flight(scene, pose, mark, generator)
        if path is not None:
            task = Task(scene.layout, (pose.x, pose.y, pose.heading), "fly there and back")
            flights.append(Demonstration(task, path))
    return flights
