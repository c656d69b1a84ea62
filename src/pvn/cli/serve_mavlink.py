"""`pvn serve mavlink`: our simulator as an autopilot."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pvn.bridges.mavlink import CAMERA_PORT, GROUND_STATION_PORT, SCRIPT_PORT, SERVER_PORT
from pvn.bridges.mavlink.modes import Firmware
from pvn.cli.options import needing

if TYPE_CHECKING:
    from pvn.bridges.shared.renderer import CameraRenderer
    from pvn.geometry import Camera


def serve_mavlink(
    renderer: CameraRenderer,
    camera: Camera,
    speed: float,
    host: str,
    port: int | None,
    *,
    camera_port: int | None,
    firmware: Firmware,
    start: tuple[float, float, float] | None,
) -> None:
    """Fly for MAVLink clients until interrupted."""
    import asyncio

    with needing("mavlink"):
        from pvn.bridges.mavlink.server import SimulatedDrone, listen
    from pvn.bridges.mavlink.mjpeg import STREAM_PATH, CameraStream
    from pvn.bridges.shared.clock import compile_kernels
    from pvn.cli.progress import working

    async def serve() -> None:
        drone = SimulatedDrone(renderer, speed=speed, camera=camera, start=start, firmware=firmware)
        # Scripts and ground stations on this machine wait there for an autopilot to speak first.
        listeners = [("127.0.0.1", one) for one in (SCRIPT_PORT, GROUND_STATION_PORT)]
        transport, _ = await listen(drone, host, SERVER_PORT if port is None else port, listeners)
        viewers = await CameraStream(drone).listen(host, CAMERA_PORT if camera_port is None else camera_port)
        try:
            speaking, watching = transport.get_extra_info("sockname")[1], viewers.sockets[0].getsockname()[1]
            print(
                f"MAVLink on {host}:{speaking}, speaking to ports {SCRIPT_PORT} and {GROUND_STATION_PORT}; camera at "
                f"http://{host}:{watching}{STREAM_PATH}; {len(renderer.layout.landmarks)} landmarks; stop with Ctrl-C",
                flush=True,
            )
            await drone.run_clock()
        finally:
            transport.close()
            viewers.close()
            drone.close()

    with suppress(KeyboardInterrupt):  # which is how it ends
        with working("compiling, the first time only"):
            compile_kernels(renderer, camera)
        asyncio.run(serve())
