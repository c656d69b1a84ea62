"""`pvn fly --simulator airsim://HOST:PORT`: one instruction flown in an AirSim world."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from pvn.bridges.airsim import DEFAULT_PORT
from pvn.cli.file_names import unused_path
from pvn.cli.tasks import words_report

if TYPE_CHECKING:
    from pvn.evaluation.pilots import Pilot
    from pvn.rollout.flight import FlightLog


def _address(url: str) -> tuple[str, int, str, str]:
    """Host, port, vehicle and camera of airsim://HOST:PORT/VEHICLE?camera=NAME; all but the host are optional."""
    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port or DEFAULT_PORT
    except ValueError:  # a port that is not a number
        host, port = None, 0
    if parts.scheme != "airsim" or not host:
        raise ValueError(
            f"simulator: got {url!r}, expected airsim://HOST:PORT, such as airsim://127.0.0.1:{DEFAULT_PORT}"
        )
    (camera,) = parse_qs(parts.query).get("camera", ["0"])[:1]
    return host, port, parts.path.strip("/"), camera


def _write_log(path: Path, instruction: str, reading: dict[str, Any], log: FlightLog) -> None:
    import json

    from pvn.files import replacing

    content = {
        "instruction": instruction,
        **reading,
        "has_stopped": bool(log.has_stopped[0]),
        "poses": log.pose_world[0].tolist(),
        "actions": log.action[0].tolist(),
    }
    with replacing(path) as partial:
        partial.write_text(json.dumps(content, indent=1), encoding="utf-8")
    print(f"flight log: {path}")


def fly_over_airsim(url: str, instructions: Sequence[str], pilot: Pilot, out: Path, *, is_stepped: bool) -> None:
    """Fly one instruction in an AirSim world; however the flight ends, the drone hovers and the log is written."""
    from pvn.bridges.airsim.field import AirSimField, AirSimOptions
    from pvn.corpus.typed_instruction import clean_instruction
    from pvn.rollout.flight import fly
    from pvn.viz.tables import print_flights
    from pvn.world.task import Task

    host, port, vehicle, camera = _address(url)
    if not instructions:
        raise ValueError(
            'instruction: got none, expected one such as "go to the tree": another world has no instructions of its own'
        )
    if len(instructions) > 1:
        raise ValueError(
            f"instruction: got {len(instructions)} with --simulator, expected one; fly them one at a time, the drone "
            "hovers where it stopped"
        )
    words = clean_instruction(instructions[0])
    options = AirSimOptions(vehicle=vehicle, camera=camera, is_stepped=is_stepped)
    with AirSimField(host, port, config=pilot.config, options=options) as field:
        try:
            task = Task(field.layouts[0], field.take_off(), words)
            if field.has_idle_clock:
                print(
                    "note: the simulator's clock runs only while a motion is flown, and then as fast as it can (pvn "
                    "serve airsim --speed inf); many simulated seconds pass between two looks of the agent. Fly with "
                    "--stepped, or serve with --speed 1"
                )
            log = fly(field, [task], pilot.policy_for())
        finally:
            field.hover()
            flown = field.log()
            if flown is not None:
                _write_log(unused_path(out / "flight_airsim.json"), words, words_report(pilot, words), flown)
    print_flights(f"{pilot.name} at {url}", [task], log, goals=[None], is_own_world=False)
