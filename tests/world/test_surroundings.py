"""Places in words."""

import math

import numpy as np
import pytest

from pvn.world.layout import Landmark, Layout
from pvn.world.surroundings import describe_place

LAKE = np.zeros((100, 100), bool)
LAKE[20:30, 60:70] = True  # x from 10 to 15 m, y from 30 to 35 m
LAYOUT = Layout((Landmark("Gorilla", 25.0, 25.0, 4.0), Landmark("Well", 35.0, 25.0, 5.0)), LAKE)


@pytest.mark.parametrize(
    ("pose", "words"),
    [
        ((25.0, 29.2, 0.0), "4 m from the gorilla"),
        ((25.3, 25.0, 0.0), "less than 1 m from the gorilla"),
        ((31.0, 25.0, 0.0), "4 m from the stone well"),
        ((12.0, 32.0, 0.0), "over the lake"),
        ((12.0, 8.0, 0.0), "with no landmark within 10 m; the white fence is 8 m to the right"),
        ((47.0, 40.0, 0.0), "with no landmark within 10 m; the red fence is 3 m ahead"),
        ((47.0, 40.0, math.pi / 2), "with no landmark within 10 m; the red fence is 3 m to the right"),
        ((47.0, 40.0, -math.pi), "with no landmark within 10 m; the red fence is 3 m behind"),
        ((3.0, 20.0, -math.pi / 2), "with no landmark within 10 m; the yellow fence is 3 m to the right"),
        ((20.0, 47.0, 0.0), "with no landmark within 10 m; the blue fence is 3 m to the left"),
        ((13.0, 20.0, 0.0), "with nothing within 10 m"),
        ((53.0, 40.0, 0.0), "3 m beyond the red fence"),
        ((30.2, 25.0, 0.0), "5 m from the stone well"),
        ((30.2, 25.0, math.pi), "5 m from the gorilla"),
        ((47.0, 27.0, 0.0), "with no landmark within 10 m; the red fence is 3 m ahead"),
    ],
)
def test_a_place_is_named_by_what_is_near(pose, words):
    assert describe_place(LAYOUT, pose) == words


def test_a_fence_that_is_nearer_than_the_landmark_is_named_first():
    corner = Layout((Landmark("Gorilla", 44.0, 25.0, 4.0),))
    assert describe_place(corner, (48.0, 25.0, 0.0)) == "2 m from the red fence, 4 m from the gorilla"


def test_over_the_lake_a_landmark_that_is_near_is_named_too():
    near = Layout((Landmark("Gorilla", 18.0, 32.0, 4.0),), LAKE)
    assert describe_place(near, (12.0, 32.0, 0.0)) == "over the lake, 6 m from the gorilla"
