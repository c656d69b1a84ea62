"""DAggerFM for the baselines (paper, section 5): they learn from where their own flying leads.

In each iteration a mixture of oracle and baseline flies a few environments, all flights in one batch, the oracle says
what it would have done at every step, and the baseline learns from a memory of such flights that is pruned at random.
What is remembered of a flight are its poses; its pictures are rendered again when needed.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pvn.corpus.segments import Segment
from pvn.learning.checkpoint import load_weights, read_tensors, write_tensors
from pvn.learning.demonstrations import Demonstrations, batch_limits, draw_batches, flown_again, select
from pvn.learning.imitation import ImitationConfig, take_step
from pvn.learning.optimisation import blown_up, is_finite, make_optimizer, set_rate
from pvn.learning.stage2 import pruned
from pvn.model.chaplot import Chaplot, ChaplotModel
from pvn.model.gsmn import GSMN, GSMNModel
from pvn.rollout.flight import fly, simulator_for
from pvn.rollout.policy import Policy
from pvn.rollout.oracle import Oracle, OracleMemory
from pvn.simulator.simulator import Observation, SimulatorConfig
from pvn.world.task import Task

CHECKPOINT = "dagger_training.safetensors"


@dataclass(frozen=True)
class Flown:
    """One flight: where it led at T steps, and what the oracle would have done there; on the host."""

    flight: int
    """Which of the demonstrations' tasks was flown."""
    pose_world: Tensor
    """Poses (T, 6), field frame, before each step."""
    action: Tensor
    """(T, 3): speed and yaw rate as shares of the greatest, and stop."""


@dataclass(frozen=True)
class MixtureMemory:
    """What B flights of the mixture remember, and what they should have done at the last step."""

    pilot: Any
    oracle: OracleMemory
    wanted: Tensor | None
    """(B, 3), as Flown's action."""


class Mixture:
    """Oracle and pilot in turns, by chance, each step of each flight."""

    def __init__(
        self, pilot: Policy, oracle_share: float, simulator: SimulatorConfig, generator: torch.Generator
    ) -> None:
        self.pilot, self.oracle_share, self.generator = pilot, oracle_share, generator
        self.greatest = torch.tensor([simulator.max_speed, simulator.max_yaw_rate, 1.0])
        self.oracle = Oracle(simulator=simulator)

    def begin(self, tasks: Sequence[Task], device: torch.device) -> MixtureMemory:
        """Both get ready."""
        self.greatest = self.greatest.to(device)
        return MixtureMemory(self.pilot.begin(tasks, device), self.oracle.begin(tasks, device), None)

    @torch.no_grad()
    def act(self, observation: Observation, memory: MixtureMemory) -> tuple[Tensor, MixtureMemory]:
        """What either of them would do, chosen by chance."""
        own, pilot = self.pilot.act(observation, memory.pilot)
        shown, oracle = self.oracle.act(observation, memory.oracle)
        is_oracle = torch.rand(len(shown), generator=self.generator) < self.oracle_share
        action = torch.where(is_oracle.to(shown.device)[:, None], shown, own)
        return action, MixtureMemory(pilot, oracle, shown / self.greatest)


def uncompiled(agent: GSMN | Chaplot) -> GSMN | Chaplot:
    """A copy that is not compiled: compiled for a batch of training, it would be compiled again for every flight."""
    again = copy.deepcopy(agent)
    again.model.eval()
    again.model.frames_at_once = None
    return again


def collect(
    policy: Mixture,
    flights: Sequence[int],
    segments: Sequence[Segment],
    horizon: int,
    device: str | torch.device,
    config: SimulatorConfig,
) -> list[Flown]:
    """Fly the segments with these numbers, all at once, and keep what there is to learn."""
    tasks = [segments[flight].task for flight in flights]
    seen: list[Tensor] = []

    def keep(step: int, observation: Observation, action: Tensor, memory: MixtureMemory) -> None:
        assert memory.wanted is not None
        seen.append(memory.wanted)

    log = fly(simulator_for(tasks, device=device, config=config), tasks, policy, horizon=horizon, watch=keep)
    pose, wanted = log.pose_world.cpu(), torch.stack(seen, 1).cpu()
    return [
        Flown(flight, pose[row, :length].clone(), wanted[row, :length].clone())
        for row, (flight, length) in enumerate(zip(flights, log.num_steps.tolist(), strict=True))
    ]


def oracle_flights(demonstrations: Demonstrations, flights: Sequence[int]) -> list[Flown]:
    """The oracle's own flights with these numbers."""
    first = demonstrations.first_frame.tolist()
    pose, action = demonstrations.pose_world.cpu(), demonstrations.action.cpu()
    spans = [(flight, slice(first[flight], first[flight + 1])) for flight in flights]
    return [Flown(flight, pose[span].clone(), action[span].clone()) for flight, span in spans]


def _pack(memory: Sequence[Flown]) -> dict[str, Tensor]:
    return {
        "flights": torch.tensor([flown.flight for flown in memory]),
        "pose_world": torch.cat([flown.pose_world for flown in memory]),
        "action": torch.cat([flown.action for flown in memory]),
        "lengths": torch.tensor([len(flown.action) for flown in memory]),
    }


def _unpack(tensors: dict[str, Tensor]) -> list[Flown]:
    lengths = tensors["lengths"].tolist()
    poses, actions = (torch.split(tensors[name], lengths) for name in ("pose_world", "action"))
    return [Flown(*parts) for parts in zip(tensors["flights"].tolist(), poses, actions, strict=True)]


def _study(
    model: GSMNModel | ChaplotModel,
    memory: Sequence[Flown],
    demonstrations: Demonstrations,
    config: ImitationConfig,
    rate: float,
    generator: torch.Generator,
) -> dict[str, float]:
    """One pass over the memory with a fresh optimizer (authors' code), at a share of the learning rate; mean losses."""
    shown = flown_again(demonstrations, **_pack(memory))
    optimizer = make_optimizer(
        model, config.dagger_learning_rate, config.instruction_rate, config.weight_decay, shown.device
    )
    set_rate(optimizer, rate)
    model.train()
    steps = [
        take_step(model, optimizer, shown, config, select(shown, flights))
        for flights in draw_batches(shown, batch_limits(shown, config.frames_per_batch), generator)
    ]
    model.eval()
    return {name: float(torch.stack([losses[name] for losses in steps]).mean()) for name in steps[0]}


def train_dagger(
    agent: GSMN | Chaplot,
    segments: Sequence[Segment],
    demonstrations: Demonstrations,
    config: ImitationConfig,
    folder: Path,
    *,
    is_resumed: bool = False,
    watch: Callable[[int, int, dict[str, float]], None] = lambda step, num_steps, figures: None,
) -> None:
    """Train the agent's model on; `demonstrations` are the oracle's flights over the segments, in their order.

    Every iteration depends on the seed, its number and the memory alone, so a resumed run is the same. Checkpoints go
    to `folder`.
    """
    if len(segments) != len(demonstrations):
        raise ValueError(f"segments: got {len(segments)}, expected {len(demonstrations)}, one for each demonstration")
    model, path, done = agent.model, folder / CHECKPOINT, 0
    simulator, device = demonstrations.simulator.config, demonstrations.device
    first = torch.Generator().manual_seed(config.seed * 1_000_003 + 800_000)
    memory = oracle_flights(demonstrations, torch.randperm(len(segments), generator=first)[: config.memory].tolist())
    if is_resumed and path.exists():
        tensors = read_tensors(path)
        done, memory = int(tensors["done"]), _unpack(tensors)
        load_weights(model, {name[6:]: value for name, value in tensors.items() if name.startswith("model.")}, path)
    by_environment: dict[int, list[int]] = {}
    for place, segment in enumerate(segments):
        by_environment.setdefault(segment.environment, []).append(place)
    environments = sorted(by_environment)
    for iteration in range(done + 1, config.num_iterations + 1):
        generator = torch.Generator().manual_seed(config.seed * 1_000_003 + 800_000 + iteration)
        torch.manual_seed(config.seed * 1_000_003 + 800_000 + iteration)  # dropout, and the cells that are no goals
        policy = Mixture(uncompiled(agent), config.beta**iteration, simulator, generator)
        chosen = torch.randperm(len(environments), generator=generator)[: config.num_environments].tolist()
        flights = [flight for place in chosen for flight in by_environment[environments[place]]]
        memory = memory + collect(policy, flights, segments, config.horizon, device, simulator)
        rate = 0.5 * (1 + math.cos(math.pi * (iteration - 1) / config.num_iterations))
        figures = _study(model, memory, demonstrations, config, rate, generator)
        memory = pruned(memory, config.memory, generator)
        if not (math.isfinite(figures["loss"]) and is_finite(model)):
            raise blown_up(f"DAggerFM, iteration {iteration}", f"the loss is {figures['loss']}", path)
        watch(iteration - 1, config.num_iterations, figures | {"flights": float(len(memory))})
        if iteration % config.dagger_save_every == 0 or iteration == config.num_iterations:
            weights = {f"model.{name}": value for name, value in model.state_dict().items()}
            write_tensors(path, weights | _pack(memory) | {"done": torch.tensor(iteration)})
