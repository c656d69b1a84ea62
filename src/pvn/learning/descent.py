"""Steps of gradient descent: optimizers and their rates, gradients of several processes, steps recorded on a GPU."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_

from pvn.learning import parallel
from pvn.learning.demonstrations import Batch
from pvn.learning.losses import Objective, Sums
from pvn.model.mapping import InstructedModel

STEPS_BEFORE_RECORDING = 11
"""Steps of each size that are launched kernel by kernel, in which everything is compiled, before one is recorded as a
CUDA graph. DistributedDataParallel needs eleven."""

OptimizerName = Literal["AdamW", "Adam"]
"""AdamW shrinks weights apart from the gradient; Adam adds weight decay to the gradient, as in the paper's time."""
Result = TypeVar("Result")
OnProgress = Callable[[str, int, int, dict[str, float]], None]
"""Called periodically with the name of a phase, a step's number, the number of steps, and metrics by name."""


def ignore_progress(phase: str, step: int, num_steps: int, metrics: dict[str, float]) -> None:
    """Do nothing."""


def is_finite(model: nn.Module) -> bool:
    """Whether all weights are finite."""
    return all(bool(parameter.isfinite().all()) for parameter in model.parameters())


def diverged(when: str, what: str, path: Path, rate_option: str) -> FloatingPointError:
    """The error of a run whose loss or weights became NaN or infinite; its last checkpoint is in `path`."""
    return FloatingPointError(
        f"{when}: {what}; the last good checkpoint is {path}; resume, and if it happens again start over with a lower "
        f"learning rate (--{rate_option})"
    )


def rate_share(step: int, num_steps: int) -> float:
    """The learning rate at a step as a share of the highest: linear warm-up over a tenth of the steps, then cosine."""
    warm = max(num_steps // 10, 1)
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(num_steps - warm, 1)))


def instruction_first(model: InstructedModel) -> tuple[dict[str, nn.Parameter], dict[str, nn.Parameter]]:
    """Parameters by name: the instruction encoder's, and all others."""
    encoder = {id(parameter) for parameter in model.instruction.parameters()}
    named = dict(model.named_parameters())
    words = {name: parameter for name, parameter in named.items() if id(parameter) in encoder}
    return words, {name: parameter for name, parameter in named.items() if name not in words}


def make_optimizer(
    name: OptimizerName, groups: Sequence[tuple[Iterable[nn.Parameter], float]], weight_decay: float
) -> torch.optim.Optimizer:
    """An optimizer of groups of parameters, each with its highest learning rate; `set_rate` sets the present ones."""
    kinds = {"Adam": torch.optim.Adam, "AdamW": torch.optim.AdamW}
    listed = [(list(parameters), highest) for parameters, highest in groups]
    device = listed[0][0][0].device
    is_cuda = device.type == "cuda"
    # On a GPU the rates are tensors, which a recorded step reads anew each time it is replayed.
    options = [
        {"params": parameters, "lr": torch.zeros((), device=device) if is_cuda else 0.0, "highest": highest}
        for parameters, highest in listed
    ]
    return kinds[name](options, weight_decay=weight_decay, fused=is_cuda, capturable=is_cuda)


def model_optimizer(
    model: InstructedModel, name: OptimizerName, rate: float, instruction_rate: float, weight_decay: float
) -> torch.optim.Optimizer:
    """An optimizer of all of a model's parameters, in the order of `instruction_first`.

    instruction_rate: the instruction encoder's learning rate as a multiple of the others'.
    """
    words, others = instruction_first(model)
    return make_optimizer(name, [(words.values(), rate * instruction_rate), (others.values(), rate)], weight_decay)


def set_rate(optimizer: torch.optim.Optimizer, share: float) -> None:
    """Set the learning rates to a share of their highest values."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(group["highest"] * share)
        else:
            group["lr"] = group["highest"] * share


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float | None) -> None:
    """Scale gradients down to a norm if theirs is larger; None: leave them alone."""
    if max_norm is not None:
        clip_grad_norm_(parameters, max_norm)


def over_processes(objective: Objective) -> DistributedDataParallel | None:
    """In several processes, the objective with a backward pass that averages gradients over them; None in one."""
    return DistributedDataParallel(objective) if parallel.num_processes() > 1 else None


def take_step(
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    batch: Batch,
    max_norm: float | None,
    together: DistributedDataParallel | None = None,
) -> Sums:
    """One step of gradient descent; the sums of the batch, without gradients.

    together: what `over_processes` made of the objective, if every process has a part of the batch. The sums are then
    the whole batch's, and every prediction in it has the same weight, however many each process has: the loss divides a
    process's sums by the numbers of all processes, times their number, since gradients are averaged and not added.
    """
    sums = objective(batch) if together is None else together(batch)
    whole = {name: value.detach() for name, value in sums.items()}
    if together is not None:
        totals = parallel.total(torch.stack([value.float() for value in whole.values()]))
        whole = dict(zip(whole, totals.unbind(), strict=True))
    loss = objective.loss(sums, whole)
    optimizer.zero_grad(set_to_none=True)
    torch.autograd.backward(loss if together is None else parallel.num_processes() * loss)
    clip_gradients(objective.model.parameters(), max_norm)
    optimizer.step()
    return whole


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """On a GPU, a side stream, because steps on the default stream cannot be recorded."""
    if device.type != "cuda":
        yield
        return
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream().wait_stream(stream)


def recorded(step: Callable[..., Result]) -> Callable[..., Result]:
    """The step(sizes, *tensors) with its kernels recorded as a CUDA graph, one for each value of `sizes`.

    A thousand launches become one, and the GPU no longer waits for the host. A graph is replayed on the tensors with
    which it was recorded, into which the new ones are copied. To be used inside `own_stream`, and only on a GPU.
    """
    launched, graphs = Counter[Hashable](), {}

    def run(sizes: Hashable, *tensors: Tensor) -> Result:
        if sizes not in graphs:
            launched[sizes] += 1
            if launched[sizes] <= STEPS_BEFORE_RECORDING:
                return step(sizes, *tensors)
            fixed, graph = [tensor.clone() for tensor in tensors], torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
                result = step(sizes, *fixed)
            graphs[sizes] = graph, fixed, result
        graph, fixed, result = graphs[sizes]
        for tensor, new in zip(fixed, tensors, strict=True):
            tensor.copy_(new, non_blocking=True)
        graph.replay()
        return result

    return run
