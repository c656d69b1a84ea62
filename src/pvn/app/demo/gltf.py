"""Meshes as binary glTF files, which browsers draw.

The light is painted on: shaders that compute it take a browser without a graphics card seconds to compile, and most of
its time to run. Shadows on the ground are in the picture of the ground.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from pvn.simulator.meshes import Mesh
from pvn.simulator.rays import SUN_X, SUN_Y, SUN_Z
from pvn.world.solids import rotation

FLOAT, UNSIGNED_INT = 5126, 5125
ARRAY, ELEMENTS = 34962, 34963
DAYLIGHT, SUNLIGHT = 1.9, 2.0
"""Light from everywhere, and from the sun; pi is as bright as the colour itself."""


def _chunk(kind: bytes, content: bytes, padding: bytes) -> bytes:
    content += padding * (-len(content) % 4)
    return struct.pack("<I4s", len(content), kind) + content


def _linear(colours: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """Colours (V, 3) as linear light, as glTF defines them."""
    shown = colours / 255
    return np.where(shown <= 0.04045, shown / 12.92, ((shown + 0.055) / 1.055) ** 2.4)


def _light(normals: npt.NDArray[np.float32], yaw: float, is_two_sided: bool) -> npt.NDArray[np.float64]:
    """How much light falls on surfaces with these normals (V, 3), turned by yaw about the vertical; (V, 1)."""
    turned = normals @ rotation((0.0, 0.0, math.degrees(yaw))).T
    facing = turned @ np.array([SUN_X, SUN_Y, SUN_Z], float)
    # Both sides of a fence have the light of one: neither looks unlit.
    facing = np.abs(facing) / 2 if is_two_sided else facing.clip(0)
    return (DAYLIGHT + SUNLIGHT * facing[:, None]) / math.pi


def to_glb(mesh: Mesh, *, yaw: float = 0.0, is_two_sided: bool = False) -> bytes:
    """The mesh as one binary glTF file, its vertex colours lit as it stands turned by yaw, radians."""
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
        "meshes": [
            {"primitives": [{"attributes": {"POSITION": 0, "COLOR_0": 1}, "indices": 2, "material": 0}]},
        ],
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
