"""The scripts in runs/ need no package that training does not need."""

import subprocess
import sys
from pathlib import Path

import pytest

RUNS = Path(__file__).parents[1] / "runs"
LOAD = """
import runpy, sys
for name in ("tyro", "gymnasium", "viser", "rich"):
    sys.modules[name] = None  # as if it were not installed
for script in sys.argv[1:]:
    runpy.run_path(script)
"""


@pytest.mark.long
def test_training_machines_need_no_viewer_and_no_command_line():
    scripts = sorted(set(RUNS.glob("*.py")) - {RUNS / "airsim_scripts.py"})  # which trains nothing
    subprocess.run([sys.executable, "-c", LOAD, *scripts], cwd=RUNS.parent, check=True)
