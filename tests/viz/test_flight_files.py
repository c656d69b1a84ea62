"""Flights as files: the ending decides what is written."""

from pathlib import Path

import pytest

from pvn.evaluation.pilots import load_pilot
from pvn.viz import flight_files
from pvn.viz.film import write_film
from pvn.viz.flight_files import SUFFIXES, missing_formats, save_flight, write_flight
from pvn.viz.flight_record import fly_to_show
from pvn.viz.rerun_file import write_recording


def test_a_pilot_that_does_not_use_its_camera_is_shown_with_pictures(segment, monkeypatch):
    seen = {}
    monkeypatch.setattr(
        "pvn.viz.flight_record.fly_and_record", lambda pilot, task, **_: seen.update(config=pilot.config)
    )
    fly_to_show(load_pilot("oracle"), segment.task)
    assert seen["config"].quality == "full"


def test_every_ending_has_its_writer(record, monkeypatch):
    written = []
    for name in ("write_recording", "write_film"):
        monkeypatch.setattr(flight_files, name, lambda record, path, name=name: written.append((name, path.suffix)))
    monkeypatch.setattr(
        flight_files, "draw_summary", lambda path, record: written.append(("draw_summary", path.suffix))
    )
    for suffix in SUFFIXES:
        write_flight(record, Path(f"flight{suffix}"))
    assert dict(map(reversed, written)) == {
        ".rrd": "write_recording",
        **dict.fromkeys((".mp4", ".webp", ".gif"), "write_film"),
        **dict.fromkeys((".png", ".jpg", ".pdf", ".svg"), "draw_summary"),
    }


def test_what_is_not_installed_is_named_and_the_rest_is_written(record, monkeypatch, tmp_path):
    monkeypatch.setattr(flight_files, "has_rerun", lambda: False)
    monkeypatch.setattr(flight_files, "has_ffmpeg", lambda: False)
    monkeypatch.setattr(flight_files, "draw_summary", lambda path, record: path.touch())
    assert missing_formats() == {
        ".rrd": 'rerun is not installed, so no .rrd can be written; pip install "pvn-drone[app]"',
        ".mp4": 'imageio-ffmpeg is not installed, so no .mp4 can be written; pip install "pvn-drone[app]"',
    }
    assert save_flight(record, tmp_path / "one.two") == [tmp_path / "one.two.png"]
    assert [path.name for path in tmp_path.iterdir()] == ["one.two.png"]


@pytest.mark.parametrize(("write", "ending"), [(write_film, ".avi"), (write_recording, ".txt"), (write_flight, "")])
def test_a_wrong_ending_is_refused(record, write, ending):
    with pytest.raises(ValueError, match="expected a name that ends in"):
        write(record, Path(f"flight{ending}"))
