"""Colours that are shown together are told apart, by colour-blind people too."""

import itertools

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from pvn.viz import palette
from pvn.viz.pictures import field_from_above, in_grey, in_muted_colours
from pvn.world.layout import Layout

# Machado, Oliveira and Fernandes 2009, severity 1.0, for linear red, green and blue.
VISION = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = TO_XYZ.sum(1)
LEAST = 20.0
"""CIELAB distance; 2.3 is just noticeable side by side, ten times that is told apart at a glance."""


def lab(colour, vision):
    """CIELAB of an sRGB colour as someone sees it."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    x, y, z = TO_XYZ @ (VISION[vision] @ linear).clip(0, 1) / WHITE
    f = [t ** (1 / 3) if t > (6 / 29) ** 3 else t / (3 * (6 / 29) ** 2) + 4 / 29 for t in (x, y, z)]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def least_distance(pairs):
    """Of the two most similar colours, for whoever tells them apart worst."""
    return min(float(np.linalg.norm(lab(one, vision) - lab(two, vision))) for vision in VISION for one, two in pairs)


GRASS = Layout(())
LAKE = Layout((), np.ones((100, 100), bool))


def median_colour(layout, tone=lambda picture: picture):
    return tuple(np.median(tone(field_from_above(layout, 120))[10:-10, 10:-10], axis=(0, 1)))


PATHS = (palette.FLOWN, palette.DEMONSTRATED, palette.START, palette.GOAL)
TOGETHER = {
    "predictions in print": (
        (*palette.PREDICTION_COLOURS, palette.DRONE),
        lambda: [median_colour(ground, in_grey) for ground in (GRASS, LAKE)],
    ),
    "predictions in films": (
        (*palette.PREDICTION_COLOURS, palette.FLOWN, palette.DEMONSTRATED, palette.START),
        lambda: [median_colour(ground, in_muted_colours) for ground in (GRASS, LAKE)],
    ),
    "predictions in the demo": (
        (*palette.PREDICTION_COLOURS, palette.FLOWN, palette.DEMONSTRATED, palette.START),
        lambda: [median_colour(ground) for ground in (GRASS, LAKE)],
    ),
    "paths": (PATHS, lambda: [median_colour(ground) for ground in (GRASS, LAKE)]),
    "obstacles in the demo": (
        (palette.TOUCHED, palette.PREDICTED_TRAJECTORY, *PATHS),
        lambda: [median_colour(ground) for ground in (GRASS, LAKE)],
    ),
    "outcomes": ((palette.REACHED, palette.MISSED), lambda: ["white"]),
    "outcomes in films": ((palette.FILM_REACHED, palette.FILM_MISSED), lambda: [palette.FILM_BACKGROUND]),
    "curves": ((palette.STOP_PROBABILITY, palette.SPEED, palette.YAW_RATE), lambda: ["white"]),
    "curves in films": ((palette.FILM_STOP_PROBABILITY, palette.FILM_SPEED), lambda: [palette.FILM_PANEL]),
    "components of a map": (tuple(map(tuple, palette.MAP_COMPONENTS)), lambda: ["white", "black"]),
    "first and last prediction": ((palette.FIRST_PREDICTION, palette.LAST_PREDICTION), lambda: ["white"]),
}


@pytest.mark.parametrize("what", TOGETHER)
def test_colours_are_told_apart_with_every_kind_of_colour_vision(what):
    colours, grounds = TOGETHER[what]
    pairs = [*itertools.combinations(colours, 2), *itertools.product(colours, grounds())]
    assert least_distance(pairs) > LEAST


def test_the_measure_knows_that_red_on_grass_is_not():
    red, grass = "#ff6a4d", median_colour(GRASS)
    assert np.linalg.norm(lab(red, "usual") - lab(grass, "usual")) > 80
    assert least_distance([(red, grass)]) < 11  # with protanopia


def test_the_components_of_a_map_together_are_white():
    assert palette.MAP_COMPONENTS.sum(0) == pytest.approx([1, 1, 1])


def test_a_predicted_goal_has_the_colour_of_a_goal():
    assert palette.PREDICTED_GOAL == palette.GOAL and palette.rgb_bytes(palette.GOAL) == (224, 138, 0)
