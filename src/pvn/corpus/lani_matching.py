"""Where along its path each segment of a LANI paragraph begins and ends.

A file says where people started and stopped, not at which points of the path. The authors take the point nearest to
each stop; on a path that comes by a place twice, or where a record has a mistake, that can be the wrong one. Here all
segments of a paragraph are matched at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pvn.paths import Points

SAME_POINT = 1e-3
"""Points closer than this are one point, metres: a person who turns in place leaves many."""
_TIE = 1e-6
"""Weight of the distances from starts where they only decide between points equally near to an end."""

Indices = npt.NDArray[np.intp]
Match = tuple[int, int] | None
"""Where a segment begins and ends; None for one that is left out."""
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _Step:
    """How the cheapest matchings up to a segment were reached, for each of P places."""

    begin: Indices
    """Where the segment begins if it ends at a place."""
    is_after_gap: Mask
    """Whether, if it begins at a place, it follows one that was left out."""
    before_gap: Indices
    """Then, where the last segment before the gap ended."""
    is_wider_gap: Mask
    """Whether, if it is left out itself and the last segment before the gap ended at a place, one before it is left
    out too."""


def _places(route: Points) -> Indices:
    """The points of a route (P, 2) at which it comes to another place: the first of each turn in place."""
    firsts = [0]
    for index in range(1, len(route)):
        if np.hypot(*(route[index] - route[firsts[-1]])) > SAME_POINT:
            firsts.append(index)
    return np.array(firsts)


def _least_so_far(cost: Points) -> tuple[Points, Indices]:
    """For each of P places the least cost (P,) up to it, and the first place that has it."""
    least = np.minimum.accumulate(cost)
    is_new = np.concatenate([[True], cost[1:] < least[:-1]])
    return least, np.maximum.accumulate(np.where(is_new, np.arange(len(cost)), 0))


def match_segments(
    route: Points, starts: Points, ends: Points, may_stay: Sequence[bool], max_offset: float
) -> list[Match]:
    """First and last point on a route (P, 2) of each of S segments; None for a segment that does not fit.

    starts, ends (S, 2): where people started and stopped, NaN where a segment cannot be used; metres, field frame.
    may_stay (S,): whether a segment may end where it begins, because the person only turned; the others have to leave
    the place, so that a segment that flies a round keeps it.

    A segment begins where the one before it ended, the first one at the route's first point; after one that does not
    fit, at the point nearest to its own start. Starts and ends are at most `max_offset` from their points; a segment is
    left out if the others then fit better by twice that. Of the points that are possible for the rest, those nearest to
    the ends are taken. The points of a turn in place belong to the segment after it, as in the authors' data.
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
    """The matching of the segments with places (P, 2) that costs least.

    It costs the distances from the ends, a share of those from the starts, and `left_out` for each segment that is
    left out; segments whose start or end is NaN always are.
    """
    nowhere = np.full(len(places), np.inf)
    ended = nowhere.copy()  # costs if the last segment ended at a place
    ended[0] = 0.0
    gap = nowhere  # costs if it was left out, and the last one that was not ended there
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
