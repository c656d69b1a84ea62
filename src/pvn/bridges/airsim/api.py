"""AirSim's calls by name, and how the arguments that clients send become those of the functions behind them.

Each call is a public function, under AirSim's name, of one of the modules below. It returns a plain result; a motion
returns a future, and what takes work, such as an image, a coroutine.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

from pvn.bridges.airsim import image_api, motion_api, object_api, sensor_api, state_api, world_api
from pvn.bridges.airsim.host import Host
from pvn.bridges.airsim.wire_types import (
    Pose,
    parse_geo_point,
    parse_number,
    parse_pose,
    parse_text,
    parse_vector,
)
from pvn.bridges.shared.frames import Vector
from pvn.bridges.shared.globe import GeoPoint

_MODULES = (world_api, state_api, sensor_api, image_api, object_api, motion_api)
_PARSERS: dict[Any, Callable[[Any, str], Any]] = {
    bool: lambda value, name: bool(value),
    float: parse_number,
    str: parse_text,
    Vector: parse_vector,
    Pose: parse_pose,
    GeoPoint: parse_geo_point,
    Any: lambda value, name: value,
}
"""How an argument is checked and read, by its annotation."""
UNLIMITED = 99


def as_call(function: Callable[..., Any]) -> Callable[..., Any]:
    """The call behind which a function stands: of the host, and of the arguments as they come over the wire.

    The vehicle's name follows the arguments of a function of a `drone`. A function of a `camera` has the camera's name
    before its arguments, and after them the vehicle's name and whether the camera stands in the field. Trailing
    arguments may be missing, and some calls take more than they use, as the clients of AirSim 1.8 and of Cosys-AirSim
    differ in what they send.
    """
    hints, every = get_type_hints(function), inspect.signature(function).parameters.values()
    own = [one for one in every if one.name not in ("host", "drone", "camera") and one.kind != one.VAR_POSITIONAL]
    parsers = [(_PARSERS[hints[one.name]], one.name) for one in own]
    has_drone, has_camera = (any(one.name == name for one in every) for name in ("drone", "camera"))
    takes_more = has_camera or any(one.kind == one.VAR_POSITIONAL for one in every)
    least = has_camera + sum(one.default is one.empty for one in own)
    most = UNLIMITED if takes_more else len(own) + has_drone

    def call(host: Host, *arguments: Any) -> Any:
        if not least <= len(arguments) <= most:
            raise ValueError(f"{function.__name__}: got {len(arguments)} arguments, expected {least} to {most}")
        sent, num_own = arguments[has_camera:], len(parsers)
        parsed = [parse(value, name) for (parse, name), value in zip(parsers, sent, strict=False)]
        vehicle_name = sent[num_own] if len(sent) > num_own else ""
        if has_camera:
            is_external = len(sent) > num_own + 1 and sent[num_own + 1] is True
            return function(host, host.find_camera(arguments[0], vehicle_name, is_external), *parsed)
        return function(host, host.find_drone(vehicle_name), *parsed) if has_drone else function(host, *parsed)

    return call


def _does_nothing(name: str, result: Any) -> Callable[..., Any]:
    def call(host: Host, *arguments: Any) -> Any:
        host.tell_once(f"{name}: accepted, but does nothing here")
        return result

    return call


CALLS: dict[str, Callable[..., Any]] = {
    name: as_call(function)
    for module in _MODULES
    for name, function in vars(module).items()
    if inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_")
} | {name: _does_nothing(name, result) for names, result in world_api.WITHOUT_EFFECT for name in names.split()}
"""The supported calls, by name."""


def dispatch(host: Host, method: str, arguments: list[Any]) -> Any:
    """The result of a call, or an awaitable of it; raises ValueError if the call itself is wrong."""
    if method not in CALLS:
        raise ValueError(f"{method[:80]}: not supported; docs/airsim.md lists the supported calls")
    return CALLS[method](host, *arguments)
