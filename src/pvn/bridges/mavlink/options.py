"""What a user can choose about MAVLink: the drone to fly, and how our simulator acts as an autopilot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pvn.bridges.mavlink.limits import Limits
from pvn.bridges.mavlink.modes import Firmware
from pvn.checks import check_limits

SCRIPT_PORT, GROUND_STATION_PORT = 14540, 14550
"""The ports on which scripts and ground stations wait for an autopilot to speak."""


@dataclass(frozen=True, kw_only=True)
class MavlinkOptions:
    """The drone to fly, and within which limits."""

    address: str = f"udpin://0.0.0.0:{SCRIPT_PORT}"
    """Where the autopilot is, as MAVSDK writes it: udpin:// waits for it to speak to a port of this machine; the others
    are udpout://192.168.1.7:14550, tcpin://, tcpout:// and serial:///dev/ttyUSB0:57600."""
    camera: str
    """The drone's camera: the URL of a stream, the number of a device, or a folder of pictures."""
    calibration: Path | None = None
    """File with the camera's calibration (docs/mavlink.md). By default the camera has the agent's field of view and
    tilt."""
    arm: bool = False
    """Arm the drone and fly it. Without, a dry run shows what it would be sent."""
    limits: Limits = Limits()


@dataclass(frozen=True, kw_only=True)
class MavlinkServerOptions:
    """How our simulator acts as an autopilot."""

    host: str = "127.0.0.1"
    """Address to listen on; by default only this machine can connect. Anyone who can reach it can fly."""
    port: int = 14580
    """Port to speak from and listen on, by default that of PX4's simulator; 0 picks a free one."""
    camera_port: int = 8088
    """Port of the camera's stream; 0 picks a free one."""
    speed: float = 1.0
    """Simulated seconds per second."""
    quality: Literal["fast", "full"] = "full"
    """How the camera's pictures are rendered: full has smooth edges and shadows; fast is four times faster."""
    width: int = 128
    """Width of a picture, pixels."""
    height: int = 72
    """Height of a picture, pixels."""
    start: tuple[float, float, float] | None = None
    """Where the drone stands: x, y (metres) and yaw (radians); by default in the middle, facing north."""
    autopilot: Firmware = "px4"
    """Whose modes the autopilot has. ArduPilot takes off and is guided in GUIDED."""

    def __post_init__(self) -> None:
        check_limits(self, "port camera_port", 0, 65535)
