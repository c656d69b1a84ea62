"""How PVN's predictions change as it flies, and galleries of what was flown: the paper's figures 4 and 5."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Circle
from torch import Tensor
from torch.nn import functional

from pvn.app.figures import FLOWN, MARGIN, OUTLINE, STEP_SECONDS, draw_path, draw_start, outcome
from pvn.app.saving import save_figure
from pvn.corpus.flight import FlightLog, fly, simulator_for
from pvn.corpus.segments import Segment
from pvn.geometry import MapGrid, to_map
from pvn.model.pvn import PVN, PVNMemory
from pvn.model.visitation import GOAL, TRAJECTORY, Visitation
from pvn.simulator.cameras import from_above, take_pictures
from pvn.simulator.simulator import Observation, SimulatorConfig
from pvn.world.layout import FIELD_SIZE, Layout
from pvn.world.task import SUCCESS_M, Task

SIZE_PX = 480
NUM_PREDICTIONS = 4
REACH = (-MARGIN, FIELD_SIZE + MARGIN)
DEMONSTRATED = "#ff6a4d"
"""The paper's red, light enough to be seen on grass."""
TRAJECTORY_COLOUR, GOAL_COLOUR = (1.0, 0.16, 0.12), (0.15, 1.0, 0.35)
"""As in the paper: red and green."""

Picture = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Evolution:
    """B flights and all that was predicted on the way."""

    log: FlightLog
    steps: tuple[int, ...]
    """Steps at which predictions were made."""
    visitations: tuple[Visitation, ...]
    """The predictions (B rows) at these steps."""


def fly_and_remember(tasks: Sequence[Task], agent: PVN, *, device: str = "cpu") -> Evolution:
    """Fly the tasks, and keep every prediction."""
    steps: list[int] = []
    visitations: list[Visitation] = []

    def keep(step: int, observation: Observation, action: Tensor, memory: PVNMemory) -> None:
        if step % agent.plan_every == 0 and memory.visitation is not None:
            steps.append(step)
            visitations.append(memory.visitation)

    config = SimulatorConfig(camera=agent.visitation.config.camera)
    log = fly(simulator_for(tasks, device=device, config=config), tasks, agent, watch=keep)
    return Evolution(log, tuple(steps), tuple(visitations))


def _above(layout: Layout) -> Picture:
    """The field from above (H, W, 3), 0 to 1, north up."""
    camera = from_above(REACH[0], REACH[0], REACH[1] - REACH[0], SIZE_PX)
    return np.asarray(take_pictures([layout], [camera], SIZE_PX, SIZE_PX)[0]) / 255


def lay_over_field(maps: Tensor, origin: Sequence[float], grid: MapGrid, size_px: int = SIZE_PX) -> Picture:
    """Maps (C, S, S) in the map frame of a pose (x, y, yaw) as a picture (H, W, C) of the field, north up."""
    along = (torch.arange(size_px) + 0.5) / size_px * (REACH[1] - REACH[0]) + REACH[0]
    y, x = torch.meshgrid(along.flip(0), along, indexing="ij")
    points = to_map(torch.stack([x, y], -1).view(1, -1, 2), torch.tensor([list(origin)], dtype=torch.float32))
    row, column = grid.cells(points)[0].unbind(-1)
    where = (torch.stack([column, row], -1) + 0.5) / grid.size * 2 - 1
    where = where.view(1, size_px, size_px, 2)
    laid = functional.grid_sample(maps[None].float().cpu(), where, mode="bilinear", align_corners=False)
    return laid[0].permute(1, 2, 0).double().numpy()


def _glow(above: Picture, laid: Picture) -> Picture:
    """Both distributions (H, W, 2), each as bright as it can be, over a dim grey picture of the field."""
    picture = np.repeat(above.mean(-1, keepdims=True), 3, axis=-1) * 0.6
    for channel, colour in ((TRAJECTORY, TRAJECTORY_COLOUR), (GOAL, GOAL_COLOUR)):
        # The root shows where little is expected, too; the paper's pictures are as bright there.
        share = np.sqrt(laid[..., channel : channel + 1] / max(laid[..., channel].max(), 1e-12))
        picture = picture * (1 - share) + np.array(colour) * share
    return picture.clip(0, 1)


def _semantic_picture(visitation: Visitation, flight: int, origin: Sequence[float], grid: MapGrid) -> Picture:
    """The first three channels of the semantic map as red, green and blue (H, W, 3); black where nothing was seen."""
    channels = visitation.semantic_map[flight, :3].float().cpu()
    is_known = visitation.is_known[flight].cpu()
    seen = channels[:, is_known]  # (3, cells)
    if seen.numel():
        low, high = (torch.quantile(seen, share, dim=1)[:, None, None] for share in (0.02, 0.98))
        channels = ((channels - low) / (high - low).clamp(min=1e-6)).clamp(0, 1) * is_known
    return lay_over_field(channels, origin, grid).clip(0, 1)


def _show(axis: Axes, picture: Picture, title: str) -> None:
    axis.imshow(picture, extent=(*REACH, *REACH))
    axis.set(xlim=REACH, ylim=REACH, xticks=[], yticks=[])
    axis.set_title(title, fontsize=11, pad=4)


def _draw_flown(axis: Axes, task: Task, flown: npt.NDArray[np.float32]) -> None:
    """The field from above with the demonstrated path, the flown path (T + 1, 2) and the goal region."""
    draw_path(axis, task.path, DEMONSTRATED, "-", "demonstrated")
    draw_path(axis, flown, FLOWN, "-", "flown")
    draw_start(axis, task.start)
    axis.add_patch(Circle(task.goal, SUCCESS_M, fill=False, edgecolor="white", linewidth=1.6, path_effects=OUTLINE))


def draw_evolutions(path: Path, segments: Sequence[Segment], agent: PVN, *, device: str = "cpu") -> None:
    """Write a picture with a row for each segment: the field and both paths, successive predictions, semantic map."""
    tasks = [segment.task for segment in segments]
    evolution = fly_and_remember(tasks, agent, device=device)
    grid = agent.visitation.config.grid
    columns = NUM_PREDICTIONS + 2
    figure = plt.figure(figsize=(2.75 * columns, 3.25 * len(tasks) + 0.2), layout="constrained")
    rows = np.ravel(figure.subfigures(len(tasks), 1))  # type: ignore[arg-type]
    for flight, (task, row) in enumerate(zip(tasks, rows, strict=True)):
        cells = row.subplots(1, columns)
        above = _above(task.layout)
        poses = evolution.log.pose_world[flight].cpu().numpy()
        num_steps = int(evolution.log.num_steps[flight])
        _show(cells[0], above, "demonstrated and flown")
        _draw_flown(cells[0], task, poses[: num_steps + 1, :2])
        own = [place for place, step in enumerate(evolution.steps) if step < num_steps]
        shown = np.unique(np.linspace(0, len(own) - 1, NUM_PREDICTIONS).round().astype(int)).tolist()
        for cell in cells[1 + len(shown) : -1]:
            cell.set_axis_off()  # a short flight has fewer predictions
        for cell, place in zip(cells[1:], shown, strict=False):
            step, visitation = evolution.steps[place], evolution.visitations[place]
            laid = lay_over_field(visitation.probability[flight], task.start, grid)
            _show(cell, _glow(above, laid), f"predicted at {step * STEP_SECONDS:.1f} s")
            cell.add_patch(
                Circle((poses[step, 0], poses[step, 1]), 1.1, facecolor="white", edgecolor="black", linewidth=1.0)
            )
        last = evolution.visitations[own[-1]]
        _show(cells[-1], _semantic_picture(last, flight, task.start, grid), "semantic map")
        distance = math.dist(poses[num_steps, :2], task.goal)
        words = outcome(distance, num_steps, bool(evolution.log.has_stopped[flight]))
        row.suptitle(textwrap.fill(f"“{task.instruction}”   {words}", 150), fontsize=12)
    save_figure(figure, path)


def draw_gallery(
    path: Path, segments: Sequence[Segment], flown: Sequence[npt.NDArray[np.float32]], has_stopped: Sequence[bool]
) -> None:
    """Write a sheet of flights from above, four in a row: demonstrated and flown (T + 1, 2), goal, instruction."""
    columns = min(4, len(segments))
    rows = math.ceil(len(segments) / columns)
    figure, cells = plt.subplots(
        rows, columns, figsize=(3.9 * columns, 4.5 * rows + 0.4), layout="constrained", squeeze=False
    )
    for cell in cells.flat[len(segments) :]:
        cell.set_axis_off()
    for cell, segment, points, stopped in zip(cells.flat, segments, flown, has_stopped, strict=False):
        task = segment.task
        _show(cell, _above(task.layout), "")
        _draw_flown(cell, task, points)
        is_success = stopped and math.dist(points[-1], task.goal) < SUCCESS_M
        cell.set_title(textwrap.fill(f"“{task.instruction}”", 42), fontsize=10, pad=5)
        words, colour = ("reached", "#7CFC8A") if is_success else ("missed" if stopped else "never stopped", "#ffb000")
        cell.text(
            0.05, 0.06, words, transform=cell.transAxes, color=colour, fontsize=11, weight="bold", path_effects=OUTLINE
        )
    handles, labels = cells[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=11)
    save_figure(figure, path)
