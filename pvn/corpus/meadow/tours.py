"""Tours: one flight after the other through a field, each a short list of manoeuvres that make sense there."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pvn.corpus.meadow import guide_lines
from pvn.corpus.meadow.guide_lines import Pose
from pvn.corpus.meadow.manoeuvre_checks import TURNS, Piece, is_flown
from pvn.corpus.meadow.manoeuvres import COLOURS, IS_ON_THE_SPOT, SLOTS, Manoeuvre
from pvn.corpus.meadow.scene import Points, Scene, in_sight, is_clear
from pvn.corpus.meadow.steering import STRIDE, TURN_RADIUS, follow, wander
from pvn.geometry import wrap_radians
from pvn.world.layout import FIELD_SIZE

POINT_EVERY = 4
"""Strides between the points of a finished path: one metre."""
IN_VIEW = math.radians(38)
"""Half the camera's view, less a little: what is meant is in the picture."""
NOT_QUITE_IN_VIEW = math.radians(60)
OUT_OF_VIEW_SHARE = 0.1
"""Share of flights that may begin with something a little out of view, as people's do."""
LATER = math.radians(90)
"""Off the heading at most, for what comes later in the list: the drone turns to it without being told."""
ON_THE_SPOT = math.radians(60)
"""A person who has to turn by more than this turns before flying on."""
FAR = 20.0
"""Landmarks further away are not spoken of, metres."""
TRIES_AHEAD, TRIES_TURNING, TRIES_LOOKING, TRIES_PLACED = 60, 60, 6, 6
TRIES_PER_LIST = 2
TRIES_PER_MANOEUVRE = 12
LEAST_PATH = 4.0
MOST_PATH = 45.0

Do = tuple[Manoeuvre, ...]


@dataclass(frozen=True, eq=False)
class Flight:
    """One list of manoeuvres as it was flown."""

    do: Do
    """With the fence's colour written in."""
    pieces: tuple[Piece, ...]
    meant: tuple[int, ...]
    """Places in the layout of the landmarks A, B, C."""

    @property
    def start(self) -> tuple[float, float, float]:
        """x, y and yaw, field frame."""
        x, y = self.pieces[0].points[0].tolist()
        return x, y, self.pieces[0].heading_before

    @property
    def end(self) -> Pose:
        """Where the next flight begins."""
        x, y = self.pieces[-1].points[-1].tolist()
        return Pose(x, y, self.pieces[-1].heading_after)

    def path(self) -> tuple[Points, tuple[int, ...]]:
        """Points (P, 2), field frame, a metre apart, and the index of each manoeuvre's end."""
        parts, stops, count = [self.pieces[0].points[:1]], [], 1
        for piece in self.pieces:
            inner = piece.points[POINT_EVERY : -POINT_EVERY // 2 : POINT_EVERY]
            part = np.concatenate([inner, piece.points[-1:]]) if len(piece.points) > 1 else piece.points[:0]
            parts.append(part)
            count += len(part)
            stops.append(count - 1)
        return np.concatenate(parts), tuple(stops)


class _Planner:
    """Binds and flies the manoeuvres of one list from one pose; one object a try."""

    def __init__(self, scene: Scene, pose: Pose, generator: np.random.Generator, visited: Sequence[int]) -> None:
        self.scene, self.pose, self.generator = scene, pose, generator
        self.visited = visited
        self.meant: dict[str, int] = {}

    def _candidates(self, manoeuvre: Manoeuvre, limit: float) -> list[tuple[int, ...]]:
        """Landmarks the manoeuvre could mean: those its slots have already, or any that fit the view."""
        bound = tuple(self.meant[slot] for slot in manoeuvre.slots if slot in self.meant)
        if len(bound) == len(manoeuvre.slots):
            return [bound]
        scene, pose, taken = self.scene, self.pose, set(self.meant.values())
        least, far = 0.0, FAR
        if manoeuvre.kind == "between":
            return self._pairs(manoeuvre, limit)
        if manoeuvre.kind == "face":
            least, limit, far = math.radians(42), 2 * math.pi, math.inf
        # People mention what is next on the way, rarely what lies behind it or where they have just been.
        if manoeuvre.kind != "face":
            taken.update(self.visited)
        seen = in_sight(scene.centres, pose.x, pose.y, pose.heading, least, limit, far)
        return [(mark,) for mark in seen.tolist() if mark not in taken]

    def _pairs(self, manoeuvre: Manoeuvre, limit: float) -> list[tuple[int, ...]]:
        """Pairs with a gap ahead, both of which are in view if the gap is to be, and which agree with what is meant."""
        scene, pose = self.scene, self.pose
        ahead = in_sight(scene.middles, pose.x, pose.y, pose.heading, 0.0, limit, FAR)
        wide = max(limit, math.radians(48))
        seen = set(in_sight(scene.centres, pose.x, pose.y, pose.heading, 0.0, wide, math.inf).tolist())
        bound = [self.meant.get(slot) for slot in manoeuvre.slots]
        others = set(self.meant.values()) - set(bound)
        return [
            pair
            for pair in map(tuple, scene.pairs[ahead].tolist())
            if seen.issuperset(pair)
            and not others.intersection(pair)
            and all(mark in (None, chosen) for mark, chosen in zip(bound, pair, strict=True))
        ]

    def _fence_ahead(self) -> str:
        """Colour of one of the two fences nearest to straight ahead."""
        first, second, *_ = sorted(
            COLOURS, key=lambda colour: -math.cos(guide_lines.FENCES[colour] - self.pose.heading)
        )
        return first if self.generator.random() < 0.7 else second

    def _is_ahead(self, place: Points, limit: float) -> bool:
        angle = math.atan2(place[1] - self.pose.y, place[0] - self.pose.x)
        return abs(wrap_radians(angle - self.pose.heading)) < limit

    def _guide(self, manoeuvre: Manoeuvre, marks: tuple[int, ...], limit: float) -> Points | None:
        scene, pose, generator = self.scene, self.pose, self.generator
        side, detail = manoeuvre.side, manoeuvre.detail
        match manoeuvre.kind:
            case "goto":
                return guide_lines.to_landmark(scene, pose, marks[0], detail, generator)
            case "pass":
                return guide_lines.past_landmark(scene, pose, marks[0], side, generator)
            case "circle":
                return guide_lines.around_landmark(scene, pose, marks[0], side, detail.split()[1], generator)
            case "between":
                return guide_lines.between_landmarks(scene, pose, (marks[0], marks[1]), detail, generator)
            case "toward":
                return guide_lines.towards_landmark(scene, pose, marks[0], generator)
            case "until":
                return guide_lines.until_abeam(scene, pose, marks[0], side)
            case "fence":
                return guide_lines.to_fence(scene, pose, detail, generator)
            case "forward":
                return guide_lines.forward(pose, detail, generator)
            case _:
                return self._lake_guide(manoeuvre, limit)

    def _lake_guide(self, manoeuvre: Manoeuvre, limit: float) -> Points | None:
        lake, pose, generator = self.scene.lake, self.pose, self.generator
        if lake is None:
            return None
        if manoeuvre.kind == "lake":
            line = guide_lines.to_lake(lake, pose, generator)
            return line if line is not None and self._is_ahead(line[-1], limit) else None
        if not self._is_ahead(lake.centre, limit):
            return None
        if manoeuvre.kind == "lake pass":
            return guide_lines.past_lake(lake, pose, manoeuvre.side, generator)
        return guide_lines.around_lake(lake, pose, manoeuvre.side, generator)

    def _turn(self, manoeuvre: Manoeuvre, marks: tuple[int, ...]) -> Piece:
        pose = self.pose
        if manoeuvre.kind == "face":
            off = self.scene.centres[marks[0]] - (pose.x, pose.y)
            after = math.atan2(off[1], off[0]) + self.generator.uniform(-0.06, 0.06)
        else:
            after = pose.heading + TURNS[manoeuvre.detail] + self.generator.uniform(-0.14, 0.14)
        return Piece(np.array([(pose.x, pose.y)]), pose.heading, after)

    def _follow(self, manoeuvre: Manoeuvre, guide: Points) -> Piece | None:
        if len(guide) < 4 or not is_clear(guide[2:], self.scene.centres, self.scene.solids):
            return None
        heading = self.pose.heading
        first = guide[min(int(TURN_RADIUS / STRIDE), len(guide) - 1)] - guide[0]
        wanted = math.atan2(first[1], first[0])
        error = wrap_radians(wanted - heading)
        if abs(error) > ON_THE_SPOT or manoeuvre.kind == "toward":
            heading = wanted
        drift = wander(self.generator.standard_normal(len(guide) * 2 + 40))
        points, after = follow(guide, heading, drift)
        if not len(points) or not is_clear(points[1:], self.scene.centres, self.scene.solids):
            return None
        return Piece(points, self.pose.heading, wrap_radians(after))

    def _fly_one(self, manoeuvre: Manoeuvre, limit: float) -> Piece | None:
        options = self._candidates(manoeuvre, limit) if manoeuvre.slots else [()]
        if len(options) > 1:
            options = [options[choice] for choice in self.generator.permutation(len(options)).tolist()]
        for marks in options[:TRIES_PER_MANOEUVRE]:
            if IS_ON_THE_SPOT[manoeuvre.kind]:
                piece: Piece | None = self._turn(manoeuvre, marks)
            else:
                guide = self._guide(manoeuvre, marks, limit)
                piece = None if guide is None else self._follow(manoeuvre, guide)
            meant = self.meant | dict(zip(manoeuvre.slots, marks, strict=True))
            if piece is not None and is_flown(manoeuvre, piece, self.scene, meant):
                self.meant = meant
                end = piece.points[-1].tolist()
                self.pose = Pose(end[0], end[1], piece.heading_after)
                return piece
        return None

    def fly(self, do: Do) -> Flight | None:
        """The flight, or None where the list makes no sense from here."""
        pieces = []
        is_lax = self.generator.random() < OUT_OF_VIEW_SHARE
        limit = NOT_QUITE_IN_VIEW if is_lax else IN_VIEW
        flown = []
        for manoeuvre in do:
            if manoeuvre.detail == "COLOR":
                manoeuvre = replace(manoeuvre, detail=self._fence_ahead())
            piece = self._fly_one(manoeuvre, limit)
            if piece is None:
                return None
            pieces.append(piece)
            flown.append(manoeuvre)
            limit = IN_VIEW if IS_ON_THE_SPOT[manoeuvre.kind] else LATER
        meant = tuple(self.meant[slot] for slot in SLOTS if slot in self.meant)
        return Flight(tuple(flown), tuple(pieces), meant)


def fly_from(
    scene: Scene, pose: Pose, do: Do, generator: np.random.Generator, visited: Sequence[int] = ()
) -> Flight | None:
    """One list of manoeuvres flown from a pose; None where it makes no sense there, or this try found no way."""
    return _Planner(scene, pose, generator, visited).fly(do)


def _length(flight: Flight) -> float:
    return sum(STRIDE * (len(piece.points) - 1) for piece in flight.pieces)


def first_pose(scene: Scene, generator: np.random.Generator) -> Pose:
    """Where a tour begins: beside a landmark, as LANI's do, looking over the field rather than at its fence."""
    while True:
        mark = int(generator.integers(len(scene.centres)))
        angle = generator.uniform(-math.pi, math.pi)
        x = float(scene.centres[mark, 0] + scene.radii[mark] * math.cos(angle))
        y = float(scene.centres[mark, 1] + scene.radii[mark] * math.sin(angle))
        if is_clear(np.array([(x, y)]), scene.centres, scene.solids):
            break
    inward = math.atan2(FIELD_SIZE / 2 - y, FIELD_SIZE / 2 - x)
    return Pose(x, y, inward + generator.normal(0.0, math.radians(45)))


def _try_list(
    scene: Scene, pose: Pose, do: Do, generator: np.random.Generator, visited: Sequence[int]
) -> Flight | None:
    if scene.lake is None and any(manoeuvre.kind.startswith("lake") for manoeuvre in do):
        return None
    # Rare lists would hardly ever be flown if each had only one chance.
    for _ in range(TRIES_PER_LIST):
        flight = fly_from(scene, pose, do, generator, visited)
        if flight is not None and LEAST_PATH <= _length(flight) <= MOST_PATH:
            return flight
    return None


@dataclass(frozen=True, eq=False)
class Choice:
    """The lists of manoeuvres a flight may be."""

    dos: tuple[Do, ...]
    shares: npt.NDArray[np.float64]
    """How often (D,) each is tried."""

    def draw(self, generator: np.random.Generator) -> Iterator[Do]:
        """Lists to try one after the other; the last ones begin with a turn, for there may be nothing ahead."""
        for place in generator.choice(len(self.dos), TRIES_AHEAD, p=self.shares).tolist():
            yield self.dos[place]
        turns = np.where(self._turns, self.shares, 0.0)
        if turns.any():
            for place in generator.choice(len(self.dos), TRIES_TURNING, p=turns / turns.sum()).tolist():
                yield self.dos[place]

    @functools.cached_property
    def _turns(self) -> npt.NDArray[np.bool_]:
        return np.array([IS_ON_THE_SPOT[do[0].kind] for do in self.dos])


def fly_tour(scene: Scene, choices: Sequence[Choice], generator: np.random.Generator) -> list[Flight] | None:
    """Flights one after the other, one for each of `choices`; None if the tour gets stuck.

    Where nothing can be said from where a flight ended, as happens with few phrases, the drone first looks
    elsewhere, and is then put elsewhere.
    """
    pose, flights = first_pose(scene, generator), []
    visited: list[int] = []
    for choice in choices:
        for attempt in range(TRIES_LOOKING + TRIES_PLACED):
            if attempt > 0:
                pose = replace(pose, heading=generator.uniform(-math.pi, math.pi))
            if attempt >= TRIES_LOOKING:
                pose = first_pose(scene, generator)
            tries = (_try_list(scene, pose, do, generator, visited[-2:]) for do in choice.draw(generator))
            flight = next((flight for flight in tries if flight is not None), None)
            if flight is not None:
                break
        else:
            return None
        flights.append(flight)
        pose = flight.end
        visited += flight.meant
    return flights
