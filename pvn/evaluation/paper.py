"""The paper's results table, and which of its orderings hold in results of ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from pvn.evaluation.summary import Group, Summary
from pvn.systems import SYSTEMS, PaperRow

SOURCE = "Blukis, Misra, Knepper, Artzi: CoRL 2018, table 1"
GAP = 3.0
"""Points of success rate by which systems of the paper must differ for their order to mean something."""

Verdict = Literal["holds", "too close to tell", "reversed"]


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
class Ordering:
    """Two systems that the paper tells apart, and how they compare here."""

    split: str
    better: str
    """The better one in the paper."""
    worse: str
    paper_gap: float
    """Points of success rate between them in the paper; more than GAP."""
    gap: float
    """The same here; negative if the order is reversed."""
    verdict: Verdict
    """holds or reversed if their 95% intervals do not overlap, else too close to tell."""


def _verdict(better: Group, worse: Group) -> Verdict:
    if min(better.environments, worse.environments) < 2:  # an interval from one field has no width
        return "too close to tell"
    if better.sr.low > worse.sr.high:
        return "holds"
    return "reversed" if better.sr.high < worse.sr.low else "too close to tell"


def compare_orderings(summaries: Sequence[Summary]) -> list[Ordering]:
    """Pairs of systems, both flown here, that the paper's success rates on one split put more than GAP apart."""
    flown = {(summary.system, summary.split): summary.overall for summary in summaries}
    found = []
    rows = {row: reported for row in flown if (reported := paper_row(*row)) is not None}
    for first, second in combinations([row for row in TABLE if row in rows], 2):
        if first[1] != second[1]:
            continue
        better, worse = sorted((first, second), key=lambda row: -rows[row].sr)
        paper_gap = rows[better].sr - rows[worse].sr
        if paper_gap > GAP:
            gap = flown[better].sr.value - flown[worse].sr.value
            verdict = _verdict(flown[better], flown[worse])
            found.append(Ordering(better[1], better[0], worse[0], paper_gap, gap, verdict))
    return found
