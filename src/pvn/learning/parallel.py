"""Several processes, started with torchrun, that train one agent or divide the flights of an evaluation."""

from __future__ import annotations

import atexit
import os
import signal
from typing import Any, TypeVar

from torch import Tensor, distributed

Value = TypeVar("Value")


def _end(*_: object) -> None:
    raise RuntimeError("ended by torchrun")


def _leave_others() -> None:
    if distributed.is_initialized():
        distributed.destroy_process_group()


def join_others(device: str) -> None:
    """Join the other processes of a run that was started with torchrun, if it was; before anything is put on a GPU."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        if device == "cuda":  # one GPU each: the first that this process sees
            os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]
            # Recorded steps need this: torch's documentation of CUDA graphs, "Usage with DistributedDataParallel".
            os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
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
