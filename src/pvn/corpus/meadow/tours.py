"""Tours: flights through a field, one after the other, each a short list of manoeuvres that make sense there."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pvn.corpus.meadow import guide_lines
from pvn.corpus.meadow.manoeuvre_checks import TURNS, Leg, is_fulfilled
from pvn.corpus.meadow.manoeuvres import IS_ON_THE_SPOT, SLOTS, Kind, Manoeuvre
from pvn.corpus.meadow.scene import Pose, Scene, in_sight, is_clear
from pvn.corpus.meadow.steering import STRIDE, every_metre, fly_along
from pvn.paths import Points, wrap_radians
from pvn.world.layout import FENCES, FIELD_SIZE

IN_VIEW = math.radians(38)
"""A little less than half the camera's view, so that what an instruction means is in the picture. Like the other angles
here, radians off the heading."""
NEARLY_IN_VIEW = math.radians(60)
OUT_OF_VIEW_SHARE = 0.1
"""Share of flights that may begin with something slightly out of view."""
AHEAD_OR_ASIDE = math.radians(90)
"""For later manoeuvres of a list: the drone turns towards the landmark without an explicit instruction."""
MAX_MENTION_DISTANCE = 20.0
"""Landmarks further away are not mentioned, metres."""
TRIES_AHEAD, TRIES_TURNING = 60, 60
"""Lists of manoeuvres tried from a pose: any, then only those that begin with a turn."""
TRIES_HEADINGS, TRIES_PLACES = 6, 6
"""Poses tried for a flight: first other headings, then other places."""
TRIES_PER_LIST = 2
TRIES_PER_MANOEUVRE = 12
MIN_PATH, MAX_PATH = 4.0, 45.0
"""Length of a flight, metres."""

Manoeuvres = tuple[Manoeuvre, ...]
"""A list of manoeuvres, in flying order."""


@dataclass(frozen=True, eq=False)
class PlannedFlight:
    """A list of manoeuvres and the path that was found for it."""

    manoeuvres: Manoeuvres
    """With the colour of the fence filled in."""
    legs: tuple[Leg, ...]
    """One for each manoeuvre."""
    meant: tuple[int, ...]
    """Indices in the layout of the landmarks A, B, C."""

    @property
    def start(self) -> tuple[float, float, float]:
        """x, y and yaw, field frame."""
        x, y = self.legs[0].points[0].tolist()
        return x, y, self.legs[0].heading_before

    @property
    def end(self) -> Pose:
        """Where it ends and the next flight begins."""
        x, y = self.legs[-1].points[-1].tolist()
        return Pose(x, y, self.legs[-1].heading_after)

    @property
    def turned_to(self) -> float | None:
        """Heading after the turn on the spot at its end, radians, field frame; None if there is no such turn."""
        return self.end.heading if IS_ON_THE_SPOT[self.manoeuvres[-1].kind] else None

    @functools.cached_property
    def path(self) -> tuple[Points, tuple[int, ...]]:
        """Points (P, 2), field frame, a metre apart, and the index of the point at which each manoeuvre ends."""
        parts, stops, count = [self.legs[0].points[:1]], [], 1
        for leg in self.legs:
            part = every_metre(leg.points) if len(leg.points) > 1 else leg.points[:0]
            parts.append(part)
            count += len(part)
            stops.append(count - 1)
        return np.concatenate(parts), tuple(stops)


class _Planner:
    """Chooses landmarks for the slots of one list of manoeuvres and finds its path; used for one try."""

    def __init__(self, scene: Scene, pose: Pose, generator: np.random.Generator, visited: Sequence[int]) -> None:
        self.scene, self.pose, self.generator = scene, pose, generator
        self.visited = visited
        self.meant: dict[str, int] = {}

    def _candidates(self, manoeuvre: Manoeuvre, limit: float) -> list[tuple[int, ...]]:
        """Landmarks that the manoeuvre could mean: those in its slots already, or any in view."""
        bound = tuple(self.meant[slot] for slot in manoeuvre.slots if slot in self.meant)
        if len(bound) == len(manoeuvre.slots):
            return [bound]
        scene, pose, taken = self.scene, self.pose, set(self.meant.values())
        least, far = 0.0, MAX_MENTION_DISTANCE
        if manoeuvre.kind == "between":
            return self._pairs(manoeuvre, limit)
        if manoeuvre.kind == "face":
            least, limit, far = math.radians(42), 2 * math.pi, math.inf
        # People mention what comes next on the way, rarely a place they have just visited.
        if manoeuvre.kind != "face":
            taken.update(self.visited)
        seen = in_sight(scene.centres, pose.x, pose.y, pose.heading, least, limit, far)
        return [(mark,) for mark in seen.tolist() if mark not in taken]

    def may_begin(self, manoeuvre: Manoeuvre) -> bool:
        """Whether there is anything that a first manoeuvre could mean; mostly there is not."""
        return not manoeuvre.slots or bool(self._candidates(manoeuvre, NEARLY_IN_VIEW))

    def _pairs(self, manoeuvre: Manoeuvre, limit: float) -> list[tuple[int, ...]]:
        """Pairs of landmarks in view with a gap ahead, which agree with the slots that are filled already."""
        scene, pose = self.scene, self.pose
        ahead = in_sight(scene.middles, pose.x, pose.y, pose.heading, 0.0, limit, MAX_MENTION_DISTANCE)
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
        """Colour of one of the two fences that are most nearly straight ahead."""
        first, second, *_ = sorted(FENCES, key=lambda colour: -math.cos(FENCES[colour] - self.pose.heading))
        return first if self.generator.random() < 0.7 else second

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
            return line if line is not None and abs(pose.bearings(line[-1])) < limit else None
        if abs(pose.bearings(lake.centre)) >= limit:
            return None
        if manoeuvre.kind == "lake pass":
            return guide_lines.past_lake(lake, pose, manoeuvre.side, generator)
        return guide_lines.around_lake(lake, pose, manoeuvre.side, generator)

    def _turn(self, manoeuvre: Manoeuvre, marks: tuple[int, ...]) -> Leg:
        pose = self.pose
        if manoeuvre.kind == "face":
            off = pose.offsets(self.scene.centres[marks[0]])
            after = math.atan2(off[1], off[0]) + self.generator.uniform(-0.06, 0.06)
        else:
            after = pose.heading + TURNS[manoeuvre.detail] + self.generator.uniform(-0.14, 0.14)
        return Leg(np.array([(pose.x, pose.y)]), pose.heading, after)

    def _steer(self, manoeuvre: Manoeuvre, guide: Points) -> Leg | None:
        if len(guide) < 4 or not is_clear(guide[2:], self.scene.centres, self.scene.solids):
            return None
        points, after = fly_along(guide, self.pose.heading, self.generator, turns_first=manoeuvre.kind == "toward")
        if not len(points) or not is_clear(points[1:], self.scene.centres, self.scene.solids):
            return None
        return Leg(points, self.pose.heading, wrap_radians(after))

    def _fly_one(self, manoeuvre: Manoeuvre, limit: float) -> Leg | None:
        options = self._candidates(manoeuvre, limit) if manoeuvre.slots else [()]
        if len(options) > 1:
            options = [options[choice] for choice in self.generator.permutation(len(options)).tolist()]
        for marks in options[:TRIES_PER_MANOEUVRE]:
            if IS_ON_THE_SPOT[manoeuvre.kind]:
                leg: Leg | None = self._turn(manoeuvre, marks)
            else:
                guide = self._guide(manoeuvre, marks, limit)
                leg = None if guide is None else self._steer(manoeuvre, guide)
            meant = self.meant | dict(zip(manoeuvre.slots, marks, strict=True))
            if leg is not None and is_fulfilled(manoeuvre, leg, self.scene, meant):
                self.meant = meant
                end = leg.points[-1].tolist()
                self.pose = Pose(end[0], end[1], leg.heading_after)
                return leg
        return None

    def fly(self, manoeuvres: Manoeuvres) -> PlannedFlight | None:
        """The flight, or None if the manoeuvres make no sense from here."""
        is_lax = self.generator.random() < OUT_OF_VIEW_SHARE
        limit = NEARLY_IN_VIEW if is_lax else IN_VIEW
        chosen, paths = [], []
        for manoeuvre in manoeuvres:
            if manoeuvre.detail == "COLOR":
                manoeuvre = replace(manoeuvre, detail=self._fence_ahead())
            leg = self._fly_one(manoeuvre, limit)
            if leg is None:
                return None
            chosen.append(manoeuvre)
            paths.append(leg)
            limit = IN_VIEW if IS_ON_THE_SPOT[manoeuvre.kind] else AHEAD_OR_ASIDE
        meant = tuple(self.meant[slot] for slot in SLOTS if slot in self.meant)
        return PlannedFlight(tuple(chosen), tuple(paths), meant)


def fly_from(
    scene: Scene, pose: Pose, manoeuvres: Manoeuvres, generator: np.random.Generator, visited: Sequence[int] = ()
) -> PlannedFlight | None:
    """A flight for one list of manoeuvres from a pose; None if it makes no sense there or this try found no path."""
    return _Planner(scene, pose, generator, visited).fly(manoeuvres)


def _length(flight: PlannedFlight) -> float:
    return sum(STRIDE * (len(leg.points) - 1) for leg in flight.legs)


def first_pose(scene: Scene, generator: np.random.Generator) -> Pose:
    """Where a tour begins: beside a landmark, as in LANI, facing the field rather than the nearest fence."""
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
    scene: Scene,
    pose: Pose,
    manoeuvres: Manoeuvres,
    generator: np.random.Generator,
    visited: Sequence[int],
    may_begin: dict[Kind, bool],
) -> PlannedFlight | None:
    """A flight for one list, found in as many tries as it has; None if there is none.

    may_begin: whether a first manoeuvre of a kind could mean anything here; this is added to it.
    """
    if scene.lake is None and any(manoeuvre.kind.startswith("lake") for manoeuvre in manoeuvres):
        return None
    first = manoeuvres[0]
    if first.kind not in may_begin:
        may_begin[first.kind] = _Planner(scene, pose, generator, visited).may_begin(first)
    if not may_begin[first.kind]:
        generator.random(TRIES_PER_LIST)  # drawn as if each try had begun
        return None
    # A rare list would hardly ever succeed if it had only one try.
    for _ in range(TRIES_PER_LIST):
        flight = fly_from(scene, pose, manoeuvres, generator, visited)
        if flight is not None and MIN_PATH <= _length(flight) <= MAX_PATH:
            return flight
    return None


def _upper_limits(shares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Cumulative sums (D,) of shares (D,), scaled to end at 1."""
    limits = shares.cumsum()
    return limits / limits[-1]


@dataclass(frozen=True, eq=False)
class ManoeuvreChoice:
    """The lists of manoeuvres to choose from for a flight."""

    lists: tuple[Manoeuvres, ...]
    shares: npt.NDArray[np.float64]
    """How often (D,) each list is tried."""

    def draw(self, generator: np.random.Generator) -> Iterator[Manoeuvres]:
        """Lists to try one after the other; the last ones begin with a turn, since there may be nothing ahead."""
        # What `generator.choice` draws; it would check the shares each time.
        for place in self._limits.searchsorted(generator.random(TRIES_AHEAD), side="right").tolist():
            yield self.lists[place]
        if self._turning_limits is not None:
            for place in self._turning_limits.searchsorted(generator.random(TRIES_TURNING), side="right").tolist():
                yield self.lists[place]

    @functools.cached_property
    def _limits(self) -> npt.NDArray[np.float64]:
        return _upper_limits(self.shares)

    @functools.cached_property
    def _turning_limits(self) -> npt.NDArray[np.float64] | None:
        """The limits if only lists that begin with a turn may be drawn; None if there are none."""
        turns = np.array([IS_ON_THE_SPOT[manoeuvres[0].kind] for manoeuvres in self.lists])
        shares = np.where(turns, self.shares, 0.0)
        if not shares.any():
            return None
        return _upper_limits(shares / shares.sum())


def fly_tour(
    scene: Scene, choices: Sequence[ManoeuvreChoice], generator: np.random.Generator
) -> list[PlannedFlight] | None:
    """Flights that follow each other, one for each of `choices`; None if the tour gets stuck.

    If nothing can be flown from where a flight ended, as happens with few phrases, the next flight starts there with
    another heading, or else at another place.
    """
    pose, flights = first_pose(scene, generator), []
    visited: list[int] = []
    for choice in choices:
        for attempt in range(TRIES_HEADINGS + TRIES_PLACES):
            if attempt > 0:
                pose = replace(pose, heading=generator.uniform(-math.pi, math.pi))
            if attempt >= TRIES_HEADINGS:
                pose = first_pose(scene, generator)
            may_begin: dict[Kind, bool] = {}
            lists = choice.draw(generator)
            tries = (_try_list(scene, pose, each, generator, visited[-2:], may_begin) for each in lists)
            flight = next((flight for flight in tries if flight is not None), None)
            if flight is not None:
                break
        else:
            return None
        flights.append(flight)
        pose = flight.end
        visited += flight.meant
    return flights
