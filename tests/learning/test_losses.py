"""Stage 1's losses: sums that can be taken over parts of a batch, in which padding counts for nothing."""

from __future__ import annotations

import pytest
import torch

from pvn.learning.demonstrations import NO_FLIGHTS, Sizes, select, take_batch
from pvn.learning.losses import LossConfig, objective, stage1_losses

CONFIG = LossConfig()


def losses_of(model, shown, selection):
    batch = take_batch(shown, selection)
    return stage1_losses(model(batch.frames, batch.tokens), batch, model.heads, model.config.grid, CONFIG)


@pytest.mark.long
@torch.no_grad()
def test_padding_changes_no_loss(fresh_model, shown):
    model, flights, turn = fresh_model().eval(), torch.tensor([4, 0, 2]), torch.tensor([0.3, -0.2, 0.0])
    exact = select(shown, flights, turn)
    sizes = Sizes(exact.sizes.frames + 5, exact.sizes.flights + 3, exact.sizes.predictions + 4)
    own, padded = (losses_of(model, shown, some) for some in (exact, select(shown, flights, turn, sizes=sizes)))
    for name, value in vars(own).items():
        assert float(getattr(padded, name)) == pytest.approx(float(value), rel=1e-4), name


def test_a_process_without_flights_adds_nothing(fresh_model, shown):
    model, none = fresh_model(), torch.zeros(0, dtype=torch.int64)
    losses = losses_of(model, shown, select(shown, none, torch.zeros(0), none, NO_FLIGHTS))
    assert all(float(value.detach()) == 0 for value in vars(losses).values())
    # The other processes have five predictions.
    objective(losses, CONFIG, torch.tensor(5), torch.tensor(5)).backward()
    assert all(bool((parameter.grad == 0).all()) for parameter in model.parameters())


@pytest.mark.long
@torch.no_grad()
def test_losses_of_parts_add_up_to_the_loss_of_the_whole(fresh_model, shown):
    model = fresh_model().eval()
    whole, *parts = (
        losses_of(model, shown, select(shown, torch.tensor(flights))) for flights in ([0, 1, 2, 3], [0, 2], [1, 3])
    )
    counts = whole.num_predictions, whole.num_visible
    together = sum(objective(part, CONFIG, *counts) for part in parts)
    assert float(together) == pytest.approx(float(objective(whole, CONFIG, *counts)), rel=1e-4)
