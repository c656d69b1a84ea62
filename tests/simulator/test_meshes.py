"""Meshes of the world: what is drawn is what the simulator traces."""

import numpy as np
import pytest

from pvn.simulator.meshes import class_mesh, fence_mesh, solid_mesh
from pvn.world.landmarks import LANDMARK_CLASSES, LANDMARK_NAMES
from pvn.world.layout import FIELD_SIZE
from pvn.world.solids import box, surface_points


@pytest.mark.parametrize("name", LANDMARK_NAMES)
def test_a_drawn_landmark_is_as_large_as_its_solids_and_its_faces_look_outward(name):
    mesh = class_mesh(name)
    points = np.concatenate([surface_points(solid) for solid in LANDMARK_CLASSES[name].solids])
    assert np.allclose(mesh.vertices.min(0), points.min(0), atol=0.05)
    assert np.allclose(mesh.vertices.max(0), points.max(0), atol=0.05)
    a, b, c = (mesh.vertices[mesh.triangles[:, corner]] for corner in range(3))
    facing = np.cross(b - a, c - a)
    is_wide = np.linalg.norm(facing, axis=1) > 1e-6
    assert ((facing * mesh.normals[mesh.triangles].mean(1)).sum(1)[is_wide] > 0).all()


def test_a_pattern_is_painted_as_the_simulator_paints_it():
    mesh = solid_mesh(box((0, 0, 1), (1, 1, 2), "#ff0000").painted("bands", "#0000ff", count=2))
    for height, colour in ((0.2, (255, 0, 0)), (0.7, (0, 0, 255)), (1.2, (255, 0, 0)), (1.7, (0, 0, 255))):
        middles = mesh.vertices[mesh.triangles].mean(1)
        sides = (np.abs(middles[:, 2] - height) < 0.25) & (np.abs(middles[:, 0]) > 0.49)
        assert sides.any() and (mesh.colours[mesh.triangles[sides]] == colour).all()


@pytest.mark.long
def test_fences_stand_around_the_field_each_in_its_colour():
    mesh = fence_mesh()
    assert mesh.vertices[:, :2].min() == 0 and mesh.vertices[:, :2].max() == pytest.approx(FIELD_SIZE, abs=1e-3)
    assert mesh.vertices[:, 2].max() == pytest.approx(2.4, abs=0.01)
    north = mesh.colours[(mesh.vertices[:, 1] > FIELD_SIZE - 1e-3) & (np.abs(mesh.vertices[:, 0] - 25) < 20)]
    assert (north.argmax(1) == 2).all(), "blue"
