"""How scalar code becomes machine code: one source for CPU and CUDA, compiled once and kept on disk."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numba

SOURCES = (
    *sorted(Path(__file__).parent.glob("*.py")),
    Path(__file__).parent.parent / "world" / "solids.py",
)


@cache
def cache_directory() -> Path:
    """Where compiled kernels are kept: one folder for each state of the package's source.

    Numba notices a change of the file a kernel stands in, but not of the functions it calls, so the
    folder's name carries a fingerprint of every file that compiled code comes from.
    """
    fingerprint = hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES))
    name = f"kernels-{fingerprint.hexdigest()[:16]}"
    try:
        directory = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pvn" / name
        directory.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no home, or a read-only one: compile anew each time, in a folder of our own
        return Path(tempfile.mkdtemp(prefix="pvn-"))
    return directory


def scalar(function: Callable[..., Any]) -> Any:
    """Compile a function of plain numbers and arrays, callable from CPU kernels and CUDA kernels.

    Inlined and without reference counting, which cost nine tenths of the time: see docs/log.md.
    """
    options: dict[str, Any] = {"fastmath": True, "error_model": "numpy", "_nrt": False, "forceinline": True}
    return numba.njit(**options)(function)


@contextmanager
def in_kernel_cache() -> Iterator[None]:
    """Kernels decorated in this block are kept in `cache_directory`, unless NUMBA_CACHE_DIR says otherwise."""
    settings: Any = numba.config
    before = settings.CACHE_DIR
    settings.CACHE_DIR = before or str(cache_directory())
    try:
        yield
    finally:
        settings.CACHE_DIR = before


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a CPU loop that runs without the interpreter's lock, kept on disk."""
    with in_kernel_cache():
        return numba.njit(fastmath=True, error_model="numpy", nogil=True, cache=True)(function)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(num_cores(), thread_name_prefix="pvn-simulator")


if hasattr(os, "register_at_fork"):
    # A forked child inherits the pool but not its threads, and would wait for them for ever.
    os.register_at_fork(after_in_child=_threads.cache_clear)


def num_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_in_parallel(loop: Callable[..., None], num_items: int, grain: int, *arguments: Any) -> None:
    """Call loop(first, last, *arguments) on all cores until it has covered range(num_items).

    Plain threads over a kernel without the lock, rather than Numba's own parallel loops: they may be
    called from several threads at once, and they compile three times faster.
    """
    count = num_cores()
    size = max(grain, -(-num_items // (4 * count)))
    if num_items <= size or count == 1:
        loop(0, num_items, *arguments)
        return
    jobs = [
        _threads().submit(loop, first, min(first + size, num_items), *arguments) for first in range(0, num_items, size)
    ]
    for job in jobs:
        job.result()
