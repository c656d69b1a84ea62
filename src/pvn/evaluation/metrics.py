"""Metrics of flights, from flown and demonstrated paths.

Paths are compared in metres, in the field frame, from above. docs/metrics.md has the definitions and their sources.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from pvn.compiling import run_in_parallel
from pvn.evaluation.path_distances import compare_flights, evenly_spaced, travelled_along
from pvn.paths import Points
from pvn.rollout.flight import FlightLog
from pvn.simulator.interface import SimulatorConfig
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Layout
from pvn.world.shapes import solid_extent
from pvn.world.solids import top_height
from pvn.world.task import SUCCESS_M, Demonstration

Booleans = npt.NDArray[np.bool_]

SPACING = 0.5
"""Paths are compared at points this close, metres, so that the length of a step does not matter."""
NUM_MASSES = 64
"""Equal masses along a path for the earth mover's distance."""
RADII = tuple(float(radius) for radius in range(1, 11))
"""Radii for the curve of success over radius, metres."""
STILL = 1e-3
"""Metres; a drone that moves less has not moved."""
ALTITUDE = SimulatorConfig().altitude


@dataclass(frozen=True, eq=False)
class FlightMetrics:
    """Metrics of B flights; every field is an array (B,)."""

    has_stopped: Booleans
    """Whether the policy stopped by itself, before the horizon."""
    is_success: Booleans
    """Whether it stopped by itself within 5 m of the goal (SR)."""
    is_loose_success: Booleans
    """Whether it ended within 5 m of the goal, by itself or at the horizon."""
    is_oracle_success: Booleans
    """Whether it was within 5 m of the goal at some time (OSR)."""
    stop_distance: Points
    """Metres between its end and the goal."""
    spl: Points
    """Success weighted by path length, 0 to 1."""
    ndtw: Points
    """Normalised dynamic time warping, 0 to 1."""
    sdtw: Points
    """nDTW of a successful flight, else 0."""
    cls: Points
    """Coverage weighted by length score, 0 to 1."""
    emd: Points
    """Earth mover's distance between flown and demonstrated path, metres."""
    semd: Points
    """Success weighted by earth mover's distance, 0 to 1."""
    num_collisions: npt.NDArray[np.int64]
    """How often it flew into a landmark."""
    num_steps: npt.NDArray[np.int64]
    """Steps, including the one in which it stopped."""
    distance_flown: Points
    """Metres along the ground."""

    def __len__(self) -> int:
        return len(self.is_success)

    def select(self, chosen: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> FlightMetrics:
        """Metrics of the chosen flights; `chosen` is a mask (B,) or indices."""
        return FlightMetrics(**{field.name: getattr(self, field.name)[chosen] for field in fields(self)})

    def success_by_radius(self, radii: Sequence[float] = RADII) -> Booleans:
        """Whether (B, R) each flight would succeed if the goal were this wide, metres."""
        return self.has_stopped[:, None] & (self.stop_distance[:, None] < np.asarray(radii))


def resample(points: Points, spacing: float = SPACING) -> Points:
    """The path (P, 2) as points (N, 2) evenly spaced along it, at most `spacing` apart, both ends included.

    A path that goes nowhere is one point.
    """
    if not len(points):
        raise ValueError("path: got no points, expected at least one")
    path = np.ascontiguousarray(points, np.float64)  # compiled code does not check where an array ends
    even: Points = evenly_spaced(path, travelled_along(path), spacing)
    return even


@functools.cache
def _height(name: str) -> float:
    return top_height(LANDMARK_CLASSES[name].solids)


def obstacles(layout: Layout, altitude: float = ALTITUDE) -> Points:
    """Centre and radius (N, 3), metres, of the discs filled by the landmarks that reach a drone at this altitude."""
    tall = [mark for mark in layout.landmarks if mark.scale * _height(mark.name) > altitude]
    return np.array([(mark.x, mark.y, mark.scale * solid_extent(mark.name)) for mark in tall]).reshape(-1, 3)


def flown_paths(log: FlightLog) -> list[Points]:
    """Each flight's positions (T_i + 1, 2), field frame, metres: its start, and where each of its T_i steps ended."""
    positions = log.pose_world[:, :, :2].double().cpu().numpy()
    return [path[: steps + 1] for path, steps in zip(positions, log.num_steps.tolist(), strict=True)]


def _check(paths: Sequence[Points], has_stopped: Booleans, demonstrations: Sequence[Demonstration]) -> None:
    if not len(paths) == len(has_stopped) == len(demonstrations):
        raise ValueError(
            f"flights: got {len(paths)} paths, {len(has_stopped)} stops and {len(demonstrations)} demonstrations, "
            "expected one of each for every flight"
        )
    for flight, path in enumerate(paths):
        if path.ndim != 2 or path.shape[1] != 2 or not len(path) or not np.isfinite(path).all():
            raise ValueError(
                f"path of flight {flight}: got shape {path.shape}, expected (T + 1, 2), finite, at least the start"
            )


def measure_flights(
    paths: Sequence[Points],
    has_stopped: npt.ArrayLike,
    demonstrations: Sequence[Demonstration],
    *,
    altitude: float = ALTITUDE,
) -> FlightMetrics:
    """Metrics of B flights.

    paths: positions (T_i + 1, 2) before each step and after the last, field frame, metres; has_stopped: whether (B,)
    the policy stopped by itself; demonstrations: what they should have flown. A drone at `altitude`, metres, can only
    hit what is taller.
    """
    stopped = np.asarray(has_stopped, bool)
    _check(paths, stopped, demonstrations)
    goal = np.array([demonstration.goal for demonstration in demonstrations]).reshape(-1, 2)
    end = np.array([path[-1] for path in paths]).reshape(-1, 2)
    stop_distance = np.hypot(*(end - goal).T)
    layouts = [demonstration.task.layout for demonstration in demonstrations]
    discs = {id(layout): obstacles(layout, altitude) for layout in layouts}
    scores = np.empty((len(paths), 8))
    run_in_parallel(
        compare_flights, len(paths), 16,
        *_end_to_end(paths, 2), *_end_to_end([one.path for one in demonstrations], 2),
        *_end_to_end([discs[id(layout)] for layout in layouts], 3),
        SPACING, NUM_MASSES, SUCCESS_M, STILL, scores,
    )  # fmt: skip
    flown, demonstrated, closest, ndtw, cls, emd, score, collisions = scores.T
    is_success = stopped & (stop_distance < SUCCESS_M)
    longer = np.maximum(flown, demonstrated)
    efficiency = np.divide(demonstrated, longer, out=np.ones_like(longer), where=longer > 0)
    return FlightMetrics(
        has_stopped=stopped,
        is_success=is_success,
        is_loose_success=stop_distance < SUCCESS_M,
        is_oracle_success=closest < SUCCESS_M,
        stop_distance=stop_distance,
        spl=is_success * efficiency,
        ndtw=ndtw,
        sdtw=is_success * ndtw,
        cls=cls,
        emd=emd,
        semd=is_success * score,
        num_collisions=collisions.astype(np.int64),
        num_steps=np.array([len(path) - 1 for path in paths], np.int64),
        distance_flown=flown,
    )


def _end_to_end(parts: Sequence[Points], columns: int) -> tuple[Points, npt.NDArray[np.int64]]:
    """The rows (N, columns) of all B parts, and where (B + 1,) each part begins and the last ends."""
    first = np.cumsum([0, *map(len, parts)])
    return np.ascontiguousarray(np.concatenate([np.empty((0, columns)), *parts])), first


def measure_log(log: FlightLog, demonstrations: Sequence[Demonstration]) -> FlightMetrics:
    """Metrics of the flights in one log."""
    return measure_flights(flown_paths(log), log.has_stopped.cpu().numpy(), demonstrations)
