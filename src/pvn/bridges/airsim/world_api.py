"""The calls of the AirSim API about the world and the simulation; those that can do nothing here say so, once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from pvn.bridges.airsim.host import Host
from pvn.bridges.airsim.settings import VehicleSettings
from pvn.bridges.airsim.wire_types import parse_pose, parse_text, parse_vector
from pvn.bridges.shared.frames import roll_pitch_yaw, swap_vector

MAX_WIND = 30.0  # m/s


def simSetWind(host: Host, wind: Any) -> None:
    """Let the air move, m/s, north east down."""
    velocity = parse_vector(wind, "wind")
    if math.hypot(*velocity) > MAX_WIND:
        raise ValueError(f"wind: got {math.hypot(*velocity):.1f} m/s, expected at most {MAX_WIND:g}")
    host.set_wind(swap_vector(velocity))


def simAddVehicle(host: Host, vehicle_name: Any, vehicle_type: Any, pose: Any, pawn_path: Any = "") -> bool:
    """Put another quadcopter on the ground; its pose is NED from the middle of the field."""
    name = parse_text(vehicle_name, "vehicle_name")
    if not name or name in host.drones:
        return False
    if str(vehicle_type).lower() != "simpleflight":
        raise ValueError(f"vehicle_type: got {str(vehicle_type)[:80]!r}, expected simpleflight")
    position, rotation = parse_pose(pose)
    host.add_drone(name, VehicleSettings(position=position, yaw=roll_pitch_yaw(rotation)[2]))
    return True


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


def _without_effect(name: str, result: Any) -> Callable[..., Any]:
    def call(host: Host, *arguments: Any) -> Any:
        host.tell_once(f"{name}: accepted, but does nothing here")
        return result

    call.__name__, call.__doc__ = name, "Accepted, but does nothing here."
    return call


def _calls(result: Any, names: str) -> Iterable[tuple[str, Callable[..., Any]]]:
    return ((name, _without_effect(name, result)) for name in names.split())


WITHOUT_EFFECT: dict[str, Callable[..., Any]] = {
    **dict(
        _calls(
            None,
            """simPlotArrows simPlotLineList simPlotLineStrip simPlotPoints simPlotStrings simPlotTransforms
            simPlotTransformsWithNames simFlushPersistentMarkers simSetTraceLine simEnableWeather
            simSetWeatherParameter simSetTimeOfDay startRecording stopRecording setAngleLevelControllerGains
            setAngleRateControllerGains setVelocityControllerGains setPositionControllerGains""",
        )
    ),
    **dict(
        _calls(
            False,
            """simRunConsoleCommand simSetLightIntensity simSetObjectMaterial simSetObjectMaterialFromTexture
            simCreateVoxelGrid simLoadLevel""",
        )
    ),
    **dict(_calls([], "simSwapTextures simGetMeshPositionVertexBuffers")),
}
"""Calls that are accepted though there is nothing here that they could change."""
