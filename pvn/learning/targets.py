"""What stage 1 is to predict: where a path goes and where it ends, as distributions over the map's cells."""

from __future__ import annotations

import torch
from torch import Tensor

from pvn.geometry import MapGrid


def target_distributions(path_map: Tensor, num_points: Tensor, grid: MapGrid, sigma_cells: float) -> Tensor:
    """Distributions (B, 2, S, S), trajectory and goal, of paths (B, P, 2), map frame, of which num_points (B,) count.

    A sum of Gaussians around the path's points (paper), evaluated at the cells' centres; each distribution sums to one.
    """
    cells = grid.cells(path_map)  # (B, P, 2)
    place = torch.arange(grid.size, device=path_map.device)
    bump = torch.exp(-0.5 * ((place - cells[..., None]) / sigma_cells) ** 2)  # (B, P, 2, S)
    number = torch.arange(path_map.shape[1], device=path_map.device)
    is_own = (number < num_points[:, None]).to(bump)
    is_goal = (number == num_points[:, None] - 1).to(bump)
    share = torch.stack([is_own, is_goal], 1)  # (B, 2, P)
    density = torch.einsum("bkp,bpi,bpj->bkij", share, bump[:, :, 0], bump[:, :, 1])
    return density / density.sum(dim=(2, 3), keepdim=True).clamp(min=1e-12)
