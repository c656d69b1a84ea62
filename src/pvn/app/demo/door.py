"""The network side of the demo: who may connect, what browsers may send, and the files they get.

viser serves its own page to everyone and lets every page of the web open a websocket. Here its server answers only
requests that name it by a name under which it is served, and opens websockets only for its own pages.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import http
import ipaddress
import json
import math
import socket
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import msgspec
import viser
import websockets.asyncio.server
from viser import _messages
from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.protocol import State

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
PANEL_PATH = "/panel"
"""Where our own page opens its websocket; all other websockets are viser's."""
MAX_MESSAGE = 1 << 20
"""Largest message from a visitor, bytes."""
HELLO_S = 10.0
"""A panel that sends nothing for this long is closed, seconds."""
PANEL_S = 30.0
"""A 3D view whose panel does not come within this time is closed, seconds."""
SOCKETS_PER_VISITOR = 4
"""Enough for a panel and a view, and for those of a reloaded page that are not closed yet."""
INVALID, TOO_MANY = 1008, 1013
"""Websocket codes for "policy violation" and "try again later"."""
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
VISITOR: ContextVar[str] = ContextVar("visitor", default="")
"""The key of the visitor whose websocket is being served, from its address."""
ACCEPTED = {
    kind.__name__: kind
    for kind in (_messages.ViewerCameraMessage, _messages.SceneNodeClickMessage, _messages.SceneNodeDragMessage)
}
"""The messages that our 3D views need, by viser's names."""
KNOWN = _messages.Message._subclass_from_type_string()
"""All messages of viser."""

Handler = Callable[[ServerConnection], Awaitable[None]]


# Who may connect.


def check_origin(origin: str) -> str:
    """An origin as browsers write it, such as https://demo.example.org; a ValueError for anything else."""
    parts = urlsplit(origin)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ValueError(
            f"allow-origin: got {origin}, expected scheme and host alone, such as https://demo.example.org"
        )
    return f"{parts.scheme}://{parts.netloc}".lower()


def _is_address(name: str) -> bool:
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(name))
    return False


def own_addresses(port: int) -> Sequence[str]:
    """Addresses under which other computers may find this one."""
    with contextlib.suppress(OSError):
        found = {str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), port, family=socket.AF_INET)}
        return [f"http://{address}:{port}" for address in sorted(found) if not address.startswith("127.")]
    return []


@dataclass(frozen=True)
class Door:
    """Decides which requests are answered."""

    host: str
    """The address on which the demo listens."""
    origins: frozenset[str] = frozenset()
    """Other addresses of its page, as browsers see them, such as https://demo.example.org behind a proxy."""

    @property
    def is_open(self) -> bool:
        """Whether other computers can connect."""
        return self.host not in LOCAL_NAMES

    def _is_own_name(self, name: str) -> bool:
        """Whether the demo is served under this name."""
        if name in LOCAL_NAMES or name in {urlsplit(origin).hostname for origin in self.origins}:
            return True
        # Another site can point its own name at this computer, but not an address.
        return self.is_open and (_is_address(name) or name in (self.host.lower(), socket.gethostname().lower()))

    def refusal(self, headers: Headers, is_websocket: bool) -> str:
        """Why a request is refused; empty if it is answered."""
        # A header that comes twice matches nothing: programs differ in which of the two they read.
        host, origin = (", ".join(headers.get_all(name)).lower() for name in ("Host", "Origin"))
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            name = ""
        advice = "start the demo with --allow-origin and the address of its page, such as https://demo.example.org"
        if not self._is_own_name(name):
            return f"Host: got {host[:80] or 'none'}, expected a name under which the demo is served; {advice}"
        if is_websocket and origin not in {f"http://{host}", f"https://{host}", *self.origins}:
            return f"Origin: got {origin[:80] or 'none'}, expected the demo's own page at {host}; {advice}"
        return ""


class OpenSockets:
    """Counts the open websockets of each visitor."""

    def __init__(self, limit: int) -> None:
        """limit: for all visitors together."""
        self._limit = limit
        self._open: Counter[str] = Counter()

    @contextlib.contextmanager
    def place(self, key: str) -> Iterator[bool]:
        """Count one more websocket of a visitor while it is open; yields whether there is room for it."""
        has_room = self._open.total() < self._limit and self._open[key] < SOCKETS_PER_VISITOR
        self._open[key] += has_room
        try:
            yield has_room
        finally:
            self._open[key] -= has_room
            if not self._open[key]:
                del self._open[key]


# What is sent.


def _is_finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def is_accepted(content: str | bytes) -> bool:
    """Whether a message of a 3D view is passed on to viser; False for messages of viser's panels, which are hidden.

    A ValueError for anything that viser's page never sends: unknown kinds, wrong types, values that are not finite.
    """
    try:
        message = msgspec.msgpack.decode(content.encode() if isinstance(content, str) else content)
        kind = message.pop("type")
        if kind not in ACCEPTED:
            return not KNOWN[kind]
        if not _is_finite(message):
            raise ValueError("got numbers that are not finite")
        msgspec.convert(message, ACCEPTED[kind])
    except (AttributeError, TypeError, KeyError, ValueError, RecursionError) as error:
        raise ValueError(f"view: got a message that no page sends ({error})") from None
    return True


class CheckedView:
    """The connection of a 3D view as viser gets it: an invalid message closes it and does not reach viser."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def recv(self) -> str | bytes:
        """The next accepted message."""
        while True:
            content = await self._connection.recv()
            try:
                if is_accepted(content):
                    return content
            except ValueError:
                await self._connection.close(INVALID, "got a message that the page never sends")


class Channel:
    """Sends JSON objects to one panel, from any thread; a slow browser gets only the latest message of each kind."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._waiting: dict[str, dict[str, Any]] = {}
        self._wake = asyncio.Event()

    def send(self, kind: str, content: dict[str, Any]) -> None:
        """Send a message as soon as possible."""
        with self._lock:
            self._waiting.pop(kind, None)
            self._waiting[kind] = content
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake.set)

    async def deliver(self, connection: ServerConnection) -> None:
        """Send all messages until the connection ends."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            with self._lock:
                messages, self._waiting = self._waiting, {}
            for kind, content in messages.items():
                await connection.send(json.dumps({"kind": kind, **content}, allow_nan=False))


# What is served.


@dataclass(frozen=True)
class _File:
    content: bytes
    compressed: bytes
    kind: str
    tag: str


def _viewer() -> bytes:
    """Viser's page with its own panels hidden; ours stand around it."""
    page = (Path(viser.__file__).parent / "client" / "build" / "index.html").read_bytes()
    ours = b'<link rel="stylesheet" href="viewer.css"><script src="viewer.js"></script>'
    return page.replace(b"<head>", b"<head>" + ours, 1)


def _files() -> dict[str, _File]:
    """All files, by path."""
    folder = resources.files("pvn.app.demo") / "web"
    contents = {f"/{file.name}": file.read_bytes() for file in folder.iterdir()}
    contents["/"] = contents.pop("/index.html")
    contents["/viewer"] = _viewer()
    return {
        path: _File(
            content,
            gzip.compress(content),
            KINDS[Path(path).suffix or ".html"],
            f'"{hashlib.sha256(content).hexdigest()[:24]}"',
        )
        for path, content in contents.items()
    }


def _respond(status: http.HTTPStatus, body: bytes = b"", **headers: str) -> Response:
    # No other page may frame ours and trick its visitors into pressing our buttons.
    always = {"Content-Security-Policy": "frame-ancestors 'self'", "X-Content-Type-Options": "nosniff"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status.value, status.phrase, Headers(**always, **named, **{"Content-Length": str(len(body))}), body)


def _answer(door: Door, files: dict[str, _File], request: Request) -> Response | None:
    """The answer to a request; None opens a websocket."""
    is_websocket = "websocket" in ", ".join(request.headers.get_all("Upgrade")).lower()
    refusal = door.refusal(request.headers, is_websocket)
    if refusal:
        return _respond(http.HTTPStatus.FORBIDDEN, f"{refusal}\n".encode(), Content_Type="text/plain; charset=utf-8")
    if is_websocket:
        return None
    file = files.get(request.path.partition("?")[0])
    if file is None:
        return _respond(http.HTTPStatus.NOT_FOUND, b"not found\n", Content_Type="text/plain; charset=utf-8")
    if file.tag in request.headers.get_all("If-None-Match"):
        return _respond(http.HTTPStatus.NOT_MODIFIED, ETag=file.tag)
    is_compressed = "gzip" in ", ".join(request.headers.get_all("Accept-Encoding"))
    return _respond(
        http.HTTPStatus.OK, file.compressed if is_compressed else file.content, ETag=file.tag, Cache_Control="no-cache",
        Content_Type=f"{file.kind}; charset=utf-8", Content_Encoding="gzip" if is_compressed else "identity",
    )  # fmt: skip


async def _is_known_soon(is_known: Callable[[], bool], connection: ServerConnection) -> bool:
    """Whether the visit of a 3D view begins within PANEL_S, while the view is open."""
    for _ in range(round(PANEL_S / 0.1)):
        if is_known():
            return True
        if connection.state is not State.OPEN:
            break
        await asyncio.sleep(0.1)
    return False


@contextlib.contextmanager
def serving(door: Door, serve_panel: Handler, is_known: Callable[[str], bool], num_sockets: int) -> Iterator[None]:
    """Servers that viser starts inside this context have the door, our page, and our panel's websockets.

    is_known: whether there is a visit with a key; a 3D view waits for it. num_sockets: how many may be open in all.
    viser has no hook for this, but it calls `websockets.asyncio.server.serve`, which is replaced here.
    """
    plain, files, sockets = websockets.asyncio.server.serve, _files(), OpenSockets(num_sockets)

    def serve(handler: Handler, *arguments: Any, **options: Any) -> Any:
        async def route(connection: ServerConnection) -> None:
            assert connection.request is not None
            path, _, query = connection.request.path.partition("?")
            key = parse_qs(query).get("visitor", [""])[0]
            VISITOR.set(key)
            with sockets.place(key) as has_room:
                if not has_room:
                    await connection.close(TOO_MANY, "too many connections; close other pages of this demo")
                elif path == PANEL_PATH:
                    await serve_panel(connection)
                elif await _is_known_soon(lambda: is_known(key), connection):
                    await handler(cast(ServerConnection, CheckedView(connection)))
                else:
                    await connection.close(INVALID, "expected a view beside a panel of this demo")

        def answer(connection: ServerConnection, request: Request) -> Response | None:
            return _answer(door, files, request)

        return plain(route, *arguments, **options | {"process_request": answer, "max_size": MAX_MESSAGE})

    websockets.asyncio.server.serve = serve  # type: ignore[assignment,misc]
    try:
        yield
    finally:
        websockets.asyncio.server.serve = plain  # type: ignore[misc]
