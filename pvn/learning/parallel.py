"""Several processes that train as one: each takes its part of a batch, and sums go through all of them."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, distributed, nn


def rank() -> int:
    """This process's number."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def num_processes() -> int:
    """How many there are."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def my_part(flights: Tensor) -> Tensor:
    """This process's share of a batch's flights (B,)."""
    return flights[rank() :: num_processes()]


def total(values: Tensor) -> Tensor:
    """Values summed over all processes."""
    if distributed.is_initialized():
        values = values.clone()
        distributed.all_reduce(values)
    return values


def sum_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Give every process the sum of all processes' gradients, in one message."""
    if not distributed.is_initialized():
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    distributed.all_reduce(flat)
    offset = 0
    for gradient in gradients:
        gradient.copy_(flat[offset : offset + gradient.numel()].view_as(gradient))
        offset += gradient.numel()
