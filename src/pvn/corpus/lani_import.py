"""The LANI corpus, read from either of its public layouts (docs/formats.md).

drif: a folder `configs` with annotation files, `configs/random_config_N.json`, `paths/random_curve_N.json` and
`anno_paths/anno_curve_N.json`. CIFF: a folder `data/nav_drone` with annotation files whose records name their files.
Nothing is written, and nothing is left out silently: what cannot be used is returned with the reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import numpy as np

from pvn.corpus.lani_paragraphs import (
    MAX_OFFSET,
    Goal,
    Unusable,
    cut_route,
    environment_number,
    offsets,
    read_paragraph,
    route_in_metres,
)
from pvn.corpus.segments import SPLITS, Corpus, Segment, Split
from pvn.paths import Points
from pvn.world.lani import read_json, read_layout, read_route
from pvn.world.layout import Layout
from pvn.world.task import Demonstration

LaniLayout = Literal["drif", "ciff"]

_NUMBERED = re.compile(r"(train|dev|test)_annotations_(\d+)\.json")
_SYNTHETIC = re.compile(r"(synthetic_\w+)_(train|dev|test)\.json")
_ALL_SPLITS = "annotation_results.json"
_PACKED = re.compile(r"(.+?)(?:\.json)?\.(?:gz|zip|bz2|xz|zst|7z|tar|tgz|tar\.\w+)")
"""An archive of an annotation file, whose name may have lost its .json; only .json.gz is read as it is."""
_LOCALMOVES = re.compile(r"config_localmoves_(\d+)\.json")
_EXPECTED = f"{{train,dev,test}}_annotations_6000.json, {_ALL_SPLITS} or synthetic_v2_10k_{{train,dev,test}}.json"


@dataclass(frozen=True)
class Finding:
    """Something that could not be used, or that was repaired."""

    record: str
    """Which record or segment: "train_annotations_6000.json, environment 12, segment 3", counted from 0 as in segment
    ids; or which file."""
    reason: str
    """What is wrong and what was found: "end far from the path: got 3.10 m from its point, expected at most 2 m"."""

    @property
    def kind(self) -> str:
        """The reason without its details, for counting: "end far from the path"."""
        return self.reason.partition(": ")[0]


@dataclass(frozen=True)
class Import:
    """A corpus read from LANI's files, and what was refused or repaired."""

    layout: LaniLayout
    """Which of the public layouts was found."""
    corpus: Corpus
    refusals: tuple[Finding, ...]
    """Records and segments that could not be used, in the files' order."""
    repairs: tuple[Finding, ...]
    """What was repaired while reading."""
    files: tuple[Path, ...]
    """Annotation files that were read."""
    left_out: tuple[Path, ...]
    """Annotation files beside them that were not read: another set for the same environments."""
    num_records: int
    """Paragraphs in the files, used or not."""
    offsets: Points
    """Distance (N,) from each person's stop to the nearest point of the path, metres, used or not."""

    def count_refusals(self) -> list[tuple[str, int]]:
        """Kinds of refusal and the number of each, the most common first."""
        return Counter(refusal.kind for refusal in self.refusals).most_common()


# Which files to read.


@dataclass(frozen=True)
class _AnnotationSet:
    """The files of one release of annotations; a split of None means a file with all three splits."""

    name: str
    files: tuple[tuple[Split | None, Path], ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files alone."""
        return tuple(path for _, path in self.files)


@dataclass(frozen=True)
class _Source:
    """What is read: annotations, and the folder that has their environments."""

    layout: LaniLayout
    annotations: _AnnotationSet
    left_out: tuple[Path, ...]
    resources: Path


def _set_of(name: str) -> tuple[int, str, Split | None] | None:
    """The set that an annotation file belongs to by its name, and its split, None for all; None for other files.

    Sets with higher numbers come first: they are later releases for the same environments. CIFF's synthetic sets come
    last, because their environments have the same numbers as LANI's.
    """
    if numbered := _NUMBERED.fullmatch(name):
        return int(numbered[2]), numbered[2], cast(Split, numbered[1])
    if name == _ALL_SPLITS:
        return -1, "", None
    if synthetic := _SYNTHETIC.fullmatch(name):
        return -2, synthetic[1], cast(Split, synthetic[2])
    return None


def _annotation_sets(folder: Path) -> list[_AnnotationSet]:
    """The sets of annotations in a folder; the first is the one to read."""
    found: dict[tuple[int, str], dict[Split | None, Path]] = {}
    packed: list[tuple[Path, str]] = []
    # A file comes before its packed version, which is then not needed.
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        own = _set_of(path.name.removesuffix(".gz"))
        if own is not None and not path.is_dir():
            found.setdefault(own[:2], {}).setdefault(own[2], path)
        elif archive := _PACKED.fullmatch(path.name):
            packed.append((path, f"{archive[1]}.json"))
    for path, name in packed:
        own = _set_of(name)
        if own is not None and own[2] not in found.get(own[:2], {}):
            raise ValueError(f"{path}: got an archive, expected {name}; unpack it, or its split would be missing")
    order: tuple[Split | None, ...] = (*SPLITS, None)
    return [
        _AnnotationSet(name, tuple((split, files[split]) for split in order if split in files))
        for (_, name), files in sorted(found.items(), key=lambda item: item[0][0], reverse=True)
    ]


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
        raise FileNotFoundError(f"no folder {path}; expected LANI's data in drif's or CIFF's layout")
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


def _find_source(path: Path) -> tuple[_Source, list[Finding]]:
    """What to read for a path that a user gives, and what had to be repaired to find it."""
    layout, folder = _find_folder(path)
    sets = _annotation_sets(folder)
    if path.is_file():
        # The set of the given file comes first.
        sets.sort(key=lambda one: path not in one.paths)
        if not sets or path not in sets[0].paths:
            raise ValueError(f"{path}: not an annotation file by its name, expected {_EXPECTED}")
    resources, repairs = _find_resources(folder, sets[0].name) if layout == "ciff" else (folder, [])
    left_out = tuple(file for other in sets[1:] for file in other.paths)
    return _Source(layout, sets[0], left_out, resources), repairs


def _find_resources(folder: Path, set_name: str) -> tuple[Path, list[Finding]]:
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
    return fallback, [Finding(config.name, f"resources_dir: no folder {named}, looked for environments in {fallback}")]


# Reading them.


@dataclass(frozen=True)
class _Entry:
    """One record of an annotation file."""

    file: str
    """The file's name, with the split if the file has several."""
    split: Split
    index: int
    content: Any


def _read_entries(annotations: _AnnotationSet) -> tuple[list[_Entry], list[Finding]]:
    entries: list[_Entry] = []
    refusals: list[Finding] = []
    for split, path in annotations.files:
        content = read_json(path, path.name)
        if split is not None:
            entries += _entries_of(path, path.name, split, content)
            continue
        if not isinstance(content, dict):
            raise ValueError(f"{path}: got a JSON {type(content).__name__}, expected an object of train, dev and test")
        for name in SPLITS:
            if name in content:
                entries += _entries_of(path, f"{path.name}, {name}", name, content[name])
        reason = f"unknown split: expected one of {', '.join(SPLITS)}"
        refusals += [Finding(f"{path.name}, {name}", reason) for name in content if name not in SPLITS]
    return entries, refusals


def _entries_of(path: Path, where: str, split: Split, content: Any) -> list[_Entry]:
    if not isinstance(content, list):
        raise ValueError(f"{path}: {split}: got a JSON {type(content).__name__}, expected a list of records")
    return [_Entry(where, split, index, record) for index, record in enumerate(content)]


def _named_file(source: _Source, record: dict[str, Any], key: str, what: str) -> Path:
    name = record.get(key)
    if not isinstance(name, str) or not name:
        raise Unusable(f"no {what} file: {key}: got {name!r:.60}, expected a file under {source.resources}")
    return source.resources / name


def _environment_files(source: _Source, record: dict[str, Any], environment: int) -> tuple[Path, Path]:
    """The files of a record's field and route."""
    if source.layout == "ciff":
        field_file = _named_file(source, record, "config_file", "environment")
        return field_file, _named_file(source, record, "path_file", "path")
    # The path a person flew takes precedence over the one the person was shown.
    flown = source.resources / "anno_paths" / f"anno_curve_{environment}.json"
    shown = source.resources / "paths" / f"random_curve_{environment}.json"
    field_file = source.resources / "configs" / f"random_config_{environment}.json"
    return field_file, flown if flown.exists() else shown


Read = TypeVar("Read")


def _read_or_refuse(reader: Callable[[Path], Read], path: Path, what: str) -> Read:
    try:
        return reader(path)
    except FileNotFoundError as error:
        raise Unusable(f"no {what} file: {error}") from None
    except (ValueError, OSError) as error:
        raise Unusable(f"unusable {what} file: {error}") from None


@dataclass
class _Intake:
    """Collects segments, refusals and repairs, record by record."""

    source: _Source
    segments: dict[Split, list[Segment]]
    refusals: list[Finding]
    repairs: list[Finding]
    max_offset: float
    goal: Goal
    offsets: list[Points] = field(default_factory=list)
    layouts: dict[Path, Layout] = field(default_factory=dict)
    homes: dict[int, tuple[Split, Layout]] = field(default_factory=dict)
    """Split and field of each environment that has a segment in the corpus, by its number."""
    num_places: Counter[int] = field(default_factory=Counter)
    """Number of segments of each environment, used or not."""

    def add(self, entry: _Entry) -> None:
        """Add a record's segments, or the reasons why they cannot be used."""
        where = f"{entry.file}, record {entry.index}"
        try:
            if not isinstance(entry.content, dict):
                raise Unusable(f"not an object: got a JSON {type(entry.content).__name__}")
            environment = environment_number(entry.content)
            where = f"{entry.file}, environment {environment}"
            found = list(self._demonstrations(entry, environment, where))
        except Unusable as error:
            self.refusals.append(Finding(where, str(error)))
            return
        first = self.num_places[environment]
        self.num_places[environment] += len(found)
        for place, each in enumerate(found, start=first):
            if isinstance(each, Unusable):
                self.refusals.append(Finding(f"{where}, segment {place}", str(each)))
            else:
                self.homes.setdefault(environment, (entry.split, each.task.layout))
                self.segments[entry.split].append(Segment(environment, place, each, source="lani"))

    def _demonstrations(self, entry: _Entry, environment: int, where: str) -> Iterator[Demonstration | Unusable]:
        paragraph = read_paragraph(entry.content)
        field_file, route_file = _environment_files(self.source, entry.content, environment)
        layout = self._layout(environment, entry.split, field_file)
        route: Points = _read_or_refuse(read_route, route_file, "path")
        if not len(route):
            raise Unusable(f"unusable path file: {route_file}: got no points")
        if paragraph.repair:
            self.repairs.append(Finding(where, paragraph.repair))
        metres = route_in_metres(route, paragraph.starts[0, :2])
        self.offsets.append(offsets(paragraph, metres))
        return cut_route(paragraph, layout, metres, max_offset=self.max_offset, goal=self.goal)

    def _layout(self, environment: int, split: Split, path: Path) -> Layout:
        """The field; the same object for all its segments."""
        home, known = self.homes.get(environment, (split, None))
        if home != split:
            raise Unusable(
                f"environment in two splits: environment {environment} is already in {home}; fields seen in training "
                "must not be scored"
            )
        if path not in self.layouts:
            self.layouts[path] = _read_or_refuse(read_layout, path, "environment")
        if known is not None and known != self.layouts[path]:
            raise Unusable(f"another field with the same id: {path} differs from an earlier record's")
        return self.layouts[path] if known is None else known


def import_lani(
    path: Path | str,
    progress: Callable[[list[Any]], Iterable[Any]] = iter,
    *,
    max_offset: float = MAX_OFFSET,
    goal: Goal = "path",
) -> Import:
    """The LANI corpus at a path: drif's data folder or its `configs`, CIFF's repository or its `data/nav_drone`.

    Of several sets of annotations the latest is read; the path of an annotation file selects its set. `progress` wraps
    the list of records. max_offset: how far people's starts and stops may be from the path, metres. goal: whether a
    segment ends at the path's point nearest to where the person stopped, or there. Raises FileNotFoundError or
    ValueError if there is no corpus to read.
    """
    if not max_offset > 0:
        raise ValueError(f"max_offset: got {max_offset}, expected metres, more than 0")
    path = Path(path)
    source, repairs = _find_source(path)
    entries, refusals = _read_entries(source.annotations)
    intake = _Intake(source, {split: [] for split in SPLITS}, refusals, repairs, max_offset, goal)
    for entry in progress(entries):
        intake.add(entry)
    # Segments of one paragraph end up together, even if its records were apart.
    splits = {
        split: tuple(sorted(segments, key=lambda one: (one.environment, one.place)))
        for split, segments in intake.segments.items()
        if segments
    }
    result = Import(
        source.layout,
        Corpus("-".join(filter(None, ("lani", source.annotations.name))), splits),
        tuple(intake.refusals),
        tuple(intake.repairs),
        source.annotations.paths,
        source.left_out,
        len(entries),
        np.concatenate([np.zeros(0), *intake.offsets]),
    )
    if not splits:
        raise ValueError(_nothing_used(path, result))
    return result


def _nothing_used(path: Path, result: Import) -> str:
    """Why there is no corpus, with the commonest reasons, an example, and what was repaired on the way."""
    reasons = "; ".join(f"{count} x {kind}" for kind, count in result.count_refusals()[:3]) or "there are none"
    example = f" (first: {result.refusals[0].record}: {result.refusals[0].reason})" if result.refusals else ""
    notes = "".join(f"; {repair.record}: {repair.reason}" for repair in result.repairs[:3])
    files = ", ".join(file.name for file in result.files)
    return f"{path}: none of {result.num_records} records in {files} could be used: {reasons}{example}{notes}"
