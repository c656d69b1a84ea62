"""Serves AirSim clients, whatever they send and whenever they disconnect."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext, suppress
from typing import Any

from pvn.bridges.airsim.api import dispatch
from pvn.bridges.airsim.host import Host
from pvn.bridges.airsim.options import AirSimServerOptions
from pvn.bridges.airsim.protocol import Limits, ProtocolError, RpcRequest, encode_response, read_requests
from pvn.bridges.airsim.settings import (
    CameraSettings,
    Capture,
    Settings,
    VehicleSettings,
    default_cameras,
    read_settings,
)
from pvn.bridges.shared.serving import FieldServer, cannot_listen
from pvn.world.layout import Layout

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
        """Send an answer once the client has read the ones before; only one waits in a buffer."""
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
        """Print a refusal on the console, as join() hides it from the script; returns the message for the client."""
        text = str(error) if request.method in str(error) else f"{request.method}: {error}"
        self._host.tell_once(f"refused: {text}")
        return text

    async def _answer_later(self, request: RpcRequest, awaitable: Awaitable[Any]) -> None:
        # Images and scans are coroutines. Each of a client's is made once it has read the one before, so that it cannot
        # fill our memory. Motions are futures, side by side: their answers take a few bytes.
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
                if inspect.iscoroutine(result):  # a cancelled task may not have run a single line of it
                    task.add_done_callback(functools.partial(_close_coroutine, result))
            else:
                await self._answer(request, None, result)  # a client that does not read is not read from either

    def close(self) -> None:
        """Drop the pending calls; the vehicle carries on with its motion."""
        for task in self._pending:
            task.cancel()
        self._writer.close()


class AirSimServer(FieldServer):
    """Scripts written for AirSim fly in our field."""

    def __init__(
        self,
        layout: Layout,
        options: AirSimServerOptions = AirSimServerOptions(),
        *,
        settings: Settings | None = None,
        limits: Limits = Limits(),
    ) -> None:
        """settings: instead of those in the file that the options name."""
        super().__init__(layout, options.quality)
        if settings is None:
            capture = Capture(width=options.width, height=options.height)
            if options.settings is None:
                vehicle = VehicleSettings(cameras=default_cameras(CameraSettings(default_capture=capture)))
                settings = Settings(vehicles={options.vehicle: vehicle})
            else:
                settings = read_settings(options.settings, capture)
        self.options, self._limits = options, limits
        self.host = Host(self.renderer, settings, border=options.border, speed=options.speed * settings.clock_speed)
        self.num_clients = 0
        """How many are connected now."""

    async def _serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        if self.num_clients >= self._limits.max_clients:
            log.warning("%s: refused, %d clients are connected already", peer, self.num_clients)
            writer.close()
            return
        self.num_clients += 1
        connection = _Connection(self.host, writer, self._limits)
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

    async def _serve(self, announce: Callable[[str], None]) -> None:
        address, port = self.options.host, self.options.port
        try:
            listener = await asyncio.start_server(self._serve_client, address, port)
        except OSError as error:
            raise cannot_listen(address, port, error) from None
        try:
            port = listener.sockets[0].getsockname()[1]
            num_landmarks = len(self.renderer.layout.landmarks)
            announce(f"AirSim on {address}:{port}, {num_landmarks} landmarks; stop with Ctrl-C")
            await self.host.run_clock()  # it never ends; if it fails, so does the server
        finally:
            listener.close()  # `async with listener` would wait, from Python 3.12 on, for all clients to disconnect
            self.host.close()
