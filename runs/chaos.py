#!/usr/bin/env python
"""What becomes of the files of commands that are killed, run out of disk or may not write.

    runs/chaos.sh --moments 20                          # where it may mount small disks, or
    python runs/chaos.py --moments 20 --seed 0 --job evaluate train

Each command is run once undisturbed. Then it is killed (SIGKILL) at random moments, the same ones for the same seed:
half of them moments in time, half of them moments at which a file is about to be opened for writing, renamed or
removed, or up to 2 ms later. Each time it is given again, as a user would, and must end with the same files. The same
is done with a disk that is too small and with a folder that cannot be written to, once there is room. Linux only.
"""

from __future__ import annotations

import argparse
import getpass
import hashlib
import itertools
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OUT = "OUT"
"""Stands for the folder to write to, in the arguments of a command."""
LATEST = 0.002
"""Most seconds between the moment of a file operation and the kill."""
GRACE_S = 10.0
"""For this long a killed command's processes may outlive it, seconds."""
MOST = 0.9
"""Share of its duration in which a command is killed: other runs of it may be quicker."""
LARGE_DISK = "2g"
PVN = "from pvn.cli import main; main()"
SAVE = """
import sys
from pathlib import Path
from pvn.learning.agent import load_agent, save_agent
agent = load_agent("pvn")
try:
    for version in range(5):
        save_agent(agent, Path(sys.argv[1]) / "agent.safetensors", {"version": version})
except OSError as error:
    sys.exit(f"pvn: {error}")
"""
WRITE_LANI = """
import json, sys
from pathlib import Path
from pvn.corpus.store import read_corpus
from pvn.world.lani import write_layout, write_route
folder = Path(sys.argv[2]) / "configs"
for split, segments in read_corpus(sys.argv[1]).splits.items():
    records = []
    for segment in {segment.environment: segment for segment in segments}.values():
        number, path = segment.environment, segment.demonstration.path
        (begin, end) = (225 + path[index] for index in (0, -1))
        write_layout(segment.task.layout, folder / "configs" / f"random_config_{number}.json")
        write_route(path, folder / "paths" / f"random_curve_{number}.json")
        records.append({
            "id": str(number), "valid": True, "instructions": ["go there ."], "moves": ["FF"], "start_rot": [90.0],
            "start_x": [begin[0]], "start_z": [begin[1]], "end_x": [end[0]], "end_z": [end[1]],
        })
    (folder / f"{split}_annotations_6000.json").write_text(json.dumps(records))
"""
SABOTAGED = """
import atexit, os, signal, sys, threading
folder, number, delay, counted, program = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4], sys.argv[5]
del sys.argv[1:6]
count = 0
def kill():
    os.kill(os.getpid(), signal.SIGKILL)
def watch(event, arguments):
    global count
    if event not in ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"):
        return
    path = arguments[0]
    if not isinstance(path, (str, os.PathLike)) or not os.path.abspath(path).startswith(folder):
        return
    if event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR):
        return
    count += 1
    if count == number:
        threading.Timer(delay, kill).start() if delay else kill()
sys.addaudithook(watch)
atexit.register(lambda: open(counted, "w").write(str(count)))
exec(program, {"__name__": "__main__"})
"""


@dataclass(frozen=True)
class Job:
    """A command that is disturbed."""

    arguments: tuple[str, ...]
    program: str = PVN
    again: tuple[str, ...] = ()
    """What is added to the arguments to continue."""
    complete: str | None = None
    """A file whose presence means that nothing is left to do, and that the command refuses to do it again."""
    between: tuple[str, str] | None = None
    """Moments in time lie between the appearances of these two files; without, anywhere."""


@dataclass(frozen=True)
class Undisturbed:
    """What a command does if nobody disturbs it."""

    files: Mapping[str, str]
    """Checksums of its files, by name."""
    num_bytes: int
    """Of all of them."""
    largest: int
    """Bytes of the largest file that it writes."""
    duration: float
    """Seconds in which it can be killed, from its beginning or from the appearance of a file."""
    num_operations: int
    """File operations that it can be killed at."""


@dataclass
class Count:
    """What came of the disturbances of one command."""

    kinds: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def note(self, kind: str, examples: list[str]) -> None:
        """Count something that should not be, if there are examples of it."""
        self.kinds[kind] += bool(examples)
        self.examples += [f"{kind}: {example}" for example in examples[:3]]


def jobs(shared: Path) -> dict[str, Job]:
    """Every command, small; shared: the folder with what they read."""
    corpus = str(shared / "corpus")
    train = (
        "train", "--agent", "pvn", "--preset", "smoke", "--corpus", corpus, "--out", OUT, "--camera.width", "32",
        "--camera.height", "18", "--stage1.num-epochs", "3", "--stage1.word-steps", "20", "--stage1.save-every", "2",
        "--stage1.measured-flights", "2", "--stage2.pretrain-flights", "10", "--stage2.num-iterations", "3",
    )  # fmt: skip
    return {
        "corpus make": Job(
            ("corpus", "make", "--size", "200", "--processes", "2", "--out", OUT), complete="corpus.json"
        ),
        "corpus import-lani": Job(
            ("corpus", "import-lani", str(shared / "lani"), "--out", OUT), complete="corpus.json"
        ),
        "train": Job(train, again=("--resume",)),
        "train, in stage 1": Job(
            train, again=("--resume",), between=("stage1_training.safetensors", "stage1.safetensors")
        ),
        "evaluate": Job(
            ("evaluate", "--agent", "oracle", "--corpus", corpus, "--split", "train", "--paragraphs", "--out", OUT)
        ),
        "reproduce": Job((
            "reproduce", "--out", OUT, "--preset", "smoke", "--size", "40", "--limit", "4", "--agent", "stop", "oracle",
        )),
        "reproduce, two jobs": Job((
            "reproduce", "--out", OUT, "--preset", "smoke", "--size", "40", "--limit", "4", "--agent", "stop", "oracle",
            "--jobs", "2",
        )),
        "save an agent": Job((OUT,), program=SAVE),
    }  # fmt: skip


# Running a command.


def _environment(folder: Path, mark: str) -> dict[str, str]:
    threads = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    return {**os.environ, **threads, "TMPDIR": str(folder), "PVN_CHAOS": mark, "COLUMNS": "200"}


def _begin(
    job: Job,
    out: Path,
    mark: str,
    *,
    more: tuple[str, ...] = (),
    operation: int = 0,
    delay: float = 0.0,
    limit: int = 0,
) -> subprocess.Popen[str]:
    """Start a command. operation: which file operation it is killed at, after a delay; limit: bytes of its files."""
    arguments = [str(out) if argument == OUT else argument for argument in (*job.arguments, *more)]
    temporary = out.parent.parent / "temporary"
    temporary.mkdir(exist_ok=True)
    counted = out.parent.parent / "operations"
    watched = [str(out.parent), str(operation), str(delay), str(counted), job.program]

    def limit_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        [sys.executable, "-c", SABOTAGED, *watched, *arguments], cwd=out.parent.parent, text=True,
        env=_environment(temporary, mark), stdout=subprocess.DEVNULL, stderr=_said(out).open("w"),
        preexec_fn=limit_files if limit else None,
    )  # fmt: skip


def _said(out: Path) -> Path:
    """Where a command's errors are written: a pipe would have to be read, and end with all that hold it."""
    return out.parent.parent / "said"


def _run(job: Job, out: Path, mark: str, **options: Any) -> tuple[int, str]:
    """Run a command to its end: how it ended, and what it said."""
    code = _begin(job, out, mark, **options).wait()
    return code, _said(out).read_text(errors="replace")


def _continue(job: Job, out: Path, mark: str) -> tuple[int, str]:
    """Give a command again, unless it was finished."""
    if job.complete is not None and (out / job.complete).exists():
        return 0, ""
    return _run(job, out, mark, more=job.again)


# What it leaves.

CACHES = {f"torchinductor_{getpass.getuser()}"}
"""What others keep in the system's folder for temporary files on purpose."""
VOLATILE = ("seconds", "machine", "peak_host_gib", "description_sha256")


def _lasting(content: Any) -> Any:
    """JSON without what depends on the time that something took."""
    if isinstance(content, dict):
        return {key: _lasting(value) for key, value in content.items() if key not in VOLATILE and key[-2:] != "_s"}
    return [_lasting(value) for value in content] if isinstance(content, list) else content


def _content(path: Path) -> bytes:
    """A file's content, without times."""
    content = path.read_bytes()
    if path.suffix == ".json":
        return json.dumps(_lasting(json.loads(content))).encode()
    if path.name == "report.md":  # it ends with the commands, which name the folder, and their times
        return content.partition(b"## How these results were obtained")[0]
    return content


def _paths(folder: Path) -> Iterator[Path]:
    """Files, but for logs, locks and how long everything took."""
    paths, timed = folder.rglob("*") if folder.exists() else (), {"logs", ".locks", "times.json", "schedule.png"}
    return (path for path in paths if path.is_file() and not timed & {*path.parts})


def _files(folder: Path) -> dict[str, str]:
    """Checksums of the files in a folder, by name."""
    found = {path: hashlib.sha256(_content(path)).hexdigest() for path in sorted(_paths(folder))}
    return {str(path.relative_to(folder)): digest for path, digest in found.items()}


def _is_partial(path: Path) -> bool:
    return any(".partial" in part for part in path.parts)


def _is_whole(path: Path) -> bool:
    """Whether a file has an end."""
    content = path.read_bytes()
    try:
        if path.suffix == ".json":
            json.loads(content)
        if path.suffix == ".png":
            return content.endswith(b"IEND\xaeB`\x82")
        if path.suffix == ".safetensors":
            length = int.from_bytes(content[:8], "little")
            header = json.loads(content[8 : 8 + length])
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
            return len(content) == 8 + length + max(ends, default=0)
    except ValueError:
        return False
    return bool(content)


def _processes(mark: str) -> list[int]:
    """Processes that a command has started, itself included."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and f"PVN_CHAOS={mark}".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:  # it has ended, or is someone else's
            continue
    return found


def _orphans(mark: str) -> list[str]:
    """Processes that outlive their command; they are ended."""
    until = time.monotonic() + GRACE_S
    while (left := _processes(mark)) and time.monotonic() < until:
        time.sleep(0.1)
    for process in left:
        os.kill(process, signal.SIGKILL)
    return [f"process {process}" for process in left]


def _differences(expected: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    return sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))


# Disturbing it.


@contextmanager
def _trial(folder: Path, name: str) -> Iterator[tuple[Path, str]]:
    """A folder to write to, inside one of its own, and a mark for the processes; removed afterwards."""
    trial = folder / name.replace(" ", "_")
    (trial / "disk").mkdir(parents=True)
    try:
        yield trial / "disk" / "out", uuid.uuid4().hex
    finally:
        shutil.rmtree(trial, ignore_errors=True)


def undisturbed(job: Job, folder: Path) -> Undisturbed:
    """Run a command, and look at what it does."""
    with _trial(folder, "undisturbed") as (out, mark):
        began = time.monotonic()
        process = _begin(job, out, mark)
        appeared: dict[str, float] = {}
        while process.poll() is None:
            for name in job.between or ():
                if name not in appeared and (out / name).exists():
                    appeared[name] = time.monotonic() - began
            time.sleep(0.01)
        ended, said = time.monotonic() - began, _said(out).read_text(errors="replace")
        if process.returncode:
            raise RuntimeError(f"{' '.join(job.arguments)}: undisturbed, it ended with {process.returncode}:\n{said}")
        sizes = [path.stat().st_size for path in _paths(out)]
        begin, end = (appeared[name] for name in job.between) if job.between else (0.0, ended)
        duration = end - begin
        count = int((out.parent.parent / "operations").read_text())
        return Undisturbed(_files(out), sum(sizes), max(sizes), duration, count)


def _compare(job: Job, out: Path, mark: str, whole: Undisturbed, count: Count) -> None:
    """Give a command again, and count what is not as it would have been."""
    code, said = _continue(job, out, mark)
    partial = [path for path in _paths(out.parent) if _is_partial(path)]
    temporary = [path for path in (out.parent.parent / "temporary").glob("*") if path.name not in CACHES]
    left = [str(path) for path in (*partial, *temporary)]
    count.note("not resumed", [said.strip()[-600:]] if code else [])
    count.note("leftover", left)
    count.note("different", _differences(whole.files, _files(out)) if not code else [])


def kill(job: Job, whole: Undisturbed, folder: Path, moments: int, generator: random.Random) -> Count:
    """Kill a command at random moments, and give it again."""
    count = Count()
    for number in range(moments):
        by_clock = number % 2 == 0 or job.between is not None
        seconds = generator.uniform(0.0, MOST * whole.duration)
        operation = generator.randint(1, whole.num_operations)
        delay = generator.choice((0.0, generator.uniform(0.0, LATEST)))
        with _trial(folder, f"kill {number}") as (out, mark):
            process = _begin(job, out, mark, operation=0 if by_clock else operation, delay=delay)
            while job.between and process.poll() is None and not (out / job.between[0]).exists():
                time.sleep(0.01)
            try:
                process.wait(seconds if by_clock else None)
            except subprocess.TimeoutExpired:
                process.kill()
            process.wait()
            count.kinds["killed"] += process.returncode == -signal.SIGKILL
            count.note("orphan", _orphans(mark))
            paths = [path for path in _paths(out) if not _is_partial(path)]
            count.note("half a file", [str(path) for path in paths if not _is_whole(path)])
            shutil.rmtree(out.parent.parent / "temporary")  # what a killed process has left in the system's own folder
            _compare(job, out, mark, whole, count)
    return count


def _mount(*arguments: str) -> bool:
    return subprocess.run(["mount", *arguments], stderr=subprocess.DEVNULL).returncode == 0


def can_mount(folder: Path) -> bool:
    """Whether disks can be mounted here."""
    with _trial(folder, "mount") as (out, _):
        is_mounted = _mount("-t", "tmpfs", "pvn", str(out.parent))
        return is_mounted and subprocess.run(["umount", out.parent]).returncode == 0


@contextmanager
def _disk(place: Path, size: int) -> Iterator[None]:
    if not _mount("-t", "tmpfs", "-o", f"size={size}", "pvn", str(place)):
        raise RuntimeError(f"{place}: cannot mount a disk here; use runs/chaos.sh")
    try:
        yield
    finally:
        subprocess.run(["umount", place], check=True)


def _is_said(code: int, said: str, out: Path) -> bool:
    """Whether a command said, in a line and without a traceback, what it could not write."""
    return code in (1, 2) and "Traceback" not in said and str(out.parent) in said.strip().splitlines()[-1]


def fill_disk(job: Job, whole: Undisturbed, folder: Path, moments: int, generator: random.Random) -> Count:
    """Run a command on disks that are too small, and again once there is room."""
    count, has_disks = Count(), can_mount(folder)
    for number in range(moments):
        share = generator.uniform(0.05, 0.95)
        with _trial(folder, f"full {number}") as (out, mark):
            if has_disks:
                size = max(int(share * whole.num_bytes) // 4096, 1) * 4096
                with _disk(out.parent, size):
                    code, said = _run(job, out, mark)
                    partial = [str(path) for path in _paths(out.parent) if _is_partial(path)]
                    _mount("-o", f"remount,size={LARGE_DISK}", str(out.parent))
                    count.note("leftover", partial)
                    _note_refusal(count, code, said, out)
                    _compare(job, out, mark, whole, count)
            else:
                code, said = _run(job, out, mark, limit=max(int(share * whole.largest), 1))
                _note_refusal(count, code, said, out)
                _compare(job, out, mark, whole, count)
    return count


def _note_refusal(count: Count, code: int, said: str, out: Path) -> None:
    count.kinds["refused"] += code != 0
    count.note("not said", [said.strip()[-900:]] if code and not _is_said(code, said, out) else [])


def forbid_writing(job: Job, whole: Undisturbed, folder: Path, moments: int, generator: random.Random) -> Count:
    """Run a command where it may not write, and again where it may."""
    count = Count()
    if not can_mount(folder):
        return count
    for number in range(moments):
        with _trial(folder, f"read-only {number}") as (out, mark), _disk(out.parent, 1 << 31):
            _mount("-o", "remount,ro", str(out.parent))
            code, said = _run(job, out, mark)
            _note_refusal(count, code, said, out)
            _mount("-o", "remount,rw", str(out.parent))
            _compare(job, out, mark, whole, count)
    return count


DISTURBANCES: dict[str, Callable[..., Count]] = {
    "killed": kill,
    "full disk": fill_disk,
    "read-only": forbid_writing,
}
BAD = ("not resumed", "different", "half a file", "leftover", "orphan", "not said")


def prepare(shared: Path) -> None:
    """Make what the commands read."""
    small = Job(("corpus", "make", "--size", "40", "--without", "natural", "--out", str(shared / "corpus")))
    lani = Job((str(shared / "corpus"), str(shared / "lani")), program=WRITE_LANI)
    for job in (small, lani):
        with _trial(shared, "made") as (out, mark):
            code, said = _run(job, out, mark)
        if code:
            raise RuntimeError(f"{' '.join(job.arguments)}: ended with {code}:\n{said}")


def main() -> int:
    """Disturb all commands, and print what came of it; 1 if something did that should not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=20, help="kills of each command")
    parser.add_argument("--disks", type=int, default=4, help="full disks of each command; one read-only folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--job", nargs="*", choices=jobs(Path()), default=list(jobs(Path())), help="by default all")
    options = parser.parse_args()
    has_failed = False
    with tempfile.TemporaryDirectory(prefix="pvn-chaos-") as folder:
        shared = Path(folder) / "shared"
        shared.mkdir()
        prepare(shared)
        print("| command | disturbed by | times | stopped | " + " | ".join(BAD) + " |")
        print("| :-- | :-- |" + " --: |" * (2 + len(BAD)), flush=True)
        for name, (how, times) in itertools.product(
            options.job, (("killed", options.moments), ("full disk", options.disks), ("read-only", 1))
        ):
            job = jobs(shared)[name]
            if how == "killed":
                whole = undisturbed(job, Path(folder))
            elif job.between is not None:
                continue
            count = DISTURBANCES[how](job, whole, Path(folder), times, random.Random(f"{options.seed} {name} {how}"))
            stopped = count.kinds["killed"] + count.kinds["refused"]
            figures = (times, stopped, *(count.kinds[kind] for kind in BAD))
            print(f"| `{name}` | {how} | " + " | ".join(map(str, figures)) + " |", flush=True)
            for example in count.examples:
                has_failed = True
                print(example, file=sys.stderr, flush=True)
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
