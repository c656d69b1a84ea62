"""Several processes, started with torchrun, that train one agent or share out the flights of an evaluation.

In training each has a share of the corpus. Of every batch it takes the flights of its own share; gradients are summed
over all processes, while they are still being computed.
"""

from __future__ import annotations

import atexit
import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn

Value = TypeVar("Value")
MESSAGE_BYTES = 2**20
"""Gradients are sent in messages of about this size: small enough that most are under way long before the backward pass
ends, and large enough that their number does not count."""


def _end(*_: object) -> None:
    raise RuntimeError("ended by torchrun")


def _leave_others() -> None:
    if distributed.is_initialized():
        distributed.destroy_process_group()


def join_others(device: str) -> None:
    """Join the other processes of a run that was started with torchrun, if it was; before anything is put on a GPU."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        if device == "cuda":  # one GPU each: it is the first that this process sees
            os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]
        # When one process dies, torchrun ends the others, perhaps before they notice; they should still report it.
        signal.signal(signal.SIGTERM, _end)
        distributed.init_process_group("nccl" if device == "cuda" else "gloo")
        if device != "cuda":
            # Threads that still wait for messages would end the process with an error. NCCL's do not; after an error
            # it would wait here for messages that never come.
            atexit.register(_leave_others)


def rank() -> int:
    """This process's number."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def num_processes() -> int:
    """Number of processes."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def total(values: Tensor) -> Tensor:
    """Values summed over all processes."""
    if distributed.is_initialized():
        values = values.clone()
        distributed.all_reduce(values)
    return values


def can_be_recorded() -> bool:
    """Whether what this process sends can be part of a CUDA graph: only if it stays on the GPUs."""
    return not distributed.is_initialized() or distributed.get_backend() == "nccl"


def in_messages(parameters: Iterable[nn.Parameter], message_bytes: int = MESSAGE_BYTES) -> list[list[nn.Parameter]]:
    """Parameters by the message that takes their gradients: the last first, as a backward pass finishes them."""
    messages: list[list[nn.Parameter]] = [[]]
    size = 0
    for parameter in reversed(list(parameters)):
        if size >= message_bytes:
            messages.append([])
            size = 0
        messages[-1].append(parameter)
        size += parameter.numel() * parameter.element_size()
    return messages


@contextmanager
def summed_gradients(parameters: Iterable[nn.Parameter], message_bytes: int = MESSAGE_BYTES) -> Iterator[None]:
    """A context for one backward pass, after which every process has the sums of all processes' gradients.

    There are no gradients before. A message is sent as soon as all its gradients are there, so that most of them travel
    during the pass; always in the same order, since processes tell messages apart by nothing else. A message with
    parameters that get no gradient, the same ones in all processes, waits for the end of the pass, and so do those
    after it.
    """
    if not distributed.is_initialized():
        yield
        return
    waiting = deque(in_messages(parameters, message_bytes))
    missing: set[Tensor] = {parameter for message in waiting for parameter in message}
    sent: list[tuple[list[Tensor], Tensor, distributed.Work]] = []

    def send() -> None:
        gradients = [parameter.grad for parameter in waiting.popleft() if parameter.grad is not None]
        if gradients:
            flat = torch.cat([gradient.flatten() for gradient in gradients])
            sent.append((gradients, flat, distributed.all_reduce(flat, async_op=True)))

    def note(parameter: Tensor) -> None:
        missing.remove(parameter)
        while waiting and missing.isdisjoint(waiting[0]):
            send()

    hooks = [one.register_post_accumulate_grad_hook(note) for one in missing]  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
    while waiting:
        send()
    for gradients, flat, work in sent:
        work.wait()
        lengths = [gradient.numel() for gradient in gradients]
        for gradient, summed in zip(gradients, torch.split(flat, lengths), strict=True):
            gradient.copy_(summed.view_as(gradient))


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
