"""The 63 classes: names, sizes, and that a person can tell them apart."""

import numpy as np
import pytest

from pvn.simulator.cameras import from_above, looking_at, take_pictures
from pvn.world.landmarks import LANDMARK_CLASSES, LANDMARK_NAMES, landmark_class
from pvn.world.layout import Landmark, Layout
from pvn.world.solids import bounding_sphere, horizontal_extent, surface_points


def test_there_are_63_classes_in_case_sensitive_order():
    assert len(LANDMARK_NAMES) == 63
    assert LANDMARK_NAMES[0] == "Anvil" and LANDMARK_NAMES[62] == "YellowFlowers"
    assert list(LANDMARK_NAMES) == sorted(LANDMARK_NAMES)
    assert [kind.index for kind in LANDMARK_CLASSES.values()] == list(range(63))


def test_radii_are_lanis():
    radii = {name: round(kind.radius / 0.05) for name, kind in LANDMARK_CLASSES.items()}
    larger = {name: radius for name, radius in radii.items() if radius != 75}
    assert list(radii.values()).count(75) == 45
    assert larger == {
        "Palm1": 85, "Pickup": 90, "Palm2": 95, "Well": 95, "House1": 100, "House2": 100, "Palm3": 100, "Tank": 100,
        "Tower2": 100, "Container": 110, "Jet": 120, "Beacon": 125, "Bench": 125, "BigHouse": 125, "Boat": 125,
        "Coach": 125, "House": 125, "LionStatue": 125,
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


@pytest.mark.long
def test_every_two_classes_look_different_from_the_front_and_from_above():
    # All at one place before one camera, so that only the things themselves differ; in grey levels where they stand.
    layouts = [Layout((Landmark(name, 25, 25, kind.radius, -1.2),)) for name, kind in LANDMARK_CLASSES.items()]
    front = looking_at((25.0, 14.0, 5.0), (25.0, 25.0, 1.5), 48, 48, 0.7)
    above = from_above(22, 22, 6, 48)
    for camera in (front, above):
        pictures = take_pictures(layouts, [camera] * len(layouts), 48, 48)
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
