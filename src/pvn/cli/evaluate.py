"""`pvn evaluate`: fly agents over a split of a corpus and score them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pvn.cli.options import AgentNames, Device, Look, Source, Split, print_json
from pvn.systems import DEFAULT_AGENT

if TYPE_CHECKING:
    from pvn.corpus.segments import Segment
    from pvn.evaluation.evaluate import Evaluated
    from pvn.evaluation.pilots import Pilot


@dataclass(frozen=True)
class Results:
    """The outcome of `pvn evaluate`."""

    segments: Sequence[Segment]
    """What was flown."""
    evaluated: list[Evaluated]
    """One for each agent."""
    bounds: list[dict[str, Any]]
    """Each agent's report on its predictions; empty if not asked for."""


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Fly agents over a split of a corpus and print how well they did, with 95% intervals."""

    agent: AgentNames = (DEFAULT_AGENT,)
    """Who flies, one or several: names of systems, or files of agents you trained."""
    corpus: Path
    """Folder of the corpus."""
    split: Split = "dev"
    """Which split."""
    source: Source | None = None
    """Fly only segments whose instructions come from here: phrases of a bank, natural instructions, which a language
    model wrote in assumed voices, the narrator, or LANI; by default all. The paper's table is about phrases."""
    limit: int | None = None
    """Fly only this many segments, counted from the first; with --paragraphs, to the end of a paragraph."""
    paragraphs: bool = False
    """Also fly whole paragraphs, each instruction from where the last flight ended and with its map."""
    altitude: float | None = None
    """Fly at this height, metres, instead of the height in training."""
    yaw_factor: float = 1.0
    """Turn the drone this many times faster than the agent commands. Only for PVN agents, like the next three."""
    stop_threshold: float | None = None
    """Stop where the stop probability is above this, instead of the agent's own threshold."""
    plan_every: int | None = None
    """Steps between predictions, instead of the agent's own interval."""
    look_threshold: float | None = None
    """Look around before flying while the goal is out of sight with more than this probability, instead of the agent's
    own threshold; 1 to fly at once."""
    true_distributions: bool = False
    """Fly a PVN's second stage by the demonstrated distributions instead of predicted ones, which tells errors of
    execution from errors of prediction."""
    look: Look = "own"
    """Which renderer draws what agents see: ours, or another with the same camera, which must be installed: `pip
    install mujoco`, `pip install pybullet`."""
    device: Device = "cpu"
    """Where to fly."""
    runs: Path | None = None
    """Folder with a training run for each system, whose agents fly instead of the shipped ones."""
    out: Path = Path("results")
    """Folder for flights and results; flights that are already there are not flown again."""
    bound: bool = False
    """Also fly once more to evaluate PVN's predictions: the paper's bound on the loss, and calibration of the goals."""
    record: int = 0
    """Fly this many segments once more and write a recording, a film and a summary of each into recordings/."""
    json: bool = False
    """Print a JSON list with one object per agent instead of tables."""

    def run(self) -> None:
        """Fly, score, and print."""
        from pvn.learning import parallel
        from pvn.viz.results_table import print_bound, print_results

        parallel.join_others(self.device)
        try:
            results = self.evaluate()
        except RuntimeError as error:
            if parallel.num_processes() > 1:
                raise ValueError(
                    f"a process of this evaluation ended before the others ({str(error).splitlines()[0]}); start all "
                    "of them again: flights that were saved are not flown again"
                ) from None
            raise
        if parallel.rank() > 0:
            return
        summaries = [found.summary for found in results.evaluated]
        if self.json:
            reports = [summary.to_json() for summary in summaries]
            bounds = results.bounds
            print_json([{**one, "bound": two} for one, two in zip(reports, bounds, strict=True)] if bounds else reports)
            return
        metrics = {found.pilot.name: found.metrics for found in results.evaluated}
        print_results(summaries, metrics, [segment.environment for segment in results.segments])
        for report in results.bounds:
            print_bound(report)

    def evaluate(self) -> Results:
        """Fly, score, and write the results."""
        from pvn.cli.progress import progress_bar, working

        with working("loading"):
            from pvn.evaluation.evaluate import AVERAGE, evaluate_pilot, make_pilots, read_split, result_stem
            from pvn.evaluation.pilots import predicting_agent
            from pvn.learning.parallel import num_processes, rank
            from pvn.systems import FlightChanges

        if self.record < 0:
            raise ValueError(f"record: got {self.record}, expected 0 or more flights")
        if self.look != "own":
            from pvn.simulator.looks.photographer import scene_maker

            scene_maker(self.look)
        changes = FlightChanges(
            altitude=self.altitude,
            yaw_factor=self.yaw_factor,
            stop_threshold=self.stop_threshold,
            plan_every=self.plan_every,
            look_threshold=self.look_threshold,
            has_true_distributions=self.true_distributions,
            look=self.look,
        )
        with working("reading the corpus"):
            segments, training = read_split(
                self.corpus,
                self.split,
                self.limit,
                source=self.source,
                needs_training=AVERAGE in self.agent,
                in_paragraphs=self.paragraphs,
            )
        if self.record > len(segments):
            raise ValueError(
                f"record: got {self.record}, expected at most {len(segments)}, the number of segments that are flown"
            )
        with working("loading agents"):
            pilots = make_pilots(
                self.agent, segments, training=training, runs=self.runs, changes=changes, device=self.device
            )
        for pilot in pilots if self.bound else ():
            predicting_agent(pilot)
        evaluated, bounds = [], []
        for pilot in pilots:
            stem = result_stem(self.out, pilot.name, self.split, self.limit, len(segments), self.source)
            share = -(-len(segments) // num_processes())  # all processes are about equally far
            with progress_bar(f"{pilot.name} flies", share * (1 + self.paragraphs), is_shown=rank() == 0) as advance_to:
                found = evaluate_pilot(
                    pilot,
                    segments,
                    split=self.split,
                    stem=stem,
                    device=self.device,
                    in_paragraphs=self.paragraphs,
                    watch=advance_to,
                )
            evaluated.append(found)
            if rank() > 0:
                continue
            if self.bound:
                bounds.append(self._evaluate_predictions(pilot, segments, stem.name))
            if self.record:
                self._record(pilot, segments[: self.record])
        return Results(segments, evaluated, bounds)

    def _record(self, pilot: Pilot, segments: Sequence[Segment]) -> None:
        """Fly some segments once more, and write recordings, films and summary figures."""
        import sys

        from pvn.cli.progress import progress_over
        from pvn.evaluation.evaluate import result_stem
        from pvn.viz.flight_files import missing_formats, save_flight
        from pvn.viz.flight_record import fly_to_show

        for line in missing_formats().values():
            print(line, file=sys.stderr)
        stem = result_stem(self.out / "recordings", pilot.name, self.split, None, len(segments), self.source)
        for number, segment in enumerate(progress_over(f"recording {pilot.name}", segments), start=1):
            record = fly_to_show(pilot, segment.task, demonstrated=segment.demonstration.path, device=self.device)
            save_flight(record, stem.with_name(f"{stem.name}_{number}"))

    def _evaluate_predictions(self, pilot: Pilot, segments: Sequence[Segment], stem: str) -> dict[str, Any]:
        """Fly a PVN once more, evaluate its predictions, and write report and figure."""
        from pvn.cli.progress import progress_bar, working
        from pvn.evaluation.pilots import predicting_agent
        from pvn.evaluation.predictions import evaluate_predictions, fly_with_predictions
        from pvn.learning.checkpoint import write_json
        from pvn.viz.curves import draw_prediction_quality

        with progress_bar(f"{pilot.name} predicts", len(segments)) as advance_to:
            predictions = fly_with_predictions(segments, pilot, device=self.device, watch=advance_to)
        with working("evaluating the predictions"):
            quality = evaluate_predictions(predictions, segments, predicting_agent(pilot).grid)
            environments = [segment.environment for segment in segments]
            report = {"system": pilot.name, "split": self.split, **quality.to_json(environments)}
            write_json(self.out / f"bound_{stem}.json", report)
            which = self.split if self.source is None else f"{self.split}, {self.source}"
            title = f"{pilot.name}, {len(segments):,} flights of split {which}"
            draw_prediction_quality(self.out / f"calibration_{stem}.png", quality, title)
        return report
