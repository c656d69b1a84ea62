"""When the steps of a reproduction ran, and how long they took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.patches import Patch

from pvn.viz import palette
from pvn.viz.saving import save_figure

SHORTEST_OVERLAP_S = 0.5
"""Seconds from which two steps count as side by side; clocks differ by less."""
KINDS = {"corpus": "corpus", "train": "training", "evaluate": "flights", "figures": "figures"}
"""What a step is, by the first word of its name."""
NARROWEST_LABEL = 0.012
"""A bar is wide enough for a letter of its name if it is this share of the picture wide."""


@dataclass(frozen=True)
class StepTime:
    """How long a step of a reproduction took, all attempts together, and where it last ran."""

    seconds: float
    machine: str
    spans: Sequence[Sequence[float]] = ()
    """Beginning and end of each attempt, seconds since 1970; steps of earlier versions have none."""


def elapsed(times: Iterable[StepTime]) -> float | None:
    """Seconds in which at least one step ran; None if no two ran side by side, or if some do not say when they ran."""
    steps = list(times)
    seconds, latest, is_one_by_one = 0.0, 0.0, True
    for began, ended in sorted((began, ended) for step in steps for began, ended in step.spans):
        is_one_by_one &= began > latest - SHORTEST_OVERLAP_S
        seconds += max(ended - max(began, latest), 0.0)
        latest = max(latest, ended)
    return None if is_one_by_one or not all(step.spans for step in steps) else seconds


def in_lanes(times: Mapping[str, StepTime]) -> list[list[tuple[str, float, float]]]:
    """Steps with beginning and end, seconds after the first one began, in as few lanes as ran side by side.

    Time in which nothing ran, as between a kill and the next attempt, is left out.
    """
    spans = sorted((began, ended, name) for name, step in times.items() for began, ended in step.spans)
    lanes: list[list[tuple[str, float, float]]] = []
    idle, latest = spans[0][0], spans[0][0]
    for began, ended, name in spans:
        idle += max(began - latest, 0.0)
        latest = max(latest, ended)
        bar = name, began - idle, ended - idle
        free = next((lane for lane in lanes if lane[-1][2] <= bar[1] + SHORTEST_OVERLAP_S), None)
        if free is None:
            lanes.append([bar])
        else:
            free.append(bar)
    return lanes


def draw_schedule(path: Path, times: Mapping[str, StepTime]) -> None:
    """Write a picture of which steps ran side by side: a lane for each, with the names of those that took long."""
    lanes = in_lanes(times)
    colours = dict(zip(KINDS, palette.SYSTEM_COLOURS, strict=False))
    end = max(ended for lane in lanes for _, _, ended in lane)
    figure, axis = plt.subplots(figsize=(11, 0.9 + 0.55 * len(lanes)), layout="constrained")
    for height, lane in enumerate(lanes):
        for name, began, ended in lane:
            kind, _, what = name.partition(" ")
            axis.barh(
                height, (ended - began) / 60, left=began / 60, height=0.8, color=colours.get(kind, palette.NOTE),
                edgecolor="white", linewidth=0.5,
            )  # fmt: skip
            label = what or name
            if ended - began >= NARROWEST_LABEL * len(label) * end:
                axis.text((began + ended) / 120, height, label, ha="center", va="center", color="white", fontsize=9)
    axis.invert_yaxis()
    axis.set_yticks([])
    axis.set_xlim(0, end / 60)
    axis.set_xlabel("minutes")
    axis.spines[["top", "right", "left"]].set_visible(False)
    seen = {name.partition(" ")[0] for lane in lanes for name, _, _ in lane}
    keys = [Patch(color=colours[kind], label=what) for kind, what in KINDS.items() if kind in seen]
    figure.legend(handles=keys, loc="outside upper left", ncols=len(keys), frameon=False)
    save_figure(figure, path)
