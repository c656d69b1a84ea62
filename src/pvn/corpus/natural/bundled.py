"""The bundled natural instructions: 7,300, each written for one flight by a large language model in an assumed voice.

There are 28 voices, which files and code call authors; the one of dev is three voices by turns. No person wrote any of
them. The flights come from an earlier version of the generator (seed 0). Fields and paths are stored with the words, so
that these stay true when the generator changes. To keep the files small, positions and radii are rounded to a
millimetre, and headings to a ten-thousandth of a radian.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from types import MappingProxyType

import numpy as np

from pvn.corpus.segments import SPLITS, Corpus, Segment, Split
from pvn.corpus.store import Columns, classes_of, pack_segments, unpack_segments
from pvn.files import replacing

FIRST_ENVIRONMENT = 1_000_000
"""Added to the number that the field has in the generated corpus."""
MILLIMETRE = 1e-3
HEADING_STEP = 1e-4
"""What headings are rounded to, radians."""
BUNDLED_SPLITS: tuple[Split, ...] = ("train", "dev")
"""The test split has none."""


def _file_name(split: Split) -> str:
    return f"{split}.npz"


def _compact(columns: Columns) -> Columns:
    """The columns of a part of a corpus in fewer bytes: whole numbers, and lengths in place of offsets."""
    place = columns["landmark_place"]
    small = {
        name: np.diff(column).astype(np.uint16) if name.endswith("_offset") else column
        for name, column in columns.items()
        if name not in ("path", "landmark_place", "start")
    }
    return small | {
        "path": np.round(columns["path"] / MILLIMETRE).astype(np.uint16),
        "landmark_place": np.round(place[:, :3] / MILLIMETRE).astype(np.uint16),
        "landmark_heading": np.round(place[:, 3] / HEADING_STEP).astype(np.int32),
        "start": np.round(columns["start"][:, :2] / MILLIMETRE).astype(np.uint16),
        "start_heading": np.round(columns["start"][:, 2] / HEADING_STEP).astype(np.int32),
    }


def _expand(small: Columns) -> Columns:
    """The columns of a part of a corpus."""
    columns = {
        name: np.cumsum([0, *column.tolist()], dtype=np.int64) if name.endswith("_offset") else column
        for name, column in small.items()
    }
    # Divided by a whole number, since 12345 / 1000 is the number nearest to 12.345, and 12345 * 0.001 is not.
    for name in ("landmark", "start"):
        heading = columns.pop(f"{name}_heading") / round(1 / HEADING_STEP)
        position = "landmark_place" if name == "landmark" else "start"
        columns[position] = np.column_stack([columns[position] / round(1 / MILLIMETRE), heading])
    columns["path"] = columns["path"] / round(1 / MILLIMETRE)
    return columns


def write_natural(splits: Mapping[Split, Sequence[Segment]], folder: Path) -> None:
    """Write segments as the files that `natural_segments` reads, as the bundled files were written."""
    for split, segments in splits.items():
        classes = classes_of(segments)
        columns = _compact(pack_segments(segments, classes))
        columns["landmark_classes"] = np.frombuffer("\n".join(classes).encode(), np.uint8)
        with replacing(folder / _file_name(split)) as partial:
            np.savez_compressed(partial, **columns)  # type: ignore[arg-type]


@functools.cache
def natural_segments() -> Mapping[Split, tuple[Segment, ...]]:
    """All bundled natural segments: 7,000 for training in 27 voices, and 300 in dev in another.

    The result is cached: do not change its paths.
    """
    found: dict[Split, tuple[Segment, ...]] = {}
    for split in BUNDLED_SPLITS:
        with resources.files(__package__).joinpath(_file_name(split)).open("rb") as file:
            columns: Columns = dict(np.load(file, allow_pickle=False))
        classes = columns.pop("landmark_classes").tobytes().decode().split("\n")
        found[split] = tuple(unpack_segments(_expand(columns), classes))
    return MappingProxyType(found)


def natural_corpus(share: float = 1.0, *, seed: int = 0, only: Iterable[Split] = SPLITS) -> Corpus:
    """A share of the bundled natural segments, 0 to 1, chosen at random; the same arguments give the same corpus."""
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share: got {share:g}, expected 0 to 1")
    wanted, splits = set(only), {}
    for split, segments in natural_segments().items():
        count = round(share * len(segments))
        if split in wanted and count:
            generator = np.random.default_rng((seed, 3, SPLITS.index(split)))
            chosen = np.sort(generator.permutation(len(segments))[:count])
            splits[split] = tuple(segments[place] for place in chosen.tolist())
    return Corpus("natural", splits)
