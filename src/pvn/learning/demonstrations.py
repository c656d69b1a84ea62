"""Demonstrations: the oracle's flights over a corpus as a table of poses, and the batches that are made from them.

Pictures are rendered when a batch is made, which is faster than reading them from a disk.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from pvn.corpus.alignment import Alignment
from pvn.corpus.vocabulary import Vocabulary
from pvn.geometry import even_paths, restarted, to_map
from pvn.learning.augmentation import AugmentedFlights
from pvn.model.instruction import pad_tokens
from pvn.model.mapping import Frames
from pvn.model.visitation import FACED_AHEAD, OVERHEAD_MARGIN
from pvn.rollout.flight import FlightLog, fly
from pvn.rollout.oracle import Oracle, OracleConfig
from pvn.rollout.policy import MakeSimulator, RenderingSimulator
from pvn.simulator.interface import SimulatorConfig
from pvn.world.layout import FIELD_SIZE, MAX_LANDMARKS, landmark_tables
from pvn.world.task import HORIZON, Demonstration

PATH_SPACING = 0.75
"""Largest distance between the points of a path from which its distribution is made, metres."""
TOKENS_MULTIPLE = 8
"""Sentences are padded to a multiple of this many words: a GPU's matrix units are slow at other sizes."""
MIN_VISIBLE_PIXELS = 6
"""A landmark is visible in a picture if it covers at least this many pixels."""


@dataclass(frozen=True)
class Demonstrations:
    """N demonstrations, flown by the oracle; their K frames are stored end to end."""

    simulator: RenderingSimulator
    """Holds the fields, to render pictures; its own flights are not used."""
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
    field: Tensor
    """(N,) int64: the field of each flight."""
    path_world: Tensor
    """Points (N, P, 2) of the demonstrated paths, evenly spaced, the goal repeated at the end."""
    num_points: Tensor
    """(N,) int64: points of each path without the padding; the last of them is the goal."""
    faced_world: Tensor
    """Points (N, 2), field frame, `FACED_AHEAD` of the goal, that the drones face when they have arrived."""
    tokens: Tensor
    """Word ids (N, L), padded."""
    mentioned: Tensor
    """(N, num_classes) bool: classes that the instruction's words are aligned with."""
    landmark_place: Tensor
    """(E, MAX_LANDMARKS, 2): positions of the landmarks of E fields, field frame."""
    landmark_class: Tensor
    """(E, MAX_LANDMARKS) int64: their classes, -1 for padding."""
    overhead_px: int | None
    """Edge of the views from above that replace the camera's pictures, pixels; None: the camera's."""

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


def _end_to_end(log: FlightLog, values: Tensor, every: int) -> Tensor:
    """Values (K, ...) before each flight's own actions, of every `every`-th step, from (N, T, ...)."""
    step = torch.arange(values.shape[1], device=values.device)
    return values[(step < log.num_steps[:, None]) & (step % every == 0)]


def demonstrate(
    demonstrations: Sequence[Demonstration],
    vocabulary: Vocabulary,
    alignment: Alignment,
    simulate: MakeSimulator,
    *,
    predict_every: int = 6,
    frame_every: int = 1,
    device: str | torch.device = "cpu",
    config: SimulatorConfig = SimulatorConfig(),
    oracle: OracleConfig = OracleConfig(),
    overhead_px: int | None = None,
) -> Demonstrations:
    """Fly the oracle over all demonstrations in one batch and store its pose every `frame_every` steps.

    predict_every: steps between the predictions that are trained. overhead_px: the pictures are views from above, this
    many pixels wide, one at the start of each flight.
    """
    frame_every = frame_every if overhead_px is None else HORIZON
    tasks = [demonstration.task for demonstration in demonstrations]
    blind = simulate(tasks, device=device, config=replace(config, quality="none"))
    log = fly(blind, tasks, Oracle(demonstrations, oracle, config))
    to = blind.device
    pose = _end_to_end(log, log.pose_world[:, :-1], frame_every)
    step = torch.arange(log.action.shape[1], device=to).expand(len(tasks), -1)
    is_planned = _end_to_end(log, step, frame_every) % predict_every == 0
    lengths = (log.num_steps + frame_every - 1) // frame_every
    path, num_points = even_paths([demonstration.path for demonstration in demonstrations], PATH_SPACING)
    place, kind = (torch.from_numpy(table) for table in landmark_tables(blind.layouts))
    tokens = [vocabulary.encode(task.instruction) for task in tasks]
    mentioned = np.stack([alignment.mentioned(sentence) for sentence in tokens])
    return Demonstrations(
        simulator=blind.renderer(config),
        pose_world=pose,
        action=_end_to_end(log, log.action, frame_every) / torch.tensor(config.max_action, device=to),
        is_planned=is_planned.cpu(),
        first_frame=torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cpu().cumsum(0)]),
        origin=torch.tensor([task.start for task in tasks], dtype=torch.float32, device=to),
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
    """Some of the demonstrations, flights (B,), with other frames: the same tasks, flown differently.

    pose_world (K, 6) and action (K, 3), the oracle's there, as in Demonstrations; lengths (B,): frames of each flight.
    All are on the host. Every frame is followed by a prediction.
    """
    chosen = flights.to(demonstrations.device)
    by_flight = ("origin", "field", "path_world", "num_points", "faced_world", "tokens", "mentioned")
    return replace(
        demonstrations,
        pose_world=pose_world.to(demonstrations.device),
        action=action.to(demonstrations.device),
        is_planned=torch.ones(len(pose_world), dtype=torch.bool),
        first_frame=torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]),
        **{name: getattr(demonstrations, name)[chosen] for name in by_flight},
    )


@dataclass(frozen=True)
class Sizes:
    """How many frames, flights and predictions a batch has, or may have at most."""

    frames: int
    flights: int
    predictions: int


ONLY_PADDING = Sizes(frames=1, flights=1, predictions=1)
"""Sizes to which a batch without flights is padded, because networks need at least one frame."""


def batch_limits(demonstrations: Demonstrations, num_frames: int, num_flights: int | None = None) -> Sizes:
    """Limits of a batch of about `num_frames` frames and at most `num_flights` flights; few batches reach several."""
    lengths, predictions = demonstrations.num_frames, demonstrations.num_predictions
    longest, most = int(lengths.max()), int(predictions.max())
    frames = max(num_frames, longest)
    flights = math.ceil(1.05 * frames / lengths.mean())
    num_predictions = math.ceil(min(max(1.1 * frames * predictions.mean() / lengths.mean(), most), frames))
    if num_flights is not None:
        frames, num_predictions = min(frames, num_flights * longest), min(num_predictions, num_flights * most)
        flights = min(flights, num_flights)
    return Sizes(frames, flights + 1, num_predictions)


def draw_batches(demonstrations: Demonstrations, limits: Sizes, generator: torch.Generator) -> list[Tensor]:
    """All flights in random order, in batches that fit the limits and leave room for a padding flight; on the host."""
    lengths, predictions = demonstrations.num_frames.tolist(), demonstrations.num_predictions.tolist()
    order = torch.randperm(len(lengths), generator=generator)
    ends, num_frames, num_flights, num_predictions = [], 0, 0, 0
    for place, flight in enumerate(order.tolist()):
        num_frames, num_flights = num_frames + lengths[flight], num_flights + 1
        num_predictions += predictions[flight]
        if num_frames > limits.frames or num_flights >= limits.flights or num_predictions > limits.predictions:
            ends.append(place)
            num_frames, num_flights, num_predictions = lengths[flight], 1, predictions[flight]
    return list(torch.tensor_split(order, ends))


def padded_sizes(demonstrations: Demonstrations, flights: Tensor, compiled: Sizes) -> Sizes:
    """The smallest multiple of the sizes for which the network is compiled that holds flights (B,).

    With few different sizes, each of them can be recorded as a CUDA graph, and a batch of short flights is not padded
    to the longest one in the corpus.
    """
    num_frames, num_predictions = (
        int(count[flights.numpy()].sum()) for count in (demonstrations.num_frames, demonstrations.num_predictions)
    )
    times = max(math.ceil(num_frames / compiled.frames), math.ceil(num_predictions / compiled.predictions), 1)
    return replace(compiled, frames=times * compiled.frames, predictions=times * compiled.predictions)


@dataclass(frozen=True)
class SelectionParts:
    """The parts of a selection, all int64; "in the batch": an index into the batch's own frames or flights."""

    flights: Tensor
    """(B,): which of the demonstrations' flights."""
    posed_as: Tensor
    """(B,): the flights whose poses they take: their own, or another flight's where paths are swapped."""
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
    augmented: AugmentedFlights | None = None
    """How their pictures are augmented; None: not at all."""

    def parts(self) -> SelectionParts:
        """The parts by name."""
        frames, flights, predictions = self.sizes.frames, self.sizes.flights, self.sizes.predictions
        lengths = [flights, flights, flights + 1, frames, frames, frames, predictions, predictions, 1]
        return SelectionParts(*torch.split(self.numbers, lengths))

    def tensors(self) -> list[Tensor]:
        """What differs between selections of the same sizes."""
        return [self.numbers, self.turn, self.rise, *([] if self.augmented is None else [self.augmented.draws])]


@dataclass(frozen=True)
class Batch:
    """B flights with their pictures, and what the losses need for Q predictions."""

    frames: Frames
    tokens: Tensor
    """(B, L)."""
    path_map: Tensor
    """Points (B, P, 2) of the demonstrated paths, map frame."""
    num_points: Tensor
    """(B,)."""
    faced_map: Tensor
    """Points (B, 2) that the drones face when they have arrived, map frame."""
    landmark_map: Tensor
    """Landmarks (B, MAX_LANDMARKS, 2), map frame."""
    landmark_class: Tensor
    """(B, MAX_LANDMARKS), -1 for padding."""
    action: Tensor
    """(Q, 3): the oracle's action at each prediction; meaningless where paths are swapped."""
    is_visible: Tensor
    """(Q, MAX_LANDMARKS) bool: landmarks in view at each prediction."""
    mentioned: Tensor
    """(B, num_classes) bool."""
    is_counted: Tensor
    """(Q,) bool: predictions that are not padding."""


def _pictures(demonstrations: Demonstrations, pose_world: Tensor, field: Tensor, tilt: Tensor | None) -> Tensor:
    """Pictures (K, H, W, 3) uint8 from poses (K, 6), or from above, in fields (K,); tilt (K,): as in `render`."""
    if demonstrations.overhead_px is not None:
        return demonstrations.simulator.render_from_above(field, demonstrations.overhead_px, OVERHEAD_MARGIN)
    return demonstrations.simulator.render(pose_world, field, tilt)


def _visible(demonstrations: Demonstrations, pose_world: Tensor, field: Tensor, tilt: Tensor | None) -> Tensor:
    """Which (K, MAX_LANDMARKS) of a field's landmarks are in the pictures from poses (K, 6) in fields (K,)."""
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
    posed_as: Tensor | None = None,
    sizes: Sizes | None = None,
    rise: Tensor | None = None,
    augmented: AugmentedFlights | None = None,
) -> Selection:
    """The flights (B,) int64, on the host; their map frames rotated by `turn` (B,), radians; padded to `sizes`.

    posed_as (B,) int64: the flights whose poses they take, carried to their own starts; the instruction and the
    demonstrated path stay each flight's own. None: their own poses. rise (B,): added to the height of their pictures,
    metres. augmented: of the flights, on the host.
    """
    # In NumPy on the host: small operations are quick there, and nothing waits for the device.
    chosen = flights.numpy()
    posed = chosen if posed_as is None else posed_as.numpy()
    begin, end = (demonstrations.first_frame.numpy()[posed + after] for after in (0, 1))
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
        padded(posed, spare[0]),
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
    if augmented is not None:
        augmented = replace(augmented, draws=by_flight(augmented.draws, augmented.draws.shape[1]))
    return Selection(numbers, by_flight(turn), by_flight(rise), sizes, augmented)


def take_batch(demonstrations: Demonstrations, selection: Selection) -> Batch:
    """The pictures of a selection, and what the losses need; all on the device."""
    parts = selection.parts()
    flights, flight = parts.flights, parts.frame_flight
    origin, field = demonstrations.origin[flights], demonstrations.field[flights]
    pose = demonstrations.pose_world[parts.frame]
    swapped = restarted(pose, demonstrations.origin[parts.posed_as][flight], origin[flight])
    swapped = torch.cat([swapped[:, :2].clamp(0.0, FIELD_SIZE), swapped[:, 2:]], -1)
    pose = torch.where((flights != parts.posed_as)[flight, None], swapped, pose)
    pose = torch.cat([pose[:, :2], pose[:, 2:3] + selection.rise[flight, None], pose[:, 3:]], -1)
    origin = torch.cat([origin[:, :2], origin[:, 2:] + selection.turn[:, None]], -1)
    augmented, taken, tilt = selection.augmented, pose, None
    if augmented is not None:
        taken, tilt = augmented.taken_from(pose, flight, parts.first_frame)
    image = _pictures(demonstrations, taken, field[flight], tilt)
    if augmented is not None:
        needs, see = augmented.needs_surfaces, demonstrations.simulator.ground_and_sky_at
        image = augmented.repaint(image, flight, see(taken, field[flight], tilt) if needs else None)
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
        tokens=demonstrations.tokens[flights],
        path_map=to_map(demonstrations.path_world[flights], origin),
        num_points=demonstrations.num_points[flights],
        faced_map=to_map(demonstrations.faced_world[flights][:, None], origin)[:, 0],
        landmark_map=to_map(demonstrations.landmark_place[field], origin),
        landmark_class=demonstrations.landmark_class[field],
        action=demonstrations.action[parts.frame[planned]],
        is_visible=_visible(
            demonstrations, taken[planned], field[parts.prediction_flight], None if tilt is None else tilt[planned]
        ),
        mentioned=demonstrations.mentioned[flights],
        is_counted=torch.arange(selection.sizes.predictions, device=flights.device) < parts.num_predictions,
    )
