"""Meshes have the shapes and places of the solids that the simulator traces."""

from dataclasses import replace

import numpy as np
import pytest

from pvn.simulator.cameras import from_above, take_pictures
from pvn.simulator.meshes import landmark_mesh, solid_mesh
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Landmark, Layout
from pvn.world.solids import ball, box, cone, surface_points


@pytest.mark.long
@pytest.mark.parametrize(
    "solid",
    [
        box((0.3, 0, 1), (1, 2, 0.5), "#ff0000", (20, 30, 40)),
        box((0, 0, 1), (1, 2, 0.5), "#ff0000").painted("stripes", "#0000ff", 3),
        ball((0, 1, 2), (1, 2, 3), "#00ff00", (0, 45, 0)),
        cone((0, 0, 0), 1, 2, "#0000ff", top=0.3).painted("bands", "#ffffff", 4),
    ],
)
def test_meshes_have_the_extent_of_their_solids_and_face_outwards(solid):
    mesh = solid_mesh(solid)
    points = surface_points(solid)
    assert np.allclose(mesh.vertices.min(0), points.min(0), atol=0.06)
    assert np.allclose(mesh.vertices.max(0), points.max(0), atol=0.06)
    a, b, c = (mesh.vertices[mesh.triangles[:, corner]] for corner in range(3))
    area = np.cross(b - a, c - a)
    outward = (area * ((a + b + c) / 3 - np.array(solid.centre))).sum(-1)
    is_flat = np.linalg.norm(area, axis=1) < 1e-6  # at an ellipsoid's poles
    assert (outward[~is_flat] > 0).all()
    assert ((area * mesh.normals[mesh.triangles].mean(1)).sum(-1)[~is_flat] > 0).all()
    colours = {tuple(colour) for colour in mesh.colours.tolist()}
    assert len(colours) == (1 if solid.pattern == "plain" else 2)


def test_a_landmarks_mesh_stands_where_the_simulator_shows_it():
    mark = Landmark("Pickup", 20.0, 30.0, LANDMARK_CLASSES["Pickup"].radius * 1.2, 0.7)
    layout = Layout((mark,))
    size, camera = 400, from_above(15.0, 25.0, 10.0, 400)
    with_it, without = take_pictures([layout, replace(layout, landmarks=())], [camera] * 2, size, size).astype(int)
    corners = landmark_mesh(mark).vertices
    column, row = (corners[:, 0] - 15) * 40, (35 - corners[:, 1]) * 40
    differs = np.abs(with_it - without).sum(-1) > 0
    near = [(down, right) for down in (-2, 0, 2) for right in (-2, 0, 2)]  # 5 cm: corners lie on the very rim
    seen = np.any([differs[row.astype(int) + down, column.astype(int) + right] for down, right in near], axis=0)
    assert seen.all()
    reach = np.argwhere(differs).max(0) - np.argwhere(differs).min(0)
    assert np.ptp(row) > 0.6 * reach[0] and np.ptp(column) > 0.6 * reach[1], "the rest is its shadow"
