"""The verb that shows it all in a browser: `pvn demo`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pvn.cli.options import Device


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Fly by typing, in your browser: a field in 3D, a drone, and what it sees and thinks."""

    port: int = 8080
    """Where the page is served; 0 for any port that is free."""
    host: str = "127.0.0.1"
    """Address to listen at. The default is this computer alone; 0.0.0.0 lets everybody in who can reach it."""
    visitors: int = 8
    """Visitors at once; the next is told to come back later."""
    seed: int = 0
    """The field that is shown first."""
    corpus: Path | None = None
    """A corpus whose segments can be flown."""
    runs: Path | None = None
    """A folder of `pvn train` runs; agents in it (pvn/agent.safetensors, gsmn/...) fly in place of the package's."""
    device: Device = "cpu"
    """Where to simulate."""

    def run(self) -> None:
        """Serve until interrupted."""
        from rich.console import Console

        try:
            from pvn.app.demo.server import DemoConfig, DemoServer
        except ModuleNotFoundError as error:
            if error.name != "viser":
                raise
            raise ValueError('the demo needs viser, which is not installed; pip install "pvn[app]"') from None
        config = DemoConfig(
            host=self.host,
            port=self.port,
            visitors=self.visitors,
            seed=self.seed,
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
