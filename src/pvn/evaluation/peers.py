"""The same field in two widely used simulators, to compare frame rates in one run.

Solids become the peers' own primitives; neither has a frustum, and PyBullet has no ellipsoid, so those become a
cylinder and a sphere of about the same bulk. Grass is a plane of one colour; fences, lakes and shadows are left out.
MuJoCo is measured as it comes (four samples a pixel) and with one sample a pixel, which is what `fast` draws.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Landmark, Layout
from pvn.world.solids import Solid, colour_rgb, rotation

WIDTH, HEIGHT, VERTICAL_VIEW = 128, 72, 58.7
Render = Callable[[tuple[float, float, float], float], Any]
"""Takes a position and a yaw, renders one first-person frame there."""


def _placed(layout: Layout) -> Iterator[tuple[Solid, Landmark, np.ndarray, np.ndarray]]:
    """Every solid of the layout with its centre (3,) and rotation (3, 3), field frame."""
    for mark in layout.landmarks:
        turn = rotation((0.0, 0.0, math.degrees(mark.yaw)))
        for solid in LANDMARK_CLASSES[mark.name].solids:
            centre = turn @ np.array(solid.centre) * mark.scale + np.array([mark.x, mark.y, 0.0])
            yield solid, mark, centre, turn @ rotation(solid.turn)


def _view(yaw: float) -> tuple[np.ndarray, np.ndarray]:
    """Forward and up (3,) of the first-person camera, 15 degrees nose-down, field frame."""
    tilt = math.radians(15)
    ahead = np.array([math.cos(yaw) * math.cos(tilt), math.sin(yaw) * math.cos(tilt), -math.sin(tilt)])
    up = np.array([math.cos(yaw) * math.sin(tilt), math.sin(yaw) * math.sin(tilt), math.cos(tilt)])
    return ahead, up


def _quaternion(matrix: np.ndarray) -> list[float]:
    """w, x, y, z of a rotation matrix."""
    w = math.sqrt(max(0.0, 1 + matrix.trace())) / 2
    values = [math.sqrt(max(0.0, 1 + 2 * matrix[i, i] - matrix.trace())) / 2 for i in range(3)]
    signs = (matrix[2, 1] - matrix[1, 2], matrix[0, 2] - matrix[2, 0], matrix[1, 0] - matrix[0, 1])
    return [w, *(math.copysign(value, sign) for value, sign in zip(values, signs, strict=True))]


def mujoco_renderer(layout: Layout, num_samples: int = 4) -> Render:
    """MuJoCo's offscreen renderer, without shadows, with its default of four samples a pixel."""
    os.environ.setdefault("MUJOCO_GL", "egl" if sys.platform == "linux" else "")
    import mujoco

    geoms = []
    for solid, mark, centre, turn in _placed(layout):
        a, b, c = (half * mark.scale for half in solid.half)
        kind, size = {
            "box": ("box", (a, b, c)),
            "ellipsoid": ("ellipsoid", (a, b, c)),
            "frustum": ("cylinder", ((a + b) / 4 * (1 + solid.taper), c)),
        }[solid.kind]
        numbers = {
            "size": size, "pos": centre, "quat": _quaternion(turn), "rgba": (*colour_rgb(solid.colour), 1),
        }  # fmt: skip
        fields = " ".join(f'{name}="{" ".join(f"{v:.5g}" for v in value)}"' for name, value in numbers.items())
        geoms.append(f'<geom type="{kind}" {fields}/>')
    quality = f'<quality shadowsize="0" offsamples="{0 if num_samples == 1 else num_samples}"/>'
    model = mujoco.MjModel.from_xml_string(
        f"<mujoco><visual>{quality}</visual><worldbody>"
        '<light directional="true" castshadow="false" dir="0.4 0.5 -0.8"/>'
        '<geom type="plane" pos="25 25 0" size="60 60 1" rgba="0.3 0.5 0.2 1"/>'
        f"{''.join(geoms)}</worldbody></mujoco>"
    )
    model.vis.global_.fovy = VERTICAL_VIEW
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    renderer = mujoco.Renderer(model, HEIGHT, WIDTH)
    camera = mujoco.MjvCamera()

    def render(position: tuple[float, float, float], yaw: float) -> Any:
        ahead, _ = _view(yaw)
        camera.lookat[:] = np.array(position) + ahead
        camera.distance, camera.azimuth, camera.elevation = 1.0, math.degrees(yaw), -15.0
        renderer.update_scene(data, camera)
        return renderer.render()

    return render


def pybullet_renderer(layout: Layout) -> Render:
    """PyBullet's software renderer (TinyRenderer), without shadows."""
    import pybullet

    world = pybullet.connect(pybullet.DIRECT)
    plane = pybullet.createVisualShape(
        pybullet.GEOM_BOX, halfExtents=(60, 60, 0.01), rgbaColor=(0.3, 0.5, 0.2, 1), physicsClientId=world
    )
    pybullet.createMultiBody(0, -1, plane, (25, 25, 0), physicsClientId=world)
    for solid, mark, centre, turn in _placed(layout):
        a, b, c = (half * mark.scale for half in solid.half)
        colour = (*colour_rgb(solid.colour), 1)
        options: dict[str, Any] = {
            "box": {"shapeType": pybullet.GEOM_BOX, "halfExtents": (a, b, c)},
            "ellipsoid": {"shapeType": pybullet.GEOM_SPHERE, "radius": (a * b * c) ** (1 / 3)},
            "frustum": {
                "shapeType": pybullet.GEOM_CYLINDER, "radius": (a + b) / 4 * (1 + solid.taper), "length": 2 * c,
            },
        }[solid.kind]  # fmt: skip
        shape = pybullet.createVisualShape(rgbaColor=colour, physicsClientId=world, **options)
        w, x, y, z = _quaternion(turn)
        pybullet.createMultiBody(0, -1, shape, centre.tolist(), (x, y, z, w), physicsClientId=world)
    projection = pybullet.computeProjectionMatrixFOV(VERTICAL_VIEW, WIDTH / HEIGHT, 0.1, 200)

    def render(position: tuple[float, float, float], yaw: float) -> Any:
        ahead, up = _view(yaw)
        view = pybullet.computeViewMatrix(position, (np.array(position) + ahead).tolist(), up.tolist())
        return pybullet.getCameraImage(
            WIDTH, HEIGHT, view, projection, shadow=0,
            renderer=pybullet.ER_TINY_RENDERER, flags=pybullet.ER_NO_SEGMENTATION_MASK, physicsClientId=world,
        )[2]  # fmt: skip

    return render


PEERS: dict[str, tuple[str, Callable[[Layout], Render]]] = {
    "mujoco": ("mujoco", mujoco_renderer),
    "mujoco_one_sample": ("mujoco", lambda layout: mujoco_renderer(layout, 1)),
    "pybullet": ("pybullet", pybullet_renderer),
}
"""By name in the report: the module it needs, and what makes its renderer."""


def working_peers(layout: Layout) -> tuple[dict[str, Render], dict[str, str]]:
    """Renderers of the layout by the peers that work here, and the errors of those that are installed but fail."""
    renderers, failures = {}, {}
    for name, (module, make) in PEERS.items():
        if importlib.util.find_spec(module) is None:
            continue
        try:
            with silenced():
                renderers[name] = make(layout)
                renderers[name]((25.0, 25.0, 5.0), 0.0)
        except Exception as error:  # a peer that cannot render here must not prevent our own measurements
            failures[name] = f"{type(error).__name__}: {error}"
    return renderers, failures


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Keep what C libraries write to standard output, such as PyBullet's banner, out of our JSON."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def peer_frames_per_second(
    render: Render, poses: list[tuple[tuple[float, float, float], float]], seconds: float
) -> float:
    """Mean over the poses, cycled through for at least `seconds`."""
    count, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for position, yaw in poses:
            render(position, yaw)
        count += len(poses)
    return count / (time.perf_counter() - begin)
