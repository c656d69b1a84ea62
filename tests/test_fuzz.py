"""Readers given files that were changed at random fail by naming the file, and in no other way."""

import pytest
from fuzz import READERS, Reader, fuzz

INPUTS = 1000
# Their files have megabytes, and tens of them are changed in the time of a thousand small ones.
FEWER = {"agent": 50, "agent of 0.1": 100}


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_changed_files_are_read_or_refused_by_name(name):
    count = fuzz(READERS[name], seed=0, num_inputs=FEWER.get(name, INPUTS))
    assert count.examples == {}
    assert count.kinds["clean"] > 0.5 * count.kinds.total() > 0


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
