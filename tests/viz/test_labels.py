"""Names and numbers on pictures of the field hide neither each other nor the paths."""

import itertools

import numpy as np
import pytest

from pvn.viz.labels import Rectangle, along_path, place_names, place_numbers
from pvn.viz.pictures import REACH
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Landmark, Layout, sample_layout

SCALE = 0.12
"""Metres of the field in a point of the picture."""
EMPTY = Layout(())


@pytest.mark.parametrize("seed", range(6))
def test_names_overlap_neither_each_other_nor_the_edge_and_all_are_there(seed):
    layout = sample_layout(seed)
    names = place_names(layout, SCALE, 8)
    assert sorted(name.text for name in names) == sorted(LANDMARK_CLASSES[mark.name].noun for mark in layout.landmarks)
    assert all(one.place.overlap(other.place) == 0 for one, other in itertools.combinations(names, 2))
    assert all(name.place.outside == 0 for name in names)


def test_a_name_makes_way_for_a_path_below_its_landmark():
    layout = Layout((Landmark("Well", 25.0, 25.0, LANDMARK_CLASSES["Well"].radius),))
    path = along_path(np.array([[20.0, 21.5], [30.0, 21.5]]))
    (free,), (moved,) = place_names(layout, SCALE, 8), place_names(layout, SCALE, 8, points=path)
    assert free.place.y < 25 and free.place.num_inside(path) > 0
    assert moved.place.num_inside(path) == 0


def test_names_near_the_path_come_first_and_where_there_is_no_room_they_are_left_out():
    radius = LANDMARK_CLASSES["Boat"].radius
    layout = Layout((Landmark("Coach", 40.0, 25.0, radius), Landmark("Boat", 25.0, 25.0, radius)))
    path = along_path(np.array([[20.0, 25.0], [22.0, 25.0]]))
    assert [name.text for name in place_names(layout, SCALE, 8, points=path)] == ["boat", "carriage"]
    west = Rectangle(15.0, 25.0, 32.0, 50.0)
    assert [name.text for name in place_names(layout, SCALE, 8, taken=[west])] == ["carriage"]


def test_every_number_is_there_and_can_be_read_even_if_the_drone_hardly_moved():
    spots, yaws = np.full((8, 2), 25.0) + 0.05 * np.arange(8)[:, None], [0.3] * 8
    name = Rectangle(25.0, 23.0, 6.0, 1.2)
    numbers = place_numbers(EMPTY, spots, yaws, SCALE, taken=[name], points=spots)
    assert len(numbers) == 8
    assert all(one.overlap(other) == 0 for one, other in itertools.combinations([name, *numbers], 2))


def test_numbers_stay_in_the_picture():
    spots = np.array([[0.1, 0.1], [49.9, 49.9]])
    for place in place_numbers(EMPTY, spots, [1.57, 1.57], SCALE, taken=[], points=spots):
        assert REACH[0] < place.x < REACH[1] and place.outside == 0


def test_points_along_a_path_are_close_together_and_end_where_it_ends():
    points = along_path(np.array([[0.0, 0.0], [3.0, 0.0], [3.0, 1.0]]), spacing=0.5)
    assert np.hypot(*np.diff(points, axis=0).T).max() <= 0.5
    assert points[0].tolist() == [0, 0] and points[-1].tolist() == [3, 1]
