"""A flight as files: recording, film and summary figure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pvn.evaluation.systems import System
from pvn.viz.film import NO_FFMPEG, has_ffmpeg, write_film
from pvn.viz.film import SUFFIXES as FILMS
from pvn.viz.flight_record import Recorded, fly_and_record
from pvn.viz.rerun_file import MISSING, has_rerun, write_recording
from pvn.viz.saving import SUFFIXES as PICTURES
from pvn.viz.summary_figure import draw_summary
from pvn.world.task import Task

SUFFIXES = (".rrd", *FILMS, *PICTURES)


def flight_path(path: Path) -> Path:
    """The path, if it ends as a file of a flight does."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"out: got {path}, expected a name that ends in {', '.join(SUFFIXES)}")
    return path


def fly_to_show(system: System, task: Task, *, has_goal: bool = True, device: str = "cpu") -> Recorded:
    """The flight with pictures of what the drone sees, also of a pilot that does not look."""
    if system.config.quality == "none":
        system = replace(system, config=replace(system.config, quality="full"))
    return fly_and_record(system, task, has_goal=has_goal, device=device)


def write_flight(recorded: Recorded, path: Path) -> None:
    """Write a flight as the path's ending says: .rrd a recording, .mp4, .webp or .gif a film, .png a summary."""
    flight_path(path)
    if path.suffix == ".rrd":
        write_recording(recorded, path)
    elif path.suffix in FILMS:
        write_film(recorded, path)
    else:
        draw_summary(path, recorded)


def missing() -> dict[str, str]:
    """What cannot be written here, by ending, and what to do about it."""
    lacking = {} if has_rerun() else {".rrd": MISSING}
    return lacking if has_ffmpeg() else lacking | {".mp4": NO_FFMPEG}


def save_flight(recorded: Recorded, stem: Path) -> list[Path]:
    """Write recording, film and summary, as far as they can be written here; returns their paths."""
    paths = [stem.with_name(stem.name + suffix) for suffix in (".rrd", ".mp4", ".png") if suffix not in missing()]
    for path in paths:
        write_flight(recorded, path)
    return paths
