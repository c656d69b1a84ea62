"""Pictures of the field from above, of maps and of predictions: every point is where it belongs."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb

from pvn.geometry import MapGrid
from pvn.model.visitation import GOAL, TRAJECTORY
from pvn.simulator.interface import SimulatorConfig
from pvn.viz import palette
from pvn.viz.flight_record import Maps
from pvn.viz.pictures import (
    EXTENT,
    MAX_OPACITY,
    REACH,
    ValueRange,
    as_bytes,
    field_from_above,
    grounding_picture,
    in_grey,
    lay_over_field,
    map_ranges,
    overlay_predictions,
    paint_components,
    prediction_heat,
    semantic_picture,
    taken_from_above,
    to_pixels,
    views_from,
)
from pvn.world.lakes import LAKE_CELLS
from pvn.world.layout import FIELD_SIZE, Landmark, Layout

SIZE_PX = 480
MIDDLE = FIELD_SIZE / 2
GRID = MapGrid()
RANGE = ValueRange(np.full((3, 1, 1), -1.0, np.float32), np.full((3, 1, 1), 1.0, np.float32))


def one_cell(forward, left):
    """A map (1, S, S) that is 1 in the cell at a place ahead and to the left of the start, metres, and 0 elsewhere."""
    maps = torch.zeros(1, GRID.size, GRID.size)
    row, column = GRID.cells(torch.tensor([float(forward), float(left)])).round().int().tolist()
    maps[0, row, column] = 1
    return maps


def place_of_maximum(picture):
    """Where in the field (x, y) a picture (H, W) is brightest."""
    row, column = np.unravel_index(picture.argmax(), picture.shape)
    return REACH[0] + (column + 0.5) / len(picture) * EXTENT, REACH[1] - (row + 0.5) / len(picture) * EXTENT


@pytest.mark.parametrize(
    ("yaw", "forward", "left", "x", "y"),
    [(0.0, 10, 0, 30, 10), (0.0, 0, 10, 20, 20), (math.pi / 2, 10, 0, 20, 20), (math.pi / 2, 10, 5, 15, 20)],
)
def test_a_map_lies_over_the_field_where_it_belongs(yaw, forward, left, x, y):
    """Ahead of a start at (20, 10) that faces east is east of it, to its left is north; likewise facing north."""
    laid = lay_over_field(one_cell(forward, left), (20.0, 10.0, yaw), GRID, SIZE_PX)[..., 0]
    assert math.dist(place_of_maximum(laid), (x, y)) < GRID.cell


def test_north_is_up_and_the_margin_is_shown():
    assert to_pixels((REACH[0], REACH[1]), SIZE_PX) == (0, 0)
    assert to_pixels((REACH[1], REACH[0], 5.0), SIZE_PX) == (SIZE_PX, SIZE_PX)
    above = field_from_above(Layout(()), SIZE_PX)
    fences = {
        "north": (MIDDLE, FIELD_SIZE), "west": (0, MIDDLE), "east": (FIELD_SIZE, MIDDLE), "south": (MIDDLE, 0),
    }  # fmt: skip
    seen = {name: above[tuple(int(part) for part in reversed(to_pixels(at, SIZE_PX)))] for name, at in fences.items()}
    assert seen["north"].argmax() == 2 and seen["east"].argmax() == 0, "blue and red"
    assert seen["south"].min() > 0.7 and seen["west"][2] < 0.4 < seen["west"][:2].min(), "white and yellow"


def test_a_landmark_is_drawn_where_it_stands_and_seen_where_it_is():
    layout = Layout((Landmark("Apple", MIDDLE + 12, MIDDLE + 6, 3.0),))
    bare, drawn = taken_from_above(Layout(()), SIZE_PX).astype(int), taken_from_above(layout, SIZE_PX).astype(int)
    assert math.dist(place_of_maximum((drawn - bare)[..., 0]), (MIDDLE + 12, MIDDLE + 6)) < 2, "red"
    config, x, y = SimulatorConfig(), MIDDLE, MIDDLE + 8  # facing east, it is ahead, a little to the right
    view, empty = (
        views_from(field, np.array([[x, y, config.altitude, 0, 0, 0.0]]), config.camera)[0].astype(int)
        for field in (layout, Layout(()))
    )
    _, columns = np.nonzero((view - empty)[..., 0] > 60)
    assert 0.52 < columns.mean() / view.shape[1] < 0.75


def test_each_field_has_its_own_picture_which_the_caller_may_paint_on():
    well, wet = Landmark("Well", 30.0, 25.0, 5.0), np.zeros((LAKE_CELLS, LAKE_CELLS), bool)
    wet[40:60, 40:60] = True
    fields = [Layout((well,)), Layout((replace(well, x=20.0),)), Layout((well,), wet), Layout(())]
    pictures = [field_from_above(layout, 64) for layout in fields]
    assert len({picture.tobytes() for picture in pictures}) == len(fields)
    expected = pictures[0].copy()
    pictures[0][:] = 0
    assert np.array_equal(field_from_above(Layout((replace(well),)), 64), expected)


def test_bytes_are_rounded_and_stay_in_range():
    assert as_bytes(np.array([0.0, 0.5, 1.0, 1.2])).tolist() == [0, 128, 255, 255]


def test_the_ground_in_print_has_no_colour():
    grey = in_grey(field_from_above(Layout(()), 64))
    assert grey.shape == (64, 64, 3) and np.ptp(grey, axis=-1).max() == 0 and grey.max() < 0.6


def test_a_map_is_black_only_where_nothing_is_known():
    components = np.random.default_rng(0).normal(size=(3, 8, 8)).astype(np.float32)
    is_known = np.zeros((8, 8), bool)
    assert not paint_components(components, RANGE, is_known).any()
    is_known[2:5] = True
    painted = paint_components(components, RANGE, is_known)
    assert (painted[:, is_known].max(0) > 0.1).all() and not painted[:, ~is_known].any() and painted.max() <= 1


def test_each_component_of_a_map_has_its_colour():
    for component, colour in enumerate(palette.MAP_COMPONENTS):
        values = np.full((3, 1, 1), -1.0, np.float32)
        values[component] = 1.0
        painted = paint_components(values, RANGE, np.ones((1, 1), bool))[:, 0, 0]
        assert painted == pytest.approx(0.12 + 0.88 * colour, abs=1e-5)


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
    pictures = [paint(last, ranges, segment.task.start, 64) for paint in (semantic_picture, grounding_picture)]
    assert all(0 <= picture.min() < 0.1 < picture.max() <= 1 for picture in pictures)
    assert not np.array_equal(*pictures)


def test_without_maps_there_are_no_ranges(mapless_record, record):
    assert map_ranges(mapless_record.moments) is None
    maps = record.moments[0].maps
    unseen = replace(record.moments[0], maps=replace(maps, is_known=np.zeros_like(maps.is_known)))
    assert not semantic_picture(unseen.maps, map_ranges([unseen]), (25, 25, 0), 16).any()


def test_a_prediction_is_brightest_where_most_is_predicted_however_spread_it_is():
    """The trajectory has a tenth of its probability in each of ten cells, the goal three quarters in one of two."""
    probability = torch.cat([sum(one_cell(step, 0) for step in range(0, 30, 3)) / 10, 0.75 * one_cell(20, 5)]).numpy()
    probability[GOAL] += 0.25 * one_cell(-20, 5)[0].numpy()
    maps = Maps(GRID, probability, probability[0] >= 0, probability, probability)
    heat = prediction_heat(maps, (20.0, 20.0, 0.0), SIZE_PX)
    assert heat.max((0, 1)) == pytest.approx([1, 1]) and heat.min() >= 0
    assert math.dist(place_of_maximum(heat[..., GOAL]), (40, 25)) < GRID.cell
    less = heat[:SIZE_PX, : SIZE_PX // 2, GOAL].max()
    assert less == pytest.approx(math.sqrt(0.25 / 0.75), abs=0.05), "on a square-root scale"
    ground = np.zeros((SIZE_PX, SIZE_PX, 3))
    for channel, colour in ((TRAJECTORY, palette.PREDICTED_TRAJECTORY), (GOAL, palette.PREDICTED_GOAL)):
        picture = overlay_predictions(ground, heat, [channel])
        row, column = np.unravel_index(heat[..., channel].argmax(), heat.shape[:2])
        assert picture[row, column] == pytest.approx(MAX_OPACITY * np.array(to_rgb(colour)))
        assert not overlay_predictions(ground, heat * (np.arange(2) != channel), [channel]).any()
