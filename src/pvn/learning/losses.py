"""The objective of stage 1: target distributions, their divergences and three auxiliary losses (paper, section 4.3)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from pvn.checks import check_limits
from pvn.geometry import MapGrid
from pvn.learning.demonstrations import Batch
from pvn.model.mapping import AuxiliaryHeads, GroundedMaps
from pvn.model.visitation import Visitation
from pvn.world.landmarks import LANDMARK_NAMES


@dataclass(frozen=True, kw_only=True)
class LossConfig:
    """Weights of the losses."""

    sigma_cells: float = 0.6
    """Width of the targets' Gaussians, in cells."""
    landmark_weight: float = 1.0
    """Weight of classifying visible landmarks from the semantic map (paper: lambda_percept)."""
    grounded_weight: float = 1.0
    """Weight of telling from the grounding map whether a visible landmark is mentioned (paper: lambda_ground)."""
    mentioned_weight: float = 0.25
    """Weight of telling from the embedding which classes are mentioned (paper: lambda_lang)."""
    faced_weight: float = 0.5
    """Weight of the divergence of the place to face at the goal, where that is predicted."""
    averages_mentioned: bool = False
    """Whether that loss is the mean over the 63 classes (paper, appendix A, and authors' code). Their sum, which is
    our own, weighs 63 times as much: the mean is too weak beside the divergences (docs/log.md)."""

    def __post_init__(self) -> None:
        check_limits(self, "sigma_cells", 0.01)
        check_limits(self, "landmark_weight grounded_weight mentioned_weight faced_weight", 0)


@dataclass(frozen=True)
class AuxiliaryLosses:
    """Sums over predictions."""

    landmark: Tensor
    grounded: Tensor
    mentioned: Tensor
    """Summed over the classes, too."""
    num_visible: Tensor
    """Predictions with a visible landmark whose cell was seen."""


@dataclass(frozen=True)
class LossSums:
    """Sums over predictions, and how many there are, so that parts of a batch can be added."""

    trajectory: Tensor
    goal: Tensor
    faced: Tensor
    """0 where no place to face is predicted."""
    landmark: Tensor
    grounded: Tensor
    mentioned: Tensor
    hits: Tensor
    """Predictions whose most likely goal cell is within 5 m of the goal."""
    num_predictions: Tensor
    num_visible: Tensor
    """Predictions with a visible landmark whose cell was seen."""


def part_shares(num_points: Tensor, longest: int, num_parts: int) -> Tensor:
    """How much (B, num_parts, longest) of each point of evenly spaced paths is in each part of the way.

    num_points (B,): points of each path. The only part of one has all of them. Otherwise a part has most of its middle,
    and shares the points between its middle and its neighbour's with it, so that one part leads into the next; of a
    path with few points, each part has at least one.
    """
    number = torch.arange(longest, device=num_points.device)
    is_own = (number < num_points[:, None])[:, None].float()
    if num_parts == 1:
        return is_own
    steps = (num_points - 1).clamp(min=1)[:, None, None].float()
    middle = ((torch.arange(num_parts, device=num_points.device) + 0.5) / num_parts)[:, None]
    width = (1 / steps).clamp(min=1 / num_parts)
    return is_own * (1 - (number / steps - middle).abs() / width).clamp(min=0)


def target_distributions(
    path_map: Tensor, num_points: Tensor, grid: MapGrid, sigma_cells: float, num_parts: int = 1
) -> Tensor:
    """Distributions (B, num_parts + 1, S, S), of the parts of the way in order and of the goal.

    path_map (B, P, 2): evenly spaced paths, map frame, of which num_points (B,) points count. Each distribution is a
    sum of Gaussians around points of the path (paper), evaluated at the cells' centres, and sums to one.
    """
    cells = grid.cells(path_map)  # (B, P, 2)
    place = torch.arange(grid.size, device=path_map.device)
    bump = torch.exp(-0.5 * ((place - cells[..., None]) / sigma_cells) ** 2)  # (B, P, 2, S)
    number = torch.arange(path_map.shape[1], device=path_map.device)
    is_goal = (number == num_points[:, None] - 1).to(bump)
    parts = part_shares(num_points, path_map.shape[1], num_parts).to(bump)
    share = torch.cat([parts, is_goal[:, None]], 1)  # (B, num_parts + 1, P)
    density = torch.einsum("bkp,bpi,bpj->bkij", share, bump[:, :, 0], bump[:, :, 1])
    return density / density.sum(dim=(2, 3), keepdim=True).clamp(min=1e-12)


def _faced_divergence(visitation: Visitation, batch: Batch, grid: MapGrid, sigma_cells: float) -> Tensor:
    """KL divergences (Q,) of the places to face from Gaussians around the demonstrated ones; 0 if not predicted."""
    if visitation.log_faced is None:
        return torch.zeros_like(visitation.log_parts[:, 0, 0, 0])
    one = torch.ones_like(batch.num_points)
    target = target_distributions(batch.faced_map[:, None], one, grid, sigma_cells)[:, -1]
    return _divergence(target[batch.frames.flight], visitation.log_faced)


def _divergence(target: Tensor, log_probability: Tensor) -> Tensor:
    """KL divergences (...) of predictions (..., S, S), as logarithms, from targets (..., S, S)."""
    return (torch.xlogy(target, target) - target * log_probability).sum(dim=(-2, -1))


def _goal_hits(target: Tensor, log_probability: Tensor, grid: MapGrid) -> Tensor:
    """Whether (Q,) the most likely cell is within 5 m of the target's."""
    cells = torch.stack([value.flatten(1).argmax(1) for value in (target, log_probability)])
    rows, columns = cells // grid.size, cells % grid.size
    return torch.hypot((rows[0] - rows[1]).float(), (columns[0] - columns[1]).float()) * grid.cell < 5.0


def auxiliary_losses(maps: GroundedMaps, batch: Batch, heads: AuxiliaryHeads, grid: MapGrid) -> AuxiliaryLosses:
    """Auxiliary losses of semantic maps, grounding maps and embeddings of instructions.

    A landmark counts where it is visible and its cell was ever in view: of a tall one the top may be in the picture
    and the ground below it not, and a cell without features says nothing about what stands there.
    """
    flight = batch.frames.flight
    # The landmarks' cells on the maps.
    cells = grid.cells(batch.landmark_map)[flight].round().long()  # (Q, 32, 2)
    is_on_map = ((cells >= 0) & (cells < grid.size)).all(-1)
    cells = cells.clamp(0, grid.size - 1)
    query = torch.arange(len(flight), device=flight.device)[:, None]
    is_labelled = batch.is_visible & is_on_map & (batch.landmark_class[flight] >= 0) & batch.is_counted[:, None]
    is_seen = is_labelled & maps.is_known[query, cells[..., 0], cells[..., 1]]
    share = is_seen.float() / is_seen.sum(1, keepdim=True).clamp(min=1)  # mean over visible landmarks
    semantic = maps.semantic_map.permute(0, 2, 3, 1)[query, cells[..., 0], cells[..., 1]]  # (Q, 32, C)
    kind = batch.landmark_class[flight].clamp(min=0)
    classified = functional.cross_entropy(
        heads.landmark(semantic.float()).flatten(0, 1), kind.flatten(), reduction="none"
    )
    grounding = maps.grounding_map.permute(0, 2, 3, 1)[query, cells[..., 0], cells[..., 1]]
    is_meant = batch.mentioned[flight].gather(1, kind).float()
    grounded = functional.binary_cross_entropy_with_logits(
        heads.grounded(grounding.float())[..., 0], is_meant, reduction="none"
    )
    mentioned = functional.binary_cross_entropy_with_logits(
        heads.mentioned(maps.embedding.float()), batch.mentioned[flight].float(), reduction="none"
    )
    return AuxiliaryLosses(
        landmark=(classified.view_as(share) * share).sum(),
        grounded=(grounded * share).sum(),
        mentioned=(batch.is_counted.float() * mentioned.sum(1)).sum(),
        num_visible=is_seen.any(1).sum(),
    )


def stage1_losses(
    visitation: Visitation, batch: Batch, heads: AuxiliaryHeads, grid: MapGrid, config: LossConfig
) -> LossSums:
    """The losses of predictions for a batch."""
    predicted = visitation.log_parts
    num_parts = predicted.shape[1] - 1
    target = target_distributions(batch.path_map, batch.num_points, grid, config.sigma_cells, num_parts)
    target = target[batch.frames.flight]
    divergence = _divergence(target, predicted)  # (Q, P + 1)
    auxiliary = auxiliary_losses(visitation.maps, batch, heads, grid)
    counted = batch.is_counted.float()
    return LossSums(
        trajectory=(counted * divergence[:, :-1].mean(1)).sum(),
        goal=(counted * divergence[:, -1]).sum(),
        faced=(counted * _faced_divergence(visitation, batch, grid, config.sigma_cells)).sum(),
        landmark=auxiliary.landmark,
        grounded=auxiliary.grounded,
        mentioned=auxiliary.mentioned,
        hits=(counted * _goal_hits(target[:, -1], predicted[:, -1], grid)).sum(),
        num_predictions=batch.is_counted.sum(),
        num_visible=auxiliary.num_visible,
    )


def objective(losses: LossSums, config: LossConfig, num_predictions: Tensor, num_visible: Tensor) -> Tensor:
    """The loss of a part of a batch that has num_predictions and num_visible in all its parts together."""
    visible = num_visible.clamp(min=1)
    mentioned_weight = config.mentioned_weight / (len(LANDMARK_NAMES) if config.averages_mentioned else 1)
    return (
        (losses.trajectory + losses.goal + config.faced_weight * losses.faced) / num_predictions
        + config.landmark_weight * losses.landmark / visible
        + config.grounded_weight * losses.grounded / visible
        + mentioned_weight * losses.mentioned / num_predictions
    )
