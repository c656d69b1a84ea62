"""DAggerFM (paper, section 5): imitation in states that the learner itself reaches, with a memory of fixed size.

In each iteration a mixture of oracle and learner flies a few environments, all flights in one batch. The oracle labels
every step with what it would have done, and the learner is trained on a memory of such flights, which is pruned at
random. PVN's second stage is trained by it on the demonstrated distributions, so that it needs nothing of stage 1; the
baselines are trained by it as a whole, after stage 1.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from pvn.corpus.segments import Segment
from pvn.geometry import even_paths, pose_in_map, to_map
from pvn.learning.checkpoint import load_weights, read_tensors, write_tensors
from pvn.learning.demonstrations import (
    PATH_SPACING,
    Demonstrations,
    batch_limits,
    draw_batches,
    flown_again,
    select,
    take_batch,
)
from pvn.learning.descent import (
    OnProgress,
    diverged,
    ignore_progress,
    is_finite,
    make_optimizer,
    model_optimizer,
    set_rate,
    take_step,
)
from pvn.learning.losses import Objective, action_losses, target_distributions
from pvn.learning.recipes import DaggerConfig, Stage1Config, Stage2Config
from pvn.model.agent import Agent
from pvn.model.execution import ExecutionModel, begin_progress, look_around, to_action, update_progress
from pvn.model.mapping import InstructedModel
from pvn.rollout.flight import fly
from pvn.rollout.oracle import Oracle, OracleConfig, OracleMemory
from pvn.rollout.policy import MakeSimulator, Policy
from pvn.simulator.interface import Observation, SimulatorConfig
from pvn.world.task import Demonstration, Task


@dataclass(frozen=True)
class Lesson:
    """One flight: what the learner saw at its T steps, and what the oracle would have done there; on the host."""

    flight: int
    """Which of the segments was flown."""
    seen: Tensor
    """(T, ...): what stage 2 sees of the distributions, or the poses from which a baseline's pictures are rendered."""
    wanted: Tensor
    """(T, 3): the oracle's speed and yaw rate as shares of their maxima, and stop."""


FlyFlights = Callable[[Sequence[int], float], list[Lesson]]
"""Flies the segments with these numbers; the second argument is the probability that the oracle flies a step."""


@dataclass(frozen=True)
class Learner:
    """What DAggerFM trains: a network, the policy that flies with it, and how it learns."""

    network: nn.Module
    config: DaggerConfig
    simulator: SimulatorConfig
    name: ClassVar[str]
    """Of the phase of training, for progress and logs."""
    needs_stage1: ClassVar[bool]
    """Whether it goes on from the weights of stage 1."""
    seed_offset: ClassVar[int]
    """Added to its seeds, so that its draws differ from those of stage 1."""

    @property
    def oracle(self) -> OracleConfig:
        """The oracle that is imitated."""
        return OracleConfig()

    def policy(self, demonstrations: Sequence[Demonstration]) -> Policy:
        """The learner as it flies these demonstrations now."""
        raise NotImplementedError

    def observe(self, observation: Observation, memory: Any) -> Tensor:
        """What a lesson remembers (B, ...) of what the learner sees at a step."""
        raise NotImplementedError

    def begin(
        self, count: int, shown: Demonstrations | None, fly_flights: FlyFlights, generator: torch.Generator
    ) -> tuple[list[Lesson], dict[str, float]]:
        """The first lessons, on random ones of `count` segments, and metrics if the network was trained on them."""
        raise NotImplementedError

    def learn(
        self, lessons: Sequence[Lesson], shown: Demonstrations | None, rate: float, generator: torch.Generator
    ) -> dict[str, float]:
        """One pass over the lessons with a fresh optimizer (authors' code); its mean losses.

        rate: a learning rate that falls to zero over the iterations, as a share of the highest.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class MixtureMemory:
    """Memories of learner and oracle in B flights, and what the oracle would have done at the last step."""

    flights: Tensor
    """(B,) int64: their numbers among all flights that began."""
    num_begun: int
    """How many began."""
    learner: Any
    oracle: OracleMemory
    wanted: Tensor | None
    """(B, 3), as in Lesson."""


class Mixture:
    """A policy that, at each step of each flight, acts as the oracle or as the learner, drawn at random."""

    memory_has_rows = True

    def __init__(
        self,
        learner: Policy,
        oracle: Oracle,
        oracle_share: float,
        simulator: SimulatorConfig,
        generator: torch.Generator,
    ) -> None:
        self.learner, self.oracle, self.oracle_share = learner, oracle, oracle_share
        self.max_action, self.generator = torch.tensor(simulator.max_action), generator

    def begin(self, tasks: Sequence[Task], device: torch.device) -> MixtureMemory:
        """Memories of both."""
        self.max_action, flights = self.max_action.to(device), torch.arange(len(tasks), device=device)
        learner, oracle = self.learner.begin(tasks, device), self.oracle.begin(tasks, device)
        return MixtureMemory(flights, len(tasks), learner, oracle, None)

    @torch.no_grad()
    def act(self, observation: Observation, memory: MixtureMemory) -> tuple[Tensor, MixtureMemory]:
        """The action of one of them."""
        own, learner = self.learner.act(observation, memory.learner)
        shown, oracle = self.oracle.act(observation, memory.oracle)
        # Drawn also for flights that have left the batch, so that their leaving does not change the others' draws.
        is_oracle = torch.rand(memory.num_begun, generator=self.generator) < self.oracle_share
        action = torch.where(is_oracle.to(shown.device)[memory.flights, None], shown, own)
        return action, replace(memory, learner=learner, oracle=oracle, wanted=shown / self.max_action)


def collect(
    learner: Learner,
    segments: Sequence[Segment],
    flights: Sequence[int],
    oracle_share: float,
    *,
    generator: torch.Generator,
    simulate: MakeSimulator,
    device: str | torch.device,
) -> list[Lesson]:
    """Fly the segments with these numbers, all in one batch: a lesson of each, labelled by the oracle."""
    demonstrations = [segments[flight].demonstration for flight in flights]
    tasks = [demonstration.task for demonstration in demonstrations]
    teacher = Oracle(demonstrations, learner.oracle, learner.simulator)
    policy = Mixture(learner.policy(demonstrations), teacher, oracle_share, learner.simulator, generator)
    rows: list[Tensor] = []
    seen: list[Tensor] = []
    wanted: list[Tensor] = []

    def note(step: int, observation: Observation, action: Tensor, memory: MixtureMemory) -> None:
        assert memory.wanted is not None
        rows.append(memory.flights)
        seen.append(learner.observe(observation, memory.learner))
        wanted.append(memory.wanted)

    log = fly(
        simulate(tasks, device=device, config=learner.simulator), tasks, policy,
        horizon=learner.config.horizon, watch=note, watches_all=False,
    )  # fmt: skip
    flight_by_flight = torch.cat(rows).argsort(stable=True)
    lengths = torch.cat(rows).bincount().tolist()
    all_seen, all_wanted = (torch.split(torch.cat(noted)[flight_by_flight].cpu(), lengths) for noted in (seen, wanted))
    return [
        Lesson(flight, all_seen[row][:length].clone(), all_wanted[row][:length].clone())
        for row, (flight, length) in enumerate(zip(flights, log.num_steps.tolist(), strict=True))
    ]


def prune(lessons: list[Lesson], size: int, generator: torch.Generator) -> list[Lesson]:
    """At most `size` of the lessons, chosen at random, in their order."""
    chosen = sorted(torch.randperm(len(lessons), generator=generator)[:size].tolist())
    return [lessons[place] for place in chosen]


def pack(lessons: Sequence[Lesson]) -> dict[str, Tensor]:
    """Lessons as tensors, end to end."""
    return {
        "flights": torch.tensor([lesson.flight for lesson in lessons]),
        "seen": torch.cat([lesson.seen for lesson in lessons]),
        "wanted": torch.cat([lesson.wanted for lesson in lessons]),
        "lengths": torch.tensor([len(lesson.wanted) for lesson in lessons]),
    }


def unpack(tensors: dict[str, Tensor]) -> list[Lesson]:
    """The lessons that were packed."""
    lengths = tensors["lengths"].tolist()
    seen, wanted = (torch.split(tensors[name], lengths) for name in ("seen", "wanted"))
    return [Lesson(*parts) for parts in zip(tensors["flights"].tolist(), seen, wanted, strict=True)]


def run_dagger(
    learner: Learner,
    segments: Sequence[Segment],
    path: Path,
    simulate: MakeSimulator,
    *,
    shown: Demonstrations | None = None,
    device: str | torch.device = "cpu",
    is_resumed: bool = False,
    watch: OnProgress = ignore_progress,
) -> None:
    """Train a learner's network; checkpoints go to `path`. shown: the oracle's flights over the segments, in order.

    Every iteration depends only on the seed, its number and the memory, so a resumed run gives the same result.
    """
    config, network, done, lessons = learner.config, learner.network, 0, list[Lesson]()
    if is_resumed and path.exists():
        tensors = read_tensors(path)
        done, lessons = int(tensors["done"]), unpack(tensors)
        weights = {key.removeprefix("model."): value for key, value in tensors.items() if key.startswith("model.")}
        load_weights(network, weights, path)
    by_environment: dict[int, list[int]] = {}
    for flight, segment in enumerate(segments):
        by_environment.setdefault(segment.environment, []).append(flight)
    environments = sorted(by_environment)
    for iteration in range(done, config.num_iterations + 1):
        seed = config.seed * 1_000_003 + learner.seed_offset + iteration
        generator = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed)  # for dropout and other random operations

        fly_flights = partial(collect, learner, segments, generator=generator, simulate=simulate, device=device)
        if iteration == 0:
            lessons, metrics = learner.begin(len(segments), shown, fly_flights, generator)
        else:
            chosen = torch.randperm(len(environments), generator=generator)[: config.num_environments].tolist()
            flights = [flight for place in chosen for flight in by_environment[environments[place]]]
            lessons = lessons + fly_flights(flights, config.beta**iteration)
            rate = 0.5 * (1 + math.cos(math.pi * (iteration - 1) / config.num_iterations))
            metrics = learner.learn(lessons, shown, rate, generator)
        lessons = prune(lessons, config.memory, generator)
        if metrics:
            if not (math.isfinite(metrics["loss"]) and is_finite(network)):
                when = f"{learner.name}, iteration {iteration}"
                raise diverged(when, f"the loss is {metrics['loss']}", path, "stage2.learning-rate")
            metrics |= {"flights": float(len(lessons))}
            watch(learner.name, iteration, config.num_iterations + 1, metrics)
        if iteration % config.save_every == 0 or iteration == config.num_iterations:
            weights = {f"model.{key}": value for key, value in network.state_dict().items()}
            write_tensors(path, weights | pack(lessons) | {"done": torch.tensor(iteration + 1)})
    network.eval()


@dataclass(frozen=True)
class DemonstratedVisitationMemory:
    """What B flights remember."""

    origin: Tensor
    """Start poses (B, 3), x, y, yaw, field frame."""
    parts: Tensor
    """(B, P + 1, S, S): the demonstrated distributions, in the frames of the start poses."""
    progress: Tensor
    """Probabilities (B, P) of being in each part of the way."""
    seen: Tensor | None
    """(B, num_in): what stage 2 saw of them at the last step."""


class DemonstratedVisitation:
    """PVN's second stage, flown by the demonstrated distributions in place of predicted ones."""

    memory_has_rows = True

    def __init__(
        self,
        execution: ExecutionModel,
        demonstrations: Sequence[Demonstration],
        sigma_cells: float,
        simulator: SimulatorConfig,
        stop_threshold: float | None = None,
    ) -> None:
        """stop_threshold: the trained one if not given."""
        self.execution, self.sigma_cells, self.simulator = execution, sigma_cells, simulator
        self.stop_threshold = execution.config.stop_threshold if stop_threshold is None else stop_threshold
        self._paths = {demonstration.task: demonstration.path for demonstration in demonstrations}

    def begin(self, tasks: Sequence[Task], device: torch.device) -> DemonstratedVisitationMemory:
        """The demonstrated distributions of the tasks."""
        self.execution.to(device)
        path, num_points = even_paths([self._paths[task] for task in tasks], PATH_SPACING)
        origin = torch.tensor([task.start for task in tasks], dtype=torch.float32)
        config = self.execution.config
        path_map = to_map(path, origin).to(device)
        parts = target_distributions(path_map, num_points.to(device), config.grid, self.sigma_cells, config.num_parts)
        progress = begin_progress(len(tasks), config.num_parts, device)
        return DemonstratedVisitationMemory(origin.to(device), parts, progress, None)

    @torch.no_grad()
    def act(
        self, observation: Observation, memory: DemonstratedVisitationMemory
    ) -> tuple[Tensor, DemonstratedVisitationMemory]:
        """Follow the distributions."""
        config = self.execution.config
        pose = pose_in_map(observation.pose_world, memory.origin)
        progress = update_progress(memory.progress, memory.parts[:, :-1], pose, config.grid)
        seen = look_around(memory.parts, progress, pose, config)
        action = to_action(self.execution(seen), self.stop_threshold, self.simulator, config.min_speed, progress[:, -1])
        return action, replace(memory, progress=progress, seen=seen)


@dataclass(frozen=True)
class ExecutionLearner(Learner):
    """PVN's second stage: it learns to follow the demonstrated distributions, on oracle flights first."""

    network: ExecutionModel
    config: Stage2Config
    simulator: SimulatorConfig = SimulatorConfig(quality="none")
    name, needs_stage1, seed_offset = "stage 2", False, 0

    @property
    def oracle(self) -> OracleConfig:
        """The oracle of the recipe."""
        return self.config.oracle

    def policy(self, demonstrations: Sequence[Demonstration]) -> DemonstratedVisitation:
        """A copy of the network with the demonstrated distributions, in evaluation mode."""
        pilot = copy.deepcopy(self.network).eval()
        return DemonstratedVisitation(pilot, demonstrations, self.config.sigma_cells, self.simulator)

    def observe(self, observation: Observation, memory: DemonstratedVisitationMemory) -> Tensor:
        """What the network saw."""
        assert memory.seen is not None
        return memory.seen

    def begin(
        self, count: int, shown: Demonstrations | None, fly_flights: FlyFlights, generator: torch.Generator
    ) -> tuple[list[Lesson], dict[str, float]]:
        """Flights of the oracle, and the losses of training on them."""
        order = torch.randperm(count, generator=generator)[: self.config.pretrain_flights]
        lessons = fly_flights(order.tolist(), 1.0)
        passes = [self.learn(lessons, None, 1.0, generator) for _ in range(self.config.pretrain_epochs)]
        return lessons, passes[-1]

    def learn(
        self, lessons: Sequence[Lesson], shown: Demonstrations | None, rate: float, generator: torch.Generator
    ) -> dict[str, float]:
        """One pass over the steps of the lessons in random order, always at the highest rate (paper)."""
        config, network = self.config, self.network
        groups = [(network.parameters(), config.learning_rate)]
        optimizer = make_optimizer(config.optimizer, groups, config.weight_decay)
        set_rate(optimizer, 1.0)
        seen = torch.cat([lesson.seen for lesson in lessons])
        wanted = torch.cat([lesson.wanted for lesson in lessons])
        network.train()
        losses = []
        for rows in torch.split(torch.randperm(len(seen), generator=generator), config.batch_size):
            loss = action_losses(network(seen[rows]), wanted[rows], config.stop_weight).mean()
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            losses.append(loss.detach())
        return {"loss": float(torch.stack(losses).mean())}


def uncompiled(agent: Agent) -> Agent:
    """A copy that is not compiled: code compiled for a batch of training would be compiled again for every flight."""
    again = copy.deepcopy(agent)
    for network in again.networks.values():
        network.eval()
        if isinstance(network, InstructedModel):
            network.frames_at_once = network.maps_at_once = None
    return again


def oracle_lessons(shown: Demonstrations, flights: Sequence[int]) -> list[Lesson]:
    """The oracle's own flights with these numbers."""
    first = shown.first_frame.tolist()
    pose, action = shown.pose_world.cpu(), shown.action.cpu()
    spans = [(flight, slice(first[flight], first[flight + 1])) for flight in flights]
    return [Lesson(flight, pose[span].clone(), action[span].clone()) for flight, span in spans]


@dataclass(frozen=True)
class ImitationLearner(Learner):
    """A baseline as a whole, after stage 1: lessons hold poses, and pictures are rendered again when needed."""

    agent: Agent
    objective: Objective
    stage1: Stage1Config
    """Its batches, its limit of gradients and its rate of the instruction encoder apply here too."""
    name, needs_stage1, seed_offset = "DAggerFM", True, 800_000

    def policy(self, demonstrations: Sequence[Demonstration]) -> Policy:
        """The agent as it is now."""
        return uncompiled(self.agent)

    def observe(self, observation: Observation, memory: object) -> Tensor:
        """The drones' poses."""
        return observation.pose_world

    def begin(
        self, count: int, shown: Demonstrations | None, fly_flights: FlyFlights, generator: torch.Generator
    ) -> tuple[list[Lesson], dict[str, float]]:
        """Flights of the oracle, on which stage 1 has trained the network already."""
        assert shown is not None
        chosen = torch.randperm(count, generator=generator)[: self.config.memory].tolist()
        return oracle_lessons(shown, chosen), {}

    def learn(
        self, lessons: Sequence[Lesson], shown: Demonstrations | None, rate: float, generator: torch.Generator
    ) -> dict[str, float]:
        """One pass over the lessons as whole flights."""
        assert shown is not None
        config, stage1, objective, packed = self.config, self.stage1, self.objective, pack(lessons)
        flown = flown_again(shown, packed["flights"], packed["seen"], packed["wanted"], packed["lengths"])
        optimizer = model_optimizer(
            objective.model, config.optimizer, config.learning_rate, stage1.instruction_rate, config.weight_decay
        )
        set_rate(optimizer, rate)
        objective.train()
        limits = batch_limits(flown, stage1.frames_per_batch, stage1.flights_per_batch)
        losses = []
        for flights in draw_batches(flown, limits, generator):
            batch = take_batch(flown, select(flown, flights))
            sums = take_step(objective, optimizer, batch, stage1.max_gradient_norm)
            losses.append({"loss": float(objective.loss(sums, sums)), **objective.means(sums)})
        objective.eval()
        return {name: sum(each[name] for each in losses) / len(losses) for name in losses[0]}
