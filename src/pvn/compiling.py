"""How scalar code becomes machine code: one source for CPU and CUDA, compiled once and cached on disk."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import numba

PACKAGE = Path(__file__).parent
IMPORTS = re.compile(r"^\s*(?:from|import) (pvn[\w.]*)(?: import (\([^)]*\)|.*))?", re.MULTILINE)
UNUSED_DAYS = 30
"""Machine code of sources that no process has used for so many days is removed from the cache."""


@cache
def _read(source: Path) -> tuple[bytes, frozenset[Path]]:
    """The text of a file, and the files of this package that it imports."""
    text = source.read_bytes()
    modules = set()
    for module, names in IMPORTS.findall(text.decode()):
        modules |= {module, f"{module}.__init__", *(f"{module}.{name}" for name in re.findall(r"\w+", names))}
    files = (PACKAGE.parent.joinpath(*module.split(".")).with_suffix(".py") for module in modules)
    return text, frozenset(file for file in files if file.is_file())


@cache
def fingerprint(source: Path) -> str:
    """Changes when a file changes, or any file of this package that it imports, directly or through others.

    Numba notices when the file that defines a function changes, but not when a function that it calls does, or a
    constant that it uses.
    """
    found, waiting = {Path(__file__)}, [source]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += _read(file)[1]
    digests = (hashlib.sha256(_read(file)[0]).digest() for file in sorted(found))
    return hashlib.sha256(b"".join(digests)).hexdigest()[:16]


@cache
def cache_folder(source: Path, base: str | None) -> Path | None:
    """Where the machine code of a file's functions is cached, within `base` if given; None if nowhere can be written.

    A change of the sources leads to another folder. That of the earlier sources is removed once it is out of use.
    """
    try:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        parent = Path(base) if base else caches / "pvn" / "kernels"
        folder = parent / f"{source.stem}-{fingerprint(source)}"
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            for other in parent.glob(f"{source.stem}-{'[0-9a-f]' * 16}"):
                if time.time() - other.stat().st_mtime > UNUSED_DAYS * 86400:
                    shutil.rmtree(other, ignore_errors=True)
        os.utime(folder)
    except (OSError, RuntimeError):  # no home folder, or a read-only one: compile again in each process
        return None
    return folder


@contextmanager
def cached_on_disk(function: Callable[..., Any], settings: Any = numba.config) -> Iterator[bool]:
    """Inside, Numba's `cache=True` means the function's `cache_folder`; yields whether there is one.

    The folder is in the user's cache, or in NUMBA_CACHE_DIR if that is set. settings: Numba's, or those of numba.cuda.
    """
    before = settings.CACHE_DIR
    folder = cache_folder(Path(function.__code__.co_filename), before or None)
    settings.CACHE_DIR = str(folder) if folder else before
    try:
        yield folder is not None
    finally:
        settings.CACHE_DIR = before


WITHOUT_C: dict[str, Any] = {"no_cfunc_wrapper": True}
"""No code for C to call; nobody needs it, and it takes a twentieth of the time of compiling."""


def scalar(function: Callable[..., Any]) -> Any:
    """Compile a function of plain numbers and arrays that kernels call, on the CPU and on CUDA.

    Functions are inlined and compiled without reference counting, which took nine tenths of the time (docs/log.md), and
    without code for Python to call, which took a fifth: see `from_python`.
    """
    options: dict[str, Any] = {"fastmath": True, "error_model": "numpy", "_nrt": False, "forceinline": True}
    options["no_cpython_wrapper"] = True
    dispatcher: Any = numba.njit(**options, **WITHOUT_C)(function)
    if not isinstance(dispatcher, FunctionType):  # as it is with NUMBA_DISABLE_JIT
        dispatcher.__class__ = _refusing(type(dispatcher))
    return dispatcher


def _refusing(dispatcher: Any) -> type:
    """A class of dispatchers that refuse to be called from Python, which would crash."""

    def refuse(self: Any, *arguments: Any) -> Any:
        raise TypeError(f"{self.__name__} is compiled for kernels; from Python, call from_python({self.__name__})")

    return type(dispatcher.__name__, (dispatcher,), {"__call__": refuse})


@cache
def from_python(function: Any) -> Any:
    """A `scalar` function that Python can call."""
    return numba.njit(lambda *arguments: function(*arguments))


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a CPU loop that releases the interpreter's lock, and cache it on disk."""
    with cached_on_disk(function) as is_cached:
        return numba.njit(fastmath=True, error_model="numpy", nogil=True, cache=is_cached, **WITHOUT_C)(function)


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function as it is written, with the same result to the bit on every machine, and cache it on disk."""
    with cached_on_disk(function) as is_cached:
        return numba.njit(nogil=True, cache=is_cached, **WITHOUT_C)(function)


def elementwise(function: Callable[..., Any]) -> Any:
    """The same for a function of numbers, which then takes arrays too."""
    with cached_on_disk(function) as is_cached:
        return numba.vectorize(cache=is_cached)(function)  # type: ignore[no-untyped-call]


@cache
def numba_cuda() -> Any:
    """numba.cuda, which is imported only where there is a GPU."""
    import numpy as np

    if not hasattr(np, "row_stack"):  # removed in NumPy 2.5, still imported by older numba-cuda
        np.row_stack = np.vstack  # type: ignore[attr-defined]
    from numba import cuda

    # A batch of one is a small grid; Numba would warn about it at every launch.
    cuda.config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # type: ignore[attr-defined]
    return cuda


def cuda_kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that a thread of the GPU runs, when it is first launched, and cache it on disk."""
    cuda = numba_cuda()
    with cached_on_disk(function, cuda.config) as is_cached:  # since numba-cuda 0.19 these are not `numba.config`
        return cuda.jit(fastmath=True, cache=is_cached)(function)


@cache
def _external_stream(handle: int) -> Any:
    # Always the same object, so that Numba reuses the launch configuration it made for it.
    return numba_cuda().external_stream(handle)


def current_stream() -> Any:
    """Torch's current CUDA stream, as an object that Numba can launch on."""
    import torch

    return _external_stream(torch.cuda.current_stream().cuda_stream)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(num_cores(), thread_name_prefix="pvn-compiled")


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
