"""Training of the baselines: imitation of the oracle at every step of its flights, then DAggerFM.

Imitation is on whole flights, with gradients through all of a flight, and on as many pictures as PVN's first stage.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from pvn.checks import check_limits
from pvn.corpus.alignment import align
from pvn.corpus.segments import Corpus, Segment, Split
from pvn.corpus.vocabulary import Vocabulary
from pvn.geometry import Camera, MapGrid, pose_in_map, to_map
from pvn.learning.agent import save_agent
from pvn.learning.checkpoint import write_json
from pvn.learning.dagger import DaggerConfig, Lesson, action_losses, collect, pack, run_dagger
from pvn.learning.demonstrations import Batch, Demonstrations, Selection, demonstrate, flown_again, select, take_batch
from pvn.learning.losses import auxiliary_losses
from pvn.learning.optimisation import (
    OnProgress,
    OnStageProgress,
    OptimisationConfig,
    batch_limits,
    clip_gradients,
    draw_batches,
    ignore_progress,
    ignore_stage_progress,
    in_units,
    make_optimizer,
    optimise,
    peak_memory,
    precision,
    set_rate,
    stage_progress,
)
from pvn.learning.stage1 import Stage1Config, learn_words
from pvn.model.agent import Agent
from pvn.model.execution import Decision
from pvn.model.mapping import InstructedModel
from pvn.simulator.interface import Observation, SimulatorConfig
from pvn.systems import AGENT_FILE

CHECKPOINT, DAGGER_CHECKPOINT = "imitation_training.safetensors", "dagger_training.safetensors"
DAGGER_SEED = 800_000
"""Offset of DAggerFM's seeds from those of imitation."""

Losses = dict[str, Tensor]
"""By name, each a mean over the predictions that it applies to."""


class ImitatingAgent(Agent):
    """An agent that learns by imitation; its model, called with whole flights, returns a Decision."""

    @classmethod
    def untrained(cls, vocabulary: Vocabulary, *, grid: MapGrid, camera: Camera) -> Self:
        """An agent before training."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class ImitationConfig(OptimisationConfig):
    """How a baseline imitates the oracle."""

    num_epochs: int = 20
    """Passes over the training segments, every picture of them. PVN is trained on every second one, 40 times."""
    learning_rate: float = 1e-3
    """Peak value: the rate rises over the first tenth of the steps and falls to zero over the rest."""
    word_steps: int = 3000
    """Initial steps in which only the instruction encoder is trained, to tell which classes are mentioned, as for
    PVN; only for a model with auxiliary heads."""
    stop_weight: float = 0.8
    """Weight of the stop's loss relative to those of speed and yaw rate (authors' code)."""
    auxiliary_weight: float = 0.1
    """Weight of each auxiliary loss (authors' code)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_limits(self, "word_steps stop_weight auxiliary_weight", 0)


@dataclass(frozen=True, kw_only=True)
class ImitationRecipe:
    """Everything a baseline's training depends on, apart from the corpus."""

    name: str
    """Name of the preset; for information only."""
    imitation: ImitationConfig = ImitationConfig()
    dagger: DaggerConfig = DaggerConfig(learning_rate=3e-4)
    """Its learning rate falls to zero over the iterations; the memory begins with oracle flights."""
    grid: MapGrid = MapGrid()
    """Grid of the maps of an agent that has maps."""
    camera: Camera = Camera()
    min_count: int = 10
    """A word outside the dictionary is a term if it occurs at least this often (authors' code)."""

    def with_seed(self, seed: int) -> ImitationRecipe:
        """The same recipe with another seed throughout."""
        return replace(self, imitation=replace(self.imitation, seed=seed), dagger=replace(self.dagger, seed=seed))


def _goal_loss(goal_map: Tensor, head: nn.Linear, batch: Batch, grid: MapGrid) -> Tensor:
    """Loss of telling the goal's cell from another one, drawn at random, by goal maps (Q, C, S, S)."""
    frames = batch.frames
    flight = frames.flight
    goal_point = batch.path_map[torch.arange(len(batch.num_points), device=flight.device), batch.num_points - 1]
    pose_map = pose_in_map(frames.pose_world, frames.origin[flight])
    cell = grid.cells(to_map(goal_point[flight][:, None], pose_map)[:, 0]).round().long()  # (Q, 2), the drones' frames
    is_on_map = ((cell >= 0) & (cell < grid.size)).all(-1) & batch.is_counted
    row, column = cell.clamp(0, grid.size - 1).unbind(-1)
    goal = row * grid.size + column
    place = torch.stack([goal, torch.randint(grid.size**2, goal.shape, device=goal.device)], -1)  # (Q, 2)
    value = goal_map.flatten(2).float()  # (Q, channels, S * S)
    values = value.gather(2, place[:, None].expand(-1, value.shape[1], -1)).transpose(1, 2)  # (Q, 2, channels)
    wrong = functional.binary_cross_entropy_with_logits(
        head(values)[..., 0], (place == goal[:, None]).float(), reduction="none"
    )
    return (wrong.mean(1) * is_on_map).sum() / is_on_map.sum().clamp(min=1)


def imitation_losses(model: InstructedModel, batch: Batch, grid: MapGrid, stop_weight: float) -> Losses:
    """The losses of a model on a batch of whole flights."""
    num_decisions = batch.is_counted.sum()
    with precision(batch.frames.image.device):
        decision: Decision = model(batch.frames, batch.tokens)
    wrong = action_losses(decision.output, batch.action, stop_weight)
    losses = {"action": (wrong * batch.is_counted).sum() / num_decisions}
    if model.heads is not None and decision.maps is not None:
        auxiliary = auxiliary_losses(decision.maps, batch, model.heads, grid)
        losses["landmark"] = auxiliary.landmark / auxiliary.num_visible.clamp(min=1)
        losses["grounded"] = auxiliary.grounded / auxiliary.num_visible.clamp(min=1)
        if model.heads.goal is not None and decision.goal_map is not None:
            losses["goal"] = _goal_loss(decision.goal_map, model.heads.goal, batch, grid)
        losses["mentioned"] = auxiliary.mentioned / num_decisions
    return losses


def take_step(
    model: InstructedModel,
    optimizer: torch.optim.Optimizer,
    demonstrations: Demonstrations,
    recipe: ImitationRecipe,
    selection: Selection,
) -> Losses:
    """One step of gradient descent; its losses, and under "loss" their weighted sum, the objective."""
    config = recipe.imitation
    batch = take_batch(demonstrations, selection)
    losses = imitation_losses(model, batch, recipe.grid, config.stop_weight)
    others = [value for name, value in losses.items() if name != "action"]
    losses["loss"] = losses["action"] + config.auxiliary_weight * sum(others)
    optimizer.zero_grad(set_to_none=True)
    torch.autograd.backward(losses["loss"])
    clip_gradients(model.parameters(), config.max_gradient_norm)
    optimizer.step()
    return {name: value.detach() for name, value in losses.items()}


def measure_imitation(
    model: InstructedModel, demonstrations: Demonstrations, recipe: ImitationRecipe
) -> dict[str, float]:
    """Losses on demonstrations that are not trained on.

    In training mode, but without dropout, and with gradients, though they are not used: otherwise compiled code would
    be compiled again.
    """
    was_training = model.training
    model.train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.eval()
    limits = batch_limits(demonstrations, recipe.imitation.frames_per_batch)
    totals: dict[str, float] = {}
    torch.manual_seed(0)
    for flights in draw_batches(demonstrations, limits, torch.Generator().manual_seed(0)):
        batch = take_batch(demonstrations, select(demonstrations, flights))
        share = len(batch.frames.image) / len(demonstrations.pose_world)
        for name, value in imitation_losses(model, batch, recipe.grid, recipe.imitation.stop_weight).items():
            totals[name] = totals.get(name, 0.0) + float(value.detach()) * share
    model.train(was_training)
    return totals


def imitate(
    model: InstructedModel,
    demonstrations: Demonstrations,
    recipe: ImitationRecipe,
    folder: Path,
    *,
    dev_set: Demonstrations | None = None,
    is_resumed: bool = False,
    watch: OnProgress = ignore_progress,
) -> None:
    """Train on the oracle's flights; checkpoints go to `folder`.

    Every frame of the demonstrations must be followed by a prediction: demonstrate(..., plan_every=1). dev_set: flights
    that are not trained on, to measure on during training.
    """
    if not bool(demonstrations.is_planned.all()):
        raise ValueError(
            "demonstrations: got frames without a prediction, expected none; demonstrate with plan_every=1"
        )
    optimise(
        model, demonstrations, recipe.imitation, folder / CHECKPOINT, name="imitation",
        select_batch=lambda step, flights, unit: select(
            demonstrations, flights, sizes=unit and in_units(demonstrations, flights, unit)
        ),
        take_step=lambda optimizer, selection: take_step(model, optimizer, demonstrations, recipe, selection),
        report=lambda losses: {name: float(value) for name, value in losses.items()},
        measure=None if dev_set is None else lambda: measure_imitation(model, dev_set, recipe),
        rate_option="imitation.learning-rate", is_resumed=is_resumed, watch=watch,
    )  # fmt: skip


def uncompiled(agent: ImitatingAgent) -> ImitatingAgent:
    """A copy that is not compiled: compiled for a batch of training, it would be compiled again for every flight."""
    again = copy.deepcopy(agent)
    again.model.eval()
    again.model.frames_at_once = None
    return again


def oracle_lessons(demonstrations: Demonstrations, flights: Sequence[int]) -> list[Lesson]:
    """The oracle's own flights with these numbers."""
    first = demonstrations.first_frame.tolist()
    pose, action = demonstrations.pose_world.cpu(), demonstrations.action.cpu()
    spans = [(flight, slice(first[flight], first[flight + 1])) for flight in flights]
    return [Lesson(flight, pose[span].clone(), action[span].clone()) for flight, span in spans]


def _train_one_pass(
    model: InstructedModel,
    lessons: Sequence[Lesson],
    demonstrations: Demonstrations,
    recipe: ImitationRecipe,
    rate: float,
    generator: torch.Generator,
) -> dict[str, float]:
    """Mean losses of one pass over the lessons with a fresh optimizer (authors' code), at a share of its rate."""
    config, packed = recipe.dagger, pack(lessons)
    flown = flown_again(demonstrations, packed["flights"], packed["seen"], packed["wanted"], packed["lengths"])
    optimizer = make_optimizer(
        model,
        config.learning_rate,
        recipe.imitation.instruction_rate,
        config.weight_decay,
        flown.device,
        config.optimizer,
    )
    set_rate(optimizer, rate)
    model.train()
    limits = batch_limits(flown, recipe.imitation.frames_per_batch, recipe.imitation.flights_per_batch)
    steps = [
        take_step(model, optimizer, flown, recipe, select(flown, flights))
        for flights in draw_batches(flown, limits, generator)
    ]
    model.eval()
    return {name: float(torch.stack([losses[name] for losses in steps]).mean()) for name in steps[0]}


def train_dagger(
    agent: ImitatingAgent,
    segments: Sequence[Segment],
    demonstrations: Demonstrations,
    recipe: ImitationRecipe,
    folder: Path,
    *,
    is_resumed: bool = False,
    watch: OnProgress = ignore_progress,
) -> None:
    """Continue the training of an agent's model by DAggerFM; checkpoints go to `folder`.

    demonstrations: the oracle's flights over the segments, in their order. The memory holds the poses of
    flights; their pictures are rendered again when needed.
    """
    if len(segments) != len(demonstrations):
        raise ValueError(f"segments: got {len(segments)}, expected {len(demonstrations)}, one for each demonstration")
    config, simulator = recipe.dagger, demonstrations.simulator.config

    def observe(observation: Observation, memory: object) -> Tensor:
        return observation.pose_world

    def begin(generator: torch.Generator) -> tuple[list[Lesson], dict[str, float]]:
        chosen = torch.randperm(len(segments), generator=generator)[: config.memory].tolist()
        return oracle_lessons(demonstrations, chosen), {}

    def fly_flights(flights: Sequence[int], oracle_share: float, generator: torch.Generator) -> list[Lesson]:
        flying = uncompiled(agent)
        return collect(
            segments, flights, lambda demonstrated: flying, observe,
            oracle_share=oracle_share, horizon=config.horizon, simulator=simulator, device=demonstrations.device,
            generator=generator,
        )  # fmt: skip

    def train_one_pass(lessons: list[Lesson], iteration: int, generator: torch.Generator) -> dict[str, float]:
        rate = 0.5 * (1 + math.cos(math.pi * (iteration - 1) / config.num_iterations))
        return _train_one_pass(agent.model, lessons, demonstrations, recipe, rate, generator)

    run_dagger(
        agent.model, segments, config, folder / DAGGER_CHECKPOINT, name="DAggerFM", begin=begin,
        fly_flights=fly_flights, train_one_pass=train_one_pass, seed_offset=DAGGER_SEED, is_resumed=is_resumed,
        watch=watch,
    )  # fmt: skip


def train_by_imitation(
    corpus: Corpus,
    agent_class: type[ImitatingAgent],
    recipe: ImitationRecipe,
    folder: Path,
    *,
    device: str | torch.device = "cpu",
    is_resumed: bool = False,
    watch: OnStageProgress = ignore_stage_progress,
) -> ImitatingAgent:
    """Train an agent on the training split; checkpoints and the agent go to `folder`."""
    device, began = torch.device(device), time.perf_counter()
    config, segments = recipe.imitation, corpus["train"]
    texts = (segment.task.instruction for segment in segments)
    vocabulary = Vocabulary.from_texts(texts, min_count=recipe.min_count)
    alignment = align(segments, vocabulary)

    def fly_oracle(split: Split, count: int | None) -> Demonstrations:
        demonstrations = [segment.demonstration for segment in corpus[split]][:count]
        simulator = SimulatorConfig(camera=recipe.camera)
        return demonstrate(demonstrations, vocabulary, alignment, plan_every=1, device=device, config=simulator)

    train_set = fly_oracle("train", None)
    dev_set = fly_oracle("dev", config.measured_flights) if "dev" in corpus.splits else None
    metrics: dict[str, Any] = {"demonstrations_s": time.perf_counter() - began}
    torch.manual_seed(config.seed)
    agent = agent_class.untrained(vocabulary, grid=recipe.grid, camera=recipe.camera)
    model = agent.model.to(device)
    is_cuda = device.type == "cuda"
    if is_cuda:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        limits = batch_limits(train_set, config.frames_per_batch, config.flights_per_batch)
        model.compile_for(limits.frames, limits.predictions)
    began = time.perf_counter()
    if model.heads is not None and not (is_resumed and (folder / CHECKPOINT).exists()):
        words = Stage1Config(word_steps=config.word_steps, seed=config.seed)
        model.train()  # an agent puts its networks into evaluation mode
        learn_words(model, train_set, words, watch=stage_progress(watch, "words"))
    imitate(
        model,
        train_set,
        recipe,
        folder,
        dev_set=dev_set,
        is_resumed=is_resumed,
        watch=stage_progress(watch, "imitation"),
    )
    metrics["imitation_s"] = time.perf_counter() - began
    began = time.perf_counter()
    train_dagger(
        agent, segments, train_set, recipe, folder, is_resumed=is_resumed, watch=stage_progress(watch, "DAggerFM")
    )
    metrics["dagger_s"] = time.perf_counter() - began
    if dev_set is not None:
        metrics["dev"] = measure_imitation(model, dev_set, recipe)
    metrics |= peak_memory(device)
    agent = uncompiled(agent)
    origin = {"recipe": asdict(recipe), "corpus": corpus.name, "segments": len(segments), **metrics}
    write_json(folder / "training.json", origin)
    save_agent(agent, folder / AGENT_FILE, origin)
    return agent
