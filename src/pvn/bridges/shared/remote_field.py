"""A field that is not ours: one drone, in another simulator or on an autopilot, flown like our own simulator."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from pvn.rollout.flight import FlightLog
from pvn.simulator.interface import FORWARD, STOP, TURN, Observation, SimulatorConfig
from pvn.world.layout import Layout

START_TOLERANCE_M = 1.0


class FlightAborted(ConnectionError):
    """The flight cannot continue. The drone was asked to hover, if possible; the field's `log` holds the flight."""


class Command(NamedTuple):
    """What a policy wants for one step, within the limits of the simulator's configuration."""

    speed: float
    """Forward, m/s."""
    yaw_rate: float
    """rad/s, left is positive."""
    is_stop: bool


class RemoteField(ABC):
    """One flight, as the roll-out loop sees it. A bridge says how to take off, observe, fly a step and hover.

    The field frame is ours: x east, y north, z up; the origin of the other world's north, east, down is the middle of
    the field. Heights are above the ground from which the drone took off.
    """

    num_flights = 1
    device = torch.device("cpu")
    is_dry_run = False
    """Whether the drone stays where it is, and only decisions are made."""

    def __init__(self, config: SimulatorConfig, layout: Layout | None) -> None:
        """layout: the landmarks of the field, where they are known."""
        self.config = config
        self.layouts = [Layout(()) if layout is None else layout]
        self.field_index = torch.zeros(1, dtype=torch.int64)
        self._observed: list[Observation] = []
        self._actions: list[Tensor] = []

    @abstractmethod
    def close(self) -> None:
        """Disconnect."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def take_off(self) -> tuple[float, float, float]:
        """Climb to the configured altitude; returns x, y (metres) and yaw (radians) of the drone there."""

    @abstractmethod
    def hover(self) -> bool:
        """Ask the drone to hover; returns False if it could not be asked."""

    @abstractmethod
    def _begin(self, start: tuple[float, float, float]) -> Observation:
        """Get ready for a flight from x, y (metres) and yaw (radians); returns the first observation."""

    @abstractmethod
    def _fly_step(self, command: Command) -> Observation:
        """Fly one step; returns the observation after it."""

    def reset(self, start: Tensor) -> Observation:
        """Begin a flight at start (1, 3): x, y (metres) and yaw (radians), where the drone has to be already."""
        x, y, yaw = start[0].tolist()
        observation = self._begin((x, y, yaw))
        distance = math.dist(observation.pose_world[0, :2].tolist(), (x, y))
        if distance > START_TOLERANCE_M:
            raise ValueError(
                f"start: got ({x:g}, {y:g}), but the drone is {distance:.1f} m away; start the task where take_off() "
                "says the drone is"
            )
        self._observed, self._actions = [observation], []
        return observation

    def step(self, action: Tensor) -> Observation:
        """Fly one step by action (1, 3), forward speed (m/s), yaw rate (rad/s), stop, and observe."""
        if action.shape != (1, 3) or not bool(torch.isfinite(action).all()):
            raise ValueError(f"action: got {action.tolist()}, expected (1, 3) finite numbers; the drone was not moved")
        wanted, config = action[0].double(), self.config
        is_stop = float(wanted[STOP]) > 0.5
        speed = 0.0 if is_stop else float(wanted[FORWARD].clamp(0, config.max_speed))
        yaw_rate = 0.0 if is_stop else float(wanted[TURN].clamp(-config.max_yaw_rate, config.max_yaw_rate))
        observation = self._fly_step(Command(speed, yaw_rate, is_stop))
        self._observed.append(observation)
        self._actions.append(action.float())
        return observation

    @property
    def num_steps(self) -> int:
        """Steps flown so far."""
        return len(self._actions)

    def log(self) -> FlightLog | None:
        """The flight so far; None before its first step."""
        if not self._actions:
            return None
        action = torch.stack(self._actions, 1)
        return FlightLog(
            pose_world=torch.stack([one.pose_world for one in self._observed], 1),
            velocity_world=torch.stack([one.velocity_world for one in self._observed], 1),
            action=action,
            num_steps=torch.tensor([action.shape[1]]),
            has_stopped=action[:, -1, STOP] > 0.5,
        )

    def report(self) -> dict[str, Any]:
        """For JSON: what was flown so far."""
        log = self.log()
        return {
            "is_dry_run": self.is_dry_run,
            "has_stopped": log is not None and bool(log.has_stopped[0]),
            "poses": [] if log is None else log.pose_world[0].tolist(),
            "actions": [] if log is None else log.action[0].tolist(),
        }
