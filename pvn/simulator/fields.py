"""Layouts packed into the arrays that the ray tracer reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pvn.simulator.compiling import kernel
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


@cache
def _tables() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    return catalogue_tables()


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
def _fill_sun_grid(solids, first_solid, landmarks, num_landmarks, grid):
    grid[:] = 0
    # Half the diagonal of a cell: none of its points is further from its centre.
    slack = F(0.7072) * SUN_CELL
    for landmark in range(num_landmarks):
        kind = int(landmarks[landmark, CLASS])
        cos, sin, scale = landmarks[landmark, COS], landmarks[landmark, SIN], landmarks[landmark, SCALE]
        for row in range(first_solid[kind], first_solid[kind + 1]):
            x, y = solids[row, CENTRE] * scale, solids[row, CENTRE + 1] * scale
            cx = landmarks[landmark, X] + cos * x - sin * y
            cy = landmarks[landmark, Y] + sin * x + cos * y
            cz = solids[row, CENTRE + 2] * scale
            reach = solids[row, BOUND] * scale + slack
            for i in range(SUN_CELLS):
                vx = cx - (SUN_ORIGIN + (F(i) + F(0.5)) * SUN_CELL)
                for j in range(SUN_CELLS):
                    vy = cy - (SUN_ORIGIN + (F(j) + F(0.5)) * SUN_CELL)
                    along = vx * SUN_X + vy * SUN_Y + cz * SUN_Z
                    if vx * vx + vy * vy + cz * cz - along * along <= reach * reach:
                        grid[i, j] |= np.int32(1) << landmark


def _wetness(lake: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    # Two passes of a 3x3 mean round off the cells' corners; the shore, where wetness is one half, stays in place.
    wet: npt.NDArray[Any] = np.pad(lake.astype(np.float32), 2)
    for _ in range(2):
        wet = (wet[:-2] + wet[1:-1] + wet[2:]) / 3
        wet = (wet[:, :-2] + wet[:, 1:-1] + wet[:, 2:]) / 3
    return np.round(wet * 255).astype(np.uint8)


def pack(layouts: Sequence[Layout]) -> Fields:
    """N layouts as arrays on the CPU, one field each."""
    solids, first_solid, spheres = _tables()
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
    for index, layout in enumerate(layouts):
        rows = fields.landmarks[index]
        for row, landmark in zip(rows, layout.landmarks, strict=False):
            kind = LANDMARK_CLASSES[landmark.name].index
            row[X], row[Y], row[CLASS] = landmark.x, landmark.y, kind
            row[SCALE], row[SHRINK] = landmark.scale, 1 / landmark.scale
            row[COS], row[SIN] = math.cos(landmark.yaw), math.sin(landmark.yaw)
            row[MIDDLE], row[REACH] = spheres[kind] * landmark.scale
        fields.wetness[index] = _wetness(layout.lake)
        _fill_sun_grid(solids, first_solid, rows, len(layout.landmarks), fields.sun_grid[index])
    return fields


def num_solids(layouts: Sequence[Layout]) -> int:
    """Number of solids in the layout that has the most."""
    return max(sum(len(LANDMARK_CLASSES[mark.name].solids) for mark in layout.landmarks) for layout in layouts)
