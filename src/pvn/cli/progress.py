"""Progress on standard error: bars with an estimate of the time left, and what takes how long.

Where standard error is not a terminal, as in a log file, a line is written now and then instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

QUIET_S = 10.0
"""Seconds between two lines, where standard error is not a terminal."""
SHOWN_FIGURES = 4
"""Figures on a line below a stage's bar, at most, so that it fits 80 columns."""

Item = TypeVar("Item")


class _Lines:
    """Lines on standard error, for a log file; too many are left out."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._is_log = not console.is_terminal
        self._last = time.monotonic()

    def say(self, line: str, *, is_always: bool = False) -> None:
        """Write a line, unless there is a terminal with a bar, or there was a line a moment ago."""
        now = time.monotonic()
        if self._is_log and (is_always or now - self._last >= QUIET_S):
            self._console.print(line, soft_wrap=True, highlight=False, markup=False)
            self._last = now


@contextmanager
def progress_bar(what: str, total: int | None, *, is_shown: bool = True) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, if it is shown; yields a function to be called with how many of `total` are done."""
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("left"), TimeRemainingColumn(),
    )  # fmt: skip
    console = Console(stderr=True, quiet=not is_shown)
    lines = _Lines(console)
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(what, total=total)

        def advance_to(done: int) -> None:
            progress.update(task, completed=done)
            if done != total:
                lines.say(f"{what}: {done:,}" + ("" if total is None else f" of {total:,}"))

        yield advance_to


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """What is being done and for how long, until it is done; yields a function that changes what.

    For work whose length is unknown. The line is drawn twice a second, which does not get in the way of measurements.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        lines = _Lines(console)
        lines.say(f"{what} ...", is_always=True)
        yield lambda now: lines.say(f"{now} ...", is_always=True)
        return
    columns = (TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, refresh_per_second=2) as progress:
        task = progress.add_task(what, total=None)
        yield lambda now: progress.update(task, description=now, refresh=True)


def progress_over(what: str, items: Sequence[Item]) -> Iterator[Item]:
    """Iterate over the items with a bar."""
    with progress_bar(what, len(items)) as advance_to:
        for count, item in enumerate(items, start=1):
            yield item
            advance_to(count)


class _StageBars(Progress):
    """A bar for each stage, and below them the figures of those that are not finished, or of the last."""

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bars, then lines of figures."""
        yield self.make_tasks_table(self.tasks)
        running = [task for task in self.tasks if not task.finished] or self.tasks[-1:]
        for task in running:
            for line in task.fields["lines"]:
                yield Text(line, no_wrap=True, overflow="ellipsis")


def _figure_lines(what: str, figures: dict[str, float]) -> list[str]:
    """A line with a stage's figures in training, and one with those on the dev split, if it has any."""
    measured = {name.removeprefix("dev_"): value for name, value in figures.items() if name.startswith("dev_")}
    trained = {name: value for name, value in figures.items() if not name.startswith("dev_")}
    return [
        f"  {title}: " + "  ".join(f"{name} {value:.3f}" for name, value in list(part.items())[:SHOWN_FIGURES])
        for title, part in ((what, trained), (f"{what} on dev", measured))
        if part
    ]


@contextmanager
def training_bars(logs: Path, is_shown: bool = True) -> Iterator[Callable[[str, int, int, dict[str, float]], None]]:
    """A bar for each stage, with its current figures below, which also go to TensorBoard logs in a folder."""
    if not is_shown:
        yield lambda what, step, num_steps, figures: None
        return
    from torch.utils.tensorboard import SummaryWriter

    console = Console(stderr=True)
    lines = _Lines(console)
    columns = (
        TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("left"), TimeRemainingColumn(),
    )  # fmt: skip
    writer = SummaryWriter(str(logs))
    bars: dict[str, TaskID] = {}
    with _StageBars(*columns, console=console) as progress:
        # Until the first step of a stage: the oracle's flights are made, which are learned from.
        preparing: TaskID | None = progress.add_task("preparing", total=None, lines=())

        def watch(what: str, step: int, num_steps: int, figures: dict[str, float]) -> None:
            nonlocal preparing
            if preparing is not None:
                progress.remove_task(preparing)
                preparing = None
            if what not in bars:
                bars[what] = progress.add_task(what, total=num_steps, lines=())
            shown = _figure_lines(what, figures)
            progress.update(bars[what], completed=step + 1, lines=shown)
            lines.say("\n".join([f"{what}: {step + 1:,} of {num_steps:,}", *shown]))
            for name, value in figures.items():
                writer.add_scalar(f"{what}/{name}".replace(" ", ""), value, step)

        yield watch
    writer.close()
