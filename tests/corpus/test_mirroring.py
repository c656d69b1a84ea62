"""Mirrored segments are as true as their originals."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from pvn.corpus.mirroring import MIRRORED_FENCES, mirror, mirror_layout, mirror_text, mirrored
from pvn.rollout.flight import fly
from pvn.rollout.oracle import Oracle
from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.simulator import simulator_for
from pvn.world.lakes import LAKE_CELLS
from pvn.world.layout import FIELD_SIZE, fence_distance


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Turn left and stop.", "Turn right and stop."),
        ("TURN RIGHT, then go to the Left side", "TURN LEFT, then go to the Right side"),
        ("stop with the well on your right", "stop with the well on your left"),
        ("circle it clockwise", "circle it counterclockwise"),
        ("fly to the red fence", "fly to the yellow fence"),
        ("past the red mushroom to the blue fence", "past the red mushroom to the blue fence"),
        ("stop right before the tank", "stop right before the tank"),
        ("a right angle to the right", "a right angle to the left"),
        ("turn right away from the palm", "turn left away from the palm"),
    ],
)
def test_sides_and_fences_change_places_and_nothing_else_does(text, expected):
    assert mirror_text(text) == expected


@pytest.mark.parametrize(
    "text", ["go right past the barrel", "when you have left the barrel behind", "between the red and the blue fence"]
)
def test_words_whose_meaning_is_in_doubt_are_not_mirrored(text):
    assert mirror_text(text) is None


@pytest.mark.parametrize(
    ("manoeuvre", "expected"),
    [
        ("fence red", "fence yellow"),
        ("fence yellow", "fence red"),
        ("fence blue", "fence blue"),
        ("pass A left", "pass A right"),
        ("circle B right full", "circle B left full"),
    ],
)
def test_annotations_change_sides_and_fences_too(meadow, manoeuvre, expected):
    segment = meadow["train"][0]
    annotated = replace(segment, annotation=replace(segment.annotation, manoeuvres=(manoeuvre, "goto A")))
    assert mirror(annotated, int).annotation.manoeuvres == (expected, "goto A")


def test_each_fence_has_its_mirror_image_in_its_place():
    """East is west, and north and south stay."""
    east_and_north = np.array([(FIELD_SIZE - 2.0, 25.0), (25.0, FIELD_SIZE - 3.0)])
    mirrored_places = east_and_north * (-1.0, 1.0) + (FIELD_SIZE, 0.0)
    for colour, other in MIRRORED_FENCES.items():
        assert fence_distance(mirrored_places, other) == pytest.approx(fence_distance(east_and_north, colour))


def test_mirrored_twice_is_as_before(meadow):
    for segment in meadow["train"][:60]:
        once = mirror(segment, lambda number: number + 1000)
        if once is None:
            continue
        twice = mirror(once, lambda number: number - 1000)
        assert twice is not None and twice.environment == segment.environment
        assert np.allclose(twice.demonstration.path, segment.demonstration.path)
        assert twice.task.instruction == segment.task.instruction and twice.annotation == segment.annotation
        assert np.array_equal(twice.task.layout.lake, segment.task.layout.lake)
        there, back = (each.demonstration.end_heading for each in (once, twice))
        assert math.cos(there) == pytest.approx(-math.cos(segment.demonstration.end_heading), abs=1e-9)
        assert math.sin(there) == pytest.approx(math.sin(segment.demonstration.end_heading), abs=1e-9)
        assert math.remainder(back - segment.demonstration.end_heading, 2 * math.pi) == pytest.approx(0, abs=1e-9)
        assert math.remainder(twice.task.start[2] - segment.task.start[2], 2 * math.pi) == pytest.approx(0, abs=1e-9)


def test_most_instructions_can_be_mirrored_and_one_field_stays_one(meadow):
    twins = mirrored(meadow["train"], lambda number: number + 1000)
    assert len(twins) > 0.9 * len(meadow["train"])
    layouts = {}
    for twin in twins:
        assert layouts.setdefault(twin.environment, twin.task.layout) is twin.task.layout


def test_the_lake_is_mirrored_with_the_landmarks(meadow):
    layout = next(s.task.layout for s in meadow["train"] if s.task.layout.lake.any())
    other = mirror_layout(layout)
    x, y = np.argwhere(layout.lake)[0]
    assert other.lake[LAKE_CELLS - 1 - x, y]
    one, image = layout.landmarks[0], other.landmarks[0]
    assert (image.x, image.y) == (FIELD_SIZE - one.x, one.y)
    assert math.cos(image.yaw) == pytest.approx(-math.cos(one.yaw)), "its front faces west where the other's faces east"
    assert math.sin(image.yaw) == pytest.approx(math.sin(one.yaw))


def test_the_oracle_flies_the_mirror_image_of_its_flight(meadow):
    segments = [s for s in meadow["train"][:12] if mirror_text(s.task.instruction) is not None][:4]
    tracks = []
    for some in (segments, [mirror(s, lambda number: number) for s in segments]):
        demonstrations = [segment.demonstration for segment in some]
        tasks = [demonstration.task for demonstration in demonstrations]
        config = SimulatorConfig(quality="none")
        log = fly(simulator_for(tasks, config=config), tasks, Oracle(demonstrations, simulator=config))
        tracks.append(log.pose_world[:, :, :2])
    assert torch.allclose(tracks[1][..., 0], FIELD_SIZE - tracks[0][..., 0], atol=1e-2)
    assert torch.allclose(tracks[1][..., 1], tracks[0][..., 1], atol=1e-2)
