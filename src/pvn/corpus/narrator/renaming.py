"""Other names for landmarks in instructions that people wrote: "the hydrant" for "the red fire hydrant".

A landmark is renamed only if both names fit it and no other landmark of the field, and if the words that follow cannot
belong to its name ("the lamp post" is not "the lamp", a post).
"""

from __future__ import annotations

import functools
import re
from dataclasses import replace

import numpy as np

from pvn.corpus.meadow.references import is_plural
from pvn.corpus.narrator.wordings import narrator_lexicon
from pvn.corpus.segments import Segment
from pvn.world.landmarks import LANDMARK_NAMES
from pvn.world.layout import Layout

RENAMED_SHARE = 0.5
"""Of the mentions of landmarks that can be renamed, how many are."""
_AFTER_A_NAME = (
    "on to and or then is are stays stay until till with at in ahead by as but so while when before behind past from "
    "off over out near goes comes slides passes again close right left dead straight first just still will should "
    "shows appears drifts after if into for well where which that there"
)
"""Words that may follow a landmark's name without being part of it."""
_NAME_ENDS = rf"(?=\s*(?:$|[,.;:!?)]|\s(?:{'|'.join(_AFTER_A_NAME.split())})\b))"


@functools.cache
def _names_by_class() -> dict[str, tuple[tuple[str, frozenset[str]], ...]]:
    """For each class, what people and banks call it, each name with the classes that it fits."""
    lexicon = narrator_lexicon()
    fits = {name: frozenset(np.array(LANDMARK_NAMES)[is_fit].tolist()) for name, is_fit in lexicon.fits.items()}
    return {
        kind: tuple(
            (name, fits[name])
            for name in dict.fromkeys(name for names in lexicon.by_author.values() for name in names[kind])
        )
        for kind in LANDMARK_NAMES
    }


@functools.lru_cache(maxsize=1024)
def _names_of_one(present: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """For each name that fits one of these landmarks alone, all such names of that landmark; by class names."""
    found: dict[str, tuple[str, ...]] = {}
    for kind in set(present):
        rivals = set(present) - {kind}
        if present.count(kind) == 1:
            own = tuple(name for name, fits in _names_by_class()[kind] if not fits & rivals)
            found |= dict.fromkeys(own, own)
    return found


@functools.cache
def _mention() -> re.Pattern[str]:
    """Finds an article and the longest name of any class after it."""
    names = {name for own in _names_by_class().values() for name, _ in own}
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    return re.compile(rf"\b(the|an?) ({'|'.join(map(re.escape, longest_first))})\b{_NAME_ENDS}", re.IGNORECASE)


def _with_article(article: str, name: str) -> str:
    """The name after an article like the given one: "An anvil" after "A"."""
    if article.lower() == "the":
        return f"{article} {name}"
    fitting = "an" if name[0] in "aeiou" else "a"
    return f"{fitting.capitalize() if article[0].isupper() else fitting} {name}"


def rename_text(text: str, layout: Layout, generator: np.random.Generator) -> str:
    """The instruction with other names for some of the field's landmarks, as true as before."""
    names = _names_of_one(tuple(mark.name for mark in layout.landmarks))

    def other_name(match: re.Match[str]) -> str:
        article, name = match[1], match[2].lower()
        others = [other for other in names.get(name, ()) if other != name and is_plural(other) == is_plural(name)]
        if not others or generator.random() >= RENAMED_SHARE:
            return match[0]
        return _with_article(article, others[int(generator.integers(len(others)))])

    return _mention().sub(other_name, text)


def renamed(segment: Segment, seed: int) -> Segment:
    """The segment with other names in its instruction; the same seed gives the same names."""
    generator = np.random.default_rng([seed, segment.environment, segment.place])
    task = segment.task
    text = rename_text(task.instruction, task.layout, generator)
    return replace(segment, demonstration=replace(segment.demonstration, task=replace(task, instruction=text)))
