"""Verbs that speak AirSim: `pvn serve airsim`, and `pvn fly --simulator airsim://HOST:PORT`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import parse_qs, urlsplit

from tyro.conf import Positional

from pvn.cli.options import needing

if TYPE_CHECKING:
    from pvn.evaluation.systems import System
    from pvn.rollout.flight import FlightLog


@dataclass(frozen=True, kw_only=True)
class Serve:
    """Answer AirSim scripts from our simulator, in a field of your choice, until interrupted."""

    what: Positional[Literal["airsim"]]
    """Whose scripts."""
    seed: int = 0
    """Which random field; that of `pvn fly` with the same seed."""
    scene: Path | None = None
    """Serve the field in this LANI environment file (random_config_N.json) instead of a random one."""
    host: str = "127.0.0.1"
    """Address to listen on; by default this machine alone can connect. Anyone who can reach it can fly."""
    port: int = 41451
    """Port to listen on; 0 takes a free one."""
    speed: float = 1.0
    """Simulated seconds a second; inf: as fast as asked, the clock stands while no client waits for it."""
    quality: Literal["fast", "full"] = "full"
    """How the drone sees: full has smooth edges and shadows; fast is four times faster."""
    width: int = 128
    """Pixels across a picture."""
    height: int = 72
    """Pixels down."""
    vehicle: str = "SimpleFlight"
    """The vehicle's name; scripts may also say nothing."""

    def run(self) -> None:
        """Serve, and say what goes wrong with clients."""
        import asyncio
        import logging
        from contextlib import suppress

        with needing("airsim"):
            from pvn.bridges.airsim.server import serve
        from pvn.bridges.airsim.host import Host, HostConfig, compile_kernels
        from pvn.bridges.airsim.images import CameraRenderer
        from pvn.corpus.meadow.generator import sample_paragraph
        from pvn.geometry import Camera
        from pvn.world.lani import read_layout

        logging.basicConfig(format="%(message)s", level=logging.INFO)
        layout = sample_paragraph(self.seed)[0].task.layout if self.scene is None else read_layout(self.scene)
        camera = Camera(width=self.width, height=self.height)
        config = HostConfig(camera=camera, speed=self.speed, vehicle_name=self.vehicle)
        renderer = CameraRenderer(layout, is_full=self.quality == "full")

        def tell(port: int) -> None:
            print(f"AirSim on {self.host}:{port}, {len(layout.landmarks)} landmarks; end with Ctrl-C", flush=True)

        with suppress(KeyboardInterrupt):  # which is how it ends
            compile_kernels(renderer, camera)
            asyncio.run(serve(Host(renderer, config), self.host, self.port, tell))


def _address(url: str) -> tuple[str, int, str, str]:
    """Host, port, vehicle and camera of airsim://HOST:PORT/VEHICLE?camera=NAME; all but the host may be missing."""
    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port or 41451
    except ValueError:  # a port that is no number
        host, port = None, 0
    if parts.scheme != "airsim" or not host:
        raise ValueError(f"simulator: got {url!r}, expected airsim://HOST:PORT, such as airsim://127.0.0.1:41451")
    (camera,) = parse_qs(parts.query).get("camera", ["0"])[:1]
    return host, port, parts.path.strip("/"), camera


def _write_log(path: Path, instruction: str, log: FlightLog) -> None:
    import json

    from pvn.files import replacing

    content = {
        "instruction": instruction,
        "has_stopped": bool(log.has_stopped[0]),
        "poses": log.pose_world[0].tolist(),
        "actions": log.action[0].tolist(),
    }
    with replacing(path) as partial:
        partial.write_text(json.dumps(content, indent=1))
    print(f"flight log: {path}")


def fly_over_airsim(url: str, instruction: str | None, system: System, out: Path, *, is_stepped: bool) -> None:
    """Fly one instruction in an AirSim world; however the flight ends, the drone hovers, and what was flown is kept."""
    import numpy as np

    from pvn.bridges.airsim.field import AirSimField, AirSimOptions
    from pvn.report.tables import print_flights
    from pvn.rollout.flight import fly
    from pvn.world.task import Task

    host, port, vehicle, camera = _address(url)
    if instruction is None:
        raise ValueError(
            'instruction: got none, expected one, such as "go to the tree": another world has no sentences of its own'
        )
    words = " ".join(instruction.split())
    options = AirSimOptions(vehicle=vehicle, camera=camera, is_stepped=is_stepped)
    with AirSimField(host, port, config=system.config, options=options) as field:
        try:
            start = field.take_off()
            task = Task(field.layouts[0], start, np.array([start[:2], start[:2]]), words)
            log = fly(field, [task], system.policy)
        finally:
            field.hover()
            flown = field.log()
            if flown is not None:
                _write_log(out / "flight_airsim.json", words, flown)
    print_flights(f"{system.name} at {url}", [task], log, has_goals=False)
