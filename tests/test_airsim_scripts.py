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


def test_the_page_says_what_came_of_every_script():
    text = (ROOT / "docs" / "airsim.md").read_text(encoding="utf-8")
    section = " ".join(text[text.index("### AirSim's own example scripts") : text.index("### Public projects")].split())
    tables = re.findall(r"\| (\w+(?:, \w+)*) \| ([^|]+) \|", section.replace("| script | what it did here |", ""))
    content = json.loads((ROOT / "docs" / "results" / "airsim_scripts.json").read_text(encoding="utf-8"))
    found = {row["name"]: row for row in content["scripts"]}
    listed = [name for names, _ in tables for name in names.split(", ")]
    idle, refused, stopped = (
        re.findall(r"`(\w+)`", section.split(begin)[1].split(end)[0])
        for begin, end in (("nothing to show for it here:", "."), ("fail:", "."), ("Stopped before their end", "."))
    )
    assert sorted(listed + idle + refused) == sorted(found)
    assert f"Of the {len(found)} scripts {len(listed)} do what they should" in section
    assert f"{len(idle)} run to their end or their time limit" in section and f"{len(refused)} fail:" in section
    assert {name for name in listed + idle if found[name]["exit"] != 0} == set(stopped)
    assert {found[name]["exit"] for name in stopped} == {"stopped"}
    for names, told in tables:  # 32 m are those of one of the scripts of a row, in flight or from their start
        metres = {round(found[name][key]) for name in names.split(", ") for key in ("metres_flown", "metres_away")}
        assert {int(number) for number in re.findall(r"(\d+) m\b", told)} <= metres, (names, told, metres)


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
