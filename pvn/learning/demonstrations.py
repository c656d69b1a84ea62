"""Demonstrations: the oracle's flights over a corpus, as a table of poses; pictures are rendered when needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from pvn.corpus.alignment import Alignment
from pvn.corpus.flight import FlightLog, fly
from pvn.corpus.oracle import Oracle
from pvn.corpus.vocabulary import Vocabulary
from pvn.geometry import to_map
from pvn.model.instruction import pad_tokens
from pvn.model.visitation import Frames
from pvn.simulator.simulator import Simulator, SimulatorConfig
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import MAX_LANDMARKS
from pvn.world.task import Task, distinct_layouts

POINT_EVERY = 0.75
"""Distance between the points of a path from which its distribution is made, metres."""
LEAST_PIXELS = 6
"""A landmark is visible where at least so many pixels show it."""
AT_ONCE = 4096
"""Frames rendered at once where many are."""


@dataclass(frozen=True)
class Demonstrations:
    """N flights; K frames in all, end to end."""

    simulator: Simulator
    """With every field; its flights are not used."""
    pose_world: Tensor
    """Poses (K, 6), field frame, before each of the oracle's actions."""
    is_planned: Tensor
    """(K,) bool: frames that are followed by a prediction."""
    is_visible: Tensor
    """(K, 32) bool: landmarks that are in view and not hidden, at frames with a prediction."""
    first_frame: Tensor
    """(N + 1,) int64, on the host: flight n's frames are first_frame[n] to first_frame[n + 1]."""
    origin: Tensor
    """Start poses (N, 3), x, y, yaw, field frame."""
    field: Tensor
    """(N,) int64: the field of each flight."""
    path_world: Tensor
    """Points (N, P, 2) of the demonstrated paths, evenly spaced, the goal repeated at the end."""
    num_points: Tensor
    """(N,) int64: points of each path that are its own; the last is the goal."""
    tokens: Tensor
    """Word ids (N, L), padded."""
    mentioned: Tensor
    """(N, 63) bool: classes that the instruction's words are aligned with."""
    landmark_place: Tensor
    """(E, 32, 2): where each field's landmarks stand."""
    landmark_class: Tensor
    """(E, 32) int64: their classes, -1 where there is none."""

    def __len__(self) -> int:
        return len(self.origin)

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.pose_world.device


def _evenly(path: np.ndarray) -> np.ndarray:
    """The path's points at even distances, its last one included."""
    travelled = np.r_[0.0, np.hypot(*np.diff(path, axis=0).T).cumsum()]
    count = max(int(np.ceil(travelled[-1] / POINT_EVERY)), 1)
    at = np.linspace(0.0, travelled[-1], count + 1)
    return np.stack([np.interp(at, travelled, path[:, axis]) for axis in (0, 1)], axis=-1)


def even_paths(tasks: Sequence[Task]) -> tuple[Tensor, Tensor]:
    """Points (N, P, 2), field frame, evenly spaced, the goal repeated; and how many (N,) are each path's own."""
    paths = [_evenly(task.path) for task in tasks]
    table = np.empty((len(paths), max(map(len, paths)), 2), np.float32)
    for row, path in zip(table, paths, strict=True):
        row[: len(path)], row[len(path) :] = path, path[-1]
    return torch.from_numpy(table), torch.tensor([len(path) for path in paths])


def _landmarks(simulator: Simulator) -> tuple[Tensor, Tensor]:
    place = torch.zeros((len(simulator.layouts), MAX_LANDMARKS, 2))
    kind = torch.full((len(simulator.layouts), MAX_LANDMARKS), -1)
    for row, layout in enumerate(simulator.layouts):
        for column, mark in enumerate(layout.landmarks):
            place[row, column] = torch.tensor([mark.x, mark.y])
            kind[row, column] = LANDMARK_CLASSES[mark.name].index
    return place, kind


def _end_to_end(log: FlightLog, values: Tensor, every: int) -> Tensor:
    """Values (K, ...) before each flight's own actions, of every so many steps, from (N, T, ...)."""
    step = torch.arange(values.shape[1], device=values.device)
    return values[(step < log.num_steps[:, None]) & (step % every == 0)]


def _visible(simulator: Simulator, pose_world: Tensor, field: Tensor) -> Tensor:
    """Which (K, 32) of a field's landmarks are in pictures from poses (K, 6) in fields (K,), and not hidden."""
    parts = []
    for begin in range(0, len(field), AT_ONCE):
        seen = simulator.landmarks_at(pose_world[begin : begin + AT_ONCE], field[begin : begin + AT_ONCE])
        each = torch.arange(len(seen), device=seen.device)[:, None] * (MAX_LANDMARKS + 1)
        counts = torch.bincount((seen.flatten(1) + 1 + each).flatten(), minlength=len(seen) * (MAX_LANDMARKS + 1))
        parts.append(counts.view(len(seen), -1)[:, 1:] >= LEAST_PIXELS)
    return torch.cat(parts)


def demonstrate(
    tasks: Sequence[Task],
    vocabulary: Vocabulary,
    alignment: Alignment,
    *,
    plan_every: int = 6,
    frame_every: int = 1,
    device: str | torch.device = "cpu",
    config: SimulatorConfig = SimulatorConfig(),
) -> Demonstrations:
    """Fly the oracle over all tasks at once and keep where it was, every `frame_every` steps."""
    layouts, fields = distinct_layouts(tasks)
    blind = Simulator(layouts, len(tasks), field_index=fields, device=device, config=replace(config, quality="none"))
    log = fly(blind, tasks, Oracle(simulator=config))
    simulator = Simulator(layouts, 1, device=device, config=config)
    to = simulator.device
    pose, field = _end_to_end(log, log.pose_world[:, :-1], frame_every), torch.tensor(fields, device=to)
    step = torch.arange(log.action.shape[1], device=to).expand(len(tasks), -1)
    is_planned = _end_to_end(log, step, frame_every) % plan_every == 0
    lengths = (log.num_steps + frame_every - 1) // frame_every
    is_visible = torch.zeros((len(pose), MAX_LANDMARKS), dtype=torch.bool, device=to)
    is_visible[is_planned] = _visible(simulator, pose[is_planned], field.repeat_interleave(lengths)[is_planned])
    path, num_points = even_paths(tasks)
    place, kind = _landmarks(simulator)
    tokens = [vocabulary.encode(task.instruction) for task in tasks]
    mentioned = np.stack([alignment.mentioned(sentence) for sentence in tokens])
    return Demonstrations(
        simulator=simulator,
        pose_world=pose,
        is_planned=is_planned,
        is_visible=is_visible,
        first_frame=torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cpu().cumsum(0)]),
        origin=torch.tensor([task.start for task in tasks], dtype=torch.float32, device=to),
        field=field,
        path_world=path.to(to),
        num_points=num_points.to(to),
        tokens=pad_tokens(tokens).to(to),
        mentioned=torch.from_numpy(mentioned).to(to),
        landmark_place=place.to(to),
        landmark_class=kind.to(to),
    )


@dataclass(frozen=True)
class Batch:
    """B of the flights, with their pictures, and what the losses need."""

    frames: Frames
    tokens: Tensor
    """(B, L)."""
    path_map: Tensor
    """Points (B, P, 2) of the demonstrated paths, map frame."""
    num_points: Tensor
    """(B,)."""
    landmark_map: Tensor
    """Landmarks (B, 32, 2), map frame."""
    landmark_class: Tensor
    """(B, 32), -1 where there is none."""
    is_visible: Tensor
    """(Q, 32) bool: landmarks in view at each prediction."""
    mentioned: Tensor
    """(B, 63) bool."""


def take_batch(demonstrations: Demonstrations, flights: Tensor, turn: Tensor | None = None) -> Batch:
    """The flights (B,) int64, on the host; their maps' frames turned by `turn` (B,), radians."""
    shown, to = demonstrations, demonstrations.device
    lengths = shown.first_frame[flights + 1] - shown.first_frame[flights]
    first = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    total = int(first[-1])
    frame = (shown.first_frame[flights] - first[:-1]).repeat_interleave(lengths) + torch.arange(total)
    frame, flights = frame.to(to, non_blocking=True), flights.to(to, non_blocking=True)
    flight = torch.arange(len(flights)).repeat_interleave(lengths).to(to, non_blocking=True)
    pose = shown.pose_world[frame]
    is_planned = shown.is_planned[frame]
    row = torch.where(is_planned, is_planned.cumsum(0) - 1, -1)
    origin = shown.origin[flights]
    if turn is not None:
        origin = torch.cat([origin[:, :2], origin[:, 2:] + turn.to(to)[:, None]], -1)
    return Batch(
        frames=Frames(
            image=shown.simulator.look(pose, shown.field[flights][flight]),
            pose_world=pose,
            origin=origin,
            first_frame=first.to(to, non_blocking=True),
            row=row,
            flight=flight[is_planned],
        ),
        tokens=shown.tokens[flights],
        path_map=to_map(shown.path_world[flights], origin),
        num_points=shown.num_points[flights],
        landmark_map=to_map(shown.landmark_place[shown.field[flights]], origin),
        landmark_class=shown.landmark_class[shown.field[flights]],
        is_visible=shown.is_visible[frame][is_planned],
        mentioned=shown.mentioned[flights],
    )


def draw_batches(demonstrations: Demonstrations, num_frames: int, generator: torch.Generator) -> list[Tensor]:
    """All flights in random order, in groups of about `num_frames` frames; indices on the host."""
    lengths = demonstrations.first_frame.diff()
    order = torch.randperm(len(lengths), generator=generator)
    group = (lengths[order].cumsum(0) - 1) // num_frames
    return list(torch.split(order, torch.unique_consecutive(group, return_counts=True)[1].tolist()))
