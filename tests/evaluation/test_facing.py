"""Which way flights face at their ends."""

import math
from dataclasses import replace

import numpy as np

from pvn.corpus.segments import Segment
from pvn.evaluation.facing import measure_facing
from pvn.world.layout import Layout
from pvn.world.task import Demonstration, Task

NORTH = Segment(
    0, 0, Demonstration(Task(Layout(()), (5.0, 5.0, 0.0), "north"), np.array([(5.0, 5.0), (5.0, 15.0)])), None
)
TO_WEST = replace(NORTH, demonstration=replace(NORTH.demonstration, turned_to=math.pi))


def test_turned_and_other_flights_are_told_apart_and_the_shorter_way_round_counts():
    headings = np.radians([90, 90 + 44, 90 - 46, -179, 90]).tolist()
    reached = [True, False, True, True, True]
    found = measure_facing(headings, reached, [NORTH, NORTH, NORTH, TO_WEST, TO_WEST])
    ahead, turned = found["ahead"], found["turned"]
    assert (ahead.flights, turned.flights) == (3, 2)
    assert math.isclose(ahead.median_off, 44) and math.isclose(turned.median_off, (1 + 90) / 2)
    assert (round(ahead.faced), round(ahead.faced_and_reached)) == (67, 33)
    assert (turned.faced, turned.faced_and_reached) == (50, 50)


def test_without_a_turn_there_is_nothing_to_tell_apart():
    assert measure_facing([0.0], [True], [NORTH]).keys() == {"ahead"}
