"""Stage 2: what it sees around the drone, and the actions it makes of it."""

import math

import torch

from pvn.geometry import MapGrid, pose_in_map
from pvn.learning.losses import target_distributions
from pvn.model.execution import ExecutionConfig, ExecutionModel, crop_around, to_action
from pvn.model.visitation import GOAL, TRAJECTORY
from pvn.simulator.interface import SimulatorConfig

GRID = MapGrid()


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def uniform(low, high, count, seed=0):
    """Rows (count, N) between two bounds (N,)."""
    low, high = torch.tensor(low), torch.tensor(high)
    return low + (high - low) * torch.rand((count, len(low)), generator=seeded(seed))


def centre_of(maps):
    """Row and column (B, 2) of the centres of mass of maps (B, S, S)."""
    place = torch.arange(maps.shape[-1]).to(maps)
    mass = maps.sum((1, 2))
    return torch.stack([(maps.sum(2) * place).sum(1) / mass, (maps.sum(1) * place).sum(1) / mass], -1)


def test_the_crop_puts_the_goal_where_the_drone_would_see_it():
    """Columns run ahead of the drone and rows to its right, wherever it is and however it is turned."""
    config = ExecutionConfig()
    pose = uniform([-20.0, -20.0, -math.pi], [20.0, 20.0, math.pi], 40)
    own = uniform([-6.0, -6.0], [6.0, 6.0], 40, seed=1)  # ahead and to the left, metres
    own[:10] = torch.tensor([6.0, 0.0])
    forward = torch.stack([pose[:, 2].cos(), pose[:, 2].sin()], -1)
    left = torch.stack([-pose[:, 2].sin(), pose[:, 2].cos()], -1)
    goal = pose[:, :2] + own[:, :1] * forward + own[:, 1:] * left
    target = target_distributions(goal[:, None], torch.ones(40, dtype=torch.int64), GRID, 0.6)
    cropped = crop_around(target, pose, config)
    assert cropped.shape == (40, 2, 12, 12)
    centre = centre_of(cropped[:, GOAL])
    assert torch.allclose(centre[:10], torch.tensor([5.5, 5.5 + 6.0 / GRID.cell]), atol=0.1)
    assert torch.allclose(centre, MapGrid(size=12, cell=GRID.cell).cells(own), atol=0.1)


def test_at_the_start_the_crop_is_the_middle_of_the_maps():
    probability = torch.rand((2, 2, GRID.size, GRID.size), generator=seeded())
    cropped = crop_around(probability, torch.zeros(2, 3), ExecutionConfig())
    assert torch.allclose(cropped, probability[:, :, 26:38, 26:38], atol=1e-5)


def test_beyond_the_map_there_is_nothing_to_see():
    probability = torch.ones(1, 2, GRID.size, GRID.size)
    assert not crop_around(probability, torch.tensor([[70.0, 0.0, 1.0]]), ExecutionConfig()).any()


def test_a_pose_in_the_map_is_how_far_ahead_and_left_of_the_start_and_how_turned():
    origin = torch.tensor([[10.0, 20.0, math.pi / 2], [10.0, 20.0, 3.0]])
    pose = torch.tensor([[9.0, 24.0, 5.0, 0.1, 0.2, math.pi], [10.0, 20.0, 5.0, 0.0, 0.0, -3.0]])
    expected = torch.tensor([[4.0, 1.0, math.pi / 2], [0.0, 0.0, 2 * math.pi - 6]])
    assert torch.allclose(pose_in_map(pose, origin), expected, atol=1e-5)


def test_actions_are_clamped_and_a_probability_above_kappa_stops():
    config = SimulatorConfig()
    kappa = ExecutionConfig().stop_threshold
    assert kappa == 0.07
    below, above = (math.log(probability / (1 - probability)) for probability in (kappa - 0.001, kappa + 0.001))
    output = torch.tensor([
        [0.5, -0.25, below], [2.0, 3.0, below], [-1.0, -3.0, below], [0.5, 0.5, above],
    ])  # fmt: skip
    speed, turn = config.max_speed, config.max_yaw_rate
    expected = torch.tensor([
        [0.5 * speed, -0.25 * turn, 0.0], [speed, turn, 0.0], [0.0, -turn, 0.0], [0.0, 0.0, 1.0],
    ])  # fmt: skip
    assert torch.allclose(to_action(output, kappa, config), expected)


@torch.no_grad()
def test_a_pilot_without_goals_looks_at_the_trajectory_alone():
    cropped = torch.rand((3, 2, 12, 12), generator=seeded())
    changed = {}
    for uses_goal in (True, False):
        pilot = ExecutionModel(ExecutionConfig(uses_goal=uses_goal)).eval()
        for channel in (TRAJECTORY, GOAL):
            other = cropped.clone()
            other[:, channel] = 0
            changed[uses_goal, channel] = not torch.equal(pilot(cropped), pilot(other))
    assert changed == {(True, TRAJECTORY): True, (True, GOAL): True, (False, TRAJECTORY): True, (False, GOAL): False}
