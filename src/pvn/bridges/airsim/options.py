"""What a user can choose about AirSim: the world to fly in, and how our field is served to scripts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pvn.checks import check_limits


@dataclass(frozen=True, kw_only=True)
class AirSimOptions:
    """The AirSim world to fly in, and how."""

    host: str = "127.0.0.1"
    """The machine that AirSim runs on."""
    port: int = 41451
    """The port that AirSim listens on."""
    vehicle: str = ""
    """The vehicle's name in AirSim's settings.json; by default the first."""
    camera: str = "0"
    """The name of the camera that the agent sees through."""
    keep_camera: bool = False
    """Leave the camera's tilt as it is. Otherwise the camera is turned to the tilt of the agent's own."""
    stepped: bool = False
    """Pause the world while the agent computes, so that the flight does not depend on the speed of this computer."""
    timeout_s: int = 10
    """How long AirSim may take to answer, seconds."""

    def __post_init__(self) -> None:
        check_limits(self, "port", 1, 65535)
        check_limits(self, "timeout_s", 1)


@dataclass(frozen=True, kw_only=True)
class AirSimServerOptions:
    """How our field is served to AirSim scripts."""

    host: str = "127.0.0.1"
    """Address to listen on; by default only this machine can connect. Anyone who can reach it can fly."""
    port: int = 41451
    """Port to listen on; 0 picks a free one."""
    speed: float = 1.0
    """Simulated seconds per second; inf: as fast as possible while a client waits, and paused otherwise."""
    quality: Literal["fast", "full"] = "full"
    """How images are rendered: full has smooth edges and shadows; fast is four times faster."""
    width: int = 256
    """Width of an image, pixels, unless the settings say otherwise."""
    height: int = 144
    """Height of an image, pixels, unless the settings say otherwise."""
    settings: Path | None = None
    """AirSim's settings.json: vehicles, cameras, image sizes, sensors, origin, wind."""
    vehicle: str = "SimpleFlight"
    """The vehicle's name, unless the settings name it; scripts may leave it out."""
    border: Literal["stop", "refuse", "open"] = "stop"
    """What happens to goals more than 10 m beyond the fences: the drone flies only as far as that (stop), the motion is
    refused, or there is no border (open)."""

    def __post_init__(self) -> None:
        check_limits(self, "port", 0, 65535)
