"""Pictures by MuJoCo's offscreen renderer: four samples a pixel, shadows of the sun, a gradient for a sky."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pvn.geometry import Camera
from pvn.simulator.looks.scene import HORIZON, SKY_ABOVE, TOWARDS_SUN, Part

# Without a display; MuJoCo reads it when it is imported.
os.environ.setdefault("MUJOCO_GL", "egl" if sys.platform == "linux" else "")

import mujoco

NEAR, FAR = 0.05, 3000.0
"""What is nearer or farther is not drawn, metres."""
SHADOW_REACH = 40.0
"""Things cast shadows up to this far from the line from the sun to the field's middle, metres."""
MIDDLE = 25.0, 25.0, 0.0
"""The field's middle, metres."""


class MujocoScene:
    """A field, drawn for one camera."""

    def __init__(self, parts: Sequence[Part], camera: Camera) -> None:
        spec = self._sky_and_sun(camera)
        for number, part in enumerate(parts):
            spec.add_mesh(
                name=f"part {number}", uservert=part.mesh.vertices.ravel(), usernormal=part.mesh.normals.ravel(),
                userface=part.mesh.triangles.astype(np.int32).ravel(),
                inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL,  # the others refuse the ground, which has no volume
            )  # fmt: skip
            spec.worldbody.add_geom(
                type=mujoco.mjtGeom.mjGEOM_MESH, meshname=f"part {number}", rgba=(*part.colour, 1.0),
                contype=0, conaffinity=0,
            )  # fmt: skip
        model = spec.compile()
        # These distances are multiples of the extent.
        model.stat.extent, model.vis.map.znear, model.vis.map.zfar = 1.0, NEAR, FAR
        model.vis.map.shadowclip = SHADOW_REACH
        self._data = mujoco.MjData(model)
        mujoco.mj_forward(model, self._data)
        self._renderer = mujoco.Renderer(model, camera.height, camera.width)

    @staticmethod
    def _sky_and_sun(camera: Camera) -> Any:
        spec = mujoco.MjSpec()
        spec.visual.headlight.ambient, spec.visual.headlight.diffuse = (0.6,) * 3, (0.0,) * 3
        spec.visual.headlight.specular = (0.0,) * 3
        spec.visual.quality.shadowsize = 1024
        spec.add_texture(
            name="sky", type=mujoco.mjtTexture.mjTEXTURE_SKYBOX, builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
            rgb1=SKY_ABOVE, rgb2=HORIZON, width=256, height=1536,
        )  # fmt: skip
        spec.worldbody.add_light(
            type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL, dir=[-part for part in TOWARDS_SUN], castshadow=True,
            pos=[place + 60.0 * part for place, part in zip(MIDDLE, TOWARDS_SUN, strict=True)],
            diffuse=(0.5,) * 3, specular=(0.1,) * 3, ambient=(0.0,) * 3,
        )  # fmt: skip
        view = 2 * math.degrees(math.atan(camera.height / 2 / camera.focal_px))
        spec.worldbody.add_camera(name="drone", fovy=view)
        return spec

    def picture(
        self, place: npt.NDArray[np.float64], right_down_ahead: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.uint8]:
        """The picture (H, W, 3) from a place (3,), by a camera whose axes are the columns of (3, 3), field frame."""
        right, down, ahead = right_down_ahead.T
        self._data.cam_xpos[0] = place
        self._data.cam_xmat[0] = np.stack([right, -down, -ahead], -1).ravel()  # MuJoCo's cameras look along -z, y is up
        self._renderer.update_scene(self._data, camera="drone")
        return self._renderer.render()
