"""Demonstrations: the oracle's flights over a corpus as a table of poses; pictures are rendered when needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from pvn.corpus.alignment import Alignment
from pvn.corpus.vocabulary import Vocabulary
from pvn.geometry import even_paths, restarted, to_map
from pvn.learning.random_looks import FlightLooks
from pvn.model.instruction import pad_tokens
from pvn.model.mapping import Frames
from pvn.model.visitation import FACED_AHEAD, OVERHEAD_MARGIN
from pvn.rollout.flight import FlightLog, fly, simulator_for
from pvn.rollout.oracle import Oracle, OracleConfig
from pvn.simulator.interface import SimulatorConfig
from pvn.world.layout import FIELD_SIZE, MAX_LANDMARKS, landmark_tables
from pvn.world.task import HORIZON, Demonstration

if TYPE_CHECKING:
    from pvn.simulator.simulator import Simulator

PATH_SPACING = 0.75
"""Largest distance between the points of a path from which its distribution is made, metres."""
TOKENS_MULTIPLE = 8
"""Sentences are padded to a multiple of this many words: a GPU's matrix units are slow at other sizes."""
MIN_VISIBLE_PIXELS = 6
"""A landmark is visible in a picture if it has at least this many pixels."""


@dataclass(frozen=True)
class Demonstrations:
    """N demonstrations, flown by the oracle; K frames in all, end to end.

    M of them are this process's own: of these it has fields, instructions and paths. Of the others, which several
    processes that train together have, it knows only how they were flown. In a single process M is N.
    """

    simulator: Simulator
    """Holds the fields of the M flights, to render pictures; its flights are not used."""
    pose_world: Tensor
    """Poses (K, 6), field frame, before each of the oracle's actions."""
    action: Tensor
    """(K, 3): the oracle's actions there: speed and yaw rate as shares of their maxima, and stop."""
    is_planned: Tensor
    """(K,) bool, on the host: frames that are followed by a prediction."""
    first_frame: Tensor
    """(N + 1,) int64, on the host: flight n's frames are first_frame[n] to first_frame[n + 1]."""
    origin: Tensor
    """Start poses (N, 3), x, y, yaw, field frame."""
    is_own: Tensor
    """(N,) bool, on the host: which of the flights are this process's own."""
    field: Tensor
    """(M,) int64: the field of each flight."""
    path_world: Tensor
    """Points (M, P, 2) of the demonstrated paths, evenly spaced, the goal repeated at the end."""
    num_points: Tensor
    """(M,) int64: points of each path without the padding; the last of them is the goal."""
    faced_world: Tensor
    """Places (M, 2), field frame, that the drones face when they have arrived, `FACED_AHEAD` of the goal."""
    tokens: Tensor
    """Word ids (M, L), padded."""
    mentioned: Tensor
    """(M, 63) bool: classes that the instruction's words are aligned with."""
    landmark_place: Tensor
    """(E, 32, 2): positions of each field's landmarks, field frame."""
    landmark_class: Tensor
    """(E, 32) int64: their classes, -1 for padding."""
    overhead_px: int | None
    """Edge, pixels, of the views from above that replace the camera's pictures; None: the camera's."""

    def __len__(self) -> int:
        return len(self.origin)

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.pose_world.device

    @property
    def longest(self) -> int:
        """Frames of the longest flight."""
        return int(self.num_frames.max())

    @cached_property
    def num_frames(self) -> np.ndarray:
        """(N,) int64: frames of each flight."""
        return np.diff(self.first_frame.numpy())

    @cached_property
    def num_predictions(self) -> np.ndarray:
        """(N,) int64: predictions in each flight."""
        planned = np.concatenate([[0], self.is_planned.numpy().cumsum()])
        return np.diff(planned[self.first_frame.numpy()])

    @cached_property
    def row(self) -> Tensor:
        """(N,) int64, on the host: where a flight is among the M; meaningless if it is none of them."""
        return self.is_own.cumsum(0) - 1


def _end_to_end(log: FlightLog, values: Tensor, every: int) -> Tensor:
    """Values (K, ...) before each flight's own actions, of every `every`-th step, from (N, T, ...)."""
    step = torch.arange(values.shape[1], device=values.device)
    return values[(step < log.num_steps[:, None]) & (step % every == 0)]


def demonstrate(
    demonstrations: Sequence[Demonstration],
    vocabulary: Vocabulary,
    alignment: Alignment,
    *,
    plan_every: int = 6,
    frame_every: int = 1,
    device: str | torch.device = "cpu",
    config: SimulatorConfig = SimulatorConfig(),
    oracle: OracleConfig = OracleConfig(),
    overhead_px: int | None = None,
) -> Demonstrations:
    """Fly the oracle over all demonstrations in one batch and keep its pose every `frame_every` steps.

    overhead_px: render the field from above instead, this many pixels wide, once at the start of each flight.
    """
    frame_every = frame_every if overhead_px is None else HORIZON
    tasks = [demonstration.task for demonstration in demonstrations]
    blind = simulator_for(tasks, device=device, config=replace(config, quality="none"))
    log = fly(blind, tasks, Oracle(demonstrations, oracle, config))
    simulator = blind.renderer(config)
    to = simulator.device
    pose = _end_to_end(log, log.pose_world[:, :-1], frame_every)
    step = torch.arange(log.action.shape[1], device=to).expand(len(tasks), -1)
    is_planned = _end_to_end(log, step, frame_every) % plan_every == 0
    lengths = (log.num_steps + frame_every - 1) // frame_every
    path, num_points = even_paths([demonstration.path for demonstration in demonstrations], PATH_SPACING)
    place, kind = (torch.from_numpy(table) for table in landmark_tables(simulator.layouts))
    tokens = [vocabulary.encode(task.instruction) for task in tasks]
    mentioned = np.stack([alignment.mentioned(sentence) for sentence in tokens])
    return Demonstrations(
        simulator=simulator,
        pose_world=pose,
        action=_end_to_end(log, log.action, frame_every) / torch.tensor(config.max_action, device=to),
        is_planned=is_planned.cpu(),
        first_frame=torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cpu().cumsum(0)]),
        origin=torch.tensor([task.start for task in tasks], dtype=torch.float32, device=to),
        is_own=torch.ones(len(tasks), dtype=torch.bool),
        field=blind.field_index,
        path_world=path.to(to),
        num_points=num_points.to(to),
        faced_world=torch.tensor([one.ahead_of_goal(FACED_AHEAD) for one in demonstrations], device=to),
        tokens=pad_tokens(tokens, TOKENS_MULTIPLE).to(to),
        mentioned=torch.from_numpy(mentioned).to(to),
        landmark_place=place.to(to),
        landmark_class=kind.to(to),
        overhead_px=overhead_px,
    )


def flown_again(
    demonstrations: Demonstrations, flights: Tensor, pose_world: Tensor, action: Tensor, lengths: Tensor
) -> Demonstrations:
    """The same tasks, those of flights (B,), flown differently: poses (K, 6), end to end, and the oracle's actions
    (K, 3) there, as in Demonstrations; lengths (B,). Every frame is followed by a prediction. All on the host, and
    for a single process.
    """
    chosen = flights.to(demonstrations.device)
    return replace(
        demonstrations,
        pose_world=pose_world.to(demonstrations.device),
        action=action.to(demonstrations.device),
        is_planned=torch.ones(len(pose_world), dtype=torch.bool),
        first_frame=torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]),
        origin=demonstrations.origin[chosen],
        is_own=torch.ones(len(flights), dtype=torch.bool),
        field=demonstrations.field[chosen],
        path_world=demonstrations.path_world[chosen],
        num_points=demonstrations.num_points[chosen],
        faced_world=demonstrations.faced_world[chosen],
        tokens=demonstrations.tokens[chosen],
        mentioned=demonstrations.mentioned[chosen],
    )


@dataclass(frozen=True)
class Sizes:
    """How many frames, flights and predictions a batch has, or has at most."""

    frames: int
    flights: int
    predictions: int


NO_FLIGHTS = Sizes(frames=1, flights=1, predictions=1)
"""Sizes to which a batch without flights is padded, since networks need at least one frame; none of it counts."""


@dataclass(frozen=True)
class SelectionParts:
    """The parts of a selection, all int64; "in the batch": an index into the batch's own frames or flights."""

    flights: Tensor
    """(B,): which of the demonstrations' flights."""
    rows: Tensor
    """(B,): their places among the M."""
    moves: Tensor
    """(B,): the flights whose movements they copy."""
    first_frame: Tensor
    """(B + 1,): each flight's first frame, in the batch."""
    frame: Tensor
    """(K,): which of the demonstrations' frames."""
    frame_flight: Tensor
    """(K,): each frame's flight, in the batch."""
    frame_row: Tensor
    """(K,): the prediction that follows a frame, -1 for none."""
    prediction_frame: Tensor
    """(Q,): the frame before each prediction, in the batch."""
    prediction_flight: Tensor
    """(Q,): each prediction's flight, in the batch."""
    num_predictions: Tensor
    """(1,): predictions that are not padding."""


@dataclass(frozen=True)
class Selection:
    """Which flights a batch has and where their frames are, on the demonstrations' device; copied there in one piece.

    A padded batch has more rows than it needs: the frames left over belong to a padding flight at the end, and
    predictions from `num_predictions` on are padding.
    """

    numbers: Tensor
    """All parts, one after the other, int64."""
    turn: Tensor
    """(B,): rotations of the flights' map frames, radians."""
    rise: Tensor
    """(B,): added to the height from which their pictures are taken, metres."""
    sizes: Sizes
    looks: FlightLooks | None = None
    """How their pictures differ from the simulator's; None: not at all."""

    def parts(self) -> SelectionParts:
        """The parts by name."""
        frames, flights, predictions = self.sizes.frames, self.sizes.flights, self.sizes.predictions
        lengths = [flights, flights, flights, flights + 1, frames, frames, frames, predictions, predictions, 1]
        return SelectionParts(*torch.split(self.numbers, lengths))


@dataclass(frozen=True)
class Batch:
    """B flights with their pictures, and what the losses need."""

    frames: Frames
    tokens: Tensor
    """(B, L)."""
    path_map: Tensor
    """Points (B, P, 2) of the demonstrated paths, map frame."""
    num_points: Tensor
    """(B,)."""
    faced_map: Tensor
    """Places (B, 2) that the drones face when they have arrived, map frame."""
    landmark_map: Tensor
    """Landmarks (B, 32, 2), map frame."""
    landmark_class: Tensor
    """(B, 32), -1 for padding."""
    action: Tensor
    """(Q, 3): the oracle's action at each prediction; meaningless where another flight's movements are copied."""
    is_visible: Tensor
    """(Q, 32) bool: landmarks in view at each prediction."""
    mentioned: Tensor
    """(B, 63) bool."""
    is_counted: Tensor
    """(Q,) bool: predictions that are not padding."""


def _pictures(demonstrations: Demonstrations, pose_world: Tensor, field: Tensor, tilt: Tensor | None) -> Tensor:
    """Pictures (K, H, W, 3) uint8 from poses (K, 6), or from above, in fields (K,); tilt (K,): as in `render`."""
    if demonstrations.overhead_px is not None:
        return demonstrations.simulator.render_from_above(field, demonstrations.overhead_px, OVERHEAD_MARGIN)
    return demonstrations.simulator.render(pose_world, field, tilt)


def _visible(demonstrations: Demonstrations, pose_world: Tensor, field: Tensor, tilt: Tensor | None) -> Tensor:
    """Which (K, 32) of a field's landmarks are in the pictures from poses (K, 6) in fields (K,)."""
    if demonstrations.overhead_px is not None:
        return demonstrations.landmark_class[field] >= 0
    seen = demonstrations.simulator.landmarks_at(pose_world, field, tilt).flatten(1).long() + 1
    counts = torch.zeros((len(seen), MAX_LANDMARKS + 1), dtype=torch.int32, device=seen.device)
    counts.scatter_add_(1, seen, torch.ones_like(seen, dtype=torch.int32))
    return counts[:, 1:] >= MIN_VISIBLE_PIXELS


def select(
    demonstrations: Demonstrations,
    flights: Tensor,
    turn: Tensor | None = None,
    moves: Tensor | None = None,
    sizes: Sizes | None = None,
    rise: Tensor | None = None,
    looks: FlightLooks | None = None,
) -> Selection:
    """The flights (B,) int64, on the host; their map frames rotated by `turn` (B,), radians; padded to `sizes`.

    The flights are this process's own. moves (B,) int64: any flights, whose movements each flight
    copies, from its own start; its own movements if not given. The instruction and the demonstrated path stay each
    flight's own. rise (B,): added to the height of their pictures, metres. looks: of the flights, on the host.
    """
    # In NumPy on the host: small operations are quick there, and nothing waits for the device.
    chosen = flights.numpy()
    made = chosen if moves is None else moves.numpy()
    begin, end = (demonstrations.first_frame.numpy()[made + after] for after in (0, 1))
    first = np.concatenate([[0], (end - begin).cumsum()])
    flight = np.arange(len(chosen)).repeat(end - begin)
    frame = (begin - first[:-1])[flight] + np.arange(first[-1])
    is_planned = demonstrations.is_planned.numpy()[frame]
    planned = is_planned.nonzero()[0]
    own = Sizes(len(frame), len(chosen), len(planned))
    sizes = sizes or own
    spare = sizes.flights - own.flights, sizes.frames - own.frames, sizes.predictions - own.predictions
    if min(spare) < 0 or (spare[0] == 0 and spare[1] > 0):
        raise ValueError(f"batch: got {own}, expected it to fit {sizes} and a padding flight")
    first = np.concatenate([first, np.full(max(spare[0] - 1, 0), first[-1]), np.full(min(spare[0], 1), sizes.frames)])

    def padded(values: np.ndarray, count: int, value: int = 0) -> np.ndarray:
        return np.concatenate([values, np.full(count, value)])

    parts = (
        padded(chosen, spare[0]),
        padded(demonstrations.row.numpy()[chosen], spare[0]),
        padded(made, spare[0]),
        first,
        padded(frame, spare[1]),
        padded(flight, spare[1], sizes.flights - 1),
        padded(np.where(is_planned, is_planned.cumsum() - 1, -1), spare[1], -1),
        padded(planned, spare[2]),
        padded(flight[planned], spare[2]),
        [own.predictions],
    )

    def by_flight(values: Tensor | None, *columns: int) -> Tensor:
        filled = torch.zeros((sizes.flights, *columns))
        if values is not None:
            filled[: own.flights] = values
        return filled.to(demonstrations.device, non_blocking=True)

    numbers = torch.from_numpy(np.concatenate(parts)).to(demonstrations.device, non_blocking=True)
    if looks is not None:
        looks = replace(looks, draws=by_flight(looks.draws, looks.draws.shape[1]))
    return Selection(numbers, by_flight(turn), by_flight(rise), sizes, looks)


def take_batch(demonstrations: Demonstrations, selection: Selection) -> Batch:
    """The pictures of a selection, and what the losses need; all on the device."""
    parts = selection.parts()
    flights, rows, flight = parts.flights, parts.rows, parts.frame_flight
    origin, field = demonstrations.origin[flights], demonstrations.field[rows]
    pose = demonstrations.pose_world[parts.frame]
    strayed = restarted(pose, demonstrations.origin[parts.moves][flight], origin[flight])
    strayed = torch.cat([strayed[:, :2].clamp(0.0, FIELD_SIZE), strayed[:, 2:]], -1)
    pose = torch.where((flights != parts.moves)[flight, None], strayed, pose)
    pose = torch.cat([pose[:, :2], pose[:, 2:3] + selection.rise[flight, None], pose[:, 3:]], -1)
    origin = torch.cat([origin[:, :2], origin[:, 2:] + selection.turn[:, None]], -1)
    looks, taken, tilt = selection.looks, pose, None
    if looks is not None:
        taken, tilt = looks.taken_from(pose, flight, parts.first_frame)
    image = _pictures(demonstrations, taken, field[flight], tilt)
    if looks is not None:
        needs, see = looks.needs_surfaces, demonstrations.simulator.ground_and_sky_at
        image = looks.repaint(image, flight, see(taken, field[flight], tilt) if needs else None)
    planned = parts.prediction_frame
    return Batch(
        frames=Frames(
            image=image,
            pose_world=pose,
            origin=origin,
            first_frame=parts.first_frame,
            row=parts.frame_row,
            flight=parts.prediction_flight,
            longest=demonstrations.longest,
            heading=-selection.turn,
        ),
        tokens=demonstrations.tokens[rows],
        path_map=to_map(demonstrations.path_world[rows], origin),
        num_points=demonstrations.num_points[rows],
        faced_map=to_map(demonstrations.faced_world[rows][:, None], origin)[:, 0],
        landmark_map=to_map(demonstrations.landmark_place[field], origin),
        landmark_class=demonstrations.landmark_class[field],
        action=demonstrations.action[parts.frame[planned]],
        is_visible=_visible(
            demonstrations, taken[planned], field[parts.prediction_flight], None if tilt is None else tilt[planned]
        ),
        mentioned=demonstrations.mentioned[rows],
        is_counted=torch.arange(selection.sizes.predictions, device=flights.device) < parts.num_predictions,
    )
