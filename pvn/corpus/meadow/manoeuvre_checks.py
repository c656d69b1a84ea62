"""What each manoeuvre means, as a test of the path that was flown for it (docs/corpus.md has the same in words)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pvn.corpus.meadow.guide_lines import FENCES, SWEEPS
from pvn.corpus.meadow.manoeuvres import Manoeuvre
from pvn.corpus.meadow.scene import CELL, NARROWEST, WIDEST, Points, Scene
from pvn.geometry import wrap_radians
from pvn.world.layout import FIELD_SIZE

TURNS = {"left": math.pi / 2, "right": -math.pi / 2, "around": math.pi}
LENGTHS = {"short": (4.0, 6.0), "long": (13.0, 17.0)}


@dataclass(frozen=True, eq=False)
class Piece:
    """The flight of one manoeuvre."""

    points: Points
    """Points (P, 2), field frame, metres; one point where the drone only turns."""
    heading_before: float
    """Radians, field frame."""
    heading_after: float


def _angle(vector: Points) -> float:
    return math.atan2(vector[1], vector[0])


def _turned(angle: float, wanted: float, tolerance_degrees: float) -> bool:
    return abs(wrap_radians(angle - wanted)) <= math.radians(tolerance_degrees)


def _sweep(points: Points, centre: Points) -> float:
    """Radians by which points (P, 2) go round a centre, counter-clockwise positive."""
    off = points - centre
    turns = np.diff(np.arctan2(off[:, 1], off[:, 0]))
    return float(wrap_radians(turns).sum())


def _is_goto(piece: Piece, centre: Points, radius: float, detail: str) -> bool:
    approach = _angle(centre - piece.points[0])
    end = piece.points[-1] - centre
    if not detail:
        is_near = 0.85 * radius <= math.hypot(*end) <= 1.2 * radius
        return is_near and _turned(_angle(end), approach + math.pi, 60)
    turn = {"left": math.pi / 2, "right": -math.pi / 2, "front": math.pi, "behind": 0.0}[detail]
    wanted = radius * np.array([math.cos(approach + turn), math.sin(approach + turn)])
    return bool(np.hypot(*(end - wanted)) <= 1.0)


def _is_pass(piece: Piece, centre: Points, radius: float, side: int) -> bool:
    off = centre - piece.points
    distance = np.hypot(off[:, 0], off[:, 1])
    at = int(distance.argmin())
    if not 0 < at < len(distance) - 1:
        return False
    ahead = piece.points[at + 1] - piece.points[at - 1]
    is_on_side = side * (ahead[0] * off[at, 1] - ahead[1] * off[at, 0]) > 0
    flown_on = float((piece.points[-1] - piece.points[at]) @ ahead / math.hypot(*ahead))
    return is_on_side and 0.8 * radius <= distance[at] <= 1.3 * radius and 3.0 <= flown_on <= 6.0


def _is_between(piece: Piece, one: Points, other: Points, detail: str) -> bool:
    across, middle = other - one, (one + other) / 2
    width = math.hypot(*across)
    off = piece.points - middle
    distance = np.hypot(off[:, 0], off[:, 1])
    at = int(distance.argmin())
    if not NARROWEST <= width <= WIDEST or distance[at] > 1.5:
        return False
    if detail == "stop":
        return bool(distance[-1] <= 1.5)
    normal = np.array([-across[1], across[0]]) / width
    crosses = (off[0] @ normal) * (off[-1] @ normal) < 0
    return bool(crosses and 3.0 <= math.hypot(*(piece.points[-1] - piece.points[at])) <= 6.0)


def _is_circle(piece: Piece, centre: Points, radius: float, side: int, extent: str) -> bool:
    distance = np.hypot(*(piece.points - centre).T)
    inside = np.flatnonzero(distance <= 1.3 * radius)
    if not len(inside):
        return False
    ring = piece.points[inside[0] :]
    keeps = 0.9 * radius <= distance[inside[0] :].min() and distance[inside[0] :].max() <= 1.3 * radius
    return bool(keeps and abs(side * _sweep(ring, centre) - SWEEPS[extent]) <= math.radians(15))


def _is_toward(piece: Piece, centre: Points) -> bool:
    off = centre - piece.points[0]
    way = piece.points - piece.points[0]
    distance = math.hypot(*off)
    aside = np.abs(way[:, 0] * off[1] - way[:, 1] * off[0]) / distance
    return bool(aside.max() <= 1.2 and 0.45 <= 1.0 - math.hypot(*(centre - piece.points[-1])) / distance <= 0.55)


def _is_until(piece: Piece, centre: Points, side: int) -> bool:
    ahead = np.array([math.cos(piece.heading_before), math.sin(piece.heading_before)])
    way, off = piece.points - piece.points[0], centre - piece.points[-1]
    aside = np.abs(way[:, 0] * ahead[1] - way[:, 1] * ahead[0])
    line = centre - piece.points[0]
    is_near = abs(line[0] * ahead[1] - line[1] * ahead[0]) <= 15.0
    return bool(is_near and aside.max() <= 1.5 and _turned(_angle(off), piece.heading_before + side * math.pi / 2, 10))


def _is_fence(piece: Piece, colour: str) -> bool:
    normal = FENCES[colour]
    x, y = piece.points[-1] - FIELD_SIZE / 2
    return 2.0 <= FIELD_SIZE / 2 - (x * math.cos(normal) + y * math.sin(normal)) <= 3.0


def _shore_distances(points: Points, shore: Points) -> Points:
    off = points[:, None] - shore[None]
    return np.maximum(np.hypot(off[..., 0], off[..., 1]).min(axis=1) - 0.5 * CELL, 0.0)


def _is_lake(piece: Piece, scene: Scene, kind: str, side: int) -> bool:
    if scene.lake is None:
        return False
    distance = _shore_distances(piece.points, scene.lake.shore)
    if kind == "lake":
        column, row = (piece.points[-1] / CELL).astype(int).tolist()
        return bool(distance[-1] <= 1.5 and not scene.layout.lake[column, row])
    near = np.flatnonzero(distance <= 4.0)
    if not len(near):
        return False
    if kind == "lake circle":
        along = piece.points[near[0] :]
        is_near = distance[near[0] :].max() <= 4.0
        return bool(is_near and side * _sweep(along, scene.lake.centre) >= math.radians(120))
    start, approach = piece.points[0], scene.lake.centre - piece.points[0]
    ends_beyond = (piece.points[-1] - start) @ approach >= ((scene.lake.shore - start) @ approach).max()
    return bool(ends_beyond and side * _sweep(piece.points[near], scene.lake.centre) > 0)


def _is_forward(piece: Piece, detail: str) -> bool:
    ahead = np.array([math.cos(piece.heading_before), math.sin(piece.heading_before)])
    way = piece.points - piece.points[0]
    aside = np.abs(way[:, 0] * ahead[1] - way[:, 1] * ahead[0])
    least, most = LENGTHS[detail]
    return bool(aside.max() <= 1.5 and least <= way[-1] @ ahead <= most)


def _is_turn(piece: Piece, detail: str) -> bool:
    return len(piece.points) == 1 and _turned(piece.heading_after - piece.heading_before, TURNS[detail], 10)


def _is_face(piece: Piece, centre: Points) -> bool:
    bearing = _angle(centre - piece.points[0])
    was_aside = not _turned(piece.heading_before, bearing, 40)
    return len(piece.points) == 1 and was_aside and _turned(piece.heading_after, bearing, 10)


def _is_flown_freely(manoeuvre: Manoeuvre, piece: Piece, scene: Scene) -> bool:
    """Of manoeuvres that need no landmark."""
    match manoeuvre.kind:
        case "fence":
            return _is_fence(piece, manoeuvre.detail)
        case "turn":
            return _is_turn(piece, manoeuvre.detail)
        case "forward":
            return _is_forward(piece, manoeuvre.detail)
        case _:
            return _is_lake(piece, scene, manoeuvre.kind, manoeuvre.side)


def is_flown(manoeuvre: Manoeuvre, piece: Piece, scene: Scene, meant: dict[str, int]) -> bool:
    """Whether a piece of flight is what the manoeuvre says, with `meant` the landmark in each slot."""
    if not manoeuvre.slots:
        return _is_flown_freely(manoeuvre, piece, scene)
    centres = [scene.centres[meant[slot]] for slot in manoeuvre.slots]
    radius = float(scene.radii[meant[manoeuvre.slots[0]]])
    side, detail = manoeuvre.side, manoeuvre.detail
    match manoeuvre.kind:
        case "goto":
            return _is_goto(piece, centres[0], radius, detail)
        case "pass":
            return _is_pass(piece, centres[0], radius, side)
        case "between":
            return _is_between(piece, centres[0], centres[1], detail)
        case "circle":
            return _is_circle(piece, centres[0], radius, side, detail.split()[1])
        case "face":
            return _is_face(piece, centres[0])
        case "toward":
            return _is_toward(piece, centres[0])
        case _:
            return _is_until(piece, centres[0], side)
