"""Flights of a system over a split, flown many at once and kept, so that any figure can be computed again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pvn.corpus.segments import Segment
from pvn.evaluation.metrics import FlightMetrics, measure
from pvn.learning.checkpoint import read_tensors, write_tensors
from pvn.rollout.flight import FlightLog, fly, simulator_for
from pvn.rollout.policy import Policy
from pvn.simulator.simulator import SimulatorConfig

AT_ONCE = {"cpu": 1, "cuda": 1024}
"""Flights in one batch, by device. A batch flies until its last flight has stopped, half of the time for flights that
have; a CPU gains nothing from batches that would make up for it."""
SAVED_AT_ONCE = {"cpu": 16, "cuda": 1024}
"""Flights after which all that were flown are written down, by device."""


@dataclass(frozen=True)
class Flights:
    """N flights as they were flown, end to end, on the host."""

    pose_world: Tensor
    """Poses (P, 6) float32, field frame, before each step and after the last."""
    action: Tensor
    """Actions (P - N, 3) float32 of the flights' own steps."""
    num_steps: Tensor
    """(N,) int64; a flight has one pose more."""
    has_stopped: Tensor
    """(N,) bool: whether the policy itself said stop."""

    def __len__(self) -> int:
        return len(self.num_steps)

    def paths(self) -> list[np.ndarray]:
        """Positions (T + 1, 2) of each flight, field frame, metres."""
        return [poses[:, :2].numpy() for poses in torch.split(self.pose_world, (self.num_steps + 1).tolist())]

    def metrics(self, segments: Sequence[Segment], altitude: float) -> FlightMetrics:
        """What the flights are worth; `segments` are what was flown."""
        tasks = [segment.task for segment in segments]
        return measure(self.paths(), self.has_stopped.numpy(), tasks, altitude=altitude)


def joined(parts: Sequence[Flights]) -> Flights:
    """All flights of all parts, in order."""
    return Flights(*(torch.cat([getattr(part, name) for part in parts]) for name in Flights.__dataclass_fields__))


def flights_of(log: FlightLog) -> Flights:
    """The flights of a log, without what it repeats after their ends."""
    steps = log.num_steps.cpu()
    pose, action = log.pose_world.float().cpu(), log.action.float().cpu()
    return Flights(
        pose_world=torch.cat([pose[row, : count + 1] for row, count in enumerate(steps.tolist())]),
        action=torch.cat([action[row, :count] for row, count in enumerate(steps.tolist())]),
        num_steps=steps,
        has_stopped=log.has_stopped.cpu(),
    )


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch computes in one thread meanwhile: two are no faster for a flight, and spin where others want the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _flown(segments: Sequence[Segment], policy: Policy, config: SimulatorConfig, device: str) -> Flights:
    tasks = [segment.task for segment in segments]
    with one_thread():
        return flights_of(fly(simulator_for(tasks, device=device, config=config), tasks, policy))


def fingerprint(segments: Sequence[Segment], system: str, config: SimulatorConfig) -> Tensor:
    """(32,) uint8: flights of the same system over the same segments have the same; others do not."""
    digest = hashlib.sha256(f"{system} {json.dumps(str(config))}".encode())
    for segment in segments:
        task = segment.task
        digest.update(f"{task.instruction} {task.start}".encode() + task.path.tobytes())
    return torch.frombuffer(bytearray(digest.digest()), dtype=torch.uint8)


def read_flights(path: Path) -> tuple[Flights, Tensor]:
    """The flights in a file, and their fingerprint."""
    tensors = read_tensors(path)
    names = list(Flights.__dataclass_fields__)
    missing = [name for name in (*names, "fingerprint") if name not in tensors]
    if missing:
        raise ValueError(f"{path}: has no {missing[0]}, expected a file of flights; delete it and fly again")
    return Flights(*(tensors[name] for name in names)), tensors["fingerprint"]


def fly_split(
    segments: Sequence[Segment],
    policy: Policy,
    path: Path,
    mark: Tensor,
    *,
    config: SimulatorConfig = SimulatorConfig(),
    device: str = "cpu",
    watch: Callable[[int], None] = lambda done: None,
) -> Flights:
    """Fly all segments; flights go to `path` as they are flown, and those already there are not flown again.

    mark: their fingerprint; flights with another one are refused.
    """
    parts: list[Flights] = []
    if path.exists():
        flown, found = read_flights(path)
        if not torch.equal(found, mark):
            raise ValueError(
                f"{path}: flights of another system, corpus, split or device; choose another --out, or delete it to "
                "fly again"
            )
        parts = [flown]
    done = sum(map(len, parts))
    watch(done)
    while done < len(segments):
        until = min(done + SAVED_AT_ONCE[device], len(segments))
        for begin in range(done, until, AT_ONCE[device]):
            end = min(begin + AT_ONCE[device], until)
            parts.append(_flown(segments[begin:end], policy, config, device))
            watch(end)
        together = joined(parts)
        write_tensors(path, {**vars(together), "fingerprint": mark})
        parts, done = [together], until
    return replace(parts[0])
