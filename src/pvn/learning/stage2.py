"""Training of stage 2: fly by the distributions; first by imitation of the oracle's flights, then by DAggerFM.

Its inputs are the demonstrated distributions, not predicted ones, so stage 1 is not needed here.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from pvn.checks import check_limits
from pvn.corpus.segments import Segment
from pvn.geometry import even_paths, pose_in_map, to_map
from pvn.learning.dagger import DaggerConfig, Lesson, action_losses, collect, run_dagger
from pvn.learning.demonstrations import PATH_SPACING
from pvn.learning.losses import target_distributions
from pvn.learning.optimisation import OnProgress, ignore_progress, optimizer_class
from pvn.model.execution import ExecutionModel, begin_progress, look_around, to_action, update_progress
from pvn.rollout.oracle import OracleConfig
from pvn.simulator.interface import Observation, SimulatorConfig
from pvn.world.task import Demonstration, Task

CHECKPOINT = "stage2_training.safetensors"


@dataclass(frozen=True, kw_only=True)
class Stage2Config(DaggerConfig):
    """How stage 2 is trained."""

    pretrain_flights: int = 4000
    """Oracle flights to begin with."""
    pretrain_epochs: int = 3
    """Passes over them (authors' code)."""
    batch_size: int = 128
    """Steps of flight in a step of gradient descent."""
    sigma_cells: float = 0.6
    """Width of the targets' Gaussians, in cells; stage 1's."""
    oracle: OracleConfig = OracleConfig()
    """The oracle that is imitated."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_limits(self, "pretrain_flights pretrain_epochs batch_size", 1)
        check_limits(self, "sigma_cells", 0.01)


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
    """Stage 2 flown by the demonstrated distributions in place of predicted ones."""

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


def action_loss(output: Tensor, wanted: Tensor, stop_weight: float) -> Tensor:
    """The mean of the action losses."""
    return action_losses(output, wanted, stop_weight).mean()


def _train_one_pass(
    execution: ExecutionModel, lessons: Sequence[Lesson], config: Stage2Config, generator: torch.Generator
) -> dict[str, float]:
    """One pass over the lessons with a fresh optimizer (authors' code); the mean loss."""
    make = optimizer_class(config.optimizer)
    optimizer = make(execution.parameters(), config.learning_rate, weight_decay=config.weight_decay)
    seen = torch.cat([lesson.seen for lesson in lessons])
    wanted = torch.cat([lesson.wanted for lesson in lessons])
    execution.train()
    losses = []
    for rows in torch.split(torch.randperm(len(seen), generator=generator), config.batch_size):
        loss = action_loss(execution(seen[rows]), wanted[rows], config.stop_weight)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(loss.detach())
    return {"loss": float(torch.stack(losses).mean())}


def train_stage2(
    execution: ExecutionModel,
    segments: Sequence[Segment],
    config: Stage2Config,
    folder: Path,
    *,
    simulator: SimulatorConfig = SimulatorConfig(),
    device: str | torch.device = "cpu",
    is_resumed: bool = False,
    watch: OnProgress = ignore_progress,
) -> None:
    """Train the execution model, on the host; flights are simulated on `device`. Checkpoints go to `folder`."""

    def make_learner(demonstrations: Sequence[Demonstration]) -> DemonstratedVisitation:
        # A copy: it flies where the simulator is, while the original learns on the host.
        return DemonstratedVisitation(copy.deepcopy(execution).eval(), demonstrations, config.sigma_cells, simulator)

    def observe(observation: Observation, memory: DemonstratedVisitationMemory) -> Tensor:
        assert memory.seen is not None
        return memory.seen

    def fly_flights(flights: Sequence[int], oracle_share: float, generator: torch.Generator) -> list[Lesson]:
        return collect(
            segments, flights, make_learner, observe,
            oracle_share=oracle_share, horizon=config.horizon, simulator=replace(simulator, quality="none"),
            device=device, generator=generator, oracle=config.oracle,
        )  # fmt: skip

    def begin(generator: torch.Generator) -> tuple[list[Lesson], dict[str, float]]:
        order = torch.randperm(len(segments), generator=generator)[: config.pretrain_flights]
        lessons = fly_flights(order.tolist(), 1.0, generator)
        passes = [_train_one_pass(execution, lessons, config, generator) for _ in range(config.pretrain_epochs)]
        return lessons, passes[-1]

    run_dagger(
        execution, segments, config, folder / CHECKPOINT, name="stage 2", begin=begin, fly_flights=fly_flights,
        train_one_pass=lambda lessons, iteration, generator: _train_one_pass(execution, lessons, config, generator),
        rate_option="stage2.learning-rate", is_resumed=is_resumed, watch=watch,
    )  # fmt: skip
