"""The one loop of gradient descent: batches, learning rates, precision, recorded steps, measurements, checkpoints."""

from __future__ import annotations

import functools
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from pvn.checks import check_limits
from pvn.learning import parallel
from pvn.learning.checkpoint import load_optimizer, load_weights, optimizer_tensors, read_tensors, write_tensors
from pvn.learning.demonstrations import Demonstrations, Selection, Sizes
from pvn.model.mapping import InstructedModel

STEPS_BEFORE_RECORDING = 5
"""Steps launched kernel by kernel, in which everything is compiled, before a GPU's step of that size is recorded as a
graph."""

OnProgress = Callable[[int, int, dict[str, float]], None]
"""Called periodically with a step's number, the number of steps, and metrics by name."""
Result = TypeVar("Result")
OptimizerName = Literal["AdamW", "Adam"]
"""AdamW shrinks weights apart from the gradient; Adam adds their decay to the gradient, as in the paper's time."""


def ignore_progress(step: int, num_steps: int, metrics: dict[str, float]) -> None:
    """Do nothing."""


OnStageProgress = Callable[[str, int, int, dict[str, float]], None]
"""The same, with the stage's name first."""


def ignore_stage_progress(stage: str, step: int, num_steps: int, metrics: dict[str, float]) -> None:
    """Do nothing."""


def stage_progress(watch: OnStageProgress, stage: str) -> OnProgress:
    """A callback that reports the progress of one stage."""
    return lambda step, num_steps, metrics: watch(stage, step, num_steps, metrics)


@dataclass(frozen=True, kw_only=True)
class OptimisationConfig:
    """How a network is trained on demonstrations."""

    num_epochs: int = 40
    """Passes over the training segments."""
    frames_per_batch: int = 512
    """Pictures in a step; every second picture of about 60 segments. The paper takes one segment."""
    flights_per_batch: int | None = None
    """Segments in a step, at most; None: as many as frames_per_batch allows."""
    optimizer: OptimizerName = "AdamW"
    """The paper's is Adam."""
    learning_rate: float = 3e-3
    """Peak value: the rate rises over the first tenth of the steps and falls to zero over the rest."""
    has_schedule: bool = True
    """Whether the rate rises and falls; if not, it is always the same (paper)."""
    instruction_rate: float = 1.5
    """The instruction encoder's learning rate as a multiple of the others'."""
    weight_decay: float = 1e-6
    """The optimizer's (paper)."""
    max_gradient_norm: float | None = 5.0
    """Longer gradients are scaled down to this; None: they are not (paper)."""
    save_every: int = 500
    """Steps between checkpoints."""
    measure_every: int = 1000
    """Steps between measurements on the dev split."""
    measured_flights: int = 300
    """Flights of the dev split that are measured."""
    seed: int = 0
    """Seed of initial weights and random choices."""

    def __post_init__(self) -> None:
        counts = "num_epochs frames_per_batch flights_per_batch save_every measure_every measured_flights"
        check_limits(self, counts, 1)
        check_limits(self, "learning_rate instruction_rate weight_decay max_gradient_norm", 0)

    def rate_share(self, step: int, num_steps: int) -> float:
        """The learning rate at a step as a share of the highest."""
        return rate_share(step, num_steps) if self.has_schedule else 1.0


def rate_share(step: int, num_steps: int) -> float:
    """The learning rate at a step as a share of the highest: linear warm-up over a tenth of the steps, then cosine."""
    warm = max(num_steps // 10, 1)
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(num_steps - warm, 1)))


def _instruction_first(model: InstructedModel) -> tuple[list[tuple[str, nn.Parameter]], list[tuple[str, nn.Parameter]]]:
    """Named parameters of the instruction encoder, and all others."""
    encoder = {id(parameter) for parameter in model.instruction.parameters()}
    named = list(model.named_parameters())
    words = [(name, parameter) for name, parameter in named if id(parameter) in encoder]
    return words, [(name, parameter) for name, parameter in named if id(parameter) not in encoder]


def optimizer_class(name: OptimizerName) -> Callable[..., torch.optim.Optimizer]:
    """Torch's optimizer of that name."""
    return {"Adam": torch.optim.Adam, "AdamW": torch.optim.AdamW}[name]


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float | None) -> None:
    """Scale gradients down to a length, if they are longer and there is a limit."""
    if max_norm is not None:
        clip_grad_norm_(parameters, max_norm)


def make_optimizer(
    model: InstructedModel,
    learning_rate: float,
    instruction_rate: float,
    weight_decay: float,
    device: torch.device,
    name: OptimizerName = "AdamW",
) -> torch.optim.Optimizer:
    """Two groups, the instruction encoder's parameters and all others, in the order of `parameter_names`.

    instruction_rate: the instruction encoder's learning rate as a multiple of the others'.
    """
    # On a GPU the rates are tensors, which a recorded step reads anew each time.
    is_cuda = device.type == "cuda"
    groups = [
        {
            "params": [parameter for _, parameter in group],
            "lr": torch.zeros((), device=device) if is_cuda else 0.0,
            "highest": rate,
        }
        for group, rate in zip(
            _instruction_first(model), (learning_rate * instruction_rate, learning_rate), strict=True
        )
    ]
    return optimizer_class(name)(groups, weight_decay=weight_decay, fused=is_cuda, capturable=is_cuda)


def set_rate(optimizer: torch.optim.Optimizer, share: float) -> None:
    """Set the learning rates to a share of their highest."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(group["highest"] * share)
        else:
            group["lr"] = group["highest"] * share


def parameter_names(model: InstructedModel) -> list[str]:
    """Names of the parameters in the optimizer's order."""
    return [name for group in _instruction_first(model) for name, _ in group]


def precision(device: torch.device) -> Any:
    """The precision in which networks run in training, as a context."""
    # Without the cache of cast weights: a recorded step must cast them itself each time.
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda", cache_enabled=False)


@contextmanager
def own_stream() -> Iterator[None]:
    """A side stream, because steps on the default stream cannot be recorded."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream().wait_stream(stream)


def record(step: Callable[[], Result], values: Sequence[Tensor]) -> Callable[[Sequence[Tensor]], Result]:
    """The step as one CUDA graph: a thousand launches become one, and the GPU no longer waits for the host.

    It reads `values`, into which other values are copied before it is replayed.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        result = step()

    def replay(others: Sequence[Tensor]) -> Result:
        for value, other in zip(values, others, strict=True):
            value.copy_(other, non_blocking=True)
        graph.replay()
        return result

    return replay


def _values(selection: Selection) -> list[Tensor]:
    """What differs between two selections of the same sizes."""
    draws = [] if selection.looks is None else [selection.looks.draws]
    return [selection.numbers, selection.turn, selection.rise, *draws]


def record_selected(step: Callable[[Selection], Result], selection: Selection) -> Callable[[Selection], Result]:
    """A step on selections of one size as one CUDA graph."""
    looks = None if selection.looks is None else replace(selection.looks, draws=selection.looks.draws.clone())
    fixed = Selection(selection.numbers.clone(), selection.turn.clone(), selection.rise.clone(), selection.sizes, looks)
    replay = record(lambda: step(fixed), _values(fixed))
    return lambda selection: replay(_values(selection))


def peak_memory(device: torch.device) -> dict[str, float]:
    """Peak memory of this process so far, GiB: on the host (except on Windows), and on the GPU if used."""
    peak = {}
    if sys.platform != "win32":
        import resource

        unit = 1 if sys.platform == "darwin" else 2**10  # macOS counts bytes, Linux KiB
        peak["peak_host_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30
    if device.type == "cuda":
        peak["peak_gpu_gib"] = torch.cuda.max_memory_allocated(device) / 2**30
    return peak


def diverged(when: str, what: str, path: Path, rate_option: str) -> FloatingPointError:
    """The error of a run whose loss or weights became NaN or infinite; its last checkpoint is in `path`."""
    return FloatingPointError(
        f"{when}: {what}; the last good checkpoint is {path}; resume, and if it happens again start over with a lower "
        f"learning rate (--{rate_option})"
    )


def is_finite(model: nn.Module) -> bool:
    """Whether all weights are finite."""
    return all(bool(parameter.isfinite().all()) for parameter in model.parameters())


def save_training(path: Path, model: InstructedModel, optimizer: torch.optim.Optimizer, done: int) -> None:
    """Write a checkpoint from which training can resume."""
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    averages = optimizer_tensors(optimizer, parameter_names(model))
    write_tensors(path, tensors | averages | {"done": torch.tensor(done)})


def load_training(path: Path, model: InstructedModel, optimizer: torch.optim.Optimizer) -> int:
    """Restore a checkpoint of `save_training`; returns the number of steps done."""
    tensors = read_tensors(path)
    load_weights(model, {name[6:]: value for name, value in tensors.items() if name.startswith("model.")}, path)
    load_optimizer(optimizer, parameter_names(model), tensors)
    return int(tensors["done"])


def batch_limits(demonstrations: Demonstrations, num_frames: int, num_flights: int | None = None) -> Sizes:
    """Limits of a batch of about `num_frames` frames and at most `num_flights` flights; few batches reach several."""
    lengths, predictions = demonstrations.num_frames, demonstrations.num_predictions
    longest, most = int(lengths.max()), int(predictions.max())
    frames = max(num_frames, longest)
    flights = math.ceil(1.05 * frames / lengths.mean())
    num_predictions = math.ceil(min(max(1.1 * frames * predictions.mean() / lengths.mean(), most), frames))
    if num_flights is not None:
        frames, num_predictions = min(frames, num_flights * longest), min(num_predictions, num_flights * most)
        flights = min(flights, num_flights)
    return Sizes(frames, flights + 1, num_predictions)


def draw_batches(demonstrations: Demonstrations, limits: Sizes, generator: torch.Generator) -> list[Tensor]:
    """All flights in random order, in batches that fit the limits and leave room for a padding flight; on the host."""
    lengths, predictions = demonstrations.num_frames.tolist(), demonstrations.num_predictions.tolist()
    order = torch.randperm(len(lengths), generator=generator)
    ends, num_frames, num_flights, num_predictions = [], 0, 0, 0
    for place, flight in enumerate(order.tolist()):
        num_frames, num_flights = num_frames + lengths[flight], num_flights + 1
        num_predictions += predictions[flight]
        if num_frames > limits.frames or num_flights >= limits.flights or num_predictions > limits.predictions:
            ends.append(place)
            num_frames, num_flights, num_predictions = lengths[flight], 1, predictions[flight]
    return list(torch.tensor_split(order, ends))


def usual_sizes(demonstrations: Demonstrations, limits: Sizes) -> tuple[int, int]:
    """Frames and predictions that are enough for this process's part of nine in ten batches that fit the limits."""
    batches = draw_batches(demonstrations, limits, torch.Generator().manual_seed(0))
    own = [flights[demonstrations.is_own[flights]].numpy() for flights in batches]
    counts = demonstrations.num_frames, demonstrations.num_predictions
    frames, predictions = (math.ceil(np.quantile([count[part].sum() for part in own], 0.9)) for count in counts)
    return max(frames, 1), max(predictions, 1)  # of very small batches a process may have none of nine in ten


def in_units(demonstrations: Demonstrations, moves: Tensor, unit: Sizes) -> Sizes:
    """The fewest times the unit's frames and predictions into which those of flights fit; its flights once.

    moves (B,): the flights whose movements are made. Steps of few sizes can all be recorded, and a batch of short
    flights is not padded to the longest there are.
    """
    num_frames, num_predictions = (
        int(count[moves.numpy()].sum()) for count in (demonstrations.num_frames, demonstrations.num_predictions)
    )
    times = max(math.ceil(num_frames / unit.frames), math.ceil(num_predictions / unit.predictions), 1)
    return replace(unit, frames=times * unit.frames, predictions=times * unit.predictions)


def optimise(
    model: InstructedModel,
    demonstrations: Demonstrations,
    config: OptimisationConfig,
    path: Path,
    *,
    name: str,
    select_batch: Callable[[int, Tensor, Sizes | None], Selection],
    take_step: Callable[[torch.optim.Optimizer, Selection], Result],
    report: Callable[[Result], dict[str, float]],
    measure: Callable[[], dict[str, float]] | None = None,
    rate_option: str = "learning-rate",
    is_resumed: bool = False,
    watch: OnProgress = ignore_progress,
) -> None:
    """Train a model on demonstrations; checkpoints go to `path`.

    select_batch(step, flights, unit) gives the batch of a step; on a GPU there is a unit, the sizes for which the model
    is compiled, and the batch is padded to a multiple of it (`in_units`); take_step takes one step of gradient descent
    on it; report gives the metrics of a step's result, among them the loss; measure gives metrics on the dev split.

    Every step depends only on the seed and its number, so a resumed run takes the same steps.
    """
    device = demonstrations.device
    is_recorded = device.type == "cuda" and parallel.can_be_recorded()
    optimizer = make_optimizer(
        model, config.learning_rate, config.instruction_rate, config.weight_decay, device, config.optimizer
    )
    done = load_training(path, model, optimizer) if is_resumed and path.exists() else 0
    limits = batch_limits(demonstrations, config.frames_per_batch, config.flights_per_batch)
    unit = replace(
        limits, frames=model.frames_at_once or limits.frames, predictions=model.maps_at_once or limits.predictions
    )
    epochs = [torch.Generator().manual_seed(config.seed * 1_000_003 + epoch) for epoch in range(config.num_epochs)]
    batches = [flights for epoch in epochs for flights in draw_batches(demonstrations, limits, epoch)]
    num_steps, measured = len(batches), dict[str, float]()
    take: Callable[[Selection], Result] = functools.partial(take_step, optimizer)
    launched, recorded = Counter[Sizes](), dict[Sizes, Callable[[Selection], Result]]()
    model.train()
    with own_stream() if is_recorded else nullcontext():
        for step in range(done, num_steps):
            flights = batches[step]
            selection = select_batch(step, flights, unit if is_recorded else None)
            sizes = selection.sizes
            set_rate(optimizer, config.rate_share(step, num_steps))
            torch.manual_seed(config.seed * 1_000_003 + 500_000 + step)  # for dropout and other random operations
            if is_recorded:
                launched[sizes] += 1
                if launched[sizes] == STEPS_BEFORE_RECORDING + 1:
                    recorded[sizes] = record_selected(take, selection)
            result = take(selection) if sizes not in recorded else recorded[sizes](selection)
            if measure is not None and (step + 1) % config.measure_every == 0:
                measured = {f"dev_{what}": value for what, value in measure().items()}
            is_saved = (step + 1) % config.save_every == 0 or step == num_steps - 1
            if step % 20 == 0 or is_saved:
                metrics = report(result)
                if not math.isfinite(metrics["loss"]):
                    raise diverged(f"{name}, step {step}", f"the loss is {metrics['loss']}", path, rate_option)
                watch(step, num_steps, metrics | measured)
            if is_saved and not is_finite(model):
                raise diverged(f"{name}, step {step}", "a weight is not finite", path, rate_option)
            if is_saved and parallel.rank() == 0:
                save_training(path, model, optimizer, step + 1)
    model.eval()
