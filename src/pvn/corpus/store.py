"""A corpus on disk: a folder that is read in a second and extended without rewriting its files (docs/formats.md).

Each part holds whole environments of one split, as columns in one safetensors file. `corpus.json`, the manifest, lists
the parts with their checksums, and the landmark classes that the columns refer to by number. It is replaced last, so
that a process that is killed at any moment leaves the corpus as it was.
"""

from __future__ import annotations

import gc
import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from pvn.corpus.segments import SPLITS, Annotation, Corpus, Segment, Source, Split
from pvn.files import json_digest, read_json, replacing
from pvn.world.lakes import LAKE_CELLS
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Landmark, Layout
from pvn.world.task import Demonstration, Task

VERSION = 2
MANIFEST = "corpus.json"
Columns = dict[str, npt.NDArray[Any]]

_TEXTS = ("instruction", "manoeuvres", "phrase", "source", "author")
_SHAPES: dict[str, tuple[type[np.generic], tuple[int, ...]]] = {
    "field_environment": (np.int64, ()), "field_lake": (np.uint8, (LAKE_CELLS * LAKE_CELLS // 8,)),
    "landmark_class": (np.uint8, ()), "landmark_place": (np.float64, (4,)),
    "segment_environment": (np.int64, ()), "segment_place": (np.int32, ()), "start": (np.float64, (3,)),
    "path": (np.float64, (2,)), "is_turned": (np.bool_, ()), "turned_to": (np.float64, ()),
    "is_annotated": (np.bool_, ()), "is_seen": (np.bool_, ()), "is_ambiguous": (np.bool_, ()),
    "stops": (np.int32, ()), "meant": (np.int32, ()), **{name: (np.uint8, ()) for name in _TEXTS},
    **{f"{name}_offset": (np.int64, ()) for name in ("landmark", "path", "stops", "meant", *_TEXTS)},
}  # fmt: skip
"""Type and shape, after the first axis, of the columns of a part."""


# Segments as columns.


def _offsets(lengths: Iterable[int]) -> npt.NDArray[np.int64]:
    return np.cumsum([0, *lengths], dtype=np.int64)


def _pack_texts(columns: Columns, name: str, texts: Sequence[str]) -> None:
    encoded = [text.encode() for text in texts]
    columns[name] = np.frombuffer(b"".join(encoded), np.uint8)
    columns[f"{name}_offset"] = _offsets(map(len, encoded))


def _pack_numbers(columns: Columns, name: str, rows: Sequence[Sequence[int]]) -> None:
    columns[name] = np.array([number for row in rows for number in row], np.int32)
    columns[f"{name}_offset"] = _offsets(map(len, rows))


def _pack_fields(columns: Columns, fields: dict[int, Layout], classes: Sequence[str]) -> None:
    number = {name: place for place, name in enumerate(classes)}
    marks = [mark for layout in fields.values() for mark in layout.landmarks]
    columns["field_environment"] = np.array(list(fields), np.int64)
    columns["field_lake"] = np.array([np.packbits(layout.lake) for layout in fields.values()], np.uint8)
    columns["landmark_offset"] = _offsets(len(layout.landmarks) for layout in fields.values())
    columns["landmark_class"] = np.array([number[mark.name] for mark in marks], np.uint8)
    columns["landmark_place"] = np.array([(m.x, m.y, m.radius, m.yaw) for m in marks], np.float64).reshape(-1, 4)


def classes_of(segments: Iterable[Segment]) -> list[str]:
    """The landmark classes in the segments' fields, sorted."""
    layouts = {id(segment.task.layout): segment.task.layout for segment in segments}
    return sorted({mark.name for layout in layouts.values() for mark in layout.landmarks})


def pack_segments(segments: Sequence[Segment], classes: Sequence[str]) -> Columns:
    """Segments as the columns of a part, explained in docs/formats.md; landmarks refer to `classes` by number."""
    columns: Columns = {}
    fields: dict[int, Layout] = {}
    for segment in segments:
        fields.setdefault(segment.environment, segment.task.layout)
    _pack_fields(columns, fields, classes)
    tasks, paths = [s.task for s in segments], [s.demonstration.path for s in segments]
    notes = [segment.annotation for segment in segments]
    columns["segment_environment"] = np.array([segment.environment for segment in segments], np.int64)
    columns["segment_place"] = np.array([segment.place for segment in segments], np.int32)
    columns["start"] = np.array([task.start for task in tasks], np.float64).reshape(-1, 3)
    columns["path"] = np.concatenate(paths).astype(np.float64)
    columns["path_offset"] = _offsets(map(len, paths))
    turned = [segment.demonstration.turned_to for segment in segments]
    columns["is_turned"] = np.array([heading is not None for heading in turned], bool)
    columns["turned_to"] = np.array([heading or 0.0 for heading in turned], np.float64)
    _pack_texts(columns, "instruction", [task.instruction for task in tasks])
    columns["is_annotated"] = np.array([note is not None for note in notes], bool)
    columns["is_seen"] = np.array([note is not None and note.is_seen for note in notes], bool)
    columns["is_ambiguous"] = np.array([note is not None and note.is_ambiguous for note in notes], bool)
    _pack_texts(columns, "manoeuvres", ["; ".join(note.manoeuvres) if note else "" for note in notes])
    _pack_texts(columns, "phrase", [note.phrase if note else "" for note in notes])
    _pack_numbers(columns, "stops", [note.stops if note else () for note in notes])
    _pack_numbers(columns, "meant", [note.meant if note else () for note in notes])
    _pack_texts(columns, "source", [segment.source for segment in segments])
    _pack_texts(columns, "author", [segment.author or "" for segment in segments])
    return columns


def check_columns(columns: Mapping[str, npt.NDArray[Any]]) -> None:
    """Refuse columns that are not those of a part: names, types, shapes, lengths and offsets."""
    if columns.keys() != _SHAPES.keys():
        name = min(columns.keys() ^ _SHAPES.keys())
        raise ValueError(f"{name}: {'missing' if name in _SHAPES else 'not a column of a part'}")
    for name, (kind, shape) in _SHAPES.items():
        column = columns[name]
        if column.dtype != kind or column.ndim < 1 or column.shape[1:] != shape:
            raise ValueError(f"{name}: got {column.dtype} {column.shape}, expected {kind.__name__} (N, ...{shape})")
        if column.dtype == np.float64 and not np.isfinite(column).all():
            raise ValueError(f"{name}: got NaN or infinite numbers")
        if name.endswith("_offset"):
            values = name.removesuffix("_offset")
            length = len(columns["landmark_class" if values == "landmark" else values])
            if not len(column) or column[0] != 0 or column[-1] != length or (np.diff(column) < 0).any():
                raise ValueError(f"{name}: expected numbers that rise from 0 to {length}")


def _texts(columns: Columns, name: str) -> list[str]:
    letters, offsets = columns[name].tobytes(), columns[f"{name}_offset"].tolist()
    return [letters[begin:end].decode() for begin, end in itertools.pairwise(offsets)]


def _rows(columns: Columns, name: str) -> list[npt.NDArray[Any]]:
    values, offsets = columns[name], columns[f"{name}_offset"].tolist()
    return [values[begin:end] for begin, end in itertools.pairwise(offsets)]


def _unpack_fields(columns: Columns, classes: Sequence[str]) -> dict[int, Layout]:
    numbers, places = columns["landmark_class"].tolist(), columns["landmark_place"].tolist()
    marks = [Landmark(classes[number], *place) for number, place in zip(numbers, places, strict=True)]
    lakes = np.unpackbits(columns["field_lake"], axis=1).astype(bool).reshape(-1, LAKE_CELLS, LAKE_CELLS)
    begins_and_ends = itertools.pairwise(columns["landmark_offset"].tolist())
    return {
        environment: Layout(tuple(marks[begin:end]), lake)
        for environment, (begin, end), lake in zip(
            columns["field_environment"].tolist(), begins_and_ends, lakes, strict=True
        )
    }


def unpack_segments(columns: Columns, classes: Sequence[str]) -> list[Segment]:
    """The segments that were packed into the columns of a part."""
    fields = _unpack_fields(columns, classes)
    notes: list[Annotation | None] = [
        Annotation(tuple(manoeuvres.split("; ")), tuple(stops.tolist()), tuple(meant.tolist()), phrase, *flags)
        if is_annotated
        else None
        for is_annotated, manoeuvres, stops, meant, phrase, *flags in zip(
            columns["is_annotated"].tolist(),
            _texts(columns, "manoeuvres"),
            _rows(columns, "stops"),
            _rows(columns, "meant"),
            _texts(columns, "phrase"),
            columns["is_seen"].tolist(),
            columns["is_ambiguous"].tolist(),
            strict=True,
        )
    ]
    turned = zip(columns["is_turned"].tolist(), columns["turned_to"].tolist(), strict=True)
    return [
        Segment(
            environment,
            place,
            Demonstration(Task(fields[environment], start, text), path, heading if is_turned else None),
            note,
            cast(Source, source),
            author or None,
        )
        for environment, place, start, path, (is_turned, heading), text, note, source, author in zip(
            columns["segment_environment"].tolist(),
            columns["segment_place"].tolist(),
            map(tuple, columns["start"].tolist()),
            _rows(columns, "path"),
            turned,
            _texts(columns, "instruction"),
            notes,
            _texts(columns, "source"),
            _texts(columns, "author"),
            strict=True,
        )
    ]


# The folder.


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest = read_json(path, "make the corpus again")
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(
            f"no corpus in {folder}: it has no {MANIFEST}; make one with `pvn corpus make --out {folder}`"
        ) from None
    version = manifest.get("version") if isinstance(manifest, dict) else None
    if version != VERSION:
        raise ValueError(
            f"{path}: got version {version!r:.60}, expected {VERSION}; make it again with `pvn corpus make`, or "
            "with `pvn corpus import-lani`"
        )
    if manifest.get("sha256") != json_digest(manifest, without="sha256"):
        raise ValueError(f"{path}: changed since it was written; make the corpus again, or copy it again")
    return manifest


def _read_part(folder: Path, part: dict[str, Any], classes: Sequence[str]) -> list[Segment]:
    path = folder / part["file"]
    try:
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != part["sha256"]:
                raise ValueError("it was changed since it was written")
        columns = load_file(path)
        check_columns(columns)
        return unpack_segments(columns, classes)
    except FileNotFoundError:
        raise FileNotFoundError(f"no file {path}, which {MANIFEST} lists; make the corpus again") from None
    except (SafetensorError, KeyError, ValueError, IndexError) as error:
        raise ValueError(f"{path}: not a part of a corpus ({error}); make the corpus again") from None


def _write_part(
    folder: Path, split: Split, segments: Sequence[Segment], number: int, classes: Sequence[str]
) -> dict[str, Any]:
    name = f"{split}-{number:05d}.safetensors"
    content = save(pack_segments(segments, classes))
    with replacing(folder / name) as partial:
        partial.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    return {"file": name, "split": split, "segments": len(segments), "sha256": digest}


def _write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    manifest = {**manifest, "sha256": json_digest(manifest, without="sha256")}
    with replacing(folder / MANIFEST) as partial:
        partial.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def check_new(folder: Path) -> None:
    """Refuse an output folder that exists or cannot be created, before any work is done for it."""
    if folder.exists() or folder.is_symlink():
        raise FileExistsError(f"{folder} exists already; remove it, or choose another folder with --out")
    parent = folder.absolute().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"{parent}: cannot create this folder ({error.strerror}); choose another folder with --out"
        ) from None
    if not os.access(parent, os.W_OK):
        raise PermissionError(f"{parent}: no permission to write here; choose another folder with --out")


def write_corpus(corpus: Corpus, folder: Path, origin: dict[str, Any] | None = None) -> None:
    """Write a corpus atomically into a new folder; `origin`, how it was made, is stored in the manifest."""
    check_new(folder)
    folder = folder.absolute()
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    classes = classes_of(corpus)
    try:
        manifest = {
            "version": VERSION,
            "name": corpus.name,
            "origin": origin or {},
            "parts": [_write_part(partial, split, part, 0, classes) for split, part in corpus.splits.items() if part],
            "landmark_classes": classes,
        }
        _write_manifest(partial, manifest)
        partial.rename(folder)
    except OSError as error:
        raise OSError(f"{folder}: {error.strerror or error}; nothing was written") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def append_segments(folder: Path, split: Split, segments: Sequence[Segment]) -> None:
    """Add whole environments to a corpus as one new part; existing parts are not rewritten."""
    corpus = read_corpus(folder)
    merged = {name: corpus.splits.get(name, ()) for name in SPLITS}
    merged[split] = (*merged[split], *segments)
    Corpus(corpus.name, merged)  # refuses environments that the corpus has already
    manifest = _read_manifest(folder)
    known = manifest["landmark_classes"]
    # New classes come last, so that the numbers in existing parts stay right.
    classes = [*known, *(name for name in classes_of(segments) if name not in known)]
    number = sum(part["split"] == split for part in manifest["parts"])
    manifest["parts"].append(_write_part(folder, split, segments, number, classes))
    _write_manifest(folder, {**manifest, "landmark_classes": classes})


def read_corpus(folder: Path | str, splits: Sequence[Split] = SPLITS) -> Corpus:
    """The corpus in a folder, or some of its splits."""
    folder = Path(folder)
    manifest = _read_manifest(folder)
    classes = manifest["landmark_classes"]
    unknown = sorted(set(classes) - set(LANDMARK_CLASSES))
    if unknown:
        raise ValueError(
            f"{folder}: got the landmark class {unknown[0]!r}, expected classes that pvn has (`pvn show catalogue`); "
            "read the corpus with the version of pvn that wrote it, or add the class to pvn/world"
        )
    found: dict[Split, list[Segment]] = {}
    was_enabled = gc.isenabled()
    gc.disable()  # everything that is made stays, so there is no garbage to look for
    try:
        for part in manifest["parts"]:
            if part["split"] in splits:
                found.setdefault(part["split"], []).extend(_read_part(folder, part, classes))
    finally:
        if was_enabled:
            gc.enable()
    return Corpus(manifest["name"], {split: tuple(found[split]) for split in SPLITS if split in found})


def origin(folder: Path | str) -> dict[str, Any]:
    """How the corpus in a folder was made: seed, size, banks."""
    return _read_manifest(Path(folder))["origin"]


def identity(folder: Path | str) -> str:
    """A checksum of the corpus in a folder: its segments and how it was made."""
    return _read_manifest(Path(folder))["sha256"]


def count_segments(folder: Path | str) -> dict[Split, int]:
    """How many segments each split of the corpus in a folder has, without reading them."""
    counts: dict[Split, int] = {}
    for part in _read_manifest(Path(folder))["parts"]:
        counts[part["split"]] = counts.get(part["split"], 0) + int(part["segments"])
    return counts
