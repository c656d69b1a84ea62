"""Pilots: systems and agents' files, ready to fly; what does not belong together is refused."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from pvn.evaluation.evaluate import make_pilots
from pvn.evaluation.pilots import (
    average_pilot,
    change_flights,
    check_different,
    check_words,
    load_pilot,
    predicting_agent,
)
from pvn.learning.agent import load_agent, save_agent, shipped_weights
from pvn.model.pvn import PVN, IdealAct
from pvn.rollout.flight import fly, simulator_for
from pvn.rollout.oracle import Oracle
from pvn.rollout.trivial_pilots import Average
from pvn.simulator.interface import SimulatorConfig
from pvn.systems import SYSTEMS, TRAINED, FlightChanges, find_system

FLOWN_WITH_PVN = [name for name, system in SYSTEMS.items() if system.run == "pvn"]


def copy_shipped(name, folder):
    """The package's agent as a run writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    for suffix in (".safetensors", ".json"):
        shutil.copy(shipped_weights(name).with_suffix(suffix), folder / f"agent{suffix}")
    return folder / "agent.safetensors"


@pytest.mark.long
def test_average_is_the_oracles_average(meadow):
    pilot = average_pilot(meadow["train"])
    demonstrations = [segment.demonstration for segment in meadow["train"]]
    tasks = [demonstration.task for demonstration in demonstrations]
    log = fly(simulator_for(tasks, config=SimulatorConfig(quality="none")), tasks, Oracle(demonstrations))
    assert pilot.num_steps == round(float(log.num_steps.double().mean()))
    flown = log.pose_world[:, :, :2].diff(dim=1).norm(dim=-1).sum(1) / (0.5 * log.num_steps)  # m/s; a step is 0.5 s
    assert pilot.speed == pytest.approx(float(flown.mean()), rel=1e-5)
    straight = fly(simulator_for(tasks[:3], config=SimulatorConfig(quality="none")), tasks[:3], pilot)
    assert straight.num_steps.tolist() == [pilot.num_steps] * 3 and straight.has_stopped.all()
    assert load_pilot("average", training=meadow["train"]).policy == pilot
    paper = Average(speed=pytest.approx(2 * 0.88), num_steps=18)  # 0.88 m in a step of half a second
    assert load_pilot("average").policy == paper != pilot, "without training segments, the paper's average"


def test_changed_flights_are_changed_and_keep_the_weights():
    pilots = {name: load_pilot(name) for name in FLOWN_WITH_PVN}
    assert set(pilots) == {"pvn", "pvn-ideal-act", "pvn-half-height", "pvn-height-0.7", "pvn-double-yaw-rate"}
    plain, half, fast = (pilots[name] for name in ("pvn", "pvn-half-height", "pvn-double-yaw-rate"))
    assert half.config.altitude == plain.config.altitude / 2
    assert pilots["pvn-height-0.7"].config.altitude == 0.7 * plain.config.altitude
    assert fast.config.max_yaw_rate == fast.policy.simulator.max_yaw_rate == 2 * plain.config.max_yaw_rate
    assert isinstance(pilots["pvn-ideal-act"].policy, IdealAct)
    assert len({pilot.fingerprint for pilot in pilots.values()}) == 5
    weights = [next(agent.visitation.parameters()) for agent in (plain.agent, half.agent, fast.agent)]
    assert all(torch.equal(weights[0], others) for others in weights[1:])


def test_changes_come_on_top_of_the_systems_own():
    changes = FlightChanges(stop_threshold=0.3, plan_every=2, look_threshold=0.4)
    pilot = load_pilot("pvn-half-height", changes=changes)
    assert pilot.config.altitude == 2.5
    assert (pilot.agent.stop_threshold, pilot.agent.plan_every, pilot.agent.look_threshold) == (0.3, 2, 0.4)
    assert pilot.fingerprint != load_pilot("pvn-half-height", changes=replace(changes, look_threshold=0.5)).fingerprint
    assert pilot.agent.stop_probability is not None
    for name, refused in (("oracle", changes), ("gsmn", changes), ("chaplot", FlightChanges(yaw_factor=2.0))):
        with pytest.raises(ValueError, match=f"{name}: got a changed yaw rate, stop threshold.*for a PVN alone"):
            load_pilot(name, changes=refused)
    assert load_pilot("gsmn", changes=FlightChanges(altitude=3.0)).config.altitude == 3.0
    assert change_flights(load_pilot("oracle"), FlightChanges(altitude=3.0)).config.altitude == 3.0


def test_a_pilot_flown_elsewhere_or_late_is_the_same_pilot(meadow):
    """At another height the trivial pilots fly as they do; with a delay every action comes as much later."""
    average = load_pilot("average")
    assert change_flights(average, FlightChanges(altitude=3.0)).policy == average.policy
    tasks = [segment.task for segment in meadow["dev"][:2]]
    on_time, late = (
        fly(simulator_for(tasks, config=pilot.config), tasks, pilot.policy_for(), horizon=30)
        for pilot in (average, change_flights(average, FlightChanges(delay_steps=2)))
    )
    assert late.num_steps.tolist() == [count + 2 for count in on_time.num_steps.tolist()]
    assert (late.action[:, :2] == 0).all() and torch.equal(late.action[:, 2:], on_time.action)
    assert torch.allclose(late.pose_world[:, 2:], on_time.pose_world, atol=1e-3), "it hovers, and then flies the same"
    slow = change_flights(change_flights(average, FlightChanges(delay_steps=1)), FlightChanges(altitude=3.0))
    assert slow.policy.num_steps == 1 and slow.policy.policy == average.policy, "a later change keeps the delay"
    # Flights of before are still known: what is not delayed has the fingerprint that it had.
    assert "delay" not in load_pilot("pvn-half-height").fingerprint
    delayed = load_pilot("pvn", changes=FlightChanges(delay_steps=1, has_ideal_act=True))
    assert isinstance(delayed.policy.policy, IdealAct) and delayed.fingerprint.startswith("delay 1 ")
    for changes, message in (
        ({"delay_steps": 1}, "oracle: got a delay"), ({"delay_steps": -1}, "delay_steps: got -1, expected 0 or more"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            load_pilot("oracle", changes=FlightChanges(**changes))


def test_only_the_oracle_is_shown_the_demonstrations(meadow):
    demonstrations = [segment.demonstration for segment in meadow["dev"][:2]]
    for name in ("stop", "average", "pvn"):
        pilot = load_pilot(name)
        assert pilot.policy_for(demonstrations) is pilot.policy_for() is pilot.policy
    oracle = load_pilot("oracle")
    assert oracle.policy is None and oracle.agent is None
    tasks = [demonstration.task for demonstration in demonstrations]
    simulator = simulator_for(tasks, config=oracle.config)
    flown, known = (fly(simulator, tasks, some) for some in (oracle.policy_for(demonstrations), Oracle(demonstrations)))
    assert torch.equal(flown.pose_world, known.pose_world)
    undemonstrated = replace(tasks[0], instruction="go home")
    with pytest.raises(ValueError, match="oracle: got 'go home', which has no demonstration.*choose an agent"):
        fly(simulator_for([undemonstrated]), [undemonstrated], oracle.policy_for(demonstrations))


@pytest.mark.long
def test_stage_2_by_true_distributions_needs_no_pictures_and_goes_where_the_path_leads(meadow, shipped_pvn):
    demonstrations = [segment.demonstration for segment in meadow["dev"][:6]]
    tasks = [demonstration.task for demonstration in demonstrations]
    true = load_pilot("pvn", changes=FlightChanges(has_true_distributions=True))
    assert true.config.quality == "none" and true.agent is None, "it reads no instructions"
    log = fly(simulator_for(tasks, config=true.config), tasks, true.policy_for(demonstrations))
    assert log.has_stopped.all() and log.goal_distance([one.goal for one in demonstrations]).max() < 5
    # Shown another way from the same start, it goes there instead.
    mirrored = [replace(one, path=2 * np.array(one.task.start[:2]) - one.path) for one in demonstrations]
    log = fly(simulator_for(tasks, config=true.config), tasks, true.policy_for(mirrored))
    assert log.goal_distance([one.goal for one in mirrored]).median() < 5
    never = load_pilot("pvn", changes=FlightChanges(has_true_distributions=True, stop_threshold=0.999))
    log = fly(simulator_for(tasks[:1], config=never.config), tasks[:1], never.policy_for(demonstrations[:1]))
    assert not log.has_stopped.any(), "the threshold of the flights, not the trained one"


def test_true_distributions_are_as_wide_as_those_that_stage_2_was_trained_with(quick_pvn, tmp_path):
    assert load_pilot("pvn").sigma_cells == 0.6
    blurred = tmp_path / "agent.safetensors"
    save_agent(load_agent(quick_pvn), blurred, {"recipe": {"stage2": {"sigma_cells": 1.6}}})
    true = load_pilot(str(blurred), changes=FlightChanges(has_true_distributions=True))
    assert true.sigma_cells == true.policy_for().sigma_cells == 1.6 and "1.6 cells" in true.fingerprint


def test_an_agent_in_memory_that_was_changed_has_flights_of_its_own(quick_pvn):
    agent = load_agent(quick_pvn)
    others = (agent.changed(look_threshold=0.0), agent.changed(stop_threshold=0.5))
    assert len({make_pilots(one)[0].fingerprint for one in (agent, *others)}) == 3
    assert make_pilots(agent)[0].fingerprint == make_pilots(load_agent(quick_pvn))[0].fingerprint


def test_saved_flights_of_earlier_versions_are_still_known():
    assert load_pilot("pvn-half-height").fingerprint.startswith(
        "FlightChanges(altitude=2.5, yaw_factor=1.0, stop_threshold=None, plan_every=None, has_ideal_act=False) "
    )
    plain, true = (
        load_pilot("pvn", changes=FlightChanges(has_true_distributions=is_true)) for is_true in (False, True)
    )
    assert plain.fingerprint != true.fingerprint


def test_true_distributions_are_refused_for_who_has_no_second_stage():
    changes = FlightChanges(has_true_distributions=True)
    for name in ("oracle", "stop", "gsmn", "chaplot", "pvn-ideal-act"):
        with pytest.raises(
            ValueError, match=f"{name}: got true distributions.*no learned second stage.*leave them out"
        ):
            load_pilot(name, changes=changes)
    with pytest.raises(ValueError, match="plan_every: got 3 with true distributions, which are not predicted"):
        FlightChanges(has_true_distributions=True, plan_every=3)


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(ValueError, match=r"got 'pvn-noaux', expected one of .* did you mean pvn-no-aux\?"):
        load_pilot("pvn-noaux")
    with pytest.raises(ValueError, match="expected one of"):
        find_system("")


def test_a_system_without_weights_says_how_to_get_them(tmp_path):
    assert "pvn-no-aux" in TRAINED
    with pytest.raises(FileNotFoundError, match="no weights in .*pvn-no-aux/agent.*`pvn train --agent pvn-no-aux`"):
        load_pilot("pvn-no-aux", runs=tmp_path)
    with pytest.raises(FileNotFoundError, match="no weights in the package; name a folder of runs with --runs"):
        load_pilot("pvn-no-aux")


@pytest.mark.parametrize("folder", ["mine", "pvn", "oracle", "stop", "average"])
def test_an_agents_file_that_is_missing_is_missed_whatever_its_folder_is_called(folder, tmp_path):
    path = tmp_path / folder / "agent.safetensors"
    with pytest.raises(FileNotFoundError, match=f"no file .*{folder}/agent.json; train first, or copy it there"):
        load_pilot(str(path))
    path.parent.mkdir()
    path.with_suffix(".json").write_text("{}")
    with pytest.raises(FileNotFoundError, match=f"no file .*{folder}/agent.safetensors; train first, or copy it there"):
        load_pilot(str(path))


def test_an_agents_file_is_called_by_its_folder_and_not_taken_for_a_system(tmp_path):
    own, mine, oracle = (
        load_pilot(str(copy_shipped("pvn", tmp_path / folder))) for folder in ("pvn", "mine", "oracle")
    )
    assert (own.name, mine.name, oracle.name) == ("own-pvn", "mine", "own-oracle")
    assert all(isinstance(pilot.agent, PVN) for pilot in (own, mine, oracle))
    check_different([load_pilot("pvn"), own, mine])
    with pytest.raises(ValueError, match="agent: got two that are called mine"):
        check_different([mine, own, mine])


def test_a_folder_of_runs_in_which_a_system_has_another_ones_agent_is_refused(tmp_path):
    for name, agent in (("gsmn", "pvn"), ("pvn", "chaplot")):
        copy_shipped(agent, tmp_path / name)
    with pytest.raises(
        ValueError, match=r"gsmn/agent\.safetensors: holds an agent of class PVN, expected GSMN for gsmn"
    ):
        load_pilot("gsmn", runs=tmp_path)
    for name in FLOWN_WITH_PVN:
        with pytest.raises(ValueError, match=f"holds an agent of class Chaplot, expected PVN for {name}"):
            load_pilot(name, runs=tmp_path)
    # Named itself, the file is flown as what it is.
    assert isinstance(load_pilot(str(tmp_path / "gsmn" / "agent.safetensors")).agent, PVN)


def test_a_folder_without_runs_is_refused_and_one_with_others_leaves_the_rest_to_the_package(tmp_path):
    run = tmp_path / "smoke"
    copy_shipped("gsmn", run)
    for name in ("pvn", "pvn-half-height"):
        with pytest.raises(ValueError, match=r"smoke, which holds no runs.*smoke/pvn/agent\.safetensors.*--agent"):
            load_pilot(name, runs=run)  # the run itself, not the folder it is in
    with pytest.raises(ValueError, match="nowhere, which holds no runs"):
        load_pilot("gsmn", runs=tmp_path / "nowhere")
    assert load_pilot("oracle", runs=run).name == "oracle", "which needs none"
    run.rename(tmp_path / "gsmn")
    assert load_pilot("gsmn", runs=tmp_path).fingerprint == load_pilot("gsmn").fingerprint
    assert load_pilot("pvn", runs=tmp_path).fingerprint == load_pilot("pvn").fingerprint


def test_the_same_weights_trained_again_have_the_same_fingerprint_and_others_have_not(tmp_path):
    path = copy_shipped("pvn", tmp_path)
    fingerprints = [load_pilot(str(path)).fingerprint]
    for change in ({"origin": {"stage2_s": 1.0}}, {"plan_every": 3}):
        content = json.loads(path.with_suffix(".json").read_text()) | change
        content.pop("description_sha256", None)
        path.with_suffix(".json").write_text(json.dumps(content))
        fingerprints.append(load_pilot(str(path)).fingerprint)
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]


@pytest.mark.long
def test_the_bound_is_for_pilots_that_fly_by_predictions():
    for name in ("pvn", "pvn-half-height", "pvn-double-yaw-rate"):
        assert isinstance(predicting_agent(load_pilot(name)), PVN)
    for name in ("pvn-ideal-act", "gsmn", "oracle"):
        with pytest.raises(ValueError, match=f"{name}: predicts no visitation distributions, expected a PVN"):
            predicting_agent(load_pilot(name))


@pytest.mark.parametrize("name", ["pvn", "gsmn", "chaplot"])
def test_agents_fly_with_the_camera_they_were_trained_with(name):
    pilot = load_pilot(name)
    assert len(pilot.agent.vocabulary) > 1000 and pilot.config == SimulatorConfig(camera=pilot.agent.camera)
    assert pilot.config.camera.width == 128


@pytest.mark.long
def test_a_corpus_in_words_the_agent_does_not_know_is_refused(meadow):
    pilot, segments = load_pilot("pvn"), meadow["dev"]
    check_words(pilot, segments)

    def renamed(segment):
        task = replace(segment.task, instruction="zyzzyva qwertz")
        return replace(segment, demonstration=replace(segment.demonstration, task=task))

    foreign = [renamed(segment) for segment in segments]
    with pytest.raises(ValueError, match="pvn: does not know 100% of the corpus's words, expected at most 20%"):
        check_words(pilot, foreign)
    check_words(load_pilot("oracle"), foreign)
