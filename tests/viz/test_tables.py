"""Tables on the terminal."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from pvn.evaluation.metrics import measure_flights
from pvn.rollout.flight import FlightLog
from pvn.viz.results_table import print_results
from pvn.viz.tables import print_flights


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def rows(text):
    """The cells of a table's rows."""
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if line.startswith("│")]


def test_flights_end_at_a_goal_away_from_it_or_without_one(paragraph, capsys):
    tasks = [segment.task for segment in paragraph[:3]]
    pose = torch.zeros(3, 2, 6)
    pose[:, 1, 0] = 4.0
    log = FlightLog(
        pose, torch.zeros(3, 2, 3), torch.zeros(3, 1, 3), torch.ones(3, dtype=torch.int64),
        torch.tensor([True, False, True]),
    )  # fmt: skip
    print_flights("three flights", tasks, log, goals=[(4.0, 3.0), (4.0, 3.0), None], labels=["a", "b", "c"])
    end = "stopped with no landmark within 10 m; the white fence is less than 1 m to the right"
    assert rows(capsys.readouterr().out) == [
        ["a", tasks[0].instruction, "1", "4.0 m", "3.0 m from the goal: success"],
        ["b", tasks[1].instruction, "1", "4.0 m", "3.0 m from the goal: failure"],
        ["c", tasks[2].instruction, "1", "4.0 m", end],
    ]
    headings = [0.7, -2.0, 3.0]
    print_flights("facing", tasks, log, goals=[(4.0, 3.0), (4.0, 3.0), None], headings=headings)
    ends = [row[-1] for row in rows(capsys.readouterr().out)]
    assert ends == [
        "3.0 m from the goal: success, faces 40 degrees off",
        "3.0 m from the goal: failure, faces 115 degrees off",
        end,
    ]
    print_flights("facing", tasks[:1], log, goals=[(4.0, 3.0)], headings=[-2.0])
    assert rows(capsys.readouterr().out)[0][-1] == "3.0 m from the goal: success, but faces 115 degrees off"
    print_flights("one flight", tasks[:1], log, goals=[None], is_own_world=False)
    (row,) = rows(capsys.readouterr().out)
    assert row[0] == "1", "without labels they are numbered"
    assert row[-1] == "stopped", "nothing is known of another world"


def test_systems_are_compared_with_the_first_on_the_same_flights(paragraph, with_rate, capsys):
    demonstrations = [segment.demonstration for segment in paragraph]
    paths = [demonstration.path for demonstration in demonstrations]
    metrics = {name: measure_flights(paths, [name == "pvn"] * len(paths), demonstrations) for name in ("gsmn", "pvn")}
    summaries = [with_rate("gsmn", "test", 0, 0), with_rate("pvn", "test", 90, 100)]
    print_results(summaries, metrics, np.arange(len(paths)))
    text = capsys.readouterr().out
    assert "5 flights of split test in 50 fields, 95% intervals" in text
    assert re.search(r"pvn\s+│ 95\.0 \(90\.0 to 100\.0\)", text)
    assert "pvn compared with gsmn on the same flights: success +100.0 points (+100.0 to +100.0)" in text


def test_flights_in_one_field_have_no_interval_and_the_tables_say_so(paragraph, summary, capsys):
    demonstrations = [segment.demonstration for segment in paragraph]
    paths = [demonstration.path for demonstration in demonstrations]
    metrics = {name: measure_flights(paths, [True] * len(paths), demonstrations) for name in ("oracle", "pvn")}
    print_results([summary, replace(summary, system="pvn")], metrics, np.zeros(len(paths), np.int64))
    text = capsys.readouterr().out
    assert "5 flights of split test in 1 field" in text and "\ntoo few fields for an interval\n" in text
    assert re.search(r"pvn\s+│ 100\.0 │", text) and "100.0 to" not in text
    assert "without brackets" not in text, "there are none"
    assert "pvn compared with oracle on the same flights: success +0.0 points (too few fields)" in text
