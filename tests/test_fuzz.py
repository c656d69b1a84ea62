"""Readers given files that were changed at random fail by naming the file, and in no other way."""

import runpy
from pathlib import Path

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).with_name("fuzz.py")))
READERS, Reader, fuzz = SCRIPT["READERS"], SCRIPT["Reader"], SCRIPT["fuzz"]
INPUTS = 1000
# Files of megabytes, fields that are made anew and flights: as many as in the time of a thousand others.
FEWER = {"agent": 50, "own flights": 100, "airsim": 50, "mavlink": 200, "view": 300, "link": 300}
STREAMS = ("airsim", "mavlink")
"""Many messages at once, of which one that is refused changes only its own answer."""

CHECKED = ("corpus", "agent", "flights", "checkpoint")
"""Files with checksums."""


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        *(pytest.param(name, FEWER.get(name, INPUTS), marks=pytest.mark.long) for name in READERS),
        *(pytest.param(name, INPUTS, marks=pytest.mark.slow) for name in FEWER),
    ],
)
def test_changed_files_are_read_or_refused_by_name(name, inputs):
    count = fuzz(READERS[name], seed=0, num_inputs=inputs)
    assert count.examples == {}
    assert name not in CHECKED or count.kinds["changed"] == 0, "a checksum tells that a file was changed"
    assert count.kinds["clean"] > (0.2 if name in STREAMS else 0.5) * count.kinds.total() > 0


@pytest.mark.parametrize(
    ("read", "kind"),
    [
        (lambda text: int(text), "other"),
        (lambda text: {}[text], "other"),
        (lambda text: bytes(10**12), "other"),
        (lambda text: b"", "same"),
        (lambda text: text.encode(), "changed"),
    ],
)
def test_what_readers_do_is_counted(read, kind):
    def write(folder):
        (folder / "number.txt").write_text("1")
        return [folder / "number.txt"]

    def read_unless_valid(folder):
        text = (folder / "number.txt").read_bytes().decode(errors="replace")
        return b"" if text == "1" else read(text)

    count = fuzz(lambda: Reader(write, read_unless_valid), seed=0, num_inputs=30)
    assert count.kinds[kind] > 10 and count.kinds["hang"] == 0
