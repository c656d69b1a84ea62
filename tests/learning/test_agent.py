"""Agents on disk: they come back as they were, and files that do not fit are refused."""

from __future__ import annotations

import json
import resource
import shutil

import pytest
import torch
from safetensors.torch import load_file

from pvn.corpus.vocabulary import Vocabulary
from pvn.files import json_digest
from pvn.learning.checkpoint import save_agent
from pvn.model.execution import ExecutionConfig, ExecutionModel
from pvn.model.gsmn import GSMN
from pvn.model.pvn import PVN
from pvn.model.visitation import VisitationConfig, VisitationModel
from pvn.rollout.flight import fly
from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.simulator import simulator_for
from pvn.systems import load_agent, shipped_names, shipped_weights
from pvn.world.landmarks import LANDMARK_NAMES

LEARNED = ["pvn", "gsmn", "chaplot"]


def flown(agent, segments, horizon=4):
    """Actions and poses of two flights, and the agent's own stop probabilities."""
    tasks, stops = [segment.task for segment in segments[:2]], []
    config = SimulatorConfig(quality="fast", camera=agent.camera)
    log = fly(
        simulator_for(tasks, config=config), tasks, agent, horizon=horizon,
        watch=lambda step, observation, action, memory: stops.append(agent.stop_probability(memory)),
    )  # fmt: skip
    return [log.action, log.pose_world, torch.stack(stops)]


@pytest.mark.parametrize("system", LEARNED)
def test_an_agent_is_saved_without_its_heads_and_flies_the_same_to_the_bit(system, fresh_agent, segments, tmp_path):
    path, agent = tmp_path / "agent.safetensors", fresh_agent(system, seed=3)
    before = flown(agent, segments)
    save_agent(agent, path, {"note": "untrained"})
    names = list(load_file(path))
    assert names and not any(".heads." in name for name in names)
    again = load_agent(path)
    assert type(again) is type(agent) and again.describe() == agent.describe()
    assert again.vocabulary.terms == agent.vocabulary.terms and again.plan_every == agent.plan_every
    assert all(torch.equal(*pair) for pair in zip(before, flown(again, segments), strict=True))
    content = json.loads((tmp_path / "agent.json").read_text())
    assert content["landmark_classes"] == list(LANDMARK_NAMES) and content["origin"] == {"note": "untrained"}


@pytest.mark.long
@pytest.mark.parametrize("system", LEARNED)
def test_agents_fly_the_same_to_the_bit_where_a_landmark_class_was_added(system, segments, a_new_class):
    """A shipped agent, which was trained with 63 classes: none of its numbers refer to a class any more."""
    before = flown(load_agent(system), segments)
    with a_new_class():
        after = flown(load_agent(system), segments)
    assert all(torch.equal(*pair) for pair in zip(before, after, strict=True))


@pytest.mark.long
def test_an_agent_trained_with_more_classes_says_so_and_flies_where_there_are_fewer(a_new_class, segments, tmp_path):
    path, words = tmp_path / "agent.safetensors", Vocabulary.from_texts(["go to the aardvark"], min_count=1)
    with a_new_class():
        model = VisitationModel(VisitationConfig(num_words=len(words)))
        assert len(model.heads.mentioned.bias) == 1 + len(LANDMARK_NAMES)
        agent = PVN(model, ExecutionModel(ExecutionConfig()), words)
        before = flown(agent, segments)
        save_agent(agent, path, {})
    content = json.loads((tmp_path / "agent.json").read_text())
    assert content["landmark_classes"] == ["Aardvark", *LANDMARK_NAMES]
    assert all(torch.equal(*pair) for pair in zip(before, flown(load_agent(path), segments), strict=True))


def test_a_shipped_agent_is_loaded_by_name_or_by_path():
    assert shipped_names() == ["chaplot", "gsmn", "pvn", "pvn-plus"]
    by_name, by_path = load_agent("gsmn"), load_agent(shipped_weights("gsmn"))
    assert isinstance(by_name, GSMN)
    weights = [list(agent.model.resnet.parameters()) for agent in (by_name, by_path)]
    assert all(torch.equal(*pair) for pair in zip(*weights, strict=True))
    for name in ("oracle", "pvn-no-aux", "agent"):
        expected = "chaplot, gsmn, pvn, pvn-plus, whose weights are in"
        with pytest.raises(ValueError, match=f"agent: got '{name}', expected {expected}"):
            load_agent(name)


def test_where_an_agents_weights_are_it_is_complete(fresh_agent, tmp_path, monkeypatch):
    replaced = []

    def killed_at_the_second(partial, path):
        if replaced:
            raise KeyboardInterrupt
        replaced.append(path)

    monkeypatch.setattr("os.replace", killed_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        save_agent(fresh_agent("pvn"), tmp_path / "agent.safetensors", {})
    assert replaced == [tmp_path / "agent.json"] and list(tmp_path.iterdir()) == []


def test_on_a_full_disk_the_agent_that_was_there_stays(fresh_agent, tmp_path):
    path = tmp_path / "agent.safetensors"
    save_agent(fresh_agent("pvn"), path, {"made": "first"})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size // 2, hard))
    try:
        with pytest.raises(OSError, match=r"agent\.safetensors: cannot be written \(File too large\); make room"):
            save_agent(fresh_agent("pvn"), path, {"made": "second"})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    load_agent(path)
    assert json.loads((tmp_path / "agent.json").read_text())["origin"] == {"made": "first"}
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(("system", "part"), [("pvn", "visitation"), ("gsmn", "model"), ("chaplot", "model")])
def test_broken_agents_say_what_is_wrong(system, part, fresh_agent, tmp_path):
    path, described = tmp_path / "agent.safetensors", tmp_path / "agent.json"
    with pytest.raises(FileNotFoundError, match="train first"):
        load_agent(path)
    save_agent(fresh_agent(system), path, {})
    content = json.loads(described.read_text())
    described.write_text(json.dumps(content | {"plan_every": 7}))
    with pytest.raises(ValueError, match=r"agent\.json: changed since it was written; copy both files again"):
        load_agent(path)
    described.write_text(json.dumps(content, indent=4))
    load_agent(path)
    for change, message in (
        ({"version": 7}, "got version 7, expected 1"),
        ({"system": "eagle"}, "got system 'eagle', expected one of chaplot, gsmn, pvn"),
        ({"system": ["pvn"]}, r"got system \['pvn'\], expected one of"),
        ({"system": "oracle"}, "got system 'oracle', expected one of"),
        ({part: content[part] | {"num_words": 5}}, "does not fit the model"),
        ({part: content[part] | {"num_words": 2**31}}, "num_words: got 2147483648, expected a size that"),
        ({part: content[part] | {"num_words": "5"}}, "num_words: got '5', expected int"),
        ({part: content[part] | {"num_words": True}}, "num_words: got 'True', expected int"),
        ({part: content[part] | {"camera": 3}}, "not the description of the agent"),
        ({part: content[part] | {"wings": 2}}, "wings"),
        ({part: {}}, "not the description of the agent"),
        ({"vocabulary": 7}, "not the description of the agent"),
        ({"wings": 2}, "got an unknown name, 'wings'"),
    ):
        changed = content | change
        changed["description_sha256"] = json_digest(changed, without="description_sha256")
        described.write_text(json.dumps(changed))
        with pytest.raises(ValueError, match=message):
            load_agent(path)
    described.write_text(json.dumps({key: value for key, value in content.items() if key != "description_sha256"}))
    with pytest.raises(ValueError, match="not the description of an agent, it has no description_sha256"):
        load_agent(path)


def copied(name, folder):
    for suffix in (".safetensors", ".json"):
        shutil.copy(shipped_weights(name).with_suffix(suffix), folder / f"agent{suffix}")
    return folder / "agent.safetensors"


def test_weights_that_were_truncated_or_changed_are_refused(tmp_path):
    path = copied("pvn", tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="it is corrupt, train again or copy it again"):
        load_agent(path)
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))  # one bit of one weight
    with pytest.raises(ValueError, match="or changed since; copy both files again"):
        load_agent(path)
    copied("gsmn", tmp_path).write_bytes(whole)
    with pytest.raises(ValueError, match=r"not the weights that agent\.json was written for"):
        load_agent(path)
