"""Steps of gradient descent: optimizers, rates, limits of gradients, and what they do to weights."""

from __future__ import annotations

import pytest
import torch

from pvn.learning import descent
from pvn.learning.checkpoint import load_training, save_training
from pvn.learning.demonstrations import select, take_batch
from pvn.learning.descent import (
    clip_gradients,
    instruction_first,
    make_optimizer,
    model_optimizer,
    own_stream,
    rate_share,
    recorded,
    set_rate,
    take_step,
)
from pvn.learning.recipes import Stage1Config


@pytest.mark.parametrize(("name", "left"), [("AdamW", 1 - 0.01 * 0.1), ("Adam", 1 - 0.01)])
def test_adamw_decays_weights_by_a_share_and_adam_as_if_they_were_a_gradient(name, left):
    weight = torch.nn.Parameter(torch.ones(1))
    weight.grad = torch.zeros(1)
    optimizer = make_optimizer(name, [([weight], 0.01)], weight_decay=0.1)
    set_rate(optimizer, 1.0)
    optimizer.step()
    assert float(weight.detach()) == pytest.approx(left, rel=1e-5)


def test_a_rate_rises_over_a_tenth_of_the_steps_and_falls_to_zero_unless_it_is_constant():
    config = Stage1Config()
    shares = [config.rate_share(step, 100) for step in range(100)]
    assert shares == [rate_share(step, 100) for step in range(100)]
    assert shares[0] == 0.1 and max(shares) == shares[9] == shares[10] == 1.0 and shares[-1] < 0.01
    assert shares[55] == pytest.approx(0.5), "half way down a cosine"
    assert {Stage1Config(has_schedule=False).rate_share(step, 100) for step in range(100)} == {1.0}


def test_gradients_are_scaled_down_to_a_norm_if_there_is_one():
    for limit, length in ((5.0, 5.0), (100.0, 10.0), (None, 10.0)):
        weight = torch.nn.Parameter(torch.zeros(4))
        weight.grad = torch.full((4,), 5.0)
        clip_gradients([weight], limit)
        assert float(weight.grad.norm()) == pytest.approx(length, rel=1e-4)


def test_the_instruction_encoder_comes_first_and_learns_at_a_multiple_of_the_rate_of_the_rest(fresh_model):
    model = fresh_model()
    words, others = instruction_first(model)
    assert {name.split(".")[0] for name in words} == {"instruction"}
    assert words.keys() | others.keys() == dict(model.named_parameters()).keys() and not words.keys() & others.keys()
    optimizer = model_optimizer(model, "AdamW", 0.1, 1.5, 0.0)
    set_rate(optimizer, 0.5)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.075, 0.05])
    assert [len(group["params"]) for group in optimizer.param_groups] == [len(words), len(others)]


@pytest.mark.long
@pytest.mark.parametrize("system", ["pvn", "chaplot"])
def test_a_step_descends_on_the_loss_and_no_further_than_its_gradient_may_be_long(system, objective_of, shown_to):
    objective, shown = objective_of(system).train(), shown_to(system)
    before = [parameter.detach().clone() for parameter in objective.model.parameters()]
    batch = take_batch(shown, select(shown, torch.arange(2)))
    sums = objective(batch)
    expected = float(objective.loss(sums, sums).detach())
    found = take_step(objective, torch.optim.SGD(objective.model.parameters(), 1.0), batch, 0.01)
    assert float(objective.loss(found, found)) == pytest.approx(expected, rel=1e-5)
    assert not any(value.requires_grad for value in found.values())
    steps = [(one.detach() - other).flatten() for one, other in zip(objective.model.parameters(), before, strict=True)]
    assert float(torch.cat(steps).norm()) == pytest.approx(0.01, rel=1e-2)
    sums = objective(batch)
    assert float(objective.loss(sums, sums).detach()) < expected


def test_a_resumed_optimizer_takes_the_same_steps_and_has_its_averages_laid_out_as_its_parameters_are(
    fresh_model, tmp_path
):
    """On a GPU images are laid out channels last; a fused optimizer refuses averages in another layout."""

    def make():
        model = fresh_model().to(memory_format=torch.channels_last)
        optimizer = torch.optim.AdamW([one for group in instruction_first(model) for one in group.values()], fused=True)
        return model, optimizer

    def take(model, optimizer, seed):
        generator = torch.Generator().manual_seed(seed)
        for parameter in model.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator).to(parameter)
        optimizer.step()

    (first, optimizer), (resumed, other) = make(), make()
    take(first, optimizer, 0)
    save_training(tmp_path / "training.safetensors", first, optimizer, 1)
    assert load_training(tmp_path / "training.safetensors", resumed, other) == 1
    weight = resumed.resnet.first.weight
    assert other.state[weight]["exp_avg"].stride() == weight.stride()
    for some in ((first, optimizer), (resumed, other)):
        take(*some, 1)
    assert all(torch.equal(*pair) for pair in zip(first.parameters(), resumed.parameters(), strict=True))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_a_recorded_step_reads_what_it_is_given_and_is_recorded_once_for_each_size(monkeypatch):
    monkeypatch.setattr(descent, "STEPS_BEFORE_RECORDING", 2)
    calls = []

    def double(size, values):
        calls.append(size)
        return values * 2

    with own_stream(torch.device("cuda")):
        run = recorded(double)
        for size in (3, 5):
            found = [run(size, torch.full((size,), float(number), device="cuda"))[0].item() for number in range(6)]
            assert found == [0, 2, 4, 6, 8, 10]
    assert calls == [3, 3, 3, 5, 5, 5], "twice launched, and once recorded"
