"""Pilots: systems and agents, ready to fly; what does not belong together is refused."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from pvn.evaluation.pilots import average_policy, check_pilots, load_pilot, predicting_agent
from pvn.learning.checkpoint import save_agent
from pvn.model.pvn import PVN, IdealAct
from pvn.rollout.flight import fly
from pvn.rollout.oracle import Oracle
from pvn.rollout.trivial_pilots import Average
from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.simulator import simulator_for
from pvn.systems import SYSTEMS, FlightChanges, load_agent, shipped_weights

FLIES_WITH_PVN = [name for name, system in SYSTEMS.items() if system.run == "pvn"]


def copy_shipped(name, folder):
    """The package's agent as a run writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    for suffix in (".safetensors", ".json"):
        shutil.copy(shipped_weights(name).with_suffix(suffix), folder / f"agent{suffix}")
    return folder / "agent.safetensors"


@pytest.mark.long
def test_average_is_the_oracles_average(meadow):
    average = average_policy(meadow["train"])
    demonstrations = [segment.demonstration for segment in meadow["train"]]
    tasks = [demonstration.task for demonstration in demonstrations]
    log = fly(simulator_for(tasks, config=SimulatorConfig(quality="none")), tasks, Oracle(demonstrations))
    assert average.num_steps == round(float(log.num_steps.double().mean()))
    metres = log.pose_world[:, :, :2].diff(dim=1).norm(dim=-1).sum(1)
    assert average.speed == pytest.approx(float((metres / (0.5 * log.num_steps)).mean()), rel=1e-5)  # 0.5 s a step
    straight = fly(simulator_for(tasks[:3], config=SimulatorConfig(quality="none")), tasks[:3], average)
    assert straight.num_steps.tolist() == [average.num_steps] * 3 and straight.has_stopped.all()
    assert load_pilot("average", training=meadow["train"]).policy == average
    paper = Average(speed=pytest.approx(2 * 0.88), num_steps=18)  # 0.88 m in a step of half a second
    assert load_pilot("average").policy == paper != average, "without training segments, the paper's average"


def test_changed_flights_are_changed_and_have_the_same_weights():
    pilots = {name: load_pilot(name) for name in FLIES_WITH_PVN}
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
    assert pilot.name == "pvn-half-height_stop0.3_plan2_look0.4" and pilot.config.altitude == 2.5
    assert (pilot.agent.stop_threshold, pilot.agent.plan_every, pilot.agent.look_threshold) == (0.3, 2, 0.4)
    assert pilot.fingerprint != load_pilot("pvn-half-height", changes=replace(changes, look_threshold=0.5)).fingerprint
    assert pilot.agent.stop_probability is not None
    for name, refused in (("oracle", changes), ("gsmn", changes), ("chaplot", FlightChanges(yaw_factor=2.0))):
        with pytest.raises(ValueError, match=f"{name}: got a changed yaw rate, stop threshold"):
            load_pilot(name, changes=refused)
    for name in ("gsmn", "oracle", "average"):
        higher = load_pilot(name, changes=FlightChanges(altitude=3.0))
        assert higher.config.altitude == 3.0 and type(higher.policy) is type(load_pilot(name).policy)


def test_only_the_oracle_sees_the_demonstrations(meadow):
    demonstrations = [segment.demonstration for segment in meadow["dev"][:2]]
    for name in ("stop", "average", "pvn"):
        pilot = load_pilot(name)
        assert pilot.policy_for(demonstrations) is pilot.policy_for() is pilot.policy
    oracle = load_pilot("oracle")
    assert oracle.policy is None and oracle.agent is None
    tasks = [demonstration.task for demonstration in demonstrations]
    simulator = simulator_for(tasks, config=oracle.config)
    flights, known = (
        fly(simulator, tasks, some) for some in (oracle.policy_for(demonstrations), Oracle(demonstrations))
    )
    assert torch.equal(flights.pose_world, known.pose_world)
    undemonstrated = replace(tasks[0], instruction="go home")
    with pytest.raises(ValueError, match="oracle: got 'go home', which has no demonstration.*choose an agent"):
        fly(simulator_for([undemonstrated]), [undemonstrated], oracle.policy_for(demonstrations))


@pytest.mark.long
def test_stage_2_by_true_distributions_needs_no_pictures_and_goes_where_the_path_leads(meadow):
    demonstrations = [segment.demonstration for segment in meadow["dev"][:6]]
    tasks = [demonstration.task for demonstration in demonstrations]
    true = load_pilot("pvn", changes=FlightChanges(has_true_distributions=True))
    assert true.config.quality == "none" and true.agent is None, "it reads no instructions"
    log = fly(simulator_for(tasks, config=true.config), tasks, true.policy_for(demonstrations))
    assert log.has_stopped.all() and log.goal_distance([one.goal for one in demonstrations]).max() < 5
    # Given another path from the same start, it goes there instead.
    mirrored = [replace(one, path=2 * np.array(one.task.start[:2]) - one.path) for one in demonstrations]
    log = fly(simulator_for(tasks, config=true.config), tasks, true.policy_for(mirrored))
    assert log.goal_distance([one.goal for one in mirrored]).median() < 5
    never = load_pilot("pvn", changes=FlightChanges(has_true_distributions=True, stop_threshold=0.999))
    log = fly(simulator_for(tasks[:1], config=never.config), tasks[:1], never.policy_for(demonstrations[:1]))
    assert not log.has_stopped.any(), "the threshold of the flights, not the trained one"


def test_true_distributions_are_as_wide_as_those_that_stage_2_was_trained_with(quick_pvn, tmp_path):
    assert load_pilot("pvn").sigma_cells == 0.6
    changes, fingerprints = FlightChanges(has_true_distributions=True), set()
    for sigma in (0.6, 1.6):
        path = tmp_path / "agent.safetensors"
        save_agent(load_agent(quick_pvn), path, {"recipe": {"stage2": {"sigma_cells": sigma}}})
        true = load_pilot(path, changes=changes)
        fingerprints.add(true.fingerprint)
        assert true.sigma_cells == true.policy_for().sigma_cells == sigma
    assert len(fingerprints) == 2


@pytest.mark.parametrize("name", ["oracle", "stop", "gsmn", "chaplot", "pvn-ideal-act"])
def test_true_distributions_need_a_learned_second_stage(name):
    with pytest.raises(ValueError, match=f"{name}: got a changed yaw rate.*second stage.*leave them out"):
        load_pilot(name, changes=FlightChanges(has_true_distributions=True))


@pytest.mark.long
def test_the_fingerprint_is_of_weights_words_and_settings_and_not_of_where_they_came_from(quick_pvn, tmp_path):
    agent = load_agent(quick_pvn)
    first = load_pilot(agent).fingerprint
    save_agent(agent, tmp_path / "agent.safetensors", {"trained": "elsewhere"})
    assert load_pilot(tmp_path / "agent.safetensors").fingerprint == load_pilot(quick_pvn).fingerprint == first
    others = [agent.changed(look_threshold=0.0), agent.changed(stop_threshold=0.5), agent.changed(plan_every=3)]
    with torch.no_grad():
        heavier = load_agent(quick_pvn)
        next(iter(heavier.networks["execution"].parameters())).add_(1e-3)
    assert len({first, *(load_pilot(one).fingerprint for one in (*others, heavier))}) == 5


def test_a_system_without_weights_says_how_to_get_them(tmp_path):
    with pytest.raises(FileNotFoundError, match="no weights in .*pvn-no-aux/agent.*`pvn train --agent pvn-no-aux`"):
        load_pilot("pvn-no-aux", runs=tmp_path)
    with pytest.raises(FileNotFoundError, match="no weights in the package; name a folder of runs with --runs"):
        load_pilot("pvn-no-aux")
    with pytest.raises(ValueError, match=r"got 'pvn-noaux', expected one of .* did you mean pvn-no-aux\?"):
        load_pilot("pvn-noaux")


@pytest.mark.parametrize("folder", ["mine", "pvn", "oracle"])
def test_an_agents_file_that_is_missing_is_missed_whatever_its_folder_is_called(folder, tmp_path):
    path = tmp_path / folder / "agent.safetensors"
    with pytest.raises(FileNotFoundError, match=f"no file .*{folder}/agent.json; train first, or copy it there"):
        load_pilot(str(path))


def test_an_agents_file_is_called_by_its_folder_and_not_taken_for_a_system(tmp_path):
    own, mine = (load_pilot(copy_shipped("pvn", tmp_path / folder)) for folder in ("pvn", "mine"))
    assert (own.name, mine.name) == ("own-pvn", "mine") and isinstance(own.agent, PVN)
    check_pilots([load_pilot("pvn"), own, mine], [])
    with pytest.raises(ValueError, match="agent: got two that are called mine"):
        check_pilots([mine, own, mine], [])


def test_a_folder_of_runs_in_which_a_system_has_another_ones_agent_is_refused(tmp_path):
    path = copy_shipped("pvn", tmp_path / "gsmn")
    with pytest.raises(ValueError, match=r"gsmn/agent\.safetensors: holds an agent of class PVN, expected GSMN"):
        load_pilot("gsmn", runs=tmp_path)
    assert isinstance(load_pilot(path).agent, PVN), "named itself, the file is flown as what it is"


def test_a_folder_without_runs_is_refused_and_one_with_others_leaves_the_rest_to_the_package(tmp_path):
    run = tmp_path / "smoke"
    copy_shipped("gsmn", run)
    with pytest.raises(ValueError, match=r"smoke, which holds no runs.*smoke/pvn/agent\.safetensors.*--agent"):
        load_pilot("pvn-half-height", runs=run)  # the run itself, not the folder it is in
    assert load_pilot("oracle", runs=run).name == "oracle", "which needs none"
    run.rename(tmp_path / "gsmn")
    assert load_pilot("gsmn", runs=tmp_path).fingerprint == load_pilot("gsmn").fingerprint
    assert load_pilot("pvn", runs=tmp_path).fingerprint == load_pilot("pvn").fingerprint


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


@pytest.mark.long
def test_a_corpus_in_words_the_agent_does_not_know_is_refused(meadow):
    pilot, segments = load_pilot("pvn"), meadow["dev"]
    check_pilots([pilot], segments)

    def renamed(segment):
        task = replace(segment.task, instruction="zyzzyva qwertz")
        return replace(segment, demonstration=replace(segment.demonstration, task=task))

    foreign = [renamed(segment) for segment in segments]
    with pytest.raises(ValueError, match="pvn: does not know 100% of the corpus's words, expected at most 20%"):
        check_pilots([pilot], foreign)
    check_pilots([load_pilot("oracle")], foreign)
