"""Atomic file writes, and a checksum of what is written as JSON."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path to write to; on success it replaces `path`, so that nobody ever reads half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.stem}.{os.getpid()}.partial{path.suffix}")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def json_digest(content: Mapping[str, Any], *, without: str) -> str:
    """A checksum of a JSON object, however it is indented, but for the key under which it is kept."""
    covered = {key: value for key, value in content.items() if key != without}
    return hashlib.sha256(json.dumps(covered, sort_keys=True).encode()).hexdigest()
