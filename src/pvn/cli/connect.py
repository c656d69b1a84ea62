"""`pvn connect`: fly an instruction in another world, an AirSim server or a drone with a MAVLink autopilot."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg, subcommand

from pvn.bridges import AirSimOptions, MavlinkOptions
from pvn.cli.file_names import check_folder, unused_path
from pvn.cli.options import AgentName, needing
from pvn.cli.tasks import check_instruction, check_quoted, words_report
from pvn.systems import DEFAULT_AGENT

if TYPE_CHECKING:
    from pvn.bridges import MavlinkField, RemoteField
    from pvn.evaluation.pilots import Pilot

DRY_RUN_STEPS = 10


@dataclass(frozen=True, kw_only=True)
class Flight:
    """What is flown, by whom."""

    instruction: Annotated[Positional[tuple[str, ...]], arg(metavar="INSTRUCTION")] = ()
    """What to do, in quotes: "go to the tree and stop"."""
    agent: AgentName = DEFAULT_AGENT
    """Who flies: a system's name, or the file of an agent you trained."""
    runs: Path | None = None
    """Folder of training runs whose agents fly instead of the shipped ones."""
    altitude: float | None = None
    """Height above the ground at which the drone is held, metres; by default the agent's own, usually 5."""
    out: Path = Path("pictures")
    """Folder for the flight's log, a JSON file, which replaces none that is there."""

    def words(self) -> str:
        """The instruction, checked."""
        from pvn.corpus.typed_instruction import clean_instruction

        check_quoted(self.instruction)
        if len(self.instruction) != 1:
            raise ValueError(f'instruction: got {len(self.instruction)}, expected one in quotes: "go to the tree"')
        return clean_instruction(self.instruction[0])

    def pilot(self) -> Pilot:
        """Who flies, once everything about the flight has been checked."""
        from pvn.cli.progress import working

        words = self.words()
        check_folder(self.out)
        with working("loading the agent"):
            from pvn.evaluation.pilots import load_pilot

            pilot = load_pilot(self.agent, runs=self.runs)
        check_instruction(words, pilot)
        altitude = pilot.config.altitude if self.altitude is None else self.altitude
        return replace(pilot, config=replace(pilot.config, altitude=altitude))


def _decide_once(pilot: Pilot, field: RemoteField) -> None:
    """Decide once about a black picture: the first decision takes seconds, which are better spent on the ground."""
    import torch

    from pvn.simulator.interface import Observation
    from pvn.world.task import Task

    policy, camera = pilot.policy_for(), pilot.config.camera
    image = torch.zeros((1, camera.height, camera.width, 3), dtype=torch.uint8)
    pose = torch.tensor([[0.0, 0.0, pilot.config.altitude, 0.0, 0.0, 0.0]])
    memory = policy.begin([Task(field.layouts[0], (0.0, 0.0, 0.0), "go on")], field.device)
    policy.act(Observation(image, pose, torch.zeros(1, 3)), memory)


def _write_log(path: Path, content: dict[str, Any]) -> None:
    from pvn.files import replacing

    with replacing(path) as partial:
        partial.write_text(json.dumps(content, indent=1), encoding="utf-8")
    print(f"flight log: {path}")


def fly_over(field: RemoteField, flight: Flight, pilot: Pilot, name: str) -> None:
    """Take off and fly. However the flight ends, the drone is then asked to hover, and the log is written.

    name: of the other world, in the table and in the log's file name.
    """
    from pvn.rollout.flight import fly
    from pvn.viz.tables import print_flights
    from pvn.world.task import HORIZON, Task

    words, why = flight.words(), "the agent stopped, or its time was over"
    try:
        _decide_once(pilot, field)
        task = Task(field.layouts[0], field.take_off(), words)
        log = fly(field, [task], pilot.policy_for(), horizon=DRY_RUN_STEPS if field.is_dry_run else HORIZON)
    except KeyboardInterrupt:
        why = "Ctrl-C"
        print("Ctrl-C: the flight ends here", flush=True)
        raise
    except BaseException as error:
        why = str(error) or type(error).__name__
        raise
    finally:
        if not field.hover():
            print("the drone could not be asked to hover; it is on its own now", flush=True)
        content = {"instruction": words, **words_report(pilot, words), "ended": why, **field.report()}
        _write_log(unused_path(flight.out / f"flight_{name.lower()}.json"), content)
    if not field.is_dry_run:
        print_flights(f"{pilot.name} over {name}", [task], log, goals=[None], is_own_world=False)


@dataclass(frozen=True, kw_only=True)
class ConnectAirSim:
    """Fly your instruction in an AirSim world (docs/airsim.md). Tried over our own server, never in Unreal."""

    flight: Flight
    world: AirSimOptions = AirSimOptions()

    def run(self) -> None:
        """Fly."""
        with needing("airsim"):
            from pvn.bridges import AirSimField

        pilot = self.flight.pilot()
        with AirSimField(self.world, config=pilot.config) as field:
            fly_over(field, self.flight, pilot, "AirSim")


def _print_setpoints(field: MavlinkField) -> None:
    """What would have been sent, once for each decision."""
    from rich.console import Console
    from rich.table import Table

    table = Table("seconds", "forward m/s", "climb m/s", "turn degrees/s, left positive", title="what would be sent")
    for one in field.sent[:: field.setpoints_per_step]:
        velocity, seconds = one.velocity, one.time_s - field.sent[0].time_s
        turn = f"{math.degrees(velocity.yaw_rate):.0f}"
        table.add_row(f"{seconds:.1f}", f"{velocity.forward:.2f}", f"{velocity.climb:.2f}", turn)
    Console().print(table)


@dataclass(frozen=True, kw_only=True)
class ConnectMavlink:
    """Fly a drone with a MAVLink autopilot by your instruction, or show what it would be sent (docs/mavlink.md).

    Tried on PX4 and ArduPilot in their simulators, never on a real drone.
    """

    flight: Flight
    drone: MavlinkOptions

    def run(self) -> None:
        """Fly, or do a dry run."""
        with needing("mavlink"):
            from pvn.bridges import MavlinkField

        pilot, limits = self.flight.pilot(), self.drone.limits
        if self.drone.arm:
            print("armed flight: the pilot's mode switch ends it at any time, and so does Ctrl-C")
        else:
            print("dry run: the drone gets no command and no set-point; --arm flies")
        print(
            f"limits: {limits.fence:g} m around the start, {limits.floor:g} to {limits.ceiling:g} m high (held at "
            f"{pilot.config.altitude:g} m), {limits.speed:g} m/s, lands at {limits.battery:.0%} of the battery",
            flush=True,
        )
        with MavlinkField(self.drone, config=pilot.config) as field:
            fly_over(field, self.flight, pilot, "MAVLink")
            if field.is_dry_run:
                _print_setpoints(field)
            else:
                print("the autopilot was asked to hold its place; land with your transmitter or ground station")


@dataclass(frozen=True, kw_only=True)
class Connect:
    """Fly an instruction elsewhere: in an AirSim world, or on a drone with a MAVLink autopilot."""

    what: (
        Annotated[ConnectAirSim, subcommand("airsim", prefix_name=False)]
        | Annotated[ConnectMavlink, subcommand("mavlink", prefix_name=False)]
    )

    def run(self) -> None:
        """Fly."""
        self.what.run()
