"""`runs/airsim_scripts.py`: how it reads scripts and their outcomes, and that the page on AirSim says what it found."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cosysairsim", reason='needs cosysairsim: pip install "pvn-drone[airsim]"')

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "runs" / "airsim_scripts.py"
UP_AND_AHEAD = """
import cosysairsim
client = cosysairsim.MultirotorClient()
client.confirmConnection()
client.enableApiControl(True)
client.takeoffAsync().join()
client.moveByVelocityAsync(2, 0, 0, 5).join()
open("done.txt", "w").write(input("press a key"))
print("well done")
"""
KILL_THE_SERVER = """
import os, pathlib, signal, time
parent = os.getppid()
for child in map(int, pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text().split()):
    if child != os.getpid():
        os.kill(child, signal.SIGKILL)
time.sleep(60)
"""


@pytest.fixture(scope="module")
def functions():
    return runpy.run_path(str(SCRIPT))


def test_settings_are_read_where_a_script_shows_them(functions):
    text = '"""Needs {settings}:\n#{\n#  "SettingsVersion": 1.2,\n#  "SimMode": "Multirotor"\n#}\n"""\nprint({})'
    assert functions["shown_settings"](text) == {"SettingsVersion": 1.2, "SimMode": "Multirotor"}
    assert functions["shown_settings"]('print({"a": 1})') is None


def test_jumps_are_not_flown(functions):
    """1 m in a tenth of a second is flown, 30 m are not, however fast the simulation runs."""
    track = [(0.0, (0.0, 0.0, 0.0)), (0.1, (1.0, 0.0, 0.0)), (0.2, (31.0, 0.0, 0.0)), (0.3, (31.0, 2.0, 0.0))]
    assert functions["metres_flown"](track) == pytest.approx(3.0)


def test_the_last_lines_are_those_of_the_traceback_and_before_it(functions):
    printed = 'took off\nTraceback (most recent call last):\n  File "x.py", line 1\nKeyError: 3\n'
    assert functions["last_lines"](printed) == ("KeyError: 3", "took off")
    assert functions["last_lines"]("one\n\ntwo\n") == ("", "two")


def test_the_page_counts_every_script():
    text = " ".join((ROOT / "docs" / "airsim.md").read_text(encoding="utf-8").split())
    content = json.loads((ROOT / "docs" / "results" / "airsim_scripts.json").read_text(encoding="utf-8"))
    found = {row["name"] for row in content["scripts"]}
    idle, failing = (
        re.findall(r"`(\w+)`", text.split(beginning)[1].split(".", 1)[0])
        for beginning in ("have nothing to show for it here", "fail (no lights,")
    )
    assert {*idle, *failing} <= found
    for count, what in (
        (len(found) - len(idle) - len(failing), "do what they should"),
        (len(idle), "have"),
        (len(failing), "fail"),
    ):
        assert f"{count} {what}" in text


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="one script finds the server in /proc")
def test_a_script_is_run_and_what_came_of_it_is_written(tmp_path):
    """On AirSim's own port, on which nothing else may listen."""
    folder, out = tmp_path / "scripts", tmp_path / "found.json"
    folder.mkdir()
    (folder / "ahead.py").write_text(UP_AND_AHEAD, encoding="utf-8")
    (folder / "kills.py").write_text(KILL_THE_SERVER, encoding="utf-8")
    (folder / "wrong.py").write_text("print('so far')\nraise KeyError(3)\n", encoding="utf-8")
    command = [sys.executable, SCRIPT, folder, "--python", sys.executable, "--out", out]
    for _ in range(2):  # the second time, nothing is left to do
        subprocess.run(command, check=True, capture_output=True)
    ahead, kills, wrong = json.loads(out.read_text(encoding="utf-8"))["scripts"]
    assert (ahead["exit"], ahead["says"], ahead["error"], ahead["num_files"]) == (0, "well done", "", 1)
    assert 8 < ahead["metres_flown"] < 20 and ahead["metres_away"] > 8
    assert (wrong["exit"], wrong["says"], wrong["error"]) == (1, "so far", "KeyError: 3")
    assert kills["exit"] == "server lost", "the others are run nevertheless"
    names = {path.name for path in folder.iterdir()}
    assert names == {"ahead.py", "kills.py", "wrong.py"}, "nothing is written beside them"
