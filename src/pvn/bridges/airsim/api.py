"""The AirSim API: one function per call, under AirSim's names.

Each function takes the host, then the client's arguments; a motion returns a future, what takes work, such as an image,
a coroutine, all others a plain result. Trailing arguments may be missing, and some functions accept more than they use,
because the clients of AirSim 1.8 and of Cosys-AirSim differ in what they send.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from pvn.bridges.airsim import attitude_api, image_api, motion_api, object_api, sensor_api, state_api, world_api
from pvn.bridges.airsim.host import Host
from pvn.bridges.airsim.wire_types import parse_number
from pvn.bridges.shared.vehicle import TICK_SECONDS

SERVER_VERSION = 4  # that of Cosys-AirSim; its client requires at least this
MIN_CLIENT_VERSION = 1  # that of AirSim 1.8


def ping(host: Host) -> bool:
    """Answer, to show that the server is alive."""
    return True


def getServerVersion(host: Host) -> int:
    """The version of the API."""
    return SERVER_VERSION


def getMinRequiredClientVersion(host: Host) -> int:
    """The oldest client version that is supported."""
    return MIN_CLIENT_VERSION


def enableApiControl(host: Host, is_enabled: Any, vehicle_name: str = "") -> None:
    """Allow or forbid clients to fly the vehicle."""
    host.find_drone(vehicle_name).vehicle.has_api_control = bool(is_enabled)


def isApiControlEnabled(host: Host, vehicle_name: str = "") -> bool:
    """Whether clients may fly the vehicle."""
    return host.find_drone(vehicle_name).vehicle.has_api_control


def armDisarm(host: Host, arm: Any, vehicle_name: str = "") -> bool:
    """Arm or disarm the vehicle and return whether that worked; in the air it cannot be disarmed."""
    vehicle = host.find_drone(vehicle_name).vehicle
    if not arm and not vehicle.is_landed:
        host.tell_once("armDisarm: a drone in the air is not disarmed here; land first")
        return False
    vehicle.is_armed = bool(arm)
    return True


def listVehicles(host: Host) -> list[str]:
    """The names of all vehicles."""
    return list(host.drones)


def simPause(host: Host, is_paused: Any) -> None:
    """Stop the clock, or let it run."""
    host.set_paused(bool(is_paused))


def simIsPaused(host: Host) -> bool:
    """Whether the clock is stopped."""
    return host.is_paused


def simContinueForTime(host: Host, seconds: Any) -> Awaitable[None]:
    """Let the clock run for some seconds, then stop it; answered once it has stopped."""
    return host.continue_for(parse_number(seconds, "seconds"))


def simContinueForFrames(host: Host, frames: Any) -> Awaitable[None]:
    """Let the clock run for some ticks of 10 ms, then stop it; answered once it has stopped."""
    return host.continue_for(TICK_SECONDS * parse_number(frames, "frames"))


def reset(host: Host) -> None:
    """Restore the initial state, except for the clock and the objects: vehicles are at home, armed as at first."""
    host.reset()


def _is_call(name: str) -> bool:
    """Whether a function is one of AirSim's calls; our own names have neither capitals nor these words."""
    return name != name.lower() or name in ("takeoff", "land", "hover")


_MODULES = (state_api, sensor_api, image_api, object_api, world_api, motion_api, attitude_api)
_CONTROL_CALLS = (
    ping, getServerVersion, getMinRequiredClientVersion, enableApiControl, isApiControlEnabled, armDisarm, listVehicles,
    simPause, simIsPaused, simContinueForTime, simContinueForFrames, reset,
)  # fmt: skip

CALLS: dict[str, Callable[..., Any]] = (
    {function.__name__: function for function in _CONTROL_CALLS}
    | {
        name: function
        for module in _MODULES
        for name, function in vars(module).items()
        if inspect.isfunction(function) and function.__module__ == module.__name__ and _is_call(name)
    }
    | world_api.WITHOUT_EFFECT
)
"""The supported calls, by name."""


def _arity(function: Callable[..., Any]) -> tuple[int, int]:
    """Minimum and maximum number of arguments besides the host."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    named = [parameter for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL]
    minimum = sum(parameter.default is parameter.empty for parameter in named)
    return minimum, len(named) if len(named) == len(parameters) else 99


_ARITIES = {name: _arity(function) for name, function in CALLS.items()}


def dispatch(host: Host, method: str, arguments: list[Any]) -> Any:
    """The result of a call, or an awaitable of it; raises ValueError if the call itself is wrong."""
    if method not in CALLS:
        raise ValueError(f"{method[:80]}: not supported; docs/airsim.md lists the supported calls")
    minimum, maximum = _ARITIES[method]
    if not minimum <= len(arguments) <= maximum:
        raise ValueError(f"{method}: got {len(arguments)} arguments, expected {minimum} to {maximum}")
    return CALLS[method](host, *arguments)
