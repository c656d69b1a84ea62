"""Names for files that the user has not named: they say what was flown, and never those of files that are there."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

SLUG_LENGTH = 40
"""Characters of an instruction that a file's name has, at most."""


def slug(instruction: str) -> str:
    """An instruction as part of a file's name: "go-to-the-gorilla"; whole words, as many as fit."""
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", instruction).lower())
    lengths = itertools.accumulate(len(word) + 1 for word in words)
    fitting = [word for word, length in zip(words, lengths, strict=True) if length <= SLUG_LENGTH + 1]
    return "-".join(fitting or [word[:SLUG_LENGTH] for word in words[:1]]) or "flight"


def unused_stems(stems: Sequence[Path], suffixes: Sequence[str]) -> list[Path]:
    """The paths without suffix, if no file there has one of the suffixes; otherwise all with _run2, _run3, ..."""
    for run in itertools.count(1):
        named = [stem if run == 1 else stem.with_name(f"{stem.name}_run{run}") for stem in stems]
        if not any(stem.with_name(stem.name + suffix).exists() for stem in named for suffix in suffixes):
            return named
    raise AssertionError("there is always another number")


def unused_path(path: Path) -> Path:
    """The path, if no file is there; otherwise with _run2, _run3, ... before its suffix."""
    (stem,) = unused_stems([path.with_suffix("")], [path.suffix])
    return stem.with_name(stem.name + path.suffix)


def check_folder(path: Path) -> None:
    """Refuse a path for a folder that is a file."""
    if path.exists() and not path.is_dir():
        raise ValueError(f"out: got {path}, which is a file, expected a folder")
