"""An AirSim server in a thread, for tests."""

import asyncio
import math
import threading
from contextlib import contextmanager

import pytest

pytest.importorskip("cosysairsim", reason='needs the AirSim client: pip install "pvn[airsim]"')

from pvn.bridges.airsim.host import Service, ServiceConfig
from pvn.bridges.airsim.images import Eye
from pvn.bridges.airsim.protocol import Limits
from pvn.bridges.airsim.server import Server


@contextmanager
def serving(layout, *, limits=Limits(), is_full=True, **config):
    """Yields the service and the port it is served on; as fast as asked unless told otherwise."""
    ready, box = threading.Event(), {}

    async def main():
        service = Service(Eye(layout, is_full=is_full), ServiceConfig(**{"speed": math.inf, **config}))
        server, clock = await Server(service, limits).listen(port=0)
        box.update(service=service, port=server.sockets[0].getsockname()[1], server=server)
        box["loop"], box["end"] = asyncio.get_running_loop(), asyncio.Event()
        ready.set()
        await box["end"].wait()
        clock.cancel()
        server.close()
        service.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    assert ready.wait(60), "the server did not start"
    try:
        yield box["service"], box["port"]
    finally:
        box["loop"].call_soon_threadsafe(box["end"].set)
        thread.join(10)
