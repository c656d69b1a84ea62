"""LANI's environment files: `random_config_N.json` (landmarks and lakes) and `random_curve_N.json` (a route).

LANI counts in config units, 1000 across the field, x east and z north; they are converted to metres on reading. Files
are written atomically.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pvn import files
from pvn.files import replacing
from pvn.world.lakes import LAKE_CELLS
from pvn.world.landmarks import METRES_PER_CONFIG
from pvn.world.layout import Landmark, Layout

MAX_COORDINATE = 1e6
"""Largest valid coordinate, config units; anything larger is a mistake."""


def read_json(path: Path, example: str) -> Any:
    """The content of a JSON file, which may be packed by gzip; a missing or broken file is an error that names it."""
    try:
        return files.read_json(path, "the file is corrupt or truncated, copy it again")
    except (FileNotFoundError, IsADirectoryError):
        raise FileNotFoundError(f"no file {path}; expected a file such as {example}") from None


def _read_object(path: Path, example: str) -> dict[str, Any]:
    content = read_json(path, example)
    if not isinstance(content, dict):
        raise ValueError(f"{path}: got a JSON {type(content).__name__}, expected an object")
    return content


def _column(content: dict[str, Any], key: str, kind: type, length: int | None = None) -> list[Any]:
    """The list under a key, whose values have one JSON type (int counts as float, bool does not), of that length."""
    values = content.get(key)
    kinds = (int, float) if kind is float else (kind,)
    is_right = isinstance(values, list) and all(type(value) in kinds for value in values)
    if not is_right or (length is not None and len(values) != length):  # type: ignore[arg-type]
        count = "" if length is None else f"{length} "
        got = f"{len(values)} values" if isinstance(values, list) else repr(values)
        raise ValueError(f"{key}: got {got}, expected a list of {count}{kind.__name__} values; see docs/formats.md")
    if kind is float and any(abs(value) > MAX_COORDINATE for value in values):  # type: ignore[union-attr]
        raise ValueError(f"{key}: got numbers over {MAX_COORDINATE:g}, expected config units, 1000 across the field")
    return values  # type: ignore[return-value]


def _default_yaw(name: str, x: float, z: float) -> float:
    # LANI stores no headings. Any fixed rule will do: the same file must always give the same field.
    digest = hashlib.sha256(f"{name} {x:.3f} {z:.3f}".encode()).digest()
    return (int.from_bytes(digest[:4], "big") / 2**32 - 0.5) * 2 * math.pi


def read_layout(path: Path | str) -> Layout:
    """The layout in a `random_config_N.json` file.

    Landmarks with isEnabled false are left out. Headings are our extension (key "yaw", radians); in files without them
    a landmark's heading follows from its class and position alone.
    """
    path = Path(path)
    content = _read_object(path, "random_config_12.json")
    try:
        return Layout(_read_landmarks(content), _read_lake(content))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _read_landmarks(content: dict[str, Any]) -> tuple[Landmark, ...]:
    names = _column(content, "landmarkName", str)
    count = len(names)
    xs, zs = _column(content, "xPos", float, count), _column(content, "zPos", float, count)
    radii = _column(content, "radius", float, count)
    is_enabled = _column(content, "isEnabled", bool, count) if "isEnabled" in content else [True] * count
    yaws = [_default_yaw(*place) for place in zip(names, xs, zs, strict=True)]
    if "yaw" in content:
        yaws = _column(content, "yaw", float, count)
    unit = METRES_PER_CONFIG
    return tuple(
        Landmark(names[i], xs[i] * unit, zs[i] * unit, radii[i] * unit, yaws[i]) for i in range(count) if is_enabled[i]
    )


def _read_lake(content: dict[str, Any]) -> npt.NDArray[np.bool_]:
    lake = np.zeros((LAKE_CELLS, LAKE_CELLS), bool)
    for cell in _column(content, "lakeCoords", dict) if "lakeCoords" in content else []:
        x, y = cell.get("x"), cell.get("y")
        if not (type(x) is int and type(y) is int and 0 <= x < LAKE_CELLS and 0 <= y < LAKE_CELLS):
            raise ValueError(f"lakeCoords: got {cell}, expected x and y whole numbers from 0 to {LAKE_CELLS - 1}")
        lake[x, y] = True
    return lake


def _to_config(metres: float) -> float:
    """Metres as config units, rounded if the rounded value still reads back as the same length."""
    rounded = round(metres / METRES_PER_CONFIG, 9)
    return rounded if rounded * METRES_PER_CONFIG == metres else metres / METRES_PER_CONFIG


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
    with replacing(Path(path)) as partial:
        partial.write_text(json.dumps(content), encoding="utf-8")


def read_route(path: Path | str) -> npt.NDArray[np.float64]:
    """Points (P, 2) of a `random_curve_N.json` or `anno_curve_N.json` file, field frame, metres."""
    path = Path(path)
    content = _read_object(path, "random_curve_12.json")
    try:
        xs = _column(content, "x_array", float)
        zs = _column(content, "z_array", float, len(xs))
        route = np.stack([np.array(xs, float), np.array(zs, float)], axis=-1) * METRES_PER_CONFIG
        if not np.isfinite(route).all():
            raise ValueError("got infinite or NaN coordinates, expected finite numbers")
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return route


def write_route(route: npt.NDArray[np.float64], path: Path | str) -> None:
    """Write points (P, 2), field frame, metres, as a `random_curve_N.json` file."""
    xs, zs = ([_to_config(float(value)) for value in column] for column in np.asarray(route).T)
    with replacing(Path(path)) as partial:
        partial.write_text(json.dumps({"x_array": xs, "z_array": zs}), encoding="utf-8")
