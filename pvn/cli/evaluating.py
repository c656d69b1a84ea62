"""Verbs that judge: `pvn evaluate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tyro.conf import Positional

from pvn.cli.options import Device, Split, print_json

if TYPE_CHECKING:
    from pvn.corpus.segments import Segment
    from pvn.evaluation.metrics import FlightMetrics
    from pvn.evaluation.summary import Summary
    from pvn.evaluation.systems import System


@dataclass(frozen=True)
class Results:
    """What came of an evaluation."""

    summaries: list[Summary]
    """Each system's."""
    metrics: dict[str, FlightMetrics]
    """Each system's figures of every flight."""
    segments: Sequence[Segment]
    """What was flown."""
    bounds: list[dict[str, Any]]
    """Each system's report on its predictions, where it was asked for."""


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Fly systems over a split of a corpus and tell how well they did, with 95% intervals."""

    systems: Positional[tuple[str, ...]]
    """Who flies: stop, average, oracle, pvn, gsmn, chaplot, pvn-no-aux, pvn-no-goal, pvn-no-dagger, pvn-no-instruction,
    pvn-full-observation, pvn-ideal-act, pvn-half-height, pvn-double-yaw-rate, or weights of an agent you trained
    (agent.safetensors)."""
    corpus: Path
    """Folder of the corpus."""
    split: Split = "dev"
    """Which split."""
    limit: int | None = None
    """Only the first so many segments."""
    device: Device = "cpu"
    """Where to fly."""
    runs: Path | None = None
    """Folder of training runs, one for each system, whose agents fly instead of the package's."""
    out: Path = Path("results")
    """Folder for flights and figures; flights that are there are not flown again."""
    bound: bool = False
    """Also judge what PVN predicts: the paper's bound on what is lost, and the calibration of its goals. Flies
    once more."""
    record: int = 0
    """Fly the first so many segments once more, and write recording (.rrd), film (.mp4) and summary (.png) of each into
    the subfolder recordings."""
    json: bool = False
    """Print a JSON list, one object a system, instead of tables."""

    def judge(self) -> Results:
        """Fly, judge, and write what comes of it."""
        import json

        from pvn.cli.progress import progress_bar
        from pvn.corpus.store import read_corpus
        from pvn.evaluation.flights import fingerprint, fly_split
        from pvn.evaluation.summary import summarise
        from pvn.evaluation.systems import check_different, check_predicts, check_words, make_system
        from pvn.files import replacing

        if not self.systems:
            raise ValueError("systems: got none, expected one or more, such as pvn oracle")
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit: got {self.limit}, expected at least 1")
        if self.record < 0:
            raise ValueError(f"record: got {self.record}, expected 0 or more flights")
        wanted = {self.split, "train"} if "average" in self.systems else {self.split}
        corpus = read_corpus(self.corpus, tuple(split for split in ("train", "dev", "test") if split in wanted))
        if self.split not in corpus.splits or not corpus[self.split]:
            raise ValueError(f"{self.corpus}: has no segments in split {self.split}")
        segments = corpus[self.split][: self.limit]
        if self.record > len(segments):
            raise ValueError(
                f"record: got {self.record}, expected at most {len(segments)}, the segments that are flown"
            )
        training = corpus["train"] if "train" in corpus.splits else ()
        everyone = [make_system(name, runs=self.runs, training=training, device=self.device) for name in self.systems]
        check_different(everyone)
        if self.bound:
            check_predicts(everyone)
        self.out.mkdir(parents=True, exist_ok=True)
        summaries, measured, judged = [], {}, []
        for system in everyone:
            check_words(system, segments)
            stem = f"{system.name}_{self.split}" + ("" if self.limit is None else f"_{len(segments)}")
            mark = fingerprint(segments, f"{system.mark} {self.device}", system.config)
            with progress_bar(f"{system.name} flies", len(segments)) as watch:
                flights = fly_split(
                    segments, system.policy, self.out / f"{stem}.safetensors", mark,
                    config=system.config, device=self.device, watch=watch,
                )  # fmt: skip
            metrics = flights.metrics(segments, system.config.altitude)
            measured[system.name] = metrics
            summary = summarise(system.name, self.split, metrics, segments)
            summaries.append(summary)
            with replacing(self.out / f"{stem}.json") as partial:
                partial.write_text(json.dumps(summary.to_json(), indent=1) + "\n", encoding="utf-8")
            if self.bound:
                judged.append(self._judge(system, segments, stem))
            if self.record:
                self._record(system, segments[: self.record])
        return Results(summaries, measured, segments, judged)

    def run(self) -> None:
        """Fly, judge, and print."""
        from pvn.report.prediction_quality import print_bound
        from pvn.report.results_table import print_results

        results = self.judge()
        summaries, judged = results.summaries, results.bounds
        if self.json:
            reports = [summary.to_json() for summary in summaries]
            print_json([{**one, "bound": two} for one, two in zip(reports, judged, strict=True)] if judged else reports)
        else:
            print_results(summaries, results.metrics, [segment.environment for segment in results.segments])
            for report in judged:
                print_bound(report)

    def _record(self, system: System, segments: Sequence[Segment]) -> None:
        """Fly some once more, and write recordings, films and summaries."""
        import sys

        from pvn.cli.progress import progress_over
        from pvn.viz.flight_files import fly_to_show, missing, save_flight

        for line in missing().values():
            print(line, file=sys.stderr)
        for number, segment in enumerate(progress_over(f"{system.name} is recorded", segments), start=1):
            recorded = fly_to_show(system, segment.task, device=self.device)
            save_flight(recorded, self.out / "recordings" / f"{system.name}_{self.split}_{number}")

    def _judge(self, system: System, segments: Sequence[Segment], stem: str) -> dict[str, Any]:
        """Fly a PVN once more, judge its predictions, and write report and picture."""
        from pvn.cli.progress import progress_bar
        from pvn.evaluation.predictions import fly_with_predictions, judge
        from pvn.learning.checkpoint import write_json
        from pvn.report.prediction_quality import draw_judgement

        with progress_bar(f"{system.name} predicts", len(segments)) as watch:
            predictions = fly_with_predictions(
                segments, system.policy, config=system.config, device=self.device, watch=watch
            )
        judgement = judge(predictions, segments, system.policy.visitation.config.grid)
        environments = [segment.environment for segment in segments]
        report = {"system": system.name, "split": self.split, **judgement.to_json(environments)}
        write_json(self.out / f"bound_{stem}.json", report)
        title = f"{system.name}, {len(segments):,} flights of split {self.split}"
        draw_judgement(self.out / f"calibration_{stem}.png", judgement, title)
        return report
