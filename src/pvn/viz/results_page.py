"""The report of a reproduction in Markdown: our results beside the paper's, figures, and how they were obtained."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

import pvn
from pvn.evaluation.comparison import (
    GAP,
    SOURCE,
    Comparison,
    Difference,
    compare_orderings,
    compare_with_pvn,
    mean_over_runs,
    paper_row,
    table_rows,
)
from pvn.evaluation.intervals import Estimate
from pvn.evaluation.summary import Group, Summary
from pvn.files import replacing
from pvn.systems import TRUE_DISTRIBUTIONS
from pvn.viz.illustrations import Illustration
from pvn.viz.results_table import OTHERS, TWO_DECIMALS

MARKS = {"holds": "yes", "undecided": "undecided", "reversed": "**reversed**"}
Rows = Mapping[tuple[str, str], Mapping[int, Summary]]
"""Results by system and split, and by the seed of the training run."""


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """How results were obtained."""

    preset: str
    corpus: str
    """Its name, as used in a sentence."""
    commands: tuple[str, ...]
    """Command lines that give the same results."""
    seeds: Mapping[str, int]
    """By their purpose."""
    seconds: Mapping[str, float]
    """How long each step took, by name."""
    machines: Mapping[str, Sequence[str]]
    """Where steps ran: their names, by machine."""
    num_training: int
    """Training segments in the corpus."""


def describe_machine(device: str = "cpu") -> str:
    """This machine in one line: system, cores, processor, GPU if used, versions."""
    processor = platform.processor() or platform.machine()
    known = Path("/proc/cpuinfo")
    if known.exists():
        lines = known.read_text(encoding="utf-8").splitlines()
        models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
        processor = f"{len(models)} x {models[0]}" if models else processor
    gpu = f"; {torch.cuda.get_device_name()}" if device == "cuda" else ""
    return f"{platform.system()}; {processor}{gpu}; Python {platform.python_version()}, torch {torch.__version__}"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table, the first column left-aligned and the others right-aligned, and an empty one."""
    lines = [headings, [":--", *["--:"] * (len(headings) - 1)], *rows]
    return [f"| {' | '.join(line)} |" for line in lines] + [""]


def points(difference: Difference) -> str:
    """A difference with its paired interval, or that there is none."""
    found = difference.interval
    if found is None:
        return f"{difference.points:+z.1f} (unpaired)"
    return f"{found.value:+z.1f} {found.bracket('+z.1f')}"


def systems_table(summaries: Sequence[Summary]) -> list[str]:
    """Success and distances of every system beside the paper's."""
    rows = []
    for summary in summaries:
        paper, own = paper_row(summary.system, summary.split), summary.overall
        theirs = ("", "", "") if paper is None else (
            f"{paper.sr:.2f}", f"{paper.mean_distance:g}", f"{paper.median_distance:g}",
        )  # fmt: skip
        ours = (str(own.sr), str(own.mean_distance), str(own.median_distance))
        pairs = [cell for pair in zip(ours, theirs, strict=True) for cell in pair]
        rows.append([summary.system, summary.split, f"{own.flights:,}", *pairs])
    headings = ("system", "split", "flights", "SR % here", "paper", "mean m here", "paper", "median m here", "paper")
    return table(headings, rows)


def path_metrics_table(summaries: Sequence[Summary]) -> list[str]:
    """Everything else that is measured of every system."""
    rows = []
    for summary in summaries:
        values = [(name, getattr(summary.overall, name).value) for name in OTHERS.values()]
        figures = (f"{value:.{2 if name in TWO_DECIMALS else 1}f}" for name, value in values)
        rows.append([summary.system, summary.split, *figures])
    return table(("system", "split", *OTHERS), rows)


def groups_table(
    summaries: Sequence[Summary],
    groups: Callable[[Summary], Mapping[str, Group | None]],
    write: Callable[[Estimate], str] = str,
) -> list[str]:
    """Success rates by split, a row for each system, a column for each group."""
    lines = []
    for split in dict.fromkeys(summary.split for summary in summaries):
        own = [summary for summary in summaries if summary.split == split]
        named = {name: group for summary in own for name, group in groups(summary).items() if group is not None}
        if not named:
            continue
        rows = [
            [summary.system, *(write(part.sr) if (part := groups(summary).get(name)) else "" for name in named)]
            for summary in own
        ]
        lines += table((f"SR %, {split}", *(f"{name} ({group.flights:,})" for name, group in named.items())), rows)
    return lines or ["The segments have no annotations.", ""]


def seeds_section(rows: Rows) -> list[str]:
    """Systems that were trained with several seeds."""
    repeated = {row: runs for row, runs in rows.items() if len(runs) > 1}
    if not repeated:
        return []
    seeds = sorted({seed for runs in repeated.values() for seed in runs})
    cells = [
        [*row, str(mean_over_runs(runs))]
        + [f"{runs[seed].overall.sr.value:.1f}" if seed in runs else "" for seed in seeds]
        for row, runs in repeated.items()
    ]
    return [
        "## Several training runs",
        "",
        "Success rates, percent, of systems whose weights were trained more than once: their mean, with 95% intervals "
        "over fields and training runs, and each run's own. Differences between systems are over all runs; all other "
        "tables are of seed 0.",
        "",
        *table(("system", "split", "mean", *(f"seed {seed}" for seed in seeds)), cells),
    ]


def _how_compared(found: Sequence[Comparison]) -> str:
    """How the differences were estimated."""
    num_runs = max(runs for one in found for runs in one.difference.num_runs)
    and_runs = f" and over up to {num_runs} training runs of a system" if num_runs > 1 else ""
    text = f"Points here are paired differences over the same flights, with 95% intervals over fields{and_runs}."
    if all(one.difference.interval is not None for one in found):
        return text
    return f"{text} Where it says unpaired, the two did not fly the same flights."


def ablations_section(rows: Rows, by_true_distributions: Mapping[str, Summary]) -> list[str]:
    """How far each ablation is from PVN, and how well its second stage flies by true distributions.

    by_true_distributions: results by system, where there are any.
    """
    found = compare_with_pvn(rows)
    if not found:
        return []

    def executed(system: str) -> str:
        return str(by_true_distributions[system].overall.sr) if system in by_true_distributions else ""

    cells = [["pvn", "", "", executed("pvn")]]
    cells += [[one.first, f"{one.paper_gap:+z.1f}", points(one.difference), executed(one.first)] for one in found]
    return [
        "## Ablations compared with PVN",
        "",
        f"Development split. {_how_compared(found)} The last column is the success rate of the second stage when it "
        "flies by the demonstrated distributions in place of predicted ones. The paper's ideal Act stops exactly at "
        "the most likely goal; ours has to fly there, and predicts again on the way.",
        "",
        *table(("system", "points, paper", "points, here", "SR %, true distributions"), cells),
    ]


def orders_section(rows: Rows) -> list[str]:
    """The pairs of systems that the paper tells apart."""
    found = compare_orderings(rows)
    title = ["## Orders of the paper's table", ""]
    if not found:
        return [*title, "No two systems that the paper tells apart were flown.", ""]
    counts = {verdict: sum(one.verdict == verdict for one in found) for verdict in MARKS}
    cells = [
        [one.first, one.second, one.split, f"{one.paper_gap:+z.1f}", points(one.difference), MARKS[one.verdict]]
        for one in found
    ]
    return [
        *title,
        f"Pairs of systems whose success rates are more than {GAP:g} points apart in the paper. {_how_compared(found)} "
        "An order is undecided where these intervals do not tell the two apart. "
        f"Of {len(found)} orders {counts['holds']} hold, {counts['undecided']} are undecided, {counts['reversed']} are "
        "reversed.",
        "",
        *table(("better in the paper", "worse", "split", "points, paper", "points, here", "holds here"), cells),
    ]


def _seen_shares(summaries: Sequence[Summary]) -> str:
    """What share of each split's flights has phrases that training may use."""
    shares = {one.split: one.seen.flights / one.overall.flights for one in summaries if one.seen}
    return ", ".join(f"{share:.0%} of {split}" for split, share in shares.items())


def result_sections(results: Mapping[str, Summary]) -> list[str]:
    """Everything that a report says about results by name (see `table_rows`)."""
    rows = table_rows(results)
    summaries = [runs[0] for runs in rows.values() if 0 in runs]
    true = {
        name.removesuffix(f"{TRUE_DISTRIBUTIONS}_dev"): one
        for name, one in results.items()
        if name.endswith(f"{TRUE_DISTRIBUTIONS}_dev")
    }
    return [
        "SR is the share of flights that stopped on their own within 5 m of the goal; mean and median are the metres "
        "between stop and goal. 95% intervals, over fields, are in brackets; flights in fewer than four fields have "
        "none.",
        "",
        *systems_table(summaries),
        "## Path metrics",
        "",
        "As docs/metrics.md defines them; the files of the results have their intervals.",
        "",
        *path_metrics_table(summaries),
        *seeds_section(rows),
        *ablations_section(rows, true),
        *orders_section(rows),
        "## Seen and unseen phrases",
        "",
        "Success with phrases that training may use, and with phrases that it never sees. Training may use the phrases "
        f"of {_seen_shares(summaries)}." if _seen_shares(summaries) else "No instruction is made from a phrase.",
        "",
        *groups_table(summaries, lambda summary: {"seen": summary.seen, "unseen": summary.unseen}),
        "## By manoeuvre",
        "",
        "A flight counts once for each kind of manoeuvre that it contains.",
        "",
        *groups_table(summaries, lambda summary: summary.by_manoeuvre, lambda rate: f"{rate.value:.1f}"),
        "## By start bearing",
        "",
        "Success by where the demonstrated path leads as seen from the drone at its start (docs/metrics.md).",
        "",
        *groups_table(summaries, lambda summary: summary.by_bearing),
    ]  # fmt: skip


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _provenance(provenance: Provenance) -> list[str]:
    rows = [[name, _duration(seconds)] for name, seconds in provenance.seconds.items()]
    rows.append(["total", _duration(sum(provenance.seconds.values()))])
    several = len(provenance.machines) > 1
    hardware = [f"* {name}" + (f": {', '.join(steps)}" * several) for name, steps in provenance.machines.items()]
    seeds = ", ".join(f"{what} {seed}" for what, seed in provenance.seeds.items())
    return [
        f"Version {pvn.__version__}, preset {provenance.preset}. Seeds: {seeds}.",
        "",
        "```bash",
        *provenance.commands,
        "```",
        "",
        "Machine:",
        "",
        *hardware,
        "",
        *table(("step", "wall time"), rows),
    ]


def write_report(
    path: Path, results: Mapping[str, Summary], provenance: Provenance, illustrations: Sequence[Illustration] = ()
) -> None:
    """Write the report as Markdown; every number is computed from the results or taken from the paper.

    results: by name (see `table_rows`).
    """
    pictures = [
        line
        for part in illustrations
        for line in (
            f"## {part.title}", "", f"![{part.title}]({part.path.relative_to(path.parent)})", "", part.caption, "",
        )
    ]  # fmt: skip
    lines = [
        "# Results beside the paper's",
        "",
        f"The paper's figures are from {SOURCE}, on LANI. Ours are on {provenance.corpus}, with "
        f"{provenance.num_training:,} training segments, in a world of our own; nothing was flown on LANI's data. "
        "Texts and world differ, so the order of the systems can be compared, but the numbers only roughly. Choices "
        "were made on the development split (dev), so its figures are a little too good.",
        "",
        *result_sections(results),
        *pictures,
        "## How these results were obtained",
        "",
        *_provenance(provenance),
    ]
    with replacing(path) as partial:
        partial.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
