"""The report of a reproduction, from the files in its folder."""

from __future__ import annotations

import json
from pathlib import Path

from pvn.cli.reproduction_folder import PREDICTING, ReproductionFolder
from pvn.corpus.store import origin, read_corpus
from pvn.evaluation.flights import read_flights
from pvn.evaluation.intervals import Bootstrap
from pvn.evaluation.paper import TABLE
from pvn.evaluation.pilots import load_pilot
from pvn.evaluation.summary import Summary
from pvn.learning.checkpoint import read_json
from pvn.systems import SYSTEMS, TRUE_DISTRIBUTIONS
from pvn.viz.illustrations import (
    Illustration,
    illustrate_flights,
    illustrate_prediction_quality,
    illustrate_results,
    illustrate_schedule,
)
from pvn.viz.results_page import Provenance, write_report
from pvn.viz.schedule import StepTime


def _read_summary(path: Path) -> Summary:
    return Summary.from_json(json.loads(path.read_text(encoding="utf-8")))


def _illustrate(folder: ReproductionFolder, summaries: list[Summary], device: str) -> list[Illustration]:
    """The figures about systems and their flights."""
    figures, (name, split) = folder.figures, PREDICTING
    with folder.timed("figures", device, is_replaced=True):
        illustrations = illustrate_results(figures, summaries, folder.runs)
        if folder.has_results(name, split):
            pilot = load_pilot(name, runs=folder.runs, device=device)
            flights, _ = read_flights(folder.flights(name, split))
            segments = read_corpus(folder.corpus, (split,))[split]
            illustrations += illustrate_flights(figures, segments, flights, pilot, device=device)
    report, figure = folder.prediction_files(name, split)
    if report.exists() and figure.exists():
        illustrations.append(illustrate_prediction_quality(figure, read_json(report)))
    return illustrations


def report_reproduction(
    folder: ReproductionFolder, *, corpus: str, commands: tuple[str, ...], seed: int, device: str
) -> Path:
    """Draw the figures and write the report, of all systems that are finished; returns its path.

    corpus: its name, as used in a sentence; seed: of the training runs that are not in folders of further seeds.
    """
    summaries = [_read_summary(folder.summary(*row)) for row in TABLE if folder.has_results(*row)]
    illustrations = _illustrate(folder, summaries, device)
    times = {name: StepTime(**spent) for name, spent in read_json(folder.times)["steps"].items()}
    provenance = Provenance(
        preset=folder.preset,
        corpus=corpus,
        commands=commands,
        seeds={
            "corpus": int(origin(folder.corpus).get("seed", 0)),
            "training": seed,
            "intervals": Bootstrap().seed,
        },
        times=times,
        schedule=illustrate_schedule(folder.figures, times),
    )
    write_report(
        folder.out / "report.md",
        summaries,
        provenance,
        illustrations,
        further_seeds={
            seed: [_read_summary(own.summary(*row)) for row in TABLE if own.has_results(*row)]
            for seed, own in folder.further_seeds().items()
        },
        by_true_distributions={
            name: _read_summary(folder.summary(f"{name}{TRUE_DISTRIBUTIONS}", "dev"))
            for name in SYSTEMS
            if folder.has_results(name, "dev", TRUE_DISTRIBUTIONS)
        },
    )
    return folder.out / "report.md"
