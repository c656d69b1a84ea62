"""AirSim's own client, whichever of the two is installed."""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import Any


def import_client() -> Any:
    """The client's module."""
    for name in ("cosysairsim", "airsim"):
        with suppress(ModuleNotFoundError):
            return importlib.import_module(name)
    raise ValueError('AirSim: no client is installed, expected cosysairsim; run: pip install "pvn-drone[airsim]"')


def disconnect(client: Any) -> None:
    """Close a client's connection for good."""
    session = client.client
    if session._transport is not None:
        session._transport._reconnect_limit = 0  # or it would reconnect as soon as the connection is closed
    session.close()
    session._loop.dettach_periodic_callback()  # which checks for time-outs and would keep the client alive forever
