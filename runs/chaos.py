#!/usr/bin/env python
"""What becomes of the files of commands that are killed, run out of disk or may not write.

    runs/chaos.sh --moments 20                          # where it may mount small disks, or
    python runs/chaos.py --moments 20 --seed 0 --job evaluate train

Each command runs once undisturbed. Then it is killed (SIGKILL) at random moments, the same ones for the same seed: half
of them moments in time, half of them moments at which a file is about to be opened for writing, renamed or removed, or
up to 2 ms later. Each time it is given again, as a user would, and must end with the same files. The same is done with
a disk that is too small and with a folder that cannot be written to, once there is room. Linux only.
"""

from __future__ import annotations

import argparse
import getpass
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
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
PVN = "from pvn.cli import main; main()"
SAVE = """
import sys
from pathlib import Path
from pvn.learning.checkpoint import save_agent
from pvn.systems import load_agent
agent = load_agent("pvn")
try:
    for version in range(5):
        save_agent(agent, Path(sys.argv[1]) / "agent.safetensors", {"version": version})
except OSError as error:
    sys.exit(f"pvn: {error}")
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
BAD = ("not resumed", "different", "half a file", "leftover", "orphan", "not said")
"""What should never happen."""
Finding = tuple[str, str]
"""What happened, and an example of it."""
VOLATILE = ("seconds", "machine", "peak_host_gib", "description_sha256")
UNCOMPARED = {"logs", "times"}
CACHES = {f"torchinductor_{getpass.getuser()}"}
"""What others leave in the system's folder for temporary files on purpose."""


@dataclass(frozen=True)
class Job:
    """A command that is disturbed."""

    arguments: tuple[str, ...]
    program: str = PVN
    again: tuple[str, ...] = ()
    """What is added to the arguments to resume."""
    complete: str | None = None
    """A file whose presence means that nothing is left to do, and that the command refuses to do it again."""


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
        "train": Job(train, again=("--resume",)),
        "evaluate": Job(
            ("evaluate", "--agent", "oracle", "--corpus", corpus, "--split", "train", "--paragraphs", "--out", OUT)
        ),
        "reproduce": Job((
            "reproduce", "--out", OUT, "--preset", "smoke", "--size", "40", "--limit", "4", "--agent", "stop", "oracle",
        )),
        "save an agent": Job((OUT,), program=SAVE),
    }  # fmt: skip


class Trial:
    """A command in a new folder, where it writes to disk/out."""

    def __init__(self, job: Job, folder: Path) -> None:
        self.job, self.folder, self.mark = job, folder, uuid.uuid4().hex
        self.disk, self.temporary = folder / "disk", folder / "temporary"
        self.out = self.disk / "out"
        self.disk.mkdir(parents=True)

    def begin(self, *more: str, operation: int = 0, delay: float = 0.0) -> subprocess.Popen[str]:
        """Start the command. operation: the file operation at which it is killed, after a delay."""
        arguments = [str(self.out) if argument == OUT else argument for argument in (*self.job.arguments, *more)]
        self.temporary.mkdir(exist_ok=True)
        watched = [str(self.disk), str(operation), str(delay), str(self.folder / "operations"), self.job.program]
        threads = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "COLUMNS": "200"}
        return subprocess.Popen(
            [sys.executable, "-c", SABOTAGED, *watched, *arguments], cwd=self.folder, text=True,
            env={**os.environ, **threads, "TMPDIR": str(self.temporary), "PVN_CHAOS": self.mark},
            # Not a pipe, which would have to be read, and would not end before every process that holds it.
            stdout=subprocess.DEVNULL, stderr=(self.folder / "said").open("w"),
        )  # fmt: skip

    def said(self) -> str:
        """The command's errors."""
        return (self.folder / "said").read_text(errors="replace").strip()

    def files(self) -> dict[str, str]:
        """Checksums of the files that it wrote, by name, but for logs and how long everything took."""
        paths = (path for path in sorted(self.out.rglob("*")) if path.is_file() and not UNCOMPARED & {*path.parts})
        return {str(path.relative_to(self.out)): hashlib.sha256(_content(path)).hexdigest() for path in paths}

    def partial(self) -> list[str]:
        """Files that are not finished, but for logs and how long everything took."""
        paths = (path for path in self.disk.rglob("*") if not UNCOMPARED & {*path.parts})
        return [str(path) for path in paths if ".partial" in path.name]

    def halves(self) -> list[str]:
        """Files that look finished and are not whole."""
        paths = (path for path in self.out.rglob("*") if path.is_file() and ".partial" not in path.name)
        return [str(path) for path in paths if not UNCOMPARED & {*path.parts} and not _is_whole(path)]

    def orphans(self) -> list[str]:
        """Processes that outlive the command; they are ended."""
        until = time.monotonic() + GRACE_S
        while (left := _processes(self.mark)) and time.monotonic() < until:
            time.sleep(0.1)
        for process in left:
            os.kill(process, signal.SIGKILL)
        return [f"process {process}" for process in left]

    def refusal(self) -> list[Finding]:
        """What is wrong with how the command says that it could not write: a line, without a traceback, with a path."""
        code = self.begin().wait()
        if code == 0:
            return []
        is_said = code in (1, 2) and "Traceback" not in self.said() and str(self.disk) in self.said().splitlines()[-1]
        return [("refused", ""), *([] if is_said else [("not said", self.said()[-900:])])]

    def resumed(self, expected: Mapping[str, str]) -> list[Finding]:
        """What is not as it would have been, after the command is given again."""
        if self.job.complete is None or not (self.out / self.job.complete).exists():
            if self.begin(*self.job.again).wait():
                return [("not resumed", self.said()[-600:])]
        found = self.files()
        differences = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
        left = self.partial() + [str(path) for path in self.temporary.glob("*") if path.name not in CACHES]
        return [*(("different", name) for name in differences), *(("leftover", path) for path in left)]


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


def _is_whole(path: Path) -> bool:
    """Whether a file has an end."""
    content = path.read_bytes()
    try:
        if path.suffix == ".json":
            json.loads(content)
        if path.suffix == ".safetensors":
            length = int.from_bytes(content[:8], "little")
            header = json.loads(content[8 : 8 + length])
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
            return len(content) == 8 + length + max(ends, default=0)
    except ValueError:
        return False
    return bool(content) and (path.suffix != ".png" or content.endswith(b"IEND\xaeB`\x82"))


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


def _mount(*arguments: str) -> bool:
    return subprocess.run(["mount", *arguments], stderr=subprocess.DEVNULL).returncode == 0


@contextmanager
def small_disk(place: Path, size: int) -> Iterator[bool]:
    """A disk of some bytes at a folder while the body runs; yields whether disks can be mounted here."""
    is_mounted = _mount("-t", "tmpfs", "-o", f"size={size}", "pvn", str(place))
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", place], check=True)


@dataclass
class Undisturbed:
    """What a command does if nobody disturbs it."""

    files: Mapping[str, str]
    """Checksums of its files, by name."""
    num_bytes: int
    """Of all of them."""
    duration: float
    """Seconds."""
    num_operations: int
    """File operations that it can be killed at."""


@dataclass
class Count:
    """What came of the disturbances of one command."""

    kinds: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)


def undisturbed(job: Job, folder: Path) -> Undisturbed:
    """Run a command, and look at what it does."""
    trial, began = Trial(job, folder / "undisturbed"), time.monotonic()
    code, duration = trial.begin().wait(), time.monotonic() - began
    if code:
        raise RuntimeError(f"{' '.join(job.arguments)}: undisturbed, it ended with {code}:\n{trial.said()}")
    size = sum(path.stat().st_size for path in trial.out.rglob("*") if path.is_file())
    found = Undisturbed(trial.files(), size, duration, int((trial.folder / "operations").read_text()))
    shutil.rmtree(trial.folder)
    return found


def kill(trial: Trial, whole: Undisturbed, number: int, generator: random.Random) -> Iterator[Finding]:
    """Kill a command at a random moment, and give it again."""
    seconds, operation = generator.uniform(0.0, MOST * whole.duration), generator.randint(1, whole.num_operations)
    delay, by_clock = generator.choice((0.0, generator.uniform(0.0, LATEST))), number % 2 == 0
    process = trial.begin(operation=0 if by_clock else operation, delay=delay)
    try:
        process.wait(seconds if by_clock else None)
    except subprocess.TimeoutExpired:
        process.kill()
    if process.wait() == -signal.SIGKILL:
        yield "killed", ""
    yield from (("orphan", one) for one in trial.orphans())
    yield from (("half a file", path) for path in trial.halves())
    shutil.rmtree(trial.temporary)  # what a killed process has left in the system's own folder
    yield from trial.resumed(whole.files)


def fill_disk(trial: Trial, whole: Undisturbed, number: int, generator: random.Random) -> Iterator[Finding]:
    """Run a command on a disk that is too small, and again once there is room."""
    size = max(int(generator.uniform(0.05, 0.95) * whole.num_bytes) // 4096, 1) * 4096
    with small_disk(trial.disk, size) as is_mounted:
        if is_mounted:
            yield from trial.refusal()
            yield from (("leftover", path) for path in trial.partial())
            _mount("-o", "remount,size=2g", str(trial.disk))
            yield from trial.resumed(whole.files)


def forbid_writing(
    trial: Trial, whole: Undisturbed, number: int, generator: random.Random
) -> Iterator[tuple[str, str]]:
    """Run a command where it may not write, and again where it may."""
    with small_disk(trial.disk, 1 << 31) as is_mounted:
        if is_mounted:
            _mount("-o", "remount,ro", str(trial.disk))
            yield from trial.refusal()
            _mount("-o", "remount,rw", str(trial.disk))
            yield from trial.resumed(whole.files)


DISTURBANCES = {"killed": kill, "full disk": fill_disk, "read-only": forbid_writing}


def disturb(job: Job, whole: Undisturbed, folder: Path, how: str, times: int, generator: random.Random) -> Count:
    """Disturb a command some times."""
    count = Count()
    for number in range(times):
        trial = Trial(job, folder / f"trial{number}")
        found = list(DISTURBANCES[how](trial, whole, number, generator))
        shutil.rmtree(trial.folder, ignore_errors=True)
        count.kinds.update({kind for kind, _ in found})
        count.examples += [f"{kind}: {example}" for kind, example in found if kind in BAD][:5]
    return count


def prepare(shared: Path) -> None:
    """Make the corpus that the commands read."""
    arguments = ("corpus", "make", "--size", "40", "--without", "natural", "--out", str(shared / "corpus"))
    trial = Trial(Job(arguments), shared / "made")
    if trial.begin().wait():
        raise RuntimeError(f"{' '.join(arguments)}:\n{trial.said()}")
    shutil.rmtree(trial.folder)


def main() -> int:
    """Disturb all commands, and print what came of it; 1 if something did that should not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=20, help="kills of each command")
    parser.add_argument("--disks", type=int, default=4, help="full disks of each command; one read-only folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--job", nargs="*", choices=jobs(Path()), default=list(jobs(Path())), help="by default all")
    options = parser.parse_args()
    has_failed = False
    with tempfile.TemporaryDirectory(prefix="pvn-chaos-") as name:
        folder = Path(name)
        prepare(folder / "shared")
        print("| command | disturbed by | times | stopped | " + " | ".join(BAD) + " |")
        print("| :-- | :-- |" + " --: |" * (2 + len(BAD)), flush=True)
        for name, job in jobs(folder / "shared").items():
            if name not in options.job:
                continue
            whole = undisturbed(job, folder)
            for how, times in (("killed", options.moments), ("full disk", options.disks), ("read-only", 1)):
                count = disturb(job, whole, folder, how, times, random.Random(f"{options.seed} {name} {how}"))
                figures = (times, count.kinds["killed"] + count.kinds["refused"], *(count.kinds[kind] for kind in BAD))
                print(f"| `{name}` | {how} | " + " | ".join(map(str, figures)) + " |", flush=True)
                has_failed |= bool(count.examples)
                print(*count.examples, sep="\n", end="", file=sys.stderr, flush=True)
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
