"""Parts of a report in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from pvn.evaluation.intervals import Estimate


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table, the first column left-aligned and the others right-aligned, and an empty one."""
    lines = [headings, [":--", *["--:"] * (len(headings) - 1)], *rows]
    return [f"| {' | '.join(line)} |" for line in lines] + [""]


def with_interval(estimate: Estimate) -> str:
    """A value and its 95% interval."""
    return f"{estimate.value:.1f} ({estimate.low:.1f} to {estimate.high:.1f})"
