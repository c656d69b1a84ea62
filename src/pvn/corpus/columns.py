"""Segments as columns: what a part of a corpus holds on disk, explained in docs/formats.md."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from pvn.corpus.segments import Annotation, Segment, Source, is_in_share, phrase_author
from pvn.world.lakes import LAKE_CELLS
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Landmark, Layout
from pvn.world.task import Demonstration, Task

Columns = dict[str, npt.NDArray[Any]]
Places = npt.NDArray[np.int64]


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


def check_columns(columns: Mapping[str, npt.NDArray[Any]]) -> None:
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


def share_of_columns(
    columns: Mapping[str, npt.NDArray[Any]], index: int, count: int, before: int = 0
) -> tuple[Columns, Places]:
    """The columns of one of `count` shares of a part's environments, and the places of its segments in the part.

    before: environments in earlier parts. Columns are looked up one after the other: they need not all be in memory.
    """
    environments = columns["segment_environment"]
    is_own_segment = is_in_share(environments, index, count, before)
    is_own_field = np.isin(columns["field_environment"], environments[is_own_segment])
    own: Columns = {}
    for name in _SHAPES.keys() & columns.keys():
        if name.endswith("_offset"):
            continue
        rows = is_own_field if name.startswith(("field", "landmark")) else is_own_segment
        offset = "landmark_offset" if name.startswith("landmark") else f"{name}_offset"
        if offset in columns:
            lengths = np.diff(columns[offset])
            own[offset], rows = _offsets(lengths[rows]), np.repeat(rows, lengths)
        own[name] = columns[name][rows]
    return own, np.flatnonzero(is_own_segment)


def _texts(columns: Columns, name: str) -> list[str]:
    letters, offsets = columns[name].tobytes(), columns[f"{name}_offset"].tolist()
    return [letters[begin:end].decode() for begin, end in itertools.pairwise(offsets)]


def _rows(columns: Columns, name: str) -> list[npt.NDArray[Any]]:
    values, offsets = columns[name], columns[f"{name}_offset"].tolist()
    return [values[begin:end] for begin, end in itertools.pairwise(offsets)]


class UnknownClassError(Exception):
    """A part refers to a landmark class, whose name this is, that the package does not have."""


def _unpack_fields(columns: Columns, classes: Sequence[str]) -> dict[int, Layout]:
    names = [classes[number] for number in columns["landmark_class"].tolist()]
    for name in names:
        if name not in LANDMARK_CLASSES:
            raise UnknownClassError(name)
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
