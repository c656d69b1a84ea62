"""The roll-out loop and the pilots that need no learning."""

import numpy as np
import pytest
import torch

from pvn.corpus.flight import fly, simulator_for
from pvn.corpus.oracle import Oracle, OracleConfig
from pvn.corpus.pilots import Average, Stop
from pvn.simulator.simulator import SimulatorConfig
from pvn.world.layout import sample_layout
from pvn.world.task import Task, sample_tour

BLIND = SimulatorConfig(quality="none")
TASKS = [task for seed in range(6) for task in sample_tour(seed)]


def flown(policy, tasks=TASKS, **options):
    return fly(simulator_for(tasks, config=BLIND), tasks, policy, **options)


def test_the_oracle_stops_near_every_goal():
    log = flown(Oracle())
    assert log.has_stopped.all()
    assert log.goal_distance(TASKS).max() < 2
    assert 10 < log.num_steps.float().mean() < 25
    assert 0.6 < (log.distance_flown() / log.num_steps).mean() < 1.3


def test_the_oracle_stays_near_the_demonstrated_path():
    log = flown(Oracle())
    for flight, task in enumerate(TASKS):
        for place in log.pose_world[flight, :, :2].numpy():
            # A carrot six metres ahead cuts corners, and a drone that faces the wrong way swings wide.
            assert np.hypot(*(task.path - place).T).min() < 4.5


def test_stop_stays_and_average_flies_straight_on():
    log = flown(Stop())
    assert (log.num_steps == 1).all() and log.distance_flown().max() < 1e-3
    log = flown(Average(speed=2.0, num_steps=10))
    assert (log.num_steps == 10).all() and log.has_stopped.all()
    ahead = log.pose_world[:, -1, :2] - log.pose_world[:, 0, :2]
    yaw = log.pose_world[:, 0, 5]
    assert torch.allclose(torch.atan2(ahead[:, 1], ahead[:, 0]).cos(), yaw.cos(), atol=1e-3)
    assert log.distance_flown().mean() == pytest.approx(2.0 * 0.5 * 9, rel=0.1)


def test_flying_twice_gives_the_same_log():
    one, other = flown(Oracle()), flown(Oracle())
    assert torch.equal(one.pose_world, other.pose_world) and torch.equal(one.action, other.action)


def test_a_flight_in_a_batch_is_the_flight_alone():
    together = flown(Oracle())
    for flight in (0, 7, 13):
        alone = flown(Oracle(), [TASKS[flight]])
        steps = int(alone.num_steps[0])
        assert together.num_steps[flight] == steps
        assert torch.equal(together.pose_world[flight, : steps + 1], alone.pose_world[0])


def test_the_log_holds_still_after_a_flights_end():
    log = flown(Oracle())
    flight = int(log.num_steps.argmin())
    steps = int(log.num_steps[flight])
    assert steps < log.action.shape[1]
    tail = log.pose_world[flight, steps:]
    assert torch.equal(tail, tail[:1].expand_as(tail))
    assert torch.equal(log.end_world[flight], log.pose_world[flight, steps, :2])


def test_the_horizon_ends_a_flight_that_does_not_stop():
    log = flown(Average(num_steps=1000), horizon=7)
    assert (log.num_steps == 7).all() and not log.has_stopped.any()


def test_watch_sees_the_observation_before_each_step():
    seen = []
    log = fly(
        simulator_for(TASKS[:2], config=BLIND),
        TASKS[:2],
        Average(num_steps=4),
        watch=lambda step, observation, action, memory: seen.append((step, observation.pose_world, action)),
    )
    assert [step for step, _, _ in seen] == [0, 1, 2, 3]
    for step, pose, action in seen:
        assert torch.equal(pose, log.pose_world[:, step]) and torch.equal(action, log.action[:, step])


def test_the_oracle_turns_round_for_a_goal_behind_it():
    path = np.array([[25.0, 25.0], [23.0, 25.0], [21.0, 25.0], [19.0, 25.0], [17.0, 25.0], [15.0, 25.0]])
    task = Task(sample_layout(0), (25.0, 25.0, 0.0), path, "turn around and fly on")
    log = flown(Oracle(), [task])
    assert log.has_stopped[0] and log.goal_distance([task])[0] < 2


def test_a_lost_oracle_gives_up():
    path = np.array([[45.0, 45.0], [46.0, 45.0], [47.0, 45.0]])
    task = Task(sample_layout(0), (5.0, 5.0, 0.0), path, "go")
    log = flown(Oracle(OracleConfig(max_deviation=10.0)), [task])
    assert log.has_stopped[0] and log.num_steps[0] == 1


def test_tasks_of_one_field_share_it():
    assert simulator_for(TASKS, config=BLIND).num_fields == 6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simulator_for([]), "tasks: got none"),
        (lambda: fly(simulator_for(TASKS[:2], config=BLIND), TASKS[:3], Stop()), "tasks: got 3, expected 2"),
        (lambda: flown(Stop(), horizon=0), "horizon: got 0"),
    ],
)
def test_impossible_flights_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
