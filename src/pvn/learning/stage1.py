"""Training of stage 1: predict where the oracle flew, from its pictures and the instruction."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from pvn.checks import check_limits
from pvn.learning import parallel
from pvn.learning.demonstrations import NO_FLIGHTS, Demonstrations, Selection, Sizes, select, take_batch
from pvn.learning.losses import LossConfig, LossSums, objective, stage1_losses
from pvn.learning.optimisation import (
    STEPS_BEFORE_RECORDING,
    OnProgress,
    OptimisationConfig,
    batch_limits,
    clip_gradients,
    draw_batches,
    ignore_progress,
    in_units,
    optimise,
    optimizer_class,
    own_stream,
    precision,
    record,
    set_rate,
    usual_sizes,
)
from pvn.learning.random_looks import FlightLooks, RandomLooks, draw_looks
from pvn.model.mapping import MENTIONED_LOG_ODDS, InstructedModel, SemanticMemory
from pvn.model.resnet import CHANNELS
from pvn.model.visitation import CompiledPart, VisitationModel
from pvn.rollout.oracle import OracleConfig
from pvn.simulator.interface import SimulatorConfig

CHECKPOINT = "stage1_training.safetensors"
LARGEST_HEIGHT_SPREAD = SimulatorConfig().altitude - 1.0
"""Metres; no picture is taken from much less than a metre above the ground."""
WORD_FLIGHTS = 64
"""Flights in a step in which only the instruction encoder is trained."""
SPARE_PREDICTIONS = 1.3
"""Predictions for which stage 1 is compiled, as a multiple of those that long flights have: every flight begins with
one, so short flights have more."""


@dataclass(frozen=True, kw_only=True)
class Stage1Config(OptimisationConfig):
    """How stage 1 is trained; the defaults are the paper preset's."""

    word_steps: int = 3000
    """Initial steps in which only the instruction encoder is trained, to tell which classes are mentioned."""
    word_learning_rate: float = 5e-3
    """Peak learning rate in those steps."""
    frame_every: int = 2
    """Steps between the pictures that are used in training; 2, about a metre, halves the time."""
    predict_every: int = 6
    """Steps between the predictions of a flight that are trained (paper: T_d)."""
    turn_rad: float = 0.5
    """Standard deviation of the random rotation of a segment's map and targets in training, radians (paper)."""
    stray_share: float = 0.5
    """Share of flights that copy the movements of another flight in the batch. The oracle's views give its path away:
    a model trained only on them follows its own first guess, regardless of the instruction (docs/log.md)."""
    mentioned_log_odds: float = MENTIONED_LOG_ODDS
    """Log-odds of a class being mentioned from which that head starts; 0 for even odds, as the paper says nothing."""
    height_spread: float = 0.0
    """A flight's pictures are taken up to this many metres above or below the drone, drawn at random for each batch;
    0: from the drone."""
    looks: RandomLooks = RandomLooks()
    """How far the look of pictures may differ from the simulator's."""
    oracle: OracleConfig = OracleConfig()
    """The oracle from whose flights the pictures are taken."""
    losses: LossConfig = LossConfig()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_limits(self, "frame_every predict_every", 1)
        check_limits(self, "word_steps word_learning_rate turn_rad", 0)
        check_limits(self, "stray_share", 0, 1)
        if self.flights_per_batch == 1 and self.stray_share > 0:
            raise ValueError(
                f"stray_share: got {self.stray_share} with one flight in a batch, which has no other whose movements "
                "it could copy; set --stage1.stray-share 0, or more --stage1.flights-per-batch"
            )
        if not 0 <= self.height_spread <= LARGEST_HEIGHT_SPREAD:
            raise ValueError(
                f"height_spread: got {self.height_spread}, expected 0 to {LARGEST_HEIGHT_SPREAD:g} metres; drones fly "
                f"at {SimulatorConfig().altitude:g}"
            )


def planned_sizes(config: Stage1Config, is_from_above: bool = False) -> tuple[int, int]:
    """Pictures and predictions in a step for which stage 1 is compiled before there is a corpus.

    Any corpus fits, unless its flights are very short, or longer than a batch. is_from_above: whether pictures are
    views from above, of which every flight has one, and a prediction follows it.
    """
    frames = config.frames_per_batch
    if is_from_above:
        return frames, frames
    in_long_flights = frames * config.frame_every / math.lcm(config.frame_every, config.predict_every)
    return frames, min(math.ceil(SPARE_PREDICTIONS * in_long_flights), frames)


def compiled_sizes(demonstrations: Demonstrations, config: Stage1Config) -> tuple[int, int]:
    """Pictures and predictions in a step for which stage 1 is compiled: as planned, if the demonstrations fit.

    Batches that are counted in flights have mostly far fewer pictures than the longest flights would, and a process's
    part of a batch varies: nine in ten fit, and the others are computed in several pieces.
    """
    limits = batch_limits(demonstrations, config.frames_per_batch, config.flights_per_batch)
    if config.flights_per_batch is not None or parallel.num_processes() > 1:
        frames, predictions = zip(*parallel.gathered(usual_sizes(demonstrations, limits)), strict=True)
        return max(frames), max(predictions)
    planned = planned_sizes(config, demonstrations.overhead_px is not None)
    return max(limits.frames, planned[0]), max(limits.predictions, planned[1])


def try_part(model: VisitationModel, part: CompiledPart) -> None:
    """Run a compiled part forward and backward on values as a step of training has them, but made up.

    That compiles it, and needs neither pictures nor flights.
    """
    device, size = model.places.device, model.config.grid.size
    shrinking, refining = model.resnet.halves
    with precision(device):
        if part == "LingUNet":
            assert model.maps_at_once is not None
            each = torch.arange(model.maps_at_once, device=device)
            seen = torch.zeros((len(each), size * size, CHANNELS), device=device, requires_grad=True)
            instructions = model.encode(torch.ones((1, 1), dtype=torch.int64, device=device))[torch.zeros_like(each)]
            memory = SemanticMemory(seen, torch.ones(seen.shape[:2], dtype=torch.bool, device=device))
            result = model.predict(memory, instructions, torch.zeros(len(each), device=device)).log_parts
        else:
            assert model.frames_at_once is not None
            image = torch.zeros((model.frames_at_once, *model.picture_size(), 3), dtype=torch.uint8, device=device)
            with torch.set_grad_enabled(part == "shrinking"):
                result = shrinking(image)
            if part == "refining":
                result = refining(result.requires_grad_())
    torch.autograd.backward(result, torch.ones_like(result))


def means(losses: LossSums) -> dict[str, float]:
    """Mean losses of a prediction, and the share of goals found."""
    count, visible = float(losses.num_predictions), max(float(losses.num_visible), 1.0)
    return {
        "trajectory": float(losses.trajectory) / count,
        "goal": float(losses.goal) / count,
        **({"faced": float(losses.faced) / count} if float(losses.faced) else {}),
        "landmark": float(losses.landmark) / visible,
        "grounded": float(losses.grounded) / visible,
        "mentioned": float(losses.mentioned) / count,
        "goal_found": float(losses.hits) / count,
    }


def _add(losses: Sequence[LossSums]) -> LossSums:
    return LossSums(**{name: torch.stack([getattr(part, name) for part in losses]).sum(0) for name in vars(losses[0])})


def _everywhere(losses: LossSums) -> LossSums:
    """The sums over all processes."""
    return LossSums(**{name: parallel.total(value) for name, value in vars(losses).items()})


def _detached(losses: LossSums) -> LossSums:
    return LossSums(**{name: value.detach() for name, value in vars(losses).items()})


def measure_stage1(
    model: VisitationModel, demonstrations: Demonstrations | None, config: Stage1Config
) -> dict[str, float]:
    """Losses on demonstrations that are not trained on, those of all processes, without rotations and strays.

    demonstrations: None if this process has none. In training mode and with gradients, though they are not used:
    otherwise compiled code would be compiled again.
    """
    was_training = model.training
    model.train()
    parts = [LossSums(**{each.name: torch.zeros((), device=model.places.device) for each in fields(LossSums)})]
    batches = []
    if demonstrations is not None:
        limits = batch_limits(demonstrations, config.frames_per_batch)
        batches = draw_batches(demonstrations, limits, torch.Generator().manual_seed(0))
    for flights in batches:
        assert demonstrations is not None
        batch = take_batch(demonstrations, select(demonstrations, flights))
        with precision(demonstrations.device):
            visitation = model(batch.frames, batch.tokens)
        parts.append(_detached(stage1_losses(visitation, batch, model.heads, model.config.grid, config.losses)))
    model.train(was_training)
    return means(_everywhere(_add(parts)))


def learn_words(
    model: InstructedModel,
    demonstrations: Demonstrations,
    config: Stage1Config,
    watch: OnProgress = ignore_progress,
) -> None:
    """Train only the instruction encoder, to tell which classes an instruction mentions.

    This is quick, because it needs no pictures. Without it, the model first learns to guess goals from the map alone.
    """
    assert model.heads is not None
    heads, device = model.heads, demonstrations.device
    is_cuda = device.type == "cuda"
    is_recorded = is_cuda and parallel.can_be_recorded()
    learners = [*model.instruction.parameters(), *heads.mentioned.parameters()]
    rate = torch.zeros((), device=device) if is_cuda else 0.0  # a recorded step reads it from the GPU
    group = {"params": learners, "lr": rate, "highest": config.word_learning_rate}
    optimizer = optimizer_class(config.optimizer)(
        [group], weight_decay=config.weight_decay, fused=is_cuda, capturable=is_cuda
    )
    rows, is_own = (torch.zeros(WORD_FLIGHTS, dtype=kind, device=device) for kind in (torch.int64, torch.float32))

    def take_step() -> Tensor:
        """A step on flights of which only this process's own count; their part of the loss."""
        mentioned = heads.mentioned(model.instruction(demonstrations.tokens[rows]).embedding)
        loss = functional.binary_cross_entropy_with_logits(
            mentioned, demonstrations.mentioned[rows].float(), weight=is_own[:, None]
        )
        optimizer.zero_grad(set_to_none=True)
        with parallel.summed_gradients(learners):
            torch.autograd.backward(loss)
        clip_gradients(learners, config.max_gradient_norm)
        optimizer.step()
        return loss.detach() * mentioned.shape[1]

    generator, replay = torch.Generator().manual_seed(config.seed), None
    with own_stream() if is_cuda else nullcontext():
        for step in range(config.word_steps):
            flights = torch.randint(len(demonstrations), (WORD_FLIGHTS,), generator=generator)
            own = demonstrations.is_own[flights]
            drawn = [torch.where(own, demonstrations.row[flights], 0), own.float()]
            set_rate(optimizer, config.rate_share(step, config.word_steps))
            if is_recorded and step == STEPS_BEFORE_RECORDING:
                replay = record(take_step, [rows, is_own])
            if replay is None:
                rows.copy_(drawn[0])
                is_own.copy_(drawn[1])
                loss = take_step()
            else:
                loss = replay(drawn)
            if step % 100 == 0 or step == config.word_steps - 1:
                watch(step, config.word_steps, {"loss": float(parallel.total(loss))})
    optimizer.zero_grad(set_to_none=True)  # a recorded step keeps gradients in memory of its own


def stage1_step(
    model: VisitationModel,
    optimizer: torch.optim.Optimizer,
    demonstrations: Demonstrations,
    config: Stage1Config,
    selection: Selection,
) -> tuple[Tensor, LossSums]:
    """One step of gradient descent; this process's part of the loss, and its sums."""
    batch = take_batch(demonstrations, selection)
    with precision(demonstrations.device):
        visitation = model(batch.frames, batch.tokens)
    losses = stage1_losses(visitation, batch, model.heads, model.config.grid, config.losses)
    counts = parallel.total(torch.stack([losses.num_predictions, losses.num_visible]))
    loss = objective(losses, config.losses, counts[0], counts[1])
    optimizer.zero_grad(set_to_none=True)
    with parallel.summed_gradients(model.parameters()):
        torch.autograd.backward(loss)
    clip_gradients(model.parameters(), config.max_gradient_norm)
    optimizer.step()
    return loss.detach(), _detached(losses)


def select_stage1_batch(
    demonstrations: Demonstrations, config: Stage1Config, step: int, flights: Tensor, unit: Sizes | None
) -> Selection:
    """This process's own among a step's flights, some of them straying, maps, heights and looks changed at random."""
    generator = torch.Generator().manual_seed(config.seed * 1_000_003 + 500_000 + step)
    turn = torch.randn(len(flights), generator=generator) * config.turn_rad
    strays = torch.rand(len(flights), generator=generator) < config.stray_share
    moves = flights.clone()
    moves[strays] = flights[strays].roll(1)
    rise = (2 * torch.rand(len(flights), generator=generator) - 1) * config.height_spread
    draws = draw_looks(config.looks, len(flights), generator)
    is_own = demonstrations.is_own[flights]
    looks = None if draws is None else FlightLooks(config.looks, draws[is_own])
    flights, turn, moves, rise = (values[is_own] for values in (flights, turn, moves, rise))
    if not len(flights) and unit is None:  # a process may have none of a small batch's flights
        unit = NO_FLIGHTS
    return select(demonstrations, flights, turn, moves, unit and in_units(demonstrations, moves, unit), rise, looks)


def train_stage1(
    model: VisitationModel,
    demonstrations: Demonstrations,
    config: Stage1Config,
    folder: Path,
    *,
    measure: Callable[[], dict[str, float]] | None = None,
    is_resumed: bool = False,
    watch: OnProgress = ignore_progress,
) -> None:
    """Train; checkpoints go to `folder`. measure: gives metrics of flights that are not trained on."""

    def report(result: tuple[Tensor, LossSums]) -> dict[str, float]:
        loss, losses = result
        return {"loss": float(parallel.total(loss)), **means(_everywhere(losses))}

    optimise(
        model, demonstrations, config, folder / CHECKPOINT, name="stage 1",
        select_batch=lambda step, flights, unit: select_stage1_batch(demonstrations, config, step, flights, unit),
        take_step=lambda optimizer, selection: stage1_step(model, optimizer, demonstrations, config, selection),
        report=report,
        measure=measure,
        rate_option="stage1.learning-rate", is_resumed=is_resumed, watch=watch,
    )  # fmt: skip
