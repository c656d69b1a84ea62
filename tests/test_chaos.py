"""Commands that are killed, run out of disk or may not write: a short version of runs/chaos.sh, which does so with all
of them and at many more moments."""

import random
import runpy
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
CHAOS = runpy.run_path(str(Path(__file__).parents[1] / "runs" / "chaos.py"))
Job, undisturbed, kill, prepare, jobs = (CHAOS[name] for name in ("Job", "undisturbed", "kill", "prepare", "jobs"))
fill_disk, forbid_writing, can_mount = (CHAOS[name] for name in ("fill_disk", "forbid_writing", "can_mount"))
OUT, BAD = CHAOS["OUT"], CHAOS["BAD"]

WRITE = """
import sys
from pathlib import Path
from pvn.files import replacing
for number in range(5):
    with replacing(Path(sys.argv[1]) / f"{number}.json") as partial:
        partial.write_text("[" + "1, " * 100_000 + "1]")
"""

WRITE_IN_PLACE = """
import sys, time
from pathlib import Path
Path(sys.argv[1]).mkdir(exist_ok=True)
with (Path(sys.argv[1]) / "whole.json").open("w") as file:
    file.write("[")
    file.flush()
    time.sleep(1.0)
    file.write("]")
"""


WRITE_OR_SAY = f"""
import sys
try:
    exec({WRITE!r})
except OSError as error:
    sys.exit(f"pvn: {{error}}")
"""


def bad_things(count):
    return {kind: count.kinds[kind] for kind in BAD if count.kinds[kind]}


@pytest.mark.long
def test_files_are_whole_or_absent_whenever_their_writer_is_killed(tmp_path):
    job = Job((OUT,), program=WRITE)
    whole = undisturbed(job, tmp_path)
    assert len(whole.files) == 5 and whole.num_operations == 20, "for each: folder, file, renamed, removed"
    count = kill(job, whole, tmp_path, 6, random.Random(0))
    assert bad_things(count) == {} and count.kinds["killed"] >= 3, count.examples


@pytest.mark.long
def test_where_there_is_no_room_it_is_said_and_nothing_is_left(tmp_path):
    """On a small disk where one can be mounted, else with files that may not grow."""
    job = Job((OUT,), program=WRITE_OR_SAY)
    whole = undisturbed(job, tmp_path)
    count = fill_disk(job, whole, tmp_path, 3, random.Random(0))
    assert bad_things(count) == {} and count.kinds["refused"] == 3, count.examples
    silent = fill_disk(Job((OUT,), program=WRITE), whole, tmp_path, 1, random.Random(0))
    assert bad_things(silent) == {"not said": 1}, "a traceback says too much"


@pytest.mark.long
def test_where_nothing_may_be_written_it_is_said_and_done_later(tmp_path):
    if not can_mount(tmp_path):
        pytest.skip("needs to mount a disk")
    job = Job((OUT,), program=WRITE_OR_SAY)
    count = forbid_writing(job, undisturbed(job, tmp_path), tmp_path, 1, random.Random(0))
    assert bad_things(count) == {} and count.kinds["refused"] == 1, count.examples


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "kind"),
    [
        (WRITE_IN_PLACE, "half a file"),
        (WRITE + "(Path(sys.argv[1]) / str(__import__('os').getpid())).touch()", "different"),
        ("__import__('subprocess').Popen(['sleep', '60'])" + WRITE, "orphan"),
    ],
)
def test_what_should_not_be_is_counted(program, kind, tmp_path, monkeypatch):
    """Programs that write in place, differently each time, or leave a process behind."""
    monkeypatch.setitem(kill.__globals__, "GRACE_S", 0.1)
    job = Job((OUT,), program=program)
    count = kill(job, undisturbed(job, tmp_path), tmp_path, 4, random.Random(3))
    assert count.kinds[kind] > 0, count.kinds


@pytest.mark.long
def test_an_import_that_was_killed_is_repeated_as_if_it_had_never_been(tmp_path):
    prepare(tmp_path)
    job = jobs(tmp_path)["corpus import-lani"]
    whole = undisturbed(job, tmp_path)
    count = kill(job, whole, tmp_path, 2, random.Random(0))
    assert bad_things(count) == {} and count.kinds["killed"] >= 1, count.examples
