"""A flight in a simulator or on an autopilot that is not ours: why it ended early, and what was flown until then."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pvn.rollout.flight import FlightLog
from pvn.simulator.interface import STOP


class FlightAborted(ConnectionError):
    """The flight cannot continue. The drone was told to hover, if it could be; the field's `log` holds the flight."""


def log_of_steps(poses: Sequence[Tensor], velocities: Sequence[Tensor], actions: Sequence[Tensor]) -> FlightLog | None:
    """One flight of T steps: T + 1 poses (1, 6) and velocities (1, 3), field frame, and T actions (1, 3).

    None before the first step.
    """
    if not actions:
        return None
    action = torch.stack(list(actions), 1)
    return FlightLog(
        pose_world=torch.stack(list(poses), 1),
        velocity_world=torch.stack(list(velocities), 1),
        action=action,
        num_steps=torch.tensor([action.shape[1]]),
        has_stopped=action[:, -1, STOP] > 0.5,
    )
