"""What several verbs share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

Device = Literal["cpu", "cuda"]


def print_json(report: object) -> None:
    """One JSON object on standard output."""
    print(json.dumps(report, indent=2))


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """What is imported here comes with an extra; without it, say how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ValueError(f'{error.name}: not installed here; install it with: pip install "pvn[{extra}]"') from None
