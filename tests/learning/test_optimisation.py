"""The optimizers of the recipes, their rates, and batches of few flights."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch

from pvn.learning.checkpoint import load_optimizer, optimizer_tensors, read_tensors, write_tensors
from pvn.learning.demonstrations import Sizes, select
from pvn.learning.optimisation import (
    OptimisationConfig,
    batch_limits,
    clip_gradients,
    draw_batches,
    in_units,
    optimise,
    optimizer_class,
    rate_share,
)
from pvn.learning.stage1 import Stage1Config, compiled_sizes


@pytest.mark.parametrize(("name", "left"), [("AdamW", 1 - 0.01 * 0.1), ("Adam", 1 - 0.01)])
def test_adamw_decays_weights_by_a_share_and_adam_as_if_they_were_a_gradient(name, left):
    weight = torch.nn.Parameter(torch.ones(1))
    weight.grad = torch.zeros(1)
    optimizer_class(name)([weight], lr=0.01, weight_decay=0.1).step()
    assert float(weight.detach()) == pytest.approx(left, rel=1e-5)


def test_a_rate_rises_over_a_tenth_of_the_steps_and_falls_to_zero_unless_it_is_constant():
    config = OptimisationConfig()
    shares = [config.rate_share(step, 100) for step in range(100)]
    assert shares == [rate_share(step, 100) for step in range(100)]
    assert shares[0] == 0.1 and max(shares) == shares[9] == shares[10] == 1.0 and shares[-1] < 0.01
    assert {replace(config, has_schedule=False).rate_share(step, 100) for step in range(100)} == {1.0}


def test_gradients_are_scaled_down_to_a_length_if_there_is_one():
    for limit, length in ((5.0, 5.0), (100.0, 10.0), (None, 10.0)):
        weight = torch.nn.Parameter(torch.zeros(4))
        weight.grad = torch.full((4,), 5.0)
        clip_gradients([weight], limit)
        assert float(weight.grad.norm()) == pytest.approx(length, rel=1e-4)


@pytest.mark.parametrize("num_flights", [1, 2])
def test_a_batch_has_at_most_as_many_flights_as_it_may(num_flights, shown):
    limits = batch_limits(shown, 512, num_flights)
    batches = draw_batches(shown, limits, torch.Generator().manual_seed(0))
    assert [len(flights) for flights in batches] == [num_flights] * (len(shown) // num_flights)
    assert sorted(torch.cat(batches).tolist()) == list(range(len(shown)))
    assert limits.flights == num_flights + 1 and limits.frames <= num_flights * shown.longest
    for flights in batches:
        assert select(shown, flights, sizes=limits).sizes == limits
    with pytest.raises(ValueError, match="flights_per_batch: got 0, expected at least 1"):
        OptimisationConfig(flights_per_batch=0)


@pytest.mark.parametrize("num_flights", [1, 2, 5])
def test_most_batches_fit_the_sizes_for_which_code_is_compiled_and_the_others_take_several(num_flights, shown):
    lengths = torch.randint(4, 40, (400,), generator=torch.Generator().manual_seed(0))
    step = torch.cat([torch.arange(length) for length in lengths.tolist()])
    many = replace(
        shown,
        first_frame=torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]),
        is_planned=step % 3 == 0,
        is_own=torch.ones(400, dtype=torch.bool),
    )
    config = Stage1Config(frames_per_batch=512, flights_per_batch=num_flights, stray_share=0.0)
    limits = batch_limits(many, 512, num_flights)
    frames, predictions = compiled_sizes(many, config)
    assert frames < limits.frames and predictions < limits.predictions
    unit, times = Sizes(frames, limits.flights, predictions), []
    for flights in draw_batches(many, limits, torch.Generator().manual_seed(0)):
        own = select(many, flights).sizes
        sizes = in_units(many, flights, unit)
        times.append(sizes.frames // frames)
        assert sizes == Sizes(times[-1] * frames, limits.flights, times[-1] * predictions)
        assert select(many, flights, sizes=sizes).sizes == sizes  # it fits
        if times[-1] > 1:  # and no fewer would do
            assert own.frames > sizes.frames - frames or own.predictions > sizes.predictions - predictions
    assert 0.8 * len(times) <= times.count(1) < len(times)


def test_a_resumed_optimizer_has_its_averages_laid_out_as_its_parameters_are(tmp_path):
    """On a GPU images are laid out channels last; a fused optimizer refuses averages in another layout."""

    def make():
        torch.manual_seed(0)
        convolution = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
        return convolution, torch.optim.AdamW(convolution.parameters(), lr=0.1, fused=True)

    picture = torch.rand((2, 3, 8, 8), generator=torch.Generator().manual_seed(1))

    def take_step(convolution, optimizer):
        convolution.zero_grad()
        convolution(picture).square().mean().backward()
        optimizer.step()

    (first, optimizer), (resumed, other) = make(), make()
    take_step(first, optimizer)
    write_tensors(tmp_path / "averages.safetensors", optimizer_tensors(optimizer, ["weight", "bias"]))
    resumed.load_state_dict(first.state_dict())
    load_optimizer(other, ["weight", "bias"], read_tensors(tmp_path / "averages.safetensors"))
    assert other.state[resumed.weight]["exp_avg"].stride() == resumed.weight.stride()
    for some in ((first, optimizer), (resumed, other)):
        take_step(*some)
    assert torch.equal(first.weight, resumed.weight) and torch.equal(first.bias, resumed.bias)


@pytest.mark.parametrize("limit", ["frames", "predictions", "flights"])
def test_batches_are_as_full_as_they_may_be_whichever_limit_comes_first(limit, shown):
    few = {"frames": shown.longest + 3, "predictions": 5, "flights": 4}
    limits = Sizes(**({"frames": 10**6, "predictions": 10**6, "flights": 10**6} | {limit: few[limit]}))
    batches = draw_batches(shown, limits, torch.Generator().manual_seed(0))
    assert sorted(torch.cat(batches).tolist()) == list(range(len(shown))) and len(batches) > 1

    def count(flights):
        own = getattr(select(shown, flights).sizes, limit)
        return own + (limit == "flights")  # there is room for a padding flight

    assert all(count(flights) <= few[limit] for flights in batches)
    assert all(count(torch.cat([one, other[:1]])) > few[limit] for one, other in pairwise(batches))


@pytest.fixture
def watched(fresh_model, shown, tmp_path):
    """Runs an optimisation whose steps change nothing; its flights, rates and measurements, by step, and its model."""

    def run(config, **options):
        model, flights, rates, measured = fresh_model(), {}, {}, []

        def select_batch(step, chosen, sizes):
            flights[step] = chosen.tolist()
            return select(shown, chosen)

        def take_step(optimizer, selection):
            rates[len(flights) - 1] = [group["lr"] for group in optimizer.param_groups]

        def measure():
            measured.append(len(flights) - 1)
            return {}

        optimise(
            model, shown, config, tmp_path / "steps.safetensors", name="steps", select_batch=select_batch,
            take_step=take_step, report=lambda result: {"loss": 0.0}, measure=measure, **options,
        )  # fmt: skip
        return SimpleNamespace(model=model, flights=list(flights.values()), rates=rates, measured=measured)

    return run


def test_every_epoch_has_all_flights_in_an_order_of_its_own(watched):
    config = OptimisationConfig(num_epochs=3, flights_per_batch=1)
    orders = {}
    for seed in (0, 0, 1):
        flights = [flight for batch in watched(replace(config, seed=seed)).flights for flight in batch]
        epochs = [tuple(flights[first : first + 6]) for first in (0, 6, 12)]
        assert all(sorted(epoch) == list(range(6)) for epoch in epochs)
        assert orders.setdefault(seed, epochs) == epochs, "the same for the same seed"
    assert len({*orders[0], *orders[1]}) == 6


def test_the_instruction_encoder_learns_at_one_and_a_half_times_the_rate_of_the_rest(watched):
    config = OptimisationConfig(num_epochs=4, flights_per_batch=2, learning_rate=0.1)
    rates = watched(config).rates
    assert len(rates) == 12
    for step, (encoder, others) in rates.items():
        assert others == pytest.approx(0.1 * rate_share(step, 12)) and encoder == pytest.approx(1.5 * others)


def test_the_dev_split_is_measured_after_every_so_many_steps_and_in_the_end_nothing_is_dropped(watched):
    done = watched(OptimisationConfig(num_epochs=4, flights_per_batch=2, measure_every=5))
    assert done.measured == [4, 9], "after the fifth and the tenth of 12 steps"
    assert not done.model.training
