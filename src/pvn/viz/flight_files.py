"""A flight as files: recording, film and summary figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pvn.evaluation.pilots import Pilot
from pvn.paths import Points
from pvn.viz.film import NO_FFMPEG, has_ffmpeg, write_film
from pvn.viz.film import SUFFIXES as FILMS
from pvn.viz.flight_pictures import draw_summary
from pvn.viz.flight_record import FlightRecord, fly_and_record, fly_next
from pvn.viz.rerun_file import NO_RERUN, has_rerun, write_recording
from pvn.viz.saving import SUFFIXES as PICTURES
from pvn.world.task import Task

SUFFIXES = (".rrd", *FILMS, *PICTURES)


def flight_path(path: Path) -> Path:
    """The path, if a flight can be written to a file with its suffix; otherwise a ValueError."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"out: got {path}, expected a name that ends in {', '.join(SUFFIXES)}")
    return path


def fly_to_show(pilot: Pilot, task: Task, *, demonstrated: Points | None = None, device: str = "cpu") -> FlightRecord:
    """Fly a task and record it with camera images, even if the pilot does not use its camera.

    demonstrated: the task's demonstrated path (P, 2), field frame, if there is one.
    """
    if pilot.config.quality == "none":
        pilot = replace(pilot, config=replace(pilot.config, quality="full"))
    return fly_and_record(pilot, task, demonstrated=demonstrated, device=device)


def fly_paragraph_to_show(
    pilot: Pilot, task: Task, instructions: Sequence[str], *, device: str = "cpu"
) -> list[FlightRecord]:
    """Fly a task and then further instructions, each from where the last flight ended, and record them all."""
    records = [fly_to_show(pilot, task, device=device)]
    for instruction in instructions:
        records.append(fly_next(pilot, records[-1], instruction, device=device))
    return records


def write_flight(record: FlightRecord, path: Path) -> None:
    """Write a flight in the format of the suffix: .rrd a recording, .mp4, .webp or .gif a film, others a summary."""
    flight_path(path)
    if path.suffix == ".rrd":
        write_recording(record, path)
    elif path.suffix in FILMS:
        write_film(record, path)
    else:
        draw_summary(path, record)


def missing_formats() -> dict[str, str]:
    """Suffixes of files that cannot be written here, each with a line that says what to install."""
    lacking = {} if has_rerun() else {".rrd": NO_RERUN}
    return lacking if has_ffmpeg() else lacking | {".mp4": NO_FFMPEG}


def save_flight(record: FlightRecord, stem: Path) -> list[Path]:
    """Write the recording, film and summary that can be written here; returns their paths."""
    paths = [
        stem.with_name(stem.name + suffix) for suffix in (".rrd", ".mp4", ".png") if suffix not in missing_formats()
    ]
    for path in paths:
        write_flight(record, path)
    return paths
