"""Several processes, started with torchrun, that train one agent or share out the flights of an evaluation.

In training each takes its part of a batch; losses and gradients are summed over all.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn

Value = TypeVar("Value")


def _end(*_: object) -> None:
    raise RuntimeError("ended by torchrun")


def join_others(device: str) -> None:
    """Join the other processes of a run that was started with torchrun, if it was; before anything is put on a GPU."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        if device == "cuda":  # one GPU each: it is the first that this process sees
            os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]
        # When one process dies, torchrun ends the others, perhaps before they notice; they should still report it.
        signal.signal(signal.SIGTERM, _end)
        distributed.init_process_group("nccl" if device == "cuda" else "gloo")


def rank() -> int:
    """This process's number."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def num_processes() -> int:
    """Number of processes."""
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


def broadcast_parameters(parameters: Iterable[nn.Parameter]) -> None:
    """Give every process the first one's parameters."""
    if distributed.is_initialized():
        for parameter in parameters:
            distributed.broadcast(parameter.data, 0)


def gathered(value: Value) -> list[Value]:
    """The values of all processes, in their order; every process gets them."""
    if not distributed.is_initialized():
        return [value]
    values: list[Any] = [None] * num_processes()
    distributed.all_gather_object(values, value)
    return values


def wait_for_others() -> None:
    """Return when every process has come to this point."""
    if distributed.is_initialized():
        distributed.barrier()
