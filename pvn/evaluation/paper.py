"""The paper's results table, and which of its orderings hold in results of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from pvn.evaluation.summary import Group, Summary
from pvn.evaluation.systems import CHANGED, TRIVIAL

SOURCE = "Blukis, Misra, Knepper, Artzi: CoRL 2018, table 1"
GAP = 3.0
"""Points of success rate by which systems of the paper must differ for their order to mean something."""

Verdict = Literal["holds", "too close to tell", "reversed"]


@dataclass(frozen=True)
class PaperRow:
    """A row of the paper's table."""

    sr: float
    """Success rate, percent."""
    mean_distance: float
    """Between stop and goal, metres (AD)."""
    median_distance: float
    """Metres (MD)."""


PAPER: Mapping[tuple[str, str], PaperRow] = {
    ("stop", "test"): PaperRow(5.72, 15.8, 14.8),
    ("average", "test"): PaperRow(16.43, 12.5, 10.1),
    ("chaplot", "test"): PaperRow(21.34, 11.2, 9.35),
    ("gsmn", "test"): PaperRow(24.36, 9.94, 8.28),
    ("pvn", "test"): PaperRow(41.21, 8.68, 6.26),
    ("oracle", "test"): PaperRow(100.0, 1.38, 1.29),
    ("pvn", "dev"): PaperRow(40.44, 8.56, 6.28),
    ("pvn-no-aux", "dev"): PaperRow(30.77, 10.1, 7.94),
    ("pvn-no-goal", "dev"): PaperRow(35.98, 9.25, 7.2),
    ("pvn-no-dagger", "dev"): PaperRow(38.87, 9.18, 6.69),
    ("pvn-no-instruction", "dev"): PaperRow(23.07, 11.6, 10.1),
    ("pvn-ideal-act", "dev"): PaperRow(45.70, 8.42, 6.25),
    ("pvn-full-observation", "dev"): PaperRow(60.59, 5.67, 4.0),
    ("pvn-half-height", "dev"): PaperRow(39.51, 8.95, 6.55),
    ("pvn-double-yaw-rate", "dev"): PaperRow(41.09, 8.6, 6.12),
}
"""The paper's table by system and split."""

COMPARED = ("stop", "average", "chaplot", "gsmn", "pvn", "oracle")
"""Systems of the table's first part, which fly both splits here."""
ANALYSED = tuple(name for name, split in PAPER if split == "dev" and name != "pvn")
"""Systems of its second part, which fly the development split."""
TABLE: tuple[tuple[str, str], ...] = (
    *((name, "test") for name in COMPARED),
    *((name, "dev") for name in (*COMPARED, *ANALYSED)),
)
"""Every row of our table, in its order: the paper's, and the first part's systems on the development split."""


def run_of(system: str) -> str | None:
    """The training run whose weights a system flies with; None if it has none."""
    if system in TRIVIAL:
        return None
    return "pvn" if system in CHANGED else system


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
    """The same here; negative if the order is the other."""
    verdict: Verdict
    """holds or reversed if their 95% intervals do not overlap, else too close to tell."""


def _verdict(better: Group, worse: Group) -> Verdict:
    if min(better.environments, worse.environments) < 2:  # an interval from one field has no width and says nothing
        return "too close to tell"
    if better.sr.low > worse.sr.high:
        return "holds"
    return "reversed" if better.sr.high < worse.sr.low else "too close to tell"


def compare_orderings(summaries: Sequence[Summary]) -> list[Ordering]:
    """Every pair of systems of one split that the paper's success rates put more than GAP apart and that are here."""
    flown = {(summary.system, summary.split): summary.overall for summary in summaries}
    found = []
    for first, second in combinations([row for row in PAPER if row in flown], 2):
        if first[1] != second[1]:
            continue
        better, worse = sorted((first, second), key=lambda row: -PAPER[row].sr)
        paper_gap = PAPER[better].sr - PAPER[worse].sr
        if paper_gap > GAP:
            gap = flown[better].sr.value - flown[worse].sr.value
            verdict = _verdict(flown[better], flown[worse])
            found.append(Ordering(better[1], better[0], worse[0], paper_gap, gap, verdict))
    return found
