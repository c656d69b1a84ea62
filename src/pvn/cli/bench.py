"""`pvn bench`: how fast the simulator, the agent and the AirSim server are, and how well the oracle flies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import subcommand

from pvn.cli.options import AgentName, Device, needing, print_json
from pvn.systems import DEFAULT_AGENT


@dataclass(frozen=True, kw_only=True)
class BenchSimulator:
    """Measure frames and flight steps per second on every device here, beside other simulators that are installed."""

    json: bool = False
    """Print one JSON object instead of tables."""
    max_batch: int = 16_384
    """Largest batch size that is measured."""
    seconds: float = 1.0
    """Minimum time spent on each measurement."""

    def run(self) -> None:
        """Measure and print."""
        from pvn.evaluation.simulator_benchmark import measure_simulator
        from pvn.viz.tables import print_simulator_report

        report = measure_simulator(self.max_batch, self.seconds)
        print_json(report) if self.json else print_simulator_report(report)


@dataclass(frozen=True, kw_only=True)
class BenchOracle:
    """Fly the oracle over LANI-like segments and compare its steps and distances with the paper's."""

    json: bool = False
    """Print one JSON object instead of a table."""
    segments: int = 500
    """How many segments."""
    device: Device = "cpu"
    """Where to simulate."""

    def run(self) -> None:
        """Fly and print."""
        from pvn.cli.progress import working
        from pvn.evaluation.oracle_benchmark import measure_oracle
        from pvn.viz.tables import print_oracle_report

        with working("measuring") as watch:
            report = measure_oracle(self.segments, self.device, watch)
        print_json(report) if self.json else print_oracle_report(report)


@dataclass(frozen=True, kw_only=True)
class BenchAgent:
    """Measure one step of an agent's flight, and one of the training of the paper's, and where the time goes."""

    agent: AgentName = DEFAULT_AGENT
    """Who flies: a PVN, by name or file."""
    json: bool = False
    """Print one JSON object instead of tables."""
    device: Device = "cpu"
    """Where to fly and train."""

    def run(self) -> None:
        """Measure and print."""
        from pvn.cli.progress import working
        from pvn.evaluation.agent_benchmark import measure_agent
        from pvn.viz.tables import print_agent_report

        with working("loading the agent") as watch:
            report = measure_agent(self.agent, self.device, watch)
        print_json(report) if self.json else print_agent_report(report)


@dataclass(frozen=True, kw_only=True)
class BenchAirSim:
    """Measure images per second that AirSim clients get from our server, and its memory over many requests."""

    seconds: float = 3.0
    """Time spent on each measurement."""
    requests: int = 100_000
    """How many requests its memory is measured over."""

    def run(self) -> None:
        """Measure and print one JSON object."""
        from pvn.cli.progress import working

        with needing("airsim"):
            from pvn.bridges.airsim.benchmark import measure_airsim

        with working("starting a server") as watch:
            report = measure_airsim(self.seconds, self.requests, watch)
        print_json(report)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Measure speed, and how well the oracle flies."""

    what: (
        Annotated[BenchSimulator, subcommand("simulator", prefix_name=False)]
        | Annotated[BenchOracle, subcommand("oracle", prefix_name=False)]
        | Annotated[BenchAgent, subcommand("agent", prefix_name=False)]
        | Annotated[BenchAirSim, subcommand("airsim", prefix_name=False)]
    )

    def run(self) -> None:
        """Run the measurement."""
        self.what.run()
