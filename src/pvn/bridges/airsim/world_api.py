"""AirSim's calls about the server, its clock, its vehicles and the world as a whole."""

from __future__ import annotations

import math
from collections.abc import Awaitable
from typing import Any

from pvn.bridges.airsim.drone import Drone
from pvn.bridges.airsim.host import Host
from pvn.bridges.airsim.settings import VehicleSettings
from pvn.bridges.airsim.wire_types import Pose, parse_text
from pvn.bridges.shared.frames import Vector, roll_pitch_yaw, swap_vector
from pvn.bridges.shared.vehicle import TICK_SECONDS

SERVER_VERSION = 4  # of Cosys-AirSim, whose client requires at least this
MIN_CLIENT_VERSION = 1  # of AirSim 1.8
MAX_WIND = 30.0  # m/s


def ping(host: Host) -> bool:
    """Answer, to show that the server is alive."""
    return True


def getServerVersion(host: Host) -> int:
    """The version of the API."""
    return SERVER_VERSION


def getMinRequiredClientVersion(host: Host) -> int:
    """The oldest client version that is supported."""
    return MIN_CLIENT_VERSION


def enableApiControl(host: Host, drone: Drone, is_enabled: bool) -> None:
    """Allow or forbid clients to fly the vehicle."""
    drone.vehicle.has_api_control = is_enabled


def isApiControlEnabled(host: Host, drone: Drone) -> bool:
    """Whether clients may fly the vehicle."""
    return drone.vehicle.has_api_control


def armDisarm(host: Host, drone: Drone, arm: bool) -> bool:
    """Arm or disarm the vehicle and return whether that worked; in the air it cannot be disarmed."""
    if not arm and not drone.vehicle.is_landed:
        host.tell_once("armDisarm: a drone in the air is not disarmed here; land first")
        return False
    drone.vehicle.is_armed = arm
    return True


def listVehicles(host: Host) -> list[str]:
    """The names of all vehicles."""
    return list(host.drones)


def simAddVehicle(host: Host, vehicle_name: str, vehicle_type: Any, pose: Pose, pawn_path: Any = "") -> bool:
    """Put another quadcopter on the ground; its pose is NED from the middle of the field."""
    if not vehicle_name or vehicle_name in host.drones:
        return False
    if str(vehicle_type).lower() != "simpleflight":
        raise ValueError(f"vehicle_type: got {str(vehicle_type)[:80]!r}, expected simpleflight")
    position, rotation = pose
    host.add_drone(vehicle_name, VehicleSettings(position=position, yaw=roll_pitch_yaw(rotation)[2]))
    return True


def simPause(host: Host, is_paused: bool) -> None:
    """Stop the clock, or let it run."""
    host.set_paused(is_paused)


def simIsPaused(host: Host) -> bool:
    """Whether the clock is stopped."""
    return host.is_paused


def simContinueForTime(host: Host, seconds: float) -> Awaitable[None]:
    """Let the clock run for some seconds, then stop it; answered once it has stopped."""
    return host.continue_for(seconds)


def simContinueForFrames(host: Host, frames: float) -> Awaitable[None]:
    """Let the clock run for some ticks of 10 ms, then stop it; answered once it has stopped."""
    return host.continue_for(TICK_SECONDS * frames)


def reset(host: Host) -> None:
    """Restore the initial state, except for the clock and the objects: vehicles are at home, armed as at first."""
    host.reset()


def simSetWind(host: Host, wind: Vector) -> None:
    """Let the air move, m/s, north east down."""
    if math.hypot(*wind) > MAX_WIND:
        raise ValueError(f"wind: got {math.hypot(*wind):.1f} m/s, expected at most {MAX_WIND:g}")
    host.set_wind(swap_vector(wind))


def getSettingsString(host: Host) -> str:
    """The text of the settings.json in use."""
    return host.settings.text


def simPrintLogMessage(host: Host, message: Any, message_param: Any = "", severity: Any = 0) -> None:
    """Print a message on the server's console."""
    text = f"{parse_text(message, 'message', 2000)} {parse_text(message_param, 'message_param', 2000)}"
    host.tell_once(text.strip(), is_from_script=True)


def isRecording(host: Host) -> bool:
    """Whether a recording runs: never."""
    return False


WITHOUT_EFFECT: tuple[tuple[str, Any], ...] = (
    (
        """simPlotArrows simPlotLineList simPlotLineStrip simPlotPoints simPlotStrings simPlotTransforms
        simPlotTransformsWithNames simFlushPersistentMarkers simSetTraceLine simEnableWeather simSetWeatherParameter
        simSetTimeOfDay startRecording stopRecording setAngleLevelControllerGains setAngleRateControllerGains
        setVelocityControllerGains setPositionControllerGains""",
        None,
    ),
    (
        """simRunConsoleCommand simSetLightIntensity simSetObjectMaterial simSetObjectMaterialFromTexture
        simCreateVoxelGrid simLoadLevel""",
        False,
    ),
    ("simSwapTextures simGetMeshPositionVertexBuffers", []),
)
"""Calls that are accepted although there is nothing here that they could change, and what they return."""
