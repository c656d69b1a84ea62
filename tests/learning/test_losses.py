"""The losses of both objectives, computed by hand, and their targets; padding counts for nothing, and parts add up."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from pvn.geometry import MapGrid, to_map
from pvn.learning.demonstrations import ONLY_PADDING, Batch, Sizes, select, take_batch
from pvn.learning.losses import (
    ImitateOracle,
    ImitationLosses,
    PredictVisitation,
    VisitationLosses,
    action_losses,
    auxiliary_losses,
    part_shares,
    target_distributions,
)
from pvn.model.execution import Decision
from pvn.model.mapping import AuxiliaryHeads, Frames, GroundedMaps
from pvn.model.visitation import GOAL, TRAJECTORY, Visitation
from pvn.world.landmarks import LANDMARK_NAMES
from pvn.world.task import SUCCESS_M

WEIGHTS = VisitationLosses()
GRID = MapGrid(size=4, cell=1.0)
WIDE = MapGrid()
NUM_CLASSES = len(LANDMARK_NAMES)
MEANT, OTHER = 5, 9
"""Classes of two landmarks, of which the instruction mentions the first."""
GOAL_OF_THREE = 3
"""The goal's place after three parts of the way."""


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
    target = target_distributions(path, num_points, WIDE, 0.6)
    assert torch.allclose(target.sum((2, 3)), torch.ones(8, 2))
    for flight in range(8):
        row, column = WIDE.cells(path[flight, 4]).round().int().tolist()
        assert divmod(int(target[flight, GOAL].argmax()), WIDE.size) == (row, column)
        for point in path[flight, :5]:
            row, column = WIDE.cells(point).round().int().tolist()
            assert target[flight, TRAJECTORY, row, column] > 0.02
    assert torch.allclose(centre_of(target[:, GOAL]), WIDE.cells(path[:, 4]), atol=0.02)
    assert torch.allclose(centre_of(target[:, TRAJECTORY]), WIDE.cells(path[:, :5]).mean(1), atol=0.02)


def test_a_target_is_a_gaussian_of_the_given_width():
    """One cell beside the goal, its density has fallen to exp(-1 / (2 sigma^2))."""
    goal = torch.tensor([[[0.5, 0.5]]])
    target = target_distributions(goal, torch.tensor([1]), GRID, 0.7)[0, GOAL]
    row, column = GRID.cells(goal[0, 0]).int().tolist()
    assert float(target[row, column - 1] / target[row, column]) == pytest.approx(math.exp(-0.5 / 0.7**2), rel=1e-5)
    assert float(target[row - 1, column] / target[row, column]) == pytest.approx(math.exp(-0.5 / 0.7**2), rel=1e-5)


def test_turning_the_frame_left_turns_the_targets_right():
    origin = start_poses(8)
    before, after = (
        target_distributions(*a_path(origin + torch.tensor([0.0, 0.0, turn])), WIDE, 0.6) for turn in (0, math.pi / 2)
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


def softplus(value):
    return math.log1p(math.exp(value))


def named(logit):
    """Loss of naming a class whose logit this is, where those of all other classes are 0."""
    return math.log(1 + (NUM_CLASSES - 1) * math.exp(-logit))


UNMENTIONED = (NUM_CLASSES - 1) * softplus(-0.7) + softplus(0.7)
"""Loss of log-odds of -0.7 for all classes, of which one is mentioned; summed."""


def a_batch(**changes):
    """One flight with one prediction; its path leads from the middle one metre ahead, to the goal.

    Two landmarks are in view, in row 1, column 3 and in row 3, column 1.
    """
    one = torch.zeros(1, dtype=torch.int64)
    mentioned = torch.zeros((1, NUM_CLASSES), dtype=torch.bool)
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


class Given(nn.Module):
    """Stands for a model in an objective whose predictions are given."""

    def __init__(self, grid=GRID):
        super().__init__()
        self.heads, self.config = some_heads(), SimpleNamespace(grid=grid)


def sums_of(visitation, batch, grid=GRID):
    return PredictVisitation(Given(grid), WEIGHTS).sums_of(visitation, batch)


@torch.no_grad()
def test_the_auxiliary_losses_by_hand():
    found = auxiliary_losses(a_map(), a_batch(), some_heads(), GRID)
    assert float(found["landmark"]) == pytest.approx((named(3) + named(4)) / 2, rel=1e-5)
    # One is meant and gets 2, one is not and gets -1.
    assert float(found["grounded"]) == pytest.approx((softplus(-2) + softplus(-1)) / 2, rel=1e-5)
    assert float(found["mentioned"]) == pytest.approx(UNMENTIONED, rel=1e-5)
    assert int(found["num_visible"]) == 1


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
    assert float(found["landmark"]) == pytest.approx(named(3), rel=1e-5)
    assert float(found["grounded"]) == pytest.approx(softplus(-2), rel=1e-5) and int(found["num_visible"]) == 1


@torch.no_grad()
def test_a_prediction_without_labels_counts_for_the_words_alone():
    found = auxiliary_losses(a_map(torch.zeros((1, 4, 4), dtype=torch.bool)), a_batch(), some_heads(), GRID)
    assert (float(found["landmark"]), float(found["grounded"]), int(found["num_visible"])) == (0, 0, 0)
    assert float(found["mentioned"]) == pytest.approx(UNMENTIONED, rel=1e-5)


@torch.no_grad()
def test_each_distribution_is_compared_with_its_own_target():
    """A prediction that is right costs nothing, one that knows nothing log 16 less the target's entropy."""
    batch = a_batch()
    target = target_distributions(batch.path_map, batch.num_points, GRID, WEIGHTS.sigma_cells)[0]
    uniform = torch.full((4, 4), 1 / 16)
    unsure = [float((part * (part * 16).log()).sum()) for part in target]
    assert unsure[GOAL] > unsure[TRAJECTORY] > 0.5
    for predicted, costs in (
        ((target[TRAJECTORY], target[GOAL]), (0.0, 0.0)),
        ((uniform, target[GOAL]), (unsure[TRAJECTORY], 0.0)),
        ((target[TRAJECTORY], uniform), (0.0, unsure[GOAL])),
    ):
        sums = sums_of(Visitation(a_map(), torch.stack(predicted).log()[None]), batch)
        assert (float(sums["trajectory"]), float(sums["goal"])) == pytest.approx(costs, abs=1e-5)


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
    target = target_distributions(batch.path_map, batch.num_points, GRID, WEIGHTS.sigma_cells, 3)[0]
    unsure = [float((part * (part * 16).log()).sum()) for part in target]
    log_parts = target.log().repeat(2, 1, 1, 1)
    log_parts[0, 2] = log_parts[1, GOAL_OF_THREE] = -math.log(16)  # the first one does not know the third part
    sums = sums_of(twice(log_parts), batch)
    assert float(sums["trajectory"]) == pytest.approx(unsure[2] / 3, abs=1e-5)
    assert float(sums["goal"]) == pytest.approx(unsure[GOAL_OF_THREE], abs=1e-5)
    assert int(sums["num_predictions"]) == 2
    sums = sums_of(twice(log_parts), replace(batch, is_counted=torch.tensor([True, False])))
    assert float(sums["trajectory"]) == pytest.approx(unsure[2] / 3, abs=1e-5) and float(sums["goal"]) < 1e-5


@torch.no_grad()
def test_every_prediction_has_the_mean_over_its_own_landmarks():
    """The first sees both landmarks, the second one of them."""
    seen = torch.tensor([[True, True], [True, False]])
    maps = twice(torch.zeros(2, 2, 4, 4)).maps
    found = auxiliary_losses(maps, replace(two_predictions(), is_visible=seen), some_heads(), GRID)
    assert float(found["landmark"]) == pytest.approx((named(3) + named(4)) / 2 + named(3), rel=1e-5)
    assert float(found["grounded"]) == pytest.approx((softplus(-2) + softplus(-1)) / 2 + softplus(-2), rel=1e-5)
    assert float(found["mentioned"]) == pytest.approx(2 * UNMENTIONED, rel=1e-5) and int(found["num_visible"]) == 2
    only_first = replace(two_predictions(), is_visible=seen, is_counted=torch.tensor([True, False]))
    found = auxiliary_losses(maps, only_first, some_heads(), GRID)
    assert float(found["mentioned"]) == pytest.approx(UNMENTIONED, rel=1e-5) and int(found["num_visible"]) == 1


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
    assert float(found["landmark"]) == pytest.approx(named(5), rel=1e-5)
    assert float(found["grounded"]) == pytest.approx(softplus(0), rel=1e-5) and int(found["num_visible"]) == 1


@pytest.mark.parametrize(("metres", "is_found"), [(SUCCESS_M - 0.05, True), (SUCCESS_M + 0.1, False)])
@torch.no_grad()
def test_a_goal_counts_as_found_within_the_radius_of_success(metres, is_found):
    """The likeliest cell is three cells from the goal's, along its row or its column."""
    grid = MapGrid(size=4, cell=metres / 3)
    batch = two_predictions(path_map=(torch.tensor([-1.5, 1.5]) * grid.cell).expand(1, 3, 2))  # in row 0, column 0
    log_parts = torch.full((2, 2, 4, 4), -20.0)
    log_parts[0, GOAL, 0, 3] = log_parts[1, GOAL, 3, 0] = 0.0
    assert int(sums_of(twice(log_parts), batch, grid)["hits"]) == (2 if is_found else 0)
    log_parts[1, GOAL, 0, 0] = 1.0
    found = sums_of(twice(log_parts), batch, grid)["hits"]
    assert int(found) == (2 if is_found else 1), "the second prediction has its likeliest cell at the goal"


def test_the_loss_is_the_papers_weighted_sum():
    values = {"trajectory": 2.0, "goal": 3.0, "landmark": 5.0, "grounded": 7.0, "mentioned": NUM_CLASSES * 11.0}
    values |= {"faced": 0.0, "num_predictions": 4, "num_visible": 2}  # the paper's agent predicts no point to face
    sums = {name: torch.tensor(value) for name, value in values.items()}

    def of(sums=sums, counts=sums, **changes):
        return float(PredictVisitation(Given(), VisitationLosses(**changes)).loss(sums, counts))

    # Weights of the paper's appendix: 1, 1 and 0.25. The sum over the classes is our own.
    assert of() == pytest.approx((2 + 3) / 4 + 5 / 2 + 7 / 2 + 0.25 * NUM_CLASSES * 11 / 4)
    assert of(averages_mentioned=True) == pytest.approx((2 + 3) / 4 + 5 / 2 + 7 / 2 + 0.25 * 11 / 4)
    # The auxiliary losses on the maps are means over the predictions that have labels, if there are any.
    for labelled in (0, 1):
        counts = sums | {"num_visible": torch.tensor(labelled)}
        assert of(counts=counts, mentioned_weight=0.0) == pytest.approx((2 + 3) / 4 + 5 + 7)
    # Each weight is that of its own loss.
    per_class = NUM_CLASSES * 11 / 4
    for name, change in (("landmark_weight", 5 / 2), ("grounded_weight", 7 / 2), ("mentioned_weight", per_class)):
        assert of(**{name: 10.0}) - of(**{name: 0.0}) == pytest.approx(10 * change)
    faced = sums | {"faced": torch.tensor(13.0)}
    assert of(faced) - of(faced, faced_weight=0.0) == pytest.approx(0.5 * 13 / 4)


@torch.no_grad()
def test_the_point_to_face_is_compared_with_the_demonstrated_one_by_hand():
    even = torch.full((1, 2, 4, 4), -math.log(16.0))
    target = target_distributions(torch.tensor([[[1.5, 0.5]]]), torch.tensor([1]), GRID, WEIGHTS.sigma_cells)[:, -1]

    def of(log_faced):
        return float(sums_of(Visitation(a_map(), even, log_faced), a_batch())["faced"])

    assert of(None) == 0.0
    assert of(target.clamp(min=1e-12).log()) == pytest.approx(0.0, abs=1e-5)
    assert of(even[:, 0]) == pytest.approx(math.log(16.0) + float(torch.xlogy(target, target).sum()), rel=1e-5)


def test_doing_as_the_oracle_would_costs_nothing():
    wanted = torch.tensor([[0.5, -0.2, 0.0], [1.0, 0.3, 0.0], [0.0, 0.0, 1.0]])
    output = torch.cat([wanted[:, :2], (wanted[:, 2:] * 2 - 1) * 20], -1)
    assert (action_losses(output, wanted, 0.8) < 1e-6).all()
    assert (action_losses(output + 0.1, wanted, 0.8) > 1e-3).all()


def test_the_action_loss_by_hand():
    """A third of: squared errors of speed and yaw rate, and 0.8 of the stop's cross-entropy; each step by itself."""
    output = torch.tensor([[0.5, 0.1, 0.7], [0.2, -0.4, -0.3]])
    wanted = torch.tensor([[0.7, 0.4, 0.0], [0.0, 0.0, 1.0]])
    first = 0.33 * (0.2**2 + 0.3**2 + 0.8 * softplus(0.7))
    second = 0.33 * (0.2**2 + 0.4**2 + 0.8 * softplus(0.3))
    assert action_losses(output, wanted, 0.8).tolist() == pytest.approx([first, second], rel=1e-5)


def test_imitation_is_the_loss_of_actions_and_a_tenth_of_each_auxiliary_loss_by_hand():
    """Each is a mean over the predictions that it applies to; an agent without maps has that of actions alone."""
    values = {"action": 3.0, "landmark": 5.0, "grounded": 7.0, "goal": 11.0, "mentioned": 13.0}
    values |= {"num_predictions": 4, "num_visible": 2, "num_on_map": 3}
    sums = {name: torch.tensor(value) for name, value in values.items()}
    objective = ImitateOracle(Given(), GRID, ImitationLosses())
    auxiliary = 5 / 2 + 7 / 2 + 11 / 3 + 13 / 4
    assert float(objective.loss(sums, sums)) == pytest.approx(3 / 4 + 0.1 * auxiliary)
    means = {"action": 3 / 4, "landmark": 5 / 2, "grounded": 7 / 2, "goal": 11 / 3, "mentioned": 13 / 4}
    assert objective.means(sums) == pytest.approx(means)
    without_maps = {name: sums[name] for name in ("action", "num_predictions")}
    assert float(objective.loss(without_maps, without_maps)) == pytest.approx(3 / 4)


class Painted(nn.Module):
    """A model whose goal maps are given, and whose head takes them for log-odds."""

    def __init__(self, goal_map):
        super().__init__()
        self.heads, self.goal_map = AuxiliaryHeads(30, 3, goal_channels=1), goal_map
        torch.nn.init.ones_(self.heads.goal.weight)
        torch.nn.init.zeros_(self.heads.goal.bias)

    def forward(self, frames, tokens):
        count, size = len(self.goal_map), self.goal_map.shape[-1]
        nothing = [torch.zeros((count, channels, size, size)) for channels in (32, 3)]
        is_known = torch.zeros((count, size, size), dtype=torch.bool)
        maps = GroundedMaps(nothing[0], is_known, nothing[1], torch.zeros(count, 30))
        return Decision(torch.zeros(count, 3), maps, self.goal_map)


@pytest.mark.parametrize("is_padded", [False, True])
@torch.no_grad()
def test_the_goal_is_looked_for_where_the_drone_sees_it_and_padding_does_not_count(is_padded, segments, imitated):
    """A goal map that is sure of the goal's cell, and of no other, costs nothing, whatever it says in padded rows."""
    shown, fine, flights = imitated["gsmn"], MapGrid(size=128, cell=0.75), [2, 0]
    selection = select(shown, torch.tensor(flights))
    count = selection.sizes.frames
    if is_padded:
        selection = select(shown, torch.tensor(flights), sizes=Sizes(count + 3, 3, count + 3))
    batch, goal_map = take_batch(shown, selection), torch.full((selection.sizes.frames, 1, 128, 128), -20.0)
    goal_map[count:] = 20.0
    for row, (flight, pose) in enumerate(zip(batch.frames.flight[:count], batch.frames.pose_world, strict=False)):
        east, north = segments[flights[flight]].demonstration.goal - pose[:2].numpy()
        yaw = float(pose[5])
        ahead = east * math.cos(yaw) + north * math.sin(yaw)
        left = north * math.cos(yaw) - east * math.sin(yaw)
        goal_map[row, 0, round(63.5 - left / 0.75), round(63.5 + ahead / 0.75)] = 20.0
    sums = ImitateOracle(Painted(goal_map), fine, ImitationLosses())(batch)
    assert float(sums["goal"]) < 1e-6 * count and int(sums["num_on_map"]) == count


@pytest.mark.long
@pytest.mark.parametrize("system", ["pvn", "gsmn", "chaplot"])
@torch.no_grad()
def test_padding_changes_no_loss(system, objective_of, shown_to):
    objective, shown, flights = objective_of(system).eval(), shown_to(system), torch.tensor([3, 0])
    exact = select(shown, flights)
    sizes = Sizes(exact.sizes.frames + 9, exact.sizes.flights + 2, exact.sizes.predictions + 9)
    own, padded = (
        objective(take_batch(shown, some)) for some in (exact, select(shown, flights, sizes=sizes))
    )  # fmt: skip
    for name in own.keys() - {"goal"} if system == "gsmn" else own:  # GSMN's compares with cells drawn at random
        assert float(padded[name]) == pytest.approx(float(own[name]), rel=1e-3), name


@pytest.mark.long
@pytest.mark.parametrize("system", ["gsmn", "chaplot"])
def test_the_losses_of_imitation_reach_every_parameter(system, objective_of, shown_to):
    objective, shown = objective_of(system).train(), shown_to(system)
    sums = objective(take_batch(shown, select(shown, torch.arange(3))))
    auxiliary = {"landmark", "grounded", "goal", "mentioned", "num_visible", "num_on_map"}
    assert sums.keys() == {"action", "num_predictions"} | (auxiliary if system == "gsmn" else set())
    objective.loss(sums, sums).backward()
    for name, parameter in objective.model.named_parameters():
        assert parameter.grad is not None and (parameter.grad != 0).any() and parameter.grad.isfinite().all(), name


def test_a_process_without_flights_adds_nothing(objective_of, shown):
    objective, none = objective_of("pvn"), torch.zeros(0, dtype=torch.int64)
    sums = objective(take_batch(shown, select(shown, none, torch.zeros(0), none, ONLY_PADDING)))
    assert all(float(value.detach()) == 0 for value in sums.values())
    # The other processes have five predictions.
    objective.loss(sums, sums | {"num_predictions": torch.tensor(5), "num_visible": torch.tensor(5)}).backward()
    assert all(bool((parameter.grad == 0).all()) for parameter in objective.model.parameters())


@pytest.mark.long
@pytest.mark.parametrize("system", ["pvn", "chaplot"])
@torch.no_grad()
def test_losses_of_parts_add_up_to_the_loss_of_the_whole(system, objective_of, shown_to):
    objective, shown = objective_of(system).eval(), shown_to(system)
    whole, *parts = (
        objective(take_batch(shown, select(shown, torch.tensor(flights)))) for flights in ([0, 1, 2, 3], [0, 2], [1, 3])
    )
    together = sum(objective.loss(part, whole) for part in parts)
    assert float(together) == pytest.approx(float(objective.loss(whole, whole)), rel=1e-4)
