"""`pvn fly --simulator mavlink://...`: one instruction flown by a drone with an autopilot."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from pvn.cli.tasks import words_report

if TYPE_CHECKING:
    from pvn.bridges.mavlink.field import MavlinkField
    from pvn.bridges.mavlink.limits import Limits
    from pvn.evaluation.pilots import Pilot
    from pvn.simulator.interface import SimulatorConfig
    from pvn.world.task import Task

EXAMPLE = "mavlink://udpin:0.0.0.0:14540?camera=http://127.0.0.1:8088/camera.mjpg"
DRY_RUN_STEPS = 10
_LIMITS = ("fence", "floor", "ceiling", "speed", "climb", "battery")
"""Limits that may be given in the address; the others have no good reason to be changed."""


@dataclass(frozen=True)
class DroneAddress:
    """What the address of a drone says."""

    connection: str
    """As MAVSDK writes it: udpin://0.0.0.0:14540."""
    camera: str
    calibration: Path | None
    limits: dict[str, float]


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def parse_address(url: str) -> DroneAddress:
    """Read mavlink://udpin:HOST:PORT?camera=URL&calibration=FILE&fence=METRES... or mavlink://serial:/dev/...?..."""
    parts = urlsplit(url)
    kind, _, place = f"{parts.netloc}{parts.path}".partition(":")
    options = dict(parse_qsl(parts.query))
    unknown = [name for name in options if name not in ("camera", "calibration", *_LIMITS)]
    is_place = re.fullmatch(r"[^:/]*:\d+", place) if kind != "serial" else re.fullmatch(r"/\S+(:\d+)?", place)
    if parts.scheme != "mavlink" or kind not in ("udpin", "udpout", "tcpin", "tcpout", "serial") or not is_place:
        raise ValueError(f"simulator: got {url!r}, expected an address such as {EXAMPLE}")
    if unknown:
        raise ValueError(f"simulator: got {unknown[0]!r}, expected camera, calibration, {', '.join(_LIMITS)}")
    if "camera" not in options:
        raise ValueError(f"simulator: got no camera, expected ?camera= with a URL, device or folder, such as {EXAMPLE}")
    for name in _LIMITS:
        if name in options and not _is_number(options[name]):
            raise ValueError(f"{name}: got {options[name]!r}, expected a number")
    return DroneAddress(
        f"{kind}://{place}",
        options["camera"],
        Path(options["calibration"]) if "calibration" in options else None,
        {name: float(options[name]) for name in _LIMITS if name in options},
    )


def _write_log(path: Path, instruction: str, reading: dict[str, Any], field: MavlinkField, why: str) -> None:
    import json

    from pvn.files import replacing

    log = field.log()
    content = {
        "instruction": instruction,
        **reading,
        "is_dry_run": not field.options.can_arm,
        "ended": why,
        "has_stopped": log is not None and bool(log.has_stopped[0]),
        "poses": [] if log is None else log.pose_world[0].tolist(),
        "actions": [] if log is None else log.action[0].tolist(),
        "setpoints": [
            [one.time_s, one.velocity.forward, one.velocity.climb, one.velocity.yaw_rate] for one in field.sent
        ],
    }
    with replacing(path) as partial:
        partial.write_text(json.dumps(content, indent=1), encoding="utf-8")
    print(f"flight log: {path}")


def _announce(limits: Limits, altitude: float, can_arm: bool) -> None:
    """Say what is about to happen."""
    if can_arm:
        print("armed flight: the pilot's mode switch ends it at any time, and so does Ctrl-C", flush=True)
    else:
        print("dry run: the drone gets no command and no set-point; --arm flies", flush=True)
    print(
        f"limits: {limits.fence:g} m around the start, {limits.floor:g} to {limits.ceiling:g} m high (held at "
        f"{altitude:g} m), {limits.speed:g} m/s, lands at {limits.battery:.0%} of the battery",
        flush=True,
    )


def _warm_up(pilot: Pilot, config: SimulatorConfig, task: Task) -> None:
    """Decide once about a black picture: the first decision takes seconds, which are better spent on the ground."""
    import torch

    from pvn.simulator.interface import Observation

    policy, device = pilot.policy_for(), torch.device("cpu")
    image = torch.zeros((1, config.camera.height, config.camera.width, 3), dtype=torch.uint8)
    pose = torch.tensor([[0.0, 0.0, config.altitude, 0.0, 0.0, 0.0]])
    policy.act(Observation(image, pose, torch.zeros(1, 3)), policy.begin([task], device))


def fly_over_mavlink(
    url: str, instructions: Sequence[str], pilot: Pilot, out: Path, *, can_arm: bool, altitude: float | None
) -> None:
    """Fly one instruction, or show what would be sent; however it ends, set-points end and the log is written."""
    from dataclasses import replace

    from pvn.cli.options import needing

    with needing("mavlink"):
        import cv2  # noqa: F401
        import mavsdk  # noqa: F401

    from pvn.bridges.mavlink.calibration import read_calibration
    from pvn.bridges.mavlink.field import MavlinkField, MavlinkOptions
    from pvn.bridges.mavlink.limits import Limits
    from pvn.corpus.typed_instruction import clean_instruction
    from pvn.rollout.flight import fly
    from pvn.viz.tables import print_flights
    from pvn.world.task import HORIZON, Task

    address = parse_address(url)
    if len(instructions) != 1:
        raise ValueError(f'instruction: got {len(instructions)}, expected one such as "go to the tree"')
    words = clean_instruction(instructions[0])
    limits = Limits(**address.limits)
    calibration = None if address.calibration is None else read_calibration(address.calibration)
    config = pilot.config if altitude is None else replace(pilot.config, altitude=altitude)
    options = MavlinkOptions(can_arm=can_arm, limits=limits, calibration=calibration)
    _announce(limits, config.altitude, can_arm)
    with MavlinkField(address.connection, address.camera, config=config, options=options) as field:
        why = "the agent stopped, or its time was over"
        try:
            _warm_up(pilot, config, Task(field.layouts[0], (0.0, 0.0, 0.0), words))
            task = Task(field.layouts[0], field.take_off(), words)
            log = fly(field, [task], pilot.policy_for(), horizon=HORIZON if can_arm else DRY_RUN_STEPS)
        except KeyboardInterrupt:
            why = "Ctrl-C"
            print("Ctrl-C: set-points end, and the drone is left holding" if can_arm else "Ctrl-C", flush=True)
            raise
        except BaseException as error:
            why = str(error) or type(error).__name__
            raise
        finally:
            if not field.hover():
                print("the autopilot could not be asked to hold; its own failsafe takes over now that set-points ended")
            _write_log(out / "flight_mavlink.json", words, words_report(pilot, words), field, why)
    if can_arm:
        print_flights(f"{pilot.name} at {url}", [task], log, goals=[None], is_own_world=False)
        print("the drone holds its place; land it with your transmitter or ground station")
    else:
        _print_setpoints(field)


def _print_setpoints(field: MavlinkField) -> None:
    """What would have been sent, once for each decision."""
    from rich.console import Console
    from rich.table import Table

    table = Table("seconds", "forward m/s", "climb m/s", "turn degrees/s, left positive", title="what would be sent")
    every = max(round(field.config.step_seconds * 20), 1)
    start = field.sent[0].time_s if field.sent else 0.0
    for one in field.sent[::every]:
        velocity = one.velocity
        turn = f"{math.degrees(velocity.yaw_rate):.0f}"
        table.add_row(f"{one.time_s - start:.1f}", f"{velocity.forward:.2f}", f"{velocity.climb:.2f}", turn)
    Console().print(table)
