"""`pvn serve airsim`: our simulator as an AirSim server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from pvn.bridges.airsim import DEFAULT_PORT
from pvn.cli.options import FieldName, needing
from pvn.cli.tasks import read_field


@dataclass(frozen=True, kw_only=True)
class Serve:
    """Run AirSim scripts in our simulator, in a field of your choice, until interrupted."""

    what: Positional[Literal["airsim"]]
    """The API that your scripts use."""
    field: FieldName = 0
    """Where they fly: the number of a random field, or a LANI environment file (random_config_N.json)."""
    host: str = "127.0.0.1"
    """Address to listen on; by default only this machine can connect. Anyone who can reach it can fly."""
    port: int = DEFAULT_PORT
    """Port to listen on; 0 picks a free one."""
    speed: float = 1.0
    """Simulated seconds per second; inf: as fast as clients ask, and the clock stands still while none is waiting."""
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
    """Goals more than 10 m beyond the fences: fly as far as that (stop), refuse, or fly there (open)."""

    def run(self) -> None:
        """Serve, and log what goes wrong with clients."""
        import asyncio
        import logging
        from contextlib import suppress

        with needing("airsim"):
            from pvn.bridges.airsim.server import serve
        from pvn.bridges.airsim.host import Host, HostConfig, compile_kernels
        from pvn.bridges.airsim.images import CameraRenderer
        from pvn.bridges.airsim.settings import Capture, Settings, VehicleSettings, default_cameras, read_settings
        from pvn.geometry import Camera

        logging.basicConfig(format="%(message)s", level=logging.INFO)
        layout = read_field(self.field)
        capture = Capture(width=self.width, height=self.height)
        if self.settings is None:
            settings = Settings(vehicles={self.vehicle: VehicleSettings(cameras=default_cameras(capture))})
        else:
            settings = read_settings(self.settings, capture)
        config = HostConfig(settings=settings, speed=self.speed * settings.clock_speed, border=self.border)
        renderer = CameraRenderer(layout, is_full=self.quality == "full")

        def announce(port: int) -> None:
            print(f"AirSim on {self.host}:{port}, {len(layout.landmarks)} landmarks; stop with Ctrl-C", flush=True)

        with suppress(KeyboardInterrupt):  # which is how it ends
            compile_kernels(renderer, Camera(width=self.width, height=self.height))
            asyncio.run(serve(Host(renderer, config), self.host, self.port, announce))
