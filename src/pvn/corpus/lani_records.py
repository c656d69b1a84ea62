"""One annotation record of LANI: read, converted to metres, and cut into demonstrations along its path.

A record is a paragraph: parallel lists with one entry per segment. Its positions are Unity units (225 to 275 across the
field) if a person flew, and config units (0 to 1000) in drif's synthetic set; nothing in the file says which. What
cannot be used is reported as `Unusable`, with the reason; the rest of the record is used.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pvn.corpus.lani_matching import SAME_POINT, match_segments
from pvn.paths import Points
from pvn.world.landmarks import METRES_PER_CONFIG
from pvn.world.layout import FIELD_SIZE, Layout
from pvn.world.task import Demonstration, Task

UNITY_ORIGIN = 225.0
"""Unity coordinate of the field's west and south edges; a Unity unit is a metre."""
MAX_OFFSET = 5.0
"""How far a segment's start and end may be from the path points they belong to, metres: as far as a flight may stop
from its goal."""
MARGIN = 1.0
"""How far outside the field a start, an end or a path may be, metres."""
MIN_STEPS = 2
"""Segments with fewer path steps are skipped, as the authors do everywhere."""

Goal = Literal["path", "person"]
"""Where a segment's goal is: at the path's point (as in drif), or where the person stopped (as in CIFF)."""

_COORDINATES = ("start_x", "start_z", "start_rot", "end_x", "end_z")


class Unusable(ValueError):
    """A record or segment that cannot be used: the kind of reason, for counting, and the details."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind = kind


@dataclass(frozen=True, eq=False)
class Paragraph:
    """One record with S segments; metres and radians, field frame."""

    instructions: tuple[Any, ...]
    """(S,), as in the file."""
    coordinates: tuple[tuple[Any, ...], ...]
    """(S, 5), as in the file: start_x, start_z, start_rot, end_x, end_z."""
    starts: Points
    """(S, 3): x, y, yaw; NaN where the file has no number."""
    ends: Points
    """(S, 2): x, y."""
    is_turning: tuple[bool, ...]
    """(S,): whether the person only turned in place."""
    repair: str
    """What was repaired while reading it; usually empty."""


def environment_number(record: dict[str, Any]) -> int:
    """The record's environment; LANI writes it as a string, CIFF's synthetic set as a number."""
    value = record.get("id")
    text = str(value) if type(value) is int else value.strip() if isinstance(value, str) else ""
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise Unusable("no environment number", f'id: got {reprlib.repr(value)}, expected a number such as "12" or 12')
    return int(text)


def _parallel(record: dict[str, Any], key: str, length: int) -> list[Any]:
    values = record.get(key)
    if not isinstance(values, list):
        raise Unusable("missing list", f"{key}: got {reprlib.repr(values)}, expected a list of {length} values")
    if len(values) != length:
        raise Unusable(
            "lists of unequal length", f"{key}: got {len(values)} values, expected {length} as in instructions"
        )
    return values


def _moves(record: dict[str, Any], length: int) -> list[str]:
    """One text of F, L and R for each segment; none in drif's synthetic set."""
    if record.get("moves", []) == []:
        return []
    moves = _parallel(record, "moves", length)
    if not all(isinstance(move, str) for move in moves):
        raise Unusable("moves are not text", f'moves: got {reprlib.repr(moves)}, expected texts such as "FFLF"')
    return moves


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _is_in_unity_field(values: Points) -> npt.NDArray[np.bool_]:
    offset = values - UNITY_ORIGIN
    return (offset >= -MARGIN) & (offset <= FIELD_SIZE + MARGIN)


def _is_unity(values: Points, has_moves: bool) -> bool:
    """Whether positions are Unity units, judged by their range, or if that is unclear, by whether there are moves.

    If all positions are in 225..275 they are Unity units: as config units they would span 2.5 m, less than any
    paragraph. If most are outside, they are config units. In between, some may be mistakes or in range by chance.
    """
    values = values[np.isfinite(values)]
    share = _is_in_unity_field(values).mean() if len(values) else 0.5
    if share == 1:
        return True
    return has_moves and bool(share >= 0.5)


def _to_metres(values: Points, is_unity: bool) -> Points:
    return values - UNITY_ORIGIN if is_unity else values * METRES_PER_CONFIG


def read_paragraph(record: dict[str, Any]) -> Paragraph:
    """The record's lists in metres; what is not a number becomes NaN, and its segment is refused later."""
    if record.get("valid", True) is not True:
        raise Unusable("marked as not valid", f"valid: got {reprlib.repr(record['valid'])}, expected true")
    instructions = record.get("instructions")
    if not isinstance(instructions, list) or not instructions:
        raise Unusable("no instructions", f"instructions: got {reprlib.repr(instructions)}, expected a list of texts")
    moves = _moves(record, len(instructions))
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
        coordinates=tuple(zip(*columns, strict=True)),
        starts=np.column_stack([metres[:, :2], yaw]),
        ends=metres[:, 2:],
        is_turning=tuple("F" not in move for move in moves or ["F"] * len(instructions)),
        repair=repair,
    )


def route_in_metres(route: Points, start: Points) -> Points:
    """A route (P, 2) that was read as config units, in metres; `start` (2,) is where its paragraph starts.

    CIFF's synthetic paths are Unity units, so all their points are in 225..275. A route in config units can only look
    like that if it stays within 2.5 m; the paragraph's start decides between the two.
    """
    values = route / METRES_PER_CONFIG
    if not _is_in_unity_field(values).all():
        return route
    from_unity = _to_metres(values, is_unity=True)
    return route if math.dist(route[0], start) < math.dist(from_unity[0], start) else from_unity


def _without_repetitions(points: Points) -> Points:
    """The points without repetitions; the last one, the goal, is kept exactly."""
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
            "outside the field",
            f"{name}: got ({x:.2f}, {y:.2f}) m, expected at most {MARGIN:g} m outside 0 to {FIELD_SIZE:g}",
        )


def _check_places(paragraph: Paragraph, row: int) -> None:
    start, end = paragraph.starts[row], paragraph.ends[row]
    if not (np.isfinite(start).all() and np.isfinite(end).all()):
        got = ", ".join(map(reprlib.repr, paragraph.coordinates[row]))
        raise Unusable(
            "coordinates that are not numbers", f"{', '.join(_COORDINATES)}: got {got}, expected finite ones"
        )
    _check_inside("start", start[None, :2])
    _check_inside("end", end[None])


def _instruction(value: Any) -> str:
    if not isinstance(value, str):
        raise Unusable("instruction is not text", f"got {reprlib.repr(value)}, expected a text")
    if not any(letter.isalnum() for letter in value):
        raise Unusable("empty instruction", f"got {reprlib.repr(value)}, expected words")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Unusable("instruction is not text", f"got {reprlib.repr(value)}, half a character") from None
    return value.strip()


def _demonstration(paragraph: Paragraph, row: int, layout: Layout, path: Points, goal: Goal) -> Demonstration:
    instruction = _instruction(paragraph.instructions[row])
    points = _without_repetitions(path)
    if len(path) <= MIN_STEPS or len(points) < 2:
        raise Unusable("fewer than 2 path steps", f"got {len(path) - 1}; the authors skip such segments")
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
                f"{name} far from the path", f"got {offset:.2f} m from its point, expected at most {max_offset:g} m"
            )
    return Unusable(
        "out of order on the path",
        "its end is near no point between those of the segments before and after it, expected them one after the other",
    )


def offsets(paragraph: Paragraph, route: Points) -> Points:
    """How far each end is from the route (P, 2), metres (N,), of the N segments whose ends are numbers."""
    ends = paragraph.ends[np.isfinite(paragraph.ends).all(-1)]
    return np.hypot(*(ends[:, None] - route).transpose(2, 0, 1)).min(-1)


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
