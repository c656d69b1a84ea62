"""What each manoeuvre means, as a test of the path that is flown for it (docs/corpus.md says the same in words)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pvn.corpus.meadow.guide_lines import SWEEPS
from pvn.corpus.meadow.manoeuvres import Manoeuvre
from pvn.corpus.meadow.scene import MAX_GAP, MIN_GAP, Pose, Scene
from pvn.paths import Points, wrap_radians
from pvn.world.layout import LAKE_CELL, fence_distance

TURNS = {"left": math.pi / 2, "right": -math.pi / 2, "around": math.pi}
LENGTHS = {"short": (4.0, 6.0), "long": (13.0, 17.0)}


@dataclass(frozen=True, eq=False)
class Leg:
    """The path of one manoeuvre."""

    points: Points
    """Points (P, 2), field frame, metres; a single point if the drone only turns."""
    heading_before: float
    """Radians, field frame."""
    heading_after: float

    @property
    def start(self) -> Pose:
        """Where it begins."""
        x, y = self.points[0].tolist()
        return Pose(x, y, self.heading_before)


def _angle(vector: Points) -> float:
    return math.atan2(vector[1], vector[0])


def _is_about(angle: float, wanted: float, tolerance_degrees: float) -> bool:
    return abs(wrap_radians(angle - wanted)) <= math.radians(tolerance_degrees)


def _sweep(points: Points, centre: Points) -> float:
    """Radians by which points (P, 2) go around a centre, positive if counter-clockwise."""
    off = points - centre
    turns = np.diff(np.arctan2(off[:, 1], off[:, 0]))
    return float(wrap_radians(turns).sum())


def _is_goto(leg: Leg, centre: Points, radius: float, detail: str) -> bool:
    approach = _angle(centre - leg.points[0])
    end = leg.points[-1] - centre
    if not detail:
        is_near = 0.85 * radius <= math.hypot(*end) <= 1.2 * radius
        return is_near and _is_about(_angle(end), approach + math.pi, 60)
    turn = {"left": math.pi / 2, "right": -math.pi / 2, "front": math.pi, "behind": 0.0}[detail]
    wanted = radius * np.array([math.cos(approach + turn), math.sin(approach + turn)])
    return bool(np.hypot(*(end - wanted)) <= 1.0)


def _is_pass(leg: Leg, centre: Points, radius: float, side: int) -> bool:
    off = centre - leg.points
    distance = np.hypot(off[:, 0], off[:, 1])
    at = int(distance.argmin())
    if not 0 < at < len(distance) - 1:
        return False
    ahead = leg.points[at + 1] - leg.points[at - 1]
    is_on_side = side * (ahead[0] * off[at, 1] - ahead[1] * off[at, 0]) > 0
    onward = float((leg.points[-1] - leg.points[at]) @ ahead / math.hypot(*ahead))
    return is_on_side and 0.8 * radius <= distance[at] <= 1.3 * radius and 3.0 <= onward <= 6.0


def _is_between(leg: Leg, one: Points, other: Points, detail: str) -> bool:
    across, middle = other - one, (one + other) / 2
    width = math.hypot(*across)
    off = leg.points - middle
    distance = np.hypot(off[:, 0], off[:, 1])
    at = int(distance.argmin())
    if not MIN_GAP <= width <= MAX_GAP or distance[at] > 1.5:
        return False
    if detail == "stop":
        return bool(distance[-1] <= 1.5)
    normal = np.array([-across[1], across[0]]) / width
    crosses = (off[0] @ normal) * (off[-1] @ normal) < 0
    return bool(crosses and 3.0 <= math.hypot(*(leg.points[-1] - leg.points[at])) <= 6.0)


def _is_circle(leg: Leg, centre: Points, radius: float, side: int, extent: str) -> bool:
    distance = np.hypot(*(leg.points - centre).T)
    inside = np.flatnonzero(distance <= 1.3 * radius)
    if not len(inside):
        return False
    ring = leg.points[inside[0] :]
    keeps = 0.9 * radius <= distance[inside[0] :].min() and distance[inside[0] :].max() <= 1.3 * radius
    return bool(keeps and abs(side * _sweep(ring, centre) - SWEEPS[extent]) <= math.radians(15))


def _is_toward(leg: Leg, centre: Points) -> bool:
    off = centre - leg.points[0]
    distance = math.hypot(*off)
    aside = replace(leg.start, heading=_angle(off)).in_body(leg.points)[:, 1]
    progress = 1.0 - math.hypot(*(centre - leg.points[-1])) / distance
    return bool(np.abs(aside).max() <= 1.2 and 0.45 <= progress <= 0.55)


def _is_until(leg: Leg, centre: Points, side: int) -> bool:
    aside, aside_of_mark = leg.start.in_body(leg.points)[:, 1], leg.start.in_body(centre)[1]
    is_abeam = _is_about(_angle(centre - leg.points[-1]), leg.heading_before + side * math.pi / 2, 10)
    return bool(abs(aside_of_mark) <= 15.0 and np.abs(aside).max() <= 1.5 and is_abeam)


def _is_fence(leg: Leg, colour: str) -> bool:
    return bool(2.0 <= fence_distance(leg.points[-1], colour) <= 3.0)


def _is_lake(leg: Leg, scene: Scene, kind: str, side: int) -> bool:
    if scene.lake is None:
        return False
    distance = scene.lake.distances(leg.points)
    if kind == "lake":
        column, row = (leg.points[-1] / LAKE_CELL).astype(int).tolist()
        return bool(distance[-1] <= 1.5 and not scene.layout.lake[column, row])
    near = np.flatnonzero(distance <= 4.0)
    if not len(near):
        return False
    if kind == "lake circle":
        along = leg.points[near[0] :]
        is_near = distance[near[0] :].max() <= 4.0
        return bool(is_near and side * _sweep(along, scene.lake.centre) >= math.radians(120))
    start, approach = leg.points[0], scene.lake.centre - leg.points[0]
    ends_beyond = (leg.points[-1] - start) @ approach >= ((scene.lake.shore - start) @ approach).max()
    return bool(ends_beyond and side * _sweep(leg.points[near], scene.lake.centre) > 0)


def _is_forward(leg: Leg, detail: str) -> bool:
    way = leg.start.in_body(leg.points)
    least, most = LENGTHS[detail]
    return bool(np.abs(way[:, 1]).max() <= 1.5 and least <= way[-1, 0] <= most)


def _is_turned(leg: Leg, detail: str, centres: Sequence[Points]) -> bool:
    """Whether the drone turned on the spot: by as much as the detail says, or to a landmark that was not ahead."""
    wanted = _angle(centres[0] - leg.points[0]) if centres else leg.heading_before + TURNS[detail]
    was_ahead = bool(centres) and _is_about(leg.heading_before, wanted, 40)
    return len(leg.points) == 1 and not was_ahead and _is_about(leg.heading_after, wanted, 10)


def is_fulfilled(manoeuvre: Manoeuvre, leg: Leg, scene: Scene, meant: dict[str, int]) -> bool:
    """Whether a leg is what the manoeuvre means; `meant` has the landmark (its index) in each slot."""
    centres = [scene.centres[meant[slot]] for slot in manoeuvre.slots]
    radii = [float(scene.radii[meant[slot]]) for slot in manoeuvre.slots]
    side, detail = manoeuvre.side, manoeuvre.detail
    match manoeuvre.kind:
        case "goto":
            return _is_goto(leg, centres[0], radii[0], detail)
        case "pass":
            return _is_pass(leg, centres[0], radii[0], side)
        case "between":
            return _is_between(leg, centres[0], centres[1], detail)
        case "circle":
            return _is_circle(leg, centres[0], radii[0], side, detail.split()[1])
        case "turn" | "face":
            return _is_turned(leg, detail, centres)
        case "toward":
            return _is_toward(leg, centres[0])
        case "until":
            return _is_until(leg, centres[0], side)
        case "fence":
            return _is_fence(leg, detail)
        case "forward":
            return _is_forward(leg, detail)
        case _:
            return _is_lake(leg, scene, manoeuvre.kind, side)
