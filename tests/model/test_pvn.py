"""PVN, the agent: it maps at every step, predicts at some, and flies by its last prediction."""

import copy
import math
from dataclasses import replace

import pytest
import torch

from pvn.geometry import pose_in_map
from pvn.learning.dagger import DemonstratedVisitation, Mixture
from pvn.learning.losses import action_losses
from pvn.model.execution import ExecutionModel, look_around, to_action
from pvn.model.instruction import pad_tokens
from pvn.model.mapping import Frames
from pvn.model.pvn import PVN, IdealAct
from pvn.model.visitation import VisitationModel
from pvn.rollout.oracle import Oracle
from pvn.simulator.interface import Observation, SimulatorConfig

SIMULATOR, CPU = SimulatorConfig(quality="fast"), torch.device("cpu")


def test_the_agent_maps_at_every_step_and_predicts_at_every_sixth(flown):
    planned = [step for step, now in enumerate(flown) if now.after.visitation is not now.before.visitation]
    assert planned == [0, 6, 12]
    for now in flown[1:]:
        assert not torch.equal(now.after.semantic.value, now.before.semantic.value)
        assert (now.after.semantic.is_known >= now.before.semantic.is_known).all()


def test_the_agent_keeps_nothing_between_calls(agent, flown):
    for now in (flown[0], flown[5], flown[12]):
        action, memory = agent.act(now.observation, now.before)
        assert torch.equal(action, now.action) and torch.equal(memory.output, now.after.output)
        assert torch.equal(memory.semantic.value, now.after.semantic.value)


def test_a_flight_of_the_agent_in_a_batch_is_the_flight_alone(agent, flown, tasks):
    memory = agent.begin(tasks[1:2], torch.device("cpu"))
    for now in flown[:8]:
        own = replace(now.observation, **{name: value[1:2] for name, value in vars(now.observation).items()})
        _, memory = agent.act(own, memory)
        assert torch.allclose(memory.output, now.after.output[1:2], atol=1e-4)


@torch.no_grad()
def test_a_short_sentence_is_padded_and_says_the_same(agent, tasks, vocabulary):
    """Torch's softmax over fewer words than a vector holds is slow."""
    tasks = [replace(task, instruction="go left") for task in tasks]
    read = agent.begin(tasks, torch.device("cpu")).instructions
    plain = agent.visitation.encode(pad_tokens([vocabulary.encode(task.instruction) for task in tasks]))
    assert read.words.shape[1] == 16 and read.is_word.sum(1).tolist() == [2] * len(tasks)
    assert plain.words.shape[1] == 2 and torch.allclose(read.embedding, plain.embedding, atol=1e-6)


@pytest.mark.long
@torch.no_grad()
def test_the_agents_maps_are_those_of_its_whole_flight_seen_at_once(agent, flown, tasks, vocabulary):
    """In training a flight is one batch of frames; in flight the map grows by one frame at a time."""
    num_steps = len(flown)
    row = torch.full((3, num_steps), -1)
    row[:, -1] = torch.arange(3)
    frames = Frames(
        torch.stack([now.observation.image for now in flown], 1).flatten(0, 1),
        torch.stack([now.observation.pose_world for now in flown], 1).flatten(0, 1),
        torch.tensor([task.start for task in tasks]),
        torch.arange(4) * num_steps, row.flatten(), torch.arange(3), longest=num_steps,
    )  # fmt: skip
    at_once = agent.visitation(frames, pad_tokens([vocabulary.encode(task.instruction) for task in tasks]))
    last = flown[-1].after.visitation
    assert torch.allclose(at_once.log_probability, last.log_probability, atol=1e-4)
    for name, value in vars(at_once.maps).items():
        assert torch.allclose(value.float(), getattr(last.maps, name).float(), atol=1e-4), name


def test_the_agent_flies_by_the_last_prediction_as_it_lies_around_the_drone_now(agent, flown, tasks):
    now = flown[4]
    pose = pose_in_map(now.observation.pose_world, torch.tensor([task.start for task in tasks]))
    with torch.no_grad():
        seen = look_around(flown[0].after.visitation.parts, now.after.progress, pose, agent.execution.config)
        output = agent.execution(seen)
    assert torch.allclose(now.after.output, output, atol=1e-6)
    assert torch.allclose(now.action, to_action(output, 0.07, SIMULATOR), atol=1e-5)
    assert not torch.allclose(now.after.output, flown[0].after.output, atol=1e-6)


def test_until_it_stops_the_agent_flies_at_its_least_speed_or_faster(agent, flown):
    """Stage 2 is made to ask for standing still."""
    execution = copy.deepcopy(agent.execution)
    execution.config = replace(execution.config, min_speed=0.15)
    torch.nn.init.zeros_(execution.output.weight)
    execution.output.bias.data = torch.tensor([-1.0, 0.0, -10.0])
    careful = PVN(agent.visitation, execution, agent.vocabulary, simulator=agent.simulator)
    action, _ = careful.act(flown[0].observation, flown[0].before)
    assert torch.allclose(action, torch.tensor([0.15 * SIMULATOR.max_speed, 0.0, 0.0]).expand(3, -1))


@pytest.mark.parametrize("part", [0, 1])
def test_an_agent_stops_only_as_far_as_it_is_in_the_last_part_of_its_way(agent, flown, tasks, part):
    """Stage 2 is made to ask for a stop with 0.08, above the threshold of 0.07; the way has two parts."""
    model = VisitationModel(replace(agent.visitation.config, num_parts=2))
    execution = ExecutionModel(replace(agent.execution.config, num_parts=2))
    torch.nn.init.zeros_(execution.output.weight)
    execution.output.bias.data = torch.tensor([0.5, 0.5, 0.08]).logit()
    eager = PVN(model, execution, agent.vocabulary, simulator=SIMULATOR)
    memory = eager.begin(tasks, torch.device("cpu"))
    progress = torch.nn.functional.one_hot(torch.full((3,), part), 2).float()
    action, memory = eager.act(flown[0].observation, replace(memory, progress=progress))
    assert torch.allclose(eager.stop_probability(memory), 0.08 * memory.progress[:, -1])
    has_stopped = action[:, 2] > 0
    assert torch.equal(has_stopped, memory.progress[:, -1] > 0.07 / 0.08) and bool(has_stopped.all()) == bool(part)


def has_gradient(parameter):
    return parameter.grad is not None and bool(parameter.grad.abs().max() > 1e-7)


def test_stage_2_learns_in_every_parameter_from_true_distributions_and_stage_1_not_at_all(
    agent, flown, demonstrations, tasks
):
    pilot = agent.execution
    learner = DemonstratedVisitation(pilot, demonstrations, 0.6, SIMULATOR)
    mixture = Mixture(learner, Oracle(demonstrations), 0.5, SIMULATOR, torch.Generator().manual_seed(0))
    _, memory = mixture.act(flown[0].observation, mixture.begin(tasks, torch.device("cpu")))
    action_losses(pilot(memory.learner.seen), memory.wanted, 0.8).mean().backward()
    assert all(has_gradient(parameter) for parameter in pilot.parameters())
    assert all(parameter.grad is None for parameter in agent.visitation.parameters())
    assert not flown[0].after.output.requires_grad, "nothing is learned in flight"


def test_a_flight_that_continues_another_has_its_map_and_nothing_else_of_it(agent, flown, tasks):
    before = flown[-1].after
    for pilot in (agent, IdealAct(agent)):
        memory = pilot.begin_with([pilot.carry(before, flight) for flight in (2, 0)], [tasks[2], tasks[0]], CPU)
        assert torch.equal(memory.semantic.is_known, before.semantic.is_known[[2, 0]])
        assert torch.allclose(memory.semantic.value, before.semantic.value[[2, 0]], atol=1e-3)
        assert memory.step == 0 and memory.visitation is None and memory.output is None


def ideal_action(agent, memory, distance, degrees):
    """What an ideal second stage does (3,) with its goal so many metres off and degrees to the left."""
    cell, angle = 1000, math.radians(degrees)
    log_parts = memory.visitation.log_parts.clone()
    log_parts[:, -1].flatten(1)[:, cell] = 0.0  # its probability is one
    memory = replace(memory, visitation=replace(memory.visitation, log_parts=log_parts), origin=torch.zeros(3, 3))
    pose = torch.zeros(3, 6)  # the drones face along the map's x axis
    pose[:, :2] = agent.visitation.places[cell] - distance * torch.tensor([math.cos(angle), math.sin(angle)])
    image = torch.zeros((3, *agent.visitation.picture_size(), 3), dtype=torch.uint8)
    return IdealAct(agent).act(Observation(image, pose, torch.zeros(3, 3)), memory)[0][0]


@pytest.mark.parametrize(
    ("degrees", "speed", "turn"), [(0, 1.0, 0.0), (60, 0.5, 1.0), (90, 0.0, 1.0), (-90, 0.0, -1.0), (150, 0.0, 1.0)]
)
def test_an_ideal_second_stage_turns_to_its_goal_and_flies_as_far_as_it_faces_it(agent, flown, degrees, speed, turn):
    """As fractions of the highest speed and yaw rate."""
    fractions = ideal_action(agent, flown[4].before, 12.0, degrees) / torch.tensor(SIMULATOR.max_action)
    assert fractions.tolist() == pytest.approx([speed, turn, 0.0], abs=1e-4)


@pytest.mark.parametrize(("distance", "stops"), [(0.75, True), (0.85, False), (3.0, False)])
def test_an_ideal_second_stage_stops_half_a_metre_and_a_tenth_of_a_second_before_its_goal(
    agent, flown, distance, stops
):
    """Before that it flies so that it would arrive in two steps of half a second."""
    speed, _, stop = ideal_action(agent, flown[4].before, distance, 0).tolist()
    assert SIMULATOR.max_speed == 3.0 and bool(stop) == stops
    assert speed == pytest.approx(0.0 if stops else min(distance, SIMULATOR.max_speed))
