"""Pictures of fields and flights."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.patheffects as effects
import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from torch import Tensor

from pvn.rollout.flight import FlightLog, fly, simulator_for
from pvn.rollout.policy import Policy
from pvn.simulator.cameras import from_above, take_pictures
from pvn.simulator.simulator import Observation, SimulatorConfig
from pvn.viz.saving import save_figure
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import FIELD_SIZE, Layout
from pvn.world.task import Task

MARGIN = 1.5
STEP_SECONDS = SimulatorConfig().step_seconds
EDGE = 0.4
OUTLINE = [effects.withStroke(linewidth=1.8 + EDGE, foreground="black")]
FLOWN, SHOWN, START, GOAL = "#56b4e9", "white", "#f0e442", "#e08a00"  # told apart by colour-blind people too

Frames = npt.NDArray[np.uint8]


def fly_with_frames(
    tasks: Sequence[Task],
    policy: Policy,
    *,
    device: str = "cpu",
    config: SimulatorConfig = SimulatorConfig(),
) -> tuple[FlightLog, Frames]:
    """Fly the tasks; returns the log and every picture the drones saw, (B, T, H, W, 3)."""
    seen: list[Tensor] = []

    def keep(step: int, observation: Observation, action: Tensor, memory: Any) -> None:
        seen.append(observation.image.cpu())

    simulator = simulator_for(tasks, device=device, config=config)
    log = fly(simulator, tasks, policy, watch=keep)
    return log, np.stack([image.numpy() for image in seen], axis=1)


def draw_top_down(axis: Axes, layout: Layout, size_px: int = 1000) -> None:
    """The whole field from above, north up, with the name of each landmark."""
    camera = from_above(-MARGIN, -MARGIN, FIELD_SIZE + 2 * MARGIN, size_px)
    picture = take_pictures([layout], [camera], size_px, size_px)[0]
    reach = (-MARGIN, FIELD_SIZE + MARGIN)
    axis.imshow(picture, extent=(*reach, *reach), interpolation="lanczos")
    for mark in layout.landmarks:
        # Below the thing itself, so that a route that calls at it does not cross its name.
        axis.text(
            mark.x, mark.y - 0.52 * mark.radius - 0.2, LANDMARK_CLASSES[mark.name].noun,
            color="white", fontsize=8, ha="center", va="top", path_effects=OUTLINE, zorder=6,
        )  # fmt: skip
    axis.set(xlim=reach, ylim=reach, xlabel="x east (m)", ylabel="y north (m)")


def draw_path(axis: Axes, points: npt.NDArray[Any], colour: str, style: str, label: str, *, width: float = 1.8) -> None:
    """A line through points (P, 2), field frame; width in points."""
    edge = [effects.withStroke(linewidth=width + EDGE, foreground="black")]
    axis.plot(*points.T, style, color=colour, linewidth=width, label=label, path_effects=edge, zorder=4)


def _beside(pose: npt.NDArray[Any]) -> tuple[float, float]:
    """A place 1.3 m to the right of a pose, where a number hides neither path, start nor goal."""
    return pose[0] + 1.3 * math.sin(pose[5]), pose[1] - 1.3 * math.cos(pose[5])


def outcome(distance: float | None, num_steps: int, has_stopped: bool) -> str:
    """How a flight ended, in words; with a goal, how far from it."""
    where = "" if distance is None else f" {distance:.1f} m from the goal"
    if not has_stopped:
        return f"never stopped in {num_steps} steps" + (f";{where}" if where else "")
    return f"stopped{where} after {num_steps} steps"


def draw_start(axis: Axes, start: Sequence[float], *, size: float = 70) -> None:
    """A dot (size in square points) and an arrow where a flight begins and looks; x, y, yaw, field frame."""
    x, y, yaw = start
    axis.scatter(x, y, s=size, color=START, edgecolor="black", zorder=7, label="start")
    axis.quiver(
        x, y, math.cos(yaw), math.sin(yaw),
        color=START, edgecolor="black", linewidth=0.7, scale=18, width=0.009, zorder=7,
    )  # fmt: skip


def draw_flight(path: Path, task: Task, log: FlightLog, frames: Frames, flight: int, has_goal: bool = True) -> None:
    """Write one flight's picture: the field from above with both paths, and what the drone saw on the way.

    Without a goal, as for an instruction someone typed, the flown path alone.
    """
    num_steps = int(log.num_steps[flight])
    distance = float(log.goal_distance([task] * len(log.num_steps))[flight])
    figure = plt.figure(figsize=(13.2, 7.6), layout="constrained")
    above, strip = np.ravel(figure.subfigures(1, 2, width_ratios=(1.06, 1)))  # type: ignore[arg-type]
    axis = above.subplots()
    draw_top_down(axis, task.layout)
    flown = log.pose_world[flight, : num_steps + 1].cpu().numpy()
    if has_goal:
        draw_path(axis, task.path, SHOWN, "--", "demonstrated")
    draw_path(axis, flown[:, :2], FLOWN, "-", "flown")
    draw_start(axis, (flown[0, 0], flown[0, 1], flown[0, 5]))
    if has_goal:
        axis.scatter(*task.goal, s=150, color=GOAL, marker="*", edgecolor="black", zorder=7, label="goal")
    rows, columns = 4, 2
    shown = np.unique(np.linspace(0, num_steps - 1, rows * columns).round().astype(int))
    marked = None
    for number, step in enumerate(shown, start=1):
        # Numbers on top of each other would hide the path; every frame is still in the strip.
        if marked is not None and np.hypot(*(flown[step, :2] - marked)) < 1.4:
            continue
        marked = flown[step, :2]
        axis.text(
            *_beside(flown[step]), str(number), fontsize=9, color="black", ha="center", va="center", zorder=8,
            bbox={"boxstyle": "circle,pad=0.18", "facecolor": FLOWN, "edgecolor": "black", "linewidth": 0.7},
        )  # fmt: skip
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False)
    cells = strip.subplots(rows, columns, squeeze=False)
    for cell in cells.flat:
        cell.set_axis_off()
    for number, (cell, step) in enumerate(zip(cells.flat, shown, strict=False), start=1):
        cell.imshow(frames[flight, step], interpolation="lanczos")
        speed = float(log.velocity_world[flight, step, :2].norm())
        cell.set_title(f"{number}   {step * STEP_SECONDS:.1f} s, {speed:.1f} m/s", fontsize=9, loc="left", pad=3)
    words = outcome(distance if has_goal else None, num_steps, bool(log.has_stopped[flight]))
    figure.suptitle(textwrap.fill(f"“{task.instruction}”   {words}", 112), fontsize=13, parse_math=False)
    save_figure(figure, path)
