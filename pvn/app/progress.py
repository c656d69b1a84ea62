"""Progress bars with an estimate of what is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Item = TypeVar("Item")


@contextmanager
def progress_bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on standard error; the function it gives is told how many of `total` are done."""
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("left"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


def progress_over(what: str, items: Sequence[Item]) -> Iterator[Item]:
    """The items one by one, with a bar."""
    with progress_bar(what, len(items)) as advance_to:
        for count, item in enumerate(items, start=1):
            yield item
            advance_to(count)
