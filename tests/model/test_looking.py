"""Looking before flying: a drone whose goal is probably out of sight turns on the spot until it knows better."""

import copy
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from pvn.geometry import wrap_angle
from pvn.model.execution import ExecutionConfig, ExecutionModel
from pvn.model.pvn import LOOKED_FOR_BEYOND, PVN, IdealAct
from pvn.model.visitation import Visitation, VisitationModel
from pvn.rollout.flight import fly
from pvn.simulator.interface import STOP, SimulatorConfig
from pvn.simulator.simulator import simulator_for

SIMULATOR = SimulatorConfig(quality="fast")


def looking(agent, threshold):
    """The agent with another threshold, and a second stage that never stops."""
    execution = copy.deepcopy(agent.execution)
    execution.output.bias.data[STOP] = -100.0
    return PVN(agent.visitation, execution, agent.vocabulary, look_threshold=threshold, simulator=SIMULATOR)


def flight_of(agent, tasks, num_steps):
    """Poses (B, T + 1, 6), actions (B, T, 3) and memories after each of the steps."""
    memories = []
    log = fly(
        simulator_for(tasks, config=SIMULATOR), tasks, agent, horizon=num_steps,
        watch=lambda step, observation, action, memory: memories.append(memory),
    )  # fmt: skip
    return SimpleNamespace(pose=log.pose_world, action=log.action, memories=memories)


def unseen_at_the_start(agent, tasks):
    """Probability (B,) that the goal is some way off where nothing was seen in the first picture."""
    unseen = flight_of(looking(agent, 1.0), tasks, 1).memories[0].visitation.unseen_goal.flatten(1)
    return unseen[:, agent.visitation.places.norm(dim=1) > LOOKED_FOR_BEYOND].sum(1)


@pytest.mark.long
def test_a_drone_that_cannot_see_its_goal_makes_three_quarter_turns_on_the_spot_and_then_flies(agent, tasks):
    """The weights were never trained, so the goal is everywhere, and some of that is always out of sight."""
    flown = flight_of(looking(agent, 0.0), tasks, 11)
    assert agent.quarter_turn == 3, "60 degrees a second for half a second"
    assert (flown.action[:, :9, 0] == 0).all() and (flown.action[:, :9, 2] == 0).all()
    assert torch.allclose(flown.action[:, :9, 1].abs(), torch.full((3, 9), SIMULATOR.max_yaw_rate))
    assert torch.allclose(flown.pose[:, 9, :2], flown.pose[:, 0, :2], atol=0.05)
    turned = wrap_angle(flown.pose[:, 1:10, 5] - flown.pose[:, :9, 5]).sum(1).rad2deg().abs()
    assert (turned > 225).all() and (turned < 285).all(), "it needs a moment to begin to turn"
    assert [bool(memory.look.any()) for memory in flown.memories] == [True] * 9 + [False] * 2


@pytest.mark.long
def test_a_drone_that_looks_round_is_still_at_the_beginning_of_its_way(model, vocabulary, tasks):
    torch.manual_seed(0)
    visitation = VisitationModel(replace(model.config, num_parts=3)).eval()
    agent = PVN(visitation, ExecutionModel(ExecutionConfig(num_parts=3)), vocabulary, simulator=SIMULATOR)
    memories = flight_of(looking(agent, 0.0), tasks, 10).memories
    assert torch.equal(memories[8].progress, torch.tensor([1.0, 0.0, 0.0]).expand(3, -1))
    assert not torch.equal(memories[9].progress, memories[8].progress)


@pytest.mark.long
def test_it_predicts_after_every_quarter_turn_and_then_at_every_sixth_step(agent, tasks):
    memories = flight_of(looking(agent, 0.0), tasks, 14).memories
    changed = [step for step in range(1, 14) if memories[step].visitation is not memories[step - 1].visitation]
    assert changed == [3, 6, 9, 12]


def test_it_turns_to_the_side_where_its_goal_may_be(agent, tasks, monkeypatch):
    places = agent.visitation.places
    for side in (1.0, -1.0):

        def on_one_side(self, side=side):
            return (places[:, 1] * side > 0).float().div(2048).view(1, 64, 64).expand(3, -1, -1)

        monkeypatch.setattr(Visitation, "unseen_goal", property(on_one_side))
        assert torch.equal(flight_of(looking(agent, 0.5), tasks, 1).memories[0].look, torch.full((3,), side))


def test_it_does_not_look_for_a_goal_close_by(agent, tasks, monkeypatch):
    """A full circle ends where it begins: on ground that the camera, which looks ahead, never saw."""
    close = agent.visitation.places.norm(dim=1) < LOOKED_FOR_BEYOND
    goal = (close.float() / close.sum()).view(1, 64, 64).expand(3, -1, -1)
    monkeypatch.setattr(Visitation, "unseen_goal", property(lambda self: goal))
    assert not flight_of(looking(agent, 0.5), tasks, 1).memories[0].look.any()


@pytest.mark.long
def test_a_drone_that_sees_where_its_goal_is_flies_at_once(agent, tasks):
    never = flight_of(looking(agent, 1.0), tasks, 3)
    assert not never.memories[-1].look.any()
    assert agent.look_threshold == 1.0, "the paper's agent does not look round"
    assert torch.equal(flight_of(looking(agent, 0.0).changed(look_threshold=1.0), tasks, 3).action, never.action)
    above = float(unseen_at_the_start(agent, tasks).max()) + 1e-4
    assert torch.equal(flight_of(looking(agent, above), tasks, 3).action, never.action)


@pytest.mark.long
def test_a_flight_that_looks_round_beside_others_that_do_not_is_the_flight_alone(agent, tasks):
    some = looking(agent, float(unseen_at_the_start(agent, tasks).sort().values[1:].mean()))
    together = flight_of(some, tasks, 6)
    assert sorted(together.memories[0].look.abs().tolist()) == [0, 0, 1]
    for number, task in enumerate(tasks):
        alone = flight_of(some, [task], 6)
        assert torch.allclose(alone.action, together.action[number : number + 1], atol=1e-4)
        own, its = (flown.memories[4].visitation.log_parts for flown in (alone, together))
        assert torch.allclose(own[0], its[number], atol=0.1), "a prediction that another flight needed is not its own"


@pytest.mark.long
def test_an_ideal_second_stage_looks_round_too(agent, tasks):
    unsure = looking(agent, 0.0)
    ideal, whole = flight_of(IdealAct(unsure), tasks, 10), flight_of(unsure, tasks, 10)
    assert torch.equal(ideal.action[:, :9], whole.action[:, :9])
    assert not torch.equal(ideal.action[:, 9], whole.action[:, 9])


def test_the_goal_out_of_sight_is_the_goals_distribution_where_nothing_was_seen(flown):
    visitation = flown[6].after.visitation
    unseen, goal = visitation.unseen_goal, visitation.parts[:, -1]
    is_known = visitation.maps.is_known
    assert (unseen[is_known] == 0).all() and torch.equal(unseen[~is_known], goal[~is_known])
    assert 0 < float(unseen[0].sum()) < 1


def test_predictions_are_replaced_flight_by_flight(flown):
    old, new = flown[0].after.visitation, flown[6].after.visitation
    mixed = old.replaced(torch.tensor([True, False, True]), new)
    for name in ("semantic_map", "is_known", "grounding_map", "embedding"):
        own = getattr(mixed.maps, name)
        assert torch.equal(own[1], getattr(old.maps, name)[1]) and torch.equal(own[2], getattr(new.maps, name)[2])
    assert torch.equal(mixed.log_parts[0], new.log_parts[0]) and torch.equal(mixed.log_parts[1], old.log_parts[1])
    old, new = (replace(each, log_faced=each.log_parts[:, -1]) for each in (old, new))
    mixed = old.replaced(torch.tensor([True, False, True]), new)
    assert torch.equal(mixed.log_faced, mixed.log_parts[:, -1])


def test_a_quicker_drone_turns_by_quarters_too(agent):
    """So that the camera, which sees a quarter, leaves nothing out."""
    for factor, steps in ((1.0, 3), (1.4, 3), (2.0, 2), (2.5, 2), (4.0, 1)):
        simulator = replace(SIMULATOR, max_yaw_rate=factor * SIMULATOR.max_yaw_rate)
        assert agent.changed(simulator=simulator).quarter_turn == steps


def test_a_quicker_drone_looks_round_by_whole_quarters(agent, flown):
    """At 1.4 times the rate a quarter takes three steps, as before: it turns no further in them."""
    quick = looking(agent, 0.0).changed(simulator=replace(SIMULATOR, max_yaw_rate=1.4 * SIMULATOR.max_yaw_rate))
    action, memory = quick.act(flown[0].observation, flown[0].before)
    turned = action[:, 1].abs() * quick.quarter_turn * SIMULATOR.step_seconds
    assert memory.look.all() and torch.allclose(turned.rad2deg(), torch.full((3,), 90.0))
