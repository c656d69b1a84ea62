"""Atomic file writes, and JSON: reading it, and a checksum of what is written as it."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import platform
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

AGENT_FILE = "agent.safetensors"
"""The trained agent in the folder of a training run."""


def _is_running(process: str) -> bool:
    """Whether a process of this machine runs, by its number."""
    if os.name != "posix" or not process.isdecimal():
        return True
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def _remove_abandoned(path: Path, begin: str, end: str) -> None:
    """Remove what processes that were killed have left of their attempts to write a file."""
    for other in path.parent.iterdir():
        process = other.name.removeprefix(begin).removesuffix(end)
        if other.name == f"{begin}{process}{end}" and not _is_running(process):
            other.unlink(missing_ok=True)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path to write to; on success it replaces `path`, so that nobody ever reads half a file."""
    # The machine's name, because others may write into the same folder, and their processes have other numbers.
    begin, end = f".{path.stem}.{platform.node()}.", f".partial{path.suffix}"
    partial = path.with_name(f"{begin}{os.getpid()}{end}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(path, begin, end)
        yield partial
        os.replace(partial, path)
    except OSError as error:
        # Errors about other files say themselves which.
        where = None if error.filename is None else Path(os.fsdecode(error.filename))
        if error.errno is None or where not in (None, partial, *path.parents):
            raise
        named = type(error)(
            f"{path}: cannot be written ({error.strerror}); make room, or choose a place that can be written to"
        )
        named.strerror = error.strerror  # for those who have more to say about it
        raise named from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def parse_json(text: str, where: Path | str, advice: str) -> Any:
    """The content of a JSON text; whatever is wrong with it is a ValueError that begins with `where`.

    advice: what to do about a text that is not valid.
    """
    try:
        return json.loads(text)
    # JSON may be right by its grammar, and still nested too deeply or have numbers with too many digits to be read.
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: not valid JSON ({error}); {advice}") from None


def read_json(path: Path, advice: str) -> Any:
    """The content of a JSON file, which may be packed by gzip (.gz).

    One that is not valid is a ValueError that names the file and ends with `advice`; a missing one is an OSError.
    """
    content = path.read_bytes()
    try:
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8-sig")
    except (UnicodeDecodeError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path}: not valid JSON ({error}); {advice}") from None
    return parse_json(text, path, advice)


def json_digest(content: Mapping[str, Any], *, without: str) -> str:
    """A checksum of a JSON object, however it is indented, but for the key under which it is kept."""
    covered = {key: value for key, value in content.items() if key != without}
    return hashlib.sha256(json.dumps(covered, sort_keys=True).encode()).hexdigest()
