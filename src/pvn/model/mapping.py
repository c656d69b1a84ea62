"""Image encoder, semantic map and grounding, shared by PVN and GSMN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from pvn.checks import check_limits
from pvn.geometry import Camera, MapGrid, ground_homography, pose_in_map
from pvn.model.accumulation import accumulate
from pvn.model.cpu_inference import encode_on_cpu
from pvn.model.instruction import EncodedInstructions, InstructionEncoder, SlotEncoder
from pvn.model.resnet import CHANNELS, STRIDE, ResNet
from pvn.world.landmarks import LANDMARK_NAMES

HEADS = 2
"""Heads of the cells' attention to words."""
MENTIONED_LOG_ODDS = -3.1
"""Log-odds that a class is mentioned: an instruction mentions 2.8 of the 63 classes."""


@dataclass(frozen=True, kw_only=True)
class MappingSizes:
    """Sizes of encoders and grounding that a recipe chooses; the defaults are the paper's."""

    word_size: int = 20
    """Size of a word's embedding (authors' code)."""
    embedding_size: int = 30
    """Size of an instruction's embedding (authors' code)."""
    num_slots: int | None = None
    """Slots of the embedding, each with an attention over the words; None: the last state of one LSTM (paper)."""
    lstm_size: int = 128
    """With slots: size of the LSTMs that read the instruction in both directions."""
    word_dropout: float = 0.0
    """With slots: fraction of words that training reads as unknown."""
    grounding_channels: int = 3
    """Channels of the grounding map that are responses to filters made from the embedding (authors' code)."""
    attention_channels: int = 0
    """Further channels of the grounding map, in which each cell attends to the instruction's words; 0: none (paper)."""
    has_quick_encoder: bool = False
    """Whether the image encoder begins at half of the picture's size; if not, it is the paper's."""

    def __post_init__(self) -> None:
        check_limits(self, "word_size embedding_size num_slots lstm_size grounding_channels", 1)
        check_limits(self, "attention_channels", 0)
        check_limits(self, "word_dropout", 0, 1)

    @property
    def grounded_channels(self) -> int:
        """Channels of the grounding map."""
        return self.grounding_channels + self.attention_channels


@dataclass(frozen=True, kw_only=True)
class MappingConfig(MappingSizes):
    """Sizes of image encoder, map, instruction encoder and grounding."""

    num_words: int
    """Ids of the vocabulary, the reserved ones included."""
    leak: float = 0.2
    """Weight of a new observation in what a cell remembers (authors' code); the first one is copied."""
    grid: MapGrid = MapGrid()
    camera: Camera = Camera()


@dataclass(frozen=True)
class Frames:
    """Pictures of B flights, end to end, and which of them are followed by a prediction."""

    image: Tensor
    """Pictures (K, H, W, 3) uint8; flight b has first_frame[b] to first_frame[b + 1]."""
    pose_world: Tensor
    """Poses (K, 6), field frame, from which they were taken."""
    origin: Tensor
    """Start poses (B, 3), x, y, yaw, field frame; the flights' maps are in their frames."""
    first_frame: Tensor
    """(B + 1,) int64."""
    row: Tensor
    """(K,) int64: the prediction that follows the frame, -1 for none."""
    flight: Tensor
    """(Q,) int64: the flight each prediction is for."""
    longest: int
    """Frames of the longest flight, or an upper bound."""
    heading: Tensor | None = None
    """(B,): which way the drones face at the start, radians, map frame; None: ahead. In training, maps are turned."""

    def of_flights(self, values: Tensor) -> Tensor:
        """Values (K, ...) of the frames' flights, from values (B, ...)."""
        return values.repeat_interleave(self.first_frame.diff(), dim=0, output_size=len(self.image))


def one_frame_each(image: Tensor, pose_world: Tensor, origin: Tensor) -> Frames:
    """Pictures (B, H, W, 3) of flights that are at poses (B, 6), field frame; a prediction follows each."""
    each = torch.arange(len(image) + 1, device=image.device)
    return Frames(image, pose_world, origin, each, each[:-1], each[:-1], longest=1)


@dataclass(frozen=True)
class SemanticMemory:
    """The semantic maps of B flights."""

    value: Tensor
    """(B, S * S, 32) float32, zero for cells that were never in view."""
    is_known: Tensor
    """(B, S * S) bool: cells that were ever in view."""


def empty_memory(num_flights: int, places: Tensor) -> SemanticMemory:
    """Maps of flights before their first picture, for cells at places (S * S, 2)."""
    return SemanticMemory(
        torch.zeros((num_flights, len(places), CHANNELS), device=places.device),
        torch.zeros((num_flights, len(places)), dtype=torch.bool, device=places.device),
    )


def in_chunks(function: Callable[..., Tensor], size: int | None, *values: Tensor) -> Tensor:
    """function(*values) over the first axis, `size` rows at a time, the last chunk padded; None: all at once.

    Chunks of one size keep compiled code from being compiled again for every new shape.
    """
    count = len(values[0])
    if size is None or count == size:
        return function(*values)
    # Unlike concatenated zeros, this keeps the memory layout, on which compiled code depends.
    padded = [functional.pad(value, (0, 0) * (value.dim() - 1) + (0, -count % size)) for value in values]
    parts = zip(*(torch.split(value, size) for value in padded), strict=True)
    return torch.cat([function(*part) for part in parts])[:count]


def lay_on_ground(
    features: Tensor, frames: Frames, homography: Tensor, memory: SemanticMemory, places: Tensor, leak: float
) -> SemanticMemory:
    """Memory (Q rows) after the frames that are followed by a prediction.

    features (K, 32, H, W) of the frames' pictures; homography (K, 3, 3): ground points of their flights' map frames to
    pixels; places (S * S, 2): the cells' ground points, map frame.
    """
    features = features.permute(0, 2, 3, 1).float().contiguous()
    scale = homography.new_ones((3, 1))
    scale[:2] /= STRIDE  # from pixels to features
    value, is_known = accumulate(
        features, (homography * scale).flatten(1).float(), frames.first_frame, frames.row, len(frames.flight),
        places, leak, memory.value, memory.is_known,
    )  # fmt: skip
    return SemanticMemory(value, is_known)


def grounding_layer(embedding_size: int, num_channels: int) -> nn.Linear:
    """Maps an embedding to a grounding filter; initialised to give nearly the same filter for every embedding."""
    layer = nn.Linear(embedding_size, num_channels * CHANNELS)
    nn.init.normal_(layer.weight, std=0.001)
    nn.init.zeros_(layer.bias)
    return layer


def ground(value: Tensor, kernel: Tensor) -> Tensor:
    """Responses (Q, S * S, N) of maps (Q, S * S, 32) to filters (Q, N * 32), which are normalised here."""
    kernel = functional.normalize(torch.sigmoid(kernel), dim=-1).view(len(kernel), -1, CHANNELS)
    return functional.leaky_relu(value @ kernel.transpose(1, 2).to(value.dtype))


class WordAttention(nn.Module):
    """What the instruction says about each cell: cells attend to the words that match what was seen there."""

    def __init__(self, state_size: int, num_channels: int) -> None:
        """state_size: numbers in a word's state; num_channels: numbers that a cell takes from the words."""
        super().__init__()
        if num_channels % HEADS:
            raise ValueError(f"attention_channels: got {num_channels}, expected a multiple of the {HEADS} heads")
        # The features that a word responds to, and a score that it has for every cell.
        self.key = nn.Linear(state_size, HEADS * (CHANNELS + 1))
        self.value = nn.Linear(state_size, num_channels)

    def forward(self, cells: Tensor, instructions: EncodedInstructions) -> Tensor:
        """Values (Q, S * S, num_channels) that cells (Q, S * S, 32) take from the words of Q instructions.

        The heads are side by side in matrices of HEADS * N columns: a map has so many cells that each pass over all
        scores counts.
        """

        def by_head(value: Tensor) -> Tensor:  # (Q, HEADS, N, size)
            return value.view(*value.shape[:2], HEADS, -1).transpose(1, 2)

        key = by_head(self.key(instructions.words))
        features, score = key[..., :CHANNELS], key[..., CHANNELS]
        score = score.masked_fill(~instructions.is_word[:, None], -torch.inf)  # (Q, HEADS, N)
        scores = torch.baddbmm(score.flatten(1)[:, None], cells, features.flatten(1, 2).mT, alpha=CHANNELS**-0.5)
        # In the precision of the scores; autocast would choose the full one, twice as much to read and to write.
        weights = scores.view(*scores.shape[:2], HEADS, -1).softmax(-1, dtype=scores.dtype).flatten(2)
        taken = by_head(self.value(instructions.words))[..., None, :]
        # A head's words have values in that head's channels alone.
        apart = taken * torch.eye(HEADS, device=cells.device)[:, None, :, None].to(taken)  # (Q, HEADS, N, HEADS, size)
        return weights @ apart.flatten(3).flatten(1, 2)


def to_drone_frame(maps: Tensor, pose_map: Tensor, places: Tensor, grid: MapGrid) -> Tensor:
    """Maps (B, C, P, P) in the drones' own frames, from (B, C, S, S) in their map frames; zero beyond the map's edge.

    pose_map (B, 3): the drones' x, y, yaw, map frame; places (P * P, 2): the new cells' ground points in a drone's own
    frame. With a MapGrid's places the drone is in the middle; columns run ahead of it, rows to its right.
    """
    cos, sin = pose_map[:, 2:].cos(), pose_map[:, 2:].sin()
    x = pose_map[:, :1] + places[:, 0] * cos - places[:, 1] * sin
    y = pose_map[:, 1:2] + places[:, 0] * sin + places[:, 1] * cos
    half = grid.size * grid.cell / 2
    where = torch.stack([x, -y], -1) / half  # (B, P * P, 2): right and down, -1 to 1 over the map
    size = round(len(places) ** 0.5)
    return functional.grid_sample(maps, where.view(-1, size, size, 2), align_corners=False)


@dataclass(frozen=True)
class CarriedMap:
    """The map that one flight leaves to the next."""

    origin: Tensor
    """Start pose (3,), x, y, yaw, field frame, of the flight; the map is in its frame."""
    value: Tensor
    """(S * S, 32), as in SemanticMemory."""
    is_known: Tensor
    """(S * S,) bool."""


def copy_map(origin: Tensor, memory: SemanticMemory, flight: int) -> CarriedMap:
    """The map of one of B flights with start poses (B, 3); a copy, so that the others can be freed."""
    return CarriedMap(origin[flight].clone(), memory.value[flight].clone(), memory.is_known[flight].clone())


def carry_maps(carried: Sequence[CarriedMap], origin: Tensor, places: Tensor, grid: MapGrid) -> SemanticMemory:
    """Maps of earlier flights in the frames of new start poses (B, 3), x, y, yaw, field frame.

    places (S * S, 2): centres of the grid's cells. A cell takes the mean of the known cells among the four around its
    place, weighted by nearness, and is known if they have at least half of the weight: cells that were never in view do
    not dilute their neighbours.
    """
    is_known = torch.stack([one.is_known for one in carried]).to(origin)
    values = torch.stack([one.value for one in carried]).to(origin) * is_known[..., None]
    layers = torch.cat([values, is_known[..., None]], -1)  # (B, S * S, 33)
    before = torch.stack([one.origin for one in carried]).to(origin)
    nothing = torch.zeros_like(origin)
    pose_world = torch.cat([origin[:, :2], nothing, origin[:, 2:]], -1)  # level, and at no height that matters
    maps = layers.view(len(carried), grid.size, grid.size, -1).permute(0, 3, 1, 2)
    moved = to_drone_frame(maps, pose_in_map(pose_world, before), places, grid).flatten(2).transpose(1, 2)
    weight = moved[..., -1:]
    has_enough = weight >= 0.5 - 1e-4
    value = torch.where(has_enough, moved[..., :-1] / weight.clamp(min=0.25), 0.0)
    return SemanticMemory(value.contiguous(), has_enough[..., 0])


class AuxiliaryHeads(nn.Module):
    """Classifiers for the auxiliary losses, on maps and embedding (paper, section 4.3); used in training only."""

    def __init__(self, embedding_size: int, grounding_channels: int, goal_channels: int | None = None) -> None:
        """goal_channels: channels of GSMN's goal map; None for PVN, which has no goal map."""
        super().__init__()
        self.landmark = nn.Linear(CHANNELS, len(LANDMARK_NAMES))
        self.grounded = nn.Linear(grounding_channels, 1)
        self.mentioned = nn.Linear(embedding_size, len(LANDMARK_NAMES))
        self.goal = None if goal_channels is None else nn.Linear(goal_channels, 1)
        # Initialised to the odds that a class is mentioned. Starting from even odds, training first finds one large
        # embedding for every sentence; that saturates the LSTM, which then learns no words (docs/log.md).
        nn.init.constant_(self.mentioned.bias, MENTIONED_LOG_ODDS)


TRAINING_ONLY = ("heads.",)
"""Prefixes of weights that a trained agent does not need."""


class InstructedModel(nn.Module):
    """A network with an instruction encoder: what all training code relies on."""

    config: Any
    """Its sizes; they name its camera."""
    instruction: InstructionEncoder | SlotEncoder
    heads: AuxiliaryHeads | None
    """None for a model without maps."""
    frames_at_once: int | None = None
    """Batch size of the compiled image encoder; None while it is not compiled."""
    maps_at_once: int | None = None
    """Batch size of what is compiled and takes maps; None while it is not compiled."""

    def compiled_parts(self) -> dict[str, nn.Module]:
        """What training on a GPU compiles, by name."""
        raise NotImplementedError

    def compile_for(self, frames_at_once: int, maps_at_once: int, only: str | None = None) -> None:
        """Compile the costly parts, or only one of them, for batches of these sizes; others are split and padded."""
        for name, part in self.compiled_parts().items():
            if only in (None, name):
                part.compile(dynamic=False)
        self.frames_at_once, self.maps_at_once = frames_at_once, maps_at_once

    def run_part(self, part: str) -> Tensor:
        """What a compiled part makes of made-up values of the shapes, types and layouts that it has in training."""
        raise NotImplementedError


@dataclass(frozen=True)
class GroundedMaps:
    """Q maps, in the frames of the flights' start poses, grounded in their instructions."""

    semantic_map: Tensor
    """(Q, 32, S, S): accumulated features of the ground."""
    is_known: Tensor
    """(Q, S, S) bool: cells that were ever in view."""
    grounding_map: Tensor
    """(Q, N, S, S): how strongly the instruction's words respond to the map."""
    embedding: Tensor
    """(Q, E): of the instructions."""


def instruction_encoder(config: MappingConfig) -> InstructionEncoder | SlotEncoder:
    """The paper's encoder, or the one with slots."""
    if config.num_slots is None:
        return InstructionEncoder(config.num_words, config.word_size, config.embedding_size)
    slot_size, rest = divmod(config.embedding_size, config.num_slots)
    if rest:
        raise ValueError(
            f"embedding_size: got {config.embedding_size}, expected a multiple of the {config.num_slots} slots"
        )
    return SlotEncoder(
        config.num_words, config.word_size, config.lstm_size, config.num_slots, slot_size, config.word_dropout
    )


class MappingModel(InstructedModel):
    """Image encoder, semantic map, instruction encoder and grounding. Memory is passed in and returned."""

    config: MappingConfig
    places: Tensor
    """Ground points (S * S, 2) of the cells, map frame."""

    def __init__(self, config: MappingConfig) -> None:
        super().__init__()
        self.config = config
        self.resnet = ResNet(config.has_quick_encoder)
        self.instruction = instruction_encoder(config)
        self.grounding = grounding_layer(config.embedding_size, config.grounding_channels)
        self.attention = None
        if config.attention_channels:
            self.attention = WordAttention(self.instruction.state_size, config.attention_channels)
        self.register_buffer("places", config.grid.places(), persistent=False)

    def compiled_parts(self) -> dict[str, nn.Module]:
        """The two halves of the image encoder."""
        return dict(zip(("shrinking", "refining"), self.resnet.halves, strict=True))

    def run_part(self, part: str) -> Tensor:
        """Features of black pictures, by one half of the image encoder."""
        assert self.frames_at_once is not None
        shape = (self.frames_at_once, *self.picture_size(), 3)
        shrinking, refining = self.resnet.halves
        with torch.set_grad_enabled(part == "shrinking"):
            features: Tensor = shrinking(torch.zeros(shape, dtype=torch.uint8, device=self.places.device))
        return features if part == "shrinking" else refining(features.requires_grad_())  # type: ignore[no-any-return]

    def begin(self, num_flights: int) -> SemanticMemory:
        """Maps of flights before their first picture."""
        return empty_memory(num_flights, self.places)

    def encode(self, tokens: Tensor) -> EncodedInstructions:
        """B instructions of word ids (B, N), encoded."""
        return self.instruction(tokens)  # type: ignore[no-any-return]

    def picture_size(self) -> tuple[int, int]:
        """Height and width of the pictures it takes."""
        return self.config.camera.height, self.config.camera.width

    def homography(self, frames: Frames) -> Tensor:
        """Matrices (K, 3, 3) from ground points of the map frames of the frames' flights to the frames' pixels."""
        return ground_homography(frames.pose_world, frames.of_flights(frames.origin), self.config.camera)

    def update_map(self, frames: Frames, memory: SemanticMemory) -> SemanticMemory:
        """Memory (Q rows) after the frames that are followed by a prediction."""
        if tuple(frames.image.shape[1:3]) != self.picture_size():
            height, width = self.picture_size()
            raise ValueError(
                f"picture: got {frames.image.shape[2]}x{frames.image.shape[1]} pixels, expected {width}x{height}, "
                "which the agent was trained with; make the simulator with its camera"
            )
        features = encode_on_cpu(self.resnet, frames.image)
        if features is None:
            features = in_chunks(self.resnet, self.frames_at_once, frames.image)
        return lay_on_ground(features, frames, self.homography(frames), memory, self.places, self.config.leak)

    def semantic_map(self, memory: SemanticMemory) -> Tensor:
        """The memory as maps (Q, 32, S, S)."""
        size = self.config.grid.size
        return memory.value.view(-1, size, size, CHANNELS).permute(0, 3, 1, 2)

    def ground(self, memory: SemanticMemory, instructions: EncodedInstructions) -> GroundedMaps:
        """Q memories, grounded in Q instructions."""
        size = self.config.grid.size
        # Once in the precision of the networks, instead of once for each of them.
        memory = SemanticMemory(memory.value.to(instructions.embedding.dtype), memory.is_known)
        grounded = ground(memory.value, self.grounding(instructions.embedding))
        if self.attention is not None:
            grounded = torch.cat([grounded, self.attention(memory.value, instructions)], -1)
        return GroundedMaps(
            semantic_map=self.semantic_map(memory),
            is_known=memory.is_known.view(-1, size, size),
            grounding_map=grounded.view(-1, size, size, self.config.grounded_channels).permute(0, 3, 1, 2),
            embedding=instructions.embedding,
        )
