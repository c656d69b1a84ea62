"""When the steps of a reproduction ran."""

from pathlib import Path

import pytest
from matplotlib.image import imread

from pvn.cli.reproduce import Reproduce
from pvn.viz.illustrations import illustrate_schedule
from pvn.viz.schedule import KINDS, StepTime, draw_schedule, in_lanes


def steps(**spans):
    return {name: StepTime(0.0, "box", found) for name, found in spans.items()}


def test_there_are_as_many_lanes_as_steps_ran_side_by_side():
    times = steps(corpus=[[100, 110]], gsmn=[[110.2, 190]], pvn=[[110.3, 150]], chaplot=[[150.1, 170]])
    lanes = in_lanes(times)
    assert [[name for name, _, _ in lane] for lane in lanes] == [["corpus", "gsmn"], ["pvn", "chaplot"]]
    assert lanes[0][0][1:] == (0, 10)


def test_time_in_which_nothing_ran_is_left_out():
    """A training that was killed after ten seconds and went on the next day."""
    ((first, second, third),) = in_lanes(steps(pvn=[[0, 10], [86_400, 86_420]], figures=[[86_420, 86_421]]))
    assert first[1:] == (0, 10) and second[1:] == pytest.approx((10, 30)) and third[1:] == pytest.approx((30, 31))


def test_every_step_of_a_reproduction_is_of_a_kind_that_has_a_colour(tmp_path):
    names = [step.name for step in Reproduce(out=tmp_path, seeds=2).steps()]
    assert {name.partition(" ")[0] for name in (*names, "corpus", "figures")} == KINDS.keys()


def test_steps_are_drawn_if_some_ran_side_by_side(tmp_path):
    one_by_one = {"train pvn": StepTime(9, "box", [[0, 9]]), "evaluate pvn dev": StepTime(3, "box", [[9, 12]])}
    assert illustrate_schedule(tmp_path, one_by_one) is None
    beside = one_by_one | {"train gsmn": StepTime(20, "box", [[1, 21]]), "rest": StepTime(1, "box", [[21, 22]])}
    found = illustrate_schedule(tmp_path, beside)
    assert found.path.exists() and imread(found.path).std() > 0.1


def test_the_picture_is_as_high_as_it_has_lanes(tmp_path: Path):
    heights = []
    for number in (2, 5):
        times = {f"train {job}": StepTime(9, "box", [[0, 9]]) for job in range(number)}
        draw_schedule(tmp_path / "one.png", times)
        heights.append(imread(tmp_path / "one.png").shape[0])
    assert heights[1] > 1.4 * heights[0]
