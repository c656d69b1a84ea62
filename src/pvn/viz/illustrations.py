"""The figures of a report, drawn from the files of a reproduction."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pvn.corpus.segments import Segment
from pvn.evaluation.flights import Flights
from pvn.evaluation.pilots import Pilot, predicting_agent
from pvn.evaluation.predictions import FIRST_AND_LAST
from pvn.evaluation.summary import Summary
from pvn.systems import SYSTEMS
from pvn.viz.curves import DAGGER_NOTE, PHASES, draw_learning, draw_success_by_radius, read_curves
from pvn.viz.flight_record import FlightRecord, fly_and_record
from pvn.viz.paper_figures import NUM_PREDICTIONS, GalleryFlight, draw_evolutions, draw_gallery

NUM_EVOLUTIONS, NUM_GALLERY = 3, 9


@dataclass(frozen=True)
class Illustration:
    """A figure of the report."""

    title: str
    path: Path
    """In the report's folder, or below it."""
    caption: str


def illustrate_results(folder: Path, summaries: Sequence[Summary], runs: Path) -> list[Illustration]:
    """Success by radius, and the learning curves of every system whose logs are in the folder of runs."""
    names = tuple(SYSTEMS)
    radii = folder / "success_by_radius.png"
    draw_success_by_radius(radii, summaries, names)
    caption = (
        "The share of flights that stopped within a given distance of the goal; bands, drawn where there are few "
        "systems, are 95% intervals; the dotted line is the radius of success, 5 m."
    )
    found = [Illustration("Success by radius", radii, caption)]
    curves = {name: read_curves(runs / name / "logs") for name in names if (runs / name / "logs").exists()}
    if any(phase in run for run in curves.values() for phase in PHASES):
        learning = folder / "learning.png"
        draw_learning(learning, curves, names)
        caption = f"Losses as logged. Long curves are running means over a twenty-fifth of their length. {DAGGER_NOTE}"
        found.append(Illustration("Learning", learning, caption))
    return found


def illustrate_prediction_quality(picture: Path, report: Mapping[str, Any]) -> Illustration:
    """Calibration of PVN's goals, and the bounds, in the picture that their evaluation drew."""
    errors = {when: report[when]["calibration"]["error"] for when in FIRST_AND_LAST}
    bound = report["last"]["bound"]["goal"]
    return Illustration(
        "What the predictions are worth",
        picture,
        f"Over {report['flights']:,} development flights. Left: whether the goal lies within the likeliest p% of the "
        f"predicted mass p% of the time; the expected calibration error is {errors['first']:.3f} for a flight's first "
        f"prediction and {errors['last']:.3f} for its last. Right: what was lost beside what the paper's theorem 5.1 "
        f"allows. By the last goal distribution the bound holds for {bound['holds_percent']['value']:.1f}% of the "
        f"flights, its median is {bound['median_bound']['value']:.2f}, the median loss "
        f"{bound['median_gap']['value']:.2f}; it is below 1, and so says something, for "
        f"{bound['says_something_percent']['value']:.1f}%.",
    )


def _record(segment: Segment, pilot: Pilot, device: str) -> FlightRecord:
    demonstration = segment.demonstration
    return fly_and_record(pilot, demonstration.task, demonstrated=demonstration.path, device=device)


def illustrate_flights(
    folder: Path, segments: Sequence[Segment], flights: Flights, pilot: Pilot, *, device: str = "cpu", seed: int = 0
) -> list[Illustration]:
    """Evolving predictions and a gallery of a PVN's flights over segments, both chosen at random."""
    generator = random.Random(seed)
    num_steps = (NUM_PREDICTIONS - 1) * predicting_agent(pilot).plan_every
    long = (flights.num_steps > num_steps).nonzero()[:, 0].tolist()
    chosen = generator.sample(
        long if len(long) >= NUM_EVOLUTIONS else range(len(flights)), min(NUM_EVOLUTIONS, len(flights))
    )
    evolution, gallery = folder / "evolution.png", folder / "gallery.png"
    draw_evolutions(evolution, [_record(segments[place], pilot, device) for place in chosen])
    paths, sheet = flights.paths(), []
    for place in generator.sample(range(len(flights)), min(NUM_GALLERY, len(flights))):
        demonstration = segments[place].demonstration
        has_stopped = bool(flights.has_stopped[place])
        sheet.append(GalleryFlight(demonstration.task, paths[place], has_stopped, demonstration.path))
    draw_gallery(gallery, sheet)
    return [
        Illustration(
            "How predictions evolve (the paper's figure 4)",
            evolution,
            "Development segments, drawn at random from flights long enough for four predictions. Left: the "
            "demonstrated path dashed, the flown path blue, the goal region an orange circle. Middle: the predicted "
            "trajectory violet, the predicted goal orange, the drone a white dot. Right: the first three channels of "
            "the last semantic map. The same as vector graphics: evolution.pdf.",
        ),
        Illustration(
            "Flights (the paper's figure 5)",
            gallery,
            "Development segments drawn at random. The demonstrated path is dashed, the flown path blue, the goal "
            "region an orange circle. The same as vector graphics: gallery.pdf.",
        ),
    ]
