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
    """Address to listen on. By default only this computer can connect; 0.0.0.0 lets in anyone who can reach it."""
    visitors: int = 8
    """Maximum number of simultaneous visitors; others are asked to come back later."""
    field: FieldName = 0
    """The field that is shown first: the number of a random one, or a LANI environment file (random_config_N.json)."""
    corpus: Path | None = None
    """A corpus whose segments can be flown."""
    runs: Path | None = None
    """Folder of training runs whose agents (pvn/agent.safetensors, gsmn/...) fly instead of the shipped ones."""
    device: Device = "cpu"
    """Where to simulate."""

    def run(self) -> None:
        """Serve until interrupted."""
        from rich.console import Console

        with needing("app"):
            from pvn.app.demo.server import DemoConfig, DemoServer

        config = DemoConfig(
            host=self.host,
            port=self.port,
            visitors=self.visitors,
            field=self.field,
            corpus=self.corpus,
            runs=self.runs,
            device=self.device,
        )
        console = Console()
        with console.status("warming up (compiling takes a minute, the first time only)") as status:
            server = DemoServer(config, watch=status.update)
        with server:
            print(f"the demo is at {server.url} (Ctrl-C ends it)", flush=True)
            server.wait()
