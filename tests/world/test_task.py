"""Which way a demonstration ends."""

import math

import numpy as np
import pytest

from pvn.world.layout import Layout
from pvn.world.task import Demonstration, Task

TASK = Task(Layout(()), (10.0, 10.0, 0.5), "fly north")


def test_a_drone_faces_along_its_path_unless_it_turns_at_the_end():
    path = np.array([(10.0, 10.0), (13.0, 10.0), (13.0, 15.0), (13.0, 15.0)])
    assert Demonstration(TASK, path).end_heading == pytest.approx(math.pi / 2), "a repeated goal is no leg"
    assert Demonstration(TASK, path, turned_to=3.0).end_heading == 3.0
    assert Demonstration(TASK, path).ahead_of_goal(8.0) == pytest.approx((13.0, 23.0))
    assert Demonstration(TASK, path, turned_to=0.0).ahead_of_goal(8.0) == pytest.approx((21.0, 15.0))


def test_a_drone_that_goes_nowhere_faces_as_it_did():
    path = np.array([(10.0, 10.0), (10.0, 10.0)])
    assert Demonstration(TASK, path).end_heading == 0.5
    assert Demonstration(TASK, path, turned_to=-1.0).end_heading == -1.0


@pytest.mark.parametrize("heading", [math.nan, math.inf])
def test_a_heading_is_a_number(heading):
    with pytest.raises(ValueError, match="turned_to: got (nan|inf), expected a finite heading"):
        Demonstration(TASK, np.array([(0.0, 0.0), (1.0, 0.0)]), turned_to=heading)
