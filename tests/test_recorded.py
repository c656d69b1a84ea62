"""A recorded flight holds what the pilot saw, mapped, predicted and did."""

from dataclasses import replace

import numpy as np
import pytest

from pvn.corpus.meadow.generator import sample_paragraph
from pvn.evaluation.systems import make_system
from pvn.rollout.flight import fly, simulator_for
from pvn.viz.flight_record import fly_and_record

TASK = sample_paragraph(3)[1].task


@pytest.fixture(scope="module")
def recorded():
    return fly_and_record(make_system("pvn"), TASK, horizon=8)


def test_it_is_the_flight_that_would_have_been_flown_anyway(recorded):
    system = make_system("pvn")
    log = fly(simulator_for([TASK], config=system.config), [TASK], system.policy, horizon=8)
    assert np.array_equal(recorded.flown_world, log.pose_world[0].numpy())
    assert len(recorded.moments) == int(log.num_steps[0])
    for step, moment in enumerate(recorded.moments):
        assert np.array_equal(moment.action, log.action[0, step].numpy())
        assert np.array_equal(moment.pose_world, log.pose_world[0, step].numpy())
    assert recorded.distance == float(log.goal_distance([TASK])[0])


def test_predictions_are_distributions_and_change_when_it_plans_alone(recorded):
    planned = [moment.step for moment in recorded.moments if moment.is_planned]
    assert planned == [0, 6]
    for before, moment in zip(recorded.moments, recorded.moments[1:], strict=False):
        assert np.allclose(moment.maps.probability.sum((1, 2)), 1, atol=1e-4)
        assert np.array_equal(before.maps.probability, moment.maps.probability) != moment.is_planned


def test_more_is_known_of_the_ground_as_it_flies_and_nothing_of_the_rest(recorded):
    known = [moment.maps.is_known.sum() for moment in recorded.moments]
    assert known[0] > 0 and known == sorted(known)
    last = recorded.moments[-1].maps
    assert not last.semantic[:, ~last.is_known].any()


@pytest.mark.parametrize(
    ("name", "has_maps", "stop_threshold"),
    [("gsmn", True, 0.5), ("chaplot", False, 0.5), ("oracle", False, None), ("pvn-ideal-act", True, None)],
)
def test_other_pilots_show_what_they_have(name, has_maps, stop_threshold):
    recorded = fly_and_record(make_system(name), TASK, horizon=2)
    moment = recorded.moments[-1]
    assert recorded.stop_threshold == stop_threshold
    # PVN's own second stage has a chance to stop, but an ideal one flies in its place.
    assert (moment.maps is not None, moment.stop_chance is not None) == (has_maps, stop_threshold is not None)
    if name == "gsmn":
        assert moment.maps.probability is None and moment.is_planned


@pytest.mark.parametrize("name", ["pvn", "gsmn", "chaplot"])
def test_a_pilot_stops_where_its_chance_is_above_its_threshold(name):
    recorded = fly_and_record(make_system(name), TASK)
    is_above = [moment.stop_chance > recorded.stop_threshold for moment in recorded.moments]
    assert is_above == [False] * (len(is_above) - 1) + [recorded.has_stopped]


def test_a_typed_instruction_has_no_goal_to_miss():
    task = replace(TASK, instruction="go to the well")
    recorded = fly_and_record(make_system("pvn"), task, has_goal=False, horizon=2)
    assert recorded.distance is None and recorded.is_success is None and not recorded.has_stopped


def test_a_watcher_can_end_a_flight():
    seen = []

    def watch(moment):
        seen.append(moment.step)
        if moment.step == 1:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fly_and_record(make_system("pvn"), TASK, watch=watch)
    assert seen == [0, 1]
