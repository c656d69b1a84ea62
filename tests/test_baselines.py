"""The learned baselines: what they see, what they depend on, that they learn, and that they come back from disk."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from pvn.learning.baselines import train_baseline

from pvn.corpus.alignment import align
from pvn.corpus.meadow.banks import bundled_banks
from pvn.corpus.meadow.generator import make_meadow
from pvn.corpus.vocabulary import Vocabulary
from pvn.geometry import Camera, MapGrid
from pvn.learning.agent import load_agent, save_agent, shipped_agent
from pvn.learning.dagger import Mixture, collect, oracle_flights, train_dagger
from pvn.learning.demonstrations import Sizes, demonstrate, select, take_batch
from pvn.learning.imitation import (
    CHECKPOINT,
    ImitationConfig,
    imitate,
    imitation_losses,
    longest_flight,
    measure_imitation,
)
from pvn.model.chaplot import Chaplot, ChaplotConfig, ChaplotModel
from pvn.model.gsmn import GSMN, GSMNConfig, GSMNModel, filter_each
from pvn.model.mapping import Frames, empty_memory, lay_on_ground, look_around, seen_from_poses
from pvn.model.pvn import PVN, pose_in_map
from pvn.model.resnet import CHANNELS, STRIDE
from pvn.rollout.flight import fly, simulator_for
from pvn.simulator.interface import Observation, SimulatorConfig
from pvn.simulator.simulator import Simulator
from pvn.world.layout import Landmark, Layout

CAMERA, GRID = Camera(width=96, height=54), MapGrid(size=32, cell=3.125)
"""Small, so that the tests are quick."""
SIMULATOR = SimulatorConfig(quality="fast", camera=CAMERA)
QUICK = ImitationConfig(
    num_epochs=3, frames_per_batch=12, save_every=2, num_iterations=3, num_environments=2, memory=4, horizon=4,
    dagger_save_every=1,
)  # fmt: skip
SYSTEMS = ["gsmn", "chaplot"]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Batches here are so small that on busy cores torch's threads would mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def corpus():
    return make_meadow(bundled_banks(), size=60, seed=2)


@pytest.fixture(scope="module")
def vocabulary(corpus):
    return Vocabulary.from_texts((segment.task.instruction for segment in corpus["train"]), min_count=1)


@pytest.fixture(scope="module")
def segments(corpus):
    return corpus["train"][:4]


@pytest.fixture(scope="module")
def shown(corpus, segments, vocabulary):
    tasks = [segment.task for segment in segments]
    return demonstrate(tasks, vocabulary, align(corpus["train"], vocabulary), plan_every=1, config=SIMULATOR)


@pytest.fixture(scope="module")
def thinned(corpus, segments, vocabulary):
    tasks = [segment.task for segment in segments]
    alignment = align(corpus["train"], vocabulary)
    return demonstrate(tasks, vocabulary, alignment, plan_every=1, frame_every=3, config=SIMULATOR)


def fresh(system, vocabulary, seed=0):
    torch.manual_seed(seed)
    if system == "gsmn":
        config = GSMNConfig(num_words=len(vocabulary), grid=GRID, camera=CAMERA)
        return GSMN(GSMNModel(config), vocabulary, simulator=SIMULATOR)
    return Chaplot(
        ChaplotModel(ChaplotConfig(num_words=len(vocabulary), camera=CAMERA)), vocabulary, simulator=SIMULATOR
    )


def outputs_of(model, batch, longest):
    """Outputs (K, 3) at every frame."""
    if isinstance(model, GSMNModel):
        return model(batch.frames, batch.tokens).output
    return model(batch.frames, batch.tokens, longest)


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
    features = torch.nn.functional.avg_pool2d(is_mark[:, None], STRIDE, ceil_mode=True).expand(-1, CHANNELS, -1, -1)
    grid = MapGrid()
    rows = torch.arange(2)
    frames = Frames(torch.empty(2, 0), pose, start, torch.tensor([0, 2]), rows, torch.zeros(2, dtype=torch.int64))
    homography = seen_from_poses(frames, CAMERA)
    memory = lay_on_ground(features, frames, homography, empty_memory(1, grid.places()), grid.places(), 0.2)
    maps = memory.value[1:, :, :1].view(1, 1, grid.size, grid.size)
    own = look_around(maps, pose_in_map(pose[1:], start), grid.places(), grid)[0, 0]
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
        wanted = torch.nn.functional.conv2d(value[None], weight, padding=dilation, dilation=dilation)[0]
        assert torch.allclose(filtered, wanted, atol=1e-5)


@pytest.mark.parametrize("system", SYSTEMS)
@torch.no_grad()
def test_a_whole_flight_at_once_is_the_same_as_step_by_step_alone(system, segments, vocabulary, shown):
    agent = fresh(system, vocabulary)
    batch = take_batch(shown, select(shown, torch.tensor([2, 1])))
    together = outputs_of(agent.model, batch, longest_flight(shown))
    first = batch.frames.first_frame.tolist()
    for flight, task in enumerate((segments[2].task, segments[1].task)):
        memory = agent.begin([task], torch.device("cpu"))
        for frame in range(first[flight], first[flight + 1]):
            image, pose = batch.frames.image[frame : frame + 1], batch.frames.pose_world[frame : frame + 1]
            _, memory = agent.act(Observation(image, pose, torch.zeros(1, 3)), memory)
            assert torch.allclose(last_output(memory)[0], together[frame], atol=1e-3), (flight, frame)


@pytest.mark.parametrize("system", SYSTEMS)
def test_flights_side_by_side_fly_as_they_would_alone(system, segments, vocabulary):
    agent, tasks = fresh(system, vocabulary), [segment.task for segment in segments[:2]]

    def flown(chosen):
        outputs = []
        keep = lambda step, observation, action, memory: outputs.append(last_output(memory))  # noqa: E731
        # Two steps: rounding differs with the batch, and sooner or later a pixel at an edge shows it.
        fly(simulator_for(chosen, config=SIMULATOR), chosen, agent, horizon=2, watch=keep)
        return outputs

    together = flown(tasks)
    for row, task in enumerate(tasks):
        alone = flown([task])  # shorter, where it stops and the other one flies on
        for output, among_others in zip(alone, together, strict=False):
            assert torch.allclose(output[0], among_others[row], atol=1e-3)


@pytest.mark.parametrize("system", SYSTEMS)
@torch.no_grad()
def test_what_is_said_changes_what_is_done(system, segments, vocabulary, shown):
    agent = fresh(system, vocabulary)
    batch = take_batch(shown, select(shown, torch.tensor([0])))
    other = replace(batch, tokens=shown.tokens[1:2])
    outputs = [outputs_of(agent.model, said, longest_flight(shown)) for said in (batch, other)]
    assert (outputs[0] - outputs[1]).abs().max() > 1e-3


@pytest.mark.parametrize("system", SYSTEMS)
@torch.no_grad()
def test_a_batch_that_is_filled_up_has_the_same_losses(system, vocabulary, shown):
    model, flights = fresh(system, vocabulary).model, torch.tensor([3, 0])
    exact = select(shown, flights)
    sizes = Sizes(exact.sizes.frames + 40, exact.sizes.flights + 2, exact.sizes.frames + 40)
    own, filled = (
        imitation_losses(model, take_batch(shown, selection), longest_flight(shown))
        for selection in (exact, select(shown, flights, sizes=sizes))
    )
    for name in own.keys() - {"goal"}:  # which compares with cells drawn at random
        assert float(filled[name]) == pytest.approx(float(own[name]), rel=1e-3), name


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_losses_reach_every_parameter(system, vocabulary, thinned):
    model = fresh(system, vocabulary).model.train()
    losses = imitation_losses(model, take_batch(thinned, select(thinned, torch.arange(3))), longest_flight(thinned))
    assert losses.keys() == (
        {"action", "landmark", "grounded", "goal", "mentioned"} if system == "gsmn" else {"action"}
    )
    sum(losses.values()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and (parameter.grad != 0).any() and parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("system", SYSTEMS)
def test_each_learns_to_do_as_the_oracle_did(system, vocabulary, thinned, tmp_path):
    config = ImitationConfig(num_epochs=24, frames_per_batch=100, learning_rate=2e-3)
    model = fresh(system, vocabulary).model
    before = measure_imitation(model, thinned, config)
    imitate(model, thinned, config, tmp_path)
    after = measure_imitation(model, thinned, config)
    assert after["action"] < before["action"] / 3
    if system == "gsmn":
        assert after["landmark"] < 0.8 * before["landmark"]


class Killed(Exception):
    pass


def killer(at):
    def kill(step, num_steps, figures):
        if step >= at:
            raise Killed

    return kill


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_run_that_was_cut_short_goes_on_exactly(system, vocabulary, thinned, tmp_path):
    def run(folder, **options):
        model, steps = fresh(system, vocabulary).model, {}
        note = lambda step, num_steps, figures: steps.update({step: figures["loss"]})  # noqa: E731
        imitate(model, thinned, QUICK, folder, **{"watch": note, **options})
        return model, steps

    whole, steps = run(tmp_path / "whole")
    with pytest.raises(Killed):
        run(tmp_path / "cut", watch=killer(3))
    again, resumed = run(tmp_path / "cut", is_resumed=True)
    assert min(resumed) > 0 and all(steps[step] == loss for step, loss in resumed.items()), "bit for bit"
    assert all(torch.equal(one, other) for one, other in zip(whole.parameters(), again.parameters(), strict=True))


def test_dagger_goes_on_exactly_and_remembers_no_more_than_it_should(segments, vocabulary, shown, tmp_path):
    def run(folder, **options):
        agent, flights = fresh("chaplot", vocabulary), []
        note = lambda step, num_steps, figures: flights.append(figures["flights"])  # noqa: E731
        train_dagger(agent, segments, shown, QUICK, folder, **{"watch": note, **options})
        return agent.model, flights

    whole, flights = run(tmp_path / "whole")
    assert flights == [4.0] * 3
    with pytest.raises(Killed):
        run(tmp_path / "cut", watch=killer(1))
    again, resumed = run(tmp_path / "cut", is_resumed=True)
    assert len(resumed) == 2
    assert all(torch.equal(one, other) for one, other in zip(whole.parameters(), again.parameters(), strict=True))
    with pytest.raises(ValueError, match=r"segments: got 3, expected 4"):
        train_dagger(fresh("chaplot", vocabulary), segments[:3], shown, QUICK, tmp_path)


def test_where_the_oracle_flies_all_steps_its_flights_are_the_demonstrations(segments, vocabulary, shown):
    policy = Mixture(fresh("chaplot", vocabulary), 1.0, SIMULATOR, torch.Generator())
    flown = collect(policy, [1, 3], segments, 80, "cpu", SIMULATOR)
    for one, other in zip(flown, oracle_flights(shown, [1, 3]), strict=True):
        assert one.flight == other.flight
        assert torch.equal(one.pose_world, other.pose_world) and torch.allclose(one.action, other.action)
        assert one.action[-1].tolist() == [0.0, 0.0, 1.0] and (one.action[:-1, 2] == 0).all()
        assert (one.action.abs() <= 1).all(), "shares of the greatest"


def test_a_loss_that_is_no_number_ends_the_run(vocabulary, corpus, thinned, tmp_path):
    model = fresh("chaplot", vocabulary).model
    with torch.no_grad():
        model.output.weight[0, 0] = float("nan")
    with pytest.raises(FloatingPointError, match=r"imitation, step 0: the loss is nan; the last good checkpoint is"):
        imitate(model, thinned, QUICK, tmp_path)
    assert not (tmp_path / CHECKPOINT).exists()
    alignment = align(corpus["train"], vocabulary)
    sparse = demonstrate([corpus["train"][0].task], vocabulary, alignment, plan_every=6, config=SIMULATOR)
    with pytest.raises(ValueError, match=r"demonstrate with plan_every=1"):
        imitate(model, sparse, QUICK, tmp_path)


@pytest.mark.parametrize("system", SYSTEMS)
def test_an_agent_is_read_back_and_flies_the_same(system, segments, vocabulary, tmp_path):
    path, agent = tmp_path / "agent.safetensors", fresh(system, vocabulary, seed=3)
    save_agent(agent, path, {"note": "untrained"})
    again = load_agent(path)
    assert type(again) is type(agent) and again.model.config == agent.model.config
    tasks = [segment.task for segment in segments[:2]]
    logs = [fly(simulator_for(tasks, config=SIMULATOR), tasks, pilot, horizon=3) for pilot in (agent, again)]
    assert torch.equal(logs[0].action, logs[1].action)
    content = json.loads((tmp_path / "agent.json").read_text())
    (tmp_path / "agent.json").write_text(json.dumps(content | {"system": "eagle"}))
    with pytest.raises(ValueError, match=r"got system 'eagle', expected pvn, gsmn or chaplot"):
        load_agent(path)
    (tmp_path / "agent.json").write_text(json.dumps(content | {"model": content["model"] | {"num_words": 5}}))
    with pytest.raises(ValueError, match="does not fit the model"):
        load_agent(path)
    (tmp_path / "agent.json").write_text(json.dumps(content | {"model": {}}))
    with pytest.raises(ValueError, match="not the description of an agent"):
        load_agent(path)


def test_agents_that_do_not_say_what_they_are_are_pvn():
    assert isinstance(shipped_agent(), PVN)


@pytest.mark.parametrize("system", SYSTEMS)
def test_from_a_corpus_to_an_agent_on_disk(system, corpus, tmp_path):
    config = replace(
        QUICK, num_epochs=1, word_steps=2, num_iterations=1, num_environments=1, memory=1, horizon=2, min_count=1,
        camera=Camera(width=96, height=72), grid=MapGrid(size=32, cell=50.0 / 16),
    )  # fmt: skip
    seen = set()
    agent = train_baseline(
        replace(corpus, splits={"train": corpus["train"][:2]}), system, config, tmp_path,
        watch=lambda what, step, num_steps, figures: seen.add(what),
    )  # fmt: skip
    assert seen == {"imitation", "DAggerFM"} | ({"words"} if system == "gsmn" else set())
    again = load_agent(tmp_path / "agent.safetensors")
    for one, other in zip(agent.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert again.model.config.camera == config.camera
    assert json.loads((tmp_path / "training.json").read_text())["recipe"]["memory"] == 1


def test_parameters_are_as_many_as_the_document_says():
    text = (Path(__file__).parent.parent / "docs" / "baselines.md").read_text()
    for model in (GSMNModel(GSMNConfig(num_words=2080)), ChaplotModel(ChaplotConfig(num_words=2080))):
        assert f"{sum(parameter.numel() for parameter in model.parameters()):,}" in text
