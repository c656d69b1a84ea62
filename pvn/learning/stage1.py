"""Stage 1 of learning: predict where the oracle flew from what it saw and what was said."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_

from pvn.learning import parallel
from pvn.learning.demonstrations import (
    NOTHING,
    Demonstrations,
    Selection,
    batch_limits,
    draw_batches,
    select,
    take_batch,
)
from pvn.learning.losses import LossConfig, Losses, objective, stage1_losses
from pvn.learning.optimisation import (
    STEPS_BEFORE_RECORDING,
    blown_up,
    is_finite,
    load_training,
    make_optimizer,
    own_stream,
    precision,
    rate_share,
    record,
    save_training,
    set_rate,
)
from pvn.model.gsmn import GSMNModel
from pvn.model.visitation import VisitationModel

CHECKPOINT = "stage1_training.safetensors"


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
    model: VisitationModel | GSMNModel,
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
        optimizer.param_groups[0]["lr"] = config.word_learning_rate * rate_share(step, config.word_steps)
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
    optimizer = make_optimizer(model, config.learning_rate, config.instruction_rate, config.weight_decay, device)
    path, done = folder / CHECKPOINT, 0
    if is_resumed and path.exists():
        done = load_training(path, model, optimizer)
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
            # The last batch of an epoch may have fewer flights than there are processes.
            sizes = limits if is_recorded else None if len(flights) else NOTHING
            selection = select(demonstrations, flights, turn, moves, sizes)
            set_rate(optimizer, rate_share(step, num_steps))
            if is_recorded and step == done + STEPS_BEFORE_RECORDING:
                take = record(take, selection)
            loss, losses = take(selection)
            if held is not None and (step + 1) % config.measure_every == 0:
                held_figures = {f"dev_{name}": value for name, value in measure(model, held, config).items()}
            is_saved = (step + 1) % config.save_every == 0 or step == num_steps - 1
            if step % 20 == 0 or is_saved:
                if not math.isfinite(float(loss)):
                    raise blown_up(f"stage 1, step {step}", f"the loss is {float(loss)}", path)
                every = Losses(**{name: parallel.total(value) for name, value in vars(losses).items()})
                watch(step, num_steps, {"loss": float(loss), **means(every), **held_figures})
            if is_saved and not is_finite(model):
                raise blown_up(f"stage 1, step {step}", "a weight is not finite", path)
            if is_saved and parallel.rank() == 0:
                save_training(path, model, optimizer, step + 1)
    model.eval()
