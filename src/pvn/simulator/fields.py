"""Layouts packed into the arrays that the ray tracer reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pvn.compiling import kernel, run_in_parallel
from pvn.simulator.rays import (
    CLASS,
    COS,
    MIDDLE,
    NOISE_CELLS,
    NUM_LANDMARK_COLUMNS,
    REACH,
    SCALE,
    SHRINK,
    SIN,
    SUN_CELL,
    SUN_CELLS,
    SUN_ORIGIN,
    SUN_X,
    SUN_Y,
    SUN_Z,
    F,
    Fields,
    X,
    Y,
)
from pvn.world.lakes import LAKE_CELLS
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import MAX_LANDMARKS, Layout
from pvn.world.shapes import catalogue_tables
from pvn.world.solids import BOUND, CENTRE

FIELDS_AT_ONCE = 1024
"""Fields whose lakes are made wet together; more would only take more memory."""


@cache
def textures() -> npt.NDArray[np.uint8]:
    """Tileable noise (2, NOISE_CELLS, NOISE_CELLS): white, and smooth over about seven cells.

    Made from integers alone, so that all machines agree to the bit.
    """
    cell: npt.NDArray[Any] = np.arange(NOISE_CELLS * NOISE_CELLS, dtype=np.uint32)
    with np.errstate(over="ignore"):
        cell = (cell ^ (cell >> 16)) * np.uint32(0x7FEB352D)
        cell = (cell ^ (cell >> 15)) * np.uint32(0x846CA68B)
    white = ((cell ^ (cell >> 16)) >> 24).astype(np.int64).reshape(NOISE_CELLS, NOISE_CELLS)
    smooth = white
    for axis in (0, 1, 0, 1):  # a box of seven cells, twice along each axis
        smooth = np.sum([np.roll(smooth, shift, axis) for shift in range(-3, 4)], axis=0)
    low, high = smooth.min(), smooth.max()
    return np.stack([white, (smooth - low) * 255 // (high - low)]).astype(np.uint8)


@kernel
def _fill_sun_grids(first, last, solids, first_solid, landmarks, num_landmarks, grids):
    # Half the diagonal of a cell: none of its points is further from its centre.
    slack = F(0.7072) * SUN_CELL
    for field in range(first, last):
        for landmark in range(num_landmarks[field]):
            row = landmarks[field, landmark]
            kind, cos, sin, scale = int(row[CLASS]), row[COS], row[SIN], row[SCALE]
            for solid in range(first_solid[kind], first_solid[kind + 1]):
                x, y = solids[solid, CENTRE] * scale, solids[solid, CENTRE + 1] * scale
                cx = row[X] + cos * x - sin * y
                cy = row[Y] + sin * x + cos * y
                cz = solids[solid, CENTRE + 2] * scale
                reach = solids[solid, BOUND] * scale + slack
                for i in range(SUN_CELLS):
                    vx = cx - (SUN_ORIGIN + (F(i) + F(0.5)) * SUN_CELL)
                    for j in range(SUN_CELLS):
                        vy = cy - (SUN_ORIGIN + (F(j) + F(0.5)) * SUN_CELL)
                        along = vx * SUN_X + vy * SUN_Y + cz * SUN_Z
                        if vx * vx + vy * vy + cz * cz - along * along <= reach * reach:
                            grids[field, i, j] |= np.int32(1) << landmark


def wetness_of(lakes: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    """How wet (N, cells, cells) the ground is, from lakes (N, cells, cells)."""
    # Two passes of a 3x3 mean round off the cells' corners; the shore, where wetness is one half, stays in place.
    # As sums of bytes, of which many are added at once: dry is 0, wet 3 ** 4.
    wet: npt.NDArray[np.uint8] = np.pad(lakes.astype(np.uint8), ((0, 0), (2, 2), (2, 2)))
    for _ in range(2):
        wet = wet[:, :-2] + wet[:, 1:-1] + wet[:, 2:]
        wet = wet[:, :, :-2] + wet[:, :, 1:-1] + wet[:, :, 2:]
    return np.round(np.arange(3**4 + 1) / 3**4 * 255).astype(np.uint8)[wet]


def pack(layouts: Sequence[Layout]) -> Fields:
    """N layouts as arrays on the CPU, one field each."""
    solids, first_solid, spheres = catalogue_tables()
    count = len(layouts)
    fields = Fields(
        solids=solids,
        first_solid=first_solid,
        landmarks=np.zeros((count, MAX_LANDMARKS, NUM_LANDMARK_COLUMNS), np.float32),
        num_landmarks=np.array([len(layout.landmarks) for layout in layouts], np.int32),
        wetness=np.zeros((count, LAKE_CELLS, LAKE_CELLS), np.uint8),
        sun_grid=np.zeros((count, SUN_CELLS, SUN_CELLS), np.int32),
        noise=textures(),
    )
    # Over all fields at once: a training corpus has tens of thousands.
    marks = [mark for layout in layouts for mark in layout.landmarks]
    where = np.arange(MAX_LANDMARKS) < fields.num_landmarks[:, None]
    kinds = np.array([LANDMARK_CLASSES[mark.name].index for mark in marks], np.int64)
    scales = np.array([mark.scale for mark in marks])
    columns = {
        X: [mark.x for mark in marks],
        Y: [mark.y for mark in marks],
        CLASS: kinds,
        SCALE: scales,
        SHRINK: 1 / scales,
        COS: [math.cos(mark.yaw) for mark in marks],
        SIN: [math.sin(mark.yaw) for mark in marks],
    }
    for column, values in columns.items():
        fields.landmarks[where, column] = values
    fields.landmarks[where, MIDDLE], fields.landmarks[where, REACH] = (
        spheres[kinds] * scales.astype(np.float32)[:, None]
    ).T
    for first in range(0, count, FIELDS_AT_ONCE):
        some = slice(first, first + FIELDS_AT_ONCE)
        fields.wetness[some] = wetness_of(np.stack([layout.lake for layout in layouts[some]]))
    run_in_parallel(
        _fill_sun_grids, count, 16, solids, first_solid, fields.landmarks, fields.num_landmarks, fields.sun_grid
    )
    return fields


def num_solids(layouts: Sequence[Layout]) -> int:
    """Number of solids in the layout that has the most."""
    first = catalogue_tables()[1]
    counts = {name: int(first[kind.index + 1] - first[kind.index]) for name, kind in LANDMARK_CLASSES.items()}
    return max(sum(counts[mark.name] for mark in layout.landmarks) for layout in layouts)
