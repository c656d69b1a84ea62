"""What the 3D view is made of: meshes as glTF files, lines, and the surroundings of the field; field frame throughout.

The light is painted on: shaders that compute it take a browser without a graphics card seconds to compile, and most of
its time to run. Shadows are in the picture of the ground.
"""

from __future__ import annotations

import functools
import json
import math
import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import viser
from viser.transforms import SO3

from pvn.simulator.meshes import Mesh, class_mesh, drone_mesh, fence_mesh, solid_mesh
from pvn.simulator.rays import SUN_X, SUN_Y, SUN_Z
from pvn.world.layout import FIELD_SIZE
from pvn.world.solids import ball, rotation

MIDDLE = FIELD_SIZE / 2
SKY = (184, 214, 240)
HANDLE_M = 0.8
"""Diameter of a ball by which things are turned."""
MEADOW_COLOUR, MEADOW_SIZE = (117, 127, 69), 1200.0
"""Colour and side (metres) of the plain ground around the picture of the field."""
FACING_UP = SO3.from_x_radians(math.pi).wxyz
"""Lays viser's pictures, whose y points down, on the ground with north up."""
DAYLIGHT, SUNLIGHT = 1.9, 2.0
"""Light from everywhere, and from the sun; pi is as bright as the colour itself."""
FLOAT, UNSIGNED_INT = 5126, 5125
ARRAY, ELEMENTS = 34962, 34963


def _linear(colours: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """SRGB colours (V, 3) as linear light, which glTF expects."""
    shown = colours / 255
    return np.where(shown <= 0.04045, shown / 12.92, ((shown + 0.055) / 1.055) ** 2.4)


def _light(normals: npt.NDArray[np.float32], yaw: float, is_two_sided: bool) -> npt.NDArray[np.float64]:
    """Light (V, 1) on surfaces with these normals (V, 3), turned by yaw about the vertical."""
    turned = normals @ rotation((0.0, 0.0, math.degrees(yaw))).T
    facing = turned @ np.array([SUN_X, SUN_Y, SUN_Z], float)
    # Both sides of a fence get the same light, so that neither looks unlit.
    facing = np.abs(facing) / 2 if is_two_sided else facing.clip(0)
    return (DAYLIGHT + SUNLIGHT * facing[:, None]) / math.pi


def _chunk(kind: bytes, content: bytes, padding: bytes) -> bytes:
    content += padding * (-len(content) % 4)
    return struct.pack("<I4s", len(content), kind) + content


def to_glb(mesh: Mesh, *, yaw: float = 0.0, is_two_sided: bool = False) -> bytes:
    """The mesh as a binary glTF file, its vertex colours lit as it stands turned by yaw, radians."""
    colours = _linear(mesh.colours) * _light(mesh.normals, yaw, is_two_sided)
    arrays: list[tuple[npt.NDArray[Any], int, str, int]] = [
        (mesh.vertices.astype("<f4"), FLOAT, "VEC3", ARRAY),
        (colours.astype("<f4"), FLOAT, "VEC3", ARRAY),
        (mesh.triangles.astype("<u4").ravel(), UNSIGNED_INT, "SCALAR", ELEMENTS),
    ]
    offsets = np.cumsum([0] + [array.nbytes for array, *_ in arrays]).tolist()
    accessors: list[dict[str, Any]] = [
        {"bufferView": index, "componentType": number, "count": len(array), "type": kind}
        for index, (array, number, kind, _) in enumerate(arrays)
    ]
    accessors[0] |= {"min": mesh.vertices.min(0).tolist(), "max": mesh.vertices.max(0).tolist()}
    content = {
        "asset": {"version": "2.0"},
        "extensionsUsed": ["KHR_materials_unlit"],
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0, "COLOR_0": 1}, "indices": 2, "material": 0}]}],
        "materials": [{"extensions": {"KHR_materials_unlit": {}}, "doubleSided": is_two_sided}],
        "buffers": [{"byteLength": offsets[-1]}],
        "bufferViews": [
            {"buffer": 0, "byteOffset": offset, "byteLength": array.nbytes, "target": target}
            for offset, (array, _, _, target) in zip(offsets, arrays, strict=False)
        ],
        "accessors": accessors,
    }
    chunks = _chunk(b"JSON", json.dumps(content).encode(), b" ")
    chunks += _chunk(b"BIN\0", b"".join(array.tobytes() for array, *_ in arrays), b"\0")
    return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks


@functools.lru_cache(maxsize=512)
def landmark_glb(name: str, yaw: float) -> bytes:
    """A landmark class at scale 1 as a glTF file, lit as it stands turned by yaw, radians."""
    return to_glb(class_mesh(name), yaw=yaw)


@functools.cache
def handle_glb(colour: str) -> bytes:
    """A ball by which things are turned, as a glTF file."""
    return to_glb(solid_mesh(ball((0.0, 0.0, 0.0), (HANDLE_M, HANDLE_M, HANDLE_M), colour)))


@functools.cache
def drone_glb() -> bytes:
    """The drone as a glTF file."""
    return to_glb(drone_mesh())


def lines_through(points: npt.NDArray[Any], height: float) -> npt.NDArray[np.float32]:
    """Lines (P - 1, 2, 3) through points (P, 2), at a height above the ground; none through fewer than two points."""
    raised = np.concatenate([points, np.full((len(points), 1), height)], 1).astype(np.float32)
    return np.stack([raised[:-1], raised[1:]], 1)


def add_surroundings(server: viser.ViserServer) -> None:
    """Add what all visitors see: sky, the meadow around the field, and the fences."""
    scene = server.scene
    scene.set_background_image(np.full((8, 8, 3), SKY, np.uint8))
    scene.configure_fog(120.0, 600.0, color=SKY)
    scene.world_axes.visible = False
    scene.add_image(
        "/meadow", np.full((8, 8, 3), MEADOW_COLOUR, np.uint8), MEADOW_SIZE, MEADOW_SIZE, format="png",
        cast_shadow=False, receive_shadow=False, wxyz=FACING_UP, position=(MIDDLE, MIDDLE, -0.1),
    )  # fmt: skip
    scene.configure_default_lights(False)
    scene.configure_environment_map(None)
    scene.add_glb("/fences", to_glb(fence_mesh(), is_two_sided=True), cast_shadow=False, receive_shadow=False)
