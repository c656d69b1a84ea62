"""The report of a reproduction: our results beside the paper's, figures, and how they were obtained."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

import pvn
from pvn.evaluation.intervals import Estimate
from pvn.evaluation.pairing import mean_over_runs, runs_by_row
from pvn.evaluation.paper import SOURCE, TABLE, paper_row
from pvn.evaluation.summary import Group, Summary
from pvn.files import replacing
from pvn.viz.comparisons import ablations, orders
from pvn.viz.illustrations import Illustration
from pvn.viz.markdown import table
from pvn.viz.results_table import OTHERS, TWO_DECIMALS
from pvn.viz.schedule import StepTime, elapsed


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
    times: Mapping[str, StepTime]
    """By step."""
    schedule: Illustration | None = None
    """When each step ran; None if none ran side by side."""


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


def in_table_order(summaries: Sequence[Summary]) -> list[Summary]:
    """The summaries in the order of the paper's table; those that are not in it come last."""
    places = {row: place for place, row in enumerate(TABLE)}
    return sorted(summaries, key=lambda summary: places.get((summary.system, summary.split), len(TABLE)))


def _results(summaries: Sequence[Summary]) -> list[str]:
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


def _others(summaries: Sequence[Summary]) -> list[str]:
    rows = []
    for summary in summaries:
        values = [(name, getattr(summary.overall, name).value) for name in OTHERS.values()]
        figures = (f"{value:.{2 if name in TWO_DECIMALS else 1}f}" for name, value in values)
        rows.append([summary.system, summary.split, *figures])
    return table(("system", "split", *OTHERS), rows)


def _seeds(by_seed: Mapping[int, Sequence[Summary]]) -> list[str]:
    """Systems that were trained with several seeds."""
    repeated = {row: runs for row, runs in runs_by_row(by_seed).items() if len(runs) > 1}
    if not repeated:
        return []
    rows = [
        [*row, str(mean_over_runs(runs))]
        + [f"{runs[seed].overall.sr.value:.1f}" if seed in runs else "" for seed in sorted(by_seed)]
        for row, runs in repeated.items()
    ]
    return [
        "## Several training runs",
        "",
        "Success rates, percent, of systems whose weights were trained more than once: their mean, with 95% intervals "
        "over fields and training runs, and each run's own. Differences between systems are over all runs; all other "
        "tables are of seed 0.",
        "",
        *table(("system", "split", "mean", *(f"seed {seed}" for seed in sorted(by_seed))), rows),
    ]


def _by_group(
    summaries: Sequence[Summary],
    groups: Callable[[Summary], Mapping[str, Group | None]],
    write: Callable[[Estimate], str],
) -> list[str]:
    """Success rates by split, a row for each system, a column for each group."""
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
        lines += table((f"SR %, {split}", *(f"{name} ({group.flights:,})" for name, group in named.items())), rows)
    return lines or ["The segments have no annotations.", ""]


def _bearings(summaries: Sequence[Summary]) -> list[str]:
    return [
        "## By start bearing",
        "",
        "Success by where the demonstrated path leads as seen from the drone at its start (docs/metrics.md).",
        "",
        *_by_group(summaries, lambda summary: summary.by_bearing, str),
    ]


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _picture(part: Illustration, folder: Path) -> list[str]:
    return [f"![{part.title}]({part.path.relative_to(folder)})", "", part.caption, ""]


def _provenance(provenance: Provenance, folder: Path) -> list[str]:
    machines: dict[str, list[str]] = {}
    for name, time in provenance.times.items():
        machines.setdefault(time.machine, []).append(name)
    rows = [[name, _duration(time.seconds)] for name, time in provenance.times.items()]
    total = sum(time.seconds for time in provenance.times.values())
    rows.append(["total", _duration(total)])
    if (seconds := elapsed(provenance.times.values())) is not None:
        rows.append(["elapsed (some steps ran side by side)", _duration(seconds)])
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
        *table(("step", "wall time"), rows),
        *(_picture(provenance.schedule, folder) if provenance.schedule else ()),
    ]


def write_report(
    path: Path,
    summaries: Sequence[Summary],
    provenance: Provenance,
    illustrations: Sequence[Illustration] = (),
    *,
    further_seeds: Mapping[int, Sequence[Summary]] = {},
    by_true_distributions: Mapping[str, Summary] = {},
) -> None:
    """Write the report as Markdown; every number is computed from the summaries or taken from the paper.

    further_seeds: results of training runs with other seeds than 0, by seed; differences between systems are then over
    all runs. by_true_distributions: results by system, on the development split, of flights by true distributions.
    """
    summaries = in_table_order(summaries)
    by_seed = {0: summaries, **further_seeds}
    facing = [summary for summary in summaries if summary.by_bearing]
    pictures = [line for part in illustrations for line in (f"## {part.title}", "", *_picture(part, path.parent))]
    lines = [
        "# Results beside the paper's",
        "",
        f"The paper's figures are from {SOURCE}, on LANI. Ours are on {provenance.corpus}, whose texts differ, so "
        "the order of the systems can be compared, but the numbers only roughly. SR is the share of flights that "
        "stopped on their own within 5 m of the goal; mean and median are the metres between stop and goal. 95% "
        "intervals, over fields, are in brackets; flights in fewer than four fields have none.",
        "",
        *_results(summaries),
        "Path metrics and the rest, as docs/metrics.md defines them; the JSON files of the results have the intervals.",
        "",
        *_others(summaries),
        *_seeds(by_seed),
        *ablations(by_seed, by_true_distributions),
        *orders(by_seed),
        "## Seen and unseen phrases",
        "",
        "Success with phrases that training may use, and with phrases that it never sees.",
        "",
        *_by_group(summaries, lambda summary: {"seen": summary.seen, "unseen": summary.unseen}, str),
        "## By manoeuvre",
        "",
        "A flight counts once for each kind of manoeuvre that it contains.",
        "",
        *_by_group(summaries, lambda summary: summary.by_manoeuvre, lambda rate: f"{rate.value:.1f}"),
        *(_bearings(facing) if facing else ()),
        *pictures,
        "## How these results were obtained",
        "",
        *_provenance(provenance, path.parent),
    ]  # fmt: skip
    with replacing(path) as partial:
        partial.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
