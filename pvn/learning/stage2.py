"""Stage 2 of learning: fly by the distributions, first as the oracle flew, then from where the pilot's flying leads.

DAggerFM (paper, section 5): in each iteration a mixture of oracle and pilot flies a few environments, all flights in
one batch, the oracle says what it would have done at every step, and the pilot learns from a memory of such flights
that is pruned at random. The pilot sees the true distributions, not predicted ones, so stage 1 is not needed here.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from pvn.corpus.segments import Segment
from pvn.geometry import to_map
from pvn.learning.checkpoint import load_weights, read_tensors, write_tensors
from pvn.learning.demonstrations import even_paths
from pvn.learning.optimisation import blown_up
from pvn.learning.targets import target_distributions
from pvn.model.execution import ExecutionModel, crop_around
from pvn.model.pvn import pose_in_map, to_action
from pvn.rollout.flight import fly, simulator_for
from pvn.rollout.oracle import Oracle, OracleMemory
from pvn.simulator.simulator import Observation, SimulatorConfig
from pvn.world.task import Task

Flight = TypeVar("Flight")


@dataclass(frozen=True, kw_only=True)
class Stage2Config:
    """How stage 2 is trained."""

    pretrain_flights: int = 4000
    """Oracle flights to begin with."""
    pretrain_epochs: int = 3
    """Times through them (authors' code)."""
    num_iterations: int = 100
    """Of DAggerFM (paper)."""
    beta: float = 0.92
    """In iteration k the oracle flies a step with chance beta to the k (paper)."""
    num_environments: int = 10
    """Environments flown in an iteration (paper)."""
    memory: int = 600
    """Flights that are remembered (paper)."""
    horizon: int = 80
    """Steps of a flight in training, at most."""
    batch_size: int = 128
    """Steps of flight that a step of gradient descent looks at."""
    learning_rate: float = 1e-3
    weight_decay: float = 1e-6
    """Paper."""
    stop_weight: float = 0.8
    """Of the stop's loss beside those of speed and turn (authors' code)."""
    sigma_cells: float = 0.6
    """Width of the targets' Gaussians, in cells; stage 1's."""
    seed: int = 0


@dataclass(frozen=True)
class Lesson:
    """One flight: what the pilot saw of the distributions at T steps, and what the oracle would have done."""

    cropped: Tensor
    """(T, 2, crop, crop)."""
    wanted: Tensor
    """(T, 3): speed and yaw rate as shares of the greatest, and stop."""


@dataclass(frozen=True)
class MixtureMemory:
    """What B flights of the mixture remember, and what they saw and should have done at the last step."""

    origin: Tensor
    probability: Tensor
    oracle: OracleMemory
    cropped: Tensor | None
    wanted: Tensor | None


class Mixture:
    """Oracle and pilot in turns, by chance, each step of each flight."""

    def __init__(
        self,
        pilot: ExecutionModel,
        oracle_share: float,
        config: Stage2Config,
        simulator: SimulatorConfig,
        generator: torch.Generator,
    ) -> None:
        # A copy: it flies where the simulator is, while the original learns on the host.
        self.pilot, self.oracle_share, self.config = copy.deepcopy(pilot).eval(), oracle_share, config
        self.simulator, self.generator = simulator, generator
        self.oracle = Oracle(simulator=simulator)

    def begin(self, tasks: Sequence[Task], device: torch.device) -> MixtureMemory:
        """The true distributions of the tasks."""
        self.pilot.to(device)
        path, num_points = even_paths(tasks)
        origin = torch.tensor([task.start for task in tasks], dtype=torch.float32)
        target = target_distributions(to_map(path, origin), num_points, self.pilot.config.grid, self.config.sigma_cells)
        return MixtureMemory(origin.to(device), target.to(device), self.oracle.begin(tasks, device), None, None)

    @torch.no_grad()
    def act(self, observation: Observation, memory: MixtureMemory) -> tuple[Tensor, MixtureMemory]:
        """What either of them would do, chosen by chance."""
        pose = pose_in_map(observation.pose_world, memory.origin)
        cropped = crop_around(memory.probability, pose, self.pilot.config)
        own = to_action(self.pilot(cropped), self.pilot.config.stop_threshold, self.simulator)
        shown, oracle = self.oracle.act(observation, memory.oracle)
        scale = torch.tensor([self.simulator.max_speed, self.simulator.max_yaw_rate, 1.0], device=shown.device)
        is_oracle = torch.rand(len(shown), generator=self.generator) < self.oracle_share
        action = torch.where(is_oracle.to(shown.device)[:, None], shown, own)
        return action, replace(memory, oracle=oracle, cropped=cropped, wanted=shown / scale)


def collect(segments: Sequence[Segment], policy: Mixture, horizon: int, device: str | torch.device) -> list[Lesson]:
    """Fly the segments, all at once, and keep what there is to learn; on the host."""
    tasks = [segment.task for segment in segments]
    seen: list[tuple[Tensor, Tensor]] = []

    def keep(step: int, observation: Observation, action: Tensor, memory: Any) -> None:
        seen.append((memory.cropped, memory.wanted))

    config = replace(policy.simulator, quality="none")
    log = fly(simulator_for(tasks, device=device, config=config), tasks, policy, horizon=horizon, watch=keep)
    cropped = torch.stack([pair[0] for pair in seen], 1).cpu()
    wanted = torch.stack([pair[1] for pair in seen], 1).cpu()
    return [
        Lesson(cropped[row, :length].clone(), wanted[row, :length].clone())
        for row, length in enumerate(log.num_steps.tolist())
    ]


def action_losses(output: Tensor, wanted: Tensor, stop_weight: float) -> Tensor:
    """Losses (N,) of outputs (N, 3) beside what was wanted (N, 3); weights of the authors' code."""
    motion = functional.mse_loss(output[:, :2], wanted[:, :2], reduction="none").sum(1)
    stop = functional.binary_cross_entropy_with_logits(output[:, 2], wanted[:, 2], reduction="none")
    return 0.33 * (motion + stop_weight * stop)


def action_loss(output: Tensor, wanted: Tensor, stop_weight: float) -> Tensor:
    """Their mean."""
    return action_losses(output, wanted, stop_weight).mean()


def _study(pilot: ExecutionModel, lessons: Sequence[Lesson], config: Stage2Config, generator: torch.Generator) -> float:
    """One pass over the lessons with a fresh optimizer (authors' code); the mean loss."""
    optimizer = torch.optim.AdamW(pilot.parameters(), config.learning_rate, weight_decay=config.weight_decay)
    cropped = torch.cat([lesson.cropped for lesson in lessons])
    wanted = torch.cat([lesson.wanted for lesson in lessons])
    pilot.train()
    losses = []
    for rows in torch.split(torch.randperm(len(cropped), generator=generator), config.batch_size):
        loss = action_loss(pilot(cropped[rows]), wanted[rows], config.stop_weight)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(loss.detach())
    return float(torch.stack(losses).mean())


def pruned(memory: list[Flight], size: int, generator: torch.Generator) -> list[Flight]:
    """So many of the flights, chosen by chance, in their order."""
    keep = sorted(torch.randperm(len(memory), generator=generator)[:size].tolist())
    return [memory[place] for place in keep]


def _pack(memory: Sequence[Lesson]) -> dict[str, Tensor]:
    return {
        "cropped": torch.cat([lesson.cropped for lesson in memory]),
        "wanted": torch.cat([lesson.wanted for lesson in memory]),
        "lengths": torch.tensor([len(lesson.wanted) for lesson in memory]),
    }


def _unpack(tensors: dict[str, Tensor]) -> list[Lesson]:
    lengths = tensors["lengths"].tolist()
    parts = zip(torch.split(tensors["cropped"], lengths), torch.split(tensors["wanted"], lengths), strict=True)
    return [Lesson(cropped, wanted) for cropped, wanted in parts]


def train_stage2(
    pilot: ExecutionModel,
    segments: Sequence[Segment],
    config: Stage2Config,
    folder: Path,
    *,
    simulator: SimulatorConfig = SimulatorConfig(),
    device: str | torch.device = "cpu",
    is_resumed: bool = False,
    watch: Callable[[int, int, dict[str, float]], None] = lambda step, num_steps, figures: None,
) -> None:
    """Train the pilot, on the host; flights are simulated on `device`. Checkpoints go to `folder`.

    Every iteration depends on the seed, its number and the memory alone, so a resumed run is the same.
    """
    path, done = folder / "stage2_training.safetensors", 0
    memory: list[Lesson] = []
    if is_resumed and path.exists():
        tensors = read_tensors(path)
        done = int(tensors["done"])
        load_weights(pilot, {name[6:]: value for name, value in tensors.items() if name.startswith("pilot.")}, path)
        memory = _unpack(tensors)
    by_environment: dict[int, list[Segment]] = {}
    for segment in segments:
        by_environment.setdefault(segment.environment, []).append(segment)
    environments = sorted(by_environment)
    for iteration in range(done, config.num_iterations + 1):
        generator = torch.Generator().manual_seed(config.seed * 1_000_003 + iteration)
        torch.manual_seed(config.seed * 1_000_003 + iteration)  # dropout
        policy = Mixture(pilot, config.beta**iteration, config, simulator, generator)
        if iteration == 0:
            order = torch.randperm(len(segments), generator=generator)[: config.pretrain_flights]
            memory = collect([segments[place] for place in order.tolist()], policy, config.horizon, device)
            for _ in range(config.pretrain_epochs):
                loss = _study(pilot, memory, config, generator)
        else:
            chosen = torch.randperm(len(environments), generator=generator)[: config.num_environments].tolist()
            flown = [segment for place in chosen for segment in by_environment[environments[place]]]
            memory = memory + collect(flown, policy, config.horizon, device)
            loss = _study(pilot, memory, config, generator)
        memory = pruned(memory, config.memory, generator)
        if not math.isfinite(loss):
            raise blown_up(f"stage 2, iteration {iteration}", f"the loss is {loss}", path)
        watch(iteration, config.num_iterations + 1, {"loss": loss, "flights": float(len(memory))})
        if iteration % 10 == 0 or iteration == config.num_iterations:
            weights = {f"pilot.{name}": value for name, value in pilot.state_dict().items()}
            write_tensors(path, weights | _pack(memory) | {"done": torch.tensor(iteration + 1)})
    pilot.eval()
