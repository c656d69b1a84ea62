"""The trees beyond the field in the demo's 3D view."""

import numpy as np

from pvn.app.demo.trees import TREE_RING, tree_line_mesh
from pvn.world.layout import FIELD_SIZE


def test_trees_stand_around_the_field():
    mesh = tree_line_mesh()
    radius = np.linalg.norm(mesh.vertices[:, :2] - FIELD_SIZE / 2, axis=1)
    assert radius.min() >= TREE_RING and radius.max() < TREE_RING + 7
    assert -0.1 < mesh.vertices[:, 2].min() and 9 < mesh.vertices[:, 2].max() <= 15
    bearing = np.sort(np.arctan2(*(mesh.vertices[:, :2] - FIELD_SIZE / 2).T))
    assert np.degrees(np.diff(bearing)).max() < 2, "without a gap"
    assert (mesh.colours[:, 1] > mesh.colours[:, 0]).all() and (mesh.colours[:, 1] > mesh.colours[:, 2]).all()
    assert len(mesh.triangles) < 5_000, "a browser without a graphics card draws them, too"
    assert mesh.triangles.max() < len(mesh.vertices)
