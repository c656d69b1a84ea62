"""Flights on disk: interrupted ones are completed, those of others are refused."""

import subprocess
import sys
import threading
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from pvn.cli import main
from pvn.corpus.store import write_corpus
from pvn.evaluation import flights as flights_module
from pvn.evaluation.flights import (
    Flights,
    fingerprint,
    fly_split,
    read_flights,
    write_flights,
)
from pvn.evaluation.pilots import load_pilot
from pvn.learning.checkpoint import write_tensors


@pytest.mark.long
def test_interrupted_flights_are_completed_and_equal_to_the_bit(meadow, tmp_path):
    segments, path, oracle = meadow["train"][:20], tmp_path / "flights.safetensors", load_pilot("oracle")

    def interrupt(done):
        if done == 18:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fly_split(segments, oracle, path, watch=interrupt)
    assert len(read_flights(path)[0]) == 16, "the flights of the last save"
    counts = []
    completed = fly_split(segments, oracle, path, watch=counts.append)
    assert counts == [16, 17, 18, 19, 20]
    whole = fly_split(segments, oracle, tmp_path / "whole.safetensors")
    assert all(torch.equal(getattr(completed, name), value) for name, value in vars(whole).items())
    assert path.read_bytes() == (tmp_path / "whole.safetensors").read_bytes()
    with pytest.raises(ValueError, match="flights of another agent, corpus, split, device or version"):
        fly_split(segments, load_pilot("average"), path)


def test_flights_by_other_rules_are_not_mixed(meadow, tmp_path, monkeypatch):
    segments, path, stop = meadow["train"][:2], tmp_path / "flights.safetensors", load_pilot("stop")
    fly_split(segments, stop, path)
    monkeypatch.setattr(flights_module, "FLIGHT_RULES", flights_module.FLIGHT_RULES + 1)
    with pytest.raises(ValueError, match="or version of pvn"):
        fly_split(segments, stop, path)


def test_whoever_interrupts_an_evaluation_waits_for_no_further_flights(meadow):
    def interrupt(done):
        if done == 1:
            raise KeyboardInterrupt

    before = set(threading.enumerate())  # demos of other tests may have threads, too
    with pytest.raises(KeyboardInterrupt) as caught:
        fly_split(meadow["train"][:12], load_pilot("oracle"), watch=interrupt)
    assert caught.tb is not None, "which keeps the interrupted function alive, as a program does that reports it"
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("flight")]


@pytest.mark.parametrize(("count", "size"), [(12, 1), (40, 2), (150, 8)])
def test_a_cpus_batches_have_up_to_eight_flights_and_fewer_if_there_would_be_under_sixteen_of_them(meadow, count, size):
    done = []
    fly_split(meadow["train"][:count], load_pilot("stop"), watch=done.append)
    assert done[0] == 0 and done[-1] == count
    assert {after - before for before, after in pairwise(done[:-1])} == {size}


def test_flights_that_are_not_saved_are_the_same(meadow, tmp_path):
    segments, average = meadow["dev"][:3], load_pilot("average")
    saved, passing = fly_split(segments, average, tmp_path / "flights.safetensors"), fly_split(segments, average)
    assert all(torch.equal(getattr(passing, name), value) for name, value in vars(saved).items())


def test_the_fingerprint_changes_with_whatever_changes_the_flights(meadow):
    segments, oracle = meadow["dev"][:3], load_pilot("oracle")
    task = replace(segments[0].task, instruction="go home")
    other = replace(segments[0], demonstration=replace(segments[0].demonstration, task=task))
    prints = [
        fingerprint(segments, oracle, "cpu"),
        fingerprint(segments[:2], oracle, "cpu"),
        fingerprint([other, *segments[1:]], oracle, "cpu"),
        fingerprint(segments, load_pilot("stop"), "cpu"),
        fingerprint(segments, replace(oracle, config=replace(oracle.config, altitude=4.0)), "cpu"),
        fingerprint(segments, oracle, "cuda"),
    ]
    assert len({tuple(found.tolist()) for found in prints}) == len(prints)
    assert torch.equal(prints[0], fingerprint(segments, load_pilot("oracle"), "cpu"))


def test_a_file_of_something_else_is_refused(tmp_path):
    write_tensors(tmp_path / "other.safetensors", {"pose_world": torch.zeros(3, 6)})
    with pytest.raises(ValueError, match="not a file of flights of this version; delete it and fly again"):
        read_flights(tmp_path / "other.safetensors")


def test_flights_that_were_changed_are_refused(tmp_path):
    path = tmp_path / "flights.safetensors"
    flights = Flights(torch.zeros(5, 6), torch.zeros(3, 3), torch.tensor([1, 2]), torch.tensor([True, False]))
    write_flights(path, flights, torch.zeros(32, dtype=torch.uint8))
    assert len(read_flights(path)[0]) == 2
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="its tensors do not agree with its checksum"):
        read_flights(path)


@pytest.mark.long
def test_two_processes_share_the_flights_and_get_those_of_one_to_the_bit(meadow, tmp_path, capsys):
    write_corpus(meadow, tmp_path / "corpus")
    command = [*"evaluate --agent oracle --limit 5 --json --corpus".split(), str(tmp_path / "corpus"), "--out"]
    two = [sys.executable, *"-m torch.distributed.run --nproc-per-node 2 --standalone -m pvn.cli".split()]
    done = subprocess.run(
        [*two, *command, tmp_path / "shared"], check=True, timeout=300, capture_output=True, text=True
    )
    main([*command, str(tmp_path / "alone")])
    assert done.stdout == capsys.readouterr().out and done.stdout.count('"system"') == 1
    shared, alone = (
        {path.name: path.read_bytes() for path in (tmp_path / out).iterdir()} for out in ("shared", "alone")
    )
    assert shared == alone and sorted(path.rpartition(".")[2] for path in alone) == ["json", "safetensors"]


def test_a_flight_faces_at_its_end_as_its_last_pose_does():
    steps = torch.tensor([1, 3, 2])
    pose = torch.zeros(int((steps + 1).sum()), 6)
    pose[:, 5] = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
    flights = Flights(pose, torch.zeros(6, 3), steps, torch.ones(3, dtype=torch.bool))
    assert flights.end_headings() == pytest.approx([0.2, 0.6, 0.9])
