"""One LANI record: read, converted to metres, and cut into demonstrations along its path.

A record is a paragraph: parallel lists with one entry per segment. Positions are Unity units (225 to 275 across the
field) where a person flew, and config units (0 to 1000) in drif's synthetic set; the file does not say which.

Nor does it say at which points of the path people started and stopped. The authors take the point nearest to each stop,
which can be wrong where a path passes the same place twice or a record has a mistake. Here all segments of a paragraph
are matched with the path at once.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pvn.paths import Points
from pvn.world.landmarks import METRES_PER_CONFIG
from pvn.world.layout import FIELD_SIZE, Layout
from pvn.world.task import Demonstration, Task

UNITY_ORIGIN = 225.0
"""Unity coordinate of the field's west and south edges; a Unity unit is a metre."""
MAX_OFFSET = 5.0
"""How far a segment's start and end may be from their points on the path, metres: a flight that stops this close to
its goal succeeds."""
MARGIN = 1.0
"""How far outside the field a start, an end or a path may be, metres."""
MIN_STEPS = 2
"""Segments with fewer path steps are skipped, as the authors do everywhere."""
SAME_POINT = 1e-3
"""Points closer than this count as one, metres: a person who turns in place leaves many."""
_TIE = 1e-6
"""Weight of the distances from starts, where they only break ties between points equally near an end."""

Goal = Literal["path", "person"]
"""Where a segment's goal is: at the nearest point of the path (drif), or where the person stopped (CIFF)."""
Indices = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
Match = tuple[int, int] | None
"""The points of the path at which a segment begins and ends; None for a segment that is left out."""

_COORDINATES = ("start_x", "start_z", "start_rot", "end_x", "end_z")


class Unusable(ValueError):
    """Why a record or segment cannot be used: "kind of reason: details"."""


@dataclass(frozen=True, eq=False)
class Paragraph:
    """One record with S segments; metres and radians, field frame."""

    instructions: tuple[Any, ...]
    """(S,), as in the file."""
    starts: Points
    """(S, 3): x, y, yaw; NaN where the file has no number."""
    ends: Points
    """(S, 2): x, y."""
    is_turning: tuple[bool, ...]
    """(S,): whether the person only turned in place."""
    repair: str
    """What was repaired on reading; usually empty."""


def environment_number(record: dict[str, Any]) -> int:
    """The record's environment; LANI writes it as a string, CIFF's synthetic set as a number."""
    value = record.get("id")
    text = str(value) if type(value) is int else value.strip() if isinstance(value, str) else ""
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise Unusable(f'no environment number: id: got {reprlib.repr(value)}, expected a number such as "12" or 12')
    return int(text)


def _parallel(record: dict[str, Any], key: str, length: int) -> list[Any]:
    values = record.get(key)
    if not isinstance(values, list):
        raise Unusable(f"missing list: {key}: got {reprlib.repr(values)}, expected a list of {length} values")
    if len(values) != length:
        raise Unusable(
            f"lists of unequal length: {key}: got {len(values)} values, expected {length} as in instructions"
        )
    return values


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _is_in_unity_field(values: Points) -> Mask:
    offset = values - UNITY_ORIGIN
    return (offset >= -MARGIN) & (offset <= FIELD_SIZE + MARGIN)


def _is_unity(values: Points, has_moves: bool) -> bool:
    """Whether positions are Unity units, judged by their range or, where that is unclear, by whether there are moves.

    If all of them are in 225..275, they are: in config units they would span 2.5 m, less than any paragraph. If most
    are outside, they are config units. In between, some may be mistakes, or in range by chance.
    """
    values = values[np.isfinite(values)]
    share = _is_in_unity_field(values).mean() if len(values) else 0.5
    return bool(share == 1 or (has_moves and share >= 0.5))


def _to_metres(values: Points, is_unity: bool) -> Points:
    return values - UNITY_ORIGIN if is_unity else values * METRES_PER_CONFIG


def read_paragraph(record: dict[str, Any]) -> Paragraph:
    """The record's lists in metres; what is not a number becomes NaN, and its segment is refused later."""
    if record.get("valid", True) is not True:
        raise Unusable(f"marked as not valid: valid: got {reprlib.repr(record['valid'])}, expected true")
    instructions = record.get("instructions")
    if not isinstance(instructions, list) or not instructions:
        raise Unusable(f"no instructions: instructions: got {reprlib.repr(instructions)}, expected a list of texts")
    # A text of F, L and R for each segment; drif's synthetic set has none.
    moves = _parallel(record, "moves", len(instructions)) if record.get("moves", []) != [] else []
    if not all(isinstance(move, str) for move in moves):
        raise Unusable(f'moves are not text: moves: got {reprlib.repr(moves)}, expected texts such as "FFLF"')
    columns = [_parallel(record, key, len(instructions)) for key in _COORDINATES]
    numbers = np.array([[_number(value) for value in column] for column in columns]).T  # (S, 5)
    positions = numbers[:, [0, 1, 3, 4]]
    is_unity = _is_unity(positions, bool(moves))
    repair = ""
    if is_unity != bool(moves):
        said, found = ("Unity", "config") if moves else ("config", "Unity")
        repair = f"moves say that positions are {said} units, their range says {found} units: read as {found} units"
    metres = _to_metres(positions, is_unity)
    # Unity counts degrees clockwise from north.
    yaw = [
        math.remainder(math.pi / 2 - math.radians(rot), 2 * math.pi) if math.isfinite(rot) else math.nan
        for rot in numbers[:, 2].tolist()
    ]
    return Paragraph(
        instructions=tuple(instructions),
        starts=np.column_stack([metres[:, :2], yaw]),
        ends=metres[:, 2:],
        is_turning=tuple("F" not in move for move in moves or ["F"] * len(instructions)),
        repair=repair,
    )


def route_in_metres(route: Points, start: Points) -> Points:
    """A route (P, 2) that was read as config units, in metres; `start` (2,) is where its paragraph starts.

    CIFF's synthetic paths are Unity units, so all their points are in 225..275. A route in config units looks like that
    only if it stays within 2.5 m; the paragraph's start decides between the two.
    """
    values = route / METRES_PER_CONFIG
    if not _is_in_unity_field(values).all():
        return route
    from_unity = _to_metres(values, is_unity=True)
    return route if math.dist(route[0], start) < math.dist(from_unity[0], start) else from_unity


def offsets(paragraph: Paragraph, route: Points) -> Points:
    """Distances (N,) from the route (P, 2) to the N ends that are numbers, metres."""
    ends = paragraph.ends[np.isfinite(paragraph.ends).all(-1)]
    return np.hypot(*(ends[:, None] - route).transpose(2, 0, 1)).min(-1)


# Matching segments with the path.


@dataclass(frozen=True)
class _Step:
    """How the cheapest matchings up to a segment were reached, for each of P places."""

    begin: Indices
    """Where the segment begins if it ends at a place."""
    is_after_gap: Mask
    """Whether a segment that begins at a place follows one that was left out."""
    before_gap: Indices
    """In that case, where the last segment before the gap ended."""
    is_wider_gap: Mask
    """If this segment is left out and the last one before the gap ended at a place: whether the one before this is left
    out too."""


def _places(route: Points) -> Indices:
    """The points of a route (P, 2) at which it reaches another place: the first point of each turn in place."""
    firsts = [0]
    for index in range(1, len(route)):
        if np.hypot(*(route[index] - route[firsts[-1]])) > SAME_POINT:
            firsts.append(index)
    return np.array(firsts)


def _least_so_far(cost: Points) -> tuple[Points, Indices]:
    """For each of P places the least cost (P,) up to it, and the first place that has this cost."""
    least = np.minimum.accumulate(cost)
    is_new = np.concatenate([[True], cost[1:] < least[:-1]])
    return least, np.maximum.accumulate(np.where(is_new, np.arange(len(cost)), 0))


def match_segments(
    route: Points, starts: Points, ends: Points, may_stay: Sequence[bool], max_offset: float
) -> list[Match]:
    """First and last point on a route (P, 2) of each of S segments; None for a segment that does not fit.

    starts, ends (S, 2): where people started and stopped, metres, field frame; NaN where a segment cannot be used.
    may_stay (S,): whether a segment may end where it begins, because the person only turned. The others have to leave
    the place, so that a segment that flies a full round keeps it.

    A segment begins where the one before it ended, the first one at the route's first point; after a segment that does
    not fit, at the point nearest to its own start. Starts and ends are at most `max_offset` from their points. A
    segment is left out if that lets the others fit better by twice this distance. Among the points that suit the other
    segments, those nearest to the ends are taken. The points of a turn in place belong to the next segment, as in LANI.
    """
    firsts = _places(route)
    places = route[firsts]
    chosen = _cheapest(places, starts, ends, may_stay, max_offset, start_share=1.0, left_out=2 * max_offset)
    fits = np.array([match is not None for match in chosen], dtype=bool)[:, None]
    starts, ends = np.where(fits, starts, np.nan), np.where(fits, ends, np.nan)
    matches = _cheapest(places, starts, ends, may_stay, max_offset, start_share=_TIE, left_out=0.0)
    return [None if match is None else (int(firsts[match[0]]), int(firsts[match[1]])) for match in matches]


def _cheapest(
    places: Points,
    starts: Points,
    ends: Points,
    may_stay: Sequence[bool],
    max_offset: float,
    *,
    start_share: float,
    left_out: float,
) -> list[Match]:
    """The cheapest matching of the segments with places (P, 2).

    Its cost is the sum of the distances from the ends, a share of the distances from the starts, and `left_out` for
    each segment that is left out; segments whose start or end is NaN always are.
    """
    nowhere = np.full(len(places), np.inf)
    ended = nowhere.copy()  # costs if the last segment ended at a place
    ended[0] = 0.0
    gap = nowhere  # costs if the last segment was left out, and the last one that was not ended there
    steps = []
    for start, end, stays in zip(starts, ends, may_stay, strict=True):
        to_start, to_end = (np.hypot(*(places - place).T) for place in (start, end))
        after_gap, before_gap = _least_so_far(gap)
        begin_cost = np.minimum(ended, after_gap)
        begin_cost = begin_cost + np.where(to_start <= max_offset, start_share * to_start, np.inf)
        cost, begin = _least_so_far(begin_cost)
        if not stays:
            cost, begin = np.concatenate([[np.inf], cost[:-1]]), np.concatenate([[0], begin[:-1]])
        steps.append(_Step(begin, after_gap < ended, before_gap, gap < ended))
        is_usable = bool(np.isfinite(to_start + to_end).all())
        can_be_left_out = left_out > 0 or not is_usable
        ended, gap = (
            cost + np.where(to_end <= max_offset, to_end, np.inf),
            np.minimum(ended, gap) + left_out if can_be_left_out else nowhere,
        )
    return _trace_back(steps, ended, gap)


def _trace_back(steps: Sequence[_Step], ended: Points, gap: Points) -> list[Match]:
    """The cheapest matching, followed from its end."""
    is_gap = bool(gap.min() < ended.min())
    place = int((gap if is_gap else ended).argmin())
    matched: list[Match] = []
    for step in reversed(steps):
        if is_gap:
            matched.append(None)
            is_gap = bool(step.is_wider_gap[place])
        else:
            begin = int(step.begin[place])
            matched.append((begin, place))
            is_gap = bool(step.is_after_gap[begin])
            place = int(step.before_gap[begin]) if is_gap else begin
    return matched[::-1]


# Cutting the path into demonstrations.


def _without_repetitions(points: Points) -> Points:
    kept = [points[-1]]
    for point in points[-2::-1]:
        if math.dist(point, kept[-1]) > SAME_POINT:
            kept.append(point)
    return np.array(kept[::-1])


def _check_inside(name: str, points: Points) -> None:
    outside = np.maximum(-points, points - FIELD_SIZE).max(axis=-1)
    if outside.max() > MARGIN:
        x, y = points[outside.argmax()].tolist()
        raise Unusable(
            f"outside the field: {name}: got ({x:.2f}, {y:.2f}) m, expected at most {MARGIN:g} m outside 0 to "
            f"{FIELD_SIZE:g}"
        )


def _check_places(paragraph: Paragraph, row: int) -> None:
    start, end = paragraph.starts[row], paragraph.ends[row]
    if not (np.isfinite(start).all() and np.isfinite(end).all()):
        got = ", ".join(f"{number:g}" for number in (*start, *end))
        raise Unusable(
            f"coordinates that are not numbers: start x, y, yaw and end x, y: got {got}, expected finite ones"
        )
    _check_inside("start", start[None, :2])
    _check_inside("end", end[None])


def _instruction(value: Any) -> str:
    if not isinstance(value, str):
        raise Unusable(f"instruction is not text: got {reprlib.repr(value)}, expected a text")
    if not any(letter.isalnum() for letter in value):
        raise Unusable(f"empty instruction: got {reprlib.repr(value)}, expected words")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Unusable(f"instruction is not text: got {reprlib.repr(value)}, half a character") from None
    return value.strip()


def _demonstration(paragraph: Paragraph, row: int, layout: Layout, path: Points, goal: Goal) -> Demonstration:
    instruction = _instruction(paragraph.instructions[row])
    points = _without_repetitions(path)
    if len(path) <= MIN_STEPS or len(points) < 2:
        raise Unusable(f"fewer than {MIN_STEPS} path steps: got {len(path) - 1}; the authors skip such segments")
    _check_inside("path", points)
    if goal == "person":
        points = _without_repetitions(np.concatenate([points, paragraph.ends[row, None]]))
    x, y, yaw = paragraph.starts[row].tolist()
    return Demonstration(Task(layout, (x, y, yaw), instruction), points)


def _misfit(paragraph: Paragraph, row: int, route: Points, begin: int | None, max_offset: float) -> Unusable:
    """Why a segment was not matched.

    begin: the route's point at which the segment before it ended, None if that was not matched either.
    """
    to_start, to_end = (np.hypot(*(route - place).T) for place in (paragraph.starts[row, :2], paragraph.ends[row]))
    from_start = float(to_start.min() if begin is None else to_start[begin])
    for name, offset in (("start", from_start), ("end", float(to_end.min()))):
        if offset > max_offset:
            return Unusable(
                f"{name} far from the path: got {offset:.2f} m from its point, expected at most {max_offset:g} m"
            )
    return Unusable(
        "out of order on the path: its end is near no point between the segments before and after it, expected them in "
        "order"
    )


def cut_route(
    paragraph: Paragraph, layout: Layout, route: Points, *, max_offset: float = MAX_OFFSET, goal: Goal = "path"
) -> Iterator[Demonstration | Unusable]:
    """The paragraph's segments in order, each a demonstration or the reason why there is none; route (P, 2), metres.

    A segment's path runs from where the previous one ended to the route's point nearest to its own end, which may be
    `max_offset` away; goal "person": and on to where the person stopped.
    """
    problems: list[Unusable | None] = []
    for row in range(len(paragraph.instructions)):
        try:
            _check_places(paragraph, row)
            problems.append(None)
        except Unusable as reason:
            problems.append(reason)
    is_usable = np.array([problem is None for problem in problems])[:, None]
    starts, ends = (np.where(is_usable, places, np.nan) for places in (paragraph.starts[:, :2], paragraph.ends))
    begin: int | None = 0
    matches = match_segments(route, starts, ends, paragraph.is_turning, max_offset)
    for row, (problem, match) in enumerate(zip(problems, matches, strict=True)):
        try:
            if match is None:
                raise problem or _misfit(paragraph, row, route, begin, max_offset)
            yield _demonstration(paragraph, row, layout, route[match[0] : match[1] + 1], goal)
        except Unusable as reason:
            yield reason
        begin = None if match is None else match[1]
