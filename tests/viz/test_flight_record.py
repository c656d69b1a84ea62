"""A flight record holds what the pilot saw, mapped, predicted and did."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pvn.evaluation.pilots import load_pilot
from pvn.rollout.flight import fly
from pvn.simulator.simulator import simulator_for
from pvn.viz.flight_record import (
    fly_and_record,
    fly_next,
    fly_with_first_pictures,
    interpolate_pose,
    predicted_moments,
    spread_evenly,
)


def test_it_is_the_flight_that_would_have_been_flown_anyway(record, pilot, segment):
    log = fly(simulator_for([segment.task], config=pilot.config), [segment.task], pilot.policy, horizon=8)
    assert np.array_equal(record.flown_world, log.pose_world[0].numpy())
    assert len(record.moments) == int(log.num_steps[0])
    for step, moment in enumerate(record.moments):
        assert np.array_equal(moment.action, log.action[0, step].numpy())
        assert np.array_equal(moment.pose_world, log.pose_world[0, step].numpy())
        assert np.hypot(*moment.velocity_world[:2]) == pytest.approx(record.speeds[step])
    assert record.goal == segment.demonstration.goal
    assert record.distance == float(log.goal_distance([record.goal])[0])


def test_first_pictures_are_those_from_the_starts_whoever_ends_first(paragraph):
    pilot = load_pilot("oracle")
    demonstrations = [segment.demonstration for segment in paragraph]
    tasks = [demonstration.task for demonstration in demonstrations]
    config = replace(pilot.config, quality="fast")  # the oracle itself needs no pictures
    log, first = fly_with_first_pictures(tasks, pilot.policy_for(demonstrations), config=config)
    simulator = simulator_for(tasks, config=config)
    begun = simulator.reset(torch.tensor([task.start for task in tasks], dtype=torch.float64))
    assert np.array_equal(first.images, begun.image.numpy()) and first.camera == config.camera
    assert len(np.unique(first.images, axis=0)) == len(tasks) > 1 and log.num_steps.unique().numel() > 1
    whole = fly(simulator, tasks, pilot.policy_for(demonstrations))
    assert torch.equal(log.num_steps, whole.num_steps) and torch.equal(log.end_world, whole.end_world)


def test_predictions_are_distributions_and_change_only_when_the_agent_plans(record):
    planned = [moment.step for moment in record.moments if moment.is_planned]
    assert planned == [moment.step for moment in predicted_moments(record)] == [0, 6]
    for before, moment in zip(record.moments, record.moments[1:], strict=False):
        assert np.allclose(moment.maps.probability.sum((1, 2)), 1, atol=1e-4)
        assert np.array_equal(before.maps.probability, moment.maps.probability) != moment.is_planned


def test_more_of_the_ground_is_known_with_every_step_and_nothing_of_the_rest(record):
    known = [moment.maps.is_known.sum() for moment in record.moments]
    assert known[0] > 0 and known == sorted(known)
    last = record.moments[-1].maps
    assert not last.semantic[:, ~last.is_known].any()


@pytest.mark.parametrize(
    ("name", "has_maps", "stop_threshold"),
    [("gsmn", True, 0.5), ("chaplot", False, 0.5), ("oracle", False, None), ("pvn-ideal-act", True, None)],
)
def test_other_pilots_show_what_they_have(name, has_maps, stop_threshold, segment):
    path = segment.demonstration.path
    record = fly_and_record(load_pilot(name), segment.task, demonstrated=path, horizon=2)
    moment = record.moments[-1]
    assert record.stop_threshold == stop_threshold and record.pilot == name
    # PVN's own second stage estimates a stop probability, but an ideal one flies in its place.
    assert (moment.maps is not None, moment.stop_probability is not None) == (has_maps, stop_threshold is not None)
    if name == "gsmn":
        assert moment.maps.probability is None and moment.is_planned


@pytest.mark.long
@pytest.mark.parametrize("name", ["pvn", "gsmn", "chaplot"])
def test_a_pilot_stops_where_its_stop_probability_is_above_its_threshold(name, segment):
    record = fly_and_record(load_pilot(name), segment.task)
    is_above = [moment.stop_probability > record.stop_threshold for moment in record.moments]
    assert is_above == [False] * (len(is_above) - 1) + [record.has_stopped]


def test_a_typed_instruction_has_no_goal_to_miss(pilot, segment):
    task = replace(segment.task, instruction="go to the well")
    record = fly_and_record(pilot, task, horizon=2)
    assert record.goal is None and record.distance is None and record.is_success is None
    assert record.outcome.startswith("never stopped in 2 steps; ") and " m from the " in record.outcome


def test_the_oracle_refuses_what_nobody_demonstrated(segment):
    with pytest.raises(ValueError, match="has no demonstration"):
        fly_and_record(load_pilot("oracle"), segment.task)


def test_a_watcher_can_end_a_flight(pilot, segment):
    seen = []

    def watch(moment):
        seen.append(moment.step)
        if moment.step == 1:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fly_and_record(pilot, segment.task, watch=watch)
    assert seen == [0, 1]


@pytest.mark.long
def test_the_next_flight_starts_where_the_last_one_ended_and_knows_what_it_saw(pilot, record):
    further = fly_next(pilot, record, "go on", horizon=1)
    x, y, yaw = further.task.start
    assert np.allclose(record.flown_world[-1, [0, 1, 5]], (x, y, yaw)) and further.goal is None
    assert np.allclose(further.flown_world[0, :2], (x, y), atol=1e-3)
    alone = fly_and_record(pilot, further.task, horizon=1)
    known, known_alone = (one.moments[0].maps.is_known for one in (further, alone))
    assert (known >= known_alone).all() and known.sum() > 1.1 * known_alone.sum()


def test_a_pilot_without_predictions_is_refused_by_name(mapless_record):
    with pytest.raises(ValueError, match="oracle: predicts no visitation distributions, expected a PVN"):
        predicted_moments(mapless_record)


def test_moments_are_spread_evenly_with_first_and_last(record):
    for most, steps in ((4, [0, 2, 5, 7]), (1, [0]), (100, list(range(8)))):
        assert [moment.step for moment in spread_evenly(record.moments, most)] == steps


def test_a_pose_between_two_turns_the_short_way_round():
    before, after = np.array([0, 0, 5, 0, 0, 3.0], np.float32), np.array([2, 4, 5, 0, 0, -3.0], np.float32)
    middle = interpolate_pose(before, after, 0.5)
    assert middle[:3].tolist() == [1, 2, 5] and middle[5] == pytest.approx(np.pi, abs=1e-5)
    assert np.array_equal(interpolate_pose(before, after, 0.0), before)
