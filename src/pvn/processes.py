"""Other processes: a pool of them, and values that their jobs share."""

from __future__ import annotations

import functools
import multiprocessing
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Generic, TypeVar

Value = TypeVar("Value")


def _exit_with(parent: int) -> None:
    """Exit shortly after the parent process has gone: a parent that is killed cannot stop its children."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def process_pool(num_processes: int) -> Iterator[Executor]:
    """Processes to hand work to; they end with this one. Starting them takes seconds, so calls may share them.

    They are started anew instead of forked: a fork copies the locks of threads that it does not have.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        num_processes, mp_context=context, initializer=_exit_with, initargs=(os.getpid(),)
    ) as pool:
        yield pool


class Shared(Generic[Value]):
    """A value that many jobs need: pickled once here, and unpickled once by each process that gets it.

    What a job is given is otherwise pickled and unpickled anew for every job, and loses what it had cached.
    """

    def __init__(self, value: Value) -> None:
        self.value = value

    @functools.cached_property
    def _content(self) -> bytes:
        return pickle.dumps(self.value, pickle.HIGHEST_PROTOCOL)

    def __reduce__(self) -> tuple[Callable[[bytes], Shared[Value]], tuple[bytes]]:
        return _received, (self._content,)


@functools.lru_cache(maxsize=4)
def _received(content: bytes) -> Shared[Value]:
    return Shared(pickle.loads(content))
