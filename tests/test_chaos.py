"""Commands that are killed, run out of disk or may not write: a short version of runs/chaos.sh, which does so with all
of them and at many more moments."""

import random
import runpy
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")]
CHAOS = runpy.run_path(str(Path(__file__).parents[1] / "runs" / "chaos.py"))
Job, undisturbed, disturb, BAD = (CHAOS[name] for name in ("Job", "undisturbed", "disturb", "BAD"))

WRITE = """
import sys
from pathlib import Path
from pvn.files import replacing
for number in range(5):
    with replacing(Path(sys.argv[1]) / f"{number}.json") as partial:
        partial.write_text("[" + "1, " * 100_000 + "1]")
"""
WRITE_OR_SAY = f"""
import sys
try:
    exec({WRITE!r})
except OSError as error:
    sys.exit(f"pvn: {{error}}")
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


def disturbed(job, folder, how, times, seed=0):
    return disturb(job, undisturbed(job, folder), folder, how, times, random.Random(seed))


def bad_things(count):
    return {kind: count.kinds[kind] for kind in BAD if count.kinds[kind]}


@pytest.fixture
def can_mount(tmp_path):
    with CHAOS["small_disk"](tmp_path, 1 << 20) as is_mounted:
        pass
    if not is_mounted:
        pytest.skip("needs to mount a disk")


def test_files_are_whole_or_absent_whenever_their_writer_is_killed(tmp_path):
    job = Job((CHAOS["OUT"],), program=WRITE)
    whole = undisturbed(job, tmp_path)
    assert len(whole.files) == 5 and whole.num_operations == 20, "for each: folder, file, renamed, removed"
    count = disturb(job, whole, tmp_path, "killed", 6, random.Random(0))
    assert bad_things(count) == {} and count.kinds["killed"] >= 3, count.examples


@pytest.mark.parametrize("how", ["full disk", "read-only"])
def test_where_nothing_can_be_written_it_is_said_and_done_later(how, tmp_path, can_mount):
    count = disturbed(Job((CHAOS["OUT"],), program=WRITE_OR_SAY), tmp_path, how, 2)
    assert bad_things(count) == {} and count.kinds["refused"] == 2, count.examples
    silent = disturbed(Job((CHAOS["OUT"],), program=WRITE), tmp_path, how, 1)
    assert bad_things(silent) == {"not said": 1}, "a traceback says too much"


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
    monkeypatch.setitem(CHAOS["kill"].__globals__, "GRACE_S", 0.1)
    count = disturbed(Job((CHAOS["OUT"],), program=program), tmp_path, "killed", 4, seed=3)
    assert count.kinds[kind] > 0, count.kinds


def test_a_corpus_whose_making_was_killed_is_made_again_as_if_it_had_never_been(tmp_path):
    count = disturbed(CHAOS["jobs"](tmp_path)["corpus make"], tmp_path, "killed", 2)
    assert bad_things(count) == {} and count.kinds["killed"] >= 1, count.examples
