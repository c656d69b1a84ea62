"""`pvn bench`: what is measured, and that a machine can read it."""

import json

import pytest


@pytest.mark.long
def test_the_simulators_speed_is_one_json_object(run, capfd):
    run("pvn bench simulator --json --max-batch 4 --seconds 0.05")
    report = json.loads(capfd.readouterr().out)
    assert report["cpu"]["fast_fps"] > report["cpu"]["full_fps"] > 0
    assert [row["batch"] for row in report["cpu"]["growth"]] == [1, 4]
    assert report["cpu"]["first_frame_mb"] < 600


@pytest.mark.slow
def test_the_agents_speed_tells_where_the_time_goes(printed):
    report = json.loads(printed("pvn bench agent --json --device cpu"))
    policy, learning = report["policy"], report["learning"]
    assert policy["planning_step_ms"] > policy["stage_2_ms"] > 0
    assert min(learning["parts_ms"].values()) > 0 and learning["step_launched_ms"] > 0


def test_the_oracles_figures_are_shown_beside_the_papers(printed):
    report = json.loads(printed("pvn bench oracle --segments 20 --json --device cpu"))
    assert report["success_percent"] == 100 and 0.5 < report["mean_distance"] < 2
    assert "paper" in printed("pvn bench oracle --segments 5").lower()


@pytest.mark.long
def test_the_airsim_servers_rates_and_memory_are_one_json_object(printed):
    pytest.importorskip("msgpack")
    report = json.loads(printed("pvn bench airsim --seconds 0.1 --requests 50"))
    assert report["memory"]["requests"] == 50


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("oracle --segments 0", "segments: got 0"),
        ("simulator --max-batch 0", "max_batch: got 0"),
        ("simulator --seconds 0", "seconds: got 0"),
    ],
)
def test_what_cannot_be_measured_is_refused(command, message, refused):
    assert message in refused(f"pvn bench {command}")
