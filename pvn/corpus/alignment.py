"""Which words mean which landmark classes, found by counting what is near the paths where people say them.

The paper's appendix: over the training segments, E(o) is the event that a landmark of class o stands within 15 m of the
demonstrated path, E(t) that the term t occurs in the instruction, once or more. A term is aligned with a class if
P(o, t) ln(P(o, t) / (P(o) P(t))) > 0.008 and P(t) < 0.1. The authors' code counts a word said twice as two events; we
follow the paper. "Within" is at most 15 m here, less than that in their code.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pvn.corpus.meadow.banks import Bank, bundled_banks
from pvn.corpus.segments import Segment
from pvn.corpus.vocabulary import NUM_RESERVED, Vocabulary, tokenise
from pvn.world.landmarks import LANDMARK_CLASSES, LANDMARK_NAMES
from pvn.world.layout import Layout

VERSION = 1

# Words of references that say nothing about the thing itself.
_EMPTY = frozenset(
    "a almost an and as back by colored down for from growing has have holds in is it its itself kinda lies like "
    "looking looks lying made mid not object of off on one ones out over painted s see set shaped side sided sit "
    "sitting sized standing than that thats the they thing things to together too up use very w was way with without "
    "would you".split()
)

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class AlignmentConfig:
    """What counts as near, and what as aligned."""

    radius: float = 15.0
    """Landmarks at most this far from a point of the path are near it, metres (paper)."""
    min_score: float = 0.008
    """The score of an aligned word is above this (paper: T_PMI)."""
    max_probability: float = 0.1
    """The share of instructions that an aligned word occurs in is below this (paper: T_tau)."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name}: got {value}, expected a finite number, 0 or more")


@dataclass(frozen=True)
class Alignment:
    """The words aligned with each landmark class."""

    vocabulary: Vocabulary
    """The words are terms of it."""
    words: tuple[tuple[str, ...], ...]
    """For each of the 63 classes, in the order of `LANDMARK_NAMES`, its words by falling score."""
    scores: tuple[tuple[float, ...], ...]
    """The words' scores."""

    def __post_init__(self) -> None:
        if not len(self.words) == len(self.scores) == len(LANDMARK_NAMES):
            raise ValueError(f"alignment: got {len(self.words)} classes, expected {len(LANDMARK_NAMES)}")
        known = set(self.vocabulary.terms)
        for name, words, scores in zip(LANDMARK_NAMES, self.words, self.scores, strict=True):
            strange = sorted(set(words) - known)
            if strange:
                raise ValueError(
                    f"alignment: {name}: got {strange[0]!r}, expected terms of the vocabulary; "
                    "an alignment and its vocabulary are made of the same training text"
                )
            if len(set(words)) != len(words) or len(words) != len(scores):
                raise ValueError(
                    f"alignment: {name}: got {words} and {scores}, expected each word once, with its score"
                )
            if not all(map(math.isfinite, scores)) or list(scores) != sorted(scores, reverse=True):
                raise ValueError(f"alignment: {name}: got scores {scores}, expected finite falling ones")

    @functools.cached_property
    def is_aligned(self) -> Mask:
        """Whether (V, 63) each id of the vocabulary is aligned with each class; no reserved id is with any."""
        place = {term: NUM_RESERVED + index for index, term in enumerate(self.vocabulary.terms)}
        table = np.zeros((len(self.vocabulary), len(LANDMARK_NAMES)), bool)
        for column, words in enumerate(self.words):
            table[[place[word] for word in words], column] = True
        table.flags.writeable = False
        return table

    def mentioned(self, instruction: str | Sequence[int]) -> Mask:
        """Which (63,) classes an instruction, a text or its ids (N,), mentions: those aligned with any of its words.

        For ids (B, N) in one array, padded or not, `is_aligned[ids].any(axis=1)` is the same, (B, 63).
        """
        ids = self.vocabulary.encode(instruction) if isinstance(instruction, str) else instruction
        return np.logical_or.reduce(self.is_aligned[np.asarray(ids, np.int64)])

    def to_json(self) -> dict[str, Any]:
        """The words and scores as what JSON can hold; the vocabulary is kept apart."""
        pairs = (zip(words, scores, strict=True) for words, scores in zip(self.words, self.scores, strict=True))
        return {"version": VERSION, "classes": dict(zip(LANDMARK_NAMES, map(dict, pairs), strict=True))}

    @staticmethod
    def from_json(content: object, vocabulary: Vocabulary) -> Alignment:
        """The alignment that `to_json` gave, with the vocabulary it was made with."""
        if not isinstance(content, dict) or content.get("version") != VERSION:
            got = content.get("version") if isinstance(content, dict) else type(content).__name__
            raise ValueError(
                f"alignment: got version {got!r}, expected {VERSION}; make it again from training segments"
            )
        classes = content.get("classes")
        if not isinstance(classes, dict) or set(classes) != set(LANDMARK_NAMES):
            raise ValueError("alignment: classes: expected an object with the 63 landmark classes and no others")
        for name, scores in classes.items():
            if not isinstance(scores, dict) or not all(type(score) is float for score in scores.values()):
                raise ValueError(f"alignment: {name}: got {str(scores)[:60]}, expected an object from words to scores")
        ranked = [sorted(classes[name].items(), key=lambda item: (-item[1], item[0])) for name in LANDMARK_NAMES]
        return Alignment(
            vocabulary,
            tuple(tuple(word for word, _ in pairs) for pairs in ranked),
            tuple(tuple(score for _, score in pairs) for pairs in ranked),
        )


def near_classes(segments: Sequence[Segment], radius: float) -> Mask:
    """Which (S, 63) classes have a landmark at most `radius` metres from a point of each segment's path."""
    is_near = np.zeros((len(segments), len(LANDMARK_NAMES)), bool)
    fields: dict[int, tuple[Layout, npt.NDArray[np.float64], npt.NDArray[np.int64]]] = {}
    for row, segment in enumerate(segments):
        layout, path = segment.task.layout, segment.demonstration.path
        if id(layout) not in fields:
            places = np.array([(mark.x, mark.y) for mark in layout.landmarks]).reshape(-1, 2)
            kinds = np.array([LANDMARK_CLASSES[mark.name].index for mark in layout.landmarks], np.int64)
            fields[id(layout)] = layout, places, kinds
        _, places, kinds = fields[id(layout)]
        away = np.hypot(path[:, :1] - places[:, 0], path[:, 1:] - places[:, 1])  # (P, L)
        is_near[row, kinds[(away <= radius).any(axis=0)]] = True
    return is_near


def _term_events(segments: Sequence[Segment], vocabulary: Vocabulary) -> tuple[npt.NDArray[np.int64], ...]:
    """Rows (E,) of the segments and places (E,) of the terms that occur in their instructions, each pair once."""
    places = [sorted(set(vocabulary.encode(segment.task.instruction))) for segment in segments]
    rows = np.repeat(np.arange(len(segments)), [len(ids) for ids in places])
    terms = np.array([number for ids in places for number in ids], np.int64) - NUM_RESERVED
    is_known = terms >= 0
    return rows[is_known], terms[is_known]


def align(
    segments: Sequence[Segment], vocabulary: Vocabulary, config: AlignmentConfig = AlignmentConfig()
) -> Alignment:
    """The alignment of some training segments; it does not depend on their order."""
    if not segments:
        raise ValueError("alignment: got no segments, expected those of a training split")
    num_terms, num_segments = len(vocabulary.terms), len(segments)
    is_near = near_classes(segments, config.radius)
    rows, terms = _term_events(segments, vocabulary)
    num_near = is_near.sum(axis=0)  # (63,)
    num_said = np.bincount(terms, minlength=num_terms)  # (terms,)
    num_both = np.stack([np.bincount(terms[near[rows]], minlength=num_terms) for near in is_near.T], axis=1)
    # Where a term and a class never meet, P ln P is 0; the logarithm is taken of 1 instead.
    ratio = num_both * num_segments / np.maximum(num_near * num_said[:, None], 1)
    score = num_both / num_segments * np.log(np.where(num_both, ratio, 1.0))
    is_kept = (score > config.min_score) & (num_said / num_segments < config.max_probability)[:, None]
    words, scores = [], []
    for column in range(len(LANDMARK_NAMES)):
        kept = np.flatnonzero(is_kept[:, column])
        kept = kept[np.argsort(-score[kept, column], kind="stable")]  # equal scores: alphabetical
        words.append(tuple(vocabulary.terms[place] for place in kept))
        scores.append(tuple(score[kept, column].tolist()))
    return Alignment(vocabulary, tuple(words), tuple(scores))


def sensible_words(alignment: Alignment, banks: Sequence[Bank] | None = None) -> dict[str, tuple[str, ...]]:
    """For each class, those of its aligned words that an author of the banks (the bundled ones) calls it by.

    A word is one an author calls the class by if it is in a reference for it and says something about the thing ("of"
    and "thing" do not). A class with none is not understood.
    """
    called: dict[str, set[str | None]] = {name: set() for name in LANDMARK_NAMES}
    for bank in bundled_banks() if banks is None else banks:
        for name, references in bank.references.items():
            words = {word for text in references for word in tokenise(text)} - _EMPTY
            called[name] |= {alignment.vocabulary.term(word) for word in words}
    return {
        name: tuple(word for word in words if word in called[name])
        for name, words in zip(LANDMARK_NAMES, alignment.words, strict=True)
    }
