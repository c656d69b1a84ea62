"""What one person calls the landmarks of a field."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pvn.corpus.meadow.references import Lexicon
from pvn.corpus.narrator.wordings import PEOPLE
from pvn.world.landmarks import LANDMARK_NAMES
from pvn.world.layout import Layout

PEOPLE_SHARE = 0.6
"""How often names are those of people who tell flights freely, rather than a bank's."""


@functools.lru_cache(maxsize=4)
def _classes_named(lexicon: Lexicon) -> dict[str, frozenset[str]]:
    """For each name, the landmark classes that it fits."""
    return {
        name: frozenset(kind for kind, is_fit in zip(LANDMARK_NAMES, fits.tolist(), strict=True) if is_fit)
        for name, fits in lexicon.fits.items()
    }


@dataclass(frozen=True, eq=False)
class Names:
    """What one person calls the landmarks of a field: names that fit one landmark alone."""

    of_mark: dict[int, tuple[str, ...]]
    """For each landmark that can be named without doubt, its names."""
    fences: tuple[str, ...]
    lakes: tuple[str, ...]

    @staticmethod
    def of(layout: Layout, lexicon: Lexicon, generator: np.random.Generator) -> Names:
        """One of the lexicon's authors' names."""
        authors = list(lexicon.by_author)
        author = authors[int(generator.random() * len(authors))]
        if PEOPLE in lexicon.by_author and generator.random() < PEOPLE_SHARE:
            author = PEOPLE
        fits = _classes_named(lexicon)
        present = [mark.name for mark in layout.landmarks]
        found = {}
        for place, kind in enumerate(present):
            if present.count(kind) > 1:
                continue
            rivals = {other for other in present if other != kind}
            names = tuple(name for name in lexicon.by_author[author][kind] if not fits[name] & rivals)
            if names:
                found[place] = names
        return Names(found, lexicon.fences[author], lexicon.lakes[author])

    def can_name(self, marks: Sequence[int]) -> bool:
        """Whether all of these landmarks can be named without doubt."""
        return all(mark in self.of_mark for mark in marks)
