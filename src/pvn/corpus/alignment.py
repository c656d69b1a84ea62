"""Which words mean which landmark classes, found by counting the landmarks near the path when a word is used.

The paper's appendix: over the training segments, E(o) is the event that a landmark of class o stands within 15 m of the
demonstrated path, E(t) the event that the term t occurs in the instruction, once or more. A term is aligned with a
class if P(o, t) ln(P(o, t) / (P(o) P(t))) > 0.008 and P(t) < 0.1. The authors' code counts a word that occurs twice as
two events; we follow the paper. "Within 15 m" includes exactly 15 m here, but not in their code.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pvn.corpus.segments import Segment
from pvn.corpus.vocabulary import NUM_RESERVED, Vocabulary
from pvn.world.landmarks import LANDMARK_CLASSES, LANDMARK_NAMES
from pvn.world.layout import Layout

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class AlignmentConfig:
    """Thresholds of what is near and what is aligned."""

    radius: float = 15.0
    """Landmarks at most this far from a point of the path are near it, metres (paper)."""
    min_score: float = 0.008
    """The score of an aligned word is above this (paper: T_PMI)."""
    max_probability: float = 0.1
    """The share of instructions that an aligned word occurs in is below this (paper: T_tau)."""


@dataclass(frozen=True)
class Alignment:
    """The words aligned with each landmark class."""

    vocabulary: Vocabulary
    """The words are terms of this vocabulary."""
    words: tuple[tuple[str, ...], ...]
    """For each class, in the order of `LANDMARK_NAMES`, its words by descending score."""
    scores: tuple[tuple[float, ...], ...]
    """The words' scores."""

    @functools.cached_property
    def is_aligned(self) -> Mask:
        """Whether (V, C) each id of the vocabulary is aligned with each class; reserved ids are aligned with none."""
        place = {term: NUM_RESERVED + index for index, term in enumerate(self.vocabulary.terms)}
        table = np.zeros((len(self.vocabulary), len(LANDMARK_NAMES)), bool)
        for column, words in enumerate(self.words):
            table[[place[word] for word in words], column] = True
        table.flags.writeable = False
        return table

    def mentioned(self, instruction: str | Sequence[int]) -> Mask:
        """Which classes (C,) an instruction, given as text or ids (N,), mentions: those aligned with any of its words.

        For an array of ids (B, N), padded or not, use `is_aligned[ids].any(axis=1)`, (B, C).
        """
        ids = self.vocabulary.encode(instruction) if isinstance(instruction, str) else instruction
        return np.logical_or.reduce(self.is_aligned[np.asarray(ids, np.int64)])

    def to_json(self) -> dict[str, Any]:
        """Words and scores by class name, as values that JSON can hold."""
        pairs = (zip(words, scores, strict=True) for words, scores in zip(self.words, self.scores, strict=True))
        return {"classes": dict(zip(LANDMARK_NAMES, map(dict, pairs), strict=True))}


def near_classes(segments: Sequence[Segment], radius: float) -> Mask:
    """Which classes (S, C) have a landmark at most `radius` metres from a point of each segment's path."""
    is_near = np.zeros((len(segments), len(LANDMARK_NAMES)), bool)
    fields: dict[int, tuple[Layout, npt.NDArray[np.float64], npt.NDArray[np.int64]]] = {}
    for row, segment in enumerate(segments):
        layout, path = segment.task.layout, segment.demonstration.path
        if id(layout) not in fields:
            kinds = np.array([LANDMARK_CLASSES[mark.name].index for mark in layout.landmarks], np.int64)
            fields[id(layout)] = layout, layout.centres, kinds
        _, places, kinds = fields[id(layout)]
        away = np.hypot(path[:, :1] - places[:, 0], path[:, 1:] - places[:, 1])  # (P, L)
        is_near[row, kinds[(away <= radius).any(axis=0)]] = True
    return is_near


def _term_events(segments: Sequence[Segment], vocabulary: Vocabulary) -> tuple[npt.NDArray[np.int64], ...]:
    """Indices (E,) of segments and (E,) of the terms that occur in their instructions, each pair once."""
    places = [sorted(set(vocabulary.encode(segment.task.instruction))) for segment in segments]
    rows = np.repeat(np.arange(len(segments)), [len(ids) for ids in places])
    terms = np.array([number for ids in places for number in ids], np.int64) - NUM_RESERVED
    is_known = terms >= 0
    return rows[is_known], terms[is_known]


def align(
    segments: Sequence[Segment], vocabulary: Vocabulary, config: AlignmentConfig = AlignmentConfig()
) -> Alignment:
    """The alignment of a vocabulary with landmark classes in training segments; their order does not matter."""
    if not segments:
        raise ValueError("alignment: got no segments, expected those of a training split")
    num_segments, num_terms = len(segments), len(vocabulary.terms)
    is_near = near_classes(segments, config.radius)
    rows, terms = _term_events(segments, vocabulary)
    num_near = is_near.sum(axis=0)  # of segments, by class
    num_said = np.bincount(terms, minlength=num_terms)  # by term
    num_both = np.stack([np.bincount(terms[near[rows]], minlength=num_terms) for near in is_near.T], axis=1)
    # Where a term and a class never occur together the score is 0; ln 1 stands in for ln 0.
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
