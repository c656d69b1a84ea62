"""A flight as files: recording, film and summary."""

from __future__ import annotations

from pathlib import Path

from pvn.viz.film import NO_FFMPEG, has_ffmpeg, write_film
from pvn.viz.film import SUFFIXES as FILMS
from pvn.viz.flight_pictures import draw_summary
from pvn.viz.flight_record import FlightRecord
from pvn.viz.rerun_file import NO_RERUN, has_rerun, write_recording
from pvn.viz.saving import SUFFIXES as PICTURES

SUFFIXES = (".rrd", *FILMS, *PICTURES)


def flight_path(path: Path) -> Path:
    """The path, if a flight can be written to a file with its suffix; otherwise a ValueError."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"out: got {path}, expected a name that ends in {', '.join(SUFFIXES)}")
    return path


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
    """Suffixes of files that cannot be written here, with what to install for each."""
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
