"""Which landmarks a flight went through or nearly touched."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pvn.evaluation.metrics import obstacles, resample
from pvn.evaluation.path_distances import nearest_distances
from pvn.paths import Points
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Layout

BRUSH_M = 0.5
"""A drone whose centre passes this close to a landmark, metres, brushes it: half its width, and a hand."""

Touch = Literal["through", "brushed"]


def touched_landmarks(layout: Layout, path: Points) -> dict[int, Touch]:
    """The landmarks, by index, that a path (P, 2), field frame, leads through or past within BRUSH_M.

    Only landmarks that reach the drone's height count, as in the metrics.
    """
    points, touched = resample(path), dict[int, Touch]()
    for index, mark in enumerate(layout.landmarks):
        for x, y, radius in obstacles(Layout((mark,))):
            away = nearest_distances(np.array([[x, y]]), points)[0] - radius
            if away < BRUSH_M:
                touched[index] = "through" if away < 0 else "brushed"
    return touched


def touch_sentence(layout: Layout, touched: dict[int, Touch]) -> str:
    """What was touched, in words: "It flew through the tower and brushed the tree."; nothing if nothing was."""
    parts = []
    for touch, verb in (("through", "flew through"), ("brushed", "brushed")):
        names = [layout.landmarks[index].name for index, how in touched.items() if how == touch]
        nouns = [f"the {LANDMARK_CLASSES[name].noun}" for name in names]
        if nouns:
            parts.append(f"{verb} {' and '.join(nouns)}")
    return f"It {' and '.join(parts)}." if parts else ""
