"""Stage 1: from pictures, poses and an instruction to where the drone should fly and where it should stop.

Two distributions over the cells of a map in the start pose's frame: the trajectory's and the goal's.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pvn.corpus.vocabulary import PADDING
from pvn.geometry import Camera, MapGrid, overhead_homography
from pvn.model.instruction import InstructionEncoder
from pvn.model.lingunet import LingUNet
from pvn.model.mapping import (
    AuxiliaryHeads,
    Frames,
    SemanticMemory,
    empty_memory,
    ground,
    grounding_layer,
    in_chunks,
    lay_on_ground,
    seen_from_poses,
)
from pvn.model.resnet import CHANNELS, ResNet
from pvn.world.layout import FIELD_SIZE

TRAJECTORY, GOAL = 0, 1
OVERHEAD_MARGIN = 1.0
"""Metres around the field that a view from above shows, which has the fences in it."""


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
    uses_instruction: bool = True
    """Whether the instruction is read; without it: the paper's "no u"."""
    overhead_px: int | None = None
    """Edge of a view from above, pixels, that shows the whole field at once instead of the camera's pictures: the
    paper's full observation; None: the camera's."""


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


class VisitationModel(nn.Module):
    """Stage 1. It keeps nothing between calls: memory goes in and comes out."""

    places: Tensor
    """Ground points (S * S, 2) of the cells, map frame."""

    def __init__(self, config: VisitationConfig) -> None:
        super().__init__()
        self.config = config
        self.resnet = ResNet()
        self.instruction = InstructionEncoder(config.num_words, config.word_size, config.embedding_size)
        self.grounding = grounding_layer(config.embedding_size, config.grounding_channels)
        self.lingunet = LingUNet(config.grounding_channels + CHANNELS, config.embedding_size)
        self.heads = AuxiliaryHeads(config.embedding_size, config.grounding_channels)
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
        return empty_memory(num_flights, self.places)

    def see(self, frames: Frames, memory: SemanticMemory) -> SemanticMemory:
        """Memory (Q rows) after the frames that are followed by a prediction."""
        camera, across = self.config.camera, self.config.overhead_px
        expected = (camera.height, camera.width) if across is None else (across, across)
        if tuple(frames.image.shape[1:3]) != expected:
            raise ValueError(
                f"picture: got {frames.image.shape[2]}x{frames.image.shape[1]} pixels, expected "
                f"{expected[1]}x{expected[0]}, which the agent was trained with; make the simulator with its camera"
            )
        if across is None:
            homography = seen_from_poses(frames, camera)
        else:
            homography = overhead_homography(frames.of_flights(frames.origin), FIELD_SIZE, OVERHEAD_MARGIN, across)
        features = in_chunks(self.resnet, self.frames_at_once, frames.image)
        return lay_on_ground(features, frames, homography, memory, self.places, self.config.leak)

    def read(self, tokens: Tensor) -> Tensor:
        """Embeddings (B, E) of instructions of word ids (B, N)."""
        return self.instruction(tokens if self.config.uses_instruction else torch.full_like(tokens, PADDING))  # type: ignore[no-any-return]

    def predict(self, memory: SemanticMemory, embedding: Tensor) -> Visitation:
        """Distributions for Q memories and embeddings (Q, E)."""
        size = self.config.grid.size
        value = memory.value
        grounded = ground(value, self.grounding(embedding))
        both = torch.cat([grounded, value], -1).view(len(value), size, size, -1).permute(0, 3, 1, 2)
        scores = in_chunks(self.lingunet, self.maps_at_once, both, embedding).float()
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
        return self.predict(memory, self.read(tokens)[frames.flight])
