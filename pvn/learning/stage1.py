"""Stage 1 of learning: predict where the oracle flew from what it saw and what was said."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from pvn.learning import parallel
from pvn.learning.checkpoint import load_optimizer, load_weights, optimizer_tensors, read_tensors, write_tensors
from pvn.learning.demonstrations import Demonstrations, draw_batches, take_batch
from pvn.learning.losses import LossConfig, Losses, objective, stage1_losses
from pvn.model.visitation import VisitationModel


@dataclass(frozen=True, kw_only=True)
class Stage1Config:
    """How stage 1 is trained."""

    num_epochs: int = 20
    """Times through the training segments."""
    frames_per_batch: int = 512
    """About 60 segments a step; the authors take one. The learning rates are tuned for it."""
    frame_every: int = 2
    """In training the map is made of every second picture, which are a metre apart; it takes half the time."""
    learning_rate: float = 1.5e-3
    """At its highest; it rises over the first tenth of the steps and falls to nothing over the others."""
    instruction_rate: float = 10.0
    """The instruction encoder's learning rate, in those of the others. The authors take 395,000 steps; in our few
    thousand it would hardly learn a word otherwise (docs/log.md)."""
    weight_decay: float = 1e-6
    """Paper."""
    max_gradient_norm: float = 5.0
    turn_rad: float = 0.5
    """Standard deviation of the turn of a segment's map and targets in training, radians (paper)."""
    save_every: int = 500
    """Steps between checkpoints."""
    seed: int = 0
    losses: LossConfig = LossConfig()


def _learning_rate(step: int, num_steps: int, config: Stage1Config) -> float:
    warm = max(num_steps // 10, 1)
    if step < warm:
        return config.learning_rate * (step + 1) / warm
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(num_steps - warm, 1)))


def _make_optimizer(model: VisitationModel, config: Stage1Config, is_fused: bool) -> torch.optim.Optimizer:
    """Two groups, the instruction encoder's and the others', in the order of `parameter_names`."""
    words = list(model.instruction.parameters())
    others = [parameter for name, parameter in model.named_parameters() if not name.startswith("instruction.")]
    groups = [{"params": words, "rate": config.instruction_rate}, {"params": others, "rate": 1.0}]
    return torch.optim.AdamW(groups, config.learning_rate, weight_decay=config.weight_decay, fused=is_fused)


def parameter_names(model: VisitationModel) -> list[str]:
    """Names of the parameters in the optimizer's order."""
    names = [name for name, _ in model.named_parameters()]
    return sorted(names, key=lambda name: not name.startswith("instruction."))


def means(losses: Losses, num_predictions: Tensor, num_visible: Tensor) -> dict[str, float]:
    """The losses a prediction, and the share of goals found."""
    names = ("trajectory", "goal", "landmark", "grounded", "mentioned", "hits")
    sums = parallel.total(torch.stack([getattr(losses, name).detach().float() for name in names])).tolist()
    count, visible = float(num_predictions), max(float(num_visible), 1.0)
    shares = {"landmark": visible, "grounded": visible}
    figures = {name: value / shares.get(name, count) for name, value in zip(names, sums, strict=True)}
    return {("goal_found" if name == "hits" else name): value for name, value in figures.items()}


def _precision(device: torch.device) -> Any:
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")


@torch.no_grad()
def measure(
    model: VisitationModel,
    demonstrations: Demonstrations,
    config: Stage1Config,
) -> dict[str, float]:
    """Losses on demonstrations that are not trained on, their maps not turned."""
    generator = torch.Generator().manual_seed(0)
    sums: dict[str, Tensor] = {}
    for flights in draw_batches(demonstrations, config.frames_per_batch, generator):
        batch = take_batch(demonstrations, flights)
        with _precision(demonstrations.device):
            visitation = model(batch.frames, batch.tokens)
        losses = vars(stage1_losses(visitation, batch, model.heads, model.config.grid, config.losses))
        sums = {name: sums.get(name, 0) + value for name, value in losses.items()}
    total = Losses(**sums)
    return means(total, total.num_predictions, total.num_visible)


def _step(
    model: VisitationModel,
    optimizer: torch.optim.Optimizer,
    demonstrations: Demonstrations,
    flights: Tensor,
    turn: Tensor,
    config: Stage1Config,
) -> tuple[Tensor, Losses, Tensor]:
    """One step of gradient descent; the loss, the parts of it here, and predictions and visible ones in all."""
    batch = take_batch(demonstrations, parallel.my_part(flights), parallel.my_part(turn))
    with _precision(demonstrations.device):
        visitation = model(batch.frames, batch.tokens)
    losses = stage1_losses(visitation, batch, model.heads, model.config.grid, config.losses)
    counts = parallel.total(torch.stack([losses.num_predictions, losses.num_visible]))
    loss = objective(losses, config.losses, counts[0], counts[1])
    optimizer.zero_grad(set_to_none=True)
    torch.autograd.backward(loss)
    parallel.sum_gradients(model.parameters())
    clip_grad_norm_(model.parameters(), config.max_gradient_norm)
    optimizer.step()
    return parallel.total(loss.detach()), losses, counts


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
    is_resumed: bool = False,
    watch: Callable[[int, int, dict[str, float]], None] = lambda step, num_steps, figures: None,
) -> None:
    """Train; checkpoints go to `folder`. watch(step, num_steps, figures) is called now and then.

    Every step depends on the seed and its number alone, so a resumed run takes the same steps.
    """
    names = parameter_names(model)
    is_fused = demonstrations.device.type == "cuda"
    optimizer = _make_optimizer(model, config, is_fused)
    path, done = folder / "stage1_training.safetensors", 0
    if is_resumed and path.exists():
        tensors = read_tensors(path)
        done = int(tensors.pop("done"))
        load_weights(model, {name[6:]: value for name, value in tensors.items() if name.startswith("model.")}, path)
        load_optimizer(optimizer, names, tensors)
    per_epoch = len(draw_batches(demonstrations, config.frames_per_batch, torch.Generator().manual_seed(config.seed)))
    num_steps = per_epoch * config.num_epochs
    model.train()
    epoch, batches = -1, []
    for step in range(done, num_steps):
        if step // per_epoch != epoch:
            epoch = step // per_epoch
            generator = torch.Generator().manual_seed(config.seed * 1_000_003 + epoch)
            batches = draw_batches(demonstrations, config.frames_per_batch, generator)
        flights = batches[min(step % per_epoch, len(batches) - 1)]
        generator = torch.Generator().manual_seed(config.seed * 1_000_003 + 500_000 + step)
        turn = torch.randn(len(flights), generator=generator) * config.turn_rad
        for group in optimizer.param_groups:
            group["lr"] = group["rate"] * _learning_rate(step, num_steps, config)
        loss, losses, counts = _step(model, optimizer, demonstrations, flights, turn, config)
        is_saved = (step + 1) % config.save_every == 0 or step == num_steps - 1
        if step % 20 == 0 or is_saved:
            if not math.isfinite(float(loss)):
                raise _blown_up(step, f"the loss is {float(loss)}", path)
            watch(step, num_steps, {"loss": float(loss), **means(losses, counts[0], counts[1])})
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
