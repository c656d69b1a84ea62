"""What stage 1 is to predict."""

import math

import torch

from pvn.geometry import MapGrid, to_map
from pvn.learning.losses import part_shares, target_distributions
from pvn.model.visitation import GOAL, TRAJECTORY

GRID = MapGrid()


def start_poses(count):
    """Poses (count, 3), x, y, yaw, all over the field."""
    low, high = torch.tensor([5.0, 5.0, -math.pi]), torch.tensor([45.0, 45.0, math.pi])
    return low + (high - low) * torch.rand((count, 3), generator=torch.Generator().manual_seed(0))


def centre_of(maps):
    """Row and column (B, 2) of the centres of mass of maps (B, S, S)."""
    place = torch.arange(maps.shape[-1]).to(maps)
    mass = maps.sum((1, 2))
    return torch.stack([(maps.sum(2) * place).sum(1) / mass, (maps.sum(1) * place).sum(1) / mass], -1)


def a_path(origin):
    """A path that bends, in the map frames of poses (B, 3)."""
    path = torch.tensor([[20.0, 20.0], [22.0, 20.5], [24.0, 22.0], [25.0, 24.0], [25.5, 27.0], [25.5, 27.0]])
    return to_map(path.expand(len(origin), -1, -1), origin), torch.full((len(origin),), 5)


def test_targets_are_distributions_with_the_goal_at_its_cell():
    path, num_points = a_path(start_poses(8))
    target = target_distributions(path, num_points, GRID, 0.6)
    assert torch.allclose(target.sum((2, 3)), torch.ones(8, 2))
    for flight in range(8):
        row, column = GRID.cells(path[flight, 4]).round().int().tolist()
        assert divmod(int(target[flight, GOAL].argmax()), GRID.size) == (row, column)
        for point in path[flight, :5]:
            row, column = GRID.cells(point).round().int().tolist()
            assert target[flight, TRAJECTORY, row, column] > 0.02
    assert torch.allclose(centre_of(target[:, GOAL]), GRID.cells(path[:, 4]), atol=0.02)
    assert torch.allclose(centre_of(target[:, TRAJECTORY]), GRID.cells(path[:, :5]).mean(1), atol=0.02)


def test_turning_the_frame_left_turns_the_targets_right():
    origin = start_poses(8)
    before, after = (
        target_distributions(*a_path(origin + torch.tensor([0.0, 0.0, turn])), GRID, 0.6) for turn in (0, math.pi / 2)
    )
    assert torch.allclose(after, before.rot90(-1, (2, 3)), atol=1e-4)


def test_parts_of_the_way_share_its_points_by_hand():
    # Five points in two parts, and a sixth of padding: the parts' middles are at a quarter and three quarters.
    shares = part_shares(torch.tensor([5]), 6, 2)
    assert shares.tolist() == [[[0.5, 1.0, 0.5, 0.0, 0.0, 0.0], [0.0, 0.0, 0.5, 1.0, 0.5, 0.0]]]
    # Few points: each part has some of each, the first more of the first; the only point of a path is in every part.
    for num_points, ends in ((2, [[0.75, 0.25], [0.25, 0.75]]), (1, [[0.75, 0.0], [0.25, 0.0]])):
        assert part_shares(torch.tensor([num_points]), 2, 2).tolist() == [ends]
    assert part_shares(torch.tensor([2]), 3, 1).tolist() == [[[1.0, 1.0, 0.0]]], "one part has the whole way"
