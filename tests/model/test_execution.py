"""Stage 2: what it sees around the drone, and the actions it makes of it."""

import math

import pytest
import torch

from pvn.geometry import MapGrid, pose_in_map
from pvn.learning.losses import target_distributions
from pvn.model.execution import (
    ExecutionConfig,
    ExecutionModel,
    begin_progress,
    look_around,
    to_action,
    update_progress,
)
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


def crop_around(distributions, pose, config):
    """What stage 2 sees of distributions (B, 2, S, S), as maps again."""
    seen = look_around(distributions, torch.ones(len(pose), 1), pose, config)
    return seen.view(len(pose), 2, config.crop, config.crop)


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
    expected[2, 0] = 0.15 * speed
    assert torch.allclose(to_action(output, kappa, config, min_speed=0.15), expected), "a drone that stops has no speed"


def test_a_drone_stops_only_as_far_as_it_is_in_the_last_part_of_its_way():
    """On a long way the parts are far apart, and a network that sees little ahead would like to stop."""
    config, eager = SimulatorConfig(), torch.tensor([[0.5, 0.0, 0.0]]).expand(3, -1)
    in_last_part = torch.tensor([0.0, 0.1, 0.2])
    action = to_action(eager, 0.07, config, in_last_part=in_last_part)
    assert action[:, 2].tolist() == [0.0, 0.0, 1.0]
    assert action[:, 0].tolist() == [0.5 * config.max_speed, 0.5 * config.max_speed, 0.0]


def test_a_pilot_without_goals_looks_at_the_trajectory_alone():
    distributions = torch.rand((3, 2, GRID.size, GRID.size), generator=seeded())
    changed = {}
    for uses_goal in (True, False):
        config = ExecutionConfig(uses_goal=uses_goal)
        for channel in (TRAJECTORY, GOAL):
            other = distributions.clone()
            other[:, channel] = 0
            seen, without = (crop_around(maps, torch.zeros(3, 3), config) for maps in (distributions, other))
            changed[uses_goal, channel] = not torch.equal(seen, without)
    assert changed == {(True, TRAJECTORY): True, (True, GOAL): True, (False, TRAJECTORY): True, (False, GOAL): False}


@pytest.mark.parametrize("part", [0, 1, 2])
def test_without_goals_none_is_seen_as_the_part_after_the_last(part):
    config = ExecutionConfig(uses_goal=False, num_parts=3)
    maps = torch.rand((1, 4, GRID.size, GRID.size), generator=seeded())
    moved = torch.cat([maps[:, :-1], maps[:, -1:].flip(-1)], 1)
    progress, here = torch.eye(3)[part : part + 1], torch.zeros(1, 3)
    assert torch.equal(look_around(maps, progress, here, config), look_around(moved, progress, here, config))


def circle(num_points=48, radius=6.0):
    """A full circle (1, P, 2), counter-clockwise, that starts and ends at the origin of the map frame."""
    angle = torch.linspace(-math.pi / 2, 1.5 * math.pi, num_points)
    return torch.stack([radius * angle.cos(), radius * (1 + angle.sin())], -1)[None]


def progress_along(track, parts):
    """Most likely part after each of the points (T, 2), map frame, where a drone has been."""
    progress, places = begin_progress(1, parts.shape[1], torch.device("cpu")), []
    for x, y in track.tolist():
        progress = update_progress(progress, parts, torch.tensor([[x, y, 0.0]]), GRID)
        places.append(int(progress.argmax()))
    return places


def test_a_drone_that_flies_a_circle_goes_from_part_to_part_though_the_last_ends_where_the_first_began():
    path = circle()
    parts = target_distributions(path, torch.tensor([path.shape[1]]), GRID, 0.6, num_parts=6)[:, :-1]
    waiting, flying = progress_along(path[0, :1].repeat(30, 1), parts), progress_along(path[0], parts)
    assert set(waiting) == {0}
    assert flying == sorted(flying) and set(flying) == set(range(6))


def test_a_short_way_has_all_its_parts_too():
    path = torch.tensor([[[0.0, 0.0], [0.7, 0.0], [1.4, 0.0], [2.1, 0.0]]])
    parts = target_distributions(path, torch.tensor([4]), GRID, 0.6, num_parts=6)
    assert torch.allclose(parts.sum((2, 3)), torch.ones(1, 7), atol=1e-5)
    stay = path[0, -1:].repeat(4, 1)
    assert progress_along(torch.cat([path[0], stay]), parts[:, :-1])[-1] == 5


def test_the_goal_is_not_seen_before_the_last_part_of_the_way():
    path, config = circle(), ExecutionConfig(num_parts=6)
    maps = target_distributions(path, torch.tensor([path.shape[1]]), GRID, 0.6, num_parts=6)
    at_start = torch.zeros(1, 3)
    first, last = (
        look_around(maps, progress, at_start, config)[:, : 3 * 144].view(3, 12, 12)
        for progress in (torch.eye(6)[:1], torch.eye(6)[5:])
    )
    assert not first[2].any() and last[2].sum() > 0.5
    ahead, right = first[0].sum(0), first[0].sum(1)  # by columns, which run ahead, and rows, to the right
    assert ahead[6:].sum() > ahead[:6].sum() and right[:6].sum() > right[6:].sum(), (
        "the circle begins ahead, to the left"
    )


def test_stage_2_sees_the_part_that_it_is_in_and_after_it_the_next_one():
    """Four parts, each on a cell of its own; from the third, the fourth is next, and after the last comes the goal."""
    config = ExecutionConfig(num_parts=4)
    maps = torch.zeros(1, 5, GRID.size, GRID.size)
    for part in range(5):
        maps[0, part, 32, 30 + part] = 1.0

    def seen_from(part):
        seen = look_around(maps, torch.eye(4)[part : part + 1], torch.tensor([[0.0, 0.0, 0.0]]), config)
        return seen[:, : 3 * 144].view(3, 12, 12).sum(1).argmax(1).tolist(), seen[0, 3 * 144 :].tolist()

    (here, following, _), progress = seen_from(2)
    assert following == here + 1 and progress == [0.0, 0.0, 1.0, 0.0]
    (last, following, goal), _ = seen_from(3)
    assert (last, following, goal) == (here + 1, here + 2, here + 2), "after the last part comes the goal"


def test_parts_of_the_way_share_each_point_and_follow_each_other():
    from pvn.learning.losses import part_shares

    shares = part_shares(torch.tensor([25, 9]), 25, 4)
    assert not shares[1, :, 9:].any() and (shares.sum(2) > 0).all()
    assert torch.allclose(shares[0].sum(0)[3:22], torch.ones(19), atol=1e-5), (
        "between the middles of first and last part"
    )
    middle = (shares * torch.arange(25)).sum(2) / shares.sum(2)
    assert (middle.diff(dim=1) > 0).all()
    assert torch.equal(part_shares(torch.tensor([3]), 5, 1), torch.tensor([[[1.0, 1.0, 1.0, 0.0, 0.0]]]))


def test_where_all_parts_are_as_likely_a_step_leads_on_with_a_chance_of_15_percent_and_stays_in_the_last():
    parts, here = torch.ones(1, 3, GRID.size, GRID.size), torch.zeros(1, 3)
    after = update_progress(begin_progress(1, 3, here.device), parts, here, GRID)
    assert torch.allclose(after, torch.tensor([[0.85, 0.85 * 0.15, 0.15**2]]), atol=1e-5)
    last = torch.tensor([[0.0, 0.0, 1.0]])
    assert torch.allclose(update_progress(last, parts, here, GRID), last)


def test_the_progress_of_a_flight_in_a_batch_is_that_of_the_flight_alone():
    """One drone is where its prediction is sure it should be, the other where it hardly can be."""
    parts = torch.rand((2, 3, GRID.size, GRID.size), generator=seeded())
    parts[1] *= 1e-4
    progress, pose = torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3]]), torch.tensor([[1.0, 2.0, 0.3], [-8.0, 5.0, 0.0]])
    both = update_progress(progress, parts, pose, GRID)
    for flight in (slice(0, 1), slice(1, 2)):
        alone = update_progress(progress[flight], parts[flight], pose[flight], GRID)
        assert torch.allclose(both[flight], alone, atol=1e-6)


def test_beyond_the_map_a_drone_still_knows_how_far_it_is():
    parts, beyond = torch.rand((1, 3, GRID.size, GRID.size), generator=seeded()), torch.tensor([[500.0, 0.0, 0.0]])
    after = update_progress(torch.tensor([[0.1, 0.8, 0.1]]), parts, beyond, GRID)
    assert after.argmax() == 1 and torch.allclose(after.sum(), torch.tensor(1.0))


@torch.no_grad()
def test_in_training_stage_2_may_see_nothing_but_always_knows_how_far_it_is():
    torch.manual_seed(0)
    pilot, crops = ExecutionModel(ExecutionConfig(num_parts=3, dropout=1.0)).train(), torch.rand(2, 3 * 144)
    first, last = (pilot(torch.cat([crops, row.expand(2, -1)], 1)) for row in torch.eye(3)[[0, 2]])
    assert torch.equal(first[0], first[1]), "whatever is around"
    assert (first - last).abs().min() > 1e-3


@torch.no_grad()
def test_stage_2_by_hand():
    """One hidden layer with a leaky rectifier; inputs and hidden layer lead to the outputs."""
    torch.manual_seed(0)
    pilot, seen = ExecutionModel(ExecutionConfig()).eval(), torch.randn(4, 288)
    hidden = seen @ pilot.hidden.weight.T + pilot.hidden.bias
    hidden = torch.where(hidden < 0, 0.01 * hidden, hidden)
    expected = torch.cat([seen, hidden], -1) @ pilot.output.weight.T + pilot.output.bias
    assert torch.allclose(pilot(seen), expected, atol=1e-5)


def test_a_part_that_rules_a_place_out_still_has_a_fiftieth_of_the_likeliest_ones_likelihood():
    """So that one wrong prediction does not settle where a drone is."""
    parts, here = torch.zeros(1, 2, GRID.size, GRID.size), torch.zeros(1, 3)
    parts[:, 1] = 1.0
    after = update_progress(torch.tensor([[1.0, 0.0]]), parts, here, GRID)[0]
    stays, moves_on = 0.85 * 0.02, 0.15 * 1.02
    assert after.tolist() == pytest.approx([stays / (stays + moves_on), moves_on / (stays + moves_on)], rel=1e-4)
