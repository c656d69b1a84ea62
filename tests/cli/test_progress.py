"""Progress bars."""

import pytest

from pvn.cli.progress import training_bars

FIGURES = {"loss": 2.187, "trajectory": 0.475, "goal": 1.163, "landmark": 0.4, "grounded": 0.1, "mentioned": 0.6}


@pytest.mark.parametrize("width", [80, 160])
def test_stage_bar_and_estimate_are_readable_however_narrow_the_terminal(tmp_path, monkeypatch, capsys, width):
    monkeypatch.setenv("COLUMNS", str(width))
    with training_bars(tmp_path) as watch:
        watch("imitation", 13_022, 13_023, FIGURES)
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert line.startswith("imitation ") and "13023/13023" in line and "left 0:00:00 loss 2.187" in line
    assert ("goal 1.163" in line) == (width == 160)
