"""Files are written whole or not at all, what is left of other attempts is removed, and JSON is refused by name."""

import os
import re
import subprocess
import sys

import pytest

from pvn.bridges.airsim.settings import read_settings
from pvn.bridges.mavlink.calibration import read_calibration
from pvn.corpus.meadow.banks import read_bank
from pvn.corpus.natural.own import read_instructions
from pvn.corpus.segments import Corpus
from pvn.corpus.store import read_corpus
from pvn.files import replacing
from pvn.learning.checkpoint import write_tensors
from pvn.systems import load_agent
from pvn.world.lani import read_layout

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


def read_manifest(path):
    read_corpus(path.parent)


def read_description(path):
    write_tensors(path.with_suffix(".safetensors"), {})
    load_agent(path.with_suffix(".safetensors"))


def read_own_instructions(path):
    read_instructions(path, Corpus("empty", {}))


READERS = [
    read_manifest, read_description, read_layout, read_settings, read_calibration, read_bank, read_own_instructions,
]  # fmt: skip


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    "content",
    [
        b'{"version": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"version": ' + b"1" * 5000 + b"}",
        b'{"version": "\xff"}',
        b'{"version": 1',
        b"",
    ],
    ids=["nested", "digits", "not UTF-8", "cut", "empty"],
)
def test_whatever_is_wrong_with_a_json_file_is_an_error_that_names_it(read, content, tmp_path):
    path = tmp_path / "corpus.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"^{re.escape(str(path))}: not (valid JSON|UTF-8 text) \(.+\); \w+"):
        read(path)
