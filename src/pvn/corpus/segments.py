"""A corpus: segments, each a demonstration and what is known about it, in train, dev and test splits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from pvn.world.task import Demonstration, Task

Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
Source = Literal["phrases", "natural", "narrated", "lani"]
"""Where an instruction comes from: a phrase of a bank, filled in; text that was written for this flight, in the bundled
files by a language model, in a user's file by whoever made it; the narrator; LANI."""
SOURCES: tuple[Source, ...] = get_args(Source)


@dataclass(frozen=True)
class Annotation:
    """How a segment was made: for analysis only; a policy is given the segment's task and nothing else."""

    manoeuvres: tuple[str, ...]
    """The manoeuvres in flying order: ("pass A left", "goto B") or ("turn left", "fence blue")."""
    stops: tuple[int, ...]
    """Indices of the points of the demonstrated path at which the manoeuvres end."""
    meant: tuple[int, ...]
    """Indices in the layout of the landmarks A, B, C."""
    phrase: str
    """The phrase that the instruction is made from, by author and index in the author's bank: "a12"; "" if none."""
    is_seen: bool
    """Whether training segments may use this phrase; False if there is none."""
    is_ambiguous: bool
    """Whether a reference fits several landmarks of the field."""


def phrase_author(phrase: str) -> str | None:
    """The author of a phrase: "a" for "a12"; None for ""."""
    return phrase.rstrip("0123456789") or None


@dataclass(frozen=True)
class Segment:
    """One instruction of a paragraph and its demonstration."""

    environment: int
    """Number of the field; no two splits share a field."""
    place: int
    """Index in the paragraph, from 0."""
    demonstration: Demonstration
    annotation: Annotation | None = None
    """None if nothing is known, as for LANI's segments."""
    source: Source = "phrases"
    """Where its instruction comes from."""
    author: str | None = None
    """Who wrote the instruction, or the phrase that it is made from, such as "a"; None if unknown. The authors of the
    bundled banks and natural instructions are voices that a language model assumed."""

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise ValueError(f"source: got {self.source!r}, expected one of {', '.join(SOURCES)}")
        if self.author == "":
            raise ValueError("author: got an empty name, expected a name, or None if the author is not known")

    @property
    def task(self) -> Task:
        """Its instruction, field and start pose."""
        return self.demonstration.task

    @property
    def id(self) -> str:
        """Environment and index in the paragraph: "12-3"."""
        return f"{self.environment}-{self.place}"

    @property
    def is_seen(self) -> bool | None:
        """Whether training segments may use its phrase; None if it has no phrase, or if that is unknown."""
        note = self.annotation
        return None if note is None or not note.phrase else note.is_seen


def paragraphs_of(segments: Iterable[Segment]) -> list[tuple[Segment, ...]]:
    """The segments of each environment in order of place.

    Where a place is missing, a new paragraph begins: the next segment starts where the missing one would have ended.
    """
    found: list[list[Segment]] = []
    for segment in sorted(segments, key=lambda segment: (segment.environment, segment.place)):
        before = found[-1][-1] if found else None
        if before is not None and (segment.environment, segment.place) == (before.environment, before.place + 1):
            found[-1].append(segment)
        else:
            found.append([segment])
    return [tuple(paragraph) for paragraph in found]


@dataclass(frozen=True)
class Corpus:
    """Segments by split; the segments of a paragraph follow each other."""

    name: str
    splits: Mapping[Split, tuple[Segment, ...]]

    def __post_init__(self) -> None:
        seen: set[tuple[int, int]] = set()
        home: dict[int, Split] = {}
        for split, segments in self.splits.items():
            if split not in SPLITS:
                raise ValueError(f"split: got {split!r}, expected one of {', '.join(SPLITS)}")
            for segment in segments:
                key = (segment.environment, segment.place)
                if key in seen:
                    raise ValueError(f"segment {segment.id} occurs twice, expected each environment and place once")
                seen.add(key)
                if home.setdefault(segment.environment, split) != split:
                    raise ValueError(
                        f"environment {segment.environment} is in {home[segment.environment]} and in {split}, expected "
                        "each in one split: fields seen in training must not be scored"
                    )

    def __getitem__(self, split: Split) -> tuple[Segment, ...]:
        """The segments of a split."""
        if split not in self.splits:
            raise ValueError(f"split: got {split!r}, expected one of this corpus's: {', '.join(self.splits)}")
        return self.splits[split]

    def __iter__(self) -> Iterator[Segment]:
        for segments in self.splits.values():
            yield from segments

    def __len__(self) -> int:
        return sum(map(len, self.splits.values()))

    def segment(self, name: str) -> Segment:
        """The segment with this id."""
        for segments in self.splits.values():
            for segment in segments:
                if segment.id == name:
                    return segment
        first = next(iter(next(iter(self.splits.values()), ())), None)
        raise ValueError(
            f"segment: got {name!r}, expected the id of a segment in this corpus, environment and place, such as "
            f"{first.id if first else '12-3'!r}"
        )


def joined(corpora: Sequence[Corpus], name: str) -> Corpus:
    """One corpus with all segments of several, split by split and in order; no two may share an environment."""
    splits = {
        split: tuple(segment for corpus in corpora for segment in corpus.splits.get(split, ()))
        for split in SPLITS
        if any(split in corpus.splits for corpus in corpora)
    }
    homes: dict[int, int] = {}
    for place, corpus in enumerate(corpora):
        for segment in corpus:
            if homes.setdefault(segment.environment, place) != place:
                first = corpora[homes[segment.environment]]
                raise ValueError(
                    f"environment {segment.environment} is in {first.name} and in {corpus.name}, expected each number "
                    "in one of the corpora; number the fields of one of them anew"
                )
    return Corpus(name, splits)
