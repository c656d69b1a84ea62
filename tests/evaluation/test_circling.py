"""How far round a landmark a flight went."""

import math
from dataclasses import replace

import numpy as np
import pytest

from pvn.corpus.segments import Annotation, Segment
from pvn.evaluation.circling import Circle, circle_of, measure_circles, swept_angle
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Landmark, Layout
from pvn.world.task import Demonstration, Task

WELL = Landmark("Well", 25.0, 25.0, LANDMARK_CLASSES["Well"].radius)


def round_the_well(degrees, distance=1.1, begin=-90.0):
    """A path (P, 2) round the well, counter-clockwise if the angle is positive."""
    angle = np.radians(np.linspace(begin, begin + degrees, 60))
    return np.array([WELL.x, WELL.y]) + distance * WELL.radius * np.stack([np.cos(angle), np.sin(angle)], -1)


def told(manoeuvre, path):
    """A segment with this manoeuvre and this demonstrated path."""
    task = Task(Layout((WELL,)), (*path[0].tolist(), 0.0), "circle the well")
    note = Annotation((manoeuvre,), (len(path) - 1,), (0,), "a1", True, False)
    return Segment(0, 0, Demonstration(task, path), note)


@pytest.mark.parametrize("degrees", [-350.0, -90.0, 45.0, 180.0, 359.0, 500.0])
def test_the_angle_is_positive_in_the_right_direction_and_has_no_end(degrees):
    for direction in (1, -1):
        circle = Circle(WELL, direction, "full")
        assert swept_angle(round_the_well(degrees), circle) == pytest.approx(direction * degrees, abs=1e-6)


def test_what_is_flown_far_away_does_not_count():
    path = np.concatenate([round_the_well(90.0, distance=4.0), round_the_well(90.0)])
    assert swept_angle(path, Circle(WELL, 1, "quarter")) == pytest.approx(90.0, abs=1e-6)


def test_a_circle_is_what_its_manoeuvre_says():
    circle = circle_of(told("circle A right half", round_the_well(-180.0)))
    assert circle == Circle(WELL, -1, "half")
    assert circle_of(told("goto A", round_the_well(-180.0))) is None
    assert circle_of(replace(told("goto A", round_the_well(-180.0)), annotation=None)) is None


def test_a_flight_that_stays_where_the_circle_ends_succeeds_without_flying_it():
    whole = round_the_well(360.0)
    segments = [told("circle A left full", whole)] * 3
    stays = np.repeat(whole[:1], 5, axis=0) + np.linspace(0, 0.1, 5)[:, None]
    found = measure_circles([whole, stays, round_the_well(-360.0)], [True, True, True], segments)
    assert found.keys() == {"full"} and found["full"].flights == 3
    assert found["full"].flown == found["full"].flown_and_reached == pytest.approx(100 / 3)
    assert math.isclose(found["full"].median_swept, swept_angle(stays, Circle(WELL, 1, "full")))
