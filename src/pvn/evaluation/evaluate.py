"""Evaluation: agents fly a split of a corpus, and their flights are scored, with 95% intervals."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pvn.corpus.segments import SOURCES, SPLITS, Corpus, Segment, Source, Split, paragraphs_of
from pvn.corpus.store import read_corpus
from pvn.evaluation.flights import Flights, fly_split
from pvn.evaluation.manoeuvres import measure_circles, measure_facing
from pvn.evaluation.metrics import FlightMetrics
from pvn.evaluation.pilots import AgentLike, Pilot, check_pilots, load_pilot
from pvn.evaluation.summary import Summary, summarise, summarise_paragraphs
from pvn.files import replacing
from pvn.learning.parallel import rank
from pvn.systems import FlightChanges

OnFlights = Callable[[str, int, int], None]
"""Called with a pilot's name, how many flights are done, and how many there are."""
AVERAGE = "average"
"""The system that flies the mean of the training segments, and so needs them."""


@dataclass(frozen=True)
class Evaluated:
    """One pilot's flights over a split, and how good they are."""

    pilot: Pilot
    flights: Flights
    metrics: FlightMetrics
    """Of every flight."""
    summary: Summary


def _first_paragraphs(segments: Sequence[Segment], limit: int | None) -> tuple[Segment, ...]:
    """The segments by paragraph, to the end of the paragraph that reaches the limit."""
    chosen = list[Segment]()
    for paragraph in paragraphs_of(segments):
        if limit is None or len(chosen) < limit:
            chosen += paragraph
    return tuple(chosen)


def read_split(
    corpus: Corpus | Path | str,
    split: Split,
    limit: int | None = None,
    *,
    source: Source | None = None,
    needs_training: bool = False,
    in_paragraphs: bool = False,
) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
    """The first `limit` segments of a split, and all training segments if they are needed and there are any.

    source: where the instructions of the first come from; None for anywhere. in_paragraphs: in the order of
    paragraphs, to the end of the paragraph that reaches the limit.
    """
    if source is not None and source not in SOURCES:
        raise ValueError(f"source: got {source!r}, expected one of {', '.join(SOURCES)}, or None for all")
    if limit is not None and limit < 1:
        raise ValueError(f"limit: got {limit}, expected at least 1")
    where = "corpus" if isinstance(corpus, Corpus) else str(corpus)
    if not isinstance(corpus, Corpus):
        wanted = {split, "train"} if needs_training else {split}
        corpus = read_corpus(corpus, tuple(name for name in SPLITS if name in wanted))
    segments = corpus.splits.get(split, ())
    if not segments:
        raise ValueError(f"{where}: has no segments in split {split}, expected some to fly")
    there = {segment.source for segment in segments}
    segments = tuple(segment for segment in segments if source is None or segment.source == source)
    segments = _first_paragraphs(segments, limit) if in_paragraphs else segments[:limit]
    if not segments:
        raise ValueError(
            f"source: got {source}, expected one that split {split} of {where} has: "
            f"{', '.join(name for name in SOURCES if name in there)}"
        )
    return tuple(segments), tuple(corpus.splits.get("train", ())) if needs_training else ()


def _as_list(agents: AgentLike | Sequence[AgentLike]) -> list[AgentLike]:
    return [agents] if isinstance(agents, str) or not isinstance(agents, Sequence) else list(agents)


def make_pilots(
    agents: AgentLike | Sequence[AgentLike],
    segments: Sequence[Segment] = (),
    *,
    training: Sequence[Segment] = (),
    runs: Path | str | None = None,
    changes: FlightChanges = FlightChanges(),
    device: str = "cpu",
) -> list[Pilot]:
    """A pilot for each agent; they have different names, and know the words of the segments. See `evaluate`."""
    several = _as_list(agents)
    if not several:
        raise ValueError("agents: got none, expected one or more, such as pvn and oracle")
    folder = None if runs is None else Path(runs)
    pilots = [load_pilot(agent, runs=folder, training=training, changes=changes, device=device) for agent in several]
    check_pilots(pilots, segments)
    return pilots


def evaluate_pilot(
    pilot: Pilot,
    segments: Sequence[Segment],
    *,
    split: Split,
    stem: Path | None = None,
    device: str = "cpu",
    in_paragraphs: bool = False,
    watch: Callable[[int], None] = lambda done: None,
) -> Evaluated:
    """Fly the segments and score the flights.

    stem: path, without the suffix, of the files for flights (.safetensors, saved as they are flown; flights already
    there are not flown again) and summary (.json); None saves nothing. in_paragraphs: then fly them once more, each
    from where the one before ended. watch: called with the number of flights that are done. Processes that torchrun
    has started each fly a part; all score all flights, and the first writes the summary.
    """
    path = None if stem is None else stem.with_name(f"{stem.name}.safetensors")
    flights = fly_split(segments, pilot, path, device=device, watch=watch)
    metrics = flights.metrics(segments, pilot.config.altitude)
    reached = metrics.is_success.tolist()
    summary = replace(
        summarise(pilot.name, split, metrics, segments),
        circles=measure_circles(flights.paths(), reached, segments),
        facing=measure_facing(flights.end_headings(), reached, segments),
    )
    if in_paragraphs:
        ordered = [segment for paragraph in paragraphs_of(segments) for segment in paragraph]
        path = None if stem is None else stem.with_name(f"{stem.name}_paragraphs.safetensors")
        count = len(segments)
        again = fly_split(
            ordered, pilot, path, device=device, in_paragraphs=True, watch=lambda done: watch(count + done)
        )
        found = summarise_paragraphs(again.metrics(ordered, pilot.config.altitude), ordered)
        summary = replace(summary, paragraphs=found)
    if stem is not None and rank() == 0:
        with replacing(stem.with_name(f"{stem.name}.json")) as temporary:
            temporary.write_text(json.dumps(summary.to_json(), indent=1) + "\n", encoding="utf-8")
    return Evaluated(pilot, flights, metrics, summary)


def result_stem(
    out: Path, pilot: str, split: Split, limit: int | None, num_segments: int, source: Source | None = None
) -> Path:
    """Path of a pilot's results, without the suffix; it names source and limit, so that results are not mixed."""
    parts = [pilot, split, *([] if source is None else [source]), *([] if limit is None else [str(num_segments)])]
    return out / "_".join(parts)


def _report_progress(watch: OnFlights, name: str, total: int, done: int) -> None:
    watch(name, done, total)


def evaluate(
    agents: AgentLike | Sequence[AgentLike],
    corpus: Corpus | Path | str,
    *,
    split: Split = "dev",
    source: Source | None = None,
    limit: int | None = None,
    out: Path | str | None = None,
    device: str = "cpu",
    runs: Path | str | None = None,
    changes: FlightChanges = FlightChanges(),
    in_paragraphs: bool = False,
    watch: OnFlights = lambda name, done, total: None,
) -> list[Summary]:
    """Fly agents over a split of a corpus and score their flights: one summary for each agent, in order.

    agents: one or several names of systems ("pvn", "oracle"), paths of .safetensors files, loaded agents, or pilots.
    corpus: a corpus, or its folder. source: fly only segments whose instructions come from there ("phrases",
    "natural", "narrated" or "lani"); None for all. limit: fly only the first `limit` of them. out: a folder for
    flights and summaries, in which an interrupted evaluation resumes; None saves nothing. runs: a folder of training
    runs whose agents fly instead of the shipped ones. changes: how flights differ from those the agents were trained
    for. in_paragraphs: also fly whole paragraphs, each instruction from where the last flight ended; a limit then
    includes the rest of the paragraph that reaches it. watch: called as flights are done.
    """
    needs_training = AVERAGE in _as_list(agents)
    segments, training = read_split(
        corpus, split, limit, source=source, needs_training=needs_training, in_paragraphs=in_paragraphs
    )
    pilots = make_pilots(agents, segments, training=training, runs=runs, changes=changes, device=device)
    summaries = []
    for pilot in pilots:
        stem = None if out is None else result_stem(Path(out), pilot.name, split, limit, len(segments), source)
        on_flight = partial(_report_progress, watch, pilot.name, len(segments) * (1 + in_paragraphs))
        found = evaluate_pilot(
            pilot, segments, split=split, stem=stem, device=device, in_paragraphs=in_paragraphs, watch=on_flight
        )
        summaries.append(found.summary)
    return summaries
