"""`pvn evaluate`: what is printed, written, resumed and refused."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pvn.corpus.segments import Corpus
from pvn.corpus.store import write_corpus
from pvn.evaluation.flights import Flights, read_flights
from pvn.learning.checkpoint import write_tensors
from pvn.systems import shipped_weights


@pytest.fixture(scope="session")
def two_folder(paragraph, tmp_path_factory):
    """A corpus with two dev segments. Do not change it."""
    folder = tmp_path_factory.mktemp("stored") / "two"
    write_corpus(Corpus("two", {"dev": tuple(paragraph[1:3])}), folder)
    return folder


@pytest.fixture
def two(two_folder, in_an_empty_folder):
    Path("two").symlink_to(two_folder)


@pytest.mark.long
def test_agents_are_compared_with_intervals_and_an_interrupted_evaluation_resumes(corpus, printed):
    command = "pvn evaluate --agent oracle stop average --corpus corpus --split dev --limit 20 --out results --json"
    first = printed(command)
    oracle, stop, average = json.loads(first)
    assert [row["system"] for row in (oracle, stop, average)] == ["oracle", "stop", "average"]
    assert oracle["sr"] == {"value": 100.0, "low": 100.0, "high": 100.0} and oracle["split"] == "dev"
    assert stop["sr"]["value"] < 40 and stop["steps"]["value"] == 1
    assert average["sr"]["low"] <= average["sr"]["value"] <= average["sr"]["high"]
    # The file of flights, truncated as if the run had been killed after some of them, is completed, bit for bit.
    path = Path("results/average_dev_20.safetensors")
    whole = path.read_bytes()
    flights, fingerprint = read_flights(path)
    steps = int(flights.num_steps[:3].sum())
    part = Flights(
        flights.pose_world[: steps + 3], flights.action[:steps], flights.num_steps[:3], flights.has_stopped[:3]
    )
    write_tensors(path, {**vars(part), "fingerprint": fingerprint})
    assert printed(command) == first and path.read_bytes() == whole
    assert "oracle" in printed(command.removesuffix(" --json")), "as tables, too"


@pytest.fixture(scope="session")
def mixed_folder(meadow, tmp_path_factory):
    """A corpus with three dev segments from phrases and two natural ones after them. Do not change it."""
    folder = tmp_path_factory.mktemp("stored") / "mixed"
    natural = (
        replace(segment, environment=10**6, place=place, source="natural")
        for place, segment in enumerate(meadow["dev"][3:5])
    )
    write_corpus(Corpus("mixed", {"dev": (*meadow["dev"][:3], *natural)}), folder)
    return folder


@pytest.mark.long
def test_flights_are_flown_by_source_into_different_files(mixed_folder, printed, refused):
    command = f"pvn evaluate --agent stop --corpus {mixed_folder} --json"
    for options, flights in (
        ("", 5),
        (" --source natural", 2),
        (" --source phrases", 3),
        (" --source natural --limit 1", 1),
    ):
        (report,) = json.loads(printed(command + options))
        assert report["flights"] == flights
    stems = ("stop_dev", "stop_dev_natural", "stop_dev_natural_1", "stop_dev_phrases")
    files = sorted(f"{stem}.{ending}" for stem in stems for ending in ("json", "safetensors"))
    assert sorted(path.name for path in Path("results").iterdir()) == files
    message = refused(f"{command} --source lani")
    assert "source: got lani, expected one that split dev" in message and "has: phrases, natural" in message
    assert "got 'people', expected one of phrases, natural" in refused(f"{command} --source people")


def test_flights_of_another_agent_are_not_taken_for_its_own(corpus, run, refused):
    run("pvn evaluate --agent stop --corpus corpus --split dev --limit 3 --out results --device cpu")
    Path("results/stop_dev_3.safetensors").rename("results/oracle_dev_3.safetensors")
    message = refused("pvn evaluate --agent oracle --corpus corpus --split dev --limit 3 --out results")
    assert "flights of another agent" in message


@pytest.mark.long
def test_changed_flights_are_other_flights_with_files_of_their_own(two, printed):
    plain = json.loads(printed("pvn evaluate --corpus two --limit 1 --json"))
    changed = json.loads(
        printed(
            "pvn evaluate --corpus two --limit 1 --json --altitude 4 --yaw-factor 2 --stop-threshold 0.9 --plan-every 3"
        )
    )
    name = "pvn-plus_altitude4_yaw2_stop0.9_plan3"
    assert [row["system"] for row in (*plain, *changed)] == ["pvn-plus", name]
    assert plain[0]["metres"] != changed[0]["metres"]
    assert sorted(path.name for path in Path("results").iterdir()) == [
        f"pvn-plus_{rest}dev_1.{ending}"
        for rest in ("altitude4_yaw2_stop0.9_plan3_", "")
        for ending in ("json", "safetensors")
    ]


@pytest.mark.long
def test_stage_2_is_flown_by_true_distributions_with_files_of_its_own(two, printed, refused):
    (row,) = json.loads(printed("pvn evaluate --agent pvn --corpus two --true-distributions --json"))
    assert row["system"] == "pvn_true-distributions" and row["sr"]["value"] == 100
    assert Path("results/pvn_true-distributions_dev.json").exists()
    message = refused("pvn evaluate --agent gsmn --corpus two --true-distributions")
    assert "or second stage, expected such changes only for a PVN" in message


def test_a_look_whose_renderer_is_missing_is_refused_before_flying(two, refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    monkeypatch.delitem(sys.modules, "pvn.simulator.looks.mujoco_renderer", raising=False)
    message = refused("pvn evaluate --agent pvn --corpus two --look mujoco")
    assert "look: got mujoco, but it does not load here" in message and "pip install mujoco" in message
    assert not Path("results").exists()


@pytest.mark.long
@pytest.mark.parametrize("look", ["mujoco", "pybullet"])
def test_flights_with_another_look_have_files_of_their_own(look, two, printed):
    pytest.importorskip(look)
    (report,) = json.loads(printed(f"pvn evaluate --agent pvn --corpus two --limit 1 --look {look} --json"))
    assert report["system"] == f"pvn_{look}" and report["flights"] == 1
    assert Path(f"results/pvn_{look}_dev_1.json").exists()


@pytest.mark.long
def test_an_agents_file_is_reported_by_its_folder(two, printed):
    Path("mine").mkdir()
    for suffix in (".json", ".safetensors"):
        shutil.copy(shipped_weights("pvn").with_suffix(suffix), f"mine/agent{suffix}")
    (row,) = json.loads(printed("pvn evaluate --agent mine/agent.safetensors --corpus two --limit 1 --json"))
    assert row["system"] == "mine" and Path("results/mine_dev_1.json").exists()


@pytest.mark.long
def test_bound_evaluates_predictions_and_refuses_who_predicts_nothing(two, printed, refused):
    (row,) = json.loads(printed("pvn evaluate --agent pvn --corpus two --bound --json"))
    assert row["bound"] == json.loads(Path("results/bound_pvn_dev.json").read_text())
    assert row["bound"]["last"]["bound"]["goal"]["holds_percent"]["value"] == 100
    assert Path("results/calibration_pvn_dev.png").exists()
    message = refused("pvn evaluate --agent pvn oracle --corpus two --out elsewhere --bound")
    assert "oracle: predicts no visitation distributions" in message and not Path("elsewhere").exists()


@pytest.mark.long
def test_record_flies_the_first_segments_again_and_json_stays_json(corpus, bare, printed):
    command = "pvn evaluate --agent oracle stop --corpus corpus --split train --limit 3 --record 2 --json"
    assert [row["system"] for row in json.loads(printed(command))] == ["oracle", "stop"]
    names = sorted(path.name for path in Path("results/recordings").iterdir())
    assert names == ["oracle_train_1.png", "oracle_train_2.png", "stop_train_1.png", "stop_train_2.png"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--corpus nowhere", "no corpus in nowhere"),
        ("--corpus two --split test", "two: has no segments in split test"),
        ("--corpus two --limit 0", "limit: got 0, expected at least 1"),
        ("--corpus two --record -1", "record: got -1"),
        ("--corpus two --record 3", "record: got 3, expected at most 2"),
        ("--corpus two --agent pvn pvn", "got two that are called pvn"),
        ("--corpus two --agent pvn-no-aux --runs runs", "pvn-no-aux: no weights in runs/pvn-no-aux"),
        ("--corpus two --yaw-factor 0", "yaw_factor: got 0.0, expected a number above 0"),
        ("--corpus two --stop-threshold 2", "stop_threshold: got 2.0, expected a probability"),
        ("--corpus two --plan-every 0", "plan_every: got 0"),
        ("--corpus two --agent oracle --stop-threshold 0.5", "oracle: got a changed yaw rate, stop threshold"),
        ("--corpus two --agent gsmn --yaw-factor 2", "gsmn: got a changed yaw rate"),
    ],
)
def test_what_is_wrong_is_said_before_flying(options, message, two, refused):
    assert message in refused(f"pvn evaluate {options}")
    assert not Path("results").exists()


@pytest.mark.long
def test_paragraphs_are_reported_beside_their_segments_and_resumed(corpus, printed):
    command = "pvn evaluate --agent oracle stop --corpus corpus --limit 1 --paragraphs --out results"
    oracle, stop = json.loads(printed(f"{command} --json"))
    assert oracle["paragraphs"]["brought_to_end"] == {"value": 100.0, "low": None, "high": None}, "of one field"
    assert stop["paragraphs"]["completed"]["value"] == 0.0
    count = oracle["flights"]
    assert count == oracle["paragraphs"]["instructions"] > 1, "the whole paragraph"
    before = Path(f"results/oracle_dev_{count}_paragraphs.safetensors").read_bytes()
    text = printed(command)
    assert (
        f"1 paragraph of {count} instructions" in text
        and "too few fields for an interval" in text
        and "brought to the end" in text
    )
    assert Path(f"results/oracle_dev_{count}_paragraphs.safetensors").read_bytes() == before
    assert json.loads(Path(f"results/oracle_dev_{count}.json").read_text())["paragraphs"] == oracle["paragraphs"]
