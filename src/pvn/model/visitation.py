"""Stage 1: from pictures, poses and an instruction to where the drone should fly and where it should stop.

Distributions over the cells of a map in the start pose's frame: the trajectory, as a whole (paper) or as several parts
of the way in order, and the goal. If asked for, also the place that the drone should face when it has arrived.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pvn.checks import check_limits
from pvn.corpus.vocabulary import PADDING
from pvn.geometry import overhead_homography
from pvn.model.cpu_inference import score_on_cpu
from pvn.model.instruction import EncodedInstructions
from pvn.model.lingunet import LEVELS, LingUNet
from pvn.model.mapping import (
    AuxiliaryHeads,
    Frames,
    GroundedMaps,
    MappingConfig,
    MappingModel,
    MappingSizes,
    SemanticMemory,
    in_chunks,
)
from pvn.model.resnet import CHANNELS
from pvn.world.layout import FIELD_SIZE

TRAJECTORY, GOAL = 0, 1
NEAR_START, FAR_FROM_START = 2.0, 20.0
"""Metres within which a bearing means little, and over which nearness fades."""
FACED_AHEAD = 8.0
"""How far ahead of the goal the place is that the drone faces there, metres: so far that a cell is about 11 degrees."""
AT_START = 2.5
"""A way leads nowhere if each of its parts lies mostly within this distance of the start, metres."""
LARGEST_UNCOMPILED = 2**LEVELS
"""Cells across a map up to which LingUNet's smallest maps have one cell."""
OVERHEAD_MARGIN = 1.0
"""Margin around the field in a view from above, metres, so that the fences are in view."""


@dataclass(frozen=True, kw_only=True)
class VisitationSizes(MappingSizes):
    """Sizes of stage 1 that a recipe chooses; the defaults are the paper's."""

    num_parts: int = 1
    """Parts of the way, in order, each with a distribution of its own; 1: one for the whole trajectory (paper)."""
    knows_unseen: bool = False
    """Whether LingUNet's input shows which cells were never in view."""
    knows_bearing: bool = False
    """Whether LingUNet's input shows where each cell lies from the start, relative to the drone's heading there. "Past
    it, with it on your left" means different places for a landmark ahead and for one behind, but convolutions treat all
    cells alike."""
    predicts_facing: bool = False
    """Whether the place that the drone should face at the goal is predicted too, so that it can turn there."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_limits(self, "num_parts", 1)


@dataclass(frozen=True, kw_only=True)
class VisitationConfig(MappingConfig, VisitationSizes):
    """Sizes of stage 1."""

    uses_instruction: bool = True
    """Whether the instruction is used; if not, this is the paper's "no u"."""
    overhead_px: int | None = None
    """Edge, pixels, of the view from above that replaces the camera's pictures and shows the whole field at once (the
    paper's full observation); None: the camera's pictures."""


@dataclass(frozen=True)
class Visitation:
    """Q predictions and the maps they were made from."""

    maps: GroundedMaps
    log_parts: Tensor
    """(Q, P + 1, S, S): logarithms of the distributions of the parts of the way, in order, and of the goal, in the
    frames of the start poses."""
    log_faced: Tensor | None = None
    """(Q, S, S): logarithm of the distribution of the place that the drone faces at the goal; None: not predicted."""

    @property
    def parts(self) -> Tensor:
        """(Q, P + 1, S, S): the parts of the way, in order, and the goal; each sums to one."""
        return self.log_parts.exp()

    @property
    def log_probability(self) -> Tensor:
        """(Q, 2, S, S): logarithms of the distributions of the trajectory, all its parts together, and of the goal."""
        num_parts = self.log_parts.shape[1] - 1
        if num_parts == 1:
            return self.log_parts
        whole = self.log_parts[:, :-1].logsumexp(1, keepdim=True) - math.log(num_parts)
        return torch.cat([whole, self.log_parts[:, -1:]], 1)

    @property
    def probability(self) -> Tensor:
        """(Q, 2, S, S): trajectory and goal; each sums to one."""
        return self.log_probability.exp()

    @property
    def unseen_goal(self) -> Tensor:
        """(Q, S, S): the goal's distribution on cells that were never in view, zero on the others."""
        return self.log_parts[:, -1].exp() * ~self.maps.is_known

    def replaced(self, is_replaced: Tensor, other: Visitation) -> Visitation:
        """These predictions, with some rows (Q,) taken from the other ones."""

        def choose(own: Tensor, its: Tensor) -> Tensor:
            return torch.where(is_replaced.view(-1, *(1,) * (own.dim() - 1)), its, own)

        own, its = vars(self.maps), vars(other.maps)
        maps = GroundedMaps(**{name: choose(own[name], its[name]) for name in own})
        log_faced = None
        if self.log_faced is not None and other.log_faced is not None:
            log_faced = choose(self.log_faced, other.log_faced)
        return Visitation(maps, choose(self.log_parts, other.log_parts), log_faced)


def likeliest_places(log_probability: Tensor, places: Tensor, within: float) -> Tensor:
    """Means (Q, 2), map frame, of log distributions (Q, S, S) near their most likely cells.

    places (S * S, 2): centres of the cells, map frame. Cells up to `within` metres away count, so that a place is known
    more finely than by its cell.
    """
    probability = log_probability.flatten(1).exp()
    off = places - places[probability.argmax(1)][:, None]  # (Q, S * S, 2)
    weight = probability * (off.norm(dim=-1) <= within)
    return weight @ places / weight.sum(1, keepdim=True)


def stays_at_start(visitation: Visitation, places: Tensor) -> Tensor:
    """Whether (Q,) the predicted ways lead nowhere, as for "turn left".

    places (S * S, 2): centres of the cells, map frame.
    """
    at_start = (places.norm(dim=-1) <= AT_START).to(visitation.log_parts)
    return ((visitation.parts.flatten(2) @ at_start) > 0.5).all(1)


def end_headings(visitation: Visitation, places: Tensor, cell: float) -> Tensor:
    """Headings (Q,), radians, map frame, from the predicted goals to the places that drones should face there.

    places (S * S, 2): centres of the cells, map frame; cell: their edge, metres. A place is the mean over its likeliest
    cell and the eight around it.
    """
    assert visitation.log_faced is not None
    goal, faced = (
        likeliest_places(each, places, 1.5 * cell) for each in (visitation.log_parts[:, -1], visitation.log_faced)
    )
    return torch.atan2(*(faced - goal).flip(-1).unbind(-1))


def bearings(places: Tensor) -> Tensor:
    """Where cells at places (S * S, 2), map frame, lie from the start: (3, S, S), ahead, to the left, and away.

    The first two are a direction of length 1, except close to the start; the third is 0 at the start and 1 far away.
    """
    away = places.norm(dim=-1, keepdim=True)
    softened = (away.square() + NEAR_START**2).sqrt()
    size = math.isqrt(len(places))
    return torch.cat([places / softened, 1 - (-away / FAR_FROM_START).exp()], -1).T.reshape(3, size, size)


def bearings_of(bearing: Tensor, heading: Tensor) -> Tensor:
    """The same (Q, 3, S, S) for drones that face `heading` (Q,) at the start, radians, map frame."""
    along, left, away = bearing
    cos, sin = heading.cos()[:, None, None], heading.sin()[:, None, None]
    return torch.stack([along * cos + left * sin, left * cos - along * sin, away.expand(len(heading), -1, -1)], 1)


class VisitationModel(MappingModel):
    """Stage 1. Memory is passed in and returned."""

    config: VisitationConfig
    heads: AuxiliaryHeads
    bearing: Tensor
    """(3, S, S): see `bearings`."""

    def __init__(self, config: VisitationConfig) -> None:
        super().__init__(config)
        self.register_buffer("bearing", bearings(self.places), persistent=False)
        num_in = config.grounded_channels + CHANNELS + config.knows_unseen + config.knows_bearing * len(self.bearing)
        self.lingunet = LingUNet(num_in, config.embedding_size, config.num_parts + 1 + config.predicts_facing)
        self.heads = AuxiliaryHeads(config.embedding_size, config.grounded_channels)

    def compiled_parts(self) -> dict[str, nn.Module]:
        """The image encoder and LingUNet.

        Where LingUNet's smallest maps have one cell, torch mistakes the layout of a gradient in compiled code.
        """
        is_large = self.config.grid.size > LARGEST_UNCOMPILED
        return super().compiled_parts() | ({"LingUNet": self.lingunet} if is_large else {})

    def run_part(self, part: str) -> Tensor:
        """Features of black pictures, or distributions for empty maps."""
        if part != "LingUNet":
            return super().run_part(part)
        assert self.maps_at_once is not None
        each = torch.arange(self.maps_at_once, device=self.places.device)
        seen = torch.zeros((len(each), len(self.places), CHANNELS), device=each.device, requires_grad=True)
        memory = SemanticMemory(seen, torch.ones(seen.shape[:2], dtype=torch.bool, device=each.device))
        instructions = self.encode(torch.ones((1, 1), dtype=torch.int64, device=each.device))[torch.zeros_like(each)]
        return self.predict(memory, instructions, torch.zeros(len(each), device=each.device)).log_parts

    def picture_size(self) -> tuple[int, int]:
        """Height and width of the pictures it takes."""
        across = self.config.overhead_px
        return super().picture_size() if across is None else (across, across)

    def homography(self, frames: Frames) -> Tensor:
        """Matrices (K, 3, 3) from ground points of the map frames of the frames' flights to the frames' pixels."""
        across = self.config.overhead_px
        if across is None:
            return super().homography(frames)
        return overhead_homography(frames.of_flights(frames.origin), FIELD_SIZE, OVERHEAD_MARGIN, across)

    def encode(self, tokens: Tensor) -> EncodedInstructions:
        """B instructions of word ids (B, N), encoded."""
        return super().encode(tokens if self.config.uses_instruction else torch.full_like(tokens, PADDING))

    def predict(
        self, memory: SemanticMemory, instructions: EncodedInstructions, heading: Tensor | None = None
    ) -> Visitation:
        """Distributions for Q memories and Q instructions.

        heading (Q,): which way the drones faced at the start, radians, map frame; None: ahead.
        """
        size = self.config.grid.size
        maps = self.ground(memory, instructions)
        layers = [maps.grounding_map, maps.semantic_map]
        if self.config.knows_unseen:
            layers.append(maps.is_known[:, None].to(maps.semantic_map))
        if self.config.knows_bearing:
            if heading is None:
                bearing = self.bearing.expand(len(maps.semantic_map), -1, -1, -1)
            else:
                bearing = bearings_of(self.bearing, heading)
            layers.append(bearing.to(maps.semantic_map))
        # Joined with channels last, as the large ones lie in memory.
        joined = torch.cat([layer.permute(0, 2, 3, 1) for layer in layers], -1).permute(0, 3, 1, 2)
        scores = score_on_cpu(self.lingunet, joined, maps.embedding)
        if scores is None:
            scores = in_chunks(self.lingunet, self.maps_at_once, joined, maps.embedding).float()
        log_maps = scores.flatten(2).log_softmax(-1).view(*scores.shape[:2], size, size)
        if not self.config.predicts_facing:
            return Visitation(maps, log_maps)
        return Visitation(maps, log_maps[:, :-1], log_maps[:, -1])

    def forward(self, frames: Frames, tokens: Tensor) -> Visitation:
        """Predictions for whole flights with instructions of word ids (B, N)."""
        memory = self.update_map(frames, self.begin(len(frames.origin)))
        heading = None if frames.heading is None else frames.heading[frames.flight]
        return self.predict(memory, self.encode(tokens)[frames.flight], heading)
