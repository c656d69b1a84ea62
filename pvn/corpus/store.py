"""A corpus on disk: a folder that is read in a second and extended without rewriting its files (docs/formats.md).

Each part holds whole environments of one split as columns in one safetensors file. `corpus.json`, the manifest, lists
the parts and the landmark classes that they refer to by number. It is replaced last, so that a process killed at any
moment leaves the corpus as it was.
"""

from __future__ import annotations

import gc
import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from pvn.corpus.segments import SPLITS, Annotation, Corpus, Segment, Source, Split, phrase_author
from pvn.files import json_digest, read_json, replacing
from pvn.world.lakes import LAKE_CELLS
from pvn.world.landmarks import LANDMARK_CLASSES, LANDMARK_NAMES
from pvn.world.layout import Landmark, Layout
from pvn.world.task import Demonstration, Task

VERSION = 1
MANIFEST = "corpus.json"
KEYS = {"version", "name", "origin", "parts", "landmark_classes", "sha256"}
"""What a manifest may have; earlier ones have no checksum, the first no classes."""
FIRST_LANDMARK_CLASSES: tuple[str, ...] = tuple(
    (
        "Anvil Apple Banana Barrel Barrel2 Beacon Bench BigHouse Boat Boletus Box BushTree BushTree2 BushTree3 Cactus "
        "Coach Column ConniferCluster Container Dumpster FireHydrant GiantPalm GoldCone Gorilla House House1 House2 "
        "Jet Ladder LionStatue LowPolyTree LpPine Mushroom OilDrum Palm1 Palm2 Palm3 PhoneBox Pickup Pillar Pumpkin "
        "RecycleBin RedFlowers Rock Soldier SteelCube Stone1 Stone2 Stone3 StreetLamp Stump Tank Tombstone Tower2 "
        "TrafficCone TreasureChest TvTower WaterWell Well Windmill WoodBarrel WoodenChair YellowFlowers"
    ).split()
)
"""The classes that the column landmark_class numbers in corpora whose manifest does not name them: all there were when
such corpora were written. It is part of the file format: never change it, even if classes are added."""

Columns = dict[str, npt.NDArray[Any]]


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
    if any(heading is not None for heading in turned):
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


_TEXT, _OFFSETS, _FLAGS = (np.uint8, ()), (np.int64, ()), (np.bool_, ())
_SHAPES: dict[str, tuple[type[np.generic], tuple[int, ...]]] = {
    "field_environment": (np.int64, ()), "field_lake": (np.uint8, (LAKE_CELLS * LAKE_CELLS // 8,)),
    "landmark_class": (np.uint8, ()), "landmark_place": (np.float64, (4,)), "landmark_offset": _OFFSETS,
    "segment_environment": (np.int64, ()), "segment_place": (np.int32, ()), "start": (np.float64, (3,)),
    "path": (np.float64, (2,)), "path_offset": _OFFSETS, "stops": (np.int32, ()), "stops_offset": _OFFSETS,
    "is_turned": _FLAGS, "turned_to": (np.float64, ()), "meant": (np.int32, ()), "meant_offset": _OFFSETS,
    "is_annotated": _FLAGS, "is_seen": _FLAGS, "is_ambiguous": _FLAGS,
    **{name: _TEXT for name in ("instruction", "manoeuvres", "phrase", "source", "author")},
    **{f"{name}_offset": _OFFSETS for name in ("instruction", "manoeuvres", "phrase", "source", "author")},
}  # fmt: skip
"""Type and shape, after the first axis, of the columns of a part."""


def _check_columns(columns: Columns) -> None:
    """Refuse columns that cannot be those of a part: types, shapes, lengths and offsets."""
    for name, column in columns.items():
        if name not in _SHAPES:
            continue
        kind, shape = _SHAPES[name]
        if column.dtype != kind or column.ndim < 1 or column.shape[1:] != shape:
            raise ValueError(f"{name}: got {column.dtype} {column.shape}, expected {kind.__name__} (N, ...{shape})")
        if column.dtype == np.float64 and not np.isfinite(column).all():
            raise ValueError(f"{name}: got NaN or infinite numbers")
    for name in (name for name in columns if name.endswith("_offset")):
        offsets, values = columns[name], name.removesuffix("_offset")
        length = len(columns["landmark_class" if values == "landmark" else values])
        if not len(offsets) or offsets[0] != 0 or offsets[-1] != length or (np.diff(offsets) < 0).any():
            raise ValueError(f"{name}: expected numbers that rise from 0 to {length}")


def _texts(columns: Columns, name: str) -> list[str]:
    letters, offsets = columns[name].tobytes(), columns[f"{name}_offset"].tolist()
    return [letters[begin:end].decode() for begin, end in itertools.pairwise(offsets)]


def _rows(columns: Columns, name: str) -> list[npt.NDArray[Any]]:
    return np.split(columns[name], columns[f"{name}_offset"][1:-1])


class _UnknownClassError(Exception):
    """A part refers to a landmark class, whose name this is, that the package does not have."""


def _unpack_fields(columns: Columns, classes: Sequence[str]) -> dict[int, Layout]:
    names = [classes[number] for number in columns["landmark_class"].tolist()]
    for name in names:
        if name not in LANDMARK_CLASSES:
            raise _UnknownClassError(name)
    marks = [Landmark(name, *place) for name, place in zip(names, columns["landmark_place"].tolist(), strict=True)]
    lakes = np.unpackbits(columns["field_lake"], axis=1).astype(bool).reshape(-1, LAKE_CELLS, LAKE_CELLS)
    offsets = columns["landmark_offset"].tolist()
    return {
        environment: Layout(tuple(marks[begin:end]), lake)
        for environment, begin, end, lake in zip(
            columns["field_environment"].tolist(), offsets[:-1], offsets[1:], lakes, strict=True
        )
    }


def _sources(
    columns: Columns, notes: Sequence[Annotation | None], unannotated: Source
) -> list[tuple[Source, str | None]]:
    """Source and author of each instruction."""
    if "source" in columns:
        pairs = zip(_texts(columns, "source"), _texts(columns, "author"), strict=True)
        return [(cast(Source, source), author or None) for source, author in pairs]
    # Written before there were these columns: what is annotated was made by the generator.
    return [(unannotated, None) if note is None else ("phrases", phrase_author(note.phrase)) for note in notes]


def unpack_segments(columns: Columns, classes: Sequence[str], unannotated: Source = "phrases") -> list[Segment]:
    """The segments that were packed into the columns of a part.

    unannotated: the source of segments without an annotation, where the columns do not have it.
    """
    fields = _unpack_fields(columns, classes)
    phrases, meant, stops = _texts(columns, "phrase"), _rows(columns, "meant"), _rows(columns, "stops")
    manoeuvres = _texts(columns, "manoeuvres")
    is_seen, is_ambiguous = columns["is_seen"].tolist(), columns["is_ambiguous"].tolist()
    notes = [
        Annotation(
            manoeuvres=tuple(manoeuvres[row].split("; ")),
            stops=tuple(stops[row].tolist()),
            meant=tuple(meant[row].tolist()),
            phrase=phrases[row],
            is_seen=is_seen[row],
            is_ambiguous=is_ambiguous[row],
        )
        if is_annotated
        else None
        for row, is_annotated in enumerate(columns["is_annotated"].tolist())
    ]
    turned_to: list[float | None] = [None] * len(notes)
    if columns.keys() & {"is_turned", "turned_to"}:  # not if no segment ends with a turn, nor in earlier corpora
        pairs = zip(columns["is_turned"].tolist(), columns["turned_to"].tolist(), strict=True)
        turned_to = [heading if is_turned else None for is_turned, heading in pairs]
    return [
        Segment(environment, place, Demonstration(Task(fields[environment], start, text), path, heading), note, *source)
        for environment, place, start, path, heading, text, note, source in zip(
            columns["segment_environment"].tolist(),
            columns["segment_place"].tolist(),
            map(tuple, columns["start"].tolist()),
            _rows(columns, "path"),
            turned_to,
            _texts(columns, "instruction"),
            notes,
            _sources(columns, notes, unannotated),
            strict=True,
        )
    ]


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest = read_json(path, "make the corpus again")
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(
            f"no corpus in {folder}: it has no {MANIFEST}; make one with `pvn corpus make --out {folder}`"
        ) from None
    is_whole = isinstance(manifest, dict) and {"version", "name", "parts"} <= set(manifest)
    if not is_whole or not isinstance(manifest["parts"], list):
        raise ValueError(f"{path}: expected the keys version, name and parts; make the corpus again")
    unknown = sorted(set(manifest) - KEYS)
    if manifest["version"] == VERSION and unknown:  # perhaps the name of the checksum, damaged
        raise ValueError(f"{path}: got the key {unknown[0]!r:.60}, expected {', '.join(sorted(KEYS))}; copy it again")
    if manifest["version"] != VERSION:
        raise ValueError(f"{path}: got version {manifest['version']!r}, expected {VERSION}; make the corpus again")
    for part in manifest["parts"]:
        if not (isinstance(part, dict) and part.get("split") in SPLITS and isinstance(part.get("file"), str)):
            raise ValueError(f"{path}: parts: got {part!r}, expected a file and a split; make the corpus again")
    classes = manifest.get("landmark_classes", [])
    if not (isinstance(classes, list) and all(isinstance(name, str) for name in classes)):
        raise ValueError(
            f"{path}: landmark_classes: got {str(classes)[:60]}, expected a list of names; make the corpus again"
        )
    digest = json_digest(manifest, without="sha256")
    if manifest.get("sha256", digest) != digest:  # earlier corpora have none
        raise ValueError(f"{path}: changed since it was written; make the corpus again, or copy it again")
    return manifest


def _landmark_classes(manifest: dict[str, Any]) -> tuple[str, ...]:
    """The classes that the parts' column landmark_class numbers."""
    return tuple(manifest.get("landmark_classes", FIRST_LANDMARK_CLASSES))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_part(path: Path, classes: Sequence[str], unannotated: Source, digest: str | None) -> list[Segment]:
    """The segments of a part; digest: its checksum, None if the manifest has none."""
    try:
        if digest is not None and _digest(path) != digest:
            raise ValueError("it was changed since it was written")
        columns = load_file(path)
        _check_columns(columns)
        return unpack_segments(columns, classes, unannotated)
    except _UnknownClassError as unknown:
        raise ValueError(
            f"{path}: got the landmark class {str(unknown)!r}, expected one that pvn has (`pvn show catalogue`); read "
            "the corpus with the version of pvn that wrote it, or add the class to pvn/world"
        ) from None
    except FileNotFoundError:
        raise FileNotFoundError(f"no file {path}, which {MANIFEST} lists; make the corpus again") from None
    except (SafetensorError, KeyError, ValueError, IndexError, TypeError, AttributeError) as error:
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
    try:
        manifest = {
            "version": VERSION,
            "name": corpus.name,
            "origin": origin or {},
            "parts": [
                _write_part(partial, split, part, 0, LANDMARK_NAMES) for split, part in corpus.splits.items() if part
            ],
            "landmark_classes": list(LANDMARK_NAMES),
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
    classes = _landmark_classes(manifest)
    new = {mark.name for segment in segments for mark in segment.task.layout.landmarks} - set(classes)
    classes = (*classes, *sorted(new))  # at the end, so that the numbers in existing parts stay right
    number = sum(part["split"] == split for part in manifest["parts"])
    manifest["parts"].append(_write_part(folder, split, segments, number, classes))
    manifest["landmark_classes"] = list(classes)
    _write_manifest(folder, manifest)


def read_corpus(folder: Path | str, splits: Sequence[Split] = SPLITS) -> Corpus:
    """The corpus in a folder, or some of its splits."""
    folder = Path(folder)
    manifest = _read_manifest(folder)
    classes = _landmark_classes(manifest)
    unannotated: Source = "lani" if str(manifest["name"]).startswith("lani") else "phrases"
    found: dict[Split, list[Segment]] = {}
    was_enabled = gc.isenabled()
    gc.disable()  # all that is made stays, so there is no garbage to look for
    try:
        for part in manifest["parts"]:
            if part["split"] in splits:
                segments = _read_part(folder / part["file"], classes, unannotated, part.get("sha256"))
                found.setdefault(part["split"], []).extend(segments)
    finally:
        if was_enabled:
            gc.enable()
    return Corpus(manifest["name"], {split: tuple(found[split]) for split in SPLITS if split in found})


def origin(folder: Path | str) -> dict[str, Any]:
    """How the corpus in a folder was made: seed, size, banks."""
    return _read_manifest(Path(folder)).get("origin", {})


def identity(folder: Path | str) -> str:
    """A fingerprint of the corpus in a folder, from its parts and how it was made."""
    manifest = _read_manifest(Path(folder))
    if _landmark_classes(manifest) == FIRST_LANDMARK_CLASSES:
        # So that a corpus made again has the fingerprint it had before manifests named the classes.
        manifest.pop("landmark_classes", None)
    # So that a corpus made again has the fingerprint it had before manifests had checksums.
    manifest.pop("sha256", None)
    manifest["parts"] = [{key: value for key, value in part.items() if key != "sha256"} for part in manifest["parts"]]
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def count_segments(folder: Path | str) -> dict[Split, int]:
    """How many segments each split of the corpus in a folder has, without reading them."""
    counts: dict[Split, int] = {}
    for part in _read_manifest(Path(folder))["parts"]:
        counts[part["split"]] = counts.get(part["split"], 0) + int(part["segments"])
    return counts
