"""Files are written whole or not at all, and what is left of other attempts is removed."""

import os
import subprocess
import sys

import pytest

from pvn.files import replacing

WRITE_AND_WAIT = """
import os, signal, sys
from pathlib import Path
from pvn.files import replacing
with replacing(Path(sys.argv[1])) as partial:
    partial.write_text("half")
    print(flush=True)
    signal.pause()
"""


def test_what_a_killed_process_has_left_is_removed_and_what_others_write_is_not(tmp_path):
    path = tmp_path / "[agent].json"
    (tmp_path / ".[agent].notes.partial.json").write_text("mine")
    command = [sys.executable, "-c", WRITE_AND_WAIT, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        with replacing(path) as partial:
            partial.write_text("whole")
        assert len(list(tmp_path.iterdir())) == 3, "the other process may still finish"
        process.kill()
    with replacing(path) as partial:
        partial.write_text("whole")
    assert {one.name for one in tmp_path.iterdir()} == {path.name, ".[agent].notes.partial.json"}
    assert path.read_text() == "whole"


def test_what_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("mine")
    path = tmp_path / "file" / "corpus" / "part.json"
    with pytest.raises(OSError, match=r"part\.json: cannot be written \(Not a directory\); make room, or choose"):
        with replacing(path):
            pass
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: '.*elsewhere'"):
        with replacing(tmp_path / "whole.json"):
            os.stat(tmp_path / "elsewhere")
