"""What happens on a flight: turns, things passed or curved round, water crossed, and where it ends."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from pvn.corpus.narrator.track import SPACING, Beside, Track, gaps_crossed, shore_sides
from pvn.paths import wrap_radians
from pvn.world.layout import FENCES, fence_distance

Kind = Literal[
    "turn", "leave", "bend", "pass", "both", "round", "between", "water", "shore", "along", "toward",
    "end front", "end short", "end half", "end beside", "end level", "end past", "end between", "end fence",
    "end forward", "end start", "with ahead", "with aside", "with behind", "with fence", "with water",
]  # fmt: skip
"""On the way: turn (the first turn), leave (away from what is in view), bend (not around a landmark), pass, both (two
passed on the same side), round (around a landmark), between, water (crossed), shore and along (a fence) followed,
toward. At the end: "end ..." says where to stop; "with ..." only adds what is around there."""
ON_THE_SPOT = 5.0
"""A turn back within less of the path than this counts as on the spot, metres; directions are smoothed over two."""
_AHEAD = math.radians(30)
_ABEAM = (math.radians(68), math.radians(112))
_MAX_SHORT = 14.0
_MAX_LEVEL = 13.0


@dataclass(frozen=True)
class Event:
    """Something that a description may mention."""

    kind: Kind
    at: float
    """Where on the path, metres from its start; what is true at the end is at the length of the path."""
    marks: tuple[int, ...] = ()
    """Indices of landmarks in the layout; of the two beside a gap, the left one comes first."""
    side: int = 0
    """1: to the left, or with something on the left; -1 right; 0 neither."""
    amount: str = ""
    """How much: for a turn slight, some, quarter, much or about; for a pass close, by or off; for a round dodge, bend,
    half, most or full; for a bend some, sharp, back or about (on the spot); for a thing beside the end ahead, abeam or
    behind."""
    metres: float = 0.0
    colour: str = ""
    """The fence's colour."""

    @property
    def is_turn_back(self) -> bool:
        """Whether the flight turns back here, in a curve or on the spot."""
        return self.kind == "bend" and self.amount in ("back", "about")


def side_of(angle: float) -> int:
    """1 for an angle to the left, -1 for one to the right."""
    return 1 if angle > 0 else -1


def _first_turn(track: Track) -> Event | None:
    size, side = abs(math.degrees(track.first_turn)), side_of(track.first_turn)
    if size < 18:
        return None
    for amount, most in (("slight", 36), ("some", 66), ("quarter", 112), ("much", 152), ("about", 181)):
        if size < most:
            # A turn of 180 degrees looks the same to either side.
            return Event("turn", 0.0, side=0 if size > 174 else side, amount=amount)
    return None


def _leave(track: Track, turn: Event | None) -> Iterator[Event]:
    """Turning away from what is in view: a landmark that is ahead at the start, and aside or behind afterwards."""
    if turn is None or turn.amount in ("slight", "some") or turn.side == 0:
        return
    for mark, beside in enumerate(track.beside):
        if abs(beside.start_bearing) < math.radians(14) and beside.start_distance < 22:
            yield replace(turn, kind="leave", marks=(mark,))


def _passes(track: Track) -> Iterator[Event]:
    last = len(track.points) - 1
    for mark, beside in enumerate(track.beside):
        radius, at = track.radii[mark], beside.nearest_at
        if at * SPACING < 1.5 or (last - at) * SPACING < 1.5 or beside.nearest > radius + 7.0:
            continue
        if not math.radians(55) < abs(beside.bearing_there) < math.radians(125):
            continue
        amount = "close" if beside.nearest < 1.2 * radius else "by" if beside.nearest < radius + 3.0 else "off"
        yield Event("pass", track.metres(at), (mark,), side_of(beside.bearing_there), amount, beside.nearest)


def _rounds(track: Track) -> Iterator[Event]:
    for mark, beside in enumerate(track.beside):
        swept, turned = math.degrees(beside.swept), math.degrees(beside.turned)
        if beside.curve_last - beside.curve_first < 8 or swept * turned <= 0:
            continue
        size, bent = abs(swept), abs(turned)
        amount = ""
        if size > 322 and bent > 250:
            amount = "full"
        elif 228 < size < 312 and bent > 170:
            amount = "most"
        elif 142 < size < 212 and bent > 110:
            amount = "half"
        elif 45 < size < 140 and 42 < bent < 135:
            amount = "bend"
        elif 50 < size < 140 and 16 < bent < 42 and beside.nearest < 1.35 * track.radii[mark]:
            amount = "dodge"
        if amount:
            at = track.metres((beside.curve_first + beside.curve_last) // 2)
            metres = track.metres(beside.curve_last) - at
            yield Event("round", at, (mark,), side_of(swept), amount, metres)


def _free_bends(track: Track, rounds: list[Event]) -> Iterator[Event]:
    for bend in track.bends:
        first, last = track.metres(bend.first), track.metres(bend.last)
        middle = (first + last) / 2
        if any(abs(middle - event.at) < event.metres + 2.0 and event.side == side_of(bend.turned) for event in rounds):
            continue
        size = abs(math.degrees(bend.turned))
        is_sharp = size > 60 and last - first < 7.0
        amount = "back" if 150 < size < 255 else "sharp" if is_sharp and size < 150 else "some" if size < 150 else ""
        if amount == "back" and last - first < ON_THE_SPOT:
            yield Event("bend", middle, amount="about", metres=last - first)  # as a turn of 180 degrees, to no side
        elif amount:
            yield Event("bend", middle, side=side_of(bend.turned), amount=amount, metres=last - first)


def _runs(is_true: list[bool]) -> Iterator[tuple[int, int]]:
    """First and last index of each run of true ones."""
    first = -1
    for place, now in enumerate([*is_true, False]):
        if now and first < 0:
            first = place
        elif not now and first >= 0:
            yield first, place - 1
            first = -1


def _water(track: Track) -> Iterator[Event]:
    """Crossings: over water for 1.5 m or more, from land to land or from land to where the flight ends."""
    if not track.is_wet.any():
        return
    for first, last in _runs(track.is_wet.tolist()):
        if first > 0 and (last - first) * SPACING >= 1.5:
            ends_wet = last == len(track.points) - 1
            yield Event("water", track.metres((first + last) // 2), amount="onto" if ends_wet else "across")


def _shore(track: Track) -> Iterator[Event]:
    if not track.layout.lake.any():
        return
    sides = shore_sides(track.points, track.directions, track.is_wet, track.layout.lake).tolist()
    for side in (1, -1):
        for first, last in _runs([one == side for one in sides]):
            if (last - first) * SPACING >= 7.0:
                yield Event("shore", track.metres((first + last) // 2), side=side, metres=(last - first) * SPACING)


def _betweens(track: Track) -> Iterator[Event]:
    last = len(track.points) - 1
    for place, left, right in gaps_crossed(track.points, track.directions, track.centres).tolist():
        if 1.5 <= place * SPACING and 1.5 <= (last - place) * SPACING:
            yield Event("between", track.metres(place), (left, right))


def _along(track: Track) -> Iterator[Event]:
    corners = np.array([track.points.min(axis=0), track.points.max(axis=0)])
    for colour, angle in FENCES.items():
        if fence_distance(corners, colour).min() > 5.5:  # nowhere near this fence
            continue
        off = wrap_radians(angle - track.directions)  # where the fence is, seen from the drone
        is_beside = np.abs(np.abs(off) - math.pi / 2) < math.radians(20)
        near = is_beside & (fence_distance(track.points, colour) < 5.5)
        if not near.any():
            continue
        for first, last in _runs(near.tolist()):
            if (last - first) * SPACING >= 8.0:
                middle = (first + last) // 2
                side = side_of(float(off[middle]))
                yield Event("along", track.metres(middle), side=side, metres=(last - first) * SPACING, colour=colour)


def _toward(track: Track) -> Iterator[Event]:
    """What the last straight part of the way, or all of it, leads to."""
    begin = max((bend.last for bend in track.bends), default=0)
    last = len(track.points) - 1
    if (last - begin) * SPACING < 5.0 or not track.is_straight(begin, last):
        return
    for mark, centre in enumerate(track.centres.tolist()):
        off_x, off_y = centre[0] - track.points[begin, 0], centre[1] - track.points[begin, 1]
        line = track.points[last] - track.points[begin]
        aside = abs(wrap_radians(math.atan2(off_y, off_x) - math.atan2(line[1], line[0])))
        far = math.hypot(off_x, off_y)
        if aside < math.radians(7) and track.beside[mark].end_distance < far - 4.0:
            share = track.beside[mark].end_distance / far
            yield Event("toward", track.metres(begin), (mark,), metres=share)


def way_of(track: Track) -> list[Event]:
    """What can be said about the way, in the order it happens."""
    turn = _first_turn(track)
    rounds = list(_rounds(track))
    curved = {event.marks[0] for event in rounds}
    found: list[Event] = [] if turn is None else [turn]
    found += _leave(track, turn)
    found += rounds
    found += [event for event in _passes(track) if event.marks[0] not in curved]
    found += _free_bends(track, rounds)
    found += [*_water(track), *_shore(track), *_betweens(track), *_along(track), *_toward(track)]
    found.sort(key=lambda event: event.at)
    return found


# Where a flight ends: in front of the well, just past it, level with it, halfway to it.


def _is_aimed(track: Track, beside: Beside) -> bool:
    """Whether the landmark is so nearly straight ahead at the end that flying on would lead to it."""
    return abs(beside.end_bearing) < math.radians(14) and beside.end_distance < 25


def _at_marks(track: Track) -> Iterator[Event]:
    length = track.length
    for mark, beside in enumerate(track.beside):
        radius, distance, bearing = track.radii[mark], beside.end_distance, beside.end_bearing
        edge = distance - 0.45 * radius  # a landmark's solids fill about this much of its radius
        size = abs(bearing)
        if size < _AHEAD and distance < 1.3 * radius:
            yield Event("end front", length, (mark,), metres=edge)
        elif size < math.radians(18) and edge < _MAX_SHORT and beside.start_distance > distance + 2.0:
            yield Event("end short", length, (mark,), metres=edge)
        if _ABEAM[0] < size < _ABEAM[1]:
            if distance < 1.4 * radius:
                yield Event("end beside", length, (mark,), side_of(bearing), "close", distance)
            elif distance < _MAX_LEVEL:
                yield Event("end level", length, (mark,), side_of(bearing), "off", distance)
        is_passed = 1.0 < beside.nearest_at * SPACING and beside.nearest < 1.45 * radius
        since = (len(track.points) - 1 - beside.nearest_at) * SPACING
        if is_passed and size > _ABEAM[1] and distance < radius + 5.5 and since < 8.0:
            yield Event("end past", length, (mark,), side_of(beside.bearing_there), metres=since)


def _halfway(track: Track) -> Iterator[Event]:
    """Halfway to something, on a path that leads straight to it from the start."""
    if not track.is_straight(0, len(track.points) - 1):
        return
    for mark, beside in enumerate(track.beside):
        if _is_aimed(track, beside) and 0.44 < beside.end_distance / beside.start_distance < 0.56:
            yield Event("end half", track.length, (mark,))


def _between(track: Track) -> Iterator[Event]:
    abeam = [
        (mark, beside)
        for mark, beside in enumerate(track.beside)
        if math.radians(60) < abs(beside.end_bearing) < math.radians(120)
    ]
    for left, one in abeam:
        for right, other in abeam:
            is_gap = one.end_bearing > 0 > other.end_bearing and one.end_distance + other.end_distance < 19
            across = track.centres[right] - track.centres[left]
            width = math.hypot(*across)
            if not is_gap or width < 6:
                continue
            off = track.points[-1] - track.centres[left]
            share = float(off @ across) / width**2
            aside = abs(float(off[0] * across[1] - off[1] * across[0])) / width
            if 0.27 < share < 0.73 and aside < 1.6:
                yield Event("end between", track.length, (left, right))


def _fences(track: Track) -> Iterator[Event]:
    heading = float(track.directions[-1])
    for colour, angle in FENCES.items():
        off = float(wrap_radians(angle - heading))
        distance = float(fence_distance(track.points[-1:], colour)[0])
        if abs(off) < math.radians(50) and distance < 3.6:
            yield Event("end fence", track.length, metres=distance, colour=colour)
        elif math.radians(65) < abs(off) < math.radians(115) and distance < 5.0:
            yield Event("with fence", track.length, side=side_of(off), metres=distance, colour=colour)
        elif abs(off) < math.radians(35) and distance < 9.0:
            yield Event("with fence", track.length, metres=distance, colour=colour)


def _around(track: Track) -> Iterator[Event]:
    """What else is in sight at the end, or just behind."""
    for mark, beside in enumerate(track.beside):
        size, distance = math.degrees(abs(beside.end_bearing)), beside.end_distance
        if size < 14 and distance < 22:
            yield Event("with ahead", track.length, (mark,), metres=distance)
        elif 22 < size < 60 and distance < 18:
            yield Event("with ahead", track.length, (mark,), side_of(beside.end_bearing), metres=distance)
        elif 68 < size < 112 and distance < 15:
            yield Event("with aside", track.length, (mark,), side_of(beside.end_bearing), metres=distance)
        elif size > 150 and distance < 14:
            yield Event("with behind", track.length, (mark,), metres=distance)


def _is_wet_end(track: Track) -> bool:
    return bool(track.is_wet[-4:].all())


def ends_of(track: Track) -> tuple[list[Event], list[Event]]:
    """Ways to say where the flight stops, and what else is around there."""
    fences = list(_fences(track))
    ends = [*_at_marks(track), *_halfway(track), *_between(track)]
    ends += [event for event in fences if event.kind == "end fence"]
    direct = math.hypot(*(track.points[-1] - track.points[0]))
    if track.length < min(9.0, direct + 0.5) and track.is_straight(0, len(track.points) - 1):
        ends.append(Event("end forward", track.length, metres=direct))
    if track.length > 12.0 and direct < 2.5:
        ends.append(Event("end start", track.length, metres=direct))
    extras = [*_around(track), *(event for event in fences if event.kind == "with fence")]
    if _is_wet_end(track):
        extras.append(Event("with water", track.length))
    return ends, extras
