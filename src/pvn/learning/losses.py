"""What stage 1 minimises: the position-visitation losses of the paper, section 4.3, and the imitation of actions.

An objective is a module: it takes a batch of whole flights and returns sums over its predictions, with their numbers.
Sums of several processes can be added, and the loss is computed from sums and numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from pvn.checks import check_limits
from pvn.geometry import MapGrid, pose_in_map, to_map
from pvn.learning.demonstrations import Batch
from pvn.model.execution import Decision
from pvn.model.mapping import AuxiliaryHeads, GroundedMaps, InstructedModel
from pvn.model.visitation import Visitation, VisitationModel
from pvn.simulator.interface import STOP
from pvn.world.landmarks import LANDMARK_NAMES
from pvn.world.task import SUCCESS_M

Sums = Mapping[str, Tensor]
"""Sums over the predictions of a batch by name, and how many predictions they cover ("num_...")."""


@dataclass(frozen=True, kw_only=True)
class VisitationLosses:
    """Weights of the losses of position-visitation prediction."""

    sigma_cells: float = 0.6
    """Width of the targets' Gaussians, in cells."""
    landmark_weight: float = 1.0
    """Weight of classifying visible landmarks from the semantic map (paper: lambda_percept)."""
    grounded_weight: float = 1.0
    """Weight of telling from the grounding map whether a visible landmark is mentioned (paper: lambda_ground)."""
    mentioned_weight: float = 0.25
    """Weight of telling from the embedding which classes are mentioned (paper: lambda_lang)."""
    faced_weight: float = 0.5
    """Weight of the divergence of the point to face at the goal, where one is predicted."""
    averages_mentioned: bool = False
    """Whether the loss on mentioned classes is their mean (paper, appendix A, and authors' code). Their sum is our own:
    the mean is too weak beside the divergences (docs/log.md)."""

    def __post_init__(self) -> None:
        check_limits(self, "sigma_cells", 0.01)
        check_limits(self, "landmark_weight grounded_weight mentioned_weight faced_weight", 0)


@dataclass(frozen=True, kw_only=True)
class ImitationLosses:
    """Weights of the losses of imitation."""

    stop_weight: float = 0.8
    """Weight of the stop's loss relative to the losses of speed and yaw rate (authors' code)."""
    auxiliary_weight: float = 0.1
    """Weight of each auxiliary loss, for an agent with maps (authors' code)."""

    def __post_init__(self) -> None:
        check_limits(self, "stop_weight auxiliary_weight", 0)


def precision(device: torch.device) -> Any:
    """The precision in which networks are trained, as a context: bfloat16 on a GPU."""
    # Without the cache of cast weights: a recorded step must cast them itself each time it is replayed.
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda", cache_enabled=False)


def part_shares(num_points: Tensor, longest: int, num_parts: int) -> Tensor:
    """How much (B, num_parts, longest) of each point of evenly spaced paths belongs to each part of the way.

    num_points (B,): points of each path. A single part has all of them. Otherwise weights are highest in the middle of
    a part and fall off linearly towards the middles of its neighbours, so that one part leads into the next. A path
    with few points has at least one in each part.
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
    """Distributions (B, num_parts + 1, S, S) of the parts of the way, in order, and of the goal.

    path_map (B, P, 2): evenly spaced paths, map frame; num_points (B,): points of each path without the padding. Each
    distribution is a sum of Gaussians around points of the path (paper), evaluated at the cells' centres, and sums to
    one.
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


def _divergence(target: Tensor, log_probability: Tensor) -> Tensor:
    """KL divergences (...) of predictions (..., S, S), as logarithms, from targets (..., S, S)."""
    return (torch.xlogy(target, target) - target * log_probability).sum(dim=(-2, -1))


def _faced_divergence(visitation: Visitation, batch: Batch, grid: MapGrid, sigma_cells: float) -> Tensor:
    """KL divergences (Q,) of the points to face from Gaussians around the demonstrated ones; 0 if not predicted."""
    if visitation.log_faced is None:
        return torch.zeros_like(visitation.log_parts[:, 0, 0, 0])
    one = torch.ones_like(batch.num_points)
    target = target_distributions(batch.faced_map[:, None], one, grid, sigma_cells)[:, -1]
    return _divergence(target[batch.frames.flight], visitation.log_faced)


def _goal_hits(target: Tensor, log_probability: Tensor, grid: MapGrid) -> Tensor:
    """Whether (Q,) the most likely cell is within 5 m of the target's."""
    cells = torch.stack([value.flatten(1).argmax(1) for value in (target, log_probability)])
    rows, columns = cells // grid.size, cells % grid.size
    return torch.hypot((rows[0] - rows[1]).float(), (columns[0] - columns[1]).float()) * grid.cell < SUCCESS_M


def auxiliary_losses(maps: GroundedMaps, batch: Batch, heads: AuxiliaryHeads, grid: MapGrid) -> Sums:
    """Auxiliary losses of semantic maps, grounding maps and embeddings: landmark, grounded, mentioned, num_visible.

    A landmark counts where it is visible and its cell was ever in view: the top of a tall one may be in the picture
    while the ground below it is not, and a cell without features says nothing about what stands there. Each prediction
    has the mean over its landmarks. num_visible: predictions with such a landmark. The loss on mentioned classes is
    summed over the classes.
    """
    flight = batch.frames.flight
    cells = grid.cells(batch.landmark_map)[flight].round().long()  # (Q, MAX_LANDMARKS, 2)
    is_on_map = ((cells >= 0) & (cells < grid.size)).all(-1)
    cells = cells.clamp(0, grid.size - 1)
    query = torch.arange(len(flight), device=flight.device)[:, None]
    is_labelled = batch.is_visible & is_on_map & (batch.landmark_class[flight] >= 0) & batch.is_counted[:, None]
    is_seen = is_labelled & maps.is_known[query, cells[..., 0], cells[..., 1]]
    share = is_seen.float() / is_seen.sum(1, keepdim=True).clamp(min=1)
    semantic = maps.semantic_map.permute(0, 2, 3, 1)[query, cells[..., 0], cells[..., 1]]  # (Q, MAX_LANDMARKS, C)
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
    return {
        "landmark": (classified.view_as(share) * share).sum(),
        "grounded": (grounded * share).sum(),
        "mentioned": (batch.is_counted.float() * mentioned.sum(1)).sum(),
        "num_visible": is_seen.any(1).sum(),
    }


class Objective(nn.Module):
    """What a model is trained for in stage 1."""

    name: str
    """Of the phase of training, for progress and logs."""
    model: InstructedModel

    def forward(self, batch: Batch) -> Sums:
        """The sums of a batch."""
        raise NotImplementedError

    def loss(self, sums: Sums, counts: Sums) -> Tensor:
        """The loss of a part of a batch; counts: the sums of the whole batch, whose numbers the means are taken over.

        The losses of the parts add up to the loss of the whole.
        """
        raise NotImplementedError

    def means(self, sums: Sums) -> dict[str, float]:
        """The mean losses of a prediction by name."""
        raise NotImplementedError


class PredictVisitation(Objective):
    """Predict where the oracle flew and where it stopped, from its pictures and the instruction."""

    name = "stage 1"
    model: VisitationModel

    def __init__(self, model: VisitationModel, weights: VisitationLosses) -> None:
        super().__init__()
        self.model, self.weights = model, weights

    def forward(self, batch: Batch) -> Sums:
        """The sums of a batch."""
        with precision(batch.frames.image.device):
            visitation = self.model(batch.frames, batch.tokens)
        return self.sums_of(visitation, batch)

    def sums_of(self, visitation: Visitation, batch: Batch) -> Sums:
        """The sums of predictions for a batch; hits: predictions whose likeliest goal is within 5 m of the goal."""
        grid, sigma_cells = self.model.config.grid, self.weights.sigma_cells
        predicted = visitation.log_parts
        target = target_distributions(batch.path_map, batch.num_points, grid, sigma_cells, predicted.shape[1] - 1)
        target = target[batch.frames.flight]
        divergence = _divergence(target, predicted)  # (Q, num_parts + 1)
        counted = batch.is_counted.float()
        return {
            "trajectory": (counted * divergence[:, :-1].mean(1)).sum(),
            "goal": (counted * divergence[:, -1]).sum(),
            "faced": (counted * _faced_divergence(visitation, batch, grid, sigma_cells)).sum(),
            "hits": (counted * _goal_hits(target[:, -1], predicted[:, -1], grid)).sum(),
            "num_predictions": batch.is_counted.sum(),
            **auxiliary_losses(visitation.maps, batch, self.model.heads, grid),
        }

    def loss(self, sums: Sums, counts: Sums) -> Tensor:
        """The weighted sum of the paper's losses, and of ours on the point to face."""
        weights, num_visible = self.weights, counts["num_visible"].clamp(min=1)
        mentioned_weight = weights.mentioned_weight / (len(LANDMARK_NAMES) if weights.averages_mentioned else 1)
        return (
            (sums["trajectory"] + sums["goal"] + weights.faced_weight * sums["faced"]) / counts["num_predictions"]
            + weights.landmark_weight * sums["landmark"] / num_visible
            + weights.grounded_weight * sums["grounded"] / num_visible
            + mentioned_weight * sums["mentioned"] / counts["num_predictions"]
        )

    def means(self, sums: Sums) -> dict[str, float]:
        """The mean losses of a prediction, and the share of goals found."""
        count, visible = float(sums["num_predictions"]), max(float(sums["num_visible"]), 1.0)
        return {
            "trajectory": float(sums["trajectory"]) / count,
            "goal": float(sums["goal"]) / count,
            **({"faced": float(sums["faced"]) / count} if float(sums["faced"]) else {}),
            "landmark": float(sums["landmark"]) / visible,
            "grounded": float(sums["grounded"]) / visible,
            "mentioned": float(sums["mentioned"]) / count,
            "goal_found": float(sums["hits"]) / count,
        }


def action_losses(output: Tensor, wanted: Tensor, stop_weight: float) -> Tensor:
    """Losses (N,) of outputs (N, 3) against the oracle's actions (N, 3); weights of the authors' code."""
    motion = functional.mse_loss(output[:, :STOP], wanted[:, :STOP], reduction="none").sum(1)
    stop = functional.binary_cross_entropy_with_logits(output[:, STOP], wanted[:, STOP], reduction="none")
    return 0.33 * (motion + stop_weight * stop)


def _goal_losses(goal_map: Tensor, head: nn.Linear, batch: Batch, grid: MapGrid) -> tuple[Tensor, Tensor]:
    """Losses (Q,) of telling the goal's cell from a random one by goal maps (Q, C, S, S); whether (Q,) each counts."""
    frames = batch.frames
    flight = frames.flight
    goal_point = batch.path_map[torch.arange(len(batch.num_points), device=flight.device), batch.num_points - 1]
    pose_map = pose_in_map(frames.pose_world, frames.origin[flight])
    cell = grid.cells(to_map(goal_point[flight][:, None], pose_map)[:, 0]).round().long()  # (Q, 2), the drones' frames
    is_on_map = ((cell >= 0) & (cell < grid.size)).all(-1) & batch.is_counted
    row, column = cell.clamp(0, grid.size - 1).unbind(-1)
    goal = row * grid.size + column
    place = torch.stack([goal, torch.randint(grid.size**2, goal.shape, device=goal.device)], -1)  # (Q, 2)
    value = goal_map.flatten(2).float()  # (Q, channels, S * S)
    values = value.gather(2, place[:, None].expand(-1, value.shape[1], -1)).transpose(1, 2)  # (Q, 2, channels)
    wrong = functional.binary_cross_entropy_with_logits(
        head(values)[..., 0], (place == goal[:, None]).float(), reduction="none"
    )
    return wrong.mean(1), is_on_map


class ImitateOracle(Objective):
    """Do at every step of the oracle's flights as it did, with gradients through the whole flight."""

    name = "imitation"

    def __init__(self, model: InstructedModel, grid: MapGrid, weights: ImitationLosses) -> None:
        super().__init__()
        self.model, self.grid, self.weights = model, grid, weights

    def forward(self, batch: Batch) -> Sums:
        """The sums of a batch."""
        with precision(batch.frames.image.device):
            decision: Decision = self.model(batch.frames, batch.tokens)
        wrong = action_losses(decision.output, batch.action, self.weights.stop_weight)
        sums = {"action": (wrong * batch.is_counted).sum(), "num_predictions": batch.is_counted.sum()}
        heads = self.model.heads
        if heads is None or decision.maps is None:
            return sums
        sums |= auxiliary_losses(decision.maps, batch, heads, self.grid)
        if heads.goal is not None and decision.goal_map is not None:
            losses, is_on_map = _goal_losses(decision.goal_map, heads.goal, batch, self.grid)
            sums |= {"goal": (losses * is_on_map).sum(), "num_on_map": is_on_map.sum()}
        return sums

    def _terms(self, sums: Sums, counts: Sums) -> dict[str, Tensor]:
        """By loss, its part of the mean over the predictions that it applies to."""
        numbers = {"action": "num_predictions", "landmark": "num_visible", "grounded": "num_visible"}
        numbers |= {"goal": "num_on_map", "mentioned": "num_predictions"}
        return {name: sums[name] / counts[number].clamp(min=1) for name, number in numbers.items() if name in sums}

    def loss(self, sums: Sums, counts: Sums) -> Tensor:
        """The loss of the actions, and the auxiliary losses of an agent with maps."""
        terms = self._terms(sums, counts)
        return terms.pop("action") + self.weights.auxiliary_weight * sum(terms.values())

    def means(self, sums: Sums) -> dict[str, float]:
        """The mean losses of a decision."""
        return {name: float(value) for name, value in self._terms(sums, sums).items()}
