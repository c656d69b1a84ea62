"""GSMN, a baseline (Blukis et al., 2018): a map like PVN's, filtered by the instruction, and flown by with no plan.

What is seen is mapped and grounded as in PVN. Every step the grounding map is turned into the drone's own frame; two
small filters made of the instruction find the goal on it, and a network goes from both to a velocity or a stop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from pvn.corpus.vocabulary import Vocabulary
from pvn.geometry import Camera, MapGrid
from pvn.model.instruction import InstructionEncoder, pad_tokens
from pvn.model.mapping import (
    AuxiliaryHeads,
    Frames,
    SemanticMemory,
    empty_memory,
    ground,
    grounding_layer,
    in_chunks,
    lay_on_ground,
    look_around,
    one_frame_each,
    seen_from_poses,
)
from pvn.model.pvn import pose_in_map, to_action
from pvn.model.resnet import CHANNELS, Block, ResNet, instance_norm, laid_out
from pvn.simulator.simulator import Observation, SimulatorConfig
from pvn.world.task import Task

KERNEL = 3
"""Edge of the goal filters, cells (authors' code)."""
DILATION = 3
"""Cells between the neighbours that the second goal filter looks at (authors' code)."""


@dataclass(frozen=True, kw_only=True)
class GSMNConfig:
    """Sizes of GSMN; where PVN has the same part, they are PVN's."""

    num_words: int
    """Ids of the vocabulary, the reserved ones included."""
    word_size: int = 20
    """Size of a word's embedding (authors' code)."""
    embedding_size: int = 30
    """Size of an instruction's embedding (authors' code)."""
    grounding_channels: int = 3
    """Channels of the grounding map (authors' code)."""
    goal_channels: int = 2
    """Channels of the goal map (authors' code)."""
    hidden: int = 64
    """Size of the action network's hidden layer (authors' code)."""
    dropout: float = 0.5
    """Share of the action network's inputs left out in training (authors' code)."""
    stop_threshold: float = 0.5
    """The drone stops where its chance to stop is above this (authors' code)."""
    leak: float = 0.2
    """Share of a new sight in what a cell remembers (authors' code); the first sight is copied, as in PVN."""
    grid: MapGrid = MapGrid()
    camera: Camera = Camera()


@dataclass(frozen=True)
class Decision:
    """Everything GSMN computed for Q steps."""

    semantic_map: Tensor
    """(Q, 32, S, S): accumulated features of the ground, in the frames of the flights' start poses."""
    grounding_map: Tensor
    """(Q, 3, S, S): how the instruction's words light up on that map."""
    goal_map: Tensor
    """(Q, 2, S, S): what the goal filters make of the grounding map, in the drones' own frames."""
    embedding: Tensor
    """(Q, E): of the instructions."""
    output: Tensor
    """(Q, 3): forward speed and yaw rate, as shares of the greatest, and stop's log-odds."""


def filter_each(value: Tensor, kernel: Tensor, num_out: int, dilation: int) -> Tensor:
    """Maps (Q, num_out, S, S): each of maps (Q, I, S, S) through its own filter (Q, num_out * I * 9), of length one."""
    rows, columns = value.shape[2:]
    padded = functional.pad(value, (dilation,) * 4)
    # Not functional.unfold, which on a GPU goes from map to map.
    shifts = [dilation * place for place in range(KERNEL)]
    around = torch.stack(
        [padded[:, :, down : down + rows, right : right + columns] for down in shifts for right in shifts], 2
    )
    around = around.flatten(1, 2).flatten(2)  # (Q, I * 9, S * S)
    kernel = functional.normalize(kernel, dim=-1).view(len(value), num_out, -1)  # (Q, num_out, I * 9)
    return (kernel.to(around.dtype) @ around).view(len(value), num_out, rows, columns)


class GoalFilter(nn.Module):
    """Two filters made of the instruction, which find its goal on the grounding map."""

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
    """A residual block that halves the maps, and one hidden layer whose inputs also go straight to the outputs."""

    def __init__(self, config: GSMNConfig) -> None:
        super().__init__()
        self.dropout = config.dropout
        channels = config.goal_channels + config.grounding_channels
        num_in = channels * ((config.grid.size + 1) // 2) ** 2
        self.block = Block(2, channels)
        self.hidden = nn.Linear(num_in, config.hidden)
        self.output = nn.Linear(num_in + config.hidden, 3)
        for convolution in (self.block.first, self.block.second):
            nn.init.kaiming_uniform_(convolution.weight)
            nn.init.zeros_(convolution.bias)  # type: ignore[arg-type]
        nn.init.orthogonal_(self.hidden.weight, gain=nn.init.calculate_gain("leaky_relu"))
        # A tenth, where the authors' code has 1.4: with that the first outputs are ten times too large, and what is
        # learned at first is to make them small (docs/baselines.md).
        nn.init.orthogonal_(self.output.weight, gain=0.1)
        for layer in (self.hidden, self.output):
            nn.init.zeros_(layer.bias)

    def forward(self, maps: Tensor) -> Tensor:
        """Outputs (Q, 3), as in Decision, from maps (Q, 5, S, S) in the drones' frames."""
        value = functional.dropout(self.block(maps).flatten(1), self.dropout, self.training)
        hidden = functional.leaky_relu(self.hidden(value))
        return self.output(torch.cat([value, hidden], -1))


class GSMNModel(nn.Module):
    """GSMN's networks. They keep nothing between calls: memory goes in and comes out."""

    places: Tensor
    """Ground points (S * S, 2) of the cells, map frame."""

    def __init__(self, config: GSMNConfig) -> None:
        super().__init__()
        self.config = config
        self.resnet = ResNet()
        self.instruction = InstructionEncoder(config.num_words, config.word_size, config.embedding_size)
        self.grounding = grounding_layer(config.embedding_size, config.grounding_channels)
        self.goal = GoalFilter(config)
        self.action = ActionNetwork(config)
        self.heads = AuxiliaryHeads(config.embedding_size, config.grounding_channels)
        self.goal_head = nn.Linear(config.goal_channels, 1)
        self.register_buffer("places", config.grid.places(), persistent=False)
        self.frames_at_once: int | None = None

    def compile_for(self, frames_at_once: int) -> None:
        """Compile the image encoder for batches of this size; larger and smaller ones are cut and filled up."""
        self.frames_at_once = frames_at_once
        self.resnet.compile(dynamic=False)

    def begin(self, num_flights: int) -> SemanticMemory:
        """Memory of flights that have seen nothing."""
        return empty_memory(num_flights, self.places)

    def see(self, frames: Frames, memory: SemanticMemory) -> SemanticMemory:
        """Memory (Q rows) after the frames that are followed by a decision."""
        features = in_chunks(self.resnet, self.frames_at_once, frames.image)
        return lay_on_ground(
            features, frames, seen_from_poses(frames, self.config.camera), memory, self.places, self.config.leak
        )

    def decide(self, memory: SemanticMemory, pose_map: Tensor, embedding: Tensor) -> Decision:
        """What to do at poses (Q, 3), x, y, yaw, map frame, with Q memories and embeddings (Q, E)."""
        size = self.config.grid.size
        grounded = ground(memory.value, self.grounding(embedding))
        grounding_map = grounded.view(-1, size, size, self.config.grounding_channels).permute(0, 3, 1, 2)
        around = laid_out(look_around(grounding_map.float(), pose_map, self.places, self.config.grid))
        goal_map = self.goal(around, embedding)
        output = self.action(torch.cat([goal_map.to(around.dtype), around], 1))
        return Decision(
            semantic_map=memory.value.view(-1, size, size, CHANNELS).permute(0, 3, 1, 2),
            grounding_map=grounding_map,
            goal_map=goal_map,
            embedding=embedding,
            output=output.float(),
        )

    def forward(self, frames: Frames, tokens: Tensor) -> Decision:
        """What to do at every frame of whole flights with instructions of word ids (B, N).

        Every frame is followed by a decision: row is 0 to K - 1, but for frames at the end that fill a batch up.
        """
        memory = self.see(frames, self.begin(len(frames.origin)))
        pose_map = pose_in_map(frames.pose_world, frames.origin[frames.flight])
        return self.decide(memory, pose_map, self.instruction(tokens)[frames.flight])


@dataclass(frozen=True)
class GSMNMemory:
    """What B flights remember between steps."""

    origin: Tensor
    """Start poses (B, 3), x, y, yaw, field frame."""
    embedding: Tensor
    """Of the instructions (B, E)."""
    semantic: SemanticMemory
    decision: Decision | None
    """The last one; None before the first step."""


class GSMN:
    """A policy made of trained networks."""

    def __init__(
        self, model: GSMNModel, vocabulary: Vocabulary, *, simulator: SimulatorConfig = SimulatorConfig()
    ) -> None:
        self.model, self.vocabulary, self.simulator = model.eval(), vocabulary, simulator

    @torch.inference_mode()
    def begin(self, tasks: Sequence[Task], device: torch.device) -> GSMNMemory:
        """Read the instructions; nothing is seen yet."""
        tokens = pad_tokens([self.vocabulary.encode(task.instruction) for task in tasks]).to(device)
        return GSMNMemory(
            origin=torch.tensor([task.start for task in tasks], dtype=torch.float32, device=device),
            embedding=self.model.instruction(tokens),
            semantic=self.model.begin(len(tasks)),
            decision=None,
        )

    @torch.inference_mode()
    def act(self, observation: Observation, memory: GSMNMemory) -> tuple[Tensor, GSMNMemory]:
        """Map what is seen, look around on the map, and fly."""
        frames = one_frame_each(observation.image, observation.pose_world, memory.origin)
        semantic = self.model.see(frames, memory.semantic)
        pose_map = pose_in_map(observation.pose_world, memory.origin)
        decision = self.model.decide(semantic, pose_map, memory.embedding)
        action = to_action(decision.output, self.model.config.stop_threshold, self.simulator)
        return action, replace(memory, semantic=semantic, decision=decision)
