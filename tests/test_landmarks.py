"""The 63 classes: names, sizes, and that a person can tell them apart."""

import numpy as np
import pytest

from pvn.app.catalogue import portraits
from pvn.world.landmarks import LANDMARK_CLASSES, LANDMARK_NAMES, landmark_class
from pvn.world.solids import bounding_sphere, horizontal_extent, surface_points


def test_there_are_63_classes_in_case_sensitive_order():
    assert len(LANDMARK_NAMES) == 63
    assert LANDMARK_NAMES[0] == "Anvil" and LANDMARK_NAMES[62] == "YellowFlowers"
    assert list(LANDMARK_NAMES) == sorted(LANDMARK_NAMES)
    assert [kind.index for kind in LANDMARK_CLASSES.values()] == list(range(63))


def test_radii_are_lanis():
    radii = [round(kind.radius / 0.05) for kind in LANDMARK_CLASSES.values()]
    assert {radius: radii.count(radius) for radius in set(radii)} == {
        75: 45, 85: 1, 90: 1, 95: 2, 100: 5, 110: 1, 120: 1, 125: 7,
    }  # fmt: skip


@pytest.mark.parametrize("name", LANDMARK_NAMES)
def test_a_model_fills_its_clearance_circle_and_stands_on_the_ground(name):
    kind = LANDMARK_CLASSES[name]
    assert 0.4 <= horizontal_extent(kind.solids) / kind.radius <= 0.5
    points = np.concatenate([surface_points(solid) for solid in kind.solids])
    assert -1.0 < points[:, 2].min() < 0.15, "floats, or is buried deeper than a mound needs"
    assert points[:, 2].max() < 13
    assert len(kind.solids) <= 20


@pytest.mark.parametrize("name", LANDMARK_NAMES)
def test_the_bounding_sphere_holds_every_surface_point(name):
    solids = LANDMARK_CLASSES[name].solids
    height, radius = bounding_sphere(solids)
    points = np.concatenate([surface_points(solid, 40) for solid in solids])
    assert np.linalg.norm(points - [0, 0, height], axis=-1).max() <= radius


def test_every_two_classes_look_different_from_the_front_and_from_above():
    # Mean difference of two portraits in grey levels, over the part of the picture where a thing stands.
    for pictures in portraits(LANDMARK_NAMES, size_px=48):
        middle = pictures[:, 12:36, 12:36].astype(float)
        difference = np.abs(middle[:, None] - middle[None]).mean(axis=(2, 3, 4))
        np.fill_diagonal(difference, np.inf)
        closest = np.unravel_index(difference.argmin(), difference.shape)
        assert difference.min() > 8, f"{[LANDMARK_NAMES[i] for i in closest]} look alike"


@pytest.mark.parametrize(
    ("wrong", "right"), [("Aple", "Apple"), ("barrel", "Barrel"), ("ConiferCluster", "ConniferCluster")]
)
def test_an_unknown_class_is_answered_with_the_nearest_name(wrong, right):
    with pytest.raises(ValueError, match=f"got '{wrong}'.*did you mean.*{right}"):
        landmark_class(wrong)
