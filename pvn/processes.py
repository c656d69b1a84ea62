"""Processes that work beside this one."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager


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
