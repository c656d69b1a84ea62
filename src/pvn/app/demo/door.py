"""The door of the demo: which pages may talk to it, and the files that it serves.

viser serves its own page to everyone, and lets every page of the web open a websocket. Here its server answers only
requests that name it by a name under which it is served, and websockets only from its own pages.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import http
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import viser
import websockets.asyncio.server
from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from pvn.app.demo.sockets import NONSENSE, PANEL_S, TOO_MANY, CheckedView, Crowd, comes_true

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
PANEL_PATH = "/panel"
"""Where our own page opens its websocket; all others are viser's."""
MAX_MESSAGE = 1 << 20
"""Bytes of a message from a visitor."""
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
VISITOR: ContextVar[str] = ContextVar("visitor", default="")
"""The key of the visitor whose websocket is being served, from its address."""

Handler = Callable[[ServerConnection], Awaitable[None]]


def check_origin(origin: str) -> str:
    """An origin as browsers write it, such as https://demo.example.org; a ValueError if it is none."""
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


@dataclass(frozen=True)
class Door:
    """Decides who is let in."""

    host: str
    """The address on which the demo listens."""
    origins: frozenset[str] = frozenset()
    """Where else its page is served from, as the browser sees it, such as https://demo.example.org behind a proxy."""

    @property
    def is_open(self) -> bool:
        """Whether other computers can connect."""
        return self.host not in LOCAL_NAMES

    def _is_own_name(self, name: str) -> bool:
        """Whether the demo is served under this name."""
        if name in LOCAL_NAMES or name in {urlsplit(origin).hostname for origin in self.origins}:
            return True
        # A page of another site can make its own name mean this computer, but not an address.
        return self.is_open and (_is_address(name) or name in (self.host.lower(), socket.gethostname().lower()))

    def refusal(self, headers: Headers, is_websocket: bool) -> str:
        """Why a request is refused; empty if it is let in."""
        # A header that comes twice is nobody's: each reader would pick another one.
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


def _viewer() -> bytes:
    """The page of viser with its own panels hidden: ours stand around it."""
    page = (Path(viser.__file__).parent / "client" / "build" / "index.html").read_bytes()
    ours = b'<link rel="stylesheet" href="viewer.css"><script src="viewer.js"></script>'
    return page.replace(b"<head>", b"<head>" + ours, 1)


@dataclass(frozen=True)
class _File:
    content: bytes
    compressed: bytes
    kind: str
    tag: str


def _files() -> dict[str, _File]:
    """All that is served, by path."""
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
    # Nobody else's page may frame ours, and have its visitors press our buttons unseen.
    always = {"Content-Security-Policy": "frame-ancestors 'self'", "X-Content-Type-Options": "nosniff"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status.value, status.phrase, Headers(**always, **named, **{"Content-Length": str(len(body))}), body)


def _answer(door: Door, files: dict[str, _File], request: Request) -> Response | None:
    """The answer to a request; None for a websocket that is let in."""
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


@contextlib.contextmanager
def serving(door: Door, serve_panel: Handler, is_known: Callable[[str], bool], num_sockets: int) -> Iterator[None]:
    """Servers that viser starts inside this context have the door, our page, and our panel's websockets.

    is_known: whether there is a visit with a key; a 3D view waits for it. num_sockets: how many may be open.
    viser has no other way to be told: it calls `websockets.asyncio.server.serve` with answers of its own.
    """
    plain, files, crowd = websockets.asyncio.server.serve, _files(), Crowd(num_sockets)

    def serve(handler: Handler, *arguments: Any, **options: Any) -> Any:
        async def route(connection: ServerConnection) -> None:
            assert connection.request is not None
            path, _, query = connection.request.path.partition("?")
            key = parse_qs(query).get("visitor", [""])[0]
            VISITOR.set(key)
            with crowd.place(key) as has_room:
                if not has_room:
                    await connection.close(TOO_MANY, "too many connections; close other pages of this demo")
                elif path == PANEL_PATH:
                    await serve_panel(connection)
                elif await comes_true(lambda: is_known(key), connection, PANEL_S):
                    await handler(cast(ServerConnection, CheckedView(connection)))
                else:
                    await connection.close(NONSENSE, "expected a view beside a panel of this demo")

        def answer(connection: ServerConnection, request: Request) -> Response | None:
            return _answer(door, files, request)

        return plain(route, *arguments, **options | {"process_request": answer, "max_size": MAX_MESSAGE})

    websockets.asyncio.server.serve = serve  # type: ignore[assignment,misc]
    try:
        yield
    finally:
        websockets.asyncio.server.serve = plain  # type: ignore[misc]


def own_addresses(port: int) -> Sequence[str]:
    """Addresses under which other computers may find this one."""
    with contextlib.suppress(OSError):
        found = {str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), port, family=socket.AF_INET)}
        return [f"http://{address}:{port}" for address in sorted(found) if not address.startswith("127.")]
    return []
