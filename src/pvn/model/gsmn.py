"""GSMN, a baseline (Blukis et al., 2018): a map like PVN's, filtered by the instruction; no prediction.

Pictures are mapped and grounded as in PVN. At every step the grounding map is transformed to the drone's own frame; two
small filters generated from the instruction find the goal on it, and a network outputs a velocity or a stop from both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from pvn.corpus.vocabulary import Vocabulary
from pvn.geometry import Camera, MapGrid, pose_in_map
from pvn.model.agent import Agent, AgentMaps, config_from_json
from pvn.model.execution import Decision, to_action
from pvn.model.instruction import EncodedInstructions
from pvn.model.mapping import (
    AuxiliaryHeads,
    Frames,
    MappingConfig,
    MappingModel,
    SemanticMemory,
    one_frame_each,
    to_drone_frame,
)
from pvn.model.resnet import Block, in_device_layout, instance_norm
from pvn.simulator.interface import Observation, SimulatorConfig
from pvn.world.task import Task

KERNEL = 3
"""Edge of the goal filters, cells (authors' code)."""
DILATION = 3
"""Dilation of the second goal filter, cells (authors' code)."""


@dataclass(frozen=True, kw_only=True)
class GSMNConfig(MappingConfig):
    """Sizes of GSMN; where PVN has the same part, they are PVN's."""

    goal_channels: int = 2
    """Channels of the goal map (authors' code)."""
    hidden: int = 64
    """Size of the action network's hidden layer (authors' code)."""
    dropout: float = 0.5
    """Fraction of the action network's inputs dropped in training (authors' code)."""
    stop_threshold: float = 0.5
    """The drone stops when its stop probability exceeds this (authors' code)."""


def filter_each(value: Tensor, kernel: Tensor, num_out: int, dilation: int) -> Tensor:
    """Maps (Q, num_out, S, S): each of maps (Q, I, S, S) through its own filter (Q, num_out * I * 9), of length one."""
    rows, columns = value.shape[2:]
    padded = functional.pad(value, (dilation,) * 4)
    # Not functional.unfold, which on a GPU handles one map after the other.
    shifts = [dilation * place for place in range(KERNEL)]
    around = torch.stack(
        [padded[:, :, down : down + rows, right : right + columns] for down in shifts for right in shifts], 2
    )
    around = around.flatten(1, 2).flatten(2)  # (Q, I * 9, S * S)
    kernel = functional.normalize(kernel, dim=-1).view(len(value), num_out, -1)  # (Q, num_out, I * 9)
    return (kernel.to(around.dtype) @ around).view(len(value), num_out, rows, columns)


class GoalFilter(nn.Module):
    """Two filters, generated from the instruction, that find its goal on the grounding map."""

    def __init__(self, config: GSMNConfig) -> None:
        super().__init__()
        grounding, goal = config.grounding_channels, config.goal_channels
        self.sizes = [grounding * grounding * KERNEL**2, goal * grounding * KERNEL**2]
        self.num_out = grounding, goal
        self.kernels = nn.Linear(config.embedding_size, sum(self.sizes))

    def forward(self, value: Tensor, embedding: Tensor) -> Tensor:
        """Goal maps (Q, 2, S, S) of grounding maps (Q, 3, S, S), both in the drones' frames, and embeddings (Q, E)."""
        first, second = torch.split(torch.sigmoid(self.kernels(embedding)), self.sizes, dim=-1)
        value = instance_norm(functional.leaky_relu(filter_each(value, first, self.num_out[0], 1)))
        return filter_each(value, second, self.num_out[1], DILATION)


class ActionNetwork(nn.Module):
    """A residual block that halves the maps, and one hidden layer with a skip connection."""

    def __init__(self, config: GSMNConfig) -> None:
        super().__init__()
        self.dropout = nn.Dropout(config.dropout)
        channels = config.goal_channels + config.grounding_channels
        num_in = channels * ((config.grid.size + 1) // 2) ** 2
        self.block = Block(2, channels)
        self.hidden = nn.Linear(num_in, config.hidden)
        self.output = nn.Linear(num_in + config.hidden, 3)
        for convolution in (self.block.first, self.block.second):
            nn.init.kaiming_uniform_(convolution.weight)
            nn.init.zeros_(convolution.bias)  # type: ignore[arg-type]
        nn.init.orthogonal_(self.hidden.weight, gain=nn.init.calculate_gain("leaky_relu"))
        # A gain of 0.1, where the authors' code has 1.4: with that the first outputs are ten times too large, and the
        # network first learns to make them small (docs/baselines.md).
        nn.init.orthogonal_(self.output.weight, gain=0.1)
        for layer in (self.hidden, self.output):
            nn.init.zeros_(layer.bias)

    def forward(self, maps: Tensor) -> Tensor:
        """Outputs (Q, 3), as in Decision, from maps (Q, 5, S, S) in the drones' frames."""
        value = self.dropout(self.block(maps).flatten(1))
        hidden = functional.leaky_relu(self.hidden(value))
        return self.output(torch.cat([value, hidden], -1))


class GSMNModel(MappingModel):
    """GSMN's networks. Memory is passed in and returned."""

    config: GSMNConfig

    def __init__(self, config: GSMNConfig) -> None:
        super().__init__(config)
        self.goal = GoalFilter(config)
        self.action = ActionNetwork(config)
        self.heads = AuxiliaryHeads(config.embedding_size, config.grounding_channels, config.goal_channels)

    def decide(self, memory: SemanticMemory, pose_map: Tensor, instructions: EncodedInstructions) -> Decision:
        """Decisions at poses (Q, 3), x, y, yaw, map frame, with Q memories and embeddings (Q, E)."""
        maps = self.ground(memory, instructions)
        around = in_device_layout(to_drone_frame(maps.grounding_map.float(), pose_map, self.places, self.config.grid))
        goal_map = self.goal(around, instructions.embedding)
        output = self.action(torch.cat([goal_map.to(around.dtype), around], 1))
        return Decision(output.float(), maps, goal_map)

    def forward(self, frames: Frames, tokens: Tensor) -> Decision:
        """Decisions at every frame of whole flights with instructions of word ids (B, N).

        Every frame is followed by a decision: row is 0 to K - 1, except for padding frames at the end.
        """
        memory = self.update_map(frames, self.begin(len(frames.origin)))
        pose_map = pose_in_map(frames.pose_world, frames.origin[frames.flight])
        return self.decide(memory, pose_map, self.encode(tokens)[frames.flight])


@dataclass(frozen=True)
class GSMNMemory:
    """What B flights remember between steps."""

    origin: Tensor
    """Start poses (B, 3), x, y, yaw, field frame."""
    instructions: EncodedInstructions
    """The B instructions."""
    semantic: SemanticMemory
    decision: Decision | None
    """The last one; None before the first step."""

    @property
    def output(self) -> Tensor | None:
        """The last output (B, 3)."""
        return None if self.decision is None else self.decision.output


class GSMN(Agent):
    """An agent made of GSMN's networks."""

    system = "gsmn"
    model: GSMNModel
    stop_threshold: float

    def __init__(
        self, model: GSMNModel, vocabulary: Vocabulary, *, simulator: SimulatorConfig = SimulatorConfig()
    ) -> None:
        super().__init__(model, vocabulary, simulator, model.config.stop_threshold)

    @classmethod
    def untrained(cls, vocabulary: Vocabulary, *, grid: MapGrid, camera: Camera) -> Self:
        """An agent before training."""
        return cls(GSMNModel(GSMNConfig(num_words=len(vocabulary), grid=grid, camera=camera)), vocabulary)

    @classmethod
    def rebuild(cls, description: Mapping[str, Any], vocabulary: Vocabulary) -> Self:
        """An untrained GSMN of the described sizes."""
        return cls(GSMNModel(config_from_json(GSMNConfig, description["model"])), vocabulary)

    @torch.inference_mode()
    def begin(self, tasks: Sequence[Task], device: torch.device) -> GSMNMemory:
        """Encode the instructions; the map is empty."""
        return GSMNMemory(
            origin=torch.tensor([task.start for task in tasks], dtype=torch.float32, device=device),
            instructions=self.model.encode(self.tokens(tasks, device)),
            semantic=self.model.begin(len(tasks)),
            decision=None,
        )

    @torch.inference_mode()
    def act(self, observation: Observation, memory: GSMNMemory) -> tuple[Tensor, GSMNMemory]:
        """Update the map, and decide from what it shows around the drone."""
        frames = one_frame_each(observation.image, observation.pose_world, memory.origin)
        semantic = self.model.update_map(frames, memory.semantic)
        pose_map = pose_in_map(observation.pose_world, memory.origin)
        decision = self.model.decide(semantic, pose_map, memory.instructions)
        action = to_action(decision.output, self.stop_threshold, self.simulator)
        return action, replace(memory, semantic=semantic, decision=decision)

    def maps(self, memory: GSMNMemory) -> AgentMaps | None:
        """The map as it is now; GSMN predicts no distributions."""
        maps = None if memory.decision is None else memory.decision.maps
        return None if maps is None else AgentMaps(maps.semantic_map, maps.is_known, maps.grounding_map, None)
