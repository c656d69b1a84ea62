"""Systems of the results table: ablations leave out what they say, and the changed worlds are changed."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from pvn.evaluation.systems import CHANGED, TRAINED, average_pilot, check_different, check_predicts, make_system

import pvn
from pvn.corpus.alignment import align
from pvn.corpus.meadow.banks import bundled_banks
from pvn.corpus.meadow.generator import make_meadow
from pvn.corpus.vocabulary import Vocabulary
from pvn.evaluation.flights import fingerprint, fly_split, read_flights
from pvn.geometry import overhead_homography
from pvn.learning import presets
from pvn.learning.agent import load_agent, shipped_agent
from pvn.learning.demonstrations import demonstrate, select, take_batch
from pvn.learning.training import train
from pvn.model.mapping import one_frame_each
from pvn.model.pvn import IdealAct
from pvn.model.visitation import GOAL, VisitationConfig, VisitationModel
from pvn.rollout.flight import fly, simulator_for
from pvn.rollout.oracle import Oracle
from pvn.simulator.interface import SimulatorConfig


@pytest.fixture(scope="module")
def corpus():
    return make_meadow(bundled_banks(), size=60, seed=3)


@pytest.fixture(scope="module")
def tasks(corpus):
    return [segment.task for segment in corpus["dev"]][:6]


def test_a_ground_point_is_where_it_belongs_in_a_view_from_above():
    origin = torch.tensor([[10.0, 20.0, 0.5]])
    point_map = torch.tensor([3.0, -2.0, 1.0])
    east = 10.0 + 3.0 * torch.tensor(0.5).cos() + 2.0 * torch.tensor(0.5).sin()
    north = 20.0 + 3.0 * torch.tensor(0.5).sin() - 2.0 * torch.tensor(0.5).cos()
    column, row, depth = overhead_homography(origin, side=50.0, margin=1.0, size_px=104)[0] @ point_map
    assert depth == 1.0
    assert column == pytest.approx(float(2 * (east + 1)), abs=1e-4)
    assert row == pytest.approx(float(2 * (51 - north)), abs=1e-4)


def test_an_agent_that_is_shown_the_field_from_above_knows_all_of_it_and_nothing_else(tasks):
    model = VisitationModel(VisitationConfig(num_words=10, overhead_px=64)).eval()
    image = simulator_for(tasks).top_down(64, 1.0)
    origin = torch.tensor([task.start for task in tasks])
    memory = model.see(one_frame_each(image, torch.zeros((len(tasks), 6)), origin), model.begin(len(tasks)))
    for is_known, (x, y, yaw) in zip(memory.is_known, origin, strict=True):
        east = x + model.places[:, 0] * yaw.cos() - model.places[:, 1] * yaw.sin()
        north = y + model.places[:, 0] * yaw.sin() + model.places[:, 1] * yaw.cos()
        is_inside = (east > -1) & (east < 51) & (north > -1) & (north < 51)
        assert torch.equal(is_known, is_inside)


def test_views_from_above_are_one_a_flight_and_every_landmark_in_them_is_visible(corpus):
    vocabulary = Vocabulary.from_texts((segment.task.instruction for segment in corpus["train"]), min_count=1)
    tasks = [segment.task for segment in corpus["train"]][:4]
    shown = demonstrate(tasks, vocabulary, align(corpus["train"], vocabulary), overhead_px=32)
    batch = take_batch(shown, select(shown, torch.arange(4)))
    assert batch.frames.image.shape == (4, 32, 32, 3)
    assert batch.is_visible.sum(1).tolist() == [len(task.layout.landmarks) for task in tasks]


def test_without_its_instruction_an_agent_reads_the_same_into_every_sentence():
    deaf = VisitationModel(VisitationConfig(num_words=10, uses_instruction=False))
    hearing = VisitationModel(VisitationConfig(num_words=10))
    sentences = torch.tensor([[3, 4, 5], [6, 7, 0]])
    one, other = deaf.read(sentences)
    assert torch.equal(one, other)
    one, other = hearing.read(sentences)
    assert not torch.equal(one, other)


def test_an_ideal_pilot_stops_at_the_most_likely_goal(tasks):
    agent = IdealAct(shipped_agent())
    memories = []
    log = fly(
        simulator_for(tasks), tasks, agent, horizon=45, watch=lambda step, seen, did, memory: memories.append(memory)
    )
    for flight in log.has_stopped.nonzero()[:, 0].tolist():
        last = memories[int(log.num_steps[flight]) - 1]
        cell = last.visitation.log_probability[flight, GOAL].argmax()
        x, y, yaw = last.origin[flight]
        forward, left = agent.agent.visitation.places[cell]
        goal = torch.stack([x + forward * yaw.cos() - left * yaw.sin(), y + forward * yaw.sin() + left * yaw.cos()])
        assert float((log.end_world[flight] - goal).norm()) < 2.0
    assert log.has_stopped.sum() >= 3


def test_average_is_the_oracles_average(corpus):
    pilot = average_pilot(corpus["train"])
    assert 1.2 < pilot.speed < 2.6 and 10 < pilot.num_steps < 24


def test_changed_worlds_are_changed_and_keep_the_weights():
    plain, half, fast = (make_system(name) for name in ("pvn", "pvn-half-height", "pvn-double-yaw-rate"))
    assert half.config.altitude == plain.config.altitude / 2
    assert fast.config.max_yaw_rate == fast.policy.simulator.max_yaw_rate == 2 * plain.config.max_yaw_rate
    assert len({make_system(name).mark for name in ("pvn", *CHANGED)}) == 4


@pytest.mark.parametrize("change", ["no_aux", "no_goal", "no_dagger", "no_instruction", "full_observation"])
def test_every_ablation_trains_and_flies(change, corpus, tasks, tmp_path):
    recipe = getattr(presets, change)(presets.smoke())
    recipe = replace(
        recipe,
        stage1=replace(recipe.stage1, num_epochs=1, word_steps=0, frames_per_batch=8, measured_flights=3),
        stage2=replace(recipe.stage2, pretrain_flights=6, num_iterations=min(recipe.stage2.num_iterations, 1)),
    )
    small = replace(corpus, splits={"train": corpus["train"][:8], "dev": corpus["dev"][:3]})
    train(small, recipe, tmp_path)
    agent = load_agent(tmp_path / "agent.safetensors")
    config = SimulatorConfig(camera=recipe.camera)
    log = fly(simulator_for(tasks[:2], config=config), tasks[:2], agent, horizon=3)
    assert log.pose_world.isfinite().all()


def test_a_system_without_weights_says_how_to_get_them(tmp_path):
    with pytest.raises(FileNotFoundError, match="pvn train --system pvn-no-aux"):
        make_system("pvn-no-aux", runs=tmp_path)
    assert "pvn-no-aux" in TRAINED


def test_weights_of_ones_own_are_not_taken_for_the_packages(tmp_path):
    for folder in ("pvn", "mine"):
        (tmp_path / folder).mkdir()
        for suffix in (".safetensors", ".json"):
            shutil.copy(Path(pvn.__file__).parent / "weights" / f"pvn{suffix}", tmp_path / folder / f"agent{suffix}")
    shipped = make_system("pvn")
    own, mine = (make_system(str(tmp_path / folder / "agent.safetensors")) for folder in ("pvn", "mine"))
    assert (own.name, mine.name) == ("own-pvn", "mine")
    check_different([shipped, own, mine])
    with pytest.raises(ValueError, match="systems: got two that are called mine"):
        check_different([mine, own, mine])


def test_the_same_weights_trained_again_make_the_same_flights_and_others_do_not(tmp_path):
    path = tmp_path / "agent.safetensors"
    for suffix in (".safetensors", ".json"):
        shutil.copy(Path(pvn.__file__).parent / "weights" / f"pvn{suffix}", path.with_suffix(suffix))
    marks = [make_system(str(path)).mark]
    for change in ({"origin": {"stage2_s": 1.0}}, {"plan_every": 3}):
        content = json.loads(path.with_suffix(".json").read_text()) | change
        path.with_suffix(".json").write_text(json.dumps(content))
        marks.append(make_system(str(path)).mark)
    assert marks[0] == marks[1] != marks[2]


def test_who_can_be_asked_for_the_bound_is_who_flies_by_predictions():
    with pytest.raises(ValueError, match="name only pvn, pvn-no-aux, .*, pvn-half-height, pvn-double-yaw-rate"):
        check_predicts([make_system("pvn-ideal-act")])
    check_predicts([make_system(name) for name in ("pvn", "pvn-half-height", "pvn-double-yaw-rate")])


def test_a_folder_without_runs_is_refused_and_one_with_others_leaves_the_rest_to_the_package(tmp_path):
    shipped = Path(pvn.__file__).parent / "weights"
    run = tmp_path / "smoke"
    run.mkdir()
    for suffix in (".safetensors", ".json"):
        shutil.copy(shipped / f"gsmn{suffix}", run / f"agent{suffix}")
    for name in ("pvn", "pvn-half-height"):
        with pytest.raises(ValueError, match=r"smoke, which holds no runs.*smoke/pvn/agent\.safetensors.*--weights"):
            make_system(name, runs=run)  # the run itself, not the folder it is in
    with pytest.raises(ValueError, match="nowhere, which holds no runs"):
        make_system("gsmn", runs=tmp_path / "nowhere")
    assert make_system("oracle", runs=run).name == "oracle"
    run.rename(tmp_path / "gsmn")
    assert make_system("gsmn", runs=tmp_path).mark == make_system("gsmn").mark
    assert make_system("pvn", runs=tmp_path).mark == make_system("pvn").mark


def test_flights_that_were_interrupted_are_gone_on_with(corpus, tmp_path):
    segments, path, config = corpus["train"][:20], tmp_path / "flights.safetensors", SimulatorConfig(quality="none")
    mark = fingerprint(segments, "oracle", config)

    def interrupt(done):
        if done == 18:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fly_split(segments, Oracle(), path, mark, config=config, watch=interrupt)
    assert len(read_flights(path)[0]) == 16, "what was written down last"
    told = []
    gone_on = fly_split(segments, Oracle(), path, mark, config=config, watch=told.append)
    assert told == [16, 17, 18, 19, 20]
    whole = fly_split(segments, Oracle(), tmp_path / "whole.safetensors", mark, config=config)
    assert all(torch.equal(getattr(gone_on, name), value) for name, value in vars(whole).items())
    assert path.read_bytes() == (tmp_path / "whole.safetensors").read_bytes()
    other = fingerprint(segments, "average", config)
    with pytest.raises(ValueError, match="flights of another system, corpus, split or device"):
        fly_split(segments, Oracle(), path, other, config=config)
