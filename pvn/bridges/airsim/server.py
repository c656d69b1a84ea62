"""The server: answers AirSim clients from one service, whatever they send and whenever they leave."""

from __future__ import annotations

import asyncio
import errno
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from pvn.bridges.airsim.api import dispatch
from pvn.bridges.airsim.host import Service
from pvn.bridges.airsim.protocol import Limits, ProtocolError, Request, requests, response

PORT = 41451

log = logging.getLogger(__name__)


class _Client:
    """One connection: its calls are begun in order; those that take time are answered when they are done."""

    def __init__(self, service: Service, writer: asyncio.StreamWriter, limits: Limits) -> None:
        self._service, self._writer = service, writer
        self._free = asyncio.Semaphore(limits.waiting_calls)
        self._tasks: set[asyncio.Task[None]] = set()

    def _answer(self, request: Request, error: str | None, result: Any) -> None:
        if request.number is not None and not self._writer.is_closing():
            self._writer.write(response(request.number, error, result))

    async def _answer_later(self, request: Request, awaited: Awaitable[Any]) -> None:
        try:
            self._answer(request, None, await awaited)
        except Exception as error:  # whatever went wrong in one call is that call's answer, not the server's end
            log.exception("%s failed", request.method)
            self._answer(request, f"{request.method}: {error}", None)
        finally:
            self._free.release()

    async def hear(self, request: Request) -> None:
        """Begin a call."""
        try:
            result = dispatch(self._service, request.method, request.arguments)
        except ValueError as error:
            self._answer(request, str(error), None)
        except Exception as error:  # as above
            log.exception("%s failed", request.method)
            self._answer(request, f"{request.method}: {error}", None)
        else:
            if inspect.isawaitable(result):
                await self._free.acquire()
                task = asyncio.ensure_future(self._answer_later(request, result))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            else:
                self._answer(request, None, result)
        await self._writer.drain()  # a client that does not read its answers is not heard further

    def leave(self) -> None:
        """The client has gone: nobody waits for its calls. What it has told the vehicle to do goes on."""
        for task in self._tasks:
            task.cancel()
        self._writer.close()


class Server:
    """Listens for AirSim clients."""

    def __init__(self, service: Service, limits: Limits = Limits()) -> None:
        self._service, self._limits, self._num_clients = service, limits, 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = writer.get_extra_info("peername")
        if self._num_clients >= self._limits.clients:
            log.warning("%s: refused, %d clients are here already", name, self._num_clients)
            writer.close()
            return
        self._num_clients += 1
        client = _Client(self._service, writer, self._limits)
        try:
            async for request in requests(reader, self._limits):
                await client.hear(request)
        except ProtocolError as error:
            log.warning("%s: closed, %s", name, error)
        except OSError:
            log.info("%s: left in the middle of a call", name)
        except asyncio.CancelledError:
            log.info("%s: closed, the server ends", name)
        finally:
            self._num_clients -= 1
            client.leave()

    async def listen(self, host: str = "127.0.0.1", port: int = PORT) -> tuple[asyncio.Server, asyncio.Task[None]]:
        """Begin to answer; port 0 takes a free one. Returns the listening server and the running clock."""
        server = await asyncio.start_server(self._serve, host, port)
        return server, asyncio.ensure_future(self._service.run_clock())


def _cannot_listen(host: str, port: int, error: OSError) -> ValueError:
    """What the user can mend: errors of the port have numbers of their own, all others are the host's."""
    match error.errno:
        case errno.EADDRINUSE:
            advice = "; is another AirSim running? Choose another --port"
        case errno.EACCES:
            advice = f"; ports such as {port} are the system's, choose a --port from 1024 to 65535"
        case _:
            advice = ", expected an address of this machine as --host: 127.0.0.1, or 0.0.0.0 for all it has"
    return ValueError(f"cannot listen on {host}:{port} ({error.strerror or error}){advice}")


async def serve(service: Service, host: str, port: int, ready: Callable[[int], None]) -> None:
    """Answer until cancelled; ready(port) is called when clients may come."""
    if not 0 <= port <= 65535:
        raise ValueError(f"port: got {port}, expected 0 to 65535; 0 takes a free one")
    try:
        server, clock = await Server(service).listen(host, port)
    except OSError as error:
        raise _cannot_listen(host, port, error) from None
    try:
        ready(server.sockets[0].getsockname()[1])
        await clock  # for ever; if it fails, so do we
    finally:
        # Clients that are still here are not waited for, as `async with` would from Python 3.12 on.
        server.close()
        clock.cancel()
        service.close()
