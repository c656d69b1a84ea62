"""LANI's environment files: `random_config_N.json` (landmarks and lakes) and `random_curve_N.json` (a route).

LANI counts in config units, 1000 across the field, x east and z north; here they are metres at once. Files are
written whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pvn.world.lakes import LAKE_CELLS
from pvn.world.landmarks import METRES_PER_CONFIG
from pvn.world.layout import Landmark, Layout


def write_atomically(path: Path, text: str) -> None:
    """Write a text file so that a reader, or a kill, never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _read_object(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(
            f"no file {path}; expected a LANI environment file such as random_config_12.json"
        ) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not valid JSON ({error}); the file is corrupt or truncated, copy it again") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: got a JSON {type(content).__name__}, expected an object")
    return content


def _column(content: dict[str, Any], key: str, length: int, kind: type, path: Path) -> list[Any]:
    values = content.get(key)
    is_right = isinstance(values, list) and all(
        isinstance(value, (int, float) if kind is float else kind) and (kind is bool or not isinstance(value, bool))
        for value in values
    )
    if not is_right or (length >= 0 and len(values) != length):  # type: ignore[arg-type]
        expected = f"a list of {length} {kind.__name__} values" if length >= 0 else f"a list of {kind.__name__} values"
        got = f"{len(values)} values" if isinstance(values, list) else repr(values)
        raise ValueError(f"{path}: {key}: got {got}, expected {expected}; see docs/formats.md")
    return values  # type: ignore[return-value]


def _default_yaw(name: str, x: float, z: float) -> float:
    # LANI stores no headings; any fixed rule will do, as long as a file always gives the same field.
    digest = hashlib.sha256(f"{name} {x:.3f} {z:.3f}".encode()).digest()
    return (int.from_bytes(digest[:4], "big") / 2**32 - 0.5) * 2 * math.pi


def read_layout(path: Path | str) -> Layout:
    """The layout in a `random_config_N.json` file.

    Landmarks with isEnabled false are left out. Headings are ours (key "yaw", radians); files without it get
    headings that depend on each landmark's class and place alone.
    """
    path = Path(path)
    content = _read_object(path)
    names = _column(content, "landmarkName", -1, str, path)
    count = len(names)
    xs, zs = _column(content, "xPos", count, float, path), _column(content, "zPos", count, float, path)
    radii = _column(content, "radius", count, float, path)
    is_enabled = [True] * count
    if "isEnabled" in content:
        is_enabled = _column(content, "isEnabled", count, bool, path)
    yaws = [_default_yaw(*place) for place in zip(names, xs, zs, strict=True)]
    if "yaw" in content:
        yaws = _column(content, "yaw", count, float, path)
    unit = METRES_PER_CONFIG
    try:
        return Layout(
            tuple(
                Landmark(names[i], xs[i] * unit, zs[i] * unit, radii[i] * unit, yaws[i])
                for i in range(count)
                if is_enabled[i]
            ),
            _read_lake(content, path),
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _read_lake(content: dict[str, Any], path: Path) -> npt.NDArray[np.bool_]:
    lake = np.zeros((LAKE_CELLS, LAKE_CELLS), bool)
    for cell in _column(content, "lakeCoords", -1, dict, path) if "lakeCoords" in content else []:
        x, y = cell.get("x"), cell.get("y")
        if not (isinstance(x, int) and isinstance(y, int) and 0 <= x < LAKE_CELLS and 0 <= y < LAKE_CELLS):
            raise ValueError(f"lakeCoords: got {cell}, expected x and y whole numbers from 0 to {LAKE_CELLS - 1}")
        lake[x, y] = True
    return lake


def _to_config(metres: float) -> float:
    # Nine digits undo the rounding of the division: what came from whole units goes back to them.
    return round(metres / METRES_PER_CONFIG, 9)


def write_layout(layout: Layout, path: Path | str) -> None:
    """Write a `random_config_N.json` file that `read_layout`, drif and CIFF read; "yaw" is an extra key."""
    marks = layout.landmarks
    content = {
        "landmarkName": [mark.name for mark in marks],
        "radius": [_to_config(mark.radius) for mark in marks],
        "xPos": [_to_config(mark.x) for mark in marks],
        "zPos": [_to_config(mark.y) for mark in marks],
        "yaw": [mark.yaw for mark in marks],
        "isEnabled": [True] * len(marks),
        "lakeCoords": [{"x": int(x), "y": int(y)} for x, y in np.argwhere(layout.lake)],
    }
    write_atomically(Path(path), json.dumps(content))


def read_route(path: Path | str) -> npt.NDArray[np.float64]:
    """Points (P, 2) of a `random_curve_N.json` or `anno_curve_N.json` file, field frame, metres."""
    path = Path(path)
    content = _read_object(path)
    xs = _column(content, "x_array", -1, float, path)
    zs = _column(content, "z_array", len(xs), float, path)
    route = np.stack([np.array(xs, float), np.array(zs, float)], axis=-1) * METRES_PER_CONFIG
    if not np.isfinite(route).all():
        raise ValueError(f"{path}: got infinite or NaN coordinates, expected finite numbers")
    return route


def write_route(route: npt.NDArray[np.float64], path: Path | str) -> None:
    """Write points (P, 2), field frame, metres, as a `random_curve_N.json` file."""
    config = np.asarray(route) / METRES_PER_CONFIG
    write_atomically(Path(path), json.dumps({"x_array": config[:, 0].tolist(), "z_array": config[:, 1].tolist()}))
