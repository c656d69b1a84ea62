"""What the demo draws: meshes as files, the ground, predictions, the field in 3D and where its camera stands."""

import itertools
import json
import math
import struct
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import viser
from matplotlib.colors import to_rgb
from PIL import Image

from pvn.app.demo.cameras import camera_place
from pvn.app.demo.field_view import FieldView3D, _on_the_level
from pvn.app.demo.flight_setup import change_instruction, segment_setup
from pvn.app.demo.pictures import (
    MAP_PX,
    THINKING_PX,
    decode,
    drone_view,
    encode,
    ground_picture,
    map_files,
    predictions_file,
    start_view,
)
from pvn.app.demo.scene import FACING_UP, to_glb
from pvn.geometry import MapGrid
from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.meshes import class_mesh, landmark_mesh
from pvn.simulator.rays import FENCE_HEIGHT, SUN_X, SUN_Y
from pvn.viz import palette
from pvn.viz.flight_record import Maps, fly_and_record
from pvn.viz.pictures import EXTENT, REACH
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import FIELD_SIZE, Landmark, Layout

MIDDLE = FIELD_SIZE / 2


def gltf_parts(content):
    """The description in a glTF file, and its three arrays: points (V, 3), linear colours (V, 3), triangles (N, 3)."""
    (size,) = struct.unpack("<I", content[12:16])
    described, start = json.loads(content[20 : 20 + size]), 20 + size + 8
    arrays = []
    for view, kind in zip(described["bufferViews"], ("<f4", "<f4", "<u4"), strict=True):
        begin = start + view["byteOffset"]
        arrays.append(np.frombuffer(content[begin : begin + view["byteLength"]], kind).reshape(-1, 3))
    return described, *arrays


def test_a_gltf_file_holds_its_mesh_lit_by_the_sun_however_a_landmark_is_turned():
    mesh, sun = class_mesh("Apple"), np.array([SUN_X, SUN_Y])
    for yaw in (0.0, 2.0):
        content = to_glb(mesh, yaw=yaw)
        assert struct.unpack("<4sII", content[:12]) == (b"glTF", 2, len(content))
        _, points, colours, triangles = gltf_parts(content)
        assert np.array_equal(points, mesh.vertices) and np.array_equal(triangles, mesh.triangles)
        turned = mesh.normals[:, :2] @ np.array([[np.cos(yaw), np.sin(yaw)], [-np.sin(yaw), np.cos(yaw)]])
        is_level = abs(mesh.normals[:, 2]) < 0.3
        facing, averted = is_level & (turned @ sun > 0.3), is_level & (turned @ sun < -0.3)
        assert colours[facing].sum(1).mean() > 1.2 * colours[averted].sum(1).mean()


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


def test_predictions_lie_on_the_ground_where_the_pilot_makes_them():
    """A drone in the middle that faces north predicts a trajectory to its left, and a goal ahead."""
    grid, probability = MapGrid(), np.zeros((2, MapGrid().size, MapGrid().size), np.float32)
    maps = Maps(grid, probability, probability[0] > 0, probability, probability)
    start, cell_px = (MIDDLE, MIDDLE, math.pi / 2), grid.cell * MAP_PX / EXTENT
    for channel, place in enumerate(((0.0, 10.0), (15.0, 0.0))):
        row, column = grid.cells(torch.tensor(place)).round().int().tolist()
        probability[channel, row, column] = 1
    picture = decode(predictions_file(maps, start))
    assert picture.shape == (MAP_PX, MAP_PX, 4)
    expected = {palette.PREDICTED_TRAJECTORY: (MIDDLE - 10, MIDDLE), palette.PREDICTED_GOAL: (MIDDLE, MIDDLE + 15)}
    for colour, (x, y) in expected.items():
        rows, columns = np.nonzero(looks_like(picture, colour))
        assert columns.mean() == pytest.approx((x - REACH[0]) / EXTENT * MAP_PX, abs=cell_px)
        assert rows.mean() == pytest.approx((REACH[1] - y) / EXTENT * MAP_PX, abs=cell_px)
    assert (picture[..., 3] == 0).mean() > 0.95, "nothing is painted elsewhere"
    assert predictions_file(replace(maps, probability=None), start) is None


@pytest.mark.long
def test_maps_show_the_part_that_was_seen(pilots, field):
    task = field.segments[0].task
    moment = fly_and_record(pilots["pvn-plus"], task, horizon=1).moments[0]
    semantic, grounding = map(decode, map_files(moment, task.start))
    assert semantic.shape == grounding.shape == (THINKING_PX, THINKING_PX, 3)
    assert not np.array_equal(semantic, grounding) and 0.05 < (semantic.sum(-1) > 30).mean() < 0.9


def test_pictures_survive_being_stored_as_files():
    opaque = np.full((8, 8, 3), (200, 30, 60), np.uint8)
    assert abs(decode(encode(opaque)).astype(int) - opaque).max() < 8
    see_through = np.arange(8 * 8 * 4, dtype=np.uint8).reshape(8, 8, 4)
    assert np.array_equal(decode(encode(see_through)), see_through)


@pytest.mark.long
def test_the_view_at_the_start_is_the_first_picture_of_a_flight(pilots, field):
    segment = field.segments[0]
    task, path = segment.task, segment.demonstration.path
    first = fly_and_record(pilots["oracle"], task, demonstrated=path, horizon=1).moments[0]
    view = start_view(task.layout, task.start)
    assert view == drone_view(task.layout, first.pose_world, SimulatorConfig().camera)

    def small(picture):
        return np.asarray(Image.fromarray(picture).resize((32, 18))).astype(int)

    # Sharper and richer than what the pilot gets, of the same scene.
    assert abs(small(decode(view)) - small(first.image)).mean() < 25
    away = decode(start_view(task.layout, (task.start[0], task.start[1], task.start[2] + 2)))
    assert abs(small(away) - small(first.image)).mean() > 30


# The camera.


@pytest.mark.parametrize("aspect", [0.4, 0.8, 1.3, 2.5])
@pytest.mark.parametrize("mode", ["overview", "above"])
def test_all_four_fences_are_in_view_at_any_size_of_the_window(mode, aspect):
    fov = np.radians(75)
    place = camera_place(mode, np.zeros(6, np.float32), fov, aspect)
    ahead = (place.target - place.position) / np.linalg.norm(place.target - place.position)
    right = np.cross(ahead, place.up) / np.linalg.norm(np.cross(ahead, place.up))
    assert right[0] > 0.9, "east is to the right"
    seen = []
    for corner in itertools.product((0, FIELD_SIZE), (0, FIELD_SIZE), (0, FENCE_HEIGHT)):
        away = np.array(corner) - place.position
        tangent = np.tan(fov / 2) * (away @ ahead)
        seen += [abs(away @ right) / tangent / aspect, abs(away @ np.cross(right, ahead)) / tangent]
    assert 0.8 < max(seen) < 1, "in view, and no further away than needed"


def test_the_camera_that_follows_looks_over_the_drone_at_what_is_ahead():
    place = camera_place("follow", np.array([10, 20, 5, 0, 0, np.pi / 2], np.float32), np.radians(75), 1.5)
    assert place.position[:2] == pytest.approx((10, 13.5)) and place.position[2] > 5
    assert place.target[1] > 25
    for metres in range(5, 16):
        seen = np.array([10.0, 20 + metres, 1.0]) - place.position
        drone = np.array([10.0, 20, 5]) - place.position
        away = drone - seen * (drone @ seen) / (seen @ seen)
        assert np.linalg.norm(away) > 0.6, "the drone, which reaches 0.5 m, covers nothing that it still flies to"


# The field in 3D.


class Client:
    """What a 3D view knows of a browser; the scene is that of a server that nobody visits."""

    def __init__(self, server):
        self.scene, self.atomic = server.scene, server.atomic
        self.camera = SimpleNamespace(fov=1.3, aspect=1.5, on_update=lambda act: None)


@pytest.fixture(scope="module")
def view():
    server = viser.ViserServer("127.0.0.1", 0, verbose=False)
    yield FieldView3D(Client(server), lambda edit: None)
    server.stop()


def windmills(*scales):
    kind = LANDMARK_CLASSES["Windmill"]
    return [Landmark("Windmill", 10.0 + 25 * place, 25.0, kind.radius * scale) for place, scale in enumerate(scales)]


def test_what_is_dragged_stays_under_the_pointer():
    camera = SimpleNamespace(position=np.array([10.0, 0.0, 20.0]))
    event = SimpleNamespace(client=SimpleNamespace(camera=camera), end_position=(10.0, 5.0, 10.0))
    assert _on_the_level(event, 0.0).tolist() == [10.0, 10.0] and _on_the_level(event, 4.0).tolist() == [10.0, 8.0]
    assert _on_the_level(event, 30.0) is None, "the ray goes down"
    event.end_position = (10.0, 400.0, 19.0)
    assert _on_the_level(event, 0.0).tolist() == [10.0, FIELD_SIZE], "nothing leaves the field"


def test_pictures_lie_on_the_ground_with_north_up_and_east_to_the_right():
    right, down = viser.transforms.SO3(FACING_UP).as_matrix()[:, :2].T
    assert np.allclose(right, (1, 0, 0)) and np.allclose(down, (0, -1, 0))


@pytest.mark.long
def test_a_demonstration_and_its_goal_are_shown_only_where_there_is_one(view, field):
    setup = segment_setup(field, 0)
    view.show_setup(setup)
    x, y = setup.demonstrated[-1]
    assert np.allclose(view._lines["/goal"].points[..., :2].mean((0, 1)), (x, y), atol=0.1)
    for instruction, is_shown in (("go home", False), (setup.instruction, True)):
        view.show_setup(change_instruction(setup, instruction))
        assert [view._lines[name].visible for name in ("/demonstration", "/goal", "/path_end")] == [is_shown] * 3
        assert view._lines["/start"].visible


@pytest.mark.long
def test_landmarks_stand_in_their_places_with_their_names_above_them_and_equal_ones_are_only_moved(view):
    landmarks = windmills(0.5, 2)
    view.show_layout(Layout(tuple(landmarks)))
    for landmark, (_, node, label) in zip(landmarks, view._landmarks, strict=True):
        assert node.position.tolist() == [landmark.x, landmark.y, 0.0]
        top = landmark_mesh(landmark).vertices[:, 2].max()
        assert label.text == LANDMARK_CLASSES[landmark.name].noun and label.name.startswith(node.name)
        assert label.position[2] == pytest.approx(top + 0.25)  # viser scales the mesh of a node, but not its children
    nodes = [node for _, node, _ in view._landmarks]
    view.show_layout(Layout((replace(landmarks[0], x=12.0, y=30.0), landmarks[1])))
    assert [node for _, node, _ in view._landmarks] == nodes and nodes[0].position.tolist() == [12.0, 30.0, 0.0]
    view.show_layout(Layout((landmarks[1],)))
    assert len(view._landmarks) == 1


@pytest.mark.long
def test_for_the_camera_that_follows_names_are_at_the_foot_of_landmarks_and_nothing_hides_the_way(view):
    view.show_layout(Layout(tuple(windmills(1, 1))))
    for mode, is_below in (("follow", True), ("overview", False)):
        view.show_camera(mode)
        for _, _, label in view._landmarks:
            assert (label.position[2] < 0, label.anchor) == (is_below, "top-center" if is_below else "bottom-center")
        assert view._frustum.visible == view._plumb_line.visible == (not is_below)


@pytest.mark.long
def test_what_was_touched_is_marked_until_the_next_flight(view, field):
    marks = windmills(1, 1)
    view.show_layout(Layout(tuple(marks)))
    noun = LANDMARK_CLASSES["Windmill"].noun
    view.show_touched({1: "through"})
    assert [label.text for _, _, label in view._landmarks] == [noun, f"✖ {noun}: flown through"]
    assert np.allclose(view._lines["/touched"].points[..., 0].mean(), marks[1].x, atol=0.1)
    view.show_setup(segment_setup(field, 0))
    assert [label.text for _, _, label in view._landmarks] == [noun, noun] and not view._lines["/touched"].visible


def test_the_handle_that_turns_the_drone_is_where_the_drone_is_after_a_flight_and_hidden_during_it(view, field):
    view.show_setup(segment_setup(field, 0))
    view.show_flying(True)
    assert not view._start_handle.visible
    view.show_pose(np.array([30, 20, 5, 0, 0, np.pi / 2], np.float32))
    view.show_flying(False)
    assert view._start_handle.visible and np.allclose(view._start_handle.position[:2], (30, 21.6))
