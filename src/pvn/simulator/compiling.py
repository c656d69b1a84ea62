"""How scalar code becomes machine code: one source for CPU and CUDA, compiled once and cached on disk."""

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
    Path(__file__).parent.parent / "model" / "cpu_vectors.py",
    Path(__file__).parent.parent / "model" / "cpu_layers.py",
)


@cache
def cache_directory() -> Path:
    """Where compiled kernels are cached: one folder for each version of the source.

    Numba notices when the file that defines a kernel changes, but not when a function it calls does. So the folder's
    name contains a fingerprint of every file that is compiled.
    """
    fingerprint = hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES))
    name = f"kernels-{fingerprint.hexdigest()[:16]}"
    try:
        directory = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pvn" / name
        directory.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no home folder, or a read-only one: compile again in each process
        return Path(tempfile.mkdtemp(prefix="pvn-"))
    return directory


def scalar(function: Callable[..., Any]) -> Any:
    """Compile a function of plain numbers and arrays, callable from CPU kernels and CUDA kernels.

    Functions are inlined and compiled without reference counting, which took nine tenths of the time (docs/log.md).
    """
    options: dict[str, Any] = {"fastmath": True, "error_model": "numpy", "_nrt": False, "forceinline": True}
    return numba.njit(**options)(function)


@contextmanager
def in_kernel_cache() -> Iterator[None]:
    """Kernels decorated in this block are cached in `cache_directory`, unless NUMBA_CACHE_DIR is set."""
    settings: Any = numba.config
    before = settings.CACHE_DIR
    settings.CACHE_DIR = before or str(cache_directory())
    try:
        yield
    finally:
        settings.CACHE_DIR = before


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a CPU loop that releases the interpreter's lock, and cache it on disk."""
    with in_kernel_cache():
        return numba.njit(fastmath=True, error_model="numpy", nogil=True, cache=True)(function)


def is_compiled(loop: Any) -> bool:
    """Whether the machine code of a kernel is in the cache on disk; compiling the larger ones takes many seconds."""
    settings: Any = numba.config
    directory = Path(settings.CACHE_DIR or cache_directory())
    return any(directory.rglob(f"{loop.__module__.split('.')[-1]}.{loop.__name__}-*.nbi"))


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(num_cores(), thread_name_prefix="pvn-simulator")


if hasattr(os, "register_at_fork"):
    # A forked child inherits the pool without its threads and would wait for them forever.
    os.register_at_fork(after_in_child=_threads.cache_clear)


def num_cores() -> int:
    """Number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_in_parallel(loop: Callable[..., None], num_items: int, grain: int, *arguments: Any) -> None:
    """Call loop(first, last, *arguments) on all cores until it has covered range(num_items).

    Threads over a kernel that releases the lock, rather than Numba's own parallel loops: these can be called from
    several threads at once, and they compile three times faster.
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
