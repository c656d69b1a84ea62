"""What predictions are worth: calibration of the goal distribution, and the paper's theorem 5.1."""

import json
import shlex
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread

from pvn.cli import main
from pvn.corpus.meadow.generator import sample_paragraph
from pvn.corpus.segments import Corpus
from pvn.corpus.store import write_corpus
from pvn.evaluation.bound import bounds, rewards, visited
from pvn.evaluation.calibration import SHARES, CredibleLevels, calibration, credible_levels, spread_goals
from pvn.evaluation.flights import AT_ONCE
from pvn.evaluation.predictions import Predictions, fly_with_predictions, judge, paths_in_map
from pvn.geometry import MapGrid
from pvn.learning.agent import shipped_agent
from pvn.learning.losses import target_distributions
from pvn.model.visitation import GOAL, TRAJECTORY
from pvn.report.prediction_quality import draw_judgement, print_bound
from pvn.rollout.flight import fly, simulator_for

SMALL = MapGrid(size=8, cell=2.0)
GRID = MapGrid()


def random_distributions(count, sharpness, seed=0, size=8):
    generator = torch.Generator().manual_seed(seed)
    scores = sharpness * torch.randn(count, size * size, generator=generator, dtype=torch.float64)
    return scores.softmax(-1).view(count, size, size)


def drawn_goals(distributions, grid=SMALL):
    return spread_goals(distributions, grid, torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def flown():
    torch.set_num_threads(1)
    segments = sample_paragraph(seed=3)[:3]
    with mock.patch.dict(AT_ONCE, cpu=3):  # together, as on a GPU: who has stopped hovers while the others fly
        return segments, fly_with_predictions(segments, shipped_agent())


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
    oracle, predicted, flown = (torch.tensor([[p, 1 - p]]).view(1, 1, 2) for p in (0.5, 0.75, 0.25))
    found = bounds(oracle, predicted.log(), flown, torch.tensor([[[1.0, 0.0]]]))
    assert found.epsilon[0] == pytest.approx(0.5 * np.log(0.5 / 0.75) + 0.5 * np.log(0.5 / 0.25))
    assert found.eta[0] == pytest.approx(0.75 * np.log(3) - 0.25 * np.log(3))
    assert found.bound[0] == pytest.approx(np.sqrt(2 * found.epsilon[0]) + np.sqrt(2 * found.eta[0]))
    assert found.gap[0] == found.worst_gap[0] == pytest.approx(0.25)


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


def test_paths_come_to_the_map_evenly_whatever_their_steps():
    hurried, idle = np.array([[5.0, 5.0], [5.0, 15.0]]), np.array([[5.0, 5.0], [5.0, 5.0], [5.0, 6.0], [5.0, 15.0]])
    origin = torch.tensor([[5.0, 5.0, np.pi / 2]]).repeat(2, 1)
    path, num_points = paths_in_map([hurried, idle], origin)
    torch.testing.assert_close(path[0], path[1])
    assert num_points.tolist() == [21, 21]
    torch.testing.assert_close(path[0, -1], torch.tensor([10.0, 0.0], dtype=torch.float64), atol=1e-5, rtol=0)


def test_first_and_last_predictions_are_of_the_flight_not_of_its_hovering(flown):
    segments, predictions = flown
    tasks = [segment.task for segment in segments]
    seen = []

    def keep(step, observation, action, memory):
        seen.append(memory.visitation.log_probability)

    log = fly(simulator_for(tasks), tasks, shipped_agent(), watch=keep)
    assert torch.equal(log.num_steps, predictions.flights.num_steps) and log.num_steps.min() + 6 < log.num_steps.max()
    assert torch.equal(predictions.first, seen[0])
    for flight, count in enumerate(log.num_steps.tolist()):
        assert torch.equal(predictions.last[flight], seen[count - 1][flight])
    torch.testing.assert_close(predictions.first.exp().sum((2, 3)), torch.ones(len(segments), 2))


def test_predictions_are_judged_written_and_drawn(flown, tmp_path, capsys):
    segments, predictions = flown
    judgement = judge(predictions, segments, GRID)
    report = judgement.to_json([segment.environment for segment in segments])
    for when in ("first", "last"):
        for name in ("trajectory", "goal"):
            assert report[when]["bound"][name]["holds_percent"]["value"] == 100
        assert len(report[when]["calibration"]["coverage"]) == len(SHARES)
    print_bound({"system": "pvn", "split": "dev", **report})
    assert "calibration" in capsys.readouterr().out
    draw_judgement(tmp_path / "curve.png", judgement, "pvn, dev")
    assert imread(tmp_path / "curve.png").std() > 0.02
    with pytest.raises(ValueError, match="one flight for each"):
        judge(predictions, segments[:1], GRID)


def test_a_perfect_prediction_has_no_epsilon_and_covers_every_goal(flown):
    segments, predictions = flown
    tasks = [segment.task for segment in segments]
    path, num_points = paths_in_map([task.path for task in tasks], torch.tensor([task.start for task in tasks]))
    perfect = target_distributions(path, num_points, GRID, 0.6).clamp(min=1e-30).log().float()
    judgement = judge(Predictions(predictions.flights, perfect, perfect), segments, GRID)
    assert max(found.epsilon.max() for found in judgement.bounds.values()) < 0.1  # what the floor costs
    assert judgement.calibration["first"].overconfidence < 0  # wider than need be: goals are spread in training


def test_evaluate_judges_a_pvn_and_refuses_who_predicts_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_corpus(Corpus("two", {"dev": sample_paragraph(seed=3)[1:3]}), tmp_path / "two")
    main(shlex.split("evaluate pvn --corpus two --out results --bound --json"))
    (printed,) = json.loads(capsys.readouterr().out)
    assert printed["bound"] == json.loads(Path("results/bound_pvn_dev.json").read_text())
    assert printed["bound"]["last"]["bound"]["goal"]["holds_percent"]["value"] == 100
    assert Path("results/calibration_pvn_dev.png").exists()
    with pytest.raises(SystemExit):
        main(shlex.split("evaluate pvn oracle --corpus two --out elsewhere --bound"))
    assert "oracle: predicts no visitation distributions" in capsys.readouterr().err
    assert not Path("elsewhere").exists()
