"""The contact sheet of landmark classes: each from the front as a drone sees it, and from above."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from pvn.simulator.cameras import from_above, looking_at, show_pictures
from pvn.simulator.interface import SimulatorConfig
from pvn.viz.pictures import Bytes
from pvn.viz.saving import save_figure
from pvn.world.landmarks import LANDMARK_CLASSES, LANDMARK_NAMES, landmark_class
from pvn.world.layout import FIELD_SIZE, Landmark, Layout
from pvn.world.solids import bounding_sphere

MIDDLE = FIELD_SIZE / 2
FIELD_OF_VIEW = math.radians(38)
CLOSEST = 7.5
"""Least distance between camera and landmark, metres; closer, it would look down more steeply than a drone's."""


def portraits(names: Sequence[str], size_px: int = 180) -> tuple[Bytes, Bytes]:
    """Pictures (N, S, S, 3) of the named classes from the front, at a drone's height, and from above."""
    kinds, height = [landmark_class(name) for name in names], SimulatorConfig().altitude
    # Alone in the middle of the field, turned a little so that two sides show.
    layouts = [Layout((Landmark(kind.name, MIDDLE, MIDDLE, kind.radius, -math.pi / 2 + 0.4),)) for kind in kinds]
    front, above = [], []
    for kind in kinds:
        middle, reach = bounding_sphere(kind.solids)
        eye = (MIDDLE, MIDDLE - max(CLOSEST, 1.08 * reach / math.sin(FIELD_OF_VIEW / 2)), height)
        front.append(looking_at(eye, (MIDDLE, MIDDLE, middle), size_px, size_px, FIELD_OF_VIEW))
        across = 1.3 * kind.radius
        above.append(from_above(MIDDLE - across / 2, MIDDLE - across / 2, across, size_px))
    return show_pictures(layouts, front, size_px, size_px), show_pictures(layouts, above, size_px, size_px)


def draw_catalogue(path: Path, names: Sequence[str] = LANDMARK_NAMES, columns: int = 7) -> None:
    """Write the contact sheet of the named classes."""
    front, above = portraits(names)
    columns = min(columns, len(names))
    rows = -(-len(names) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(2.7 * columns, 1.62 * rows), squeeze=False, layout="constrained"
    )
    for axis in axes.flat:
        axis.set_axis_off()
    for axis, name, left, right in zip(axes.flat, names, front, above, strict=False):
        seam = np.full((left.shape[0], 4, 3), 255, np.uint8)
        axis.imshow(np.concatenate([left, seam, right], axis=1), interpolation="lanczos")
        axis.set_title(f"{name}  ({LANDMARK_CLASSES[name].noun})", fontsize=8, pad=3)
    save_figure(figure, path)
