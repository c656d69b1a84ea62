"""The LANI corpus, read from either of its public layouts (docs/formats.md).

drif: a folder `configs` with annotation files, `configs/random_config_N.json`, `paths/random_curve_N.json` and
`anno_paths/anno_curve_N.json`. CIFF: a folder `data/nav_drone` with annotation files whose records name their files.
Nothing is written, and nothing is left out silently: what cannot be used is returned with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pvn.corpus.lani_files import AnnotationSet, LaniLayout, Repair, Source, find_source
from pvn.corpus.lani_records import (
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


@dataclass(frozen=True)
class Refusal:
    """One record or segment that could not be used."""

    record: str
    """Which one: "train_annotations_6000.json, environment 12, segment 3", counted from 0 as in segment ids."""
    reason: str
    """Why, with what was found: "end far from the path: got 3.10 m from its point, expected at most 2 m"."""
    kind: str
    """Why, without the details, for counting: "end far from the path"."""


@dataclass(frozen=True)
class Import:
    """A corpus read from LANI's files, and what was refused or repaired."""

    layout: LaniLayout
    """Which of the public layouts was found."""
    corpus: Corpus
    refusals: tuple[Refusal, ...]
    """Records and segments that could not be used, in the files' order."""
    repairs: tuple[Repair, ...]
    """What was repaired while reading."""
    files: tuple[Path, ...]
    """Annotation files that were read."""
    left_out: tuple[Path, ...]
    """Annotation files beside them that were not read: another set for the same environments."""
    num_records: int
    """Paragraphs in the files, used or not."""
    offsets: Points
    """How far each person stopped from the nearest point of the path, metres (N,), used or not."""

    def count_refusals(self) -> list[tuple[str, int]]:
        """Kinds of refusal and the number of each, the most common first."""
        return Counter(refusal.kind for refusal in self.refusals).most_common()


@dataclass(frozen=True)
class _Entry:
    """One record of an annotation file."""

    file: str
    """The file's name, with the split if the file has several."""
    split: Split
    index: int
    content: Any


def _read_entries(annotations: AnnotationSet) -> tuple[list[_Entry], list[Refusal]]:
    entries: list[_Entry] = []
    refusals: list[Refusal] = []
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
        kind = "unknown split"
        reason = f"{kind}: expected one of {', '.join(SPLITS)}"
        refusals += [Refusal(f"{path.name}, {name}", reason, kind) for name in content if name not in SPLITS]
    return entries, refusals


def _entries_of(path: Path, where: str, split: Split, content: Any) -> list[_Entry]:
    if not isinstance(content, list):
        raise ValueError(f"{path}: {split}: got a JSON {type(content).__name__}, expected a list of records")
    return [_Entry(where, split, index, record) for index, record in enumerate(content)]


def _named_file(source: Source, record: dict[str, Any], key: str, what: str) -> Path:
    name = record.get(key)
    if not isinstance(name, str) or not name:
        raise Unusable(f"no {what} file", f"{key}: got {name!r:.60}, expected a file under {source.resources}")
    return source.resources / name


def _environment_files(source: Source, record: dict[str, Any], environment: int) -> tuple[Path, Path]:
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
        raise Unusable(f"no {what} file", str(error)) from None
    except (ValueError, OSError) as error:
        raise Unusable(f"unusable {what} file", str(error)) from None


@dataclass
class _Intake:
    """Collects segments, refusals and repairs, record by record."""

    source: Source
    segments: dict[Split, list[Segment]]
    refusals: list[Refusal]
    repairs: list[Repair]
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
                raise Unusable("not an object", f"got a JSON {type(entry.content).__name__}")
            environment = environment_number(entry.content)
            where = f"{entry.file}, environment {environment}"
            found = list(self._demonstrations(entry, environment, where))
        except Unusable as error:
            self.refusals.append(Refusal(where, str(error), error.kind))
            return
        first = self.num_places[environment]
        self.num_places[environment] += len(found)
        for place, each in enumerate(found, start=first):
            if isinstance(each, Unusable):
                self.refusals.append(Refusal(f"{where}, segment {place}", str(each), each.kind))
            else:
                self.homes.setdefault(environment, (entry.split, each.task.layout))
                self.segments[entry.split].append(Segment(environment, place, each, source="lani"))

    def _demonstrations(self, entry: _Entry, environment: int, where: str) -> Iterator[Demonstration | Unusable]:
        paragraph = read_paragraph(entry.content)
        field_file, route_file = _environment_files(self.source, entry.content, environment)
        layout = self._layout(environment, entry.split, field_file)
        route: Points = _read_or_refuse(read_route, route_file, "path")
        if not len(route):
            raise Unusable("unusable path file", f"{route_file}: got no points")
        if paragraph.repair:
            self.repairs.append(Repair(where, paragraph.repair))
        metres = route_in_metres(route, paragraph.starts[0, :2])
        self.offsets.append(offsets(paragraph, metres))
        return cut_route(paragraph, layout, metres, max_offset=self.max_offset, goal=self.goal)

    def _layout(self, environment: int, split: Split, path: Path) -> Layout:
        """The field; the same object for all its segments."""
        home, known = self.homes.get(environment, (split, None))
        if home != split:
            raise Unusable(
                "environment in two splits",
                f"environment {environment} is already in {home}; fields seen in training must not be scored",
            )
        if path not in self.layouts:
            self.layouts[path] = _read_or_refuse(read_layout, path, "environment")
        if known is not None and known != self.layouts[path]:
            raise Unusable("another field with the same id", f"{path} differs from an earlier record's")
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
    source, repairs = find_source(path)
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
    name = "-".join(filter(None, ("lani", source.annotations.name)))
    files = tuple(file for _, file in source.annotations.files)
    result = Import(
        source.layout,
        Corpus(name, splits),
        tuple(intake.refusals),
        tuple(intake.repairs),
        files,
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
    notes = "".join(f"; {repair.record}: {repair.what}" for repair in result.repairs[:3])
    files = ", ".join(file.name for file in result.files)
    return f"{path}: none of {result.num_records} records in {files} could be used: {reasons}{example}{notes}"
