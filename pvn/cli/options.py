"""What several verbs share."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from tyro.constructors import PrimitiveConstructorSpec

Device = Literal["cpu", "cuda"]
SPLITS = ("train", "dev", "test")


def _split(text: str) -> Any:
    """The split of a name; of a name that none has, the nearest is told."""
    if text in SPLITS:
        return text
    near = difflib.get_close_matches(text, SPLITS, 1)
    meant = f"; did you mean {near[0]}?" if near else ""
    raise ValueError(f"split: got {text!r}, expected one of {', '.join(SPLITS)}{meant}")


Split = Annotated[
    Literal["train", "dev", "test"],
    PrimitiveConstructorSpec(
        nargs=1, metavar="{train,dev,test}", instance_from_str=lambda words: _split(words[0]),
        is_instance=lambda value: value in SPLITS, str_from_instance=lambda value: [value],
    ),
]  # fmt: skip


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
