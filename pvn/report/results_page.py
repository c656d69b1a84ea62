"""The report of a reproduction: our results beside the paper's, figures, and how they came about."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

import pvn
from pvn.evaluation.intervals import Estimate
from pvn.evaluation.paper import GAP, PAPER, SOURCE, TABLE, compare_orderings
from pvn.evaluation.summary import Group, Summary
from pvn.files import replacing
from pvn.report.illustrations import Illustration
from pvn.report.results_table import HUNDREDTHS, OTHERS

MARKS = {"holds": "yes", "too close to tell": "too close to tell", "reversed": "**reversed**"}


@dataclass(frozen=True)
class StepTime:
    """How long a step of a reproduction took, over all its resumptions, and where it ran last."""

    seconds: float
    machine: str


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """How results came about."""

    preset: str
    corpus: str
    """Its name in a sentence."""
    commands: tuple[str, ...]
    """What gives the same results, line by line."""
    seeds: Mapping[str, int]
    """By what they are for."""
    times: Mapping[str, StepTime]
    """By the name of the step."""


def describe_machine(device: str = "cpu") -> str:
    """This machine in a line: system, processor, cores, GPU if it is used, versions."""
    processor = platform.processor() or platform.machine()
    known = Path("/proc/cpuinfo")
    if known.exists():
        lines = known.read_text(encoding="utf-8").splitlines()
        models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
        processor = f"{len(models)} x {models[0]}" if models else processor
    gpu = f"; {torch.cuda.get_device_name()}" if device == "cuda" else ""
    return f"{platform.system()}; {processor}{gpu}; Python {platform.python_version()}, torch {torch.__version__}"


def in_table_order(summaries: Sequence[Summary]) -> list[Summary]:
    """The summaries in the order of the paper's table; those that it does not have come last."""
    places = {row: place for place, row in enumerate(TABLE)}
    return sorted(summaries, key=lambda summary: places.get((summary.system, summary.split), len(TABLE)))


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table, its first column to the left and the others to the right."""
    lines = [headings, [":--", *["--:"] * (len(headings) - 1)], *rows]
    return [f"| {' | '.join(line)} |" for line in lines] + [""]


def _ranged(figure: Estimate) -> str:
    return f"{figure.value:.1f} ({figure.low:.1f} to {figure.high:.1f})"


def _results(summaries: Sequence[Summary]) -> list[str]:
    rows = []
    for summary in summaries:
        paper, own = PAPER.get((summary.system, summary.split)), summary.overall
        theirs = ("", "", "") if paper is None else (
            f"{paper.sr:.2f}", f"{paper.mean_distance:g}", f"{paper.median_distance:g}",
        )  # fmt: skip
        ours = (_ranged(own.sr), _ranged(own.mean_distance), _ranged(own.median_distance))
        pairs = [cell for pair in zip(ours, theirs, strict=True) for cell in pair]
        rows.append([summary.system, summary.split, f"{own.flights:,}", *pairs])
    headings = ("system", "split", "flights", "SR % here", "paper", "mean m here", "paper", "median m here", "paper")
    return _table(headings, rows)


def _others(summaries: Sequence[Summary]) -> list[str]:
    rows = []
    for summary in summaries:
        values = [(name, getattr(summary.overall, name).value) for name in OTHERS.values()]
        figures = (f"{value:.{2 if name in HUNDREDTHS else 1}f}" for name, value in values)
        rows.append([summary.system, summary.split, *figures])
    return _table(("system", "split", *OTHERS), rows)


def _orderings(summaries: Sequence[Summary]) -> list[str]:
    found = compare_orderings(summaries)
    if not found:
        return ["No two systems that the paper tells apart were flown.", ""]
    counts = {verdict: sum(ordering.verdict == verdict for ordering in found) for verdict in MARKS}
    rows = [
        [
            ordering.better, ordering.worse, ordering.split, f"{ordering.paper_gap:+.1f}", f"{ordering.gap:+.1f}",
            MARKS[ordering.verdict],
        ]
        for ordering in found
    ]  # fmt: skip
    return [
        f"Pairs of systems whose success rates are more than {GAP:g} points apart in the paper. An order holds, or is "
        f"reversed, where the 95% intervals do not overlap. Of {len(found)} orders {counts['holds']} hold, "
        f"{counts['too close to tell']} are too close to tell, {counts['reversed']} are reversed.",
        "",
        *_table(("better in the paper", "worse", "split", "points, paper", "points, here", "holds here"), rows),
    ]


def _by_group(
    summaries: Sequence[Summary],
    groups: Callable[[Summary], Mapping[str, Group | None]],
    write: Callable[[Estimate], str],
) -> list[str]:
    """Success rates of each split's systems, a row for each, a column for each group."""
    lines = []
    for split in dict.fromkeys(summary.split for summary in summaries):
        own = [summary for summary in summaries if summary.split == split]
        named = {name: group for summary in own for name, group in groups(summary).items() if group is not None}
        if not named:
            continue
        rows = []
        for summary in own:
            parts = groups(summary)
            rates = [write(part.sr) if (part := parts.get(name)) else "" for name in named]
            rows.append([summary.system, *rates])
        lines += _table((f"SR %, {split}", *(f"{name} ({group.flights:,})" for name, group in named.items())), rows)
    return lines or ["Nothing is known about this.", ""]


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _provenance(provenance: Provenance) -> list[str]:
    machines: dict[str, list[str]] = {}
    for name, time in provenance.times.items():
        machines.setdefault(time.machine, []).append(name)
    rows = [[name, _duration(time.seconds)] for name, time in provenance.times.items()]
    total = sum(time.seconds for time in provenance.times.values())
    hardware = [
        f"* {machine}" + (f": {', '.join(names)}" if len(machines) > 1 else "") for machine, names in machines.items()
    ]
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
        *_table(("step", "wall time"), [*rows, ["all that was timed", _duration(total)]]),
    ]


def write_report(
    path: Path, summaries: Sequence[Summary], provenance: Provenance, illustrations: Sequence[Illustration] = ()
) -> None:
    """Write the report, Markdown: computed from the summaries, and from what is typed of the paper."""
    summaries = in_table_order(summaries)
    pictures = [
        line
        for part in illustrations
        for line in (
            f"## {part.title}",
            "",
            f"![{part.title}]({part.path.relative_to(path.parent)})",
            "",
            part.caption,
            "",
        )
    ]
    lines = [
        "# Results beside the paper's",
        "",
        f"The paper: {SOURCE}, on LANI. Here: {provenance.corpus}, another text, so the orders of systems "
        "compare, and the numbers only roughly. SR: share of flights that stopped of themselves within 5 m of the "
        "goal; mean and median: metres between stop and goal. In brackets 95% intervals, over fields.",
        "",
        *_results(summaries),
        "Paths and the rest, as docs/metrics.md defines them; intervals are in the JSON files of the results.",
        "",
        *_others(summaries),
        "## Orders of the paper's table",
        "",
        *_orderings(summaries),
        "## Seen and unseen phrases",
        "",
        "Of the flights with phrases that training may use, and with phrases that it never sees.",
        "",
        *_by_group(summaries, lambda summary: {"seen": summary.seen, "unseen": summary.unseen}, _ranged),
        "## By manoeuvre",
        "",
        "A flight counts for each kind of manoeuvre that it has.",
        "",
        *_by_group(summaries, lambda summary: summary.by_manoeuvre, lambda rate: f"{rate.value:.1f}"),
        *pictures,
        "## How these came about",
        "",
        *_provenance(provenance),
    ]  # fmt: skip
    with replacing(path) as partial:
        partial.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
