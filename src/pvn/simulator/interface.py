"""What a simulator is given and what it gives back: its settings, the columns of an action, an observation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from torch import Tensor

from pvn.geometry import Camera
from pvn.simulator.quadcopter import HIGHEST, LOWEST, Airframe
from pvn.world.layout import Layout

Quality = Literal["none", "fast", "full"]
Look = Literal["own", "mujoco", "pybullet"]
"""Who draws the pictures that a policy gets."""

FORWARD, TURN, STOP = 0, 1, 2


class Photographer(Protocol):
    """Takes pictures of fields."""

    def take(self, layouts: Sequence[Layout], pose_world: Tensor, camera: Camera) -> Tensor:
        """Pictures (K, H, W, 3) uint8 of K layouts from drones at poses (K, 6), field frame."""


@dataclass(frozen=True, kw_only=True)
class SimulatorConfig:
    """Settings that all flights share."""

    quality: Quality = "full"
    """"full": 2x2 rays per pixel and sun shadows; "fast": one ray, no shadows; "none": black pictures, for policies
    that use none."""
    step_seconds: float = 0.5
    """Time between actions (authors' code)."""
    altitude: float = 5.0
    """Flying height above the ground, metres (paper)."""
    max_speed: float = 3.0
    """Forward speed is clamped to [0, max_speed], m/s. The authors command up to 6 m/s, but in their simulator the
    drone reaches about half of that; at 3 m/s the oracle takes 16 steps per segment, against 18 in the paper."""
    max_yaw_rate: float = math.radians(60.0)
    """Yaw rate is clamped to [-max_yaw_rate, max_yaw_rate], rad/s; half the authors' value, for the same reason."""
    camera: Camera = Camera()
    """The first-person camera."""
    airframe: Airframe = Airframe()
    """The quadcopter."""
    photographer: Photographer | None = None
    """Takes the pictures instead of our renderer, with the same camera; see `looks`."""

    def __post_init__(self) -> None:
        for name in ("step_seconds", "altitude", "max_speed", "max_yaw_rate"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name}: got {value}, expected a positive number")
        if not LOWEST <= self.altitude <= HIGHEST:
            raise ValueError(f"altitude: got {self.altitude} m, expected {LOWEST} to {HIGHEST:g} m")
        if self.quality not in get_args(Quality):
            raise ValueError(f"quality: got {self.quality!r}, expected one of {get_args(Quality)}")

    @property
    def max_action(self) -> tuple[float, float, float]:
        """The largest forward speed (m/s), yaw rate (rad/s) and stop of an action."""
        return self.max_speed, self.max_yaw_rate, 1.0

    def yaw_rate_by(self, angle: Tensor) -> Tensor:
        """Yaw rates (B,), rad/s, that turn drones by angles (B,), radians, in a step, or as far as they can."""
        return (angle / self.step_seconds).clamp(-self.max_yaw_rate, self.max_yaw_rate)


@dataclass(frozen=True)
class Observation:
    """What a policy gets at each step, for B flights."""

    image: Tensor
    """First-person pictures (B, H, W, 3) uint8, red green blue. Black ones (quality "none") are not to be written to:
    all their pixels are the same byte."""
    pose_world: Tensor
    """Poses (B, 6) float32, field frame: x, y, z (metres), roll, pitch, yaw (radians); see `geometry`."""
    velocity_world: Tensor
    """Velocities (B, 3) float32, field frame, m/s."""
