"""Meshes as binary glTF files, which browsers draw."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from pvn.viz.meshes import Mesh

FLOAT, UNSIGNED_BYTE, UNSIGNED_INT = 5126, 5121, 5125
ARRAY, ELEMENTS = 34962, 34963


def _chunk(kind: bytes, content: bytes, padding: bytes) -> bytes:
    content += padding * (-len(content) % 4)
    return struct.pack("<I4s", len(content), kind) + content


def to_glb(mesh: Mesh, is_two_sided: bool = False) -> bytes:
    """The mesh as one binary glTF file with vertex colours and a matt material."""
    # glTF defines vertex colours as linear light.
    shown = mesh.colours / 255
    linear = np.where(shown <= 0.04045, shown / 12.92, ((shown + 0.055) / 1.055) ** 2.4)
    colours = np.concatenate([linear, np.ones((len(linear), 1))], 1).clip(0, 1)
    arrays: list[tuple[npt.NDArray[Any], int, str, int]] = [
        (mesh.vertices.astype("<f4"), FLOAT, "VEC3", ARRAY),
        (mesh.normals.astype("<f4"), FLOAT, "VEC3", ARRAY),
        (np.round(colours * 255).astype(np.uint8), UNSIGNED_BYTE, "VEC4", ARRAY),
        (mesh.triangles.astype("<u4").ravel(), UNSIGNED_INT, "SCALAR", ELEMENTS),
    ]
    offsets = np.cumsum([0] + [array.nbytes for array, *_ in arrays]).tolist()
    accessors: list[dict[str, Any]] = [
        {"bufferView": index, "componentType": number, "count": len(array), "type": kind}
        for index, (array, number, kind, _) in enumerate(arrays)
    ]
    accessors[0] |= {"min": mesh.vertices.min(0).tolist(), "max": mesh.vertices.max(0).tolist()}
    accessors[2]["normalized"] = True
    content = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [
            {
                "primitives": [
                    {"attributes": {"POSITION": 0, "NORMAL": 1, "COLOR_0": 2}, "indices": 3, "material": 0},
                ]
            }
        ],
        "materials": [
            {"pbrMetallicRoughness": {"metallicFactor": 0.0, "roughnessFactor": 1.0}, "doubleSided": is_two_sided}
        ],
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
