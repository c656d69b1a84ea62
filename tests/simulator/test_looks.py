"""Other renderers draw the same field, seen by the same camera; each test of a renderer needs its package."""

import importlib.util
import math
import sys

import numpy as np
import pytest
import torch

from pvn.evaluation.evaluate import make_pilots
from pvn.geometry import Camera, rotation_body_camera, rotation_world_body
from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.looks.photographer import OtherRenderer, scene_maker
from pvn.simulator.looks.scene import GRASS, WATER, Part, parts_of
from pvn.simulator.meshes import landmark_mesh
from pvn.simulator.simulator import Simulator
from pvn.systems import FlightChanges
from pvn.world.layout import Landmark, Layout, sample_layout

LOOKS = [
    pytest.param(look, marks=pytest.mark.skipif(importlib.util.find_spec(look) is None, reason=f"needs {look}"))
    for look in ("mujoco", "pybullet")
]
VIEWS = {
    "as agents see": (Camera(), (12.0, 25.0, 5.0, 0.0, 0.0, 0.3)),
    "in a turn": (Camera(), (14.0, 28.0, 5.2, 0.3, 0.15, -0.2)),
    "low": (Camera(tilt=math.radians(5)), (14.0, 24.0, 2.0, 0.0, 0.0, 0.1)),
    "another lens": (
        Camera(width=160, height=120, horizontal_view=math.radians(60), tilt=math.radians(30)),
        (16.0, 25.0, 6.0, -0.1, 0.0, 0.1),
    ),
}


def area(mesh):
    """Square metres of the faces."""
    a, b, c = (mesh.vertices[mesh.triangles[:, corner]] for corner in range(3))
    return np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2


def part_of_colour(parts, colour):
    return next(part for part in parts if np.allclose(part.colour, colour, atol=1 / 255))


@pytest.mark.long
def test_a_scene_has_the_lakes_that_a_layout_has_above_the_grass():
    layout = sample_layout(3)
    parts = parts_of(layout)
    water, grass = (part_of_colour(parts, colour).mesh for colour in (WATER, GRASS))
    assert area(water) == pytest.approx(layout.lake.sum() * 0.25, rel=0.03)
    assert water.vertices[:, 2].min() > grass.vertices[:, 2].max() == 0
    for corner in water.vertices[::97]:
        near = layout.lake[tuple(slice(max(int(at / 0.5) - 1, 0), int(at / 0.5) + 2) for at in corner[:2])]
        assert near.any()


@pytest.mark.long
def test_a_scene_has_every_landmark_as_agents_see_it_and_fences_from_both_sides():
    layout = sample_layout(3)
    parts = parts_of(layout)
    places = {tuple(place) for part in parts for place in part.mesh.vertices.round(3).tolist()}
    for landmark in layout.landmarks:
        assert {tuple(at) for at in landmark_mesh(landmark).vertices.round(3).tolist()} <= places
    yellow = part_of_colour(parts, (0.95, 0.80, 0.08)).mesh
    assert set(yellow.normals[:, 0].round().tolist()) >= {-1.0, 1.0}, "the western fence, seen from east and west"


@pytest.mark.long
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("view", VIEWS)
def test_a_landmark_lies_where_it_lies_in_our_own_picture(look, view):
    camera, pose = VIEWS[view]
    landmark = Landmark("Beacon", 24.0, 27.0, 7.0, 0.4)
    pose = torch.tensor([pose], dtype=torch.float64)
    simulator = Simulator([Layout((landmark,))], 1, config=SimulatorConfig(camera=camera, quality="fast"))
    own = simulator.landmarks_at(pose, torch.tensor([0]))[0].numpy() == 0
    # In one colour that nothing else has, by which it is told from its shadow.
    parts = [*parts_of(Layout(())), Part((1.0, 0.0, 1.0), landmark_mesh(landmark))]
    axes = rotation_world_body(pose[:, 3:])[0] @ rotation_body_camera(camera)
    picture = scene_maker(look)(parts, camera).picture(pose[0, :3].numpy(), axes.numpy()).astype(int)
    assert picture.shape == (camera.height, camera.width, 3)
    theirs = picture[..., 1] < picture[..., [0, 2]].min(-1) / 2
    assert own.sum() > 150
    assert (own & theirs).sum() > 0.97 * (own | theirs).sum()
    offset = np.argwhere(own).mean(0) - np.argwhere(theirs).mean(0)
    # An eighth of a pixel for one of a thousand pixels; round solids have facets, which count for more nearby.
    assert np.abs(offset).max() < 0.004 * math.sqrt(own.sum()), f"{offset} pixels down and right"


@pytest.mark.long
@pytest.mark.parametrize("look", LOOKS)
def test_another_look_changes_pictures_and_nothing_else(look):
    layouts, starts = [sample_layout(3), sample_layout(4)], torch.tensor([[10.0, 10, 0], [20, 30, 1], [10, 10, 0]])
    observed = {}
    for drawn_by, photographer in {"own": None, look: OtherRenderer(look)}.items():
        config = SimulatorConfig(photographer=photographer)
        simulator = Simulator(layouts, 3, field_index=[0, 1, 0], config=config)
        simulator.reset(starts)
        observed[drawn_by] = simulator.step(torch.tensor([[3.0, 0.5, 0.0]] * 3))
    own, other = observed["own"], observed[look]
    assert torch.equal(own.pose_world, other.pose_world) and torch.equal(own.velocity_world, other.velocity_world)
    assert other.image.shape == own.image.shape and other.image.dtype == torch.uint8
    assert torch.equal(other.image[0], other.image[2]) and not torch.equal(other.image[0], other.image[1])
    difference = (own.image.float() - other.image.float()).abs().mean((1, 2, 3))
    assert ((difference > 5) & (difference < 60)).all(), "drawn differently, yet the same things"


@pytest.mark.parametrize("look", ["mujoco", "pybullet"])
def test_a_renderer_that_is_not_installed_says_what_to_install(look, monkeypatch):
    monkeypatch.setitem(sys.modules, look, None)
    monkeypatch.delitem(sys.modules, f"pvn.simulator.looks.{look}_renderer", raising=False)
    with pytest.raises(ValueError, match=f"look: got {look}, .*; install it with: pip install {look}"):
        scene_maker(look)


def test_pilots_who_fly_blind_need_no_other_renderer(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    monkeypatch.delitem(sys.modules, "pvn.simulator.looks.mujoco_renderer", raising=False)
    config = SimulatorConfig(quality="none", photographer=OtherRenderer("mujoco"))
    assert not Simulator([sample_layout(3)], 1, config=config).observe().image.any()


def test_flights_with_another_look_are_kept_apart():
    (own,), (other,) = (make_pilots("pvn", changes=FlightChanges(look=look)) for look in ("own", "mujoco"))
    assert (own.name, other.name) == ("pvn", "pvn_mujoco")
    assert own.fingerprint != other.fingerprint and other.config.photographer == OtherRenderer("mujoco")
    assert str(own.config) != str(other.config)
