"""Bridges to AirSim and MAVLink: our agent flies elsewhere, and scripts written for either fly in our field.

The names below are all that other rooms use. Options are imported at once; everything else when it is first used, as
it needs the extra `airsim` or `mavlink`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pvn.bridges.airsim.options import AirSimOptions as AirSimOptions
from pvn.bridges.airsim.options import AirSimServerOptions as AirSimServerOptions
from pvn.bridges.mavlink.limits import Limits as Limits
from pvn.bridges.mavlink.options import MavlinkOptions as MavlinkOptions
from pvn.bridges.mavlink.options import MavlinkServerOptions as MavlinkServerOptions

if TYPE_CHECKING:
    from pvn.bridges.airsim.field import AirSimField as AirSimField
    from pvn.bridges.airsim.field import close_client as close_client
    from pvn.bridges.airsim.server import AirSimServer as AirSimServer
    from pvn.bridges.mavlink.field import MavlinkField as MavlinkField
    from pvn.bridges.mavlink.server import MavlinkServer as MavlinkServer
    from pvn.bridges.shared.remote_field import FlightAborted as FlightAborted
    from pvn.bridges.shared.remote_field import RemoteField as RemoteField
    from pvn.bridges.shared.serving import FieldServer as FieldServer

_HOMES = {
    "AirSimField": "pvn.bridges.airsim.field",
    "close_client": "pvn.bridges.airsim.field",
    "AirSimServer": "pvn.bridges.airsim.server",
    "MavlinkField": "pvn.bridges.mavlink.field",
    "MavlinkServer": "pvn.bridges.mavlink.server",
    "FlightAborted": "pvn.bridges.shared.remote_field",
    "RemoteField": "pvn.bridges.shared.remote_field",
    "FieldServer": "pvn.bridges.shared.serving",
}
"""Where each name that is imported later is defined."""


def __getattr__(name: str) -> Any:
    """One of the names, imported now."""
    if name not in _HOMES:
        raise AttributeError(f"module 'pvn.bridges' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
