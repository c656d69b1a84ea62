"""Progress on standard error, on terminals and in log files."""

import re

import pytest
from rich.console import Console

from pvn.cli import progress
from pvn.cli.progress import progress_bar, training_bars, working

TRAINED = {"loss": 2.187, "trajectory": 0.475, "goal": 1.163, "landmark": 0.4, "grounded": 0.1, "mentioned": 0.6}
DEV = {f"dev_{name}": value + 1 for name, value in TRAINED.items()}


@pytest.fixture
def shown(monkeypatch, capsys):
    """What a terminal of 80 columns shows in the end: the lines without colours."""
    monkeypatch.setenv("COLUMNS", "80")

    def read():
        text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", capsys.readouterr().err)
        return [line.rstrip() for line in text.replace("\r", "\n").splitlines() if line.strip()]

    return read


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_stages_steps_times_and_dev_figures_are_read_in_80_columns(tmp_path, monkeypatch, shown, is_terminal):
    monkeypatch.setattr(progress, "Console", lambda **how: Console(**how, force_terminal=is_terminal))
    with training_bars(tmp_path) as watch:
        watch("imitation", 13_022, 13_023, TRAINED | DEV)
    bar, trained, dev = shown()[-3:]
    assert bar.startswith("imitation ") and "13023/13023" in bar and bar.endswith("left 0:00:00")
    assert trained == "  imitation: loss 2.187  trajectory 0.475  goal 1.163  landmark 0.400"
    assert dev == "  imitation on dev: loss 3.187  trajectory 1.475  goal 2.163  landmark 1.400"
    assert max(map(len, (bar, trained, dev))) <= 80


def test_figures_of_stages_that_run_at_the_same_time_are_all_shown(tmp_path, shown):
    with training_bars(tmp_path) as watch:
        watch("words", 99, 100, {"loss": 9.0})
        watch("stage 1", 3, 10, {"loss": 1.0})
        watch("stage 2", 4, 10, {"loss": 2.0})
    lines = shown()
    assert lines[-2:] == ["  stage 1: loss 1.000", "  stage 2: loss 2.000"]
    assert not any("preparing" in line or "words: loss" in line for line in lines), "what is finished has no figures"


@pytest.mark.parametrize(("seconds", "lines"), [(0.0, ["flights: 0 of 2,000", "flights: 1,000 of 2,000"]), (60.0, [])])
def test_a_log_file_has_a_line_now_and_then(monkeypatch, shown, seconds, lines):
    monkeypatch.setattr(progress, "QUIET_S", seconds)
    with progress_bar("flights", 2000) as advance_to:
        for done in (0, 1000, 2000):
            advance_to(done)
    *said, bar = shown()
    assert said == lines and "2000/2000" in bar


def test_work_of_unknown_length_says_what_it_is(shown):
    with working("flying") as say:
        say("drawing")
    assert shown() == ["flying ...", "drawing ..."]


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("pvn show field --field 3", ["flying", "drawing"]),
        ("pvn corpus stats corpus", ["reading"]),
        ("pvn corpus alignments corpus", ["reading", "counting"]),
        ("pvn evaluate --agent stop --corpus corpus --limit 2", ["loading", "reading", "stop flies"]),
        ("pvn fly --field 3 --segment 1 --agent stop", ["loading the agent", "flying", "drawing"]),
        ("pvn show catalogue --names Apple", ["drawing 1 landmark classes"]),
        ("pvn figure gallery --agent stop --count 2", ["loading the agent", "flying", "drawing"]),
    ],
)
def test_what_may_take_seconds_says_what_it_is_doing(command, said, corpus, undrawn, run, shown):
    run(command)
    lines = shown()
    assert all(any(line.startswith(what) for line in lines) for what in said), lines
