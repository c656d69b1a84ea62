"""Pictures for people: the same places as in training pictures, with more to see; and those do not change."""

from pathlib import Path

import llvmlite.binding
import numba
import numpy as np
import pytest
import torch

from pvn.compiling import is_compiled, run_in_parallel
from pvn.geometry import Camera
from pvn.simulator import display
from pvn.simulator.cameras import from_above, looking_at, on_drone, take_pictures
from pvn.simulator.display import show_pictures, show_views
from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.scenery import solid_gap
from pvn.simulator.simulator import Simulator
from pvn.world.lakes import LAKE_CELLS
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Landmark, Layout, sample_layout
from pvn.world.models.display import DISPLAY
from pvn.world.solids import horizontal_extent, solid_table, surface_points, top_height

EMPTY = Layout(())
POSES = [[10.0, 10.0, 5.0, 0.0, 0.0, 0.8], [40.0, 30.0, 5.0, 0.05, 0.1, 2.6], [25.0, 45.0, 5.0, -0.1, 0.0, -1.9]]
TRAINING_PICTURES = Path(__file__).parent / "training_pictures.npz"
MADE_ON = ("neoverse-n1", "0.68.1")
"""The processor and the version of Numba that made the stored pictures; others round differently in the last bit."""


@pytest.mark.parametrize("kind", ["fast", "full", "above"])
def test_training_pictures_are_what_they_were_before_there_were_pictures_for_people(kind):
    """Agents were trained with them: but for rounding, where they were made; elsewhere but for rounding at edges.

    Rays have been traced side by side since, which rounds the last bit of some directions differently.
    """
    config = SimulatorConfig(quality="fast" if kind == "fast" else "full")
    simulator = Simulator([sample_layout(1), sample_layout(3)], 1, config=config)
    if kind == "above":
        found = simulator.render_from_above(torch.tensor([0]), 96, 1.0).numpy()
    else:
        found = simulator.render(torch.tensor(POSES, dtype=torch.float64), torch.tensor([0, 1, 1])).numpy()
    with np.load(TRAINING_PICTURES) as stored:
        before = stored[kind]
    if (llvmlite.binding.get_host_cpu_name(), numba.__version__) == MADE_ON:
        assert (found != before).mean() < 1e-4
    assert (np.abs(found.astype(int) - before).max(-1) > 2).mean() < 0.005


def test_a_drones_view_for_people_shows_the_same_place():
    camera, pose = Camera(width=64, height=36), np.array(POSES[1])
    layout = sample_layout(3)
    (view,), (seen,) = (
        show_views(layout, pose[None], camera),
        take_pictures([layout], [on_drone(pose, camera)], 64, 36),
    )
    simulator = Simulator([layout], 1, config=SimulatorConfig(camera=camera))
    agents = simulator.render(torch.tensor(pose)[None], torch.tensor([0]))[0].numpy()
    assert np.abs(seen.astype(int) - agents).mean() < 0.5, "on_drone is the simulator's camera"
    assert 1 < np.abs(view.astype(int) - seen).mean() < 30, "the same place, drawn differently"


def test_rays_are_left_out_only_where_a_picture_hardly_changes(monkeypatch):
    """Away from edges, a pixel has two of its four rays."""
    layout, camera, poses = sample_layout(3), Camera(width=256, height=144), np.array(POSES)
    shares = []

    def trace_all(loop, num_items, grain, *arguments):
        run_in_parallel(loop, num_items, grain, *arguments)
        is_refining, colours, _ = arguments[-3:]
        if not is_refining:
            shares.append((colours[..., 3] > display.EDGE).mean())
            colours[..., 3] = 1.0  # as if there were an edge in every pixel

    quick = show_views(layout, poses, camera)
    monkeypatch.setattr(display, "run_in_parallel", trace_all)
    difference = np.abs(show_views(layout, poses, camera).astype(int) - quick)
    assert 0.02 < shares[0] < 0.3, "in most pixels, the first two rays agree"
    assert difference.mean() < 0.4 and (difference.max(-1) > 8).mean() < 0.002
    assert difference.max() > 0


def test_machine_code_is_known_to_be_there_once_something_was_shown(monkeypatch, tmp_path):
    show_pictures([EMPTY], [from_above(0.0, 0.0, 1.0, 8)], 8, 8)
    assert is_compiled(display._show_tiles)
    with monkeypatch.context() as patch:
        patch.setattr(display, "process_pool", None)  # nothing is left to compile in another process
        display.compile_beside()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    assert not is_compiled(display._show_tiles)


def brightness(layout, x, y, across=0.4):
    """Mean grey level of a small square of the ground from above."""
    return show_pictures([layout], [from_above(x - across / 2, y - across / 2, across, 8)], 8, 8).mean()


def test_solids_darken_the_ground_they_stand_on_also_on_the_sunny_side():
    crate = Landmark("Box", 25.0, 25.0, LANDMARK_CLASSES["Box"].radius)
    south = 25.0 - 1.18 - 0.25  # the sun stands in the south-west, so no shadow falls here
    assert brightness(Layout((crate,)), 25.0, south) < 0.85 * brightness(EMPTY, 25.0, south)
    assert brightness(Layout((crate,)), 25.0, 21.5) == pytest.approx(brightness(EMPTY, 25.0, 21.5), abs=0.5)


def test_lakes_mirror_what_stands_behind_them():
    lake = np.zeros((LAKE_CELLS, LAKE_CELLS), bool)
    lake[LAKE_CELLS * 2 // 5 : LAKE_CELLS * 3 // 5, LAKE_CELLS * 2 // 5 : LAKE_CELLS * 3 // 5] = True
    bank = Landmark("PhoneBox", 25.0, 32.5, LANDMARK_CLASSES["PhoneBox"].radius)
    camera = looking_at((25.0, 15.0, 3.0), (25.0, 28.0, 0.0), 96, 54, 0.6)
    pictures = [Layout((), lake), Layout((bank,), lake)]
    before, after = show_pictures(pictures, [camera] * 2, 96, 54).astype(int)
    plain, same = take_pictures(pictures, [camera] * 2, 96, 54).astype(int)
    water = slice(30, 50)  # rows below the far shore
    reddened = (after - before)[water, 40:56, 0]
    assert reddened.max() > 15 and np.abs(same - plain)[water, 40:56].max() == 0, "agents see no mirror"


def test_trees_and_posts_stand_beyond_the_grass():
    camera = looking_at((25.0, 25.0, 5.0), (25.0, 60.0, 4.0), 160, 90, 1.2)
    shown, seen = show_pictures([EMPTY], [camera], 160, 90)[0], take_pictures([EMPTY], [camera], 160, 90)[0]
    sky = seen[..., 2].astype(int) > seen[..., 1] + 5
    is_tree = shown[..., 1].astype(int) > shown[..., 2].astype(int) + 5
    assert 0.02 < (sky & is_tree).mean() < 0.25
    blue = (shown[..., 2].astype(int) - shown[..., 1]) > 60
    tops = blue.argmax(0)[blue.any(0)]
    assert len(np.unique(tops)) > 1, "posts are higher than the pickets"


@pytest.mark.long
@pytest.mark.parametrize("name", ["Stump", "TvTower", "LionStatue", "Jet"])
def test_gaps_to_solids_are_about_the_distances_to_their_surfaces(name):
    """Contact shadows need no more: none on the surface, and half a metre and more for points that far outside."""
    solids = LANDMARK_CLASSES[name].display_solids
    table, _ = solid_table([solids])
    for row, solid in enumerate(solids):
        for point in surface_points(solid, 8).astype(np.float32):
            assert abs(solid_gap(*point, table, row)) < 0.01
            away = point - np.float32(solid.centre)
            far = np.float32(solid.centre) + away * np.float32(1 + 3 / np.linalg.norm(away))
            assert 0.5 < solid_gap(*far, table, row) < 3.1


@pytest.mark.parametrize("name", DISPLAY)
def test_what_people_see_instead_is_as_large_and_stands_where_agents_see_it(name):
    kind = LANDMARK_CLASSES[name]
    assert horizontal_extent(kind.display_solids) == pytest.approx(horizontal_extent(kind.solids), rel=0.12)
    assert top_height(kind.display_solids) == pytest.approx(top_height(kind.solids), rel=0.12)
    assert min(surface_points(solid)[:, 2].min() for solid in kind.display_solids) < 0.15
