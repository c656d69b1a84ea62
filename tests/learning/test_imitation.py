"""The baselines learn by imitating the oracle, then by DAggerFM; interrupted runs resume to the bit."""

from __future__ import annotations

import json
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
from pvn.model.gsmn import GSMN

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
