"""What the servers of both bridges have in common."""

from __future__ import annotations

import asyncio
import errno
import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from pvn.bridges.shared import motions
from pvn.bridges.shared.renderer import CameraRenderer, make_camera_row
from pvn.bridges.shared.vehicle import Vehicle
from pvn.geometry import Camera
from pvn.world.layout import Layout


class FieldServer(ABC):
    """Serves a field to clients until it is interrupted."""

    def __init__(self, layout: Layout, quality: str) -> None:
        """quality: "full", with smooth edges and shadows, or "fast"."""
        self.renderer = CameraRenderer(layout, is_full=quality == "full")

    def compile(self) -> None:
        """Fly and render a little beforehand, so that no client has to wait for compilation."""
        vehicle, camera = Vehicle(), Camera(width=8, height=8)
        vehicle.start_motion(motions.rotate_to_yaw(0.0, 0.0, math.inf, vehicle.state))
        vehicle.tick()
        position, rotation = vehicle.state.position, vehicle.state.rotation
        camera_row = make_camera_row(position, rotation, camera)
        self.renderer.render_scene(camera_row, camera)
        self.renderer.measure_depth(camera_row[None], camera)
        self.renderer.cast_rays(position, np.array([[1.0, 0.0, 0.0]]))

    def run(self, announce: Callable[[str], None]) -> None:
        """Serve until interrupted. announce: called with where clients connect, once they can."""
        asyncio.run(self._serve(announce))

    @abstractmethod
    async def _serve(self, announce: Callable[[str], None]) -> None: ...


def cannot_listen(address: str, port: int, error: OSError, option: str = "--port") -> ValueError:
    """The error and how to fix it: two codes mean the port is the problem, all others the address."""
    match error.errno:
        case errno.EADDRINUSE:
            advice = f"; another program uses the port, choose another {option}"
        case errno.EACCES:
            advice = f"; the port is reserved for the system, choose a {option} from 1024 to 65535"
        case _:
            advice = ", expected an address of this machine as --host: 127.0.0.1, or 0.0.0.0 for all of its addresses"
    return ValueError(f"cannot listen on {address}:{port} ({error.strerror or error}){advice}")
