"""How the benchmarks measure time, and how they print what they found."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch


def settle(device: str) -> None:
    """Wait until a GPU has done what it was given."""
    if device == "cuda":
        torch.cuda.synchronize()


def rate(
    work: Callable[[], object], batch: int, seconds: float, device: str = "cpu", repeats: int | None = None
) -> float:
    """Items per second of `work`, which does `batch` of them at each call, over at least `seconds`.

    A GPU is synchronised after every `repeats` calls, ten by default: it works while the next launches are prepared,
    as in a training loop that does not wait for each step.
    """
    count, repeats = 0, repeats or (10 if device == "cuda" else 1)
    settle(device)
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        for _ in range(repeats):
            work()
        settle(device)
        count += repeats * batch
    return count / (time.perf_counter() - began)


def median_ms(work: Callable[[], object], device: str, repeats: int) -> float:
    """Milliseconds of one call, the median of several; the first calls, which compile, are not counted."""
    for _ in range(3 if device == "cuda" else 1):
        work()
    times = []
    for _ in range(repeats):
        settle(device)
        began = time.perf_counter()
        work()
        settle(device)
        times.append(time.perf_counter() - began)
    return 1e3 * statistics.median(times)


def print_report(report: dict[str, Any]) -> None:
    """Print a report as one JSON object, with four digits of each number."""

    def rounded(value: Any) -> Any:
        match value:
            case dict():
                return {name: rounded(part) for name, part in value.items()}
            case list():
                return [rounded(part) for part in value]
            case float():
                return float(f"{value:.4g}")
        return value

    print(json.dumps(rounded(report), indent=1))
