"""The learned baselines: what they see, and what they depend on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from pvn.corpus.alignment import Alignment
from pvn.geometry import Camera, MapGrid, ground_homography, pose_in_map
from pvn.learning.demonstrations import demonstrate, select, take_batch
from pvn.model.chaplot import Chaplot, ChaplotConfig, ChaplotModel
from pvn.model.gsmn import GSMN, GoalFilter, GSMNConfig, GSMNModel, filter_each
from pvn.model.mapping import Frames, empty_memory, lay_on_ground, to_drone_frame
from pvn.model.resnet import CHANNELS, STRIDE
from pvn.rollout.flight import fly
from pvn.simulator.interface import Observation, SimulatorConfig
from pvn.simulator.simulator import Simulator, simulator_for
from pvn.world.landmarks import LANDMARK_NAMES
from pvn.world.layout import Landmark, Layout

CAMERA, GRID = Camera(width=96, height=54), MapGrid(size=32, cell=3.125)
"""Small, so that the tests are quick."""
SIMULATOR = SimulatorConfig(quality="fast", camera=CAMERA)
SYSTEMS = ["gsmn", "chaplot"]


@pytest.fixture(scope="module")
def shown(demonstrations, vocabulary):
    """The oracle's flights, a decision at every step."""
    nothing = ((),) * len(LANDMARK_NAMES)
    alignment = Alignment(vocabulary, nothing, nothing)
    return demonstrate(demonstrations, vocabulary, alignment, simulator_for, predict_every=1, config=SIMULATOR)


@pytest.fixture
def fresh(vocabulary):
    """Makes an agent that was never trained."""

    def make(system):
        torch.manual_seed(0)
        if system == "gsmn":
            config = GSMNConfig(num_words=len(vocabulary), grid=GRID, camera=CAMERA)
            return GSMN(GSMNModel(config), vocabulary, simulator=SIMULATOR)
        config = ChaplotConfig(num_words=len(vocabulary), camera=CAMERA)
        return Chaplot(ChaplotModel(config), vocabulary, simulator=SIMULATOR)

    return make


def last_output(memory):
    """Outputs (B, 3) of the last step."""
    return memory.output if hasattr(memory, "output") else memory.decision.output


def test_what_is_ahead_of_the_drone_is_ahead_on_its_map_after_it_has_turned_and_moved():
    """It starts with its back to a landmark, and sees it at the second pose; pixels that show it are marked."""
    mark = Landmark("Barrel", 30.0, 30.0, 2.0)
    simulator = Simulator([Layout((mark,))], 1, config=SIMULATOR)
    start, ahead = torch.tensor([[15.0, 26.0, -2.5]]), 9.0
    yaw = 2.0
    now = torch.tensor([30.0 - ahead * np.cos(yaw), 30.0 - ahead * np.sin(yaw), 5.0, 0.0, 0.0, yaw]).float()
    pose = torch.stack([torch.tensor([15.0, 26.0, 5.0, 0.0, 0.0, -2.5]), now])
    is_mark = (simulator.landmarks_at(pose, torch.zeros(2, dtype=torch.int64)) == 0).float()
    assert (is_mark.sum(dim=(1, 2)) > 0).tolist() == [False, True]
    features = functional.avg_pool2d(is_mark[:, None], STRIDE, ceil_mode=True).expand(-1, CHANNELS, -1, -1)
    grid = MapGrid()
    rows, flight = torch.arange(2), torch.zeros(2, dtype=torch.int64)
    frames = Frames(torch.empty(2, 0), pose, start, torch.tensor([0, 2]), rows, flight, longest=2)
    homography = ground_homography(pose, frames.of_flights(start), CAMERA)
    memory = lay_on_ground(features, frames, homography, empty_memory(1, grid.places()), grid.places(), 0.2)
    maps = memory.value[1:, :, :1].view(1, 1, grid.size, grid.size)
    own = to_drone_frame(maps, pose_in_map(pose[1:], start), grid.places(), grid)[0, 0]
    row, column = np.unravel_index(int(own.argmax()), own.shape)
    expected = grid.cells(torch.tensor([ahead, 0.0]))
    # What stands up hides the ground behind it, so the mark reaches from its foot on, away from the drone.
    assert abs(row - float(expected[0])) <= 1
    assert -1 <= column - float(expected[1]) <= 5
    assert own[:, : grid.size // 2].sum() < 0.05 * own.sum(), "nothing behind the drone"


@pytest.mark.parametrize("dilation", [1, 3])
def test_every_map_goes_through_its_own_filter(dilation):
    torch.manual_seed(0)
    maps, kernels = torch.randn(4, 3, 12, 12), torch.rand(4, 2 * 3 * 9)
    got = filter_each(maps, kernels, 2, dilation)
    for value, kernel, filtered in zip(maps, kernels, got, strict=True):
        weight = (kernel / kernel.norm()).view(2, 3, 3, 3)
        wanted = functional.conv2d(value[None], weight, padding=dilation, dilation=dilation)[0]
        assert torch.allclose(filtered, wanted, atol=1e-5)


@torch.no_grad()
def test_gsmns_goal_map_by_hand():
    """Two filters of length one, a leaky rectifier and a norm between them; the second reaches three cells far."""
    torch.manual_seed(0)
    goal, maps, embedding = GoalFilter(GSMNConfig(num_words=9)), torch.randn(1, 3, 12, 12), torch.randn(1, 30)
    first, second = goal.kernels(embedding).sigmoid()[0].split([3 * 3 * 9, 2 * 3 * 9])
    once = functional.conv2d(maps, (first / first.norm()).view(3, 3, 3, 3), padding=1)
    normed = functional.instance_norm(functional.leaky_relu(once))
    twice = functional.conv2d(normed, (second / second.norm()).view(2, 3, 3, 3), padding=3, dilation=3)
    assert torch.allclose(goal(maps, embedding), twice, atol=1e-5)


@torch.no_grad()
def test_chaplots_instruction_lets_a_share_of_each_channel_through():
    torch.manual_seed(0)
    model, tokens = ChaplotModel(ChaplotConfig(num_words=9, camera=CAMERA)), torch.tensor([[3, 4], [5, 6]])
    gate = model.gate_channels(tokens)
    log_odds = model.instruction(tokens).embedding @ model.gate.weight.T + model.gate.bias
    assert torch.allclose(gate, 1 / (1 + (-log_odds).exp()), atol=1e-6)
    image = torch.randint(0, 256, (2, CAMERA.height, CAMERA.width, 3), dtype=torch.uint8)
    features = model.encoder(image)
    for number in range(2):
        gated = [share * channel for share, channel in zip(gate[number], features[number], strict=True)]
        encoded = model.joined(torch.stack(gated).flatten()).relu()
        assert torch.allclose(model.attend(image, gate)[number], encoded, atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("system", SYSTEMS)
@torch.no_grad()
def test_a_whole_flight_at_once_is_the_same_as_step_by_step_alone(system, tasks, fresh, shown):
    agent = fresh(system)
    batch = take_batch(shown, select(shown, torch.tensor([2, 1])))
    together = agent.model(batch.frames, batch.tokens).output
    first = batch.frames.first_frame.tolist()
    for flight, task in enumerate((tasks[2], tasks[1])):
        memory = agent.begin([task], torch.device("cpu"))
        for frame in range(first[flight], first[flight + 1]):
            image, pose = batch.frames.image[frame : frame + 1], batch.frames.pose_world[frame : frame + 1]
            _, memory = agent.act(Observation(image, pose, torch.zeros(1, 3)), memory)
            assert torch.allclose(last_output(memory)[0], together[frame], atol=1e-3), (flight, frame)


@pytest.mark.parametrize("system", SYSTEMS)
def test_flights_side_by_side_fly_as_they_would_alone(system, tasks, fresh):
    agent = fresh(system)

    def flown(chosen):
        outputs = []
        keep = lambda step, observation, action, memory: outputs.append(last_output(memory))  # noqa: E731
        # Two steps: rounding differs with the batch, and sooner or later a pixel at an edge shows it.
        fly(simulator_for(chosen, config=SIMULATOR), chosen, agent, horizon=2, watch=keep)
        return outputs

    together = flown(tasks[:2])
    for row, task in enumerate(tasks[:2]):
        alone = flown([task])  # shorter where it stops while the other one flies on
        for output, among_others in zip(alone, together, strict=False):
            assert torch.allclose(output[0], among_others[row], atol=1e-3)


@pytest.mark.parametrize("system", SYSTEMS)
@torch.no_grad()
def test_the_instruction_changes_the_actions(system, fresh, shown):
    agent = fresh(system)
    batch = take_batch(shown, select(shown, torch.tensor([0])))
    other = replace(batch, tokens=shown.tokens[1:2])
    one, two = (agent.model(some.frames, some.tokens).output for some in (batch, other))
    assert (one - two).abs().max() > 1e-5, "all else is equal, to the bit"


def test_parameters_are_as_many_as_the_document_says():
    text = (Path(__file__).parents[2] / "docs" / "baselines.md").read_text()
    for model in (GSMNModel(GSMNConfig(num_words=2080)), ChaplotModel(ChaplotConfig(num_words=2080))):
        assert f"{sum(parameter.numel() for parameter in model.parameters()):,}" in text
