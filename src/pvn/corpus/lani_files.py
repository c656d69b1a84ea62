"""Which files of LANI are read: the annotations, in either public layout, and the folder of their environments."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pvn.corpus.segments import SPLITS, Split
from pvn.world.lani import read_json

LaniLayout = Literal["drif", "ciff"]

_NUMBERED = re.compile(r"(train|dev|test)_annotations_(\d+)\.json")
_SYNTHETIC = re.compile(r"(synthetic_\w+)_(train|dev|test)\.json")
_PACKED = re.compile(r"(.+?)(?:(?:\.json)?\.(?:zip|bz2|xz|zst|7z|tar|tgz|tar\.\w+)|(?<!\.json)\.gz)")
"""An archive of a file, whose name may have lost its .json."""
_ZIPPED = ".gz"
"""Suffix of annotation files that are read as they are, although they are packed."""
_LOCALMOVES = re.compile(r"config_localmoves_(\d+)\.json")
_ALL_SPLITS = "annotation_results.json"
_EXPECTED = f"{{train,dev,test}}_annotations_6000.json, {_ALL_SPLITS} or synthetic_v2_10k_{{train,dev,test}}.json"


@dataclass(frozen=True)
class Repair:
    """Something that was repaired while reading, to be reported to the user."""

    record: str
    """Which one, as in a refusal, or which file."""
    what: str
    """What was wrong and how it was read."""


@dataclass(frozen=True)
class AnnotationSet:
    """The files of one release of annotations; a split of None means a file with all three splits."""

    name: str
    files: tuple[tuple[Split | None, Path], ...]


@dataclass(frozen=True)
class Source:
    """What is read: annotations, and the folder that has their environments."""

    layout: LaniLayout
    annotations: AnnotationSet
    left_out: tuple[Path, ...]
    resources: Path


def _set_of(name: str) -> tuple[int, str, Split | None] | None:
    """The set that an annotation file belongs to by its name, and its split, None for all; None for other files.

    Sets with higher numbers come first: they are later releases for the same environments. CIFF's synthetic sets come
    last, because their environments have the same numbers as LANI's.
    """
    if numbered := _NUMBERED.fullmatch(name):
        return int(numbered[2]), numbered[2], _split(numbered[1])
    if name == _ALL_SPLITS:
        return -1, "", None
    if synthetic := _SYNTHETIC.fullmatch(name):
        return -2, synthetic[1], _split(synthetic[2])
    return None


def _annotation_sets(folder: Path) -> list[AnnotationSet]:
    """The sets of annotations in a folder; the first is the one to read."""
    if not folder.is_dir():
        return []
    found: dict[tuple[int, str], dict[Split | None, Path]] = {}
    packed: list[tuple[Path, str]] = []
    # Files come before their packed versions, which are then not needed.
    for path in sorted(folder.iterdir()):
        name = path.name.removesuffix(_ZIPPED)
        if match := _PACKED.fullmatch(path.name):
            packed.append((path, f"{match[1]}.json"))
        elif (own := _set_of(name)) is not None and not path.is_dir():
            if not path.exists():
                raise FileNotFoundError(
                    f"{path}: a link to {path.readlink()}, which does not exist; mend it, or remove it to go without"
                )
            found.setdefault(own[:2], {}).setdefault(own[2], path)
    for path, name in packed:
        own = _set_of(name)
        if own is not None and own[2] not in found.get(own[:2], {}):
            raise ValueError(f"{path}: got an archive, expected {name}; unpack it, or its split would be missing")
    order: tuple[Split | None, ...] = (*SPLITS, None)
    return [
        AnnotationSet(name, tuple((split, files[split]) for split in order if split in files))
        for (_, name), files in sorted(found.items(), key=lambda item: item[0][0], reverse=True)
    ]


def _split(name: str) -> Split:
    return next(split for split in SPLITS if split == name)


def _layout_of(folder: Path) -> LaniLayout:
    """Which layout a folder of annotation files has, judged by the other files in it."""
    names = {path.name for path in folder.iterdir()}
    is_named = "nav_drone" in (folder.absolute().name, folder.resolve().name)
    if is_named or any(_LOCALMOVES.match(name) or _SYNTHETIC.match(name) for name in names):
        return "ciff"
    if {"configs", "paths", _ALL_SPLITS} & names:
        return "drif"
    raise ValueError(
        f"{folder}: got annotations, but neither configs/ and paths/ beside them (drif) nor a folder named nav_drone "
        "(CIFF); give the folder that holds the environments too"
    )


def _find_folder(path: Path) -> tuple[LaniLayout, Path]:
    """The layout and the folder of annotation files that a path refers to."""
    if not path.exists():
        raise FileNotFoundError(f"no folder {path}; expected LANI's data, as drif or as CIFF lay it out")
    if path.is_file():
        return _layout_of(path.parent), path.parent
    ciff, drif = path / "data" / "nav_drone", path / "configs"
    found: list[tuple[LaniLayout, Path]] = []
    found += [("ciff", ciff)] if _annotation_sets(ciff) else []
    found += [("drif", drif)] if _annotation_sets(drif) else []
    found += [(_layout_of(path), path)] if _annotation_sets(path) else []
    if not found:
        raise FileNotFoundError(
            f"no LANI annotations in {path}, {drif} or {ciff}: expected {_EXPECTED}; give drif's data folder (its "
            "config_dir) or CIFF's repository"
        )
    if len(found) > 1:
        folders = " and ".join(str(folder) for _, folder in found)
        raise ValueError(f"{path}: got annotations in {folders}, expected one corpus; give one of these folders")
    return found[0]


def find_source(path: Path) -> tuple[Source, list[Repair]]:
    """What to read for a path that a user gives, and what had to be repaired to find it."""
    layout, folder = _find_folder(path)
    sets = _annotation_sets(folder)
    if path.is_file():
        # The set that the path selects comes first.
        sets.sort(key=lambda one: path not in [file for _, file in one.files])
        if not sets or path not in [file for _, file in sets[0].files]:
            raise ValueError(f"{path}: not an annotation file by its name, expected {_EXPECTED}")
    resources, repairs = _find_resources(folder, sets[0].name) if layout == "ciff" else (folder, [])
    left_out = tuple(file for other in sets[1:] for _, file in other.files)
    return Source(layout, sets[0], left_out, resources), repairs


def _find_resources(folder: Path, set_name: str) -> tuple[Path, list[Repair]]:
    """The folder of CIFF's environment files: its experiment's resources_dir, or one at or beside the annotations."""
    # Where CIFF's own repair script looks.
    usual = folder / "resources"
    fallback = usual if usual.is_dir() and any(usual.iterdir()) else folder
    numbers = [_LOCALMOVES.fullmatch(path.name) for path in folder.iterdir()]
    configs = sorted((match[1] == set_name, int(match[1]), match[0]) for match in numbers if match)
    if not configs:
        return fallback, []
    config = folder / configs[-1][2]
    content = read_json(config, "config_localmoves_6000.json")
    named = content.get("resources_dir") if isinstance(content, dict) else None
    if not isinstance(named, str):
        raise ValueError(f"{config}: resources_dir: got {named!r}, expected a folder; correct the file or remove it")
    # CIFF runs in its repository's root, two folders up, also where its data are a link to elsewhere.
    roots = (folder.absolute().parent.parent, folder.resolve().parent.parent, folder)
    for candidate in (root / named for root in roots):
        if candidate.is_dir():
            return candidate, []
    return fallback, [Repair(config.name, f"resources_dir: no folder {named}, looked for environments in {fallback}")]
