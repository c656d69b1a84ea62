"""Calibration of goal distributions whose goals were drawn from them, or not."""

import numpy as np
import pytest
import torch

from pvn.evaluation.calibration import CredibleLevels, calibration, credible_levels, spread_goals
from pvn.geometry import MapGrid

SMALL = MapGrid(size=8, cell=2.0)


def random_distributions(count, sharpness, seed=0, size=8):
    generator = torch.Generator().manual_seed(seed)
    scores = sharpness * torch.randn(count, size * size, generator=generator, dtype=torch.float64)
    return scores.softmax(-1).view(count, size, size)


def drawn_goals(distributions, grid=SMALL):
    return spread_goals(distributions, grid, torch.Generator().manual_seed(1))


def test_a_goals_level_is_the_mass_of_all_cells_at_least_as_likely():
    distribution = torch.zeros(1, 8, 8)
    distribution[0, 0, :4] = torch.tensor([0.4, 0.3, 0.2, 0.1])
    goals = SMALL.places().view(8, 8, 2)[0, :4]
    levels = credible_levels(distribution.expand(4, -1, -1), goals, SMALL)
    np.testing.assert_allclose(levels.level, [0.4, 0.7, 0.9, 1.0], atol=1e-6)
    np.testing.assert_allclose(levels.above, [0.0, 0.4, 0.7, 0.9], atol=1e-6)


def test_equally_likely_cells_share_a_level():
    levels = credible_levels(torch.full((2, 8, 8), 1 / 64), torch.tensor([[1.0, 1.0], [-5.0, 3.0]]), SMALL)
    assert levels.above.tolist() == [0, 0] and levels.level.tolist() == [1, 1]
    assert calibration(levels).error == pytest.approx(0, abs=1e-12)


def test_a_goal_off_the_map_is_in_no_share_of_the_mass():
    levels = credible_levels(torch.full((1, 8, 8), 1 / 64), torch.tensor([[30.0, 0.0]]), SMALL)
    assert calibration(levels).coverage[:-1].max() == 0


@pytest.mark.parametrize("sharpness", [0.5, 3.0, 8.0])
def test_goals_drawn_from_the_distributions_are_calibrated_however_coarse_the_cells(sharpness):
    distributions = random_distributions(4000, sharpness)
    found = calibration(credible_levels(distributions, drawn_goals(distributions), SMALL))
    assert found.error < 0.02 and abs(found.overconfidence) < 0.02


def test_too_sharp_is_overconfident_and_too_wide_is_not():
    distributions = random_distributions(4000, 2.0)
    goals = drawn_goals(distributions)
    sharp = (distributions.log() * 3).flatten(1).softmax(-1).view(-1, 8, 8)
    wide = (distributions.log() / 3).flatten(1).softmax(-1).view(-1, 8, 8)
    sharp, wide = (calibration(credible_levels(found, goals, SMALL)) for found in (sharp, wide))
    assert sharp.error > 0.1 and sharp.overconfidence == pytest.approx(sharp.error, abs=1e-3)
    assert wide.error > 0.1 and wide.overconfidence == pytest.approx(-wide.error, abs=1e-3)


def test_the_error_is_half_at_worst():
    certain, wrong = (CredibleLevels(np.full(3, mass), np.full(3, mass)) for mass in (0.0, 1.0))
    assert calibration(certain).overconfidence == pytest.approx(-0.5, abs=0.01)
    assert calibration(wrong).error == pytest.approx(0.5, abs=0.01)
    with pytest.raises(ValueError, match="got none"):
        calibration(CredibleLevels(np.zeros(0), np.zeros(0)))


def test_distributions_and_goals_go_together():
    with pytest.raises(ValueError, match="one for each goal"):
        credible_levels(torch.full((3, 8, 8), 1 / 64), torch.zeros(2, 2), SMALL)
