"""Flights on disk: interrupted ones are completed, those of others are refused."""

from dataclasses import replace

import pytest
import torch

from pvn.evaluation.flights import fingerprint, fly_split, read_flights
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
    assert len(read_flights(path)[0]) == 16, "those that were saved last"
    counts = []
    completed = fly_split(segments, oracle, path, watch=counts.append)
    assert counts == [16, 17, 18, 19, 20]
    whole = fly_split(segments, oracle, tmp_path / "whole.safetensors")
    assert all(torch.equal(getattr(completed, name), value) for name, value in vars(whole).items())
    assert path.read_bytes() == (tmp_path / "whole.safetensors").read_bytes()
    with pytest.raises(ValueError, match="flights of another agent, corpus, split or device"):
        fly_split(segments, load_pilot("average"), path)


def test_flights_that_are_not_kept_are_the_same(meadow, tmp_path):
    segments, average = meadow["dev"][:3], load_pilot("average")
    kept, passing = fly_split(segments, average, tmp_path / "flights.safetensors"), fly_split(segments, average)
    assert all(torch.equal(getattr(passing, name), value) for name, value in vars(kept).items())


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
    with pytest.raises(ValueError, match="has no action, expected a file of flights; delete it and fly again"):
        read_flights(tmp_path / "other.safetensors")
