"""Lakes, grown and smoothed by LANI's rules on a grid of half-metre cells."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pvn.compiling import compiled

LAKE_CELLS = 100
COARSE_CELLS = 10
COARSE_CELL = 5.0  # metres
KEEP_AWAY = 2  # coarse cells between a lake and a landmark
SEED_CELLS = slice(2, 8)  # coarse cells, along x and y, in which a lake may begin
SEED_TRIES = 1000
_NEIGHBOURS = ((-1, 0), (1, 0), (0, -1), (0, 1))
_BOUNDS = (np.cumsum((0.3, 0.3, 0.2, 0.2)) / np.sum((0.3, 0.3, 0.2, 0.2))).tolist()
"""Where the shares of the four neighbours end. Drawn by hand: Generator.choice takes fifteen times as long."""


def _free_cells(taken: Sequence[tuple[int, int]]) -> list[list[bool]]:
    """Which coarse cells, indexed [x][y], are far enough from those with a landmark."""
    x, y = np.indices((COARSE_CELLS, COARSE_CELLS))[..., None]
    off = np.array(taken).reshape(-1, 2)
    return (np.hypot(x - off[:, 0], y - off[:, 1]) >= KEEP_AWAY).all(axis=-1).tolist()


@compiled
def _smooth_columns(grid, weight):
    rows, columns = grid.shape
    reach = len(weight) // 2
    smoothed = np.zeros((rows, columns))
    is_dry = np.ones(rows, np.bool_)  # rows that would only add zeros, which are most
    for row in range(rows):
        for column in range(columns):
            is_dry[row] &= grid[row, column] == 0.0
    for row in range(rows):
        for offset in range(-reach, reach + 1):
            share, source = weight[offset + reach], min(max(row + offset, 0), rows - 1)
            if not is_dry[source]:
                for column in range(columns):
                    smoothed[row, column] += share * grid[source, column]
    return smoothed


def smooth_blocks(coarse: npt.NDArray[np.float64], block: int, sigma: float) -> npt.NDArray[np.float64]:
    """Gaussian blur (N * block, N * block) of a grid (N, N), each of whose cells is a block of equal cells.

    The edge values are repeated outwards; sigma in cells of the blurred grid.
    """
    reach = math.ceil(4 * sigma)
    weight = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    weight /= weight.sum()
    # The columns of a block are equal before and after the first pass, so that one of them is enough.
    once = _smooth_columns(coarse.repeat(block, 0), weight).repeat(block, 1)
    return _smooth_columns(once.T.copy(), weight).T


def _grow_lake(generator: np.random.Generator, is_free: list[list[bool]]) -> npt.NDArray[np.bool_] | None:
    if not any(any(column[SEED_CELLS]) for column in is_free[SEED_CELLS]):
        generator.integers(SEED_CELLS.start, SEED_CELLS.stop, 2 * SEED_TRIES)  # as if each had been tried
        return None
    for _ in range(SEED_TRIES):
        seed_x, seed_y = (int(generator.integers(SEED_CELLS.start, SEED_CELLS.stop)) for _ in range(2))
        if is_free[seed_x][seed_y]:
            break
    else:
        return None
    cells = [(seed_x, seed_y)]
    for _ in range(int(generator.integers(5, 50))):
        x, y = cells[generator.integers(len(cells))]
        step_x, step_y = _NEIGHBOURS[bisect.bisect_right(_BOUNDS, generator.random())]
        cell = (x + step_x, y + step_y)
        is_inside = 0 <= cell[0] < COARSE_CELLS and 0 <= cell[1] < COARSE_CELLS
        if is_inside and cell not in cells and is_free[cell[0]][cell[1]]:
            cells.append(cell)
    coarse = np.zeros((COARSE_CELLS, COARSE_CELLS))
    coarse[tuple(np.array(cells).T)] = 1.0
    fine = smooth_blocks(coarse, LAKE_CELLS // COARSE_CELLS, generator.uniform(4, 10))
    return fine > fine.max() / 2


def sample_lakes(generator: np.random.Generator, landmarks: Sequence[tuple[float, float]]) -> npt.NDArray[np.bool_]:
    """Water cells (100, 100), indexed [x, y], of 1 to 3 lakes among landmarks at `landmarks` (x, y), metres.

    As in LANI, lakes grow over cells of 5 m that are at least two cells from any landmark's; smoothing may then bring
    the shore closer. A lake for which there is no room is left out.
    """
    taken = [(int(x // COARSE_CELL), int(y // COARSE_CELL)) for x, y in landmarks]
    is_free = _free_cells(taken)
    water = np.zeros((LAKE_CELLS, LAKE_CELLS), bool)
    for _ in range(int(generator.integers(1, 4))):
        lake = _grow_lake(generator, is_free)
        if lake is not None:
            water |= lake
    return water
