"""How far round a landmark a flight goes, and which way it faces at its end."""

import math
from dataclasses import replace

import numpy as np
import pytest

from pvn.corpus.segments import Annotation, Segment
from pvn.evaluation.evaluate import evaluate_pilot
from pvn.evaluation.manoeuvres import Circle, circle_of, measure_circles, measure_facing, swept_angle
from pvn.evaluation.pilots import load_pilot
from pvn.evaluation.summary import start_bearing
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Landmark, Layout
from pvn.world.task import Demonstration, Task

WELL = Landmark("Well", 25.0, 25.0, LANDMARK_CLASSES["Well"].radius)
NORTH = Segment(
    0, 0, Demonstration(Task(Layout(()), (5.0, 5.0, 0.0), "north"), np.array([(5.0, 5.0), (5.0, 15.0)])), None
)
TO_WEST = replace(NORTH, demonstration=replace(NORTH.demonstration, turned_to=math.pi))


def round_the_well(degrees, distance=1.1, begin=-90.0):
    """A path (P, 2) round the well, counter-clockwise if the angle is positive."""
    angle = np.radians(np.linspace(begin, begin + degrees, 60))
    return np.array([WELL.x, WELL.y]) + distance * WELL.radius * np.stack([np.cos(angle), np.sin(angle)], -1)


def asking_for(manoeuvre, path):
    """A segment with this manoeuvre and this demonstrated path."""
    task = Task(Layout((WELL,)), (*path[0].tolist(), 0.0), "circle the well")
    note = Annotation((manoeuvre,), (len(path) - 1,), (0,), "a1", True, False)
    return Segment(0, 0, Demonstration(task, path), note)


@pytest.mark.parametrize("degrees", [-350.0, -90.0, 45.0, 359.0, 500.0])
def test_the_angle_is_positive_in_the_right_direction_and_has_no_end(degrees):
    for direction in (1, -1):
        circle = Circle(WELL, direction, "full")
        assert swept_angle(round_the_well(degrees), circle) == pytest.approx(direction * degrees, abs=1e-6)


def test_what_is_flown_far_away_does_not_count():
    path = np.concatenate([round_the_well(90.0, distance=4.0), round_the_well(90.0)])
    assert swept_angle(path, Circle(WELL, 1, "quarter")) == pytest.approx(90.0, abs=1e-6)


def test_a_circle_is_what_its_manoeuvre_says():
    assert circle_of(asking_for("circle A right half", round_the_well(-180.0))) == Circle(WELL, -1, "half")
    assert circle_of(asking_for("goto A", round_the_well(-180.0))) is None
    assert circle_of(NORTH) is None


@pytest.mark.parametrize(("degrees", "share"), [(301.0, 100.0), (299.0, 0.0)])
def test_a_full_circle_sweeps_at_least_300_degrees(degrees, share):
    segment = asking_for("circle A left full", round_the_well(360.0))
    (found,) = measure_circles([round_the_well(degrees)], [False], [segment]).values()
    assert (found.flown, found.flown_and_reached) == (share, 0.0)


def test_a_flight_that_stays_where_the_circle_ends_succeeds_without_flying_it():
    whole = round_the_well(360.0)
    segments = [asking_for("circle A left full", whole)] * 3
    stays = np.repeat(whole[:1], 5, axis=0) + np.linspace(0, 0.1, 5)[:, None]
    found = measure_circles([whole, stays, round_the_well(-360.0)], [True, True, True], segments)
    assert found.keys() == {"full"} and found["full"].flights == 3
    assert found["full"].flown == found["full"].flown_and_reached == pytest.approx(100 / 3)
    assert math.isclose(found["full"].median_swept, swept_angle(stays, Circle(WELL, 1, "full")))


def test_flights_that_end_in_a_turn_are_apart_from_others_and_the_shorter_way_round_counts():
    headings = np.radians([90, 90 + 44, 90 - 46, -179, 90]).tolist()
    reached = [True, False, True, True, True]
    found = measure_facing(headings, reached, [NORTH, NORTH, NORTH, TO_WEST, TO_WEST])
    ahead, turned = found["ahead"], found["turned"]
    assert (ahead.flights, turned.flights) == (3, 2)
    assert math.isclose(ahead.median_off, 44) and math.isclose(turned.median_off, (1 + 90) / 2)
    assert (round(ahead.faced), round(ahead.faced_and_reached)) == (67, 33)
    assert (turned.faced, turned.faced_and_reached) == (50, 50)
    assert measure_facing([0.0], [True], [NORTH]).keys() == {"ahead"}


@pytest.mark.parametrize("yaw", [-2.0, 0.0, 2.0])
def test_a_turn_on_the_spot_is_flown_by_staying_there(yaw):
    task = Task(Layout(()), (5.1, 5.3, yaw), "turn left")
    segment = Segment(0, 0, Demonstration(task, np.array([(5.1, 5.3)] * 2), yaw + math.pi / 2), None)
    assert start_bearing(segment) == "ahead", "whichever way it faces"
    found = evaluate_pilot(load_pilot("stop"), [segment], split="dev").metrics
    assert found.is_success.all() and found.spl[0] == found.semd[0] == 1.0 and found.ndtw[0] == pytest.approx(1.0)
