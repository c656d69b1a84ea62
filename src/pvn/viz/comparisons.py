"""The sections of a report that compare systems: ablations with PVN, and the orders of the paper's table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pvn.evaluation.pairing import Difference
from pvn.evaluation.paper import GAP, Comparison, compare_orderings, compare_with_pvn
from pvn.evaluation.summary import Summary
from pvn.viz.markdown import table

MARKS = {"holds": "yes", "undecided": "undecided", "reversed": "**reversed**"}
PAIRED = "Points here are paired differences over the same flights, with 95% intervals over fields{and_runs}."
UNPAIRED = (
    "Where it says unpaired, the successes of single flights are not stored, or the two did not fly the same flights; "
    "they are told apart only where their own 95% intervals do not overlap."
)


def _points(difference: Difference) -> str:
    """A difference with its paired interval, or a word that there is none."""
    found = difference.interval
    if found is None:
        return f"{difference.points:+z.1f} (unpaired)"
    return f"{found.value:+z.1f} {found.bracket('+z.1f')}"


def _how_compared(found: Sequence[Comparison]) -> str:
    """How the differences were estimated."""
    num_runs = max(runs for one in found for runs in one.difference.num_runs)
    is_paired = [one.difference.interval is not None for one in found]
    and_runs = f" and over up to {num_runs} training runs of a system" if num_runs > 1 else ""
    return " ".join([PAIRED.format(and_runs=and_runs)] * any(is_paired) + [UNPAIRED] * (not all(is_paired)))


def ablations(by_seed: Mapping[int, Sequence[Summary]], by_true_distributions: Mapping[str, Summary]) -> list[str]:
    """A section about how far each ablation is from PVN, and how well its second stage flies by true distributions.

    by_seed: results by the seed of the training runs. by_true_distributions: results by system, where there are any.
    """
    found = compare_with_pvn(by_seed)
    if not found:
        return []

    def executed(system: str) -> str:
        return str(by_true_distributions[system].overall.sr) if system in by_true_distributions else ""

    rows = [["pvn", "", "", executed("pvn")]]
    rows += [[one.first, f"{one.paper_gap:+z.1f}", _points(one.difference), executed(one.first)] for one in found]
    return [
        "## Ablations compared with PVN",
        "",
        f"Development split. {_how_compared(found)} The last column is the success rate of the second stage flown by "
        "the demonstrated distributions in place of predicted ones, where it was flown.",
        "",
        *table(("system", "points, paper", "points, here", "SR %, true distributions"), rows),
    ]


def orders(by_seed: Mapping[int, Sequence[Summary]]) -> list[str]:
    """A section about the pairs of systems that the paper tells apart. by_seed: as for ablations."""
    found = compare_orderings(by_seed)
    title = ["## Orders of the paper's table", ""]
    if not found:
        return [*title, "No two systems that the paper tells apart were flown.", ""]
    counts = {verdict: sum(one.verdict == verdict for one in found) for verdict in MARKS}
    rows = [
        [one.first, one.second, one.split, f"{one.paper_gap:+z.1f}", _points(one.difference), MARKS[one.verdict]]
        for one in found
    ]
    return [
        *title,
        f"Pairs of systems whose success rates are more than {GAP:g} points apart in the paper. {_how_compared(found)} "
        "An order is undecided where these intervals do not tell the two apart. "
        f"Of {len(found)} orders {counts['holds']} hold, {counts['undecided']} are undecided, {counts['reversed']} are "
        "reversed.",
        "",
        *table(("better in the paper", "worse", "split", "points, paper", "points, here", "holds here"), rows),
    ]
