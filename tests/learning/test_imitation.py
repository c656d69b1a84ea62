"""The baselines learn by imitating the oracle, then by DAggerFM; interrupted runs resume to the bit."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch

from pvn.geometry import Camera, MapGrid
from pvn.learning.agent import load_agent
from pvn.learning.checkpoint import read_tensors
from pvn.learning.dagger import DaggerConfig
from pvn.learning.demonstrations import Sizes, demonstrate, select, take_batch
from pvn.learning.imitation import (
    CHECKPOINT,
    DAGGER_CHECKPOINT,
    ImitationConfig,
    ImitationRecipe,
    imitate,
    imitation_losses,
    measure_imitation,
    take_step,
    train_by_imitation,
    train_dagger,
)
from pvn.learning.optimisation import ignore_progress
from pvn.model.chaplot import Chaplot
from pvn.model.execution import Decision
from pvn.model.gsmn import GSMN
from pvn.model.mapping import AuxiliaryHeads, GroundedMaps

GRID = MapGrid(size=32, cell=3.125)
QUICK = ImitationRecipe(
    name="quick",
    imitation=ImitationConfig(num_epochs=3, frames_per_batch=8, save_every=2),
    dagger=DaggerConfig(num_iterations=3, num_environments=2, memory=4, horizon=4, save_every=1, learning_rate=3e-4),
    grid=GRID,
)
SYSTEMS = ["gsmn", "chaplot"]


def losses_of(model, batch):
    return imitation_losses(model, batch, GRID, ImitationConfig().stop_weight)


@pytest.mark.long
@pytest.mark.parametrize("system", SYSTEMS)
@torch.no_grad()
def test_padding_changes_no_loss(system, fresh_agent, imitated):
    model, shown, flights = fresh_agent(system).model, imitated[system], torch.tensor([3, 0])
    exact = select(shown, flights)
    sizes = Sizes(exact.sizes.frames + 40, exact.sizes.flights + 2, exact.sizes.frames + 40)
    own, padded = (
        losses_of(model, take_batch(shown, selection)) for selection in (exact, select(shown, flights, sizes=sizes))
    )
    for name in own.keys() - {"goal"}:  # which compares with cells drawn at random
        assert float(padded[name]) == pytest.approx(float(own[name]), rel=1e-3), name


@pytest.mark.long
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_losses_reach_every_parameter(system, fresh_agent, imitated):
    model, shown = fresh_agent(system).model.train(), imitated[system]
    losses = losses_of(model, take_batch(shown, select(shown, torch.arange(3))))
    assert losses.keys() == (
        {"action", "landmark", "grounded", "goal", "mentioned"} if system == "gsmn" else {"action"}
    )
    sum(losses.values()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and (parameter.grad != 0).any() and parameter.grad.isfinite().all(), name


@pytest.mark.long
@pytest.mark.parametrize("system", SYSTEMS)
def test_each_learns_to_do_as_the_oracle_did(system, fresh_agent, imitated, tmp_path):
    config = ImitationConfig(num_epochs=24, frames_per_batch=100, learning_rate=2e-3)
    recipe, model, shown = replace(QUICK, imitation=config), fresh_agent(system).model, imitated[system]
    before = measure_imitation(model, shown, recipe)
    imitate(model, shown, recipe, tmp_path)
    after = measure_imitation(model, shown, recipe)
    assert after["action"] < before["action"] / 3
    if system == "gsmn":
        assert after["landmark"] < 0.8 * before["landmark"]


@pytest.mark.long
@pytest.mark.parametrize("system", SYSTEMS)
def test_an_interrupted_run_resumes_to_the_bit(system, fresh_agent, imitated, copy_run_at, tmp_path):
    def run(folder, watch=ignore_progress, **options):
        model, steps = fresh_agent(system).model, {}

        def note(step, num_steps, values):
            steps[step] = values["loss"]
            watch(step, num_steps, values)

        imitate(model, imitated[system], QUICK, folder, watch=note, **options)
        return model, steps

    whole, steps = run(tmp_path / "whole", copy_run_at(3, tmp_path / "whole", tmp_path / "cut"))
    again, resumed = run(tmp_path / "cut", is_resumed=True)
    assert min(resumed) == 3 and resumed == {step: loss for step, loss in steps.items() if step >= 3}
    assert all(torch.equal(*pair) for pair in zip(whole.parameters(), again.parameters(), strict=True))


@pytest.mark.long
def test_interrupted_dagger_resumes_to_the_bit_and_remembers_no_more_than_it_should(
    segments, fresh_agent, imitated_fully, copy_run_at, tmp_path
):
    def run(folder, watch=ignore_progress, **options):
        agent, flights = fresh_agent("chaplot"), []

        def note(step, num_steps, values):
            flights.append(values["flights"])
            watch(step, num_steps, values)

        train_dagger(agent, segments[:4], imitated_fully, QUICK, folder, watch=note, **options)
        return agent.model, flights

    whole, flights = run(tmp_path / "whole", copy_run_at(2, tmp_path / "whole", tmp_path / "cut"))
    assert flights == [4.0] * 3
    again, resumed = run(tmp_path / "cut", is_resumed=True)
    assert len(resumed) == 2
    assert all(torch.equal(*pair) for pair in zip(whole.parameters(), again.parameters(), strict=True))
    with pytest.raises(ValueError, match=r"segments: got 3, expected 4"):
        train_dagger(fresh_agent("chaplot"), segments[:3], imitated_fully, QUICK, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(("beta", "flier"), [(1.0, "oracle"), (1e-9, "learner")])
def test_in_dagger_the_oracle_flies_the_share_of_steps_that_beta_says(
    beta, flier, segments, fresh_agent, imitated_fully, tmp_path
):
    """The learner stops as soon as it is its turn; with a beta of one it never is."""
    agent = fresh_agent("chaplot")
    with torch.no_grad():
        agent.model.output.bias[2] = 1e6
    environments = len({segment.environment for segment in segments[:4]})
    dagger = DaggerConfig(num_iterations=1, beta=beta, num_environments=environments, memory=100, learning_rate=0.0)
    train_dagger(agent, segments[:4], imitated_fully, replace(QUICK, dagger=dagger), tmp_path)
    oracles, flown = read_tensors(tmp_path / DAGGER_CHECKPOINT)["lengths"].split(4)
    assert sorted(oracles.tolist()) == sorted(imitated_fully.first_frame.diff().tolist())
    assert sorted(flown.tolist()) == (sorted(oracles.tolist()) if flier == "oracle" else [1] * 4)


@pytest.mark.long
def test_gsmns_objective_is_the_action_loss_and_a_tenth_of_each_auxiliary_loss(fresh_agent, imitated):
    model, shown = fresh_agent("gsmn").model.train(), imitated["gsmn"]
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    losses = take_step(model, optimizer, shown, QUICK, select(shown, torch.arange(2)))
    auxiliary = [losses[name] for name in ("landmark", "grounded", "goal", "mentioned")]
    assert all(value > 0.1 for value in auxiliary) and losses.keys() == {
        "action", "landmark", "grounded", "goal", "mentioned", "loss",
    }  # fmt: skip
    assert float(losses["loss"]) == pytest.approx(float(losses["action"] + 0.1 * sum(auxiliary)), rel=1e-5)


@pytest.mark.long
def test_a_nan_ends_the_run(fresh_agent, imitated, tmp_path):
    model, shown = fresh_agent("chaplot").model, imitated["chaplot"]
    with torch.no_grad():
        model.output.weight[0, 0] = float("nan")
    with pytest.raises(FloatingPointError, match=r"imitation, step 0: the loss is nan; the last good checkpoint is"):
        imitate(model, shown, QUICK, tmp_path)
    assert not (tmp_path / CHECKPOINT).exists()


def test_every_step_of_a_flight_is_imitated(segments, vocabulary, alignment, fresh_agent, tmp_path):
    sparse = demonstrate([segments[0].demonstration], vocabulary, alignment, plan_every=6)
    with pytest.raises(ValueError, match=r"demonstrate with plan_every=1"):
        imitate(fresh_agent("chaplot").model, sparse, QUICK, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("agent_class", [GSMN, Chaplot])
def test_from_a_corpus_to_an_agent_on_disk(agent_class, meadow, tmp_path):
    recipe = replace(
        QUICK,
        imitation=replace(QUICK.imitation, num_epochs=1, word_steps=2),
        dagger=replace(QUICK.dagger, num_iterations=1, num_environments=1, memory=1, horizon=2),
        min_count=1,
        camera=Camera(width=96, height=54),
    )
    seen = set()
    agent = train_by_imitation(
        replace(meadow, splits={"train": meadow["train"][:2]}), agent_class, recipe, tmp_path,
        watch=lambda stage, step, num_steps, values: seen.add(stage),
    )  # fmt: skip
    assert seen == {"imitation", "DAggerFM"} | ({"words"} if agent_class is GSMN else set())
    again = load_agent(tmp_path / "agent.safetensors")
    assert type(again) is agent_class
    trained = agent.model.state_dict()
    for name, value in again.model.state_dict().items():
        assert name.startswith("heads.") or torch.equal(value, trained[name]), name
    assert again.model.config.camera == recipe.camera
    assert json.loads((tmp_path / "training.json").read_text())["recipe"]["dagger"]["memory"] == 1


class Painted(torch.nn.Module):
    """A model whose goal maps are given, and whose head takes them for log-odds."""

    def __init__(self, goal_map):
        super().__init__()
        self.heads, self.goal_map = AuxiliaryHeads(30, 3, goal_channels=1), goal_map
        torch.nn.init.ones_(self.heads.goal.weight)
        torch.nn.init.zeros_(self.heads.goal.bias)

    def forward(self, frames, tokens):
        count, size = len(self.goal_map), self.goal_map.shape[-1]
        nothing = [torch.zeros((count, channels, size, size)) for channels in (32, 3)]
        is_known = torch.zeros((count, size, size), dtype=torch.bool)
        maps = GroundedMaps(nothing[0], is_known, nothing[1], torch.zeros(count, 30))
        return Decision(torch.zeros(count, 3), maps, self.goal_map)


@pytest.mark.parametrize("is_padded", [False, True])
def test_the_goal_is_looked_for_where_the_drone_sees_it_and_padding_does_not_count(is_padded, segments, imitated):
    """A goal map that is sure of the goal's cell, and of no other, costs nothing, whatever it says in padded rows."""
    shown, fine, flights = imitated["gsmn"], MapGrid(size=128, cell=0.75), [2, 0]
    selection = select(shown, torch.tensor(flights))
    count = selection.sizes.frames
    if is_padded:
        selection = select(shown, torch.tensor(flights), sizes=Sizes(count + 3, 3, count + 3))
    batch, goal_map = take_batch(shown, selection), torch.full((selection.sizes.frames, 1, 128, 128), -20.0)
    goal_map[count:] = 20.0
    for row, (flight, pose) in enumerate(zip(batch.frames.flight[:count], batch.frames.pose_world, strict=False)):
        east, north = segments[flights[flight]].demonstration.goal - pose[:2].numpy()
        yaw = float(pose[5])
        ahead = east * math.cos(yaw) + north * math.sin(yaw)
        left = north * math.cos(yaw) - east * math.sin(yaw)
        goal_map[row, 0, round(63.5 - left / 0.75), round(63.5 + ahead / 0.75)] = 20.0
    assert float(imitation_losses(Painted(goal_map), batch, fine, 0.8)["goal"].detach()) < 1e-6


def test_decisions_that_see_no_landmark_do_not_dilute_the_losses_of_the_others(fresh_agent, imitated):
    model, shown = fresh_agent("gsmn").model, imitated["gsmn"]
    batch = take_batch(shown, select(shown, torch.arange(2)))
    seeing = batch.is_visible.any(1).nonzero()[:2, 0]
    with torch.no_grad():
        alone = [losses_of(model, replace(batch, is_visible=only(batch.is_visible, row))) for row in seeing]
        both = losses_of(model, replace(batch, is_visible=only(batch.is_visible, seeing)))
    for name in ("landmark", "grounded"):
        assert float(both[name]) == pytest.approx(float(alone[0][name] + alone[1][name]) / 2, rel=1e-4), name


def only(values, rows):
    """The values in these rows, and nothing in the others."""
    kept = torch.zeros_like(values)
    kept[rows] = values[rows]
    return kept


@pytest.mark.long
def test_in_dagger_the_rate_falls_to_zero_and_the_instruction_encoder_learns_faster(
    segments, fresh_agent, imitated_fully, tmp_path
):
    """An iteration is one step here, and a fresh Adam's first step is as long as the rate in every weight."""
    agent, steps = fresh_agent("chaplot"), []
    recipe = replace(
        QUICK,
        imitation=replace(QUICK.imitation, frames_per_batch=10**6),
        dagger=replace(QUICK.dagger, num_iterations=4, num_environments=1, memory=1, horizon=1, learning_rate=1e-3),
    )

    def weights():
        return {name: value.detach().clone() for name, value in agent.model.named_parameters()}

    def note(step, num_steps, values):
        moved = {name: float((value - last[-1][name]).abs().max()) for name, value in weights().items()}
        encoder = max(value for name, value in moved.items() if name.startswith("instruction."))
        others = max(value for name, value in moved.items() if not name.startswith("instruction."))
        steps.append((encoder, others))
        last.append(weights())

    last = [weights()]
    train_dagger(agent, segments[:4], imitated_fully, recipe, tmp_path, watch=note)
    shares = [0.5 * (1 + math.cos(math.pi * done)) for done in (0.0, 0.25, 0.5, 0.75)]
    assert [others for _, others in steps] == pytest.approx([1e-3 * share for share in shares], rel=0.02)
    assert [encoder for encoder, _ in steps] == pytest.approx([1.5e-3 * share for share in shares], rel=0.02)


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_is_measured_does_not_depend_on_the_batches_and_leaves_the_model_as_it_was(system, fresh_agent, imitated):
    model, shown = fresh_agent(system).model.eval(), imitated[system]
    assert len(set(shown.first_frame.diff().tolist())) > 1, "batches differ in their number of frames"
    at_once, apart = (
        measure_imitation(model, shown, replace(QUICK, imitation=ImitationConfig(frames_per_batch=frames)))
        for frames in (10**6, 1)
    )
    assert apart["action"] == pytest.approx(at_once["action"], rel=1e-3)
    assert not any(module.training for module in model.modules())


@pytest.mark.long
def test_a_step_goes_no_further_than_its_gradient_may_be_long(fresh_agent, imitated):
    model, shown = fresh_agent("chaplot").model.train(), imitated["chaplot"]
    before = [parameter.detach().clone() for parameter in model.parameters()]
    recipe = replace(QUICK, imitation=replace(QUICK.imitation, max_gradient_norm=0.01))
    take_step(model, torch.optim.SGD(model.parameters(), 1.0), shown, recipe, select(shown, torch.arange(1)))
    steps = [(one.detach() - other).flatten() for one, other in zip(model.parameters(), before, strict=True)]
    assert float(torch.cat(steps).norm()) == pytest.approx(0.01, rel=1e-2)
