"""The paper's theorem 5.1: its bound holds, and its two sides are what they should be."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pvn.evaluation.bound import bounds, rewards, visited
from pvn.evaluation.predictions import paths_in_map
from pvn.geometry import MapGrid
from pvn.model.visitation import GOAL, TRAJECTORY

GRID = MapGrid()


def random_distributions(count, sharpness, seed=0, size=8):
    generator = torch.Generator().manual_seed(seed)
    scores = sharpness * torch.randn(count, size * size, generator=generator, dtype=torch.float64)
    return scores.softmax(-1).view(count, size, size)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.01, 20), st.floats(0.01, 20), st.floats(0.01, 20), st.booleans())
def test_the_bound_holds_for_any_distributions_and_any_reward(seed, one, two, three, is_adverse):
    oracle = random_distributions(16, one, seed)
    predicted = random_distributions(16, two, seed + 1)
    flown = random_distributions(16, three, seed + 2)
    reward = (oracle > flown) if is_adverse else torch.rand(16, 8, 8, generator=torch.Generator().manual_seed(seed))
    found = bounds(oracle, predicted.log(), flown, reward)
    assert found.holds.all()
    assert (found.gap <= found.worst_gap + 1e-12).all() and (found.worst_gap <= found.bound / 2 + 1e-9).all()
    if is_adverse:  # the reward the worst gap is of
        np.testing.assert_allclose(found.gap, found.worst_gap, atol=1e-12)
    assert (np.abs(found.ratio) <= 1).all()


def test_divergences_by_hand():
    """epsilon is KL(oracle || predicted), eta is KL(predicted || flown); the other way round they differ."""
    oracle, predicted, flown = (torch.tensor([[p, 1 - p]]).view(1, 1, 2) for p in (0.5, 0.8, 0.4))
    found = bounds(oracle, predicted.log(), flown, torch.tensor([[[1.0, 0.0]]]))
    assert found.epsilon[0] == pytest.approx(0.5 * np.log(0.5 / 0.8) + 0.5 * np.log(0.5 / 0.2))
    assert found.eta[0] == pytest.approx(0.8 * np.log(0.8 / 0.4) + 0.2 * np.log(0.2 / 0.6))
    assert found.eta[0] != pytest.approx(0.4 * np.log(0.4 / 0.8) + 0.6 * np.log(0.6 / 0.2), rel=0.05)
    assert found.bound[0] == pytest.approx(np.sqrt(2 * found.epsilon[0]) + np.sqrt(2 * found.eta[0]))
    assert [found.gap[0], found.worst_gap[0]] == pytest.approx([0.1, 0.1])


def test_no_gap_where_the_flight_is_the_oracles_and_no_bound_where_the_prediction_is_too():
    same = random_distributions(5, 3.0)
    reward = torch.rand(5, 8, 8)
    other = bounds(same, random_distributions(5, 3.0, seed=9).log(), same, reward)
    assert (other.gap == 0).all() and (other.worst_gap == 0).all() and (other.bound > 0.1).all()
    equal = bounds(same, same.log(), same, reward)
    np.testing.assert_allclose(equal.bound, 0, atol=1e-6)
    assert equal.holds.all() and np.isfinite(equal.ratio).all()


def test_the_gap_is_below_zero_where_the_flight_was_worth_more():
    oracle, flown = torch.tensor([[[0.5, 0.5]]]), torch.tensor([[[0.9, 0.1]]])
    found = bounds(oracle, oracle.log(), flown, torch.tensor([[[1.0, 0.0]]]))
    assert found.gap[0] == pytest.approx(-0.4) and found.holds[0]


@pytest.mark.long
def test_what_is_visited_is_a_distribution_everywhere_above_zero_even_off_the_map():
    path = torch.tensor([[[0.0, 0.0], [10.0, 0.0], [200.0, 0.0]]])
    found = visited(path, torch.tensor([3]), GRID, 0.6)
    assert (found > 0).all()
    torch.testing.assert_close(found.sum((2, 3)), torch.ones(1, 2, dtype=torch.float64))
    assert found[0, GOAL].argmax() % GRID.size == GRID.size - 1  # at the rim, straight ahead


def test_rewards_are_near_the_path_and_near_its_end():
    path = torch.tensor([[[0.0, 0.0], [10.0, 0.0], [20.0, 0.0], [20.0, 0.0]]])
    reward = rewards(path, torch.tensor([2]), GRID)  # the last two points are no part of it
    off = torch.cdist(GRID.places().double(), path[0, :2].double()).view(GRID.size, GRID.size, 2)
    assert torch.equal(reward[0, TRAJECTORY].bool(), (off < 5).any(-1))
    assert torch.equal(reward[0, GOAL].bool(), off[..., 1] < 5)


def test_a_flight_along_the_demonstration_loses_nothing_and_one_elsewhere_loses_all():
    ahead, aside = np.array([[0.0, 0.0], [20.0, 0.0]]), np.array([[0.0, 20.0], [20.0, 20.0]])
    path, num_points = paths_in_map([ahead, ahead], torch.zeros(2, 3))
    flown = visited(*paths_in_map([ahead, aside], torch.zeros(2, 3)), GRID, 0.6)
    oracle, reward = visited(path, num_points, GRID, 0.6), rewards(path, num_points, GRID)
    for which in (TRAJECTORY, GOAL):
        found = bounds(oracle[:, which], oracle[:, which].log(), flown[:, which], reward[:, which])
        assert found.gap[0] == 0 and found.epsilon[0] < 1e-9
        assert found.gap[1] > 0.98 and found.eta[1] > 5 and found.holds.all()
