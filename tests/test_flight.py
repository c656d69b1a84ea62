"""The roll-out loop and the pilots that need no learning."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from pvn.rollout.flight import fly, simulator_for
from pvn.rollout.oracle import Oracle, OracleConfig
from pvn.rollout.trivial_pilots import Average, Stop
from pvn.simulator.simulator import Observation, SimulatorConfig
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


def test_convolutions_that_add_up_in_any_order_are_not_used_in_flight():
    before, meanwhile = torch.backends.cudnn.deterministic, []
    flown(Stop(), watch=lambda *_: meanwhile.append(torch.backends.cudnn.deterministic))
    assert meanwhile == [True] and torch.backends.cudnn.deterministic == before


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


def advice(place, yaw, path, step=5, index=0):
    """What the oracle says to one drone at `place` facing `yaw`: speed and yaw rate as shares of the limits, stop."""
    task = Task(sample_layout(0), (0.0, 0.0, 0.0), np.array(path, float), "go")
    oracle = Oracle()
    memory = oracle.begin([task], torch.device("cpu"))
    memory = replace(memory, step=step, index=torch.tensor([index]))
    pose = torch.tensor([[*place, 5.0, 0.0, 0.0, yaw]])
    action, memory = oracle.act(Observation(torch.empty(0), pose, torch.zeros(1, 3)), memory)
    speed, yaw_rate, stop = action[0].tolist()
    return speed / 3.0, yaw_rate / math.radians(60), bool(stop), int(memory.index[0])


STRAIGHT = [(x, 10.0) for x in range(10, 42, 2)]  # east along y = 10, a point every two metres, goal at (40, 10)


def test_on_the_path_and_facing_along_it_the_oracle_flies_at_full_speed():
    assert advice((14.0, 10.0), 0.0, STRAIGHT) == (pytest.approx(1), pytest.approx(0, abs=1e-6), False, 2)


def test_the_oracle_speeds_up_over_three_steps():
    speeds = [advice((14.0, 10.0), 0.0, STRAIGHT, step=step)[0] for step in range(4)]
    assert speeds == [pytest.approx(1 / 3), pytest.approx(2 / 3), pytest.approx(1), pytest.approx(1)]


def test_the_oracle_slows_in_turns_and_turns_towards_the_carrot():
    # The carrot is the first point more than six metres ahead: straight east, so a drone facing north turns right.
    speed, yaw_rate, _, _ = advice((14.0, 10.0), math.pi / 2, STRAIGHT)
    assert speed == pytest.approx(1 / 2) and yaw_rate == pytest.approx(-1)
    speed, yaw_rate, _, _ = advice((14.0, 10.0), -0.4, STRAIGHT)
    assert speed == pytest.approx(1 / (1 + 0.8 / math.pi)) and yaw_rate == pytest.approx(0.4, abs=1e-5)


def test_the_oracle_aims_more_than_six_metres_ahead():
    # Three metres beside (14, 10): the carrot is (22, 10), eight metres on.
    _, yaw_rate, _, _ = advice((14.0, 13.0), 0.0, STRAIGHT)
    assert yaw_rate == pytest.approx(-math.atan2(3, 8), abs=1e-5)


def test_the_oracle_slows_in_proportion_to_the_last_six_metres_and_not_below_its_least_speed():
    assert advice((37.0, 10.0), 0.0, STRAIGHT)[0] == pytest.approx(3 / 6)
    assert advice((38.4, 10.0), 0.0, STRAIGHT)[0] == pytest.approx(0.3)


def test_the_goal_itself_is_the_carrot_at_the_end():
    _, yaw_rate, stop, _ = advice((37.0, 13.0), 0.0, STRAIGHT)
    assert not stop and yaw_rate == pytest.approx(-math.atan2(3, 3), abs=1e-5)


def test_the_oracle_stops_within_a_metre_and_a_half_of_the_goal_or_past_it():
    assert not advice((38.4, 10.0), 0.0, STRAIGHT)[2]
    assert advice((38.6, 10.0), 0.0, STRAIGHT) == (0, 0, True, 14)
    assert advice((40.5, 13.0), 0.0, STRAIGHT)[2], "abeam of the goal it will not come closer"


def test_the_oracle_moves_on_while_points_get_closer_and_jumps_a_detour():
    assert advice((25.0, 10.0), 0.0, STRAIGHT)[3] == 8
    # At the mouth of a loop the next point is further away, but the carrot beyond the loop is near.
    loop = [(10, 10), (12, 10), (14, 10), (14, 14), (14.5, 10), (18, 10), (22, 10), (26, 10), (30, 10)]
    assert advice((14.4, 10.0), 0.0, loop, index=2)[3] > 3


def test_a_lost_oracle_gives_up():
    path = np.array([[45.0, 45.0], [46.0, 45.0], [47.0, 45.0]])
    task = Task(sample_layout(0), (5.0, 5.0, 0.0), path, "go")
    log = flown(Oracle(OracleConfig(max_deviation=10.0)), [task])
    assert log.has_stopped[0] and log.num_steps[0] == 1


def test_tasks_of_one_field_share_it():
    assert len(simulator_for(TASKS, config=BLIND).layouts) == 6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simulator_for([]), "tasks: got none"),
        (lambda: fly(simulator_for(TASKS[:2], config=BLIND), TASKS[:3], Stop()), "tasks: got 3, expected 2"),
        (lambda: flown(Stop(), horizon=0), "horizon: got 0"),
        (lambda: fly(simulator_for(TASKS[:1], config=BLIND), TASKS[-1:], Stop()), "flight 0 is in another field"),
    ],
)
def test_impossible_flights_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
