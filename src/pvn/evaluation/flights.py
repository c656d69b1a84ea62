"""Flights of a pilot over a split, flown in batches and stored, so that any metric can be computed again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pvn.compiling import num_cores
from pvn.corpus.segments import Segment, paragraphs_of
from pvn.evaluation.metrics import FlightMetrics, measure_flights
from pvn.evaluation.pilots import Pilot
from pvn.learning.checkpoint import read_tensors, write_tensors
from pvn.learning.parallel import gathered, num_processes, rank, wait_for_others
from pvn.rollout.flight import FlightLog, fly, one_thread, simulator_for
from pvn.rollout.paragraph import Carried, fly_on, next_starts

FLIGHTS_PER_BATCH = {"cpu": 8, "cuda": 1024}
"""By device, at most. On a CPU each core flies a batch of its own."""
LEAST_BATCHES = 16
"""A CPU's batches are smaller if there would be fewer of them, so that up to 16 cores have one each."""
FLIGHTS_PER_SAVE = {"cpu": 16, "cuda": 1024}
"""Flights that are flown before they are saved, by device."""

FLIGHT_RULES = 6
"""Counts the changes after which the same agent flies differently: of the simulator, or of how agents see, plan and
stop. Flights by different rules are not mixed."""

Batch = Sequence[Sequence[Segment]]
"""Paragraphs, or single segments, that are flown at once."""

MAX_POSE = 1e4
"""Poses in a file of flights beyond this, metres or radians, are mistakes: no flight is that long."""


@dataclass(frozen=True)
class Flights:
    """N flights, stored end to end, on the host."""

    pose_world: Tensor
    """Poses (P, 6) float32, field frame, before each step and after the last."""
    action: Tensor
    """Actions (P - N, 3) float32 of the flights' own steps."""
    num_steps: Tensor
    """(N,) int64; a flight has one pose more."""
    has_stopped: Tensor
    """(N,) bool: whether the policy stopped by itself, before the horizon."""

    def __len__(self) -> int:
        return len(self.num_steps)

    def split(self) -> Iterator[Flights]:
        """The flights one by one."""
        poses = torch.split(self.pose_world, (self.num_steps + 1).tolist())
        actions = torch.split(self.action, self.num_steps.tolist())
        for row, (pose, action) in enumerate(zip(poses, actions, strict=True)):
            yield Flights(pose, action, self.num_steps[row : row + 1], self.has_stopped[row : row + 1])

    def paths(self) -> list[np.ndarray]:
        """Positions (T + 1, 2) of each flight, field frame, metres."""
        return [poses[:, :2].numpy() for poses in torch.split(self.pose_world, (self.num_steps + 1).tolist())]

    def end_headings(self) -> list[float]:
        """Which way each flight faces after its last step, radians, field frame."""
        return self.pose_world[(self.num_steps + 1).cumsum(0) - 1, 5].tolist()

    def metrics(self, segments: Sequence[Segment], altitude: float) -> FlightMetrics:
        """Metrics of the flights; `segments` are what was flown."""
        demonstrations = [segment.demonstration for segment in segments]
        return measure_flights(self.paths(), self.has_stopped.numpy(), demonstrations, altitude=altitude)


NO_FLIGHTS = Flights(
    torch.empty(0, 6), torch.empty(0, 3), torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.bool)
)


def joined(parts: Sequence[Flights]) -> Flights:
    """All flights of all parts, in order."""
    return Flights(*(torch.cat([getattr(part, name) for part in parts]) for name in Flights.__dataclass_fields__))


def flights_of(log: FlightLog) -> Flights:
    """The flights of a log, without the padding after their ends."""
    steps = log.num_steps.cpu()
    pose, action = log.pose_world.float().cpu(), log.action.float().cpu()
    return Flights(
        pose_world=torch.cat([pose[row, : count + 1] for row, count in enumerate(steps.tolist())]),
        action=torch.cat([action[row, :count] for row, count in enumerate(steps.tolist())]),
        num_steps=steps,
        has_stopped=log.has_stopped.cpu(),
    )


def fly_segments(segments: Sequence[Segment], pilot: Pilot, device: str) -> Flights:
    """Flights over segments, all in one batch."""
    tasks = [segment.task for segment in segments]
    policy = pilot.policy_for([segment.demonstration for segment in segments])
    return flights_of(fly(simulator_for(tasks, device=device, config=pilot.config), tasks, policy))


def fly_paragraphs(paragraphs: Sequence[Sequence[Segment]], pilot: Pilot, device: str) -> Flights:
    """Flights over whole paragraphs, all paragraphs in one batch; those of a paragraph one after the other.

    The first flight of a paragraph starts where its first segment does, each other one where the last one ended. A
    miss ends nothing: the next instruction is flown from wherever the drone is.
    """
    flown: list[list[Flights]] = [[] for _ in paragraphs]
    starts = [paragraph[0].task.start for paragraph in paragraphs]
    carried: list[Carried] = [None] * len(paragraphs)
    for place in range(max(map(len, paragraphs))):
        rows = [row for row, paragraph in enumerate(paragraphs) if len(paragraph) > place]
        demonstrations = [paragraphs[row][place].demonstration for row in rows]
        demonstrations = [
            replace(one, task=replace(one.task, start=starts[row]))
            for one, row in zip(demonstrations, rows, strict=True)
        ]
        tasks = [one.task for one in demonstrations]
        earlier = [part for row in rows for part in carried[row] or ()]
        simulator = simulator_for(tasks, device=device, config=pilot.config)
        log, left = fly_on(simulator, tasks, pilot.policy_for(demonstrations), tuple(earlier) or None)
        for index, (row, start) in enumerate(zip(rows, next_starts(log), strict=True)):
            starts[row] = start
            carried[row] = None if left is None else left[index : index + 1]
            flown[row].append(flights_of(log.select(index)))
    return joined([flights for own in flown for flights in own])


def fingerprint(segments: Sequence[Segment], pilot: Pilot, device: str, *, in_paragraphs: bool = False) -> Tensor:
    """(32,) uint8: identifies flights of a pilot over these segments, by these rules, on this kind of device."""
    rules = f"{FLIGHT_RULES} {pilot.fingerprint} {device} {json.dumps(str(pilot.config))}"
    digest = hashlib.sha256(rules.encode())
    if in_paragraphs:
        digest.update(b"in paragraphs")
    for segment in segments:
        task = segment.task
        digest.update(f"{task.instruction} {task.start}".encode() + segment.demonstration.path.tobytes())
    return torch.frombuffer(bytearray(digest.digest()), dtype=torch.uint8)


def _content_digest(flights: Flights, found: Tensor) -> Tensor:
    """(32,) uint8: a checksum of flights and their fingerprint."""
    digest = hashlib.sha256(found.numpy().tobytes())
    for name, value in vars(flights).items():
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode() + value.contiguous().numpy().tobytes())
    return torch.frombuffer(bytearray(digest.digest()), dtype=torch.uint8)


def _check(flights: Flights) -> None:
    """Refuse flights that cannot have been flown: types, shapes, numbers of steps, and poses far beyond any flight."""
    num_poses, num_flights = len(flights.pose_world), len(flights.num_steps)
    for name, kind, shape in (
        ("pose_world", torch.float32, (num_poses, 6)),
        ("action", torch.float32, (num_poses - num_flights, 3)),
        ("num_steps", torch.int64, (num_flights,)),
        ("has_stopped", torch.bool, (num_flights,)),
    ):
        value = getattr(flights, name)
        if value.dtype != kind or tuple(value.shape) != shape:
            raise ValueError(f"{name}: got {value.dtype} {tuple(value.shape)}, expected {kind} {shape}")
    if num_flights and (int(flights.num_steps.min()) < 0 or int(flights.num_steps.max()) >= num_poses):
        raise ValueError("num_steps: got numbers below 0, or more steps than there are poses")
    if int((flights.num_steps + 1).sum()) != num_poses:
        raise ValueError(f"num_steps: do not add up to {num_poses} poses, one more than steps in each flight")
    if not bool((flights.pose_world.abs() <= MAX_POSE).all() and flights.action.isfinite().all()):
        raise ValueError(f"pose_world, action: got NaN, or poses over {MAX_POSE:g} m or rad")


def write_flights(path: Path, flights: Flights, found: Tensor) -> None:
    """Write flights and their fingerprint, with a checksum."""
    write_tensors(path, {**vars(flights), "fingerprint": found, "digest": _content_digest(flights, found)})


def read_flights(path: Path) -> tuple[Flights, Tensor]:
    """The flights in a file, and their fingerprint."""
    tensors = read_tensors(path)
    names = list(Flights.__dataclass_fields__)
    missing = [name for name in (*names, "fingerprint") if name not in tensors]
    if missing:
        raise ValueError(f"{path}: has no {missing[0]}, expected a file of flights; delete it and fly again")
    # Also because a checksum whose name is damaged must not pass for one that was never written.
    unknown = sorted(set(tensors) - {*names, "fingerprint", "digest"})
    if unknown:
        raise ValueError(f"{path}: has {unknown[0]!r:.60}, expected a file of flights; delete it and fly again")
    flights, found = Flights(*(tensors[name] for name in names)), tensors["fingerprint"]
    try:
        _check(flights)
        # Files of earlier versions have no digest.
        if "digest" in tensors and not torch.equal(tensors["digest"], _content_digest(flights, found)):
            raise ValueError("it was changed since it was written")
    except (ValueError, TypeError, RuntimeError) as error:
        raise ValueError(f"{path}: not a file of flights ({error}); delete it and fly again") from None
    return flights, found


def _flown_in_order(
    fly_one: Callable[[Batch], Flights], batches: Sequence[Batch], num_threads: int
) -> Generator[Flights, None, None]:
    """The flights of each batch, in order; as many batches as there are threads are in the air at once."""
    if min(num_threads, len(batches)) < 2:
        yield from map(fly_one, batches)
        return
    # Threads are enough: networks and simulator release the interpreter's lock, and agents keep nothing to themselves.
    pool = ThreadPoolExecutor(num_threads, thread_name_prefix="flight")
    try:
        with one_thread():
            yield from pool.map(fly_one, batches)
    finally:
        pool.shutdown(cancel_futures=True)


def _resumed(path: Path, expected: Tensor, ends: Sequence[int]) -> Flights:
    """The flights that an interrupted evaluation has saved: whole batches, which end at `ends`."""
    flown, found = read_flights(path)
    if not torch.equal(found, expected):
        raise ValueError(
            f"{path}: flights of another agent, corpus, split, device or version of pvn; choose another --out, or "
            "delete it to fly again"
        )
    if len(flown) not in ends:
        raise ValueError(
            f"{path}: got {len(flown)} flights, expected whole batches, which end at {', '.join(map(str, ends[1:3]))} "
            f"and so on up to {ends[-1]}; another version may have begun it: delete it to fly again"
        )
    return flown


def fly_split(
    segments: Sequence[Segment],
    pilot: Pilot,
    path: Path | None = None,
    *,
    device: str = "cpu",
    in_paragraphs: bool = False,
    watch: Callable[[int], None] = lambda done: None,
) -> Flights:
    """Fly all segments; flights are saved in `path` as they are flown, and those already there are not flown again.

    A file with another fingerprint is refused. Without a path nothing is saved. in_paragraphs: segments of a paragraph
    are flown one after the other, each from where the last flight ended; expects them in that order. Processes that
    torchrun has started share the flights, and all get all of them; watch is told of a process's own.
    """
    expected = fingerprint(segments, pilot, device, in_paragraphs=in_paragraphs)
    units = paragraphs_of(segments) if in_paragraphs else [(segment,) for segment in segments]
    size = FLIGHTS_PER_BATCH[device] // max(map(len, units))
    if device == "cpu":
        size = min(size, len(units) // LEAST_BATCHES)
    # In paragraphs, flights stay to the end of their batch; other renderers draw one picture at a time.
    is_alone = pilot.config.look != "own" or (in_paragraphs and device == "cpu")
    size = 1 if is_alone else max(size, 1)
    batches = [units[begin : begin + size] for begin in range(0, len(units), size)]
    fly_batches = partial(
        _fly_batches, pilot=pilot, expected=expected, device=device, in_paragraphs=in_paragraphs, watch=watch
    )
    is_begun = path is not None and path.exists()
    if is_begun and num_processes() > 1:
        assert path is not None
        whole = _resumed(path, expected, range(len(segments) + 1))
        if len(whole) < len(segments):
            raise ValueError(
                f"{path}: got {len(whole)} flights of {len(segments)}, begun by one process; complete it with one, "
                "without torchrun, or delete it to fly again"
            )
    if num_processes() == 1 or is_begun:
        return fly_batches(batches, path)
    own_path = None if path is None else path.with_name(f"{path.stem}.{rank() + 1}-of-{num_processes()}{path.suffix}")
    flown = fly_batches(batches[rank() :: num_processes()], own_path)
    whole = joined(_in_turn(gathered(flown), batches))
    if path is not None and own_path is not None:
        if rank() == 0:
            write_flights(path, whole, expected)
        wait_for_others()  # no part is given up before the whole is written
        own_path.unlink(missing_ok=True)  # a process without flights has written none
    return whole


def _fly_batches(
    batches: Sequence[Batch],
    path: Path | None,
    *,
    pilot: Pilot,
    expected: Tensor,
    device: str,
    in_paragraphs: bool,
    watch: Callable[[int], None],
) -> Flights:
    """Fly batches one after the other, but for those that are in the file already."""
    ends = [0, *accumulate(sum(map(len, batch)) for batch in batches)]
    parts = [_resumed(path, expected, ends)] if path is not None and path.exists() else []
    saved = done = sum(map(len, parts))
    watch(done)

    def fly_one(batch: Batch) -> Flights:
        if in_paragraphs:
            return fly_paragraphs(batch, pilot, device)
        return fly_segments([segment for (segment,) in batch], pilot, device)

    # Other renderers are bound to the thread that began with them.
    num_threads = num_cores() if device == "cpu" and pilot.config.look == "own" else 1
    # Closed at once, also by Ctrl-C: otherwise the threads would fly what is left before the program ends.
    with closing(_flown_in_order(fly_one, batches[ends.index(done) :], num_threads)) as flown:
        for flights in flown:
            parts.append(flights)
            done += len(flights)
            is_due = done - saved >= FLIGHTS_PER_SAVE[device] or done == ends[-1]
            if is_due and path is not None:
                parts, saved = [joined(parts)], done
                write_flights(path, parts[0], expected)
            watch(done)
    return joined(parts) if parts else NO_FLIGHTS


def _in_turn(shares: Sequence[Flights], batches: Sequence[Batch]) -> list[Flights]:
    """The flights of all batches in order, from those of processes that took turns at them."""
    left = [share.split() for share in shares]
    counts = [sum(map(len, batch)) for batch in batches]
    return [next(left[place % len(left)]) for place, count in enumerate(counts) for _ in range(count)]
