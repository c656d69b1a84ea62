"""DAggerFM (paper, section 5): imitation in states that the learner itself reaches, with a memory of fixed size.

In each iteration a mixture of oracle and learner flies a few environments, all flights in one batch; the oracle
labels every step with what it would have done, and the learner is trained on a memory of such flights, which is pruned
at random. PVN's second stage and the baselines are trained by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from pvn.checks import check_limits
from pvn.corpus.segments import Segment
from pvn.learning.checkpoint import load_weights, read_tensors, write_tensors
from pvn.learning.optimisation import OnProgress, OptimizerName, diverged, ignore_progress, is_finite
from pvn.rollout.flight import fly, simulator_for
from pvn.rollout.oracle import Oracle, OracleConfig, OracleMemory
from pvn.rollout.policy import Policy
from pvn.simulator.interface import STOP, Observation, SimulatorConfig
from pvn.world.task import Demonstration, Task


@dataclass(frozen=True, kw_only=True)
class DaggerConfig:
    """Settings of DAggerFM."""

    num_iterations: int = 100
    """Rounds of flying and training (paper)."""
    beta: float = 0.92
    """In iteration k the oracle flies each step with probability beta to the power of k (paper)."""
    num_environments: int = 10
    """Environments flown in an iteration (paper)."""
    memory: int = 600
    """Flights that are kept to train on (paper)."""
    horizon: int = 80
    """Steps of a flight, at most."""
    optimizer: OptimizerName = "AdamW"
    """The paper's is Adam."""
    learning_rate: float = 1e-3
    """Learning rate in the first iteration."""
    weight_decay: float = 1e-6
    """The optimizer's (paper)."""
    stop_weight: float = 0.8
    """Weight of the stop's loss relative to those of speed and yaw rate (authors' code; the paper weights nothing)."""
    save_every: int = 10
    """Iterations between checkpoints."""
    seed: int = 0
    """Seed of all random choices."""

    def __post_init__(self) -> None:
        check_limits(self, "num_environments memory horizon save_every", 1)
        check_limits(self, "num_iterations learning_rate weight_decay stop_weight", 0)
        check_limits(self, "beta", 0, 1)


@dataclass(frozen=True)
class Lesson:
    """One flight: what the learner saw at its T steps, and what the oracle would have done there; on the host."""

    flight: int
    """Which of the segments was flown."""
    seen: Tensor
    """(T, ...): what stage 2 sees of the distributions, or the poses from which a baseline's pictures are rendered."""
    wanted: Tensor
    """(T, 3): the oracle's speed and yaw rate as shares of their maxima, and stop."""


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
        # Drawn for flights that have left, too: whether they have does not change how the others are flown.
        is_oracle = torch.rand(memory.num_begun, generator=self.generator) < self.oracle_share
        action = torch.where(is_oracle.to(shown.device)[memory.flights, None], shown, own)
        return action, replace(memory, learner=learner, oracle=oracle, wanted=shown / self.max_action)


def collect(
    segments: Sequence[Segment],
    flights: Sequence[int],
    make_learner: Callable[[Sequence[Demonstration]], Policy],
    observe: Callable[[Observation, Any], Tensor],
    *,
    oracle_share: float,
    horizon: int,
    simulator: SimulatorConfig,
    device: str | torch.device,
    generator: torch.Generator,
    oracle: OracleConfig = OracleConfig(),
) -> list[Lesson]:
    """Fly the segments with these numbers, all in one batch, and keep a lesson of each.

    make_learner: the learner's policy for some demonstrations; observe(observation, memory): what to keep (B, ...) of
    what the learner sees at a step.
    """
    demonstrations = [segments[flight].demonstration for flight in flights]
    tasks = [demonstration.task for demonstration in demonstrations]
    teacher = Oracle(demonstrations, oracle, simulator)
    policy = Mixture(make_learner(demonstrations), teacher, oracle_share, simulator, generator)
    rows: list[Tensor] = []
    seen: list[Tensor] = []
    wanted: list[Tensor] = []

    def keep(step: int, observation: Observation, action: Tensor, memory: MixtureMemory) -> None:
        assert memory.wanted is not None
        rows.append(memory.flights)
        seen.append(observe(observation, memory.learner))
        wanted.append(memory.wanted)

    log = fly(
        simulator_for(tasks, device=device, config=simulator), tasks, policy,
        horizon=horizon, watch=keep, watches_all=False,
    )  # fmt: skip
    flight_by_flight = torch.cat(rows).argsort(stable=True)
    lengths = torch.cat(rows).bincount().tolist()
    all_seen, all_wanted = (torch.split(torch.cat(kept)[flight_by_flight].cpu(), lengths) for kept in (seen, wanted))
    return [
        Lesson(flight, all_seen[row][:length].clone(), all_wanted[row][:length].clone())
        for row, (flight, length) in enumerate(zip(flights, log.num_steps.tolist(), strict=True))
    ]


def action_losses(output: Tensor, wanted: Tensor, stop_weight: float) -> Tensor:
    """Losses (N,) of outputs (N, 3) against what the oracle would have done (N, 3); weights of the authors' code."""
    motion = functional.mse_loss(output[:, :STOP], wanted[:, :STOP], reduction="none").sum(1)
    stop = functional.binary_cross_entropy_with_logits(output[:, STOP], wanted[:, STOP], reduction="none")
    return 0.33 * (motion + stop_weight * stop)


def prune(lessons: list[Lesson], size: int, generator: torch.Generator) -> list[Lesson]:
    """At most `size` of the lessons, chosen at random, in their order."""
    kept = sorted(torch.randperm(len(lessons), generator=generator)[:size].tolist())
    return [lessons[place] for place in kept]


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
    model: nn.Module,
    segments: Sequence[Segment],
    config: DaggerConfig,
    path: Path,
    *,
    name: str,
    begin: Callable[[torch.Generator], tuple[list[Lesson], dict[str, float]]],
    fly_flights: Callable[[Sequence[int], float, torch.Generator], list[Lesson]],
    train_one_pass: Callable[[list[Lesson], int, torch.Generator], dict[str, float]],
    rate_option: str = "dagger.learning-rate",
    seed_offset: int = 0,
    is_resumed: bool = False,
    watch: OnProgress = ignore_progress,
) -> None:
    """Train a model; checkpoints go to `path`.

    begin: the first lessons, and metrics if the model was trained on them; fly_flights(flights, oracle_share,
    generator): lessons of new flights over the segments with these numbers; train_one_pass(lessons, iteration,
    generator): train on all lessons once and return metrics, among them the loss.

    Every iteration depends only on the seed, its number and the memory, so a resumed run gives the same result.
    """
    done, lessons = 0, list[Lesson]()
    if is_resumed and path.exists():
        tensors = read_tensors(path)
        done, lessons = int(tensors["done"]), unpack(tensors)
        weights = {key.removeprefix("model."): value for key, value in tensors.items() if key.startswith("model.")}
        load_weights(model, weights, path)
    by_environment: dict[int, list[int]] = {}
    for flight, segment in enumerate(segments):
        by_environment.setdefault(segment.environment, []).append(flight)
    environments = sorted(by_environment)
    for iteration in range(done, config.num_iterations + 1):
        seed = config.seed * 1_000_003 + seed_offset + iteration
        generator = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed)  # for dropout and other random operations
        if iteration == 0:
            lessons, metrics = begin(generator)
        else:
            chosen = torch.randperm(len(environments), generator=generator)[: config.num_environments].tolist()
            flights = [flight for place in chosen for flight in by_environment[environments[place]]]
            lessons = lessons + fly_flights(flights, config.beta**iteration, generator)
            metrics = train_one_pass(lessons, iteration, generator)
        lessons = prune(lessons, config.memory, generator)
        if metrics:
            if not (math.isfinite(metrics["loss"]) and is_finite(model)):
                raise diverged(f"{name}, iteration {iteration}", f"the loss is {metrics['loss']}", path, rate_option)
            watch(iteration, config.num_iterations + 1, metrics | {"flights": float(len(lessons))})
        if iteration % config.save_every == 0 or iteration == config.num_iterations:
            weights = {f"model.{key}": value for key, value in model.state_dict().items()}
            write_tensors(path, weights | pack(lessons) | {"done": torch.tensor(iteration + 1)})
    model.eval()
