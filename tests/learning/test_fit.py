"""The phases of a training: words, gradient descent on demonstrations, measurements, checkpoints."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch

from pvn.learning import descent, losses
from pvn.learning.checkpoint import read_tensors
from pvn.learning.demonstrations import demonstrate, select, take_batch
from pvn.learning.fit import descend, draw_selection, learn_words, measure
from pvn.learning.losses import ImitationLosses, PredictVisitation, VisitationLosses
from pvn.learning.recipes import Stage1Config
from pvn.simulator.simulator import simulator_for

QUICK = Stage1Config(num_epochs=2, frames_per_batch=20, frame_every=3, learning_rate=3e-3, save_every=2)
IMITATE = replace(
    QUICK, num_epochs=3, frames_per_batch=8, learning_rate=1e-3, frame_every=1, predict_every=1, swapped_share=0.0,
    turn_rad=0.0, losses=ImitationLosses(),
)  # fmt: skip
CONFIGS = {"pvn": QUICK, "gsmn": IMITATE, "chaplot": IMITATE}
BRIEF = replace(QUICK, frames_per_batch=6)
FILE = "training.safetensors"
EVERY = 10**6


def trained(objective, shown, config, folder, **options):
    """Train; the losses by step."""
    steps = {}
    descend(
        objective, shown, None, config, folder / FILE,
        watch=lambda name, step, num_steps, values: steps.update({step: values["loss"]}), **options,
    )  # fmt: skip
    return steps


def are_equal(one, other):
    return all(torch.equal(*pair) for pair in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


@pytest.mark.long
@pytest.mark.parametrize("system", ["pvn", "gsmn", "chaplot"])
def test_each_learns_from_demonstrations(system, objective_of, shown_to, tmp_path):
    objective, shown = objective_of(system), shown_to(system)
    rate, share = (3e-3, 0.75) if system == "pvn" else (2e-3, 1 / 3)
    config = replace(CONFIGS[system], num_epochs=4 if system == "pvn" else 24, learning_rate=rate)
    config = replace(config, frames_per_batch=20 if system == "pvn" else 100)
    before = measure(objective, shown, EVERY)
    trained(objective, shown, config, tmp_path)
    after = measure(objective, shown, EVERY)
    for name in ("trajectory", "goal") if system == "pvn" else ("action",):
        assert after[name] < share * before[name]
    if system == "gsmn":
        assert after["landmark"] < 0.8 * before["landmark"]


@pytest.mark.long
@pytest.mark.parametrize("system", ["pvn", "gsmn", "chaplot"])
def test_an_interrupted_run_resumes_to_the_bit(system, objective_of, shown_to, copy_run_at, tmp_path):
    objective, again, shown, folder = objective_of(system), objective_of(system), shown_to(system), tmp_path / "whole"
    config, whole = replace(CONFIGS[system], num_epochs=3, save_every=2), {}

    def watch(name, step, num_steps, values):
        whole[step] = values["loss"]
        copy_run_at(3, folder, tmp_path / "cut")(name, step, num_steps, values)

    descend(objective, shown, None, config, folder / FILE, watch=watch)
    resumed = trained(again, shown, config, tmp_path / "cut", is_resumed=True)
    assert min(resumed) == 3 and max(resumed) > 3, "its last checkpoint is that of step 1"
    assert resumed == {step: loss for step, loss in whole.items() if step >= 3}
    assert are_equal(objective, again)


def test_a_checkpoint_says_how_many_steps_were_taken(objective_of, shown_briefly, tmp_path):
    objective = objective_of("pvn")
    steps = trained(objective, shown_briefly, replace(BRIEF, num_epochs=1), tmp_path)
    assert int(read_tensors(tmp_path / FILE)["done"]) == max(steps) + 1
    assert not trained(objective, shown_briefly, replace(BRIEF, num_epochs=1), tmp_path, is_resumed=True)


@pytest.fixture
def steps_of(objective_of, shown, tmp_path, monkeypatch):
    """Runs a descent whose steps change nothing; the flights and rates of each, and when dev was measured."""

    def run(config):
        objective, flights, rates, measured = objective_of("pvn"), [], [], []

        def note_flights(shown, config, step, chosen, *about):
            flights.append(chosen.tolist())
            return draw_selection(shown, config, step, chosen, *about)

        def note_rates(objective, optimizer, *about):
            rates.append([group["lr"] for group in optimizer.param_groups])
            return {name: torch.ones(()) for name in ("trajectory", "goal", "faced", "landmark", "grounded",
                    "mentioned", "hits", "num_predictions", "num_visible")}  # fmt: skip

        with monkeypatch.context() as patch:
            patch.setattr("pvn.learning.fit.draw_selection", note_flights)
            patch.setattr("pvn.learning.fit.take_batch", lambda *about: None)
            patch.setattr("pvn.learning.fit.take_step", note_rates)
            patch.setattr("pvn.learning.fit.measure", lambda *about: measured.append(len(flights)) or {})
            patch.setattr("pvn.learning.fit.save_training", lambda *about: None)
            descend(objective, shown, shown, config, tmp_path / FILE)
        assert not objective.model.training, "nothing is dropped any more"
        return flights, rates, measured

    return run


def test_every_epoch_has_all_flights_in_an_order_of_its_own(steps_of):
    config, orders = Stage1Config(num_epochs=3, flights_per_batch=1, swapped_share=0.0), {}
    for seed in (0, 0, 1):
        flights = [flight for batch in steps_of(replace(config, seed=seed))[0] for flight in batch]
        epochs = [tuple(flights[first : first + 6]) for first in (0, 6, 12)]
        assert all(sorted(epoch) == list(range(6)) for epoch in epochs)
        assert orders.setdefault(seed, epochs) == epochs, "the same for the same seed"
    assert len({*orders[0], *orders[1]}) == 6


def test_rates_follow_the_schedule_and_the_dev_split_is_measured_after_every_so_many_steps(steps_of):
    config = Stage1Config(num_epochs=4, flights_per_batch=2, learning_rate=0.1, measure_every=5)
    flights, rates, measured = steps_of(config)
    assert len(flights) == len(rates) == 12 and measured == [5, 10]
    for step, (encoder, others) in enumerate(rates):
        assert others == pytest.approx(0.1 * config.rate_share(step, 12)) and encoder == pytest.approx(1.5 * others)


def chosen(shown, step=0, **changes):
    """A step's batch of all flights, with and without its selection."""
    selection = draw_selection(shown, replace(QUICK, **changes), step, torch.arange(len(shown)))
    return selection, take_batch(shown, selection)


@pytest.mark.long
def test_maps_and_targets_are_rotated_by_half_a_radian_and_half_of_the_paths_are_swapped(shown):
    selections = [chosen(shown, step)[0] for step in range(40)]
    turns = torch.cat([selection.turn for selection in selections])
    assert 0.42 < turns.std() < 0.58 and abs(turns.mean()) < 0.08
    swapped = torch.cat([selection.parts().flights != selection.parts().posed_as for selection in selections])
    assert 0.35 < swapped.float().mean() < 0.6, "half of them, but for one that is drawn alone"
    for selection in selections:
        parts = selection.parts()
        assert sorted(parts.posed_as.tolist()) == sorted(parts.flights.tolist()), "each path is flown once"
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


def test_every_step_and_every_seed_draws_turns_of_its_own(shown):
    drawn = {
        (seed, step): tuple(chosen(shown, step, seed=seed)[0].turn.tolist()) for seed in (0, 1) for step in (0, 1, 2)
    }
    assert len(set(drawn.values())) == 6
    assert drawn[1, 2] == tuple(chosen(shown, 2, seed=1)[0].turn.tolist())


@pytest.mark.parametrize("count", [2, 3, 8])
def test_processes_take_the_same_flights_drawn_the_same_way_as_one_does(count, shown):
    config, flights = replace(QUICK, height_spread=1.0), torch.tensor([3, 0, 5, 1, 4])
    whole = draw_selection(shown, config, 7, flights)
    parts = [draw_selection(shown, config, 7, flights, None, slice(rank, None, count)) for rank in range(count)]
    for rank, part in enumerate(parts):
        for name in ("turn", "rise"):
            assert torch.equal(getattr(part, name)[: len(flights[rank::count])], getattr(whole, name)[rank::count])
        for name in ("flights", "posed_as"):
            own = getattr(part.parts(), name)[: len(flights[rank::count])]
            assert torch.equal(own, getattr(whole.parts(), name)[rank::count])
    assert sum(int(part.parts().num_predictions) for part in parts) == int(whole.parts().num_predictions)


@pytest.mark.long
def test_words_are_learned_at_a_rate_that_rises_from_flights_that_the_seed_draws(fresh_model, shown):
    """Adam's first step is as long as the rate in every weight: in the first of 20 steps half of the highest."""
    found = []
    for seed in (0, 0, 1):
        model, first = fresh_model(), {}
        before = {name: value.detach().clone() for name, value in model.named_parameters()}

        def watch(name, step, num_steps, values, model=model, first=first):
            first.setdefault("bias", model.heads.mentioned.bias.detach().clone())
            first.setdefault("loss", values["loss"])

        learn_words(model, shown, replace(QUICK, word_steps=20, word_learning_rate=0.01, seed=seed), watch)
        step = float((first["bias"] - before["heads.mentioned.bias"]).abs().max())
        assert step == pytest.approx(0.005, rel=1e-3)
        changed = {name for name, value in model.named_parameters() if not torch.equal(value, before[name])}
        assert {name.split(".")[0] for name in changed} == {"instruction", "heads"}
        assert {name for name in changed if name.startswith("heads")} == {
            "heads.mentioned.bias", "heads.mentioned.weight",
        }  # fmt: skip
        found.append(first["loss"])
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("system", ["pvn", "gsmn"])
def test_what_is_measured_does_not_depend_on_the_batches_and_leaves_the_model_as_it_was(
    system, is_training, objective_of, shown_to
):
    objective, shown = objective_of(system).train(is_training), shown_to(system)
    assert len(set(shown.first_frame.diff().tolist())) > 1, "batches differ in their number of frames"
    at_once, apart = (measure(objective, shown, frames) for frames in (EVERY, 1))
    for name in at_once.keys() - {"goal"} if system == "gsmn" else at_once:
        assert apart[name] == pytest.approx(at_once[name], rel=1e-3), name
    assert all(module.training == is_training for module in objective.modules())


@pytest.mark.long
def test_a_nan_ends_the_run_and_the_last_good_checkpoint_stays(objective_of, shown_briefly, tmp_path):
    objective = objective_of("pvn")

    def spoil(name, step, num_steps, values):
        if step == 3:
            with torch.no_grad():
                objective.model.resnet.first.weight[0, 0, 0, 0] = float("nan")

    with pytest.raises(
        FloatingPointError,
        match=r"step 3: a weight is not finite; the last good checkpoint is .*--stage1\.learning-rate",
    ):
        descend(objective, shown_briefly, None, BRIEF, tmp_path / FILE, watch=spoil)
    with pytest.raises(FloatingPointError, match=r"stage 1, step 0: the loss is nan"):
        descend(objective, shown_briefly, None, BRIEF, tmp_path / "other.safetensors")
    resumed = trained(objective_of("pvn"), shown_briefly, BRIEF, tmp_path, is_resumed=True)
    assert min(resumed) == 3 and all(map(math.isfinite, resumed.values()))


@pytest.mark.long
def test_the_dev_set_is_measured_along_the_way_and_changes_nothing(objective_of, shown_briefly, tmp_path):
    reports, config = [], replace(BRIEF, num_epochs=1, measure_every=1)
    objective, other = objective_of("pvn"), objective_of("pvn")
    descend(
        objective, shown_briefly, shown_briefly, config, tmp_path / FILE, watch=lambda *told: reports.append(told[3])
    )
    trained(other, shown_briefly, config, tmp_path)
    assert {"loss", "goal_found", "dev_trajectory", "dev_goal", "dev_goal_found"} <= reports[-1].keys()
    assert are_equal(objective, other)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("num_flights", [None, 2])
def test_recorded_steps_descend_on_their_own_batches_as_launched_ones_do(
    segments, vocabulary, alignment, fresh_model, shown, tmp_path, monkeypatch, num_flights
):
    """Batches of two flights are of several sizes, each of which is recorded by itself."""
    demonstrations = [segment.demonstration for segment in segments]
    on_gpu = demonstrate(
        demonstrations, vocabulary, alignment, simulator_for, frame_every=3, device="cuda",
        config=shown.simulator.config,
    )  # fmt: skip

    def found(steps_before, learning_rate):
        monkeypatch.setattr(descent, "STEPS_BEFORE_RECORDING", steps_before)
        config = replace(QUICK, num_epochs=6, learning_rate=learning_rate, flights_per_batch=num_flights)
        objective = PredictVisitation(fresh_model().to("cuda"), VisitationLosses())
        if num_flights is not None:  # as if it were compiled for batches of middling size
            objective.model.frames_at_once, objective.model.maps_at_once = 6, 4
        words = []
        learn_words(objective.model, on_gpu, replace(config, word_steps=101), lambda *told: words.append(told[3]))
        assert all(parameter.grad is None for parameter in objective.model.parameters()), "in the graph's memory"
        return [each["loss"] for each in words], list(trained(objective, on_gpu, config, tmp_path).values())

    # Weights that hardly change: each loss is that of its batch. At a real rate, rounding grows step by step.
    with monkeypatch.context() as patch:
        patch.setattr(losses, "precision", lambda device: nullcontext())  # in bf16, they differ by up to 5%
        (words, recorded), (launched_words, launched) = found(2, 1e-7), found(10**9, 1e-7)
    assert words == pytest.approx(launched_words, rel=1e-2) and words[-1] < words[0]
    assert len(recorded) > 10 and recorded == pytest.approx(launched, rel=1e-2)  # 0.26% was seen, between launched ones
    assert max(launched) > 1.1 * min(launched), "the batches differ"
    _, learned = found(2, 3e-3)
    assert sum(learned[-3:]) < 0.7 * sum(learned[:3])
