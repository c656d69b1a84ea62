"""The figures of a report, drawn from what a reproduction left on disk."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pvn.corpus.segments import Segment
from pvn.evaluation.flights import Flights
from pvn.evaluation.paper import ANALYSED, COMPARED
from pvn.evaluation.predictions import WHEN
from pvn.evaluation.summary import Summary
from pvn.evaluation.systems import System
from pvn.report.curves import PHASES, draw_learning, draw_success_by_radius, read_curves
from pvn.viz.flight_record import fly_and_record
from pvn.viz.paper_figures import NUM_PREDICTIONS, Flown, draw_evolutions, draw_gallery

NUM_EVOLUTIONS, NUM_GALLERY = 3, 8
NAMES = (*COMPARED, *ANALYSED)
"""Every system, so that each has its colour whoever else is there."""


@dataclass(frozen=True)
class Illustration:
    """A figure of the report."""

    title: str
    path: Path
    """In the report's folder, or below it."""
    caption: str


def illustrate_results(folder: Path, summaries: Sequence[Summary], runs: Path) -> list[Illustration]:
    """Success over radius, and how each system in the folder of runs learned, as far as it is logged."""
    radii = folder / "success_by_radius.png"
    draw_success_by_radius(radii, summaries, NAMES)
    caption = "Share of flights that stopped within so many metres; bands, where few fly, are 95% intervals."
    found = [Illustration("Success by radius", radii, caption)]
    curves = {name: read_curves(runs / name / "logs") for name in NAMES if (runs / name / "logs").exists()}
    if any(phase in run for run in curves.values() for phase in PHASES):
        learning = folder / "learning.png"
        draw_learning(learning, curves, NAMES)
        caption = "Losses as logged; long curves are running means over a twenty-fifth of their length."
        found.append(Illustration("Learning", learning, caption))
    return found


def illustrate_judgement(picture: Path, report: Mapping[str, Any]) -> Illustration:
    """How well PVN's goals are calibrated and what its bounds are worth, drawn when they were judged."""
    errors = {when: report[when]["calibration"]["error"] for when in WHEN}
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


def illustrate_flights(
    folder: Path, segments: Sequence[Segment], flights: Flights, system: System, *, device: str = "cpu", seed: int = 0
) -> list[Illustration]:
    """Evolving predictions and a gallery of PVN's flights over segments; which ones, chance decides."""
    chance = random.Random(seed)
    long = (flights.num_steps > (NUM_PREDICTIONS - 1) * system.policy.plan_every).nonzero()[:, 0].tolist()
    chosen = chance.sample(
        long if len(long) >= NUM_EVOLUTIONS else range(len(flights)), min(NUM_EVOLUTIONS, len(flights))
    )
    evolution, gallery = folder / "evolution.png", folder / "gallery.png"
    draw_evolutions(evolution, [fly_and_record(system, segments[place].task, device=device) for place in chosen])
    shown = chance.sample(range(len(flights)), min(NUM_GALLERY, len(flights)))
    paths = flights.paths()
    draw_gallery(
        gallery,
        [Flown(segments[place].task, paths[place], bool(flights.has_stopped[place])) for place in shown],
    )
    return [
        Illustration(
            "How predictions evolve (the paper's figure 4)",
            evolution,
            "Development segments drawn at random from those flown long enough for four predictions. Left: the "
            "demonstrated path dashed, flown path blue, goal region an orange circle. Middle: predicted trajectory "
            "blue, predicted goal orange, the drone a white dot. Right: the first three channels of the last semantic "
            "map. The same as vector graphics: evolution.pdf.",
        ),
        Illustration(
            "Flights (the paper's figure 5)",
            gallery,
            "Development segments drawn at random. Demonstrated path dashed, flown path blue, goal region an orange "
            "circle. The same as vector graphics: gallery.pdf.",
        ),
    ]
