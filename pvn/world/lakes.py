"""Lakes, grown and smoothed by LANI's rules on a grid of half-metre cells."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numba
import numpy as np
import numpy.typing as npt

LAKE_CELLS = 100
COARSE_CELLS = 10
COARSE_CELL = 5.0  # metres
KEEP_AWAY = 2  # coarse cells between a lake and a landmark
_NEIGHBOURS = ((-1, 0), (1, 0), (0, -1), (0, 1))


def _free_cells(taken: Sequence[tuple[int, int]]) -> list[list[bool]]:
    """Which coarse cells, indexed [x][y], are far enough from those with a landmark."""
    x, y = np.indices((COARSE_CELLS, COARSE_CELLS))[..., None]
    off = np.array(taken).reshape(-1, 2)
    return (np.hypot(x - off[:, 0], y - off[:, 1]) >= KEEP_AWAY).all(axis=-1).tolist()


@numba.njit(cache=True)
def _smooth_columns(grid, weight):
    size, reach = len(grid), len(weight) // 2
    smoothed = np.zeros((size, size))
    for row in range(size):
        for offset in range(-reach, reach + 1):
            share, source = weight[offset + reach], min(max(row + offset, 0), size - 1)
            for column in range(size):
                smoothed[row, column] += share * grid[source, column]
    return smoothed


def smooth(grid: npt.NDArray[np.float64], sigma: float) -> npt.NDArray[np.float64]:
    """Gaussian blur of a square grid (N, N), with its edge values repeated outwards; sigma in cells."""
    reach = math.ceil(4 * sigma)
    weight = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    weight /= weight.sum()
    return _smooth_columns(_smooth_columns(grid, weight).T.copy(), weight).T


def _grow_lake(generator: np.random.Generator, is_free: list[list[bool]]) -> npt.NDArray[np.bool_] | None:
    for _ in range(1000):
        seed_x, seed_y = generator.integers(2, 8, 2).tolist()
        if is_free[seed_x][seed_y]:
            break
    else:
        return None
    cells = [(seed_x, seed_y)]
    for _ in range(int(generator.integers(5, 50))):
        x, y = cells[generator.integers(len(cells))]
        step_x, step_y = _NEIGHBOURS[generator.choice(4, p=(0.3, 0.3, 0.2, 0.2))]
        cell = (x + step_x, y + step_y)
        is_inside = 0 <= cell[0] < COARSE_CELLS and 0 <= cell[1] < COARSE_CELLS
        if is_inside and cell not in cells and is_free[cell[0]][cell[1]]:
            cells.append(cell)
    coarse = np.zeros((COARSE_CELLS, COARSE_CELLS))
    coarse[tuple(np.array(cells).T)] = 1.0
    fine = smooth(np.kron(coarse, np.ones((10, 10))).astype(np.float64), generator.uniform(4, 10))
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
