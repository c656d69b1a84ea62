"""Flights and corpora as tables on the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from pvn.corpus.alignment import Alignment
from pvn.corpus.meadow.references import sensible_words
from pvn.corpus.statistics import LANI
from pvn.evaluation.manoeuvres import FACES_WITHIN, degrees_off
from pvn.evaluation.outcome import end_place
from pvn.rollout.flight import FlightLog
from pvn.world.landmarks import LANDMARK_NAMES
from pvn.world.task import SUCCESS_M, Task


def print_flights(
    title: str,
    tasks: Sequence[Task],
    log: FlightLog,
    goals: Sequence[tuple[float, float] | None],
    labels: Sequence[str] | None = None,
    *,
    headings: Sequence[float | None] | None = None,
    is_own_world: bool = True,
) -> None:
    """A line for each flight: its instruction, how far it flew, and how it ended.

    goals: where each flight should end (x, y), field frame; None for a flight without a goal. labels: names of the
    flights, by default numbers. headings: which way each flight with a goal should face at its end, radians, field
    frame; None if its instruction asks for no turn. is_own_world: whether the drones flew over the tasks' layouts.
    """
    flown = log.distance_flown()
    table = Table(title=title)
    for heading in ("", "instruction", "steps", "flown", "ends"):
        table.add_column(heading, justify="right" if heading in ("", "steps", "flown") else "left")
    for index, task in enumerate(tasks):
        has_stopped = bool(log.has_stopped[index])
        end = "stopped" if has_stopped else "never stopped;"
        if is_own_world:
            end = f"{end} {end_place(log, index, task)}"
        goal = goals[index]
        if goal is not None:
            distance = math.dist(log.end_world[index].tolist(), goal)
            verdict = "success" if has_stopped and distance < SUCCESS_M else "failure"
            end = f"{distance:.1f} m from the goal: {verdict}"
            wanted = None if headings is None else headings[index]
            if wanted is not None:
                # Success is about the goal's place alone.
                off = degrees_off(float(log.pose_world[index, -1, 5]), wanted)
                is_missed = verdict == "success" and off > FACES_WITHIN
                end += f", {'but faces' if is_missed else 'faces'} {off:.0f} degrees off"
        steps, metres = str(int(log.num_steps[index])), f"{float(flown[index]):.1f} m"
        label = str(index + 1) if labels is None else labels[index]
        table.add_row(label, task.instruction, steps, metres, end)
    Console().print(table)


def _sources_table(sources: dict[str, dict[str, Any]]) -> Table:
    """A row for each source of instructions."""
    table = Table(title="instructions by source")
    for heading in ("source", "segments", "fields", "authors", "tokens", "vocabulary", "not in phrases", "of tokens"):
        table.add_column(heading, justify="left" if heading == "source" else "right")
    for source, part in sources.items():
        counts = (part[name] for name in ("segments", "environments", "authors"))
        unlike = ("", "")
        if source != "phrases" and "words_not_in_phrases" in part:
            unlike = (f"{part['words_not_in_phrases']:,}", f"{part['tokens_not_in_phrases_share']:.1%}")
        table.add_row(
            source,
            *(f"{count:,}" for count in counts),
            f"{part['tokens_per_segment']:.2f}",
            f"{part['vocabulary']:,}",
            *unlike,
        )
    return table


def print_corpus_report(report: dict[str, Any]) -> None:
    """A corpus's figures beside LANI's."""
    console = Console()
    table = Table(title=f"corpus {report['name']}")
    for heading in ("figure", "here", "LANI", "here / LANI"):
        table.add_column(heading, justify="left" if heading == "figure" else "right")
    for name, value in LANI.items():
        here = report[name]
        shown = f"{here:,}" if isinstance(here, int) else f"{here:.2f}"
        table.add_row(name.replace("_", " "), shown, f"{value:,g}", f"{here / value:.2f}")
    table.add_row("landmarks mean", f"{report['landmarks_mean']:.2f}", "", "")
    table.add_row("path mean m", f"{report['path_mean_m']:.2f}", "", "")
    console.print(table)
    splits = Table(title="splits")
    for heading in ("split", "segments", "environments", "unseen phrases"):
        splits.add_column(heading, justify="left" if heading == "split" else "right")
    for split, part in report["splits"].items():
        splits.add_row(split, f"{part['segments']:,}", f"{part['environments']:,}", f"{part['unseen_share']:.1%}")
    console.print(splits)
    if len(report["sources"]) > 1:
        console.print(_sources_table(report["sources"]))
    for title, key in (("linguistic phenomena", "phenomena"), ("manoeuvres in a segment", "manoeuvres")):
        if key not in report:
            continue
        shares = Table(title=title)
        shares.add_column("")
        shares.add_column("share of segments" if key == "phenomena" else "mean number", justify="right")
        for name, share in report[key].items():
            shares.add_row(name, f"{share:.1%}" if key == "phenomena" else f"{share:.3f}")
        console.print(shares)
    if "phrases" in report:
        console.print(
            f"{report['phrases']:,} phrases, {report['manoeuvres_per_segment']:.2f} manoeuvres a segment, "
            f"{report['ambiguous_share']:.1%} of segments with an ambiguous reference"
        )


def print_alignments(alignment: Alignment) -> None:
    """The words aligned with each class, best first; words in a reference to the class are bold."""
    sensible = sensible_words(alignment)
    table = Table(title="words aligned with each landmark class, best first")
    table.add_column("class")
    table.add_column("words (bold: in a reference to the class)")
    for name, words in zip(LANDMARK_NAMES, alignment.words, strict=True):
        table.add_row(name, " ".join(f"[bold]{word}[/bold]" if word in sensible[name] else word for word in words))
    console = Console()
    console.print(table)
    missing = [name for name in LANDMARK_NAMES if not sensible[name]]
    console.print(
        f"{len(LANDMARK_NAMES) - len(missing)} of {len(LANDMARK_NAMES)} classes have a sensible word"
        + (f"; none: {', '.join(missing)}" if missing else "")
    )
