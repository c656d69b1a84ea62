"""Each benchmark runs, at its smallest, and prints one JSON object; nothing is said about how fast."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def report_of(name, *options):
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), *options]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.long
def test_the_simulators_report_has_a_row_for_each_batch():
    report = report_of("simulator", "--max-batch", "4", "--seconds", "0.05")
    assert min(report["race"]["fps"].values()) > 0
    assert [row["batch"] for row in report["cpu"]] == [1, 4]
    assert report["first_frame"]["peak_mb"] < 600


@pytest.mark.long
def test_the_agents_report_has_its_steps_and_their_parts():
    report = report_of("agent", "--agent", "pvn", "--repeats", "1")
    assert {"step_that_predicts", "stage_2"} < report["flight_ms"].keys() and min(report["flight_ms"].values()) > 0
    assert {"step", "pictures"} < report["training_ms"].keys() and min(report["training_ms"].values()) > 0


@pytest.mark.long
def test_the_oracle_reaches_every_goal():
    report = report_of("oracle", "--segments", "20")
    assert report["here"]["success_percent"] == 100 and 0.5 < report["here"]["mean_distance"] < 2
    assert report["here"].keys() == report["paper"].keys()


@pytest.mark.long
def test_the_airsim_server_answers_as_many_requests_as_it_gets():
    pytest.importorskip("msgpack")
    report = report_of("airsim", "--seconds", "0.05", "--requests", "50")
    assert report["memory"]["requests"] == 50 and report["full"]["raw"] > 0


@pytest.mark.slow
def test_the_airsim_servers_memory_does_not_grow_over_100_000_requests():
    pytest.importorskip("msgpack")
    memory = report_of("airsim", "--seconds", "0.2", "--requests", "100000")["memory"]
    assert memory["after_mb"] - memory["before_mb"] < 5
