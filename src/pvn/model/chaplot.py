"""Chaplot, a baseline: gated attention (Chaplot et al., 2018), with velocities as actions.

The instruction gates the channels of a convolutional image encoder; a recurrent network and an embedding of the step's
number decide. There is no map and no pose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from pvn.corpus.vocabulary import Vocabulary
from pvn.geometry import Camera, MapGrid
from pvn.model.agent import Agent, config_from_json
from pvn.model.execution import Decision, to_action
from pvn.model.instruction import InstructionEncoder
from pvn.model.mapping import Frames, InstructedModel, in_chunks
from pvn.model.resnet import in_device_layout, normalised
from pvn.simulator.interface import Observation, SimulatorConfig
from pvn.world.task import Task

CONVOLUTIONS = ((3, 128, 8, 4), (128, 64, 4, 2), (64, 64, 4, 2))
"""Channels in and out, edge and stride of each; no padding (authors' code)."""
IMAGE_CHANNELS = 64
"""Channels of the image encoder, which the instruction gates."""


@dataclass(frozen=True, kw_only=True)
class ChaplotConfig:
    """Sizes of the gated-attention baseline."""

    num_words: int
    """Ids of the vocabulary, the reserved ones included."""
    word_size: int = 20
    """Size of a word's embedding: PVN's, as in the only one of the authors' configurations that sets it."""
    embedding_size: int = 30
    """Size of an instruction's embedding: PVN's, likewise."""
    hidden: int = 256
    """Size of the recurrent network and of the layer before it (authors' code)."""
    time_size: int = 32
    """Size of a step number's embedding (authors' code)."""
    num_times: int = 220
    """Step numbers with separate embeddings; later steps share the last one (authors' code)."""
    stop_threshold: float = 0.5
    """The drone stops when its stop probability exceeds this (authors' code)."""
    camera: Camera = Camera()

    @property
    def num_image_features(self) -> int:
        """Features of a picture, all channels."""
        height, width = self.camera.height, self.camera.width
        for _, _, edge, stride in CONVOLUTIONS:
            height, width = (height - edge) // stride + 1, (width - edge) // stride + 1
        return IMAGE_CHANNELS * height * width


class PictureEncoder(nn.Module):
    """Three convolutions with rectifiers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv2d(num_in, num_out, edge, stride) for num_in, num_out, edge, stride in CONVOLUTIONS
        )

    def forward(self, image: Tensor) -> Tensor:
        """Features (K, 64, 2, 6) of pictures (K, 72, 128, 3) uint8."""
        value = in_device_layout(normalised(image))
        for layer in self.layers:
            value = functional.relu(layer(value))
        return value


class ChaplotModel(InstructedModel):
    """The networks. Memory is passed in and returned."""

    def __init__(self, config: ChaplotConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = PictureEncoder()
        self.instruction = InstructionEncoder(config.num_words, config.word_size, config.embedding_size)
        self.gate = nn.Linear(config.embedding_size, IMAGE_CHANNELS)
        self.joined = nn.Linear(config.num_image_features, config.hidden)
        self.lstm = nn.LSTM(config.hidden, config.hidden, batch_first=True)
        self.time = nn.Embedding(config.num_times, config.time_size)
        self.output = nn.Linear(config.hidden + config.time_size, 3)
        for part in (*self.encoder.layers, self.gate, self.joined, self.lstm, self.output):
            for name, parameter in part.named_parameters():
                nn.init.zeros_(parameter) if "bias" in name else nn.init.xavier_uniform_(parameter)
        self.heads = None

    def compiled_parts(self) -> dict[str, nn.Module]:
        """The image encoder."""
        return {"encoder": self.encoder}

    def run_part(self, part: str) -> Tensor:
        """Features of black pictures."""
        assert self.frames_at_once is not None
        shape = (self.frames_at_once, self.config.camera.height, self.config.camera.width, 3)
        image = torch.zeros(shape, dtype=torch.uint8, device=self.gate.weight.device)
        return self.encoder(image)  # type: ignore[no-any-return]

    def attend(self, image: Tensor, gate: Tensor) -> Tensor:
        """Encodings (K, hidden) of pictures (K, H, W, 3) uint8, seen through gates (K, 64)."""
        seen = in_chunks(self.encoder, self.frames_at_once, image)
        return functional.relu(self.joined((seen * gate[:, :, None, None]).flatten(1)))

    def gate_channels(self, tokens: Tensor) -> Tensor:
        """Gates (B, 64), 0 to 1, of instructions of word ids (B, N)."""
        return torch.sigmoid(self.gate(self.instruction(tokens).embedding))

    def decide(self, state: Tensor, step: Tensor) -> Tensor:
        """Outputs (K, 3), as in Decision, of states (K, hidden) at steps (K,) int64."""
        time = self.time(step.clamp(max=self.config.num_times - 1))
        return self.output(torch.cat([state, time.to(state.dtype)], -1)).float()

    def forward(self, frames: Frames, tokens: Tensor) -> Decision:
        """Decisions at every frame of whole flights with instructions of word ids (B, N)."""
        num_flights, num_frames, longest = len(frames.origin), len(frames.image), frames.longest
        flight = frames.of_flights(torch.arange(num_flights, device=tokens.device))  # (K,)
        step = torch.arange(num_frames, device=tokens.device) - frames.first_frame[flight]
        # Padding frames belong to a padding flight, which may be longer; they share its last step.
        step = step.clamp(max=longest - 1)
        seen = self.attend(frames.image, self.gate_channels(tokens)[flight])
        side_by_side = seen.new_zeros((num_flights, longest, seen.shape[-1])).index_put((flight, step), seen)
        states, _ = self.lstm(side_by_side)  # (B, longest, hidden); padding comes last and cannot change a flight
        return Decision(self.decide(states[flight, step], step))


@dataclass(frozen=True)
class ChaplotMemory:
    """What B flights remember between steps."""

    gate: Tensor
    """Gates (B, 64), 0 to 1, of the instructions."""
    state: Tensor
    """The recurrent network's state (B, hidden)."""
    cell: Tensor
    """Its cells (B, hidden)."""
    output: Tensor | None
    """The last output (B, 3); None before the first step."""
    step: int


class Chaplot(Agent):
    """An agent made of the networks; it has no maps."""

    system = "chaplot"
    model: ChaplotModel
    stop_threshold: float

    def __init__(
        self, model: ChaplotModel, vocabulary: Vocabulary, *, simulator: SimulatorConfig = SimulatorConfig()
    ) -> None:
        super().__init__(model, vocabulary, simulator, model.config.stop_threshold)

    @classmethod
    def untrained(cls, vocabulary: Vocabulary, *, grid: MapGrid, camera: Camera) -> Self:
        """An agent before training; the grid is not used."""
        return cls(ChaplotModel(ChaplotConfig(num_words=len(vocabulary), camera=camera)), vocabulary)

    @classmethod
    def rebuild(cls, description: Mapping[str, Any], vocabulary: Vocabulary) -> Self:
        """An untrained Chaplot of the described sizes."""
        return cls(ChaplotModel(config_from_json(ChaplotConfig, description["model"])), vocabulary)

    @torch.inference_mode()
    def begin(self, tasks: Sequence[Task], device: torch.device) -> ChaplotMemory:
        """Encode the instructions."""
        gate = self.model.gate_channels(self.tokens(tasks, device))
        nothing = torch.zeros((len(tasks), self.model.config.hidden), device=device)
        return ChaplotMemory(gate=gate, state=nothing, cell=nothing, output=None, step=0)

    @torch.inference_mode()
    def act(self, observation: Observation, memory: ChaplotMemory) -> tuple[Tensor, ChaplotMemory]:
        """Encode the picture through the instruction's gate, update the recurrent state, and decide."""
        seen = self.model.attend(observation.image, memory.gate)
        states, (state, cell) = self.model.lstm(seen[:, None], (memory.state[None], memory.cell[None]))
        # The authors' code counts every step of a flight twice, but once in training; here it counts once in both.
        step = torch.full((len(seen),), memory.step, device=seen.device)
        output = self.model.decide(states[:, 0], step)
        action = to_action(output, self.stop_threshold, self.simulator)
        return action, replace(memory, state=state[0], cell=cell[0], output=output, step=memory.step + 1)
