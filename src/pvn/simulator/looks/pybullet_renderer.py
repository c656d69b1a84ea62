"""Pictures by PyBullet's software renderer (TinyRenderer): one sample a pixel, no shadows, a white sky."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pybullet

from pvn.geometry import Camera
from pvn.simulator.looks.scene import TOWARDS_SUN, Part

NEAR, FAR = 0.05, 3000.0
"""What is nearer or farther is not drawn, metres."""


class PybulletScene:
    """A field, drawn for one camera."""

    def __init__(self, parts: Sequence[Part], camera: Camera) -> None:
        self._camera = camera
        self._world = pybullet.connect(pybullet.DIRECT)
        weakref.finalize(self, pybullet.disconnect, self._world)
        for part in parts:
            shape = pybullet.createVisualShape(
                pybullet.GEOM_MESH, vertices=part.mesh.vertices.tolist(), normals=part.mesh.normals.tolist(),
                indices=part.mesh.triangles.ravel().tolist(), rgbaColor=(*part.colour, 1.0),
                specularColor=(0.1, 0.1, 0.1), physicsClientId=self._world,
            )  # fmt: skip
            pybullet.createMultiBody(0, -1, shape, physicsClientId=self._world)
        view = 2 * math.degrees(math.atan(camera.height / 2 / camera.focal_px))
        projection = list(pybullet.computeProjectionMatrixFOV(view, camera.width / camera.height, NEAR, FAR))
        # It looks through the lower left corners of pixels, ours through their middles: half a pixel further.
        projection[8] += 1 / camera.width
        projection[9] += 1 / camera.height
        self._projection = projection

    def picture(
        self, place: npt.NDArray[np.float64], right_down_ahead: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.uint8]:
        """The picture (H, W, 3) from a place (3,), by a camera whose axes are the columns of (3, 3), field frame."""
        _, down, ahead = right_down_ahead.T
        view = pybullet.computeViewMatrix(place.tolist(), (place + ahead).tolist(), (-down).tolist())
        _, _, image, _, _ = pybullet.getCameraImage(
            self._camera.width, self._camera.height, view, self._projection,
            lightDirection=TOWARDS_SUN, lightColor=(1, 1, 1), shadow=0,
            lightAmbientCoeff=0.6, lightDiffuseCoeff=0.5, lightSpecularCoeff=0.05,
            renderer=pybullet.ER_TINY_RENDERER, flags=pybullet.ER_NO_SEGMENTATION_MASK, physicsClientId=self._world,
        )  # fmt: skip
        return np.asarray(image, np.uint8).reshape(self._camera.height, self._camera.width, 4)[..., :3]
