"""The roll-out loop and the policies that need no learning."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from pvn.rollout.flight import FEW_FLIGHTS, FlightLog, fly, join_logs
from pvn.rollout.oracle import Oracle, OracleConfig
from pvn.rollout.policy import rows_of
from pvn.rollout.trivial_pilots import Average, Stop
from pvn.simulator.interface import Observation, SimulatorConfig
from pvn.simulator.simulator import simulator_for
from pvn.world.layout import sample_layout
from pvn.world.routes import sample_tour
from pvn.world.task import Demonstration, Task

BLIND = SimulatorConfig(quality="none")
DEMONSTRATIONS = [demonstration for seed in range(6) for demonstration in sample_tour(seed)]
TASKS = [demonstration.task for demonstration in DEMONSTRATIONS]
GOALS = [demonstration.goal for demonstration in DEMONSTRATIONS]


def flown(policy, tasks=TASKS, **options):
    return fly(simulator_for(tasks, config=BLIND), tasks, policy, **options)


@pytest.fixture(scope="module")
def oracle_log():
    return flown(Oracle(DEMONSTRATIONS))


def test_the_oracle_stops_near_every_goal(oracle_log):
    assert oracle_log.has_stopped.all()
    assert oracle_log.goal_distance(GOALS).max() < 2
    assert 10 < oracle_log.num_steps.float().mean() < 25
    assert 0.6 < (oracle_log.distance_flown() / oracle_log.num_steps).mean() < 1.3


def test_the_oracle_stays_near_the_demonstrated_path(oracle_log):
    for flight, demonstration in enumerate(DEMONSTRATIONS):
        for place in oracle_log.pose_world[flight, :, :2].numpy():
            # A carrot six metres ahead cuts corners, and a drone that faces the wrong way swings wide.
            assert np.hypot(*(demonstration.path - place).T).min() < 4.5


def test_the_oracle_refuses_tasks_that_were_not_demonstrated():
    with pytest.raises(ValueError, match="oracle: got 'fly home', which has no demonstration.*choose an agent"):
        flown(Oracle(DEMONSTRATIONS), [replace(TASKS[0], instruction="fly home")])


class Counted(Oracle):
    """An oracle that notes how many drones it decides for."""

    def __init__(self, demonstrations):
        super().__init__(demonstrations)
        self.counts = []

    def act(self, observation, memory):
        self.counts.append(len(observation.pose_world))
        assert observation.image.shape[0] == len(observation.pose_world) == len(memory.index)
        return super().act(observation, memory)


class Precise(Oracle):
    """An oracle whose actions have 64 bits, as those of a policy that computes by NumPy."""

    def act(self, observation, memory):
        action, memory = super().act(observation, memory)
        return action.double(), memory


def test_actions_may_have_64_bits(oracle_log):
    assert torch.equal(flown(Precise(DEMONSTRATIONS)).pose_world, oracle_log.pose_world)


def test_a_memory_that_cannot_be_split_by_flights_is_refused():
    with pytest.raises(TypeError, match="memory: got tuple, expected tensors, numbers and None, in dataclasses"):
        rows_of((torch.zeros(3),), torch.tensor([0]))


@pytest.mark.parametrize("horizon", [12, 100])
def test_flights_that_have_ended_leave_the_batch_and_the_others_fly_on_unchanged(horizon):
    shrinking, whole = Counted(DEMONSTRATIONS), Counted(DEMONSTRATIONS)
    log = flown(shrinking, horizon=horizon)
    watched = flown(whole, horizon=horizon, watch=lambda *step: None)  # who watches sees all flights in every step
    for name, value in vars(watched).items():
        assert torch.equal(value, getattr(log, name)), name
    assert set(whole.counts) == {len(TASKS)} and len(whole.counts) == len(shrinking.counts)
    still = [int((log.num_steps > step).sum()) for step in range(len(shrinking.counts))]
    assert shrinking.counts[0] == len(TASKS)
    for count, flying, before in zip(shrinking.counts[1:], still[1:], still[:-1], strict=True):
        # A flight leaves after the step in which it brakes; three in four may still be there.
        assert flying <= count <= max(before / 0.75, len(TASKS) * (before > 0.75 * len(TASKS)))
    if horizon == 100:
        assert shrinking.counts[-1] < len(TASKS) / 4
        assert log.has_stopped.all() and sum(shrinking.counts) < 0.75 * sum(whole.counts)
    else:
        assert 0 < int(log.has_stopped.sum()) < len(TASKS), "some are cut off"


def test_stop_stays_and_average_flies_straight_on():
    log = flown(Stop())
    assert (log.num_steps == 1).all() and log.distance_flown().max() < 1e-3
    log = flown(Average(speed=2.0, num_steps=10))
    assert (log.num_steps == 10).all() and log.has_stopped.all()
    ahead = log.pose_world[:, -1, :2] - log.pose_world[:, 0, :2]
    yaw = log.pose_world[:, 0, 5]
    assert torch.allclose(torch.atan2(ahead[:, 1], ahead[:, 0]).cos(), yaw.cos(), atol=1e-3)
    assert log.distance_flown().mean() == pytest.approx(2.0 * 0.5 * 9, rel=0.1)


def test_one_step_is_the_shortest_flight():
    simulator = simulator_for(TASKS, config=BLIND)
    log = fly(simulator, TASKS, Average(num_steps=10), horizon=1)
    assert simulator.config == BLIND
    assert torch.equal(log.num_steps, torch.ones(len(TASKS), dtype=torch.int64)) and not log.has_stopped.any()
    with pytest.raises(ValueError, match="horizon: got 0"):
        fly(simulator, TASKS, Average(num_steps=10), horizon=0)


def test_distance_is_along_the_ground_and_by_every_turn_of_the_way():
    places = [(0.0, 0.0, 5.0), (3.0, 4.0, 2.0), (3.0, 4.0, 9.0), (3.0, 0.0, 5.0)]
    pose = torch.tensor([[*place, 0.1, 0.2, yaw] for place, yaw in zip(places, (0.0, 3.0, -3.0, 1.0), strict=True)])
    log = FlightLog(pose[None], torch.zeros(1, 4, 3), torch.zeros(1, 3, 3), torch.tensor([3]), torch.tensor([True]))
    assert log.distance_flown().tolist() == [9.0]
    assert log.goal_distance([(3.0, 2.0)]).tolist() == [2.0]


def test_flying_twice_gives_the_same_log(oracle_log):
    again = flown(Oracle(DEMONSTRATIONS))
    assert torch.equal(oracle_log.pose_world, again.pose_world) and torch.equal(oracle_log.action, again.action)


def test_convolutions_that_add_up_in_any_order_are_not_used_in_flight():
    before, meanwhile = torch.backends.cudnn.deterministic, []
    flown(Stop(), watch=lambda *_: meanwhile.append(torch.backends.cudnn.deterministic))
    assert meanwhile == [True] and torch.backends.cudnn.deterministic == before


def test_few_flights_have_one_thread_since_small_networks_gain_little_from_a_second(monkeypatch):
    monkeypatch.setattr(torch, "set_num_threads", (given := []).append)
    before = torch.get_num_threads()
    flown(Stop(), TASKS[:FEW_FLIGHTS])
    assert given == [1, before]
    flown(Stop(), TASKS[: FEW_FLIGHTS + 1])
    assert given == [1, before]


def test_a_flight_in_a_batch_is_the_flight_alone(oracle_log):
    for flight in (0, 7, 13):
        alone = flown(Oracle(DEMONSTRATIONS), [TASKS[flight]])
        steps = int(alone.num_steps[0])
        assert oracle_log.num_steps[flight] == steps
        assert torch.equal(oracle_log.pose_world[flight, : steps + 1], alone.pose_world[0])


def test_the_log_repeats_the_last_pose_after_a_flights_end(oracle_log):
    flight = int(oracle_log.num_steps.argmin())
    steps = int(oracle_log.num_steps[flight])
    assert steps < oracle_log.action.shape[1]
    tail = oracle_log.pose_world[flight, steps:]
    assert torch.equal(tail, tail[:1].expand_as(tail))
    assert torch.equal(oracle_log.end_world[flight], oracle_log.pose_world[flight, steps, :2])


def test_joined_logs_are_the_log_of_a_batch(oracle_log):
    joined = join_logs([flown(Oracle(DEMONSTRATIONS), TASKS[:9]), flown(Oracle(DEMONSTRATIONS), TASKS[9:])])
    for name, values in vars(oracle_log).items():
        assert torch.equal(getattr(joined, name), values), name


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


def test_the_oracle_turns_around_for_a_goal_behind_it():
    path = np.array([[25.0, 25.0], [23.0, 25.0], [21.0, 25.0], [19.0, 25.0], [17.0, 25.0], [15.0, 25.0]])
    demonstration = Demonstration(Task(sample_layout(0), (25.0, 25.0, 0.0), "turn around and fly on"), path)
    log = flown(Oracle([demonstration]), [demonstration.task])
    assert log.has_stopped[0] and log.goal_distance([demonstration.goal])[0] < 2


def advice(place, yaw, path, step=5, index=0, config=OracleConfig()):
    """The oracle's action at `place` facing `yaw`: speed and yaw rate as shares of the limits, stop; and its index."""
    task = Task(sample_layout(0), (0.0, 0.0, 0.0), "go")
    oracle = Oracle([Demonstration(task, np.array(path, float))], config)
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


def test_an_oracle_may_turn_on_the_spot():
    config = OracleConfig(turns_on_the_spot=1.0)
    speed, yaw_rate, _, _ = advice((14.0, 10.0), math.pi / 2, STRAIGHT, config=config)
    assert speed == 0.0 and yaw_rate == pytest.approx(-1)
    slower, _, _, _ = advice((14.0, 10.0), -0.4, STRAIGHT, config=config)
    assert slower == pytest.approx((1 - 0.4) * advice((14.0, 10.0), -0.4, STRAIGHT)[0])


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


def test_the_oracle_slows_in_proportion_to_the_last_six_metres_and_not_below_its_minimum_speed():
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


def test_a_path_that_leads_back_to_its_start_is_flown_if_the_oracle_may_not_stop_before_the_end():
    there_and_back = [*((x, 10.0) for x in range(10, 32, 2)), *((x, 11.2) for x in range(30, 8, -2))]
    task = Task(sample_layout(0), (10.0, 10.0, 0.0), "go")
    demonstration = Demonstration(task, np.array(there_and_back))
    at_once, whole = (flown(Oracle([demonstration], OracleConfig(max_left=left)), [task]) for left in (None, 6.0))
    assert at_once.num_steps[0] == 1, "the goal is 1.2 m from the start"
    assert whole.distance_flown()[0] > 30 and whole.goal_distance([demonstration.goal])[0] < 2


def test_a_lost_oracle_gives_up():
    path = np.array([[45.0, 45.0], [46.0, 45.0], [47.0, 45.0]])
    task = Task(sample_layout(0), (5.0, 5.0, 0.0), "go")
    log = flown(Oracle([Demonstration(task, path)], OracleConfig(max_deviation=10.0)), [task])
    assert log.has_stopped[0] and log.num_steps[0] == 1


def test_tasks_of_one_field_share_it():
    assert len(simulator_for(TASKS, config=BLIND).layouts) == 6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simulator_for([]), "tasks: got none"),
        (lambda: fly(simulator_for(TASKS[:2], config=BLIND), TASKS[:3], Stop()), "tasks: got 3, expected 2"),
        (lambda: flown(Stop(), horizon=0), "horizon: got 0"),
        (
            lambda: fly(simulator_for(TASKS[:1], config=BLIND), TASKS[-1:], Stop()),
            "flight 0: got a field that differs from its task's layout",
        ),
    ],
)
def test_impossible_flights_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
