"""How a baseline learns: to do what the oracle did, at every step of its flights, from what is seen and was said.

Whole flights, with a gradient through all of a flight; as many pictures as PVN's first stage sees. Then comes `dagger`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_

from pvn.geometry import Camera, MapGrid, to_map
from pvn.learning.demonstrations import (
    Batch,
    Demonstrations,
    Selection,
    batch_limits,
    draw_batches,
    select,
    take_batch,
)
from pvn.learning.losses import auxiliary_losses
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
from pvn.learning.stage2 import action_losses
from pvn.model.chaplot import ChaplotModel
from pvn.model.gsmn import Decision, GSMNModel
from pvn.model.pvn import pose_in_map

CHECKPOINT = "imitation_training.safetensors"

Losses = dict[str, Tensor]
"""By name, each a mean over what it is asked of."""


@dataclass(frozen=True, kw_only=True)
class ImitationConfig:
    """How a baseline is trained."""

    num_epochs: int = 20
    """Times through the training segments, every picture of them. PVN sees every second one, 40 times."""
    word_steps: int = 3000
    """Steps in which, before all else, GSMN's instruction encoder alone learns which classes are mentioned, as PVN's
    does; Chaplot has nothing to learn it with."""
    frames_per_batch: int = 512
    """As for PVN; about 30 segments a step."""
    learning_rate: float = 1e-3
    """At its highest; it rises over the first tenth of the steps and falls to nothing over the others."""
    instruction_rate: float = 1.5
    """The instruction encoder's learning rate, in those of the others."""
    weight_decay: float = 1e-6
    """Paper."""
    max_gradient_norm: float = 5.0
    stop_weight: float = 0.8
    """Of the stop's loss beside those of speed and turn (authors' code)."""
    auxiliary_weight: float = 0.1
    """Of each of GSMN's auxiliary losses (authors' code)."""
    num_iterations: int = 100
    """Of DAggerFM (paper)."""
    beta: float = 0.92
    """In iteration k the oracle flies a step with chance beta to the k (paper)."""
    num_environments: int = 10
    """Environments flown in an iteration (paper)."""
    memory: int = 600
    """Flights that are remembered (paper); at first the oracle's."""
    horizon: int = 80
    """Steps of a flight in DAggerFM, at most."""
    dagger_learning_rate: float = 3e-4
    """In the first iteration of DAggerFM; it falls to nothing."""
    save_every: int = 500
    """Steps between checkpoints."""
    dagger_save_every: int = 10
    """Iterations of DAggerFM between checkpoints."""
    measure_every: int = 1000
    """Steps between measurements on the dev split."""
    measured_flights: int = 300
    """Flights of the dev split that are measured."""
    grid: MapGrid = MapGrid()
    """Of GSMN's maps; Chaplot has none."""
    camera: Camera = Camera()
    min_count: int = 10
    """Occurrences from which a word outside the dictionary is a term, as in PVN's recipe."""
    seed: int = 0


def _goal_loss(decision: Decision, batch: Batch, model: GSMNModel) -> Tensor:
    """How badly the goal map tells the goal's cell from another one, drawn at random for each decision."""
    grid, frames = model.config.grid, batch.frames
    flight = frames.flight
    goal_map = batch.path_map[torch.arange(len(batch.num_points), device=flight.device), batch.num_points - 1]
    pose_map = pose_in_map(frames.pose_world, frames.origin[flight])
    cell = grid.cells(to_map(goal_map[flight][:, None], pose_map)[:, 0]).round().long()  # (Q, 2), the drones' frames
    is_asked = ((cell >= 0) & (cell < grid.size)).all(-1) & batch.is_counted
    row, column = cell.clamp(0, grid.size - 1).unbind(-1)
    goal = row * grid.size + column
    place = torch.stack([goal, torch.randint(grid.size**2, goal.shape, device=goal.device)], -1)  # (Q, 2)
    value = decision.goal_map.flatten(2).float()  # (Q, channels, S * S)
    asked = value.gather(2, place[:, None].expand(-1, value.shape[1], -1)).transpose(1, 2)  # (Q, 2, channels)
    told = functional.binary_cross_entropy_with_logits(
        model.goal_head(asked)[..., 0], (place == goal[:, None]).float(), reduction="none"
    )
    return (told.mean(1) * is_asked).sum() / is_asked.sum().clamp(min=1)


def imitation_losses(
    model: GSMNModel | ChaplotModel, batch: Batch, longest: int, stop_weight: float = ImitationConfig.stop_weight
) -> Losses:
    """The losses of a model on a batch of whole flights of at most `longest` frames."""
    num_decisions = batch.is_counted.sum()
    losses = {}
    with precision(batch.frames.image.device):
        if isinstance(model, GSMNModel):
            decision = model(batch.frames, batch.tokens)
            output = decision.output
        else:
            output = model(batch.frames, batch.tokens, longest)
    wrong = action_losses(output, batch.action, stop_weight)
    losses["action"] = (wrong * batch.is_counted).sum() / num_decisions
    if isinstance(model, GSMNModel):
        auxiliary = auxiliary_losses(decision, batch, model.heads, model.config.grid)
        losses["landmark"] = auxiliary.landmark / auxiliary.num_visible.clamp(min=1)
        losses["grounded"] = auxiliary.grounded / auxiliary.num_visible.clamp(min=1)
        losses["goal"] = _goal_loss(decision, batch, model)
        losses["mentioned"] = auxiliary.mentioned / num_decisions
    return losses


def longest_flight(demonstrations: Demonstrations) -> int:
    """Frames of the longest flight."""
    return int(demonstrations.first_frame.diff().max())


def take_step(
    model: GSMNModel | ChaplotModel,
    optimizer: torch.optim.Optimizer,
    demonstrations: Demonstrations,
    config: ImitationConfig,
    selection: Selection,
) -> Losses:
    """One step of gradient descent; its losses, and under "loss" what was descended."""
    batch = take_batch(demonstrations, selection)
    losses = imitation_losses(model, batch, longest_flight(demonstrations), config.stop_weight)
    others = [value for name, value in losses.items() if name != "action"]
    losses["loss"] = losses["action"] + config.auxiliary_weight * sum(others)
    optimizer.zero_grad(set_to_none=True)
    torch.autograd.backward(losses["loss"])
    clip_grad_norm_(model.parameters(), config.max_gradient_norm)
    optimizer.step()
    return {name: value.detach() for name, value in losses.items()}


def measure_imitation(
    model: GSMNModel | ChaplotModel, demonstrations: Demonstrations, config: ImitationConfig
) -> dict[str, float]:
    """Losses on demonstrations that are not trained on.

    In training mode, but for the dropout, and with gradients, though none are taken: or all that is compiled would be
    compiled again.
    """
    was_training = model.training
    model.train()
    if isinstance(model, GSMNModel):
        model.action.eval()
    limits, longest = batch_limits(demonstrations, config.frames_per_batch), longest_flight(demonstrations)
    totals: dict[str, float] = {}
    torch.manual_seed(0)
    for flights in draw_batches(demonstrations, limits, torch.Generator().manual_seed(0)):
        batch = take_batch(demonstrations, select(demonstrations, flights))
        share = len(batch.frames.image) / len(demonstrations.pose_world)
        for name, value in imitation_losses(model, batch, longest, config.stop_weight).items():
            totals[name] = totals.get(name, 0.0) + float(value.detach()) * share
    model.train(was_training)
    return totals


def imitate(
    model: GSMNModel | ChaplotModel,
    demonstrations: Demonstrations,
    config: ImitationConfig,
    folder: Path,
    *,
    held: Demonstrations | None = None,
    is_resumed: bool = False,
    watch: Callable[[int, int, dict[str, float]], None] = lambda step, num_steps, figures: None,
) -> None:
    """Train on the oracle's flights; checkpoints go to `folder`. watch(step, num_steps, figures) is called at times.

    Every frame of the demonstrations must be followed by a prediction: demonstrate(..., plan_every=1). held: flights
    that are not trained on, to measure on along the way.

    Every step depends on the seed and its number alone, so a resumed run takes the same steps.
    """
    if not bool(demonstrations.is_planned.all()):
        raise ValueError(
            "demonstrations: got frames without a prediction, expected none; demonstrate with plan_every=1"
        )
    device = demonstrations.device
    is_recorded = device.type == "cuda"
    optimizer = make_optimizer(model, config.learning_rate, config.instruction_rate, config.weight_decay, device)
    path, done = folder / CHECKPOINT, 0
    if is_resumed and path.exists():
        done = load_training(path, model, optimizer)
    limits = batch_limits(demonstrations, config.frames_per_batch)
    seeds = [config.seed * 1_000_003 + epoch for epoch in range(config.num_epochs)]
    batches = [
        flights
        for seed in seeds
        for flights in draw_batches(demonstrations, limits, torch.Generator().manual_seed(seed))
    ]
    num_steps = len(batches)
    held_figures: dict[str, float] = {}
    take: Callable[[Selection], Losses] = functools.partial(take_step, model, optimizer, demonstrations, config)
    model.train()
    with own_stream() if is_recorded else nullcontext():
        for step in range(done, num_steps):
            selection = select(demonstrations, batches[step], sizes=limits if is_recorded else None)
            set_rate(optimizer, rate_share(step, num_steps))
            torch.manual_seed(config.seed * 1_000_003 + 500_000 + step)  # dropout, and the cells that are no goals
            if is_recorded and step == done + STEPS_BEFORE_RECORDING:
                take = record(take, selection)
            losses = take(selection)
            is_saved = (step + 1) % config.save_every == 0 or step == num_steps - 1
            if step % 20 == 0 or is_saved:
                figures = {name: float(value) for name, value in losses.items()}
                if not math.isfinite(figures["loss"]):
                    raise blown_up(f"imitation, step {step}", f"the loss is {figures['loss']}", path)
                watch(step, num_steps, figures | held_figures)
            if held is not None and (step + 1) % config.measure_every == 0:
                measured = measure_imitation(model, held, config)
                held_figures = {f"dev_{name}": value for name, value in measured.items()}
            if is_saved and not is_finite(model):
                raise blown_up(f"imitation, step {step}", "a weight is not finite", path)
            if is_saved:
                save_training(path, model, optimizer, step + 1)
    model.eval()
