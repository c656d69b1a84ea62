"""Pictures of maps and predictions."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from pvn.model.visitation import GOAL, TRAJECTORY
from pvn.viz import palette
from pvn.viz.pictures import (
    MAX_OPACITY,
    ValueRange,
    grounding_picture,
    map_ranges,
    overlay_predictions,
    paint_components,
    prediction_heat,
    semantic_picture,
)

RANGE = ValueRange(np.full((3, 1, 1), -1.0, np.float32), np.full((3, 1, 1), 1.0, np.float32))


def test_a_map_is_black_only_where_nothing_is_known():
    components = np.random.default_rng(0).normal(size=(3, 8, 8)).astype(np.float32)
    is_known = np.zeros((8, 8), bool)
    assert not paint_components(components, RANGE, is_known).any()
    is_known[2:5] = True
    painted = paint_components(components, RANGE, is_known)
    assert (painted[:, is_known].max(0) > 0.1).all() and not painted[:, ~is_known].any() and painted.max() <= 1


def test_a_colour_means_the_same_in_all_pictures_of_a_flight(record, segment):
    first, last = record.moments[0].maps, record.moments[-1].maps
    row, column = np.argwhere(first.is_known)[0]  # given the same values at the end as at the start
    later = last.semantic.copy()
    later[:, row, column] = first.semantic[:, row, column]
    ranges = map_ranges(record.moments)
    colours = [paint_components(first.semantic, ranges.semantic, first.is_known)[:, row, column]]
    colours.append(paint_components(later, ranges.semantic, last.is_known)[:, row, column])
    assert np.array_equal(*colours) and colours[0].any()
    assert not np.array_equal(map_ranges(record.moments[:1]).semantic.high, ranges.semantic.high)
    for paint in (semantic_picture, grounding_picture):
        picture = paint(last, ranges, segment.task.start, 64)
        assert picture.shape == (64, 64, 3) and 0 <= picture.min() < 0.1 < picture.max() <= 1


def test_without_maps_there_are_no_ranges(mapless_record, record):
    assert map_ranges(mapless_record.moments) is None
    maps = record.moments[0].maps
    unseen = replace(record.moments[0], maps=replace(maps, is_known=np.zeros_like(maps.is_known)))
    assert not semantic_picture(unseen.maps, map_ranges([unseen]), (25, 25, 0), 16).any()


def test_predictions_are_brightest_where_most_is_predicted(record, segment):
    heat = prediction_heat(record.moments[0].maps, segment.task.start, 64)
    assert heat.max((0, 1)) == pytest.approx([1, 1]) and heat.min() >= 0
    ground = np.zeros((64, 64, 3))
    for channel, other in ((TRAJECTORY, GOAL), (GOAL, TRAJECTORY)):
        picture = overlay_predictions(ground, heat, [channel])
        row, column = np.unravel_index(heat[..., channel].argmax(), (64, 64))
        expected = MAX_OPACITY * np.array(to_rgb(palette.PREDICTION_COLOURS[channel]))
        assert picture[row, column] == pytest.approx(expected)
        assert not overlay_predictions(ground, heat * (np.arange(2) == other), [channel]).any()
