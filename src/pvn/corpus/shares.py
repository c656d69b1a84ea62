"""What one of several processes has of a corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pvn.corpus.segments import Corpus, Segment, Split
from pvn.corpus.store import read_corpus


@dataclass(frozen=True)
class CorpusShare:
    """What one of several processes has of a corpus: some environments of each split, with all their segments."""

    corpus: Corpus
    """Its segments."""
    places: Mapping[Split, npt.NDArray[np.int64]]
    """Where each of them is among all segments of its split."""
    num_segments: Mapping[Split, int]
    """How many segments each split has in all."""

    def among_first(self, split: Split, count: int) -> list[Segment]:
        """Its segments among the first so many of a split; none if the corpus does not have that split."""
        if split not in self.corpus.splits:
            return []
        return [segment for segment, place in zip(self.corpus[split], self.places[split], strict=True) if place < count]


def is_in_share(environments: npt.NDArray[np.int64], index: int, count: int, before: int = 0) -> npt.NDArray[np.bool_]:
    """Which of the segments of these environments (N,) are in one of `count` shares.

    before: how many environments there are before these. Neighbours are in different shares, so that each has its part
    of every source of instructions.
    """
    number: npt.NDArray[Any] = np.unique(environments, return_inverse=True)[1]
    return (before + number) % count == index


def share_of(corpus: Corpus, index: int, count: int) -> CorpusShare:
    """One of `count` shares of a corpus."""
    environments = {
        split: np.array([segment.environment for segment in segments], np.int64)
        for split, segments in corpus.splits.items()
    }
    places = {split: np.flatnonzero(is_in_share(numbers, index, count)) for split, numbers in environments.items()}
    own = {split: tuple(corpus[split][place] for place in chosen.tolist()) for split, chosen in places.items()}
    sizes = {split: len(segments) for split, segments in corpus.splits.items()}
    return CorpusShare(corpus if count == 1 else Corpus(corpus.name, own), places, sizes)


def read_share(folder: Path | str, splits: Sequence[Split], index: int, count: int) -> CorpusShare:
    """One of `count` shares of some splits of the corpus in a folder."""
    return share_of(read_corpus(folder, splits), index, count)
