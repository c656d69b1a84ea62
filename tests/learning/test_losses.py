"""Stage 1's losses, computed by hand, and as sums over parts of a batch, in which padding counts for nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from pvn.geometry import MapGrid
from pvn.learning.demonstrations import NO_FLIGHTS, Batch, Sizes, select, take_batch
from pvn.learning.losses import (
    LossConfig,
    LossSums,
    auxiliary_losses,
    objective,
    stage1_losses,
    target_distributions,
)
from pvn.model.mapping import AuxiliaryHeads, Frames, GroundedMaps
from pvn.model.visitation import GOAL, TRAJECTORY, Visitation

CONFIG = LossConfig()
GRID = MapGrid(size=4, cell=1.0)
MEANT, OTHER = 5, 9
"""Classes of two landmarks, of which the instruction mentions the first."""
GOAL_OF_THREE = 3
"""The goal's place after three parts of the way."""


def softplus(value):
    return math.log1p(math.exp(value))


def a_batch(**changes):
    """One flight with one prediction; its path leads from the middle one metre ahead, to the goal.

    Two landmarks are in view, in row 1, column 3 and in row 3, column 1.
    """
    one = torch.zeros(1, dtype=torch.int64)
    mentioned = torch.zeros((1, 63), dtype=torch.bool)
    mentioned[0, MEANT] = True
    parts = {
        "frames": Frames(
            torch.zeros((1, 36, 64, 3), dtype=torch.uint8), torch.zeros(1, 6), torch.zeros(1, 3), torch.tensor([0, 1]),
            one, one, longest=1,
        ),
        "tokens": one[:, None],
        "path_map": torch.tensor([[[-0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]]),
        "num_points": torch.tensor([2]),
        "faced_map": torch.tensor([[1.5, 0.5]]),
        "landmark_map": torch.tensor([[[1.5, 0.5], [-0.5, -1.5]]]),
        "landmark_class": torch.tensor([[MEANT, OTHER]]),
        "action": torch.zeros(1, 3),
        "is_visible": torch.tensor([[True, True]]),
        "mentioned": mentioned,
        "is_counted": torch.tensor([True]),
    }  # fmt: skip
    return Batch(**parts | changes)


def a_map(is_known=None):
    """Features and responses at the two landmarks' cells, nothing elsewhere."""
    semantic, grounding = torch.zeros(1, 32, 4, 4), torch.zeros(1, 3, 4, 4)
    semantic[0, 0, 1, 3] = semantic[0, 1, 3, 1] = 1.0
    grounding[0, 0, 1, 3], grounding[0, 0, 3, 1] = 2.0, -1.0
    seen = torch.ones((1, 4, 4), dtype=torch.bool) if is_known is None else is_known
    return GroundedMaps(semantic, seen, grounding, torch.zeros(1, 30))


def some_heads():
    """The first feature speaks for one class and the second for the other; the first response for being meant."""
    heads = AuxiliaryHeads(30, 3)
    with torch.no_grad():
        for parameter in heads.parameters():
            parameter.zero_()
        heads.landmark.weight[MEANT, 0], heads.landmark.weight[OTHER, 1] = 3.0, 4.0
        heads.grounded.weight[0, 0] = 1.0
        heads.mentioned.bias.fill_(-0.7)
    return heads


@torch.no_grad()
def test_the_auxiliary_losses_by_hand():
    found = auxiliary_losses(a_map(), a_batch(), some_heads(), GRID)
    # The right class has a logit of 3 or 4, the 62 others have 0.
    named = math.log(1 + 62 * math.exp(-3)), math.log(1 + 62 * math.exp(-4))
    assert float(found.landmark) == pytest.approx(sum(named) / 2, rel=1e-5)
    # One is meant and gets 2, one is not and gets -1.
    assert float(found.grounded) == pytest.approx((softplus(-2) + softplus(-1)) / 2, rel=1e-5)
    # 62 classes are not mentioned, one is; summed.
    assert float(found.mentioned) == pytest.approx(62 * softplus(-0.7) + softplus(0.7), rel=1e-5)
    assert int(found.num_visible) == 1


@pytest.mark.parametrize("reason", ["hidden", "cell never seen", "beyond the map", "no landmark"])
@torch.no_grad()
def test_a_landmark_without_a_picture_or_a_cell_has_no_label(reason):
    """The second landmark is left out; the first one's losses are then the mean."""
    is_known = torch.ones((1, 4, 4), dtype=torch.bool)
    is_known[0, 3, 1] = reason != "cell never seen"
    batch = {
        "hidden": a_batch(is_visible=torch.tensor([[True, False]])),
        "cell never seen": a_batch(),
        "beyond the map": a_batch(landmark_map=torch.tensor([[[1.5, 0.5], [-0.5, -2.5]]])),
        "no landmark": a_batch(landmark_class=torch.tensor([[MEANT, -1]])),
    }[reason]
    found = auxiliary_losses(a_map(is_known), batch, some_heads(), GRID)
    assert float(found.landmark) == pytest.approx(math.log(1 + 62 * math.exp(-3)), rel=1e-5)
    assert float(found.grounded) == pytest.approx(softplus(-2), rel=1e-5) and int(found.num_visible) == 1


@torch.no_grad()
def test_a_prediction_without_labels_counts_for_the_words_alone():
    found = auxiliary_losses(a_map(torch.zeros((1, 4, 4), dtype=torch.bool)), a_batch(), some_heads(), GRID)
    assert (float(found.landmark), float(found.grounded), int(found.num_visible)) == (0, 0, 0)
    assert float(found.mentioned) > 1


def visitation_of(log_parts):
    return Visitation(a_map(), log_parts)


@torch.no_grad()
def test_each_distribution_is_compared_with_its_own_target():
    """A prediction that is right costs nothing, one that knows nothing log 16 less the target's entropy."""
    batch = a_batch()
    target = target_distributions(batch.path_map, batch.num_points, GRID, CONFIG.sigma_cells)[0]
    uniform = torch.full((4, 4), 1 / 16)
    unsure = [float((part * (part * 16).log()).sum()) for part in target]
    assert unsure[GOAL] > unsure[TRAJECTORY] > 0.5
    for predicted, costs in (
        ((target[TRAJECTORY], target[GOAL]), (0.0, 0.0)),
        ((uniform, target[GOAL]), (unsure[TRAJECTORY], 0.0)),
        ((target[TRAJECTORY], uniform), (0.0, unsure[GOAL])),
    ):
        losses = stage1_losses(visitation_of(torch.stack(predicted).log()[None]), batch, some_heads(), GRID, CONFIG)
        assert (float(losses.trajectory), float(losses.goal)) == pytest.approx(costs, abs=1e-5)


def two_predictions(**changes):
    """The same flight with two predictions."""
    frames = replace(a_batch().frames, flight=torch.zeros(2, dtype=torch.int64))
    return a_batch(
        frames=frames, is_visible=torch.ones((2, 2), dtype=torch.bool), is_counted=torch.tensor([True, True]), **changes
    )


def twice(log_parts):
    """Two predictions (2, P + 1, 4, 4), on the same map."""
    maps = a_map()
    return Visitation(GroundedMaps(*(value.expand(2, *value.shape[1:]) for value in vars(maps).values())), log_parts)


@torch.no_grad()
def test_of_several_parts_of_the_way_each_has_its_target_and_the_trajectory_is_their_mean():
    batch = two_predictions()
    target = target_distributions(batch.path_map, batch.num_points, GRID, CONFIG.sigma_cells, 3)[0]
    unsure = [float((part * (part * 16).log()).sum()) for part in target]
    log_parts = target.log().repeat(2, 1, 1, 1)
    log_parts[0, 2] = log_parts[1, GOAL_OF_THREE] = -math.log(16)  # the first one does not know the third part
    losses = stage1_losses(twice(log_parts), batch, some_heads(), GRID, CONFIG)
    assert float(losses.trajectory) == pytest.approx(unsure[2] / 3, abs=1e-5)
    assert float(losses.goal) == pytest.approx(unsure[GOAL_OF_THREE], abs=1e-5)
    assert int(losses.num_predictions) == 2
    only_first = replace(batch, is_counted=torch.tensor([True, False]))
    losses = stage1_losses(twice(log_parts), only_first, some_heads(), GRID, CONFIG)
    assert float(losses.trajectory) == pytest.approx(unsure[2] / 3, abs=1e-5) and float(losses.goal) < 1e-5


@torch.no_grad()
def test_every_prediction_has_the_mean_over_its_own_landmarks():
    """The first sees both landmarks, the second one of them."""
    seen = torch.tensor([[True, True], [True, False]])
    maps = twice(torch.zeros(2, 2, 4, 4)).maps
    found = auxiliary_losses(maps, replace(two_predictions(), is_visible=seen), some_heads(), GRID)
    named = math.log(1 + 62 * math.exp(-3)), math.log(1 + 62 * math.exp(-4))
    assert float(found.landmark) == pytest.approx(sum(named) / 2 + named[0], rel=1e-5)
    assert float(found.grounded) == pytest.approx((softplus(-2) + softplus(-1)) / 2 + softplus(-2), rel=1e-5)
    assert float(found.mentioned) == pytest.approx(2 * (62 * softplus(-0.7) + softplus(0.7)), rel=1e-5)
    assert int(found.num_visible) == 2
    only_first = replace(two_predictions(), is_visible=seen, is_counted=torch.tensor([True, False]))
    found = auxiliary_losses(maps, only_first, some_heads(), GRID)
    assert float(found.mentioned) == pytest.approx(62 * softplus(-0.7) + softplus(0.7), rel=1e-5)
    assert int(found.num_visible) == 1


@torch.no_grad()
def test_the_first_class_in_the_first_cell_is_a_landmark_like_any_other():
    maps, heads = a_map(), some_heads()
    maps.semantic_map[0, 2, 0, 0] = 1.0
    heads.landmark.weight[0, 2] = 5.0
    corner = torch.tensor([[[-1.5, 1.5], [-0.5, -1.5]]])
    batch = a_batch(
        landmark_map=corner, landmark_class=torch.tensor([[0, OTHER]]), is_visible=torch.tensor([[True, False]])
    )
    found = auxiliary_losses(maps, batch, heads, GRID)
    assert float(found.landmark) == pytest.approx(math.log(1 + 62 * math.exp(-5)), rel=1e-5)
    assert float(found.grounded) == pytest.approx(softplus(0), rel=1e-5) and int(found.num_visible) == 1


@pytest.mark.parametrize(("cell", "is_found"), [(1.65, True), (1.7, False)])
@torch.no_grad()
def test_a_goal_counts_as_found_within_five_metres(cell, is_found):
    """The likeliest cell is three cells from the goal's, along its row or its column: 4.95 or 5.1 m."""
    goal = torch.tensor([-1.5, 1.5]) * cell  # in row 0, column 0
    batch = two_predictions(path_map=goal.expand(1, 3, 2))
    log_parts = torch.full((2, 2, 4, 4), -20.0)
    log_parts[0, GOAL, 0, 3] = log_parts[1, GOAL, 3, 0] = 0.0
    found = stage1_losses(twice(log_parts), batch, some_heads(), MapGrid(size=4, cell=cell), CONFIG).hits
    assert int(found) == (2 if is_found else 0)
    log_parts[1, GOAL, 0, 0] = 1.0
    found = stage1_losses(twice(log_parts), batch, some_heads(), MapGrid(size=4, cell=cell), CONFIG).hits
    assert int(found) == (2 if is_found else 1), "the second prediction has its likeliest cell at the goal"


def test_the_objective_is_the_papers_weighted_sum():
    values = {"trajectory": 2.0, "goal": 3.0, "landmark": 5.0, "grounded": 7.0, "mentioned": 63 * 11.0, "hits": 0.0}
    values["faced"] = 0.0  # the paper's agent predicts no place to face
    losses = LossSums(
        **{name: torch.tensor(value) for name, value in values.items()},
        num_predictions=torch.tensor(4), num_visible=torch.tensor(2),
    )  # fmt: skip

    def of(**changes):
        return float(objective(losses, LossConfig(**changes), losses.num_predictions, losses.num_visible))

    # Weights of the paper's appendix: 1, 1 and 0.25. The sum over the classes is our own.
    assert of() == pytest.approx((2 + 3) / 4 + 5 / 2 + 7 / 2 + 0.25 * 63 * 11 / 4)
    assert of(averages_mentioned=True) == pytest.approx((2 + 3) / 4 + 5 / 2 + 7 / 2 + 0.25 * 11 / 4)
    # The auxiliary losses on the maps are means over the predictions that have labels, if there are any.
    for labelled in (0, 1):
        found = objective(losses, LossConfig(mentioned_weight=0.0), losses.num_predictions, torch.tensor(labelled))
        assert float(found) == pytest.approx((2 + 3) / 4 + 5 + 7)
    # Each weight is that of its own loss.
    for name, change in (("landmark_weight", 5 / 2), ("grounded_weight", 7 / 2), ("mentioned_weight", 63 * 11 / 4)):
        assert of(**{name: 10.0}) - of(**{name: 0.0}) == pytest.approx(10 * change)
    losses = replace(losses, faced=torch.tensor(13.0))
    assert of() - of(faced_weight=0.0) == pytest.approx(0.5 * 13 / 4)


@torch.no_grad()
def test_the_place_to_face_is_compared_with_the_demonstrated_one_by_hand():
    even = torch.full((1, 2, 4, 4), -math.log(16.0))
    target = target_distributions(torch.tensor([[[1.5, 0.5]]]), torch.tensor([1]), GRID, CONFIG.sigma_cells)[:, -1]

    def of(log_faced):
        visitation = Visitation(a_map(), even, log_faced)
        return float(stage1_losses(visitation, a_batch(), some_heads(), GRID, CONFIG).faced)

    assert of(None) == 0.0
    assert of(target.clamp(min=1e-12).log()) == pytest.approx(0.0, abs=1e-5)
    assert of(even[:, 0]) == pytest.approx(math.log(16.0) + float(torch.xlogy(target, target).sum()), rel=1e-5)


def losses_of(model, shown, selection):
    batch = take_batch(shown, selection)
    return stage1_losses(model(batch.frames, batch.tokens), batch, model.heads, model.config.grid, CONFIG)


@pytest.mark.long
@torch.no_grad()
def test_padding_changes_no_loss(fresh_model, shown):
    model, flights, turn = fresh_model().eval(), torch.tensor([4, 0, 2]), torch.tensor([0.3, -0.2, 0.0])
    exact = select(shown, flights, turn)
    sizes = Sizes(exact.sizes.frames + 5, exact.sizes.flights + 3, exact.sizes.predictions + 4)
    own, padded = (losses_of(model, shown, some) for some in (exact, select(shown, flights, turn, sizes=sizes)))
    for name, value in vars(own).items():
        assert float(getattr(padded, name)) == pytest.approx(float(value), rel=1e-4), name


def test_a_process_without_flights_adds_nothing(fresh_model, shown):
    model, none = fresh_model(), torch.zeros(0, dtype=torch.int64)
    losses = losses_of(model, shown, select(shown, none, torch.zeros(0), none, NO_FLIGHTS))
    assert all(float(value.detach()) == 0 for value in vars(losses).values())
    # The other processes have five predictions.
    objective(losses, CONFIG, torch.tensor(5), torch.tensor(5)).backward()
    assert all(bool((parameter.grad == 0).all()) for parameter in model.parameters())


@pytest.mark.long
@torch.no_grad()
def test_losses_of_parts_add_up_to_the_loss_of_the_whole(fresh_model, shown):
    model = fresh_model().eval()
    whole, *parts = (
        losses_of(model, shown, select(shown, torch.tensor(flights))) for flights in ([0, 1, 2, 3], [0, 2], [1, 3])
    )
    counts = whole.num_predictions, whole.num_visible
    together = sum(objective(part, CONFIG, *counts) for part in parts)
    assert float(together) == pytest.approx(float(objective(whole, CONFIG, *counts)), rel=1e-4)
