"""Stage 1 of learning: predict where the oracle flew from what it saw and what was said."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_

from pvn.learning import parallel
from pvn.learning.checkpoint import load_optimizer, load_weights, optimizer_tensors, read_tensors, write_tensors
from pvn.learning.demonstrations import Demonstrations, Selection, batch_limits, draw_batches, select, take_batch
from pvn.learning.losses import LossConfig, Losses, objective, stage1_losses
from pvn.model.visitation import VisitationModel

CHECKPOINT = "stage1_training.safetensors"
STEPS_BEFORE_RECORDING = 5
"""Steps taken one launch at a time, in which everything is compiled, before a GPU's step is recorded."""


@dataclass(frozen=True, kw_only=True)
class Stage1Config:
    """How stage 1 is trained."""

    num_epochs: int = 40
    """Times through the training segments."""
    word_steps: int = 3000
    """Steps in which, before all else, the instruction encoder alone learns which classes are mentioned."""
    word_learning_rate: float = 5e-3
    """In those steps; it falls to nothing."""
    frames_per_batch: int = 512
    """About 60 segments a step; the authors take one. The learning rates are tuned for it."""
    frame_every: int = 2
    """In training the map is made of every second picture, which are a metre apart; it takes half the time."""
    learning_rate: float = 3e-3
    """At its highest; it rises over the first tenth of the steps and falls to nothing over the others."""
    instruction_rate: float = 1.5
    """The instruction encoder's learning rate, in those of the others."""
    weight_decay: float = 1e-6
    """Paper."""
    max_gradient_norm: float = 5.0
    turn_rad: float = 0.5
    """Standard deviation of the turn of a segment's map and targets in training, radians (paper)."""
    stray_share: float = 0.5
    """Share of flights that make the movements of another flight of the batch. Where the oracle looks gives its way
    away; a model that has only seen its flights follows its own first guess, whatever was said (docs/log.md)."""
    save_every: int = 500
    """Steps between checkpoints."""
    measure_every: int = 1000
    """Steps between measurements on the dev split."""
    measured_flights: int = 300
    """Flights of the dev split that are measured."""
    seed: int = 0
    losses: LossConfig = LossConfig()


def _rate(step: int, num_steps: int) -> float:
    """The learning rate at a step as a share of the highest: it rises over a tenth of the steps, then falls."""
    warm = max(num_steps // 10, 1)
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(num_steps - warm, 1)))


def stage1_optimizer(model: VisitationModel, config: Stage1Config, device: torch.device) -> torch.optim.Optimizer:
    """Two groups, the instruction encoder's and the others', in the order of `parameter_names`."""
    words = list(model.instruction.parameters())
    others = [parameter for name, parameter in model.named_parameters() if not name.startswith("instruction.")]
    # On a GPU the rates are tensors, which a recorded step reads anew each time.
    is_cuda = device.type == "cuda"
    groups = [
        {"params": group, "lr": torch.zeros((), device=device) if is_cuda else 0.0, "highest": rate}
        for group, rate in ((words, config.learning_rate * config.instruction_rate), (others, config.learning_rate))
    ]
    return torch.optim.AdamW(groups, weight_decay=config.weight_decay, fused=is_cuda, capturable=is_cuda)


def _set_rate(optimizer: torch.optim.Optimizer, share: float) -> None:
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(group["highest"] * share)
        else:
            group["lr"] = group["highest"] * share


def parameter_names(model: VisitationModel) -> list[str]:
    """Names of the parameters in the optimizer's order."""
    names = [name for name, _ in model.named_parameters()]
    return sorted(names, key=lambda name: not name.startswith("instruction."))


def means(losses: Losses) -> dict[str, float]:
    """The losses a prediction, and the share of goals found."""
    count, visible = float(losses.num_predictions), max(float(losses.num_visible), 1.0)
    return {
        "trajectory": float(losses.trajectory) / count,
        "goal": float(losses.goal) / count,
        "landmark": float(losses.landmark) / visible,
        "grounded": float(losses.grounded) / visible,
        "mentioned": float(losses.mentioned) / count,
        "goal_found": float(losses.hits) / count,
    }


def _add(losses: Sequence[Losses]) -> Losses:
    return Losses(**{name: torch.stack([getattr(part, name) for part in losses]).sum(0) for name in vars(losses[0])})


def _detached(losses: Losses) -> Losses:
    return Losses(**{name: value.detach() for name, value in vars(losses).items()})


def precision(device: torch.device) -> Any:
    """Mixed precision on a GPU, none on a CPU; a context."""
    # Without the cache of cast weights: a recorded step must cast them itself each time.
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda", cache_enabled=False)


def measure(model: VisitationModel, demonstrations: Demonstrations, config: Stage1Config) -> dict[str, float]:
    """Losses on demonstrations that are not trained on, their maps not turned, their flights their own.

    In training mode and with gradients, though none are taken: or all that is compiled would be compiled again.
    """
    was_training = model.training
    model.train()
    limits = batch_limits(demonstrations, config.frames_per_batch)
    parts = []
    for flights in draw_batches(demonstrations, limits, torch.Generator().manual_seed(0)):
        batch = take_batch(demonstrations, select(demonstrations, flights))
        with precision(demonstrations.device):
            visitation = model(batch.frames, batch.tokens)
        parts.append(_detached(stage1_losses(visitation, batch, model.heads, model.config.grid, config.losses)))
    model.train(was_training)
    return means(_add(parts))


def learn_words(
    model: VisitationModel,
    demonstrations: Demonstrations,
    config: Stage1Config,
    watch: Callable[[int, int, dict[str, float]], None] = lambda step, num_steps, figures: None,
) -> None:
    """Teach the instruction encoder, alone, which classes an instruction mentions.

    It is quickly done without pictures; with them, goals are first guessed from the map alone, and the words are noise.
    """
    learners = [*model.instruction.parameters(), *model.heads.mentioned.parameters()]
    is_cuda = demonstrations.device.type == "cuda"
    optimizer = torch.optim.AdamW(learners, weight_decay=config.weight_decay, fused=is_cuda)
    generator = torch.Generator().manual_seed(config.seed)
    for step in range(config.word_steps):
        flights = torch.randint(len(demonstrations), (64,), generator=generator).to(demonstrations.device)
        optimizer.param_groups[0]["lr"] = config.word_learning_rate * _rate(step, config.word_steps)
        said = model.heads.mentioned(model.instruction(demonstrations.tokens[flights]))
        loss = functional.binary_cross_entropy_with_logits(said, demonstrations.mentioned[flights].float())
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        clip_grad_norm_(learners, config.max_gradient_norm)
        optimizer.step()
        if step % 100 == 0 or step == config.word_steps - 1:
            watch(step, config.word_steps, {"loss": float(loss.detach()) * said.shape[1]})
    parallel.agree(learners)


def stage1_step(
    model: VisitationModel,
    optimizer: torch.optim.Optimizer,
    demonstrations: Demonstrations,
    config: Stage1Config,
    selection: Selection,
) -> tuple[Tensor, Losses]:
    """One step of gradient descent; the loss, and the parts of it that this process has."""
    batch = take_batch(demonstrations, selection)
    with precision(demonstrations.device):
        visitation = model(batch.frames, batch.tokens)
    losses = stage1_losses(visitation, batch, model.heads, model.config.grid, config.losses)
    counts = parallel.total(torch.stack([losses.num_predictions, losses.num_visible]))
    loss = objective(losses, config.losses, counts[0], counts[1])
    optimizer.zero_grad(set_to_none=True)
    torch.autograd.backward(loss)
    parallel.sum_gradients(model.parameters())
    clip_grad_norm_(model.parameters(), config.max_gradient_norm)
    optimizer.step()
    return parallel.total(loss.detach()), _detached(losses)


Step = Callable[[Selection], tuple[Tensor, Losses]]


@contextmanager
def own_stream() -> Iterator[None]:
    """A stream beside the default one, which cannot be recorded."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream().wait_stream(stream)


def step_recorded(step: Step, selection: Selection) -> Step:
    """The step as one CUDA graph: a thousand launches become one, and the GPU no longer waits for the host."""
    graph = torch.cuda.CUDAGraph()
    fixed = Selection(selection.numbers.clone(), selection.turn.clone(), selection.sizes)
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        result = step(fixed)

    def replay(selection: Selection) -> tuple[Tensor, Losses]:
        fixed.numbers.copy_(selection.numbers, non_blocking=True)
        fixed.turn.copy_(selection.turn, non_blocking=True)
        graph.replay()
        return result

    return replay


def _blown_up(step: int, what: str, path: Path) -> FloatingPointError:
    return FloatingPointError(
        f"stage 1, step {step}: {what}; the last good checkpoint is {path}; resume with a lower learning rate"
    )


def train_stage1(
    model: VisitationModel,
    demonstrations: Demonstrations,
    config: Stage1Config,
    folder: Path,
    *,
    held: Demonstrations | None = None,
    is_resumed: bool = False,
    watch: Callable[[int, int, dict[str, float]], None] = lambda step, num_steps, figures: None,
) -> None:
    """Train; checkpoints go to `folder`. watch(step, num_steps, figures) is called now and then.

    held: flights that are not trained on, to measure on along the way.

    Every step depends on the seed and its number alone, so a resumed run takes the same steps.
    """
    device = demonstrations.device
    is_recorded = device.type == "cuda" and parallel.num_processes() == 1
    names = parameter_names(model)
    optimizer = stage1_optimizer(model, config, device)
    path, done = folder / CHECKPOINT, 0
    if is_resumed and path.exists():
        tensors = read_tensors(path)
        done = int(tensors.pop("done"))
        load_weights(model, {name[6:]: value for name, value in tensors.items() if name.startswith("model.")}, path)
        load_optimizer(optimizer, names, tensors)
    limits = batch_limits(demonstrations, config.frames_per_batch)
    batches = [
        flights
        for epoch in range(config.num_epochs)
        for flights in draw_batches(
            demonstrations, limits, torch.Generator().manual_seed(config.seed * 1_000_003 + epoch)
        )
    ]
    num_steps = len(batches)
    held_figures: dict[str, float] = {}
    take: Step = functools.partial(stage1_step, model, optimizer, demonstrations, config)
    model.train()
    with own_stream() if is_recorded else nullcontext():
        for step in range(done, num_steps):
            flights = batches[step]
            generator = torch.Generator().manual_seed(config.seed * 1_000_003 + 500_000 + step)
            turn = torch.randn(len(flights), generator=generator) * config.turn_rad
            strays = torch.rand(len(flights), generator=generator) < config.stray_share
            moves = flights.clone()
            moves[strays] = flights[strays].roll(1)
            flights, turn, moves = (parallel.my_part(part) for part in (flights, turn, moves))
            selection = select(demonstrations, flights, turn, moves, limits if is_recorded else None)
            _set_rate(optimizer, _rate(step, num_steps))
            if is_recorded and step == done + STEPS_BEFORE_RECORDING:
                take = step_recorded(take, selection)
            loss, losses = take(selection)
            if held is not None and (step + 1) % config.measure_every == 0:
                held_figures = {f"dev_{name}": value for name, value in measure(model, held, config).items()}
            is_saved = (step + 1) % config.save_every == 0 or step == num_steps - 1
            if step % 20 == 0 or is_saved:
                if not math.isfinite(float(loss)):
                    raise _blown_up(step, f"the loss is {float(loss)}", path)
                every = Losses(**{name: parallel.total(value) for name, value in vars(losses).items()})
                watch(step, num_steps, {"loss": float(loss), **means(every), **held_figures})
            if is_saved and not all(bool(parameter.isfinite().all()) for parameter in model.parameters()):
                raise _blown_up(step, "a weight is not finite", path)
            if is_saved and parallel.rank() == 0:
                save_training(path, model, optimizer, names, step + 1)
    model.eval()


def save_training(
    path: Path, model: VisitationModel, optimizer: torch.optim.Optimizer, names: list[str], done: int
) -> None:
    """Write what a resumed run needs."""
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    write_tensors(path, tensors | optimizer_tensors(optimizer, names) | {"done": torch.tensor(done)})
