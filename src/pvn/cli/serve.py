"""`pvn serve`: our simulator as an AirSim server, or as a MAVLink autopilot."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tyro.conf import subcommand

from pvn.bridges import AirSimServerOptions, MavlinkServerOptions
from pvn.cli.options import FieldName, needing
from pvn.cli.tasks import read_field

if TYPE_CHECKING:
    from pvn.bridges import FieldServer


def _serve(server: FieldServer) -> None:
    """Serve until interrupted, and log what goes wrong with clients."""
    from pvn.cli.progress import working

    logging.basicConfig(format="%(message)s", level=logging.INFO)
    with suppress(KeyboardInterrupt):
        with working("compiling, the first time only"):
            server.compile()
        server.run(lambda line: print(line, flush=True))


@dataclass(frozen=True, kw_only=True)
class ServeAirSim:
    """Run AirSim scripts in our simulator, without Unreal, until interrupted (docs/airsim.md)."""

    field: FieldName = 0
    """Where they fly: the number of a random field, or a LANI environment file (random_config_N.json)."""
    server: AirSimServerOptions = AirSimServerOptions()

    def run(self) -> None:
        """Serve."""
        with needing("airsim"):
            from pvn.bridges import AirSimServer

        _serve(AirSimServer(read_field(self.field), self.server))


@dataclass(frozen=True, kw_only=True)
class ServeMavlink:
    """Run MAVLink scripts and ground stations on our simulator as an autopilot, until interrupted (docs/mavlink.md)."""

    field: FieldName = 0
    """Where the drone flies: the number of a random field, or a LANI environment file (random_config_N.json)."""
    server: MavlinkServerOptions = MavlinkServerOptions()

    def run(self) -> None:
        """Serve."""
        with needing("mavlink"):
            from pvn.bridges import MavlinkServer

        _serve(MavlinkServer(read_field(self.field), self.server))


@dataclass(frozen=True, kw_only=True)
class Serve:
    """Run AirSim or MAVLink scripts in our simulator, in a field of your choice, until interrupted."""

    what: (
        Annotated[ServeAirSim, subcommand("airsim", prefix_name=False)]
        | Annotated[ServeMavlink, subcommand("mavlink", prefix_name=False)]
    )

    def run(self) -> None:
        """Serve."""
        self.what.run()
