"""The AirSim API, one function for each call, under AirSim's names.

Each takes the service, then what the client sends; a motion returns a future, an image a coroutine, the rest an answer.
Trailing arguments may be missing, and some calls take more than they use: the clients of AirSim 1.8 and of Cosys-AirSim
differ in them.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from pvn.bridges.airsim import motion_api, sensor_api
from pvn.bridges.airsim.host import Service
from pvn.bridges.airsim.wire_types import number

SERVER_VERSION = 4  # Cosys-AirSim's; its client wants at least this
OLDEST_CLIENT = 1  # AirSim 1.8's


def ping(service: Service) -> bool:
    """Whether the server is there."""
    return True


def getServerVersion(service: Service) -> int:
    """Of the API."""
    return SERVER_VERSION


def getMinRequiredClientVersion(service: Service) -> int:
    """The oldest client that is welcome."""
    return OLDEST_CLIENT


def enableApiControl(service: Service, is_enabled: Any, vehicle_name: str = "") -> None:
    """Let clients fly the vehicle, or not."""
    service.world.has_api_control = bool(is_enabled)


def isApiControlEnabled(service: Service, vehicle_name: str = "") -> bool:
    """Whether clients may fly the vehicle."""
    return service.world.has_api_control


def armDisarm(service: Service, arm: Any, vehicle_name: str = "") -> bool:
    """Arm or disarm; in the air the vehicle is not disarmed, and says so."""
    if not arm and not service.world.is_landed:
        return False
    service.world.is_armed = bool(arm)
    return True


def listVehicles(service: Service) -> list[str]:
    """The vehicle's name."""
    return [service.vehicle]


def simPause(service: Service, is_paused: Any) -> None:
    """Stop the clock, or let it run."""
    service.world.pause_at = service.world.num_ticks if is_paused else None
    service.resume()


def simIsPaused(service: Service) -> bool:
    """Whether the clock stands."""
    return service.world.is_paused


def simContinueForTime(service: Service, seconds: Any) -> Awaitable[None]:
    """Let the clock run for a time, then stop it; answered when it stands."""
    return service.continue_for(number(seconds, "seconds"))


def reset(service: Service) -> None:
    """All back to the beginning, but the clock; the vehicle is on the ground, disarmed."""
    service.reset()


_MODULES = (sensor_api, motion_api)
_OWN = (
    ping, getServerVersion, getMinRequiredClientVersion, enableApiControl, isApiControlEnabled, armDisarm, listVehicles,
    simPause, simIsPaused, simContinueForTime, reset,
)  # fmt: skip

CALLS: dict[str, Callable[..., Any]] = {function.__name__: function for function in _OWN} | {
    name: function
    for module in _MODULES
    for name, function in vars(module).items()
    if inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_")
}
"""What this server answers."""


def _arity(function: Callable[..., Any]) -> tuple[int, int, int | None]:
    """Least and most arguments beside the service, and the place of the vehicle's name."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    plain = [one for one in parameters if one.kind is not one.VAR_POSITIONAL]
    least = sum(one.default is one.empty for one in plain)
    most = len(plain) if len(plain) == len(parameters) else 99
    names = [one.name for one in plain]
    return least, most, names.index("vehicle_name") if "vehicle_name" in names else None


_ARITIES = {name: _arity(function) for name, function in CALLS.items()}


def dispatch(service: Service, method: str, arguments: list[Any]) -> Any:
    """The answer to a call, or what to await for it; a ValueError says what is wrong with the call."""
    if method not in CALLS:
        raise ValueError(f"{method[:80]}: not answered here; docs/airsim.md lists the calls that are")
    least, most, place = _ARITIES[method]
    if not least <= len(arguments) <= most:
        raise ValueError(f"{method}: got {len(arguments)} arguments, expected {least} to {most}")
    if place is not None and len(arguments) > place and arguments[place] not in ("", service.vehicle):
        raise ValueError(f"{method}: no vehicle {arguments[place]!r} here, expected {service.vehicle!r} or ''")
    return CALLS[method](service, *arguments)
