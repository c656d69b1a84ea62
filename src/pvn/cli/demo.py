"""`pvn demo`: fly in a browser."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pvn.cli.options import Device, FieldName, needing


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Fly by typing, in your browser: a field in 3D, a drone, and what it sees, maps and predicts."""

    port: int = 8080
    """Port of the page; 0 picks a free one."""
    host: str = "127.0.0.1"
    """Address to listen on. By default only this computer can connect."""
    public: bool = False
    """Let in everyone who can reach this computer: listens on 0.0.0.0, and says what that opens."""
    allow_origin: tuple[str, ...] = ()
    """Where the page is served from if not by this program itself, such as https://demo.example.org behind a proxy."""
    visitors: int = 64
    """Maximum number of simultaneous visitors; others are asked to come back later."""
    flights: int = 8
    """Maximum number of simultaneous flights; others wait until one of them lands."""
    field: FieldName = 3
    """The field that is shown first: the number of a random one, or a LANI environment file (random_config_N.json)."""
    corpus: Path | None = None
    """A corpus whose segments can be flown."""
    runs: Path | None = None
    """Folder of training runs whose agents (pvn/agent.safetensors, gsmn/...) fly instead of the shipped ones."""
    device: Device = "cpu"
    """Where to simulate."""

    def run(self) -> None:
        """Serve until interrupted."""
        from pvn.cli.progress import working

        if self.public and self.host != "127.0.0.1":
            raise ValueError(
                f"host: got {self.host} and --public, which listens on all addresses, expected one of them; leave out "
                "--host or --public"
            )
        with needing("app"):
            from pvn.app.demo.server import DemoConfig, DemoServer

        config = DemoConfig(
            host="0.0.0.0" if self.public else self.host,
            port=self.port,
            allow_origin=self.allow_origin,
            visitors=self.visitors,
            flights=self.flights,
            field=self.field,
            corpus=self.corpus,
            runs=self.runs,
            device=self.device,
        )
        with working("warming up (compiling takes a minute, the first time only)") as tell:
            server = DemoServer(config, watch=tell)
        with server:
            print(f"the demo is at {server.url} (Ctrl-C ends it)", flush=True)
            for line in server.opened():
                print(line, flush=True)
            server.wait()
