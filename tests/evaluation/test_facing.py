"""Which way flights face at their ends."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from pvn.corpus.segments import Segment
from pvn.evaluation.evaluate import evaluate_pilot
from pvn.evaluation.facing import measure_facing
from pvn.evaluation.pilots import load_pilot
from pvn.evaluation.summary import Summary, start_bearing
from pvn.viz.results_table import print_results
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


@pytest.mark.long
def test_a_summary_keeps_which_way_flights_face(meadow, capsys):
    segments = meadow["dev"][:40]
    found = evaluate_pilot(load_pilot("stop"), segments, split="dev")
    summary = found.summary
    assert summary.facing.keys() == {"turned", "ahead"}
    again = Summary.from_json(json.loads(json.dumps(summary.to_json())))
    assert again.facing == summary.facing
    print_results([summary], {summary.system: found.metrics}, [segment.environment for segment in segments])
    shown = capsys.readouterr().out
    assert "which way flights face at their ends" in shown and f"{summary.facing['turned'].median_off:.0f}°" in shown


def test_without_a_turn_there_is_nothing_to_tell_apart():
    assert measure_facing([0.0], [True], [NORTH]).keys() == {"ahead"}


@pytest.mark.parametrize("yaw", [-2.0, 0.0, 2.0])
def test_a_turn_on_the_spot_is_flown_by_staying_there(yaw):
    task = Task(Layout(()), (5.1, 5.3, yaw), "turn left")
    segment = Segment(0, 0, Demonstration(task, np.array([(5.1, 5.3)] * 2), yaw + math.pi / 2), None)
    assert start_bearing(segment) == "ahead", "whichever way it faces"
    found = evaluate_pilot(load_pilot("stop"), [segment], split="dev").metrics
    assert found.is_success.all() and found.spl[0] == found.semd[0] == 1.0 and found.ndtw[0] == pytest.approx(1.0)
