"""`pvn serve`: our simulator as an AirSim server, or as a MAVLink autopilot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import Positional

from pvn.bridges.airsim import DEFAULT_PORT
from pvn.cli.options import FieldName, needing
from pvn.cli.serve_mavlink import serve_mavlink
from pvn.cli.tasks import read_field

if TYPE_CHECKING:
    from pvn.bridges.shared.renderer import CameraRenderer


def given(size: int | None, default: int) -> int:
    """The size that the user gave, be it 0, or the default."""
    return default if size is None else size


@dataclass(frozen=True, kw_only=True)
class Serve:
    """Run AirSim or MAVLink scripts in our simulator, in a field of your choice, until interrupted."""

    what: Positional[Literal["airsim", "mavlink"]]
    """What your scripts speak: AirSim's API, or MAVLink to an autopilot (MAVSDK, pymavlink, ground stations)."""
    field: FieldName = 0
    """Where they fly: the number of a random field, or a LANI environment file (random_config_N.json)."""
    host: str = "127.0.0.1"
    """Address to listen on; by default only this machine can connect. Anyone who can reach it can fly."""
    port: int | None = None
    """Port to listen on; 0 picks a free one. By default 41451 for AirSim, 14580 for MAVLink."""
    speed: float = 1.0
    """Simulated seconds per second; AirSim, inf: as fast as clients ask, and the clock stands still while none is
    waiting."""
    quality: Literal["fast", "full"] = "full"
    """How images are rendered: full has smooth edges and shadows; fast is four times faster."""
    width: int | None = None
    """Width of an image, pixels, unless the settings say otherwise. By default 256 for AirSim, 128 for MAVLink."""
    height: int | None = None
    """Height of an image, pixels, unless the settings say otherwise. By default 144 for AirSim, 72 for MAVLink."""
    settings: Path | None = None
    """AirSim: its settings.json: vehicles, cameras, image sizes, sensors, origin, wind."""
    vehicle: str | None = None
    """AirSim: the vehicle's name, unless the settings name it; scripts may leave it out. By default SimpleFlight."""
    border: Literal["stop", "refuse", "open"] | None = None
    """AirSim: goals more than 10 m beyond the fences: fly as far as that (stop, the default), refuse, or fly there
    (open)."""
    start: tuple[float, float, float] | None = None
    """MAVLink: where the drone stands, x, y (metres) and yaw (radians); by default in the middle, facing north."""
    autopilot: Literal["px4", "ardupilot"] | None = None
    """MAVLink: whose modes the autopilot has, PX4's by default; ArduPilot takes off and is guided in GUIDED."""
    camera_port: int | None = None
    """MAVLink: port of the camera's stream; 0 picks a free one. By default 8088."""

    def run(self) -> None:
        """Serve, and log what goes wrong with clients."""
        import logging

        self._check()
        from pvn.bridges.shared.renderer import CameraRenderer
        from pvn.geometry import Camera

        logging.basicConfig(format="%(message)s", level=logging.INFO)
        renderer = CameraRenderer(read_field(self.field), is_full=self.quality == "full")
        if self.what == "airsim":
            self._serve_airsim(renderer)
        else:
            camera = Camera(width=given(self.width, 128), height=given(self.height, 72))
            serve_mavlink(
                renderer, camera, self.speed, self.host, self.port, camera_port=self.camera_port,
                firmware=self.autopilot or "px4", start=self.start,
            )  # fmt: skip

    def _check(self) -> None:
        """Refuse options that would be ignored."""
        others = {"airsim": ("start", "autopilot", "camera_port"), "mavlink": ("settings", "vehicle", "border")}
        for name in others[self.what]:
            if getattr(self, name) is not None:
                option = name.replace("_", "-")
                raise ValueError(f"{name}: got {getattr(self, name)!r} with {self.what}; leave out --{option}")

    def _serve_airsim(self, renderer: CameraRenderer) -> None:
        import asyncio
        from contextlib import suppress

        with needing("airsim"):
            from pvn.bridges.airsim.server import serve
        from pvn.bridges.airsim.host import Host, HostConfig
        from pvn.bridges.airsim.settings import Capture, Settings, VehicleSettings, default_cameras, read_settings
        from pvn.bridges.shared.clock import compile_kernels
        from pvn.cli.progress import working
        from pvn.geometry import Camera

        capture = Capture(width=given(self.width, 256), height=given(self.height, 144))
        if self.settings is None:
            vehicle = VehicleSettings(cameras=default_cameras(capture))
            settings = Settings(vehicles={self.vehicle or "SimpleFlight": vehicle})
        else:
            settings = read_settings(self.settings, capture)
        config = HostConfig(settings=settings, speed=self.speed * settings.clock_speed, border=self.border or "stop")

        def announce(port: int) -> None:
            num_landmarks = len(renderer.layout.landmarks)
            print(f"AirSim on {self.host}:{port}, {num_landmarks} landmarks; stop with Ctrl-C", flush=True)

        port = DEFAULT_PORT if self.port is None else self.port
        with suppress(KeyboardInterrupt):  # which is how it ends
            with working("compiling, the first time only"):
                compile_kernels(renderer, Camera(width=capture.width, height=capture.height))
            asyncio.run(serve(Host(renderer, config), self.host, port, announce))
