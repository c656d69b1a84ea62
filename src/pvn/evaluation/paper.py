"""The paper's results table, how far its ablations are from PVN, and which of its orders hold in results of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from pvn.evaluation.pairing import Difference, Runs, difference_of, runs_by_row
from pvn.evaluation.summary import Summary
from pvn.systems import SYSTEMS, PaperRow

SOURCE = "Blukis, Misra, Knepper, Artzi: CoRL 2018, table 1"
GAP = 3.0
"""Points of success rate by which systems of the paper must differ for their order to mean something."""

Verdict = Literal["holds", "undecided", "reversed"]

COMPARED = tuple(name for name, system in SYSTEMS.items() if "test" in system.paper)
"""Systems of the table's first part, which fly both splits here."""
ANALYSED = tuple(name for name, system in SYSTEMS.items() if system.paper and name not in COMPARED)
"""Systems of its second part, which fly the development split."""
TABLE: tuple[tuple[str, str], ...] = (
    *((name, "test") for name in COMPARED),
    *((name, "dev") for name in (*COMPARED, *ANALYSED)),
)
"""Every row of our table, in its order: the paper's, and the first part's systems on the development split."""


def paper_row(system: str, split: str) -> PaperRow | None:
    """What the paper reports of a system on a split; None if nothing, or if the system is not in its table."""
    return SYSTEMS[system].paper.get(split) if system in SYSTEMS else None


@dataclass(frozen=True)
class Comparison:
    """Two systems of the paper's table, how far apart they are there, and here."""

    split: str
    first: str
    second: str
    paper_gap: float
    """By how many points of success rate the first is better than the second in the paper."""
    difference: Difference
    """The same here."""
    verdict: Verdict
    """holds or reversed if the paired 95% interval of the difference excludes 0, else undecided. Where there is no
    paired interval, the two systems' own intervals must not overlap."""


def _sign(first: Runs, second: Runs, difference: Difference) -> int:
    """1 if the first system is better, -1 if it is worse, 0 if that is undecided."""
    if difference.interval is not None:
        low, high = difference.interval.interval or (0.0, 0.0)
        return int(low > 0) - int(high < 0)
    ours, theirs = (next(iter(runs.values())).overall.sr.interval for runs in (first, second))
    if ours is None or theirs is None:  # too few fields
        return 0
    return int(ours[0] > theirs[1]) - int(ours[1] < theirs[0])


def _compare(rows: Mapping[tuple[str, str], Runs], first: tuple[str, str], second: tuple[str, str]) -> Comparison:
    """Two rows of the table, both of one split."""
    theirs = [reported.sr for row in (first, second) if (reported := paper_row(*row)) is not None]
    paper_gap = theirs[0] - theirs[1]
    difference = difference_of(rows[first], rows[second])
    sign = _sign(rows[first], rows[second], difference)
    verdict: Verdict = "undecided" if sign == 0 else "holds" if sign * paper_gap > 0 else "reversed"
    return Comparison(first[1], first[0], second[0], paper_gap, difference, verdict)


def _rows(by_seed: Mapping[int, Sequence[Summary]]) -> dict[tuple[str, str], dict[int, Summary]]:
    """What was flown of the rows that the paper has, in the table's order."""
    flown = runs_by_row(by_seed)
    return {row: flown[row] for row in TABLE if row in flown and paper_row(*row) is not None}


def compare_orderings(by_seed: Mapping[int, Sequence[Summary]]) -> list[Comparison]:
    """Pairs of systems, both flown here, that the paper's success rates on one split put more than GAP apart.

    The first is the better one in the paper. by_seed: results by the seed of the training runs.
    """
    rows, found = _rows(by_seed), []
    # A row of the paper for which two systems stand, like half the height, is compared once.
    distinct = {(SYSTEMS[name].paper[split], split): (name, split) for name, split in reversed(rows)}
    for pair in combinations([row for row in rows if row in distinct.values()], 2):
        better, worse = sorted(pair, key=lambda row: -SYSTEMS[row[0]].paper[row[1]].sr)
        apart = SYSTEMS[better[0]].paper[better[1]].sr - SYSTEMS[worse[0]].paper[worse[1]].sr
        if better[1] == worse[1] and apart > GAP:
            found.append(_compare(rows, better, worse))
    return found


def compare_with_pvn(by_seed: Mapping[int, Sequence[Summary]]) -> list[Comparison]:
    """Each system of the table's second part that was flown, compared with PVN on the development split."""
    rows = _rows(by_seed)
    pvn = ("pvn", "dev")
    return [_compare(rows, (name, "dev"), pvn) for name in ANALYSED if (name, "dev") in rows] if pvn in rows else []
