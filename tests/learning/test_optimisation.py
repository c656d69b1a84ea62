"""The optimizers of the recipes, their rates, and batches of few flights."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from pvn.learning.checkpoint import load_optimizer, optimizer_tensors, read_tensors, write_tensors
from pvn.learning.demonstrations import select
from pvn.learning.optimisation import (
    OptimisationConfig,
    batch_limits,
    clip_gradients,
    draw_batches,
    optimizer_class,
    rate_share,
)


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
    for flights in batches:  # a recorded step has one size
        assert select(shown, flights, sizes=limits).sizes == limits
    with pytest.raises(ValueError, match="flights_per_batch: got 0, expected at least 1"):
        OptimisationConfig(flights_per_batch=0)


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
