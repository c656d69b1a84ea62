"""PVN's predictions in flights, and how good they are."""

from unittest import mock

import numpy as np
import pytest
import torch
from matplotlib.image import imread

from pvn.evaluation.calibration import SHARES
from pvn.evaluation.pilots import load_pilot
from pvn.evaluation.predictions import (
    WATCHED_PER_BATCH,
    Predictions,
    evaluate_predictions,
    fly_with_predictions,
    paths_in_map,
)
from pvn.geometry import MapGrid
from pvn.learning.losses import target_distributions
from pvn.rollout.flight import fly
from pvn.simulator.simulator import simulator_for
from pvn.viz.curves import draw_prediction_quality
from pvn.viz.results_table import print_bound

GRID = MapGrid()


@pytest.fixture(scope="module")
def pilot(quick_pvn):
    return load_pilot(str(quick_pvn))


@pytest.fixture(scope="module")
def flown(paragraph, pilot):
    segments = paragraph[:3]
    with mock.patch.dict(WATCHED_PER_BATCH, cpu=3):  # together, as on a GPU: one that has stopped hovers for the others
        return segments, fly_with_predictions(segments, pilot)


@pytest.mark.long
def test_paths_come_to_the_map_evenly_whatever_their_steps():
    hurried, idle = np.array([[5.0, 5.0], [5.0, 15.0]]), np.array([[5.0, 5.0], [5.0, 5.0], [5.0, 6.0], [5.0, 15.0]])
    origin = torch.tensor([[5.0, 5.0, np.pi / 2]]).repeat(2, 1)
    path, num_points = paths_in_map([hurried, idle], origin)
    torch.testing.assert_close(path[0], path[1])
    assert num_points.tolist() == [21, 21]
    torch.testing.assert_close(path[0, -1], torch.tensor([10.0, 0.0], dtype=torch.float64), atol=1e-5, rtol=0)


@pytest.mark.long
def test_first_and_last_predictions_are_of_the_flight_not_of_its_hovering(flown, pilot):
    segments, predictions = flown
    tasks = [segment.task for segment in segments]
    seen = []

    def keep(step, observation, action, memory):
        seen.append(memory.visitation.log_probability)

    log = fly(simulator_for(tasks, config=pilot.config), tasks, pilot.policy, watch=keep)
    assert torch.equal(log.num_steps, predictions.flights.num_steps) and log.num_steps.min() + 6 < log.num_steps.max()
    assert torch.equal(predictions.first, seen[0])
    for flight, count in enumerate(log.num_steps.tolist()):
        assert torch.equal(predictions.last[flight], seen[count - 1][flight])
    torch.testing.assert_close(predictions.first.exp().sum((2, 3)), torch.ones(len(segments), 2))


@pytest.mark.long
def test_predictions_are_evaluated_written_and_drawn(flown, tmp_path, capsys):
    segments, predictions = flown
    quality = evaluate_predictions(predictions, segments, GRID)
    report = quality.to_json([segment.environment for segment in segments])
    for when in ("first", "last"):
        for name in ("trajectory", "goal"):
            assert report[when]["bound"][name]["holds_percent"]["value"] == 100
        assert len(report[when]["calibration"]["coverage"]) == len(SHARES)
        assert 0 <= report[when]["goals_found_percent"]["value"] <= 100
    print_bound({"system": "pvn", "split": "dev", **report})
    assert "calibration" in capsys.readouterr().out
    draw_prediction_quality(tmp_path / "curve.png", quality, "pvn, dev")
    assert imread(tmp_path / "curve.png").std() > 0.02
    with pytest.raises(ValueError, match="one flight for each"):
        evaluate_predictions(predictions, segments[:1], GRID)


@pytest.mark.long
def test_a_perfect_prediction_has_no_epsilon_and_covers_every_goal(flown):
    segments, predictions = flown
    paths = [segment.demonstration.path for segment in segments]
    path, num_points = paths_in_map(paths, torch.tensor([segment.task.start for segment in segments]))
    perfect = target_distributions(path, num_points, GRID, 0.6).clamp(min=1e-30).log().float()
    quality = evaluate_predictions(Predictions(predictions.flights, perfect, perfect), segments, GRID)
    assert max(found.epsilon.max() for found in quality.bounds.values()) < 0.1  # what the floor costs
    assert quality.calibration["first"].overconfidence < 0  # wider than necessary: goals are spread in training
    assert max(quality.goal_distance["last"]) < 0.8 * GRID.cell  # the goal's own cell, whose corner is 0.71 cells away


@pytest.mark.long
def test_a_goal_is_found_within_five_metres_of_the_likeliest_cell(flown):
    segments, predictions = flown
    environments = [segment.environment for segment in segments]
    paths = [segment.demonstration.path for segment in segments]
    path, _ = paths_in_map(paths, torch.tensor([segment.task.start for segment in segments]))
    for metres, percent in ((4.0, 100.0), (7.0, 0.0)):
        row, column = GRID.cells(path[:, -1] + torch.tensor([metres, 0.0])).round().long().unbind(1)
        predicted = torch.full_like(predictions.first, -9.0)
        predicted[torch.arange(len(segments)), 1, row, column] = 0.0
        quality = evaluate_predictions(Predictions(predictions.flights, predicted, predictions.last), segments, GRID)
        assert quality.to_json(environments)["first"]["goals_found_percent"]["value"] == percent
