"""A corpus on disk: a folder that is read in a second and extended without rewriting its files (docs/formats.md).

Each part holds whole environments of one split as columns (columns.py) in one safetensors file. `corpus.json`, the
manifest, lists the parts and the landmark classes that they refer to by number. It is replaced last, so that a process
killed at any moment leaves the corpus as it was.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save

from pvn.corpus.columns import (
    Places,
    UnknownClassError,
    check_columns,
    pack_segments,
    share_of_columns,
    unpack_segments,
)
from pvn.corpus.segments import SPLITS, Corpus, CorpusShare, Segment, Source, Split
from pvn.files import json_digest, read_json, replacing
from pvn.world.landmarks import LANDMARK_NAMES

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


class _ColumnsOnDisk(Mapping[str, npt.NDArray[Any]]):
    """The columns in an open file, each read when it is looked up."""

    def __init__(self, file: Any) -> None:
        self._file, self._names = file, frozenset(file.keys())

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        if name not in self._names:
            raise KeyError(name)
        return self._file.get_tensor(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _read_part(
    path: Path, classes: Sequence[str], unannotated: Source, digest: str | None, index: int, count: int, before: int
) -> tuple[list[Segment], Places, npt.NDArray[np.int64]]:
    """The segments of one of `count` shares of a part, their places in it, and the environments of all its segments.

    digest: the part's checksum, None if the manifest has none; before: environments in earlier parts of the split.
    """
    try:
        if digest is not None and _digest(path) != digest:
            raise ValueError("it was changed since it was written")
        if count == 1:
            columns = load_file(path)
            check_columns(columns)
            environments = columns["segment_environment"]
            places = np.arange(len(environments))
        else:
            with safe_open(path, framework="numpy") as file:  # all columns at once might not fit into memory
                stored = _ColumnsOnDisk(file)
                check_columns(stored)
                environments = stored["segment_environment"]
                columns, places = share_of_columns(stored, index, count, before)
        return unpack_segments(columns, classes, unannotated), places, environments
    except UnknownClassError as unknown:
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
    return read_share(folder, splits, 0, 1).corpus


def read_share(folder: Path | str, splits: Sequence[Split], index: int, count: int) -> CorpusShare:
    """One of `count` shares of some splits of the corpus in a folder; the others are not kept in memory."""
    folder = Path(folder)
    manifest = _read_manifest(folder)
    classes = _landmark_classes(manifest)
    unannotated: Source = "lani" if str(manifest["name"]).startswith("lani") else "phrases"
    found: dict[Split, list[Segment]] = {}
    places: dict[Split, list[Places]] = {}
    num_segments, num_environments = Counter[Split](), Counter[Split]()
    was_enabled = gc.isenabled()
    gc.disable()  # all that is made stays, so there is no garbage to look for
    try:
        for part in manifest["parts"]:
            if part["split"] in splits:
                split, file = part["split"], folder / part["file"]
                segments, own, environments = _read_part(
                    file, classes, unannotated, part.get("sha256"), index, count, num_environments[split]
                )
                found.setdefault(split, []).extend(segments)
                places.setdefault(split, []).append(num_segments[split] + own)
                num_segments[split] += len(environments)
                num_environments[split] += len(np.unique(environments))
    finally:
        if was_enabled:
            gc.enable()
    corpus = Corpus(manifest["name"], {split: tuple(found[split]) for split in SPLITS if split in found})
    return CorpusShare(corpus, {split: np.concatenate(own) for split, own in places.items()}, num_segments)


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
