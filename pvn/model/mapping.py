"""Seeing, mapping and grounding, as PVN and GSMN have them in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from pvn.geometry import Camera, MapGrid, ground_homography
from pvn.model.accumulation import accumulate
from pvn.model.resnet import CHANNELS, STRIDE
from pvn.world.landmarks import LANDMARK_NAMES

MENTIONED_LOG_ODDS = -3.1
"""An instruction mentions 2.8 of the 63 classes."""


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

    def of_flights(self, values: Tensor) -> Tensor:
        """Values (K, ...) of the frames' flights, from values (B, ...)."""
        return values.repeat_interleave(self.first_frame.diff(), dim=0, output_size=len(self.image))


def one_frame_each(image: Tensor, pose_world: Tensor, origin: Tensor) -> Frames:
    """Pictures (B, H, W, 3) of flights that are at poses (B, 6), field frame; a prediction follows each."""
    each = torch.arange(len(image) + 1, device=image.device)
    return Frames(image, pose_world, origin, each, each[:-1], each[:-1])


@dataclass(frozen=True)
class SemanticMemory:
    """What B flights remember of what they saw."""

    value: Tensor
    """(B, S * S, 32) float32, zero where nothing was seen."""
    is_known: Tensor
    """(B, S * S) bool: cells that were seen."""


def empty_memory(num_flights: int, places: Tensor) -> SemanticMemory:
    """Memory of flights that have seen nothing, for cells at places (S * S, 2)."""
    return SemanticMemory(
        torch.zeros((num_flights, len(places), CHANNELS), device=places.device),
        torch.zeros((num_flights, len(places)), dtype=torch.bool, device=places.device),
    )


def in_chunks(function: Callable[..., Tensor], size: int | None, *values: Tensor) -> Tensor:
    """function(*values) over the first axis, `size` rows at a time, the last ones filled up; None: all at once.

    Compiled code is fastest for shapes it has seen.
    """
    count = len(values[0])
    if size is None or count == size:
        return function(*values)
    padded = [torch.cat([value, value.new_zeros((-count % size, *value.shape[1:]))]) for value in values]
    parts = zip(*(torch.split(value, size) for value in padded), strict=True)
    return torch.cat([function(*part) for part in parts])[:count]


def seen_from_poses(frames: Frames, camera: Camera) -> Tensor:
    """Matrices (K, 3, 3) from ground points of the frames' flights' map frames to the frames' pixels."""
    return ground_homography(frames.pose_world, frames.of_flights(frames.origin), camera)


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
    """What makes a grounding filter of an embedding; at first nearly the same one of every embedding."""
    layer = nn.Linear(embedding_size, num_channels * CHANNELS)
    nn.init.normal_(layer.weight, std=0.001)
    nn.init.zeros_(layer.bias)
    return layer


def ground(value: Tensor, kernel: Tensor) -> Tensor:
    """How the words light up (Q, S * S, N) on what is remembered (Q, S * S, 32); kernel (Q, N * 32), unscaled."""
    kernel = functional.normalize(torch.sigmoid(kernel), dim=-1).view(len(kernel), -1, CHANNELS)
    return functional.leaky_relu(value @ kernel.transpose(1, 2).to(value.dtype))


def look_around(maps: Tensor, pose_map: Tensor, places: Tensor, grid: MapGrid) -> Tensor:
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


class AuxiliaryHeads(nn.Module):
    """What the auxiliary losses read off the maps and the embedding (paper, section 4.3)."""

    def __init__(self, embedding_size: int, grounding_channels: int) -> None:
        super().__init__()
        self.landmark = nn.Linear(CHANNELS, len(LANDMARK_NAMES))
        self.grounded = nn.Linear(grounding_channels, 1)
        self.mentioned = nn.Linear(embedding_size, len(LANDMARK_NAMES))
        # Begin at the odds that a class is mentioned. From even odds the quickest way there is one large embedding for
        # every sentence, and a saturated LSTM learns no words any more (docs/log.md).
        nn.init.constant_(self.mentioned.bias, MENTIONED_LOG_ODDS)
