"""Where a flight ends, as people say it: in front of the well, just past it, level with it, halfway to it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pvn.corpus.narrator.events import Event, fence_distance, side_of
from pvn.corpus.narrator.track import SPACING, Beside, Track
from pvn.paths import wrap_radians
from pvn.world.layout import FENCES

_AHEAD = math.radians(30)
_ABEAM = (math.radians(68), math.radians(112))
_MAX_SHORT = 14.0
_MAX_LEVEL = 13.0


def _is_aimed(track: Track, beside: Beside) -> bool:
    """Whether the landmark is so straight ahead at the end that flying on would lead to it."""
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
    """Half the way to something, on a path that leads straight to it from the start."""
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
    """What else is in sight of the end, or just behind it."""
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
