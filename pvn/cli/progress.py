"""Progress bars with an estimate of the time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

BAR_WIDTH = 66
"""Columns that a stage's name, bar, steps and times take up; its metrics get the rest of the line."""

Item = TypeVar("Item")


@contextmanager
def progress_bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on standard error; yields a function to be called with how many of `total` are done."""
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("left"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


def progress_over(what: str, items: Sequence[Item]) -> Iterator[Item]:
    """Iterate over the items with a bar."""
    with progress_bar(what, len(items)) as advance_to:
        for count, item in enumerate(items, start=1):
            yield item
            advance_to(count)


@contextmanager
def training_bars(logs: Path, is_shown: bool = True) -> Iterator[Callable[[str, int, int, dict[str, float]], None]]:
    """A bar for each stage with its current metrics, which also go to TensorBoard logs in a folder."""
    if not is_shown:
        yield lambda what, step, num_steps, figures: None
        return
    from torch.utils.tensorboard import SummaryWriter

    console = Console(stderr=True)
    room = Column(no_wrap=True, overflow="ellipsis", max_width=max(console.width - BAR_WIDTH, 1))
    columns = (
        TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("left"), TimeRemainingColumn(), TextColumn("{task.fields[note]}", table_column=room),
    )  # fmt: skip
    writer = SummaryWriter(str(logs))
    bars: dict[str, TaskID] = {}
    with Progress(*columns, console=console) as progress:

        def watch(what: str, step: int, num_steps: int, figures: dict[str, float]) -> None:
            if what not in bars:
                bars[what] = progress.add_task(what, total=num_steps, note="")
            note = "  ".join(
                f"{name} {value:.3f}" for name, value in list(figures.items())[:3] + list(figures.items())[6:]
            )
            progress.update(bars[what], completed=step + 1, note=note)
            for name, value in figures.items():
                writer.add_scalar(f"{what}/{name}".replace(" ", ""), value, step)

        yield watch
    writer.close()
