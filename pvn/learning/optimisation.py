"""Steps of gradient descent, whatever is learned: their rates, their precision, their recording, their checkpoints."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from pvn.learning.checkpoint import load_optimizer, load_weights, optimizer_tensors, read_tensors, write_tensors
from pvn.learning.demonstrations import Selection

STEPS_BEFORE_RECORDING = 5
"""Steps taken one launch at a time, in which everything is compiled, before a GPU's step is recorded."""

Result = TypeVar("Result")


def rate_share(step: int, num_steps: int) -> float:
    """The learning rate at a step as a share of the highest: it rises over a tenth of the steps, then falls."""
    warm = max(num_steps // 10, 1)
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(num_steps - warm, 1)))


def make_optimizer(
    model: nn.Module, learning_rate: float, instruction_rate: float, weight_decay: float, device: torch.device
) -> torch.optim.Optimizer:
    """Two groups, the instruction encoder's and the others', in the order of `parameter_names`.

    instruction_rate: the instruction encoder's learning rate, in those of the others.
    """
    named = list(model.named_parameters())
    words = [parameter for name, parameter in named if name.startswith("instruction.")]
    others = [parameter for name, parameter in named if not name.startswith("instruction.")]
    # On a GPU the rates are tensors, which a recorded step reads anew each time.
    is_cuda = device.type == "cuda"
    groups = [
        {"params": group, "lr": torch.zeros((), device=device) if is_cuda else 0.0, "highest": rate}
        for group, rate in ((words, learning_rate * instruction_rate), (others, learning_rate))
    ]
    return torch.optim.AdamW(groups, weight_decay=weight_decay, fused=is_cuda, capturable=is_cuda)


def set_rate(optimizer: torch.optim.Optimizer, share: float) -> None:
    """Set the learning rates to a share of their highest."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(group["highest"] * share)
        else:
            group["lr"] = group["highest"] * share


def parameter_names(model: nn.Module) -> list[str]:
    """Names of the parameters in the optimizer's order."""
    names = [name for name, _ in model.named_parameters()]
    return sorted(names, key=lambda name: not name.startswith("instruction."))


def precision(device: torch.device) -> Any:
    """The context in which networks run in training."""
    # Without the cache of cast weights: a recorded step must cast them itself each time.
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda", cache_enabled=False)


@contextmanager
def own_stream() -> Iterator[None]:
    """A stream beside the default one, which cannot be recorded."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream().wait_stream(stream)


def record(step: Callable[[Selection], Result], selection: Selection) -> Callable[[Selection], Result]:
    """The step as one CUDA graph: a thousand launches become one, and the GPU no longer waits for the host."""
    graph = torch.cuda.CUDAGraph()
    fixed = Selection(selection.numbers.clone(), selection.turn.clone(), selection.sizes)
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        result = step(fixed)

    def replay(selection: Selection) -> Result:
        fixed.numbers.copy_(selection.numbers, non_blocking=True)
        fixed.turn.copy_(selection.turn, non_blocking=True)
        graph.replay()
        return result

    return replay


def peak_memory(device: torch.device) -> dict[str, float]:
    """The most memory this process has held so far, GiB: the host's (not told on Windows), and on a GPU the GPU's."""
    peak = {}
    if sys.platform != "win32":
        import resource

        unit = 1 if sys.platform == "darwin" else 2**10  # macOS counts bytes, Linux KiB
        peak["peak_host_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30
    if device.type == "cuda":
        peak["peak_gpu_gib"] = torch.cuda.max_memory_allocated(device) / 2**30
    return peak


def blown_up(when: str, what: str, path: Path) -> FloatingPointError:
    """The error of a run whose numbers are none any more; its last checkpoint is in `path`."""
    return FloatingPointError(
        f"{when}: {what}; the last good checkpoint is {path}; resume, and if it happens again lower the learning rate "
        "in pvn/learning/presets.py"
    )


def is_finite(model: nn.Module) -> bool:
    """Whether every weight is a number."""
    return all(bool(parameter.isfinite().all()) for parameter in model.parameters())


def save_training(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, done: int) -> None:
    """Write what a resumed run needs."""
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    averages = optimizer_tensors(optimizer, parameter_names(model))
    write_tensors(path, tensors | averages | {"done": torch.tensor(done)})


def load_training(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Put back what was saved; the number of steps that were done."""
    tensors = read_tensors(path)
    load_weights(model, {name[6:]: value for name, value in tensors.items() if name.startswith("model.")}, path)
    load_optimizer(optimizer, parameter_names(model), tensors)
    return int(tensors["done"])
