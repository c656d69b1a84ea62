"""The shapes of all landmark classes: how far they reach, and their solids as tables."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.solids import bounding_sphere, horizontal_extent, solid_table


@functools.cache
def solid_extent(name: str) -> float:
    """How far a class's solids reach from its vertical axis, metres, at scale 1."""
    return horizontal_extent(LANDMARK_CLASSES[name].solids)


@functools.cache
def catalogue_tables() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """For C classes: all solids (rows, columns), each class's first row (C + 1,), bounding spheres (C, 2)."""
    models = [kind.solids for kind in LANDMARK_CLASSES.values()]
    solids, first = solid_table(models)
    spheres = np.array([bounding_sphere(model) for model in models], np.float32)
    return solids, first, spheres
