"""Pictures of flights by other renderers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pvn.geometry import Camera, rotation_body_camera, rotation_world_body
from pvn.simulator.interface import Look
from pvn.simulator.looks.scene import Part, parts_of
from pvn.world.layout import Layout


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


@functools.lru_cache(maxsize=16)
def _scene(look: Look, layout: Layout, camera: Camera) -> Scene:
    return scene_maker(look)(parts_of(layout), camera)


@dataclass(frozen=True)
class OtherRenderer:
    """Takes pictures of fields with another renderer."""

    look: Look

    def take(self, layouts: Sequence[Layout], pose_world: Tensor, camera: Camera) -> Tensor:
        """Pictures (K, H, W, 3) uint8, on the host, of K layouts from drones at poses (K, 6), field frame."""
        pose = pose_world.double().cpu()
        axes = (rotation_world_body(pose[:, 3:]) @ rotation_body_camera(camera)).numpy()
        return torch.stack([
            torch.from_numpy(np.array(_scene(self.look, layout, camera).picture(place, turn)))
            for layout, place, turn in zip(layouts, pose[:, :3].numpy(), axes, strict=True)
        ])  # fmt: skip
