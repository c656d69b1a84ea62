"""Who takes a flight's pictures where it is not our renderer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pvn.geometry import Camera, rotation_body_camera, rotation_world_body
from pvn.simulator.interface import Look
from pvn.simulator.looks.scene import Part, parts_of
from pvn.world.layout import Layout

FIELDS_KEPT = 16
"""Fields that are kept ready to be drawn."""


class Scene(Protocol):
    """A field, drawn for one camera."""

    def picture(
        self, place: npt.NDArray[np.float64], right_down_ahead: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.uint8]:
        """The picture (H, W, 3) from a place (3,), by a camera whose axes are the columns of (3, 3), field frame."""


MakeScene = Callable[[Sequence[Part], Camera], Scene]


def scene_maker(look: Look) -> MakeScene:
    """What makes a renderer's scenes; a ValueError that says what to install where the renderer is missing."""
    try:
        match look:
            case "mujoco":
                from pvn.simulator.looks.mujoco_renderer import MujocoScene

                return MujocoScene
            case "pybullet":
                from pvn.simulator.looks.pybullet_renderer import PybulletScene

                return PybulletScene
            case _:
                raise ValueError(f"look: got {look!r}, expected mujoco or pybullet")
    except ImportError as error:
        raise ValueError(
            f"look: got {look}, but it does not load here ({error}); install it with: pip install {look}"
        ) from error


class Photographer:
    """Takes pictures of fields with one renderer and one camera."""

    def __init__(self, look: Look, camera: Camera) -> None:
        self.camera, self._make_scene = camera, scene_maker(look)
        self._scenes: list[tuple[Layout, Scene]] = []

    def _scene(self, layout: Layout) -> Scene:
        """The scene of a layout, which is kept; of all, those that were asked for last."""
        for place, (other, scene) in enumerate(self._scenes):
            if other is layout or other == layout:
                self._scenes.append(self._scenes.pop(place))
                return scene
        scene = self._make_scene(parts_of(layout), self.camera)
        self._scenes = [*self._scenes[1 - FIELDS_KEPT :], (layout, scene)]
        return scene

    def take(self, layouts: Sequence[Layout], pose_world: Tensor) -> Tensor:
        """Pictures (K, H, W, 3) uint8, on the host, of K layouts from drones at poses (K, 6), field frame."""
        pose = pose_world.double().cpu()
        axes = (rotation_world_body(pose[:, 3:]) @ rotation_body_camera(self.camera)).numpy()
        return torch.stack([
            torch.from_numpy(np.array(self._scene(layout).picture(place, turn)))
            for layout, place, turn in zip(layouts, pose[:, :3].numpy(), axes, strict=True)
        ])  # fmt: skip


@functools.lru_cache(maxsize=4)
def photographer_for(look: Look, camera: Camera) -> Photographer:
    """The photographer of a look, the same each time, so that a field is made once for all flights through it."""
    return Photographer(look, camera)
