#!/usr/bin/env python
"""AirSim's own example scripts, each run unmodified against a fresh `pvn serve airsim`.

    python runs/airsim_scripts.py --python airsim_venv/bin/python --out scripts.json AirSim/PythonClient/multirotor ...
    python runs/airsim_scripts.py --python cosys_venv/bin/python --out scripts.json Cosys-AirSim/PythonClient/...

A script whose name is in the file already is not run again. So a run that was stopped resumes, and Cosys' folders,
given after Microsoft's, add only what Microsoft does not have: their other scripts differ in little but the import.
The interpreter has the client (airsim or cosysairsim), OpenCV, Matplotlib, Pillow and SciPy.

Each script runs in a copy of its folder, without a display, with the settings.json that it asks for; none needs
arguments. One that runs past the time limit is stopped, which is no error: some never end, others take hours. What
happened is written down; a person must judge whether the script did what it should.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import cosysairsim

from pvn.bridges import AirSimOptions, close_client
from pvn.cli.progress import progress_bar
from pvn.files import read_json, replacing

SERVER = ("serve", "airsim", "--field", "3", "--border", "open", "--quality", "fast")
SPEED, REAL_TIME = 4.0, ("pause_continue_drone",)
"""Simulated seconds a second; and scripts that sleep while the drone flies, which are run in real time."""
READY, COMPILES = "AirSim on ", "compiling"
"""How the lines of the server's console begin that are not about a script; after the first it listens."""
START_S, SAMPLE_S, SETTLE_S, STOP_S = 120.0, 0.03, 2.0, 5.0
"""Longest start of a server; time between two samples; from a script's end to the last sample, as motions may outlast
it; from an interrupt to the kill."""
MAX_SPEED, JUMP = 20.0, 0.5
"""m/s in simulated time and metres: whatever moves further between two samples was put there, and did not fly."""
Sample = tuple[float, tuple[float, float, float]]
"""Simulated seconds, and where a vehicle is: north, east, down from its start."""
MAX_MESSAGES, MAX_LETTERS = 8, 140
LEFT_OUT = ("setup_path", "wav_reader", "speaker", "kinect_publisher")
"""Three modules that others import, and a script that needs ROS."""
LIMITS_S = {
    "survey": 100.0, "gimbal": 120.0, "cv_capture": 240.0, "pause_continue_drone": 300.0,
    "stability_test": 240.0, "segmentation_colormap_gamma_test": 180.0,
}  # fmt: skip
"""Scripts that end, but late, and one that judges how still a drone hovers after two minutes for the first time."""
COMPUTER_VISION, ASKS_FOR_IT = {"SimMode": "ComputerVision"}, "activate computer vision mode"
"""Settings, and what scripts say in a comment that expect them."""
_SIZES = {"CaptureSettings": [{"ImageType": number, "Width": 960, "Height": 540} for number in (0, 1, 5)]}
_SENSORS = {"gpulidar": {"SensorType": 8, "NumberOfChannels": 16, "PointsPerSecond": 100_000}}
_COSYS = {"Vehicles": {"airsimvehicle": {"Cameras": {"frontcamera": {"X": 0.5, **_SIZES}}, "Sensors": _SENSORS}}}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    # It moves a vehicle of this name.
    "teleport": {"Vehicles": {"PX4": {"VehicleType": "SimpleFlight"}}},
    # A comment asks for it, though our server does not read it.
    "external_physics_engine": {"PhysicsEngineName": "ExternalPhysicsEngine"},
    # They take images of 960 x 540 for granted, and vehicle, camera and lidar of these names.
    **dict.fromkeys(("segmentation_test", "full_sensor_test", "segmentation_colormap_gamma_test"), _COSYS),
    "annotation_test": {"CameraDefaults": _SIZES},
}
"""Settings of scripts that neither show a settings.json nor ask for computer vision mode, but need one."""
HEADLESS = """
import builtins, contextlib, importlib
def press(message="", *rest):
    print(message)
    return "x"
def pass_by(*arguments, **options):
    return -1  # which means, of waitKey, that no key was pressed meanwhile
builtins.input = press
windows = ("imshow", "namedWindow", "moveWindow", "resizeWindow", "destroyWindow", "destroyAllWindows", "waitKey")
keys = [(name, ("wait_key",), press) for name in ("airsim", "airsim.utils", "cosysairsim", "cosysairsim.utils")]
for module, functions, answer in (*keys, ("cv2", windows, pass_by), ("PIL.ImageShow", ("show",), pass_by)):
    with contextlib.suppress(ImportError):
        for function in functions:
            setattr(importlib.import_module(module), function, answer)
"""
"""A sitecustomize, which Python imports first: nobody looks at windows or presses keys. MPLBACKEND tells Matplotlib."""


@dataclass(frozen=True)
class Outcome:
    """What came of a script, with which client, and how many files it wrote."""

    name: str
    folder: str
    client: str
    settings: str
    """Where its settings come from: script, computer vision, table, or none."""
    speed: float
    """Simulated seconds a second."""
    exit: int | str
    """What it ended with, `stopped`, or `server lost`."""
    seconds: float
    error: str
    """The last line of its traceback, if there is one."""
    says: str
    """The last line that it printed before."""
    metres_flown: float
    """Of the vehicle that flew most, without jumps."""
    metres_away: float
    """Greatest distance of any vehicle from its start, jumps included."""
    num_files: int
    messages: list[str]
    """What the server printed because of it: the first few different lines, shortened."""


def look(client: Any, tracks: dict[str, list[Sample]]) -> None:
    """Note where all vehicles are."""
    for name in client.listVehicles():
        state = client.getMultirotorState(name)
        position = state.kinematics_estimated.position
        place = position.x_val, position.y_val, position.z_val
        tracks.setdefault(name, []).append((state.timestamp / 1e9, place))


def metres_flown(track: Sequence[Sample]) -> float:
    """The length of a track, without jumps."""
    steps = [(math.dist(there, here), now - before) for (before, there), (now, here) in pairwise(track)]
    return sum(distance for distance, seconds in steps if distance <= MAX_SPEED * seconds + JUMP)


def shown_settings(text: str) -> dict[str, Any] | None:
    """The settings.json that a script shows in a comment or a string, if it does."""
    plain = "\n".join(line.removeprefix("#") for line in text.splitlines())
    for place in (index for index, letter in enumerate(plain) if letter == "{"):
        with suppress(ValueError):
            content, _ = json.JSONDecoder().raw_decode(plain[place:])
            if "SettingsVersion" in content:
                return dict(content)
    return None


def settings_for(script: Path) -> tuple[str, Mapping[str, Any] | None]:
    """What a script's settings come from, and the settings."""
    text = script.read_text(encoding="utf-8-sig")
    if script.stem in SETTINGS:
        return "table", SETTINGS[script.stem]
    if shown := shown_settings(text):
        return "script", shown
    return ("computer vision", COMPUTER_VISION) if ASKS_FOR_IT in text else ("none", None)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a process as Ctrl-C does, and kill it and its children if that does not help."""
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def start(command: Sequence[str | Path], log: Path, **options: Any) -> subprocess.Popen[bytes]:
    """Start a process in a new group, which writes everything that it prints to a file."""
    nothing, same = subprocess.DEVNULL, subprocess.STDOUT
    with log.open("wb") as console:
        return subprocess.Popen(command, stdin=nothing, stdout=console, stderr=same, start_new_session=True, **options)


@contextmanager
def serving(settings: Mapping[str, Any] | None, speed: float, folder: Path) -> Iterator[Path]:
    """A fresh server, until the block ends; yields the file with what it prints."""
    command = [sys.executable, "-c", "from pvn.cli import main; main()", *SERVER, "--speed", str(speed)]
    if settings is not None:
        (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
        command += ["--settings", str(folder / "settings.json")]
    log = folder / "server.log"
    process, begin = start(command, log), time.monotonic()
    try:
        while READY not in log.read_text(encoding="utf-8"):
            if process.poll() is not None or time.monotonic() - begin > START_S:
                raise RuntimeError(f"the server did not start:\n{log.read_text(encoding='utf-8')}")
            time.sleep(0.1)
        yield log
    finally:
        stop(process)


def files_in(folder: Path) -> set[tuple[Path, int]]:
    """All files below a folder, and when they were written."""
    return {(path, path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def last_lines(text: str) -> tuple[str, str]:
    """The last line of a traceback, if there is one, and the last line before it, both shortened."""
    said, traceback, rest = text.rpartition("Traceback (most recent call last):\n")
    errors = [line for line in rest.splitlines() if line and not line.startswith(" ")] if traceback else []
    lines = [line.strip() for line in (said if traceback else text).splitlines() if line.strip()]
    return "".join(errors[:1])[:MAX_LETTERS], "".join(lines[-1:])[:MAX_LETTERS]


def watch(process: subprocess.Popen[bytes], limit_s: float) -> tuple[int | str, float, dict[str, list[Sample]]]:
    """Look on until a script ends or its time is over: how it ended, after how long, and all vehicles' tracks."""
    client, tracks = cosysairsim.MultirotorClient(port=AirSimOptions.port, timeout_value=10), dict[str, list[Sample]]()
    begin, end = time.monotonic(), None
    try:
        while time.monotonic() < (begin + limit_s if end is None else end + SETTLE_S):
            look(client, tracks)
            if end is None and process.poll() is not None:
                end = time.monotonic()
            time.sleep(SAMPLE_S)
    except Exception:  # the client raises many kinds; all of them mean that the server is gone
        return "server lost", time.monotonic() - begin, tracks
    finally:
        close_client(client)
    return ("stopped", limit_s, tracks) if end is None else (process.returncode, end - begin, tracks)


def run_script(script: Path, python: Path, client: str, limit_s: float, keep: Path | None) -> Outcome:
    """Run a script in a copy of its folder, against a fresh server."""
    source, settings = settings_for(script)
    speed = 1.0 if script.stem in REAL_TIME else SPEED
    with tempfile.TemporaryDirectory(prefix="pvn-airsim-") as name:
        scratch = Path(name)
        work, log = scratch / "work", scratch / "script.log"
        shutil.copytree(script.parent, work, ignore=shutil.ignore_patterns("__pycache__"))
        (work / "tmp").mkdir()
        (scratch / "sitecustomize.py").write_text(HEADLESS, encoding="utf-8")
        environment = os.environ | {
            "PYTHONPATH": name, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "MPLBACKEND": "Agg",
            "PYTHONWARNINGS": "ignore", "TMPDIR": str(work / "tmp"), "HOME": name,
        }  # fmt: skip
        before = files_in(work)
        with serving(settings, speed, scratch) as console:
            process = start([python, script.name], log, cwd=work, env=environment)
            try:
                ended, seconds, tracks = watch(process, limit_s)
                said, reported = (path.read_text(encoding="utf-8", errors="replace") for path in (log, console))
            finally:
                stop(process)
        written = files_in(work) - before
        if keep is not None:
            shutil.copytree(scratch, keep / script.stem, dirs_exist_ok=True)
    error, says = last_lines(said)
    distances = (math.dist(track[0][1], place) for track in tracks.values() for _, place in track)
    lines = [line[:MAX_LETTERS] for line in reported.splitlines() if line and not line.startswith((READY, COMPILES))]
    return Outcome(
        name=script.stem, folder=script.parent.name, client=client, settings=source, speed=speed,
        exit=ended, seconds=round(seconds, 1), error=error, says=says,
        metres_flown=round(max(map(metres_flown, tracks.values()), default=0.0), 1),
        metres_away=round(max(distances, default=0.0), 1),
        num_files=len(written), messages=list(dict.fromkeys(lines))[:MAX_MESSAGES],
    )  # fmt: skip


def client_of(python: Path) -> str:
    """The name and version of the client that an interpreter has."""
    listed = "(one.name + ' ' + one.version for one in distributions() if 'airsim' in one.name)"
    program = f"from importlib.metadata import distributions; print(*{listed})"
    ended = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    if not ended.stdout.strip():
        sys.exit(f"airsim_scripts: {python} has neither airsim nor cosysairsim; install one for it\n{ended.stderr}")
    return ended.stdout.strip()


def write(path: Path, found: Sequence[Mapping[str, Any]]) -> None:
    """Write all outcomes, a line each."""
    lines = ",\n".join(json.dumps(row) for row in found)
    content = f'{{"server": "pvn {" ".join(SERVER)}", "scripts": [\n{lines}\n]}}\n'
    with replacing(path) as partial:
        partial.write_text(content, encoding="utf-8")


def print_table(found: Sequence[Mapping[str, Any]]) -> None:
    """All outcomes as a table in Markdown."""
    print("| script | exit | s | m flown | m away | files | error or message |\n| :-- |" + 5 * " --: |" + " :-- |")
    for row in found:
        figures = (row[key] for key in ("name", "exit", "seconds", "metres_flown", "metres_away", "num_files"))
        print(f"| {' | '.join(map(str, figures))} | {row['error'] or next(iter(row['messages']), '')} |")


def main() -> None:
    """Read the options, run the scripts that are missing, and print what came of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="folders of scripts")
    parser.add_argument("--python", type=Path, required=True, help="the interpreter that has the scripts' client")
    parser.add_argument("--out", type=Path, default=Path("airsim_scripts.json"), help="file for the outcomes")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds after which a script is stopped")
    parser.add_argument("--script", nargs="*", default=[], help="names of scripts to run; by default all")
    parser.add_argument("--keep", type=Path, help="folder for what scripts printed and wrote; by default it is removed")
    options = parser.parse_args()
    python, client = options.python.absolute(), client_of(options.python)
    scripts = [script for folder in options.folders for script in sorted(folder.glob("*.py"))]
    if unknown := set(options.script) - {script.stem for script in scripts}:
        parser.error(
            f"--script: got {', '.join(sorted(unknown))}, expected names of scripts in these folders, without .py"
        )
    found = read_json(options.out, "remove it to start anew")["scripts"] if options.out.exists() else []
    known = {*LEFT_OUT, *(row["name"] for row in found)}
    missing = [one for one in scripts if one.stem not in known and one.stem in (options.script or (one.stem,))]
    with progress_bar("scripts", len(missing)) as advance_to:
        for count, script in enumerate(missing, start=1):
            limit_s = max(options.limit, LIMITS_S.get(script.stem, 0.0))
            found.append(asdict(run_script(script, python, client, limit_s, options.keep)))
            write(options.out, found)
            advance_to(count)
    print_table(found)


if __name__ == "__main__":
    main()
