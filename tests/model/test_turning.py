"""Turning at the goal: a drone that has arrived turns to the place that it should face, and then stops."""

import copy
import math
from dataclasses import replace

import pytest
import torch

from pvn.geometry import MapGrid, wrap_angle
from pvn.model.execution import ExecutionConfig, ExecutionModel
from pvn.model.mapping import GroundedMaps
from pvn.model.pvn import PVN, TURNS_FROM
from pvn.model.visitation import Visitation, VisitationModel, end_headings, likeliest_places, stays_at_start
from pvn.rollout.flight import fly
from pvn.simulator.interface import STOP, SimulatorConfig
from pvn.simulator.simulator import simulator_for
from pvn.systems import load_agent
from pvn.world.task import TURNED_WITHIN, Task

SIMULATOR = SimulatorConfig(quality="fast")
GRID = MapGrid()
PLACES = GRID.places()


def around(x, y, sigma=1.0):
    """The logarithm (S, S) of a distribution around a place, map frame."""
    score = -0.5 * ((PLACES - torch.tensor([x, y])).norm(dim=-1) / sigma) ** 2
    return score.log_softmax(0).view(GRID.size, GRID.size)


def predicted(goal, faced, parts=()):
    """One prediction of the parts of the way, the goal and the place to face."""
    maps = GroundedMaps(*(torch.zeros(1) for _ in GroundedMaps.__dataclass_fields__))
    return Visitation(maps, torch.stack([around(*place) for place in (*parts, goal)])[None], around(*faced)[None])


def test_a_place_is_known_more_finely_than_by_its_cell():
    true = torch.tensor([[3.3, -7.1], [10.0, 4.2]])
    found = likeliest_places(torch.stack([around(*place) for place in true.tolist()]), PLACES, 2 * GRID.cell)
    assert (found - true).norm(dim=-1).max() < 0.2 < GRID.cell / 2
    # A second place that is less likely does not draw it away, as it would draw the mean.
    two = torch.logaddexp(around(3.3, -7.1) + math.log(0.6), around(20.0, 20.0) + math.log(0.4))
    assert (likeliest_places(two[None], PLACES, 2 * GRID.cell) - true[0]).norm() < 0.2


@pytest.mark.parametrize("degrees", [0, 60, 135, 180, -90, -20])
def test_the_heading_leads_from_the_goal_to_the_place_that_is_faced(degrees):
    angle = math.radians(degrees)
    goal = (12.0, -3.0)
    faced = (goal[0] + 8 * math.cos(angle), goal[1] + 8 * math.sin(angle))
    found = float(end_headings(predicted(goal, faced), PLACES, GRID.cell))
    assert math.remainder(found - angle, 2 * math.pi) == pytest.approx(0, abs=math.radians(3))


def test_a_way_leads_nowhere_if_all_of_it_is_at_the_start():
    here, there = (0.2, -0.3), (5.0, 0.0)
    assert bool(stays_at_start(predicted(here, (0.0, 8.0), (here, here)), PLACES))
    assert not bool(stays_at_start(predicted(there, (13.0, 0.0), (here, there)), PLACES))
    # A circle ends where it begins, and leads somewhere all the same.
    assert not bool(stays_at_start(predicted(here, (8.0, 0.0), (there, here)), PLACES))


@pytest.fixture(scope="module")
def facing(model, vocabulary):
    """An agent that was never trained, with a place to face, and a second stage that stops at once."""
    torch.manual_seed(0)
    visitation = VisitationModel(replace(model.config, predicts_facing=True)).eval()
    execution = ExecutionModel(ExecutionConfig())
    execution.output.bias.data[STOP] = 100.0
    return PVN(visitation, execution, vocabulary, simulator=SIMULATOR)


def ending(agent, task, degrees, *, step=5, turned=0, stops=True, goal=(12.0, 0.0), parts=()):
    """The action of a drone that faces ahead, and should face so many degrees to the left; and its steps turned."""
    angle = math.radians(degrees)
    visitation = predicted(goal, (goal[0] + 8 * math.cos(angle), goal[1] + 8 * math.sin(angle)), parts)
    memory = replace(agent.begin([task], torch.device("cpu")), step=step, steps_turned=torch.tensor([turned]))
    action = torch.tensor([[0.0, 0.0, 1.0]] if stops else [[2.0, 0.1, 0.0]])
    ended, count = agent._turn_at_goal(action, visitation, torch.zeros(1, 3), memory)
    return ended[0].tolist(), int(count)


def test_a_drone_turns_if_it_is_far_off_and_then_until_it_is_close(facing, tasks):
    stop = [0.0, 0.0, 1.0]
    assert ending(facing, tasks[0], 20) == (stop, 0), "not for so little"
    (speed, rate, stops), count = ending(facing, tasks[0], 20, turned=2)
    assert (speed, stops, count) == (0.0, 0.0, 3) and rate == pytest.approx(math.radians(20) / 0.5, abs=0.1)
    assert ending(facing, tasks[0], 2, step=6, turned=2) == (stop, 2)
    (speed, rate, stops), count = ending(facing, tasks[0], -90)
    assert (speed, stops, count) == (0.0, 0.0, 1) and rate == pytest.approx(-SIMULATOR.max_yaw_rate)
    assert ending(facing, tasks[0], 90, stops=False) == ([2.0, pytest.approx(0.1), 0.0], 0), "it has not arrived"


def test_a_drone_that_turns_stops_only_by_a_new_prediction(facing, tasks):
    """The last one may be of before it saw what it should face."""
    assert facing.plan_every == 6
    stops = [ending(facing, tasks[0], 2, step=step, turned=2)[0][STOP] for step in range(4, 14)]
    assert [step for step, stop in zip(range(4, 14), stops, strict=True) if stop] == [6, 12]


def test_a_drone_turns_for_no_more_steps_than_a_full_turn_takes(facing, tasks):
    assert ending(facing, tasks[0], 90, turned=11)[1] == 12 == 4 * facing.quarter_turn
    assert ending(facing, tasks[0], 90, turned=12) == ([0.0, 0.0, 1.0], 12)


def test_a_drone_that_has_arrived_turns_while_others_fly_on(facing, tasks):
    one = predicted((12.0, 0.0), (12.0, 8.0))
    both = replace(one, log_parts=one.log_parts.repeat(2, 1, 1, 1), log_faced=one.log_faced.repeat(2, 1, 1))
    memory = replace(facing.begin(tasks[:2], torch.device("cpu")), step=5)
    action = torch.tensor([[0.0, 0.0, 1.0], [2.0, 0.1, 0.0]])
    ended, count = facing._turn_at_goal(action, both, torch.zeros(2, 3), memory)
    assert count.tolist() == [1, 0] and torch.equal(ended[1], action[1])
    assert ended[0].tolist() == pytest.approx([0.0, SIMULATOR.max_yaw_rate, 0.0])


def test_only_at_the_start_does_a_way_that_leads_nowhere_end_a_flight(facing, tasks):
    """Later a drone may be back where it began, with more to fly."""
    here = {"goal": (0.0, 0.0), "parts": ((0.0, 0.0), (0.0, 0.0)), "stops": False}
    assert ending(facing, tasks[0], 90, step=0, **here)[1] == 1
    assert ending(facing, tasks[0], 90, step=7, **here)[1] == 0


@pytest.mark.long
def test_a_drone_that_looks_around_has_not_arrived(facing, tasks):
    """Weights that were never trained are unsure, and its second stage would stop at once."""
    unsure = facing.changed(look_threshold=0.0)
    counts = []
    fly(
        simulator_for(tasks, config=SIMULATOR), tasks, unsure, horizon=3 * unsure.quarter_turn,
        watch=lambda step, observation, action, memory: counts.append(int(memory.steps_turned.sum())),
    )  # fmt: skip
    assert counts == [0] * 9


@pytest.mark.long
def test_a_drone_that_has_arrived_turns_to_where_it_should_face_and_stops(facing, tasks):
    memories = []
    log = fly(
        simulator_for(tasks, config=SIMULATOR), tasks, facing,
        watch=lambda step, observation, action, memory: memories.append(memory),
    )  # fmt: skip
    assert bool(log.has_stopped.all())
    assert (log.action[..., 0] == 0).all() and log.distance_flown().max() < 0.1, "it turns on the spot"
    assert int(log.num_steps.max()) > 1, "the test shows nothing otherwise"
    for flight, steps in enumerate(log.num_steps.tolist()):
        last = memories[steps - 1]
        heading = end_headings(last.visitation, facing.visitation.places, GRID.cell)[flight] + last.origin[flight, 2]
        off = float(wrap_angle(log.pose_world[flight, steps - 1, 5] - heading).abs())
        turned = int(last.steps_turned[flight])
        assert turned == steps - 1 <= 4 * facing.quarter_turn
        if turned < 4 * facing.quarter_turn:
            assert off <= (TURNED_WITHIN if turned else TURNS_FROM)


@pytest.mark.long
def test_a_flight_that_turns_in_a_batch_is_the_flight_alone(facing, tasks):
    together = fly(simulator_for(tasks, config=SIMULATOR), tasks, facing)
    for flight, task in enumerate(tasks):
        alone = fly(simulator_for([task], config=SIMULATOR), [task], facing)
        assert int(alone.num_steps) == int(together.num_steps[flight])
        assert torch.allclose(alone.pose_world[0, -1], together.pose_world[flight, -1], atol=1e-3)


def test_an_agent_that_predicts_no_place_to_face_stops_as_it_arrives(agent, tasks):
    execution = copy.deepcopy(agent.execution)
    execution.output.bias.data[STOP] = 100.0
    stops = PVN(agent.visitation, execution, agent.vocabulary, simulator=SIMULATOR)
    assert fly(simulator_for(tasks, config=SIMULATOR), tasks, stops).num_steps.tolist() == [1, 1, 1]


@pytest.mark.long
@pytest.mark.parametrize(("text", "degrees"), [("turn left", 90), ("turn right", -90), ("turn around", 180)])
def test_the_shipped_agent_turns_on_the_spot_if_told_to_do_no_more(paragraph, text, degrees):
    shipped = load_agent("pvn-plus")
    for segment in paragraph[:2]:
        task = Task(segment.task.layout, segment.task.start, text)
        log = fly(simulator_for([task], config=SimulatorConfig(camera=shipped.camera)), [task], shipped)
        turned = math.degrees(float(log.pose_world[0, -1, 5])) - math.degrees(task.start[2])
        assert abs(math.remainder(turned - degrees, 360)) < 30 and float(log.distance_flown()) < 1.5
