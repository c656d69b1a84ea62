"""Stage 1 learns, and a run that was interrupted resumes as if nothing had happened."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from torch._dynamo.utils import counters

from pvn.geometry import MapGrid
from pvn.learning import optimisation, stage1
from pvn.learning.demonstrations import demonstrate, select, take_batch
from pvn.learning.optimisation import batch_limits, make_optimizer
from pvn.learning.presets import recipe_for, with_changes
from pvn.learning.stage1 import (
    Stage1Config,
    compiled_sizes,
    learn_words,
    means,
    measure_stage1,
    planned_sizes,
    select_stage1_batch,
    stage1_step,
    train_stage1,
    try_part,
)
from pvn.learning.training import untrained
from pvn.model.visitation import COMPILED_PARTS
from pvn.systems import SYSTEMS

QUICK = Stage1Config(num_epochs=2, frames_per_batch=20, frame_every=3, learning_rate=3e-3, save_every=2)

BRIEF = replace(QUICK, frames_per_batch=6)


def trained(model, shown, config, folder, **options):
    """Train; the losses by step."""
    steps = {}
    train_stage1(
        model, shown, config, folder, watch=lambda step, num, values: steps.update({step: values["loss"]}), **options
    )
    return steps


@pytest.mark.long
def test_stage_1_learns_and_an_interrupted_run_resumes_to_the_bit(fresh_model, shown, copy_run_at, tmp_path):
    config = replace(QUICK, num_epochs=4, save_every=3)
    model, again, folder = fresh_model(), fresh_model(), tmp_path / "whole"
    before, whole = measure_stage1(model, shown, config), {}

    def watch(step, num_steps, values):
        whole[step] = values["loss"]
        copy_run_at(8, folder, tmp_path / "cut")(step, num_steps, values)

    train_stage1(model, shown, config, folder, watch=watch)
    after = measure_stage1(model, shown, config)
    assert after["trajectory"] < 0.75 * before["trajectory"] and after["goal"] < 0.75 * before["goal"]
    resumed = trained(again, shown, config, tmp_path / "cut", is_resumed=True)
    assert min(resumed) == 8, "its last checkpoint is that of step 5"
    assert resumed == {step: loss for step, loss in whole.items() if step >= 8}
    for name, value in model.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


def chosen(shown, step=0, **changes):
    """A step's batch of all flights, with and without its selection."""
    flights = torch.arange(len(shown))
    selection = select_stage1_batch(shown, replace(QUICK, **changes), step, flights, None)
    return selection, take_batch(shown, selection)


@pytest.mark.long
def test_maps_and_targets_are_rotated_by_half_a_radian_and_half_of_the_flights_stray(shown):
    selections = [chosen(shown, step)[0] for step in range(40)]
    turns = torch.cat([selection.turn for selection in selections])
    assert 0.42 < turns.std() < 0.58 and abs(turns.mean()) < 0.08
    strays = torch.cat([selection.parts().flights != selection.parts().moves for selection in selections])
    assert 0.35 < strays.float().mean() < 0.6, "half of them, but for one that is drawn alone"
    selection, batch = chosen(shown)
    assert torch.allclose(batch.frames.origin[:, 2], shown.origin[:, 2] + selection.turn)
    faced = batch.frames.origin[:, 2] + batch.frames.heading
    assert torch.allclose(faced, shown.origin[:, 2]), "the drones face where they did, and know it"
    straight = take_batch(shown, select(shown, torch.arange(len(shown))))
    for flight, turn in enumerate(selection.turn.tolist()):
        back = torch.tensor([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
        for name in ("path_map", "landmark_map"):
            turned, own = getattr(batch, name)[flight], getattr(straight, name)[flight]
            assert torch.allclose(turned @ back.T, own, atol=1e-4)


@pytest.mark.long
def test_with_a_spread_the_pictures_of_a_flight_are_taken_from_another_height(shown):
    same, batch = chosen(shown)[1], chosen(shown, height_spread=2.5)[1]
    assert (chosen(shown)[0].rise == 0).all(), "without a spread, from the drone's"
    rise = batch.frames.pose_world - same.frames.pose_world
    assert (rise[:, [0, 1, 3, 4, 5]] == 0).all() and (rise[:, 2].abs() <= 2.5).all()
    by_flight = [part[:, 2] for part in torch.split(rise, batch.frames.first_frame.diff().tolist())]
    assert all(torch.allclose(part, part[:1], atol=1e-5) for part in by_flight), "one height for all of a flight"
    assert len({round(float(part[0]), 3) for part in by_flight}) == len(shown)
    flight = batch.frames.of_flights(torch.arange(len(shown)))
    seen = shown.simulator.render(batch.frames.pose_world, shown.field[flight])
    assert torch.equal(batch.frames.image, seen) and not torch.equal(same.frames.image, seen)
    heights = torch.cat([chosen(shown, step, height_spread=2.5)[0].rise for step in range(40)])
    assert heights.min() < -2.2 and heights.max() > 2.2 and abs(heights.mean()) < 0.4
    with pytest.raises(ValueError, match=r"height_spread: got 4\.5, expected 0 to 4 metres; drones fly at 5"):
        Stage1Config(height_spread=4.5)


def test_every_step_and_every_seed_draws_turns_of_its_own(shown):
    drawn = {
        (seed, step): tuple(chosen(shown, step, seed=seed)[0].turn.tolist()) for seed in (0, 1) for step in (0, 1, 2)
    }
    assert len(set(drawn.values())) == 6
    assert drawn[1, 2] == tuple(chosen(shown, 2, seed=1)[0].turn.tolist())


@pytest.mark.long
def test_a_step_descends_on_mean_losses_and_not_too_far(fresh_model, shown_briefly):
    """The losses of landmarks are means over the predictions that see one, all others over all predictions."""
    model, pose = fresh_model().train(), shown_briefly.pose_world.clone()
    pose[0] = torch.tensor([0.0, 0.0, 5.0, 0.0, 0.0, -0.75 * math.pi])  # looks out of the field, where nothing stands
    shown = replace(shown_briefly, pose_world=pose)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer, config = torch.optim.SGD(model.parameters(), 1.0), replace(QUICK, max_gradient_norm=0.01)
    loss, losses = stage1_step(model, optimizer, shown, config, select(shown, torch.arange(2)))
    assert 0 < losses.num_visible < losses.num_predictions
    mean = means(losses)
    assert mean["landmark"] == pytest.approx(float(losses.landmark / losses.num_visible))
    whole = sum(mean[name] for name in ("trajectory", "goal", "landmark", "grounded")) + 0.25 * mean["mentioned"]
    assert float(loss) == pytest.approx(whole, rel=1e-5)
    steps = [(one.detach() - other).flatten() for one, other in zip(model.parameters(), before, strict=True)]
    assert float(torch.cat(steps).norm()) == pytest.approx(0.01, rel=1e-2), "longer gradients are scaled down to this"


@pytest.mark.long
def test_words_are_learned_at_a_rate_that_rises_from_flights_that_the_seed_draws(fresh_model, shown):
    """Adam's first step is as long as the rate in every weight: in the first of 20 steps half of the highest."""
    losses = []
    for seed in (0, 0, 1):
        model, first = fresh_model(), {}
        before = model.heads.mentioned.bias.detach().clone()

        def watch(step, num_steps, values, model=model, first=first):
            first.setdefault("bias", model.heads.mentioned.bias.detach().clone())
            first.setdefault("loss", values["loss"])

        learn_words(model, shown, replace(QUICK, word_steps=20, word_learning_rate=0.01, seed=seed), watch)
        assert float((first["bias"] - before).abs().max()) == pytest.approx(0.005, rel=1e-3)
        losses.append(first["loss"])
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_words_are_learned_by_recorded_steps_as_by_launched_ones(
    segments, vocabulary, alignment, fresh_model, shown, monkeypatch
):
    demonstrations, simulator = [segment.demonstration for segment in segments], shown.simulator.config
    on_gpu = demonstrate(demonstrations, vocabulary, alignment, frame_every=3, device="cuda", config=simulator)

    def losses(steps_before):
        monkeypatch.setattr(stage1, "STEPS_BEFORE_RECORDING", steps_before)
        seen, model = [], fresh_model().to("cuda")
        config = replace(QUICK, word_steps=301, word_learning_rate=0.01)
        learn_words(model, on_gpu, config, lambda step, num, values: seen.append(values["loss"]))
        assert all(parameter.grad is None for parameter in model.parameters()), "they would be in the graph's memory"
        return seen

    recorded = losses(2)
    assert len(recorded) == 4 and recorded[-1] < 0.5 * recorded[0]
    assert recorded == pytest.approx(losses(10**9), rel=1e-2)


@pytest.mark.parametrize("is_training", [True, False])
def test_a_model_that_was_measured_is_as_it_was(is_training, fresh_model, shown_briefly):
    model = fresh_model().train(is_training)
    measure_stage1(model, shown_briefly, QUICK)
    assert model.training == is_training and all(module.training == is_training for module in model.modules())


@pytest.mark.long
def test_a_nan_ends_the_run_and_the_last_good_checkpoint_stays(fresh_model, shown_briefly, tmp_path):
    model = fresh_model()

    def spoil(step, num_steps, values):
        if step == 3:
            with torch.no_grad():
                model.resnet.first.weight[0, 0, 0, 0] = float("nan")

    with pytest.raises(
        FloatingPointError,
        match=r"step 3: a weight is not finite; the last good checkpoint is .*--stage1\.learning-rate",
    ):
        train_stage1(model, shown_briefly, BRIEF, tmp_path, watch=spoil)
    with pytest.raises(FloatingPointError, match=r"stage 1, step 0: the loss is nan"):
        train_stage1(model, shown_briefly, BRIEF, tmp_path / "other")
    resumed = trained(fresh_model(), shown_briefly, BRIEF, tmp_path, is_resumed=True)
    assert min(resumed) == 3 and all(map(math.isfinite, resumed.values()))


@pytest.mark.long
def test_the_dev_set_is_measured_along_the_way_and_changes_nothing(fresh_model, shown_briefly, tmp_path):
    reports = []
    config = replace(BRIEF, num_epochs=1, measure_every=1)
    model, other = fresh_model(), fresh_model()
    train_stage1(
        model,
        shown_briefly,
        config,
        tmp_path / "a",
        measure=lambda: measure_stage1(model, shown_briefly, config),
        watch=lambda step, num, values: reports.append(values),
    )
    train_stage1(other, shown_briefly, config, tmp_path / "b")
    assert {"loss", "goal_found", "dev_trajectory", "dev_goal", "dev_goal_found"} <= reports[-1].keys()
    assert all(torch.equal(*pair) for pair in zip(model.parameters(), other.parameters(), strict=True))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("num_flights", [None, 2])
def test_a_recorded_step_descends_on_its_own_batch_as_a_launched_one_does(
    segments, vocabulary, alignment, fresh_model, shown, tmp_path, monkeypatch, num_flights
):
    """Batches of two flights are of several sizes, each of which is recorded by itself."""
    demonstrations, simulator = [segment.demonstration for segment in segments], shown.simulator.config
    on_gpu = demonstrate(demonstrations, vocabulary, alignment, frame_every=3, device="cuda", config=simulator)

    def losses(steps_before, learning_rate):
        monkeypatch.setattr(optimisation, "STEPS_BEFORE_RECORDING", steps_before)
        config = replace(QUICK, num_epochs=6, learning_rate=learning_rate, flights_per_batch=num_flights)
        model = fresh_model().to("cuda")
        if num_flights is not None:  # as if it were compiled for batches of middling size
            model.frames_at_once, model.maps_at_once = (size // 2 for size in compiled_sizes(on_gpu, config))
        return list(trained(model, on_gpu, config, tmp_path).values())

    # Weights that hardly change: each loss is that of its batch. At a real rate, rounding grows step by step.
    with monkeypatch.context() as patch:
        patch.setattr(stage1, "precision", lambda device: nullcontext())  # in bf16, they differ by up to 5%
        recorded, launched = losses(2, 1e-7), losses(10**9, 1e-7)
    assert len(recorded) > 10 and recorded == pytest.approx(launched, rel=1e-2)  # 0.26% was seen, between launched ones
    assert max(launched) > 1.2 * min(launched), "the batches differ"
    learned = losses(2, 3e-3)
    assert sum(learned[-3:]) < 0.7 * sum(learned[:3])


def test_code_is_compiled_for_a_recipe_and_not_for_a_corpus(segments, vocabulary, alignment, shown):
    """So that another process can compile it while the corpus is made."""
    config = Stage1Config(frames_per_batch=96)
    sizes = set()
    for part in (segments[::2], segments[1::2]):
        demonstrations = demonstrate(
            [segment.demonstration for segment in part], vocabulary, alignment, frame_every=config.frame_every,
            config=shown.simulator.config,
        )  # fmt: skip
        sizes.add(compiled_sizes(demonstrations, config))
        limits = batch_limits(demonstrations, config.frames_per_batch)
        assert sizes == {(96, 42)} and limits.frames == 96 and 32 < limits.predictions <= 42
        assert planned_sizes(config) == (96, 42)
    # Every fourth picture, and a prediction every sixth step: one for every third picture. Every twelfth: one for each.
    assert compiled_sizes(demonstrations, replace(config, frame_every=4))[1] == 42
    assert compiled_sizes(demonstrations, replace(config, frame_every=12))[1] == 96
    # A view from above shows everything at once.
    from_above = demonstrate([segment.demonstration for segment in segments], vocabulary, alignment, overhead_px=16)
    assert compiled_sizes(from_above, config) == planned_sizes(config, is_from_above=True) == (96, 96)


@pytest.mark.long
@pytest.mark.skipif(not hasattr(torch.compiler, "set_stance"), reason="needs torch 2.6")
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("name", ["pvn", "pvn-plus"])
def test_what_is_compiled_for_made_up_values_is_not_compiled_again_in_training(name, vocabulary, shown):
    """Otherwise a process that compiles ahead would compile something else. Compiled code depends on layouts, too."""
    changes = {"grid": MapGrid(), "camera": shown.simulator.config.camera, "stage1.frames_per_batch": 24}
    recipe = with_changes(recipe_for(SYSTEMS[name], "smoke"), changes | {"stage1.frame_every": 3})
    model, _ = untrained(recipe, vocabulary)
    model.to(memory_format=torch.channels_last)
    model.compile_for(*compiled_sizes(shown, recipe.stage1))
    sizes = replace(batch_limits(shown, 24), frames=model.frames_at_once, predictions=model.maps_at_once)
    optimizer = make_optimizer(model, 1e-3, 1.0, 0.0, torch.device("cpu"))
    torch._dynamo.reset()
    counters.clear()
    with torch.compiler.set_stance("default", force_backend="eager"):  # traces, and leaves the C++ compiler alone
        for part in COMPILED_PARTS:
            try_part(model, part)
        num_compiled = counters["frames"]["ok"]
        assert num_compiled >= len(COMPILED_PARTS)
        for step in range(2):
            selection = select_stage1_batch(shown, recipe.stage1, step, torch.tensor([step, 2]), sizes)
            stage1_step(model, optimizer, shown, recipe.stage1, selection)
        assert counters["frames"]["ok"] == num_compiled
        measure_stage1(model, shown, recipe.stage1)  # in batches that are not padded to these sizes
        assert counters["frames"]["ok"] == num_compiled
