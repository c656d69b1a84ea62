"""Stage 1: from pictures, poses and an instruction to where the drone should fly and where it should stop.

Two distributions over the cells of a map in the start pose's frame: the trajectory's and the goal's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from pvn.geometry import Camera, MapGrid, ground_homography
from pvn.model.accumulation import accumulate
from pvn.model.instruction import InstructionEncoder
from pvn.model.lingunet import LingUNet
from pvn.model.resnet import CHANNELS, STRIDE, ResNet
from pvn.world.landmarks import LANDMARK_NAMES

TRAJECTORY, GOAL = 0, 1
MENTIONED_LOG_ODDS = -3.1
"""An instruction mentions 2.8 of the 63 classes."""


@dataclass(frozen=True, kw_only=True)
class VisitationConfig:
    """Sizes of stage 1."""

    num_words: int
    """Ids of the vocabulary, the reserved ones included."""
    word_size: int = 20
    """Size of a word's embedding (authors' code)."""
    embedding_size: int = 30
    """Size of an instruction's embedding (authors' code)."""
    grounding_channels: int = 3
    """Channels of the grounding map (authors' code)."""
    leak: float = 0.2
    """Share of a new sight in what a cell remembers (authors' code); the first sight is copied."""
    grid: MapGrid = MapGrid()
    camera: Camera = Camera()


@dataclass(frozen=True)
class Frames:
    """Pictures of B flights end to end, and which of them are followed by a prediction."""

    image: Tensor
    """Pictures (K, H, W, 3) uint8; those of flight b are first_frame[b] to first_frame[b + 1]."""
    pose_world: Tensor
    """Poses (K, 6), field frame, from which they were taken."""
    origin: Tensor
    """Poses (B, 3), x, y, yaw, in whose frames the flights' maps are: the start poses."""
    first_frame: Tensor
    """(B + 1,) int64."""
    row: Tensor
    """(K,) int64: the prediction that follows the frame, -1 for none."""
    flight: Tensor
    """(Q,) int64: the flight each prediction is for."""


@dataclass(frozen=True)
class SemanticMemory:
    """What B flights remember of what they saw."""

    value: Tensor
    """(B, S * S, 32) float32, zero where nothing was seen."""
    is_known: Tensor
    """(B, S * S) bool: cells that were seen."""


@dataclass(frozen=True)
class Visitation:
    """Everything stage 1 computed for Q predictions; maps are in the frames of the flights' start poses."""

    semantic_map: Tensor
    """(Q, 32, S, S): accumulated features of the ground."""
    is_known: Tensor
    """(Q, S, S) bool: cells that were ever in view."""
    grounding_map: Tensor
    """(Q, 3, S, S): how the instruction's words light up on the map."""
    embedding: Tensor
    """(Q, E): of the instructions."""
    log_probability: Tensor
    """(Q, 2, S, S): logarithms of the trajectory's and the goal's distribution."""

    @property
    def probability(self) -> Tensor:
        """(Q, 2, S, S): both distributions; each sums to one."""
        return self.log_probability.exp()


class AuxiliaryHeads(nn.Module):
    """What the auxiliary losses read off the maps and the embedding (paper, section 4.3)."""

    def __init__(self, config: VisitationConfig) -> None:
        super().__init__()
        self.landmark = nn.Linear(CHANNELS, len(LANDMARK_NAMES))
        self.grounded = nn.Linear(config.grounding_channels, 1)
        self.mentioned = nn.Linear(config.embedding_size, len(LANDMARK_NAMES))
        # Begin at the odds that a class is mentioned. From even odds the quickest way there is one large embedding for
        # every sentence, and a saturated LSTM learns no words any more (docs/log.md).
        nn.init.constant_(self.mentioned.bias, MENTIONED_LOG_ODDS)


def _in_chunks(function: Callable[..., Tensor], size: int | None, *values: Tensor) -> Tensor:
    """function(*values) over the first axis, `size` rows at a time, the last ones filled up; None: all at once.

    Compiled code is fastest for shapes it has seen.
    """
    count = len(values[0])
    if size is None or count == size:
        return function(*values)
    padded = [torch.cat([value, value.new_zeros((-count % size, *value.shape[1:]))]) for value in values]
    parts = zip(*(torch.split(value, size) for value in padded), strict=True)
    return torch.cat([function(*part) for part in parts])[:count]


class VisitationModel(nn.Module):
    """Stage 1. It keeps nothing between calls: memory goes in and comes out."""

    places: Tensor
    """Ground points (S * S, 2) of the cells, map frame."""

    def __init__(self, config: VisitationConfig) -> None:
        super().__init__()
        self.config = config
        self.resnet = ResNet()
        self.instruction = InstructionEncoder(config.num_words, config.word_size, config.embedding_size)
        self.grounding = nn.Linear(config.embedding_size, config.grounding_channels * CHANNELS)
        nn.init.normal_(self.grounding.weight, std=0.001)
        nn.init.zeros_(self.grounding.bias)
        self.lingunet = LingUNet(config.grounding_channels + CHANNELS, config.embedding_size)
        self.heads = AuxiliaryHeads(config)
        self.register_buffer("places", config.grid.places(), persistent=False)
        self.frames_at_once: int | None = None
        self.maps_at_once: int | None = None

    def compile_for(self, frames_at_once: int, maps_at_once: int) -> None:
        """Compile the two networks for batches of these sizes; larger and smaller ones are cut and filled up."""
        self.frames_at_once, self.maps_at_once = frames_at_once, maps_at_once
        self.resnet.compile(dynamic=False)
        self.lingunet.compile(dynamic=False)

    def begin(self, num_flights: int) -> SemanticMemory:
        """Memory of flights that have seen nothing."""
        cells, device = self.config.grid.size**2, self.places.device
        return SemanticMemory(
            torch.zeros((num_flights, cells, CHANNELS), device=device),
            torch.zeros((num_flights, cells), dtype=torch.bool, device=device),
        )

    def see(self, frames: Frames, memory: SemanticMemory) -> SemanticMemory:
        """Memory (Q rows) after the frames that are followed by a prediction."""
        camera, (height, width) = self.config.camera, frames.image.shape[1:3]
        if (height, width) != (camera.height, camera.width):
            raise ValueError(
                f"picture: got {width}x{height} pixels, expected {camera.width}x{camera.height}, which the agent was "
                "trained with; make the simulator with the agent's camera"
            )
        features = _in_chunks(self.resnet, self.frames_at_once, frames.image)
        features = features.permute(0, 2, 3, 1).float().contiguous()
        lengths = frames.first_frame.diff()
        origin = frames.origin.repeat_interleave(lengths, dim=0, output_size=len(frames.image))
        homography = ground_homography(frames.pose_world, origin, camera)
        homography[:, :2] /= STRIDE  # from pixels to features
        value, is_known = accumulate(
            features, homography.flatten(1).float(), frames.first_frame, frames.row, len(frames.flight),
            self.places, self.config.leak, memory.value, memory.is_known,
        )  # fmt: skip
        return SemanticMemory(value, is_known)

    def predict(self, memory: SemanticMemory, embedding: Tensor) -> Visitation:
        """Distributions for Q memories and embeddings (Q, E)."""
        size = self.config.grid.size
        kernel = functional.normalize(torch.sigmoid(self.grounding(embedding)), dim=-1)
        kernel = kernel.view(-1, self.config.grounding_channels, CHANNELS)
        value = memory.value
        grounded = functional.leaky_relu(value @ kernel.transpose(1, 2).to(value.dtype))
        both = torch.cat([grounded, value], -1).view(len(value), size, size, -1).permute(0, 3, 1, 2)
        scores = _in_chunks(self.lingunet, self.maps_at_once, both, embedding).float()
        return Visitation(
            semantic_map=both[:, -CHANNELS:],
            is_known=memory.is_known.view(-1, size, size),
            grounding_map=both[:, :-CHANNELS],
            embedding=embedding,
            log_probability=scores.flatten(2).log_softmax(-1).view(-1, 2, size, size),
        )

    def forward(self, frames: Frames, tokens: Tensor) -> Visitation:
        """Predictions for whole flights with instructions of word ids (B, N)."""
        memory = self.see(frames, self.begin(len(frames.origin)))
        return self.predict(memory, self.instruction(tokens)[frames.flight])
