"""A picture of a flight: the field from above with its paths, and what the drone saw on the way."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from torch import Tensor

from pvn.evaluation.outcome import end_place, outcome
from pvn.paths import Points
from pvn.rollout.flight import FlightLog, fly, simulator_for
from pvn.rollout.policy import Policy
from pvn.simulator.interface import Observation, SimulatorConfig
from pvn.viz import palette
from pvn.viz.axes import draw_goal, draw_path, draw_start, draw_top_down, number_in_circle
from pvn.viz.drawn_text import quoted
from pvn.viz.flight_record import Floats, path_end
from pvn.viz.saving import save_figure
from pvn.world.task import Task

STEP_SECONDS = SimulatorConfig().step_seconds
ROWS, COLUMNS = 4, 2
"""Of frames beside the field."""

Frames = npt.NDArray[np.uint8]
"""(B, T, H, W, 3)."""


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


def _draw_field(axis: Axes, task: Task, flown: Floats, shown: Sequence[int], demonstrated: Points | None) -> None:
    """The field with the flown poses (T + 1, 6) and the demonstrated path; the steps of frames shown are numbered."""
    draw_top_down(axis, task.layout)
    goal = path_end(demonstrated)
    if demonstrated is not None:
        draw_path(axis, demonstrated, palette.DEMONSTRATED, "--", "demonstrated")
    draw_path(axis, flown[:, :2], palette.FLOWN, "-", "flown")
    draw_start(axis, (flown[0, 0], flown[0, 1], flown[0, 5]))
    if goal is not None:
        draw_goal(axis, goal)
    marked = None
    for number, step in enumerate(shown, start=1):
        # Numbers on top of each other would hide the path; every frame is still in the strip.
        if marked is not None and np.hypot(*(flown[step, :2] - marked)) < 1.4:
            continue
        marked = flown[step, :2]
        number_in_circle(axis, flown[step], number)
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False)


def _draw_frames(strip: SubFigure, frames: Frames, speeds: Sequence[float], shown: Sequence[int]) -> None:
    """The pictures (T, H, W, 3) of the steps shown, with the time and the speed (m/s) at each step."""
    cells = strip.subplots(ROWS, COLUMNS, squeeze=False)
    for cell in cells.flat:
        cell.set_axis_off()
    for number, (cell, step) in enumerate(zip(cells.flat, shown, strict=False), start=1):
        cell.imshow(frames[step], interpolation="lanczos")
        title = f"{number}   {step * STEP_SECONDS:.1f} s, {speeds[step]:.1f} m/s"
        cell.set_title(title, fontsize=9, loc="left", pad=3)


def draw_flight(
    path: Path, task: Task, log: FlightLog, frames: Frames, flight: int, demonstrated: Points | None = None
) -> None:
    """Write the picture of one flight of a log: the field from above with both paths, and what the drone saw.

    frames (B, T, H, W, 3); demonstrated (P, 2), field frame: without it, as for a typed instruction, there is no goal.
    """
    num_steps, goal = int(log.num_steps[flight]), path_end(demonstrated)
    distance = None if goal is None else math.dist(log.end_world[flight].tolist(), goal)
    figure = plt.figure(figsize=(13.2, 7.6), layout="constrained")
    above, strip = np.ravel(figure.subfigures(1, 2, width_ratios=(1.06, 1)))  # type: ignore[arg-type]
    shown = np.unique(np.linspace(0, num_steps - 1, ROWS * COLUMNS).round().astype(int)).tolist()
    _draw_field(above.subplots(), task, log.pose_world[flight, : num_steps + 1].cpu().numpy(), shown, demonstrated)
    _draw_frames(strip, frames[flight], log.velocity_world[flight, :, :2].norm(dim=-1).tolist(), shown)
    words = outcome(distance, num_steps, bool(log.has_stopped[flight]), end_place(log, flight, task))
    figure.suptitle(textwrap.fill(f"{quoted(task.instruction)}   {words}", 112), fontsize=13, parse_math=False)
    save_figure(figure, path)
