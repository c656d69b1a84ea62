"""The one roll-out loop: any policy flies any number of tasks to their ends, in one batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from pvn.rollout.policy import FlightSimulator, OnStep, Policy, SelectingSimulator, rows_of
from pvn.simulator.interface import STOP
from pvn.world.task import HORIZON, Task

FEW_FLIGHTS = 8
"""A CPU flies up to this many at once with one thread."""
SHRUNK_AT = 0.75
"""Flights that have ended leave their batch once at most this share of it still flies: not after every end, since maps
are copied."""


@dataclass(frozen=True)
class FlightLog:
    """B flights of at most T steps; after a flight's end its last pose and velocity are repeated."""

    pose_world: Tensor
    """Poses (B, T + 1, 6), field frame, before each step and after the last."""
    velocity_world: Tensor
    """Velocities (B, T + 1, 3), field frame, m/s, at the same times."""
    action: Tensor
    """Actions (B, T, 3) of the policy; (0, 0, 1) after a flight's end."""
    num_steps: Tensor
    """Number of steps (B,) of each flight, including the one that stops."""
    has_stopped: Tensor
    """Whether (B,) the policy stopped the flight; otherwise it ended at the horizon."""

    @property
    def end_world(self) -> Tensor:
        """Where (B, 2) the flights ended, field frame, metres: after the step that stops, in which they brake."""
        return self.pose_world[:, -1, :2]

    def select(self, flight: int) -> FlightLog:
        """One of the flights (B = 1), with its padding."""
        return FlightLog(**{name: value[flight : flight + 1] for name, value in vars(self).items()})

    def goal_distance(self, goals: Sequence[Sequence[float]]) -> Tensor:
        """Metres (B,) between the end of each flight and its goal (x, y), field frame."""
        return (self.end_world - torch.tensor(goals).to(self.pose_world)).norm(dim=-1)

    def distance_flown(self) -> Tensor:
        """Distance (B,) flown along the ground, metres."""
        return self.pose_world[:, :, :2].diff(dim=1).norm(dim=-1).sum(dim=1)


def join_logs(logs: Sequence[FlightLog]) -> FlightLog:
    """The flights of several logs in one log; shorter ones are padded with their last pose and velocity."""
    longest = max(log.action.shape[1] for log in logs)

    def padded(values: Tensor, length: int, padding: Tensor) -> Tensor:
        return torch.cat([values, padding.expand(-1, length - values.shape[1], -1)], 1)

    stop = torch.tensor([[[0.0, 0.0, 1.0]]])
    return FlightLog(
        pose_world=torch.cat([padded(log.pose_world, longest + 1, log.pose_world[:, -1:]) for log in logs]),
        velocity_world=torch.cat([padded(log.velocity_world, longest + 1, log.velocity_world[:, -1:]) for log in logs]),
        action=torch.cat([padded(log.action, longest, stop.expand(len(log.action), -1, -1)) for log in logs]),
        num_steps=torch.cat([log.num_steps for log in logs]),
        has_stopped=torch.cat([log.has_stopped for log in logs]),
    )


@contextmanager
def one_thread() -> Iterator[None]:
    """A context in which torch uses one thread.

    With a second, networks as small as ours are little faster, and many times slower as soon as another process wants a
    core too: the threads wait for each other dozens of times in a step.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _fly_to_the_end(
    simulator: FlightSimulator,
    tasks: Sequence[Task],
    policy: Policy,
    horizon: int,
    watch: OnStep | None,
    watches_all: bool,
) -> FlightLog:
    """Step until all flights have stopped or reached the horizon."""
    device = simulator.device
    observation = simulator.reset(torch.tensor([task.start for task in tasks], dtype=torch.float64))
    memory = policy.begin(tasks, device)
    poses, velocities, actions = [observation.pose_world], [observation.velocity_world], []
    num_steps = torch.zeros(len(tasks), dtype=torch.int64, device=device)
    has_stopped = torch.ones(len(tasks), dtype=torch.bool, device=device)
    stop = torch.zeros((len(tasks), 3), device=device)
    stop[:, STOP] = 1.0
    # Of the flights that are in the simulator: which they are, whether each still flies, and which of them do.
    flights, is_flying = torch.arange(len(tasks), device=device), torch.ones_like(has_stopped)
    left = flights
    for step in range(horizon):
        action, memory = policy.act(observation, memory)
        action = action.to(stop)
        if watch is not None:
            watch(step, observation, action, memory)
        is_shrunk = (watch is None or not watches_all) and len(left) <= SHRUNK_AT * len(flights)
        if is_shrunk and getattr(policy, "memory_has_rows", False) and isinstance(simulator, SelectingSimulator):
            simulator, memory = simulator.select(left), rows_of(memory, left)
            flights, is_flying, action = flights[left], is_flying[left], action[left]
            left = torch.arange(len(flights), device=device)
        # A flight that has ended brakes, regardless of the policy's action.
        action = torch.where(is_flying[:, None], action, stop[: len(flights)])
        num_steps[flights] += is_flying
        observation = simulator.step(action)
        # The braking step belongs to the flight; hovering after it does not.
        poses.append(poses[-1].index_copy(0, flights[left], observation.pose_world[left]))
        velocities.append(velocities[-1].index_copy(0, flights[left], observation.velocity_world[left]))
        actions.append(stop.index_copy(0, flights, action))
        is_flying = is_flying & (action[:, STOP] <= 0.5)
        left = is_flying.nonzero()[:, 0]
        if not len(left):
            break
    has_stopped[flights[left]] = False
    return FlightLog(
        pose_world=torch.stack(poses, 1),
        velocity_world=torch.stack(velocities, 1),
        action=torch.stack(actions, 1),
        num_steps=num_steps,
        has_stopped=has_stopped,
    )


def fly(
    simulator: FlightSimulator,
    tasks: Sequence[Task],
    policy: Policy,
    *,
    horizon: int = HORIZON,
    watch: OnStep | None = None,
    watches_all: bool = True,
) -> FlightLog:
    """Fly every task until the policy stops, or for `horizon` steps.

    The policy acts on the observation before the step. A flight that has stopped brakes and hovers until the others
    end, or leaves the batch if policy and simulator can do without it; the simulator that was given then stays where it
    was when the first ones left. `watch` is called before each step, for pictures
    and recordings; it sees all flights in every step, unless watches_all is False. Repeated on the same device, flights
    are identical to the bit.
    """
    if len(tasks) != simulator.num_flights:
        raise ValueError(
            f"tasks: got {len(tasks)}, expected {simulator.num_flights}, one for each flight of the simulator"
        )
    if horizon < 1:
        raise ValueError(f"horizon: got {horizon}, expected at least 1 step")
    for flight, (task, field) in enumerate(zip(tasks, simulator.field_index.tolist(), strict=True)):
        layout = simulator.layouts[field]
        if layout is not task.layout and layout != task.layout:
            raise ValueError(
                f"flight {flight}: got a field that differs from its task's layout, expected the same; make the "
                "simulator with simulator_for(tasks)"
            )
    # cuDNN's fastest convolutions sum in no fixed order, so repeating a flight could give a different one.
    before = torch.backends.cudnn.deterministic
    torch.backends.cudnn.deterministic = True
    is_large = simulator.device.type == "cpu" and len(tasks) > FEW_FLIGHTS
    try:
        with nullcontext() if is_large else one_thread():
            return _fly_to_the_end(simulator, tasks, policy, horizon, watch, watches_all)
    finally:
        torch.backends.cudnn.deterministic = before
