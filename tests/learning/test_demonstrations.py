"""Demonstrations: the oracle's flights, and the batches that are made of them."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from pvn.geometry import to_map
from pvn.learning.demonstrations import (
    Sizes,
    batch_limits,
    demonstrate,
    draw_batches,
    padded_sizes,
    select,
    take_batch,
)
from pvn.model.visitation import FACED_AHEAD
from pvn.simulator.simulator import simulator_for
from pvn.world.layout import FIELD_SIZE, MAX_LANDMARKS


def test_demonstrations_are_the_oracles_flights_and_their_pictures_what_it_saw(segments, vocabulary, alignment, shown):
    demonstrations = [segment.demonstration for segment in segments[:6]]
    whole = demonstrate(demonstrations, vocabulary, alignment, simulator_for)
    for flight, demonstration in enumerate(demonstrations):
        poses = whole.pose_world[whole.first_frame[flight] : whole.first_frame[flight + 1]]
        thinned = shown.pose_world[shown.first_frame[flight] : shown.first_frame[flight + 1]]
        assert torch.equal(poses[::3], thinned)
        assert torch.allclose(poses[0, [0, 1, 5]], torch.tensor(demonstration.task.start).float(), atol=1e-5)
        assert torch.allclose(whole.path_world[flight, -1], torch.tensor(demonstration.goal).float())
    batch = take_batch(whole, select(whole, torch.tensor([3])))
    task = segments[3].task
    first = simulator_for([task]).reset(torch.tensor([task.start], dtype=torch.float64)).image
    assert torch.equal(batch.frames.image[:1], first)
    assert (batch.frames.row >= 0).nonzero().flatten().tolist() == list(range(0, len(batch.frames.row), 6))


def test_the_place_to_face_is_ahead_of_the_goal_in_the_frame_of_the_map(segments, shown):
    turn = torch.tensor([0.0, 0.7, -1.2])
    batch = take_batch(shown, select(shown, torch.arange(3), turn))
    for flight, (segment, turned) in enumerate(zip(segments, turn.tolist(), strict=False)):
        demonstration = segment.demonstration
        goal = batch.path_map[flight, batch.num_points[flight] - 1]
        off = batch.faced_map[flight] - goal
        heading = demonstration.end_heading - segment.task.start[2] - turned
        expected = FACED_AHEAD * torch.tensor([math.cos(heading), math.sin(heading)])
        assert torch.allclose(off, expected, atol=1e-3)


def test_landmarks_count_as_visible_only_where_they_are_in_the_picture(shown):
    batch = take_batch(shown, select(shown, torch.arange(5)))
    is_planned, frames = batch.frames.row >= 0, batch.frames
    ids = shown.simulator.landmarks_at(frames.pose_world[is_planned], shown.field[:5][frames.flight])
    for row, picture in zip(batch.is_visible, ids, strict=True):
        counts = np.bincount(picture[picture >= 0].numpy(), minlength=MAX_LANDMARKS)
        assert row.tolist() == (counts >= 6).tolist()


def test_views_from_above_are_one_a_flight_and_every_landmark_in_them_is_visible(segments, vocabulary, alignment):
    demonstrations = [segment.demonstration for segment in segments[:4]]
    shown = demonstrate(demonstrations, vocabulary, alignment, simulator_for, overhead_px=32)
    batch = take_batch(shown, select(shown, torch.arange(4)))
    assert batch.frames.image.shape == (4, 32, 32, 3)
    landmarks = [len(demonstration.task.layout.landmarks) for demonstration in demonstrations]
    assert batch.is_visible.sum(1).tolist() == landmarks


def test_every_flight_is_in_one_batch_of_an_epoch_and_every_batch_fits(shown):
    limits = batch_limits(shown, 12)
    batches = draw_batches(shown, limits, torch.Generator().manual_seed(0))
    assert sorted(torch.cat(batches).tolist()) == list(range(len(shown)))
    assert len(batches) > 2
    for flights in batches:
        assert select(shown, flights, sizes=limits).sizes == limits
    again = draw_batches(shown, limits, torch.Generator().manual_seed(1))
    assert torch.cat(batches).tolist() != torch.cat(again).tolist()


def test_a_selection_knows_its_parts_by_name(shown):
    flights = torch.tensor([4, 0])
    exact = select(shown, flights)
    padded = select(shown, flights, sizes=Sizes(exact.sizes.frames + 5, 4, exact.sizes.predictions + 3))
    parts, own = padded.parts(), exact.parts()
    frames, predictions = exact.sizes.frames, exact.sizes.predictions
    lengths = shown.first_frame.diff()[flights]
    assert own.flights.tolist() == own.posed_as.tolist() == [4, 0]
    assert own.first_frame.diff().tolist() == lengths.tolist()
    expected = [frame for flight in (4, 0) for frame in range(*shown.first_frame[flight : flight + 2].tolist())]
    assert own.frame.tolist() == expected
    assert own.frame_flight.tolist() == [0] * lengths[0] + [1] * lengths[1]
    # Predictions are numbered in the order of the frames that they follow.
    assert own.frame_row[own.prediction_frame].tolist() == list(range(predictions))
    assert own.prediction_flight.tolist() == own.frame_flight[own.prediction_frame].tolist()
    # Padding comes after what counts, in a flight of its own.
    assert parts.num_predictions.tolist() == own.num_predictions.tolist() == [predictions]
    assert torch.equal(parts.frame[:frames], own.frame) and torch.equal(parts.frame_row[:frames], own.frame_row)
    assert parts.frame_flight[frames:].tolist() == [3] * 5 and parts.frame_row[frames:].tolist() == [-1] * 5
    assert parts.first_frame.tolist() == [*own.first_frame.tolist(), frames, frames + 5]


@pytest.mark.parametrize("limit", ["frames", "predictions", "flights"])
def test_batches_are_as_full_as_they_may_be_whichever_limit_comes_first(limit, shown):
    few = {"frames": shown.longest + 3, "predictions": 5, "flights": 4}
    limits = Sizes(**({"frames": 10**6, "predictions": 10**6, "flights": 10**6} | {limit: few[limit]}))
    batches = draw_batches(shown, limits, torch.Generator().manual_seed(0))
    assert sorted(torch.cat(batches).tolist()) == list(range(len(shown))) and len(batches) > 1

    def count(flights):
        own = getattr(select(shown, flights).sizes, limit)
        return own + (limit == "flights")  # there is room for a padding flight

    assert all(count(flights) <= few[limit] for flights in batches)
    assert all(count(torch.cat([one, other[:1]])) > few[limit] for one, other in pairwise(batches))


@pytest.mark.parametrize("num_flights", [1, 2])
def test_a_batch_has_at_most_as_many_flights_as_it_may(num_flights, shown):
    limits = batch_limits(shown, 512, num_flights)
    batches = draw_batches(shown, limits, torch.Generator().manual_seed(0))
    assert [len(flights) for flights in batches] == [num_flights] * (len(shown) // num_flights)
    assert limits.flights == num_flights + 1 and limits.frames <= num_flights * shown.longest
    for flights in batches:
        assert select(shown, flights, sizes=limits).sizes == limits


def test_a_batch_is_padded_to_the_smallest_multiple_of_the_compiled_sizes_that_holds_it(shown):
    compiled = Sizes(frames=int(shown.num_frames.min()) + 1, flights=9, predictions=2)
    for flights in (torch.tensor([0]), torch.tensor([3, 1]), torch.arange(6)):
        own, sizes = select(shown, flights).sizes, padded_sizes(shown, flights, compiled)
        times = sizes.frames // compiled.frames
        assert sizes == Sizes(times * compiled.frames, 9, times * 2)
        assert select(shown, flights, sizes=sizes).sizes == sizes, "it fits"
        fewer = times - 1
        assert fewer == 0 or own.frames > fewer * compiled.frames or own.predictions > fewer * 2, "nothing less does"


def test_a_batch_larger_than_its_limits_is_refused(shown):
    with pytest.raises(ValueError, match=r"batch: got Sizes.*expected it to fit Sizes\(frames=3.*and a padding flight"):
        select(shown, torch.tensor([0, 1]), sizes=Sizes(frames=3, flights=3, predictions=3))


def test_where_paths_are_swapped_a_flight_takes_the_poses_of_another_one_from_its_own_start(shown):
    flights, others = torch.tensor([0, 1]), torch.tensor([1, 0])
    own, swapped = (take_batch(shown, select(shown, flights, None, posed_as)) for posed_as in (None, others))
    first, lengths = swapped.frames.first_frame, own.frames.first_frame.diff()
    assert first.diff().tolist() == lengths.flip(0).tolist()
    for flight in (0, 1):
        begin = own.frames.first_frame[flight]
        assert torch.allclose(swapped.frames.pose_world[first[flight]], own.frames.pose_world[begin], atol=1e-4)
        # Instruction and target are the flight's own still.
        assert torch.equal(swapped.tokens[flight], own.tokens[flight])
        assert torch.equal(swapped.path_map[flight], own.path_map[flight])
    # As far forward and aside as the other flight went, seen from where it began, unless the field's edge is nearer.
    moved = swapped.frames.pose_world[first[0] : first[1]]
    model = own.frames.pose_world[own.frames.first_frame[1] :]
    is_inside = ((moved[:, :2] > 0) & (moved[:, :2] < FIELD_SIZE)).all(-1)
    here, there = (
        to_map(poses[None, :, :2], start[None])
        for poses, start in ((moved, own.frames.origin[0]), (model, own.frames.origin[1]))
    )
    assert is_inside.sum() > 2
    assert torch.allclose(here[0, is_inside], there[0, is_inside], atol=1e-3)
