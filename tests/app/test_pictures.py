"""What the demo draws: meshes as files, the ground, and what the pilot predicts."""

import json
import struct
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from pvn.app.demo.gltf import to_glb
from pvn.app.demo.pictures import MAP_PX, ground_picture, maps_sheet, predictions_picture
from pvn.viz import palette
from pvn.viz.flight_record import fly_and_record
from pvn.viz.meshes import class_mesh
from pvn.world.layout import Layout


def test_a_gltf_file_describes_its_mesh():
    mesh = class_mesh("Apple")
    content = to_glb(mesh)
    magic, version, length = struct.unpack("<4sII", content[:12])
    assert (magic, version, length) == (b"glTF", 2, len(content))
    (size,) = struct.unpack("<I", content[12:16])
    described = json.loads(content[20 : 20 + size])
    counts = [accessor["count"] for accessor in described["accessors"]]
    assert counts == [len(mesh.vertices)] * 3 + [mesh.triangles.size]


@pytest.mark.long
def test_the_ground_has_shadows_but_no_landmarks(field):
    layout = field.segments[0].task.layout
    bare, shaded = ground_picture(Layout((), layout.lake)).astype(int), ground_picture(layout).astype(int)
    darker = (bare - shaded).sum(-1) > 20
    assert 0.001 < darker.mean() < 0.1
    assert ((shaded - bare).sum(-1) > 20).mean() < 0.0005


def looks_like(picture, colour):
    """Pixels (H, W) that are mostly opaque and nearly of a colour."""
    distance = np.abs(picture[..., :3] / 255 - np.array(to_rgb(colour))).max(-1)
    return (distance < 0.15) & (picture[..., 3] > 115)


def test_predictions_lie_on_the_ground_where_the_pilot_makes_them(pilots, field):
    task = field.segments[0].task
    moment = fly_and_record(pilots["pvn-plus"], task, horizon=1).moments[0]
    picture = predictions_picture(moment.maps, task.start)
    assert picture.shape == (MAP_PX, MAP_PX, 4)
    rows, columns = np.nonzero(looks_like(picture, palette.PREDICTED_TRAJECTORY))
    x, y = columns.mean() / MAP_PX * 53 - 1.5, 51.5 - rows.mean() / MAP_PX * 53
    assert np.hypot(x - task.start[0], y - task.start[1]) < 20, "the trajectory begins at the drone"
    assert looks_like(picture, palette.PREDICTED_GOAL).any(), "and somewhere it ends"
    assert predictions_picture(replace(moment.maps, probability=None), task.start) is None
    sheets = [
        maps_sheet(np.zeros((MAP_PX, MAP_PX, 3)), shown, task.start, (1, 1))
        for shown in (moment, replace(moment, maps=None))
    ]
    assert sheets[0].shape == sheets[1].shape and (sheets[0] != sheets[1]).mean() > 0.5
