"""Flights of a pilot over a split, flown in batches and stored, so that any metric can be computed again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Sequence
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
from pvn.rollout.flight import FlightLog, fly, one_thread
from pvn.rollout.paragraph import Carried, fly_on, next_starts
from pvn.simulator.simulator import simulator_for

FLIGHTS_PER_BATCH = {"cpu": 8, "cuda": 1024}
"""By device, at most. On a CPU each core flies another batch."""
LEAST_BATCHES = 16
"""A CPU's batches are smaller if there would be fewer than these, so that up to 16 cores have one each."""
FLIGHTS_PER_SAVE = {"cpu": 16, "cuda": 1024}
"""Flights that are flown before they are saved, by device."""

FLIGHT_RULES = 6
"""Counts the changes after which the same agent flies differently: in the simulator, or in how agents see, plan and
stop. Flights by different rules are not mixed."""

Batch = Sequence[Sequence[Segment]]
"""Paragraphs, or single segments, that are flown at once."""


@dataclass(frozen=True)
class Flights:
    """N flights, end to end, on the host."""

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

    def paths(self) -> list[np.ndarray]:
        """Positions (T + 1, 2) of each flight, field frame, metres."""
        return [poses[:, :2].numpy() for poses in torch.split(self.pose_world, (self.num_steps + 1).tolist())]

    def end_headings(self) -> list[float]:
        """Which way each flight faces after its last step, radians, field frame."""
        return self.pose_world[(self.num_steps + 1).cumsum(0) - 1, 5].tolist()

    def metrics(self, segments: Sequence[Segment], altitude: float) -> FlightMetrics:
        """Metrics of the flights over these segments, one for each."""
        demonstrations = [segment.demonstration for segment in segments]
        return measure_flights(self.paths(), self.has_stopped.numpy(), demonstrations, altitude=altitude)


NO_FLIGHTS = Flights(
    torch.empty(0, 6), torch.empty(0, 3), torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.bool)
)


def joined(parts: Sequence[Flights]) -> Flights:
    """All flights of all parts, in order."""
    names = Flights.__dataclass_fields__
    return Flights(*(torch.cat([getattr(part, name) for part in (NO_FLIGHTS, *parts)]) for name in names))


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
    """Flights over whole paragraphs, all paragraphs in one batch, the instructions of a paragraph one after the other.

    The first flight of a paragraph starts where its first segment does, every other where the one before ended. A miss
    ends nothing: the next instruction is flown from wherever the drone is.
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


def write_flights(path: Path, flights: Flights, found: Tensor) -> None:
    """Write flights and their fingerprint."""
    write_tensors(path, {**vars(flights), "fingerprint": found})


def read_flights(path: Path) -> tuple[Flights, Tensor]:
    """The flights in a file, and their fingerprint."""
    tensors, names = read_tensors(path), [*Flights.__dataclass_fields__, "fingerprint"]
    if sorted(tensors) != sorted(names):
        raise ValueError(
            f"{path}: has {', '.join(sorted(tensors))}, expected {', '.join(names)}: not a file of flights of this "
            "version; delete it and fly again"
        )
    *values, found = (tensors[name] for name in names)
    return Flights(*values), found


def _in_order(
    fly_one: Callable[[Batch], Flights], batches: Sequence[Batch], num_threads: int
) -> Generator[Flights, None, None]:
    """The flights of each batch, in order; as many batches as there are threads fly at once."""
    if min(num_threads, len(batches)) < 2:
        yield from map(fly_one, batches)
        return
    # Threads are enough: networks and simulator release the interpreter's lock, and agents keep no state.
    pool = ThreadPoolExecutor(num_threads, thread_name_prefix="flight")
    try:
        with one_thread():
            yield from pool.map(fly_one, batches)
    finally:
        pool.shutdown(cancel_futures=True)


def _resumed(path: Path, expected: Tensor, ends: Sequence[int]) -> Flights:
    """The flights that an interrupted evaluation has saved: whole batches, which end at `ends`."""
    flights, found = read_flights(path)
    if not torch.equal(found, expected):
        raise ValueError(
            f"{path}: flights of another agent, corpus, split, device or version of pvn; choose another --out, or "
            "delete it to fly again"
        )
    if len(flights) not in ends:
        raise ValueError(
            f"{path}: got {len(flights)} flights, expected whole batches, which end at "
            f"{', '.join(map(str, ends[1:3]))} and so on up to {ends[-1]}; delete it to fly again"
        )
    return flights


def _batches(segments: Sequence[Segment], pilot: Pilot, device: str, in_paragraphs: bool) -> list[Batch]:
    """What is flown at once."""
    units = paragraphs_of(segments) if in_paragraphs else [(segment,) for segment in segments]
    size = FLIGHTS_PER_BATCH[device] // max(map(len, units))
    if device == "cpu":
        size = min(size, len(units) // LEAST_BATCHES)
    # In paragraphs, flights stay to the end of their batch; other renderers draw one picture at a time.
    is_alone = pilot.config.photographer is not None or (in_paragraphs and device == "cpu")
    size = 1 if is_alone else max(size, 1)
    return [units[begin : begin + size] for begin in range(0, len(units), size)]


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
    are flown one after the other, each from where the last flight ended; expects them in that order. watch: called
    with the number of flights that are done. Processes that torchrun has started fly a part each, and all get all
    flights; each watches its own.
    """
    expected = fingerprint(segments, pilot, device, in_paragraphs=in_paragraphs)
    batches = _batches(segments, pilot, device, in_paragraphs)
    fly_part = partial(_fly_batches, pilot=pilot, expected=expected, device=device, in_paragraphs=in_paragraphs)
    count, number = num_processes(), rank()
    if count == 1 or (path is not None and path.exists()):
        return fly_part(batches, path, watch=watch)
    share = -(-len(batches) // count)
    own_path = None if path is None else path.with_name(f"{path.stem}.{number + 1}-of-{count}{path.suffix}")
    own = fly_part(batches[number * share : (number + 1) * share], own_path, watch=watch)
    whole = joined(gathered(own))
    if path is not None and own_path is not None:
        if number == 0:
            write_flights(path, whole, expected)
        wait_for_others()  # a part is deleted only once the whole is written
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
    """Fly the batches that are not in the file already."""
    ends = [0, *accumulate(sum(map(len, batch)) for batch in batches)]
    parts = [_resumed(path, expected, ends)] if path is not None and path.exists() else []
    saved = done = sum(map(len, parts))
    watch(done)

    def fly_one(batch: Batch) -> Flights:
        if in_paragraphs:
            return fly_paragraphs(batch, pilot, device)
        return fly_segments([segment for (segment,) in batch], pilot, device)

    # Other renderers are bound to the thread that began with them.
    num_threads = num_cores() if device == "cpu" and pilot.config.photographer is None else 1
    # Closed at once, also by Ctrl-C: otherwise the threads would fly what is left before the program ends.
    with closing(_in_order(fly_one, batches[ends.index(done) :], num_threads)) as flown:
        for flights in flown:
            parts.append(flights)
            done += len(flights)
            is_due = done - saved >= FLIGHTS_PER_SAVE[device] or done == ends[-1]
            if is_due and path is not None:
                parts, saved = [joined(parts)], done
                write_flights(path, parts[0], expected)
            watch(done)
    return joined(parts)
