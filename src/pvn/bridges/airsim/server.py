"""Serves AirSim clients from one host, whatever they send and whenever they disconnect."""

from __future__ import annotations

import asyncio
import errno
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext, suppress
from typing import Any

from pvn.bridges.airsim import DEFAULT_PORT
from pvn.bridges.airsim.api import dispatch
from pvn.bridges.airsim.host import Host
from pvn.bridges.airsim.messages import ProtocolError
from pvn.bridges.airsim.protocol import Limits, RpcRequest, encode_response, read_requests

log = logging.getLogger(__name__)


def _close_coroutine(coroutine: Coroutine[Any, Any, Any], _: asyncio.Task[None]) -> None:
    coroutine.close()


class _Connection:
    """One client. Its calls start in the order they arrive; those that take time are answered when they finish."""

    def __init__(self, host: Host, writer: asyncio.StreamWriter, limits: Limits) -> None:
        self._host, self._writer = host, writer
        self._call_slots = asyncio.Semaphore(limits.max_pending_calls)
        self._pending: set[asyncio.Task[None]] = set()
        self._is_writing, self._is_working = asyncio.Lock(), asyncio.Lock()
        self._unread_timeout_s = limits.unread_timeout_s

    async def _answer(self, request: RpcRequest, error: str | None, result: Any) -> None:
        """Send an answer once the client has read the ones before, of which only one is kept in a buffer."""
        if request.message_id is None:
            return
        async with self._is_writing:
            if self._writer.is_closing():
                return
            self._writer.write(encode_response(request.message_id, error, result))
            if not self._writer.transport.get_write_buffer_size():  # all is sent; a timeout would take longer than that
                return
            try:
                async with asyncio.timeout(self._unread_timeout_s):
                    await self._writer.drain()
            except TimeoutError:
                log.warning("connection closed, an answer was not read within %g s", self._unread_timeout_s)
                self._writer.transport.abort()

    def _refuse(self, request: RpcRequest, error: ValueError) -> str:
        """Tell the server's console, as clients' join() tells nobody; returns what to tell the client."""
        text = str(error) if request.method in str(error) else f"{request.method}: {error}"
        self._host.tell_once(f"refused: {text}")
        return text

    async def _answer_later(self, request: RpcRequest, awaitable: Awaitable[Any]) -> None:
        # What takes work is a coroutine, so a client's images and scans are made one after another, each once the last
        # was read: it cannot fill our memory. Motions are futures, side by side: their answers take a few bytes.
        async with self._is_working if inspect.iscoroutine(awaitable) else nullcontext():
            error, result = None, None
            try:
                result = await awaitable
            except ValueError as refusal:
                error = self._refuse(request, refusal)
            except Exception as failure:  # a failure in one call is reported to its caller and must not stop the server
                log.exception("%s failed", request.method)
                error = f"{request.method}: {failure}"
            with suppress(OSError):  # the client has gone
                await self._answer(request, error, result)
        self._call_slots.release()

    async def handle(self, request: RpcRequest) -> None:
        """Start a call."""
        try:
            result = dispatch(self._host, request.method, request.arguments)
        except ValueError as error:
            await self._answer(request, self._refuse(request, error), None)
        except Exception as error:  # as above
            log.exception("%s failed", request.method)
            await self._answer(request, f"{request.method}: {error}", None)
        else:
            if inspect.isawaitable(result):
                await self._call_slots.acquire()
                task = asyncio.ensure_future(self._answer_later(request, result))
                self._pending.add(task)
                task.add_done_callback(self._pending.discard)
                if inspect.iscoroutine(result):  # of which a cancelled task may not have run a single line
                    task.add_done_callback(functools.partial(_close_coroutine, result))
            else:
                await self._answer(request, None, result)  # a client that does not read is not read from either

    def close(self) -> None:
        """Drop the pending calls, which nobody is waiting for; the vehicle carries on with its motion."""
        for task in self._pending:
            task.cancel()
        self._writer.close()


class Server:
    """Listens for AirSim clients."""

    def __init__(self, host: Host, limits: Limits = Limits()) -> None:
        self._host, self._limits = host, limits
        self.num_clients = 0
        """How many are connected now."""

    async def _serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        if self.num_clients >= self._limits.max_clients:
            log.warning("%s: refused, %d clients are connected already", peer, self.num_clients)
            writer.close()
            return
        self.num_clients += 1
        connection = _Connection(self._host, writer, self._limits)
        try:
            async for request in read_requests(reader, self._limits):
                await connection.handle(request)
        except ProtocolError as error:
            log.warning("%s: connection closed, %s", peer, error)
        except OSError:
            log.info("%s: disconnected in the middle of a call", peer)
        except asyncio.CancelledError:
            log.info("%s: connection closed, the server is shutting down", peer)
        finally:
            self.num_clients -= 1
            connection.close()

    async def listen(
        self, address: str = "127.0.0.1", port: int = DEFAULT_PORT
    ) -> tuple[asyncio.Server, asyncio.Task[None]]:
        """Start to answer clients; port 0 picks a free one. Returns the listening server and the running clock."""
        server = await asyncio.start_server(self._serve_client, address, port)
        return server, asyncio.ensure_future(self._host.run_clock())


def _cannot_listen(address: str, port: int, error: OSError) -> ValueError:
    """The error and how to fix it: two codes mean the port is the problem, all others the address."""
    match error.errno:
        case errno.EADDRINUSE:
            advice = "; is another AirSim running? Choose another --port"
        case errno.EACCES:
            advice = f"; port {port} is reserved for the system, choose a --port from 1024 to 65535"
        case _:
            advice = ", expected an address of this machine as --host: 127.0.0.1, or 0.0.0.0 for all of its addresses"
    return ValueError(f"cannot listen on {address}:{port} ({error.strerror or error}){advice}")


async def serve(host: Host, address: str, port: int, on_ready: Callable[[int], None]) -> None:
    """Answer clients until cancelled; on_ready(port) is called once they can connect."""
    if not 0 <= port <= 65535:
        raise ValueError(f"port: got {port}, expected 0 to 65535; 0 picks a free one")
    try:
        server, clock = await Server(host).listen(address, port)
    except OSError as error:
        raise _cannot_listen(address, port, error) from None
    try:
        on_ready(server.sockets[0].getsockname()[1])
        await clock  # which never ends; if it fails, so does the server
    finally:
        # `async with server` would wait, from Python 3.12 on, for all clients to disconnect.
        server.close()
        clock.cancel()
        host.close()
