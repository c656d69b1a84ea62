"""The weights in the box fly as well as they are said to."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from pvn.evaluation.systems import check_words, make_system

import pvn
from pvn.corpus.meadow.banks import bundled_banks
from pvn.corpus.meadow.generator import make_meadow
from pvn.evaluation.flights import fingerprint, fly_split
from pvn.learning.agent import load_agent
from pvn.rollout.flight import fly, simulator_for
from pvn.simulator.interface import SimulatorConfig

SUCCESS = (66.6, 81.7)
"""95% interval of PVN's success rate on these 100 flights, percent, when its weights were released: 74."""


def test_the_shipped_agent_still_reaches_its_goals_on_a_hundred_flights_of_the_test_split(tmp_path):
    # A corpus of any size has fields of its own for its test split: none of these was trained in.
    segments = make_meadow(bundled_banks(), size=687, only=("test",))["test"]
    assert len(segments) == 100
    system = make_system("pvn")
    mark = fingerprint(segments, system.mark, system.config)
    flights = fly_split(segments, system.policy, tmp_path / "flights.safetensors", mark, config=system.config)
    success = 100 * flights.metrics(segments, SimulatorConfig().altitude).is_success.mean()
    assert SUCCESS[0] <= success <= SUCCESS[1]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("name", ["pvn", "gsmn", "chaplot"])
def test_the_same_flights_are_the_same_to_the_bit_on_cuda(name):
    system = make_system(name, device="cuda")
    tasks = [segment.task for segment in make_meadow(bundled_banks(), size=687, only=("test",))["test"]]
    first, second = (
        fly(simulator_for(tasks, device="cuda", config=system.config), tasks, system.policy) for _ in range(2)
    )
    assert torch.equal(first.pose_world, second.pose_world) and torch.equal(first.action, second.action)


@pytest.mark.parametrize("name", ["pvn", "gsmn", "chaplot"])
def test_weights_say_what_they_were_trained_with(name):
    system = make_system(name)
    assert len(system.policy.vocabulary) > 1000 and system.config.camera.width == 128


def copied(tmp_path, name="pvn"):
    for suffix in (".safetensors", ".json"):
        shutil.copy(Path(pvn.__file__).parent / "weights" / f"{name}{suffix}", tmp_path / f"agent{suffix}")
    return tmp_path / "agent.safetensors"


def test_weights_that_were_cut_short_or_changed_are_refused(tmp_path):
    path = copied(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="it is corrupt, train again or copy it again"):
        load_agent(path)
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))  # one bit of one weight
    with pytest.raises(ValueError, match="or changed since; copy both files again"):
        load_agent(path)
    copied(tmp_path, "gsmn").write_bytes(whole)
    with pytest.raises(ValueError, match=r"not the weights that agent\.json was written for"):
        load_agent(path)


def test_a_corpus_in_words_the_agent_does_not_know_is_refused():
    system = make_system("pvn")
    segments = make_meadow(bundled_banks(), size=20, only=("dev",))["dev"]
    check_words(system, segments)
    spoken = [replace(segment, task=replace(segment.task, instruction="zyzzyva qwertz")) for segment in segments]
    with pytest.raises(ValueError, match="pvn: does not know 100% of the corpus's words, expected at most 20%"):
        check_words(system, spoken)
