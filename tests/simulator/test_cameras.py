"""Pictures by cameras: those that agents learn from do not change, and people see the same places."""

from pathlib import Path

import llvmlite.binding
import numba
import numpy as np
import pytest
import torch

from pvn.geometry import Camera
from pvn.simulator.cameras import looking_at, on_drone, show_pictures, take_pictures
from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.simulator import Simulator
from pvn.world.layout import sample_layout

POSES = [[10.0, 10.0, 5.0, 0.0, 0.0, 0.8], [40.0, 30.0, 5.0, 0.05, 0.1, 2.6], [25.0, 45.0, 5.0, -0.1, 0.0, -1.9]]
TRAINING_PICTURES = Path(__file__).parent / "training_pictures.npz"
MADE_ON = ("neoverse-n1", "0.68.1")
"""The processor and the version of Numba that made the stored pictures; others round differently in the last bit."""


@pytest.mark.parametrize("kind", ["fast", "full", "above"])
def test_the_pictures_that_agents_learn_from_do_not_change(kind):
    """On the machine that made the stored ones, only rounding may differ; elsewhere, only pixels at edges."""
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


def test_a_camera_on_a_drone_sees_what_the_simulator_sees_there():
    camera, pose, layout = Camera(width=64, height=36), np.array(POSES[1]), sample_layout(3)
    (taken,) = take_pictures([layout], [on_drone(pose, camera)], 64, 36)
    simulator = Simulator([layout], 1, config=SimulatorConfig(camera=camera))
    (rendered,) = simulator.render(torch.tensor(pose)[None], torch.tensor([0])).numpy()
    assert np.abs(taken.astype(int) - rendered).mean() < 0.5


def test_a_picture_for_people_is_the_agents_picture_in_twice_the_size_made_smaller():
    """But for the grass, which is softer."""
    mark, layout = sample_layout(3).landmarks[0], sample_layout(3)
    position, target = (mark.x - 5.0, mark.y - 5.0, 4.0), (mark.x, mark.y, 1.5)
    (shown,) = show_pictures([layout], [looking_at(position, target, 64, 36)], 64, 36)
    (large,) = take_pictures([layout], [looking_at(position, target, 128, 72)], 128, 72)
    small = large.reshape(36, 2, 64, 2, 3).mean((1, 3))
    difference = np.abs(shown - small).max(-1)
    is_grass = (small[..., 1] > small[..., 0] + 20) & (small[..., 1] > small[..., 2] + 20)
    assert difference[~is_grass].mean() < 1.0 < difference[is_grass].mean() < 15.0
    assert shown[is_grass].std() < small[is_grass].std()
