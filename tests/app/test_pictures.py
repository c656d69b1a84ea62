"""What the demo draws: meshes as files, the ground, and what the pilot predicts."""

import itertools
import json
import struct
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from pvn.app.demo.cameras import camera_place
from pvn.app.demo.gltf import to_glb
from pvn.app.demo.pictures import (
    MAP_PX,
    THINKING_PX,
    decode,
    drone_view,
    encode,
    ground_picture,
    map_pictures,
    predictions_picture,
    start_view,
)
from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.meshes import class_mesh
from pvn.simulator.rays import SUN_X, SUN_Y
from pvn.viz import palette
from pvn.viz.flight_record import fly_and_record
from pvn.world.layout import Layout


def test_a_gltf_file_describes_its_mesh():
    mesh = class_mesh("Apple")
    content = to_glb(mesh)
    magic, version, length = struct.unpack("<4sII", content[:12])
    assert (magic, version, length) == (b"glTF", 2, len(content))
    (size,) = struct.unpack("<I", content[12:16])
    described = json.loads(content[20 : 20 + size])
    counts = [accessor["count"] for accessor in described["accessors"]]
    assert counts == [len(mesh.vertices)] * 2 + [mesh.triangles.size]


def colours_of(content, num_vertices):
    """The linear colours (V, 3) in a glTF file of `to_glb`."""
    (size,) = struct.unpack("<I", content[12:16])
    start = 20 + size + 8 + 12 * num_vertices
    return np.frombuffer(content[start : start + 12 * num_vertices], "<f4").reshape(-1, 3)


def test_the_light_that_is_painted_on_comes_from_the_sun_however_a_landmark_is_turned():
    mesh = class_mesh("Apple")
    sun = np.array([SUN_X, SUN_Y])
    for yaw in (0.0, 2.0):
        brightness = colours_of(to_glb(mesh, yaw=yaw), len(mesh.vertices)).sum(1)
        turned = mesh.normals[:, :2] @ np.array([[np.cos(yaw), np.sin(yaw)], [-np.sin(yaw), np.cos(yaw)]])
        is_level = abs(mesh.normals[:, 2]) < 0.3
        facing, averted = is_level & (turned @ sun > 0.3), is_level & (turned @ sun < -0.3)
        assert brightness[facing].mean() > 1.2 * brightness[averted].mean()


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


@pytest.mark.long
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
    semantic, grounding = map_pictures(moment.maps, moment, task.start)
    assert semantic.shape == grounding.shape == (THINKING_PX, THINKING_PX, 3)
    assert not np.array_equal(semantic, grounding) and 0.05 < (semantic.sum(-1) > 30).mean() < 0.9, "it sees a part"


def test_pictures_survive_being_stored_as_files():
    opaque = np.full((8, 8, 3), (200, 30, 60), np.uint8)
    assert abs(decode(encode(opaque)).astype(int) - opaque).max() < 8
    see_through = np.arange(8 * 8 * 4, dtype=np.uint8).reshape(8, 8, 4)
    assert np.array_equal(decode(encode(see_through)), see_through)


@pytest.mark.long
def test_the_view_at_the_start_is_the_first_picture_of_a_flight(pilots, field):
    task = field.segments[0].task
    first = fly_and_record(replace(pilots["oracle"], config=SimulatorConfig()), task,
                           demonstrated=field.segments[0].demonstration.path, horizon=1).moments[0]  # fmt: skip
    view = start_view(task.layout, task.start)
    assert view == drone_view(task.layout, first.pose_world, SimulatorConfig().camera)
    # Sharper and richer than what the pilot gets, of the same scene.
    shown, got = (
        np.asarray(Image.fromarray(picture).resize((32, 18))).astype(int) for picture in (decode(view), first.image)
    )
    assert decode(view).shape == (144, 256, 3) and abs(shown - got).mean() < 25
    away = decode(start_view(task.layout, (task.start[0], task.start[1], task.start[2] + 2)))
    assert abs(np.asarray(Image.fromarray(away).resize((32, 18))).astype(int) - got).mean() > 30


@pytest.mark.parametrize("aspect", [0.4, 0.8, 1.3, 2.5])
@pytest.mark.parametrize("mode", ["overview", "above"])
def test_all_four_fences_are_in_view_at_any_size_of_the_window(mode, aspect):
    fov = np.radians(75)
    place = camera_place(mode, np.zeros(6, np.float32), fov, aspect)
    ahead = (place.target - place.position) / np.linalg.norm(place.target - place.position)
    right = np.cross(ahead, place.up) / np.linalg.norm(np.cross(ahead, place.up))
    seen = []
    for corner in itertools.product((0, 50), (0, 50), (0, 2.4)):
        away = np.array(corner) - place.position
        tangent = np.tan(fov / 2) * (away @ ahead)
        seen += [abs(away @ right) / tangent / aspect, abs(away @ np.cross(right, ahead)) / tangent]
    assert 0.8 < max(seen) < 1, "in view, and no further away than needed"


def test_the_camera_that_follows_looks_over_the_drone_at_what_is_ahead():
    place = camera_place("follow", np.array([10, 20, 5, 0, 0, np.pi / 2], np.float32), np.radians(75), 1.5)
    assert place.position[:2] == pytest.approx((10, 13.5)) and place.position[2] > 5
    assert place.target[1] > 25


@pytest.mark.parametrize("metres", range(5, 16))
def test_the_drone_covers_nothing_that_it_still_flies_to(metres):
    place = camera_place("follow", np.array([10, 20, 5, 0, 0, np.pi / 2], np.float32), np.radians(75), 1.5)
    seen = np.array([10.0, 20 + metres, 1.0]) - place.position
    drone = np.array([10.0, 20, 5]) - place.position
    away = drone - seen * (drone @ seen) / (seen @ seen)
    assert np.linalg.norm(away) > 0.6, "the line of sight passes outside of the drone, which reaches 0.5 m"
