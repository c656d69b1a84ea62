"""Names that fit one landmark of a field alone: for the narrator, and to rename landmarks in natural instructions.

`names.json` has names of things that were found in natural instructions. A landmark is renamed only if the old and the
new name fit it and no other landmark of the field, and if the words that follow cannot belong to its name ("the lamp
post" is not "the lamp", a post).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources

import numpy as np

from pvn.corpus.meadow.banks import Bank, bundled_banks
from pvn.corpus.meadow.references import Lexicon, is_plural
from pvn.corpus.segments import Segment
from pvn.world.landmarks import LANDMARK_NAMES
from pvn.world.layout import Layout

NATURAL = "natural"
"""The author of the names in names.json."""
NATURAL_SHARE = 0.6
"""How often a text uses the names from natural instructions rather than a bank's."""
RENAMED_SHARE = 0.5
"""Share of the mentions of landmarks that are renamed, where another name fits."""
_AFTER_A_NAME = (
    "on to and or then is are stays stay until till with at in ahead by as but so while when before behind past from "
    "off over out near goes comes slides passes again close right left dead straight first just still will should "
    "shows appears drifts after if into for well where which that there"
)
"""Words that may follow a landmark's name without being part of it."""
_NAME_ENDS = rf"(?=\s*(?:$|[,.;:!?)]|\s(?:{'|'.join(_AFTER_A_NAME.split())})\b))"


@functools.cache
def narrator_lexicon() -> Lexicon:
    """The names in the bundled banks and in natural instructions."""
    content = json.loads((resources.files(__package__) / "names.json").read_text(encoding="utf-8"))
    references = {name: tuple(texts) for name, texts in content["references"].items()}
    natural = Bank(NATURAL, references, tuple(content["fence"]), tuple(content["lake"]), ())
    return Lexicon.of((natural, *bundled_banks()))


@dataclass(frozen=True, eq=False)
class Names:
    """The names that one author has for the landmarks of a field, where they fit one landmark alone."""

    of_mark: dict[int, tuple[str, ...]]
    """For each landmark that has an unambiguous name, its names."""
    fences: tuple[str, ...]
    lakes: tuple[str, ...]

    @staticmethod
    def of(layout: Layout, lexicon: Lexicon, generator: np.random.Generator) -> Names:
        """The names of one of the lexicon's authors."""
        authors = list(lexicon.by_author)
        author = authors[int(generator.random() * len(authors))]
        if NATURAL in lexicon.by_author and generator.random() < NATURAL_SHARE:
            author = NATURAL
        present = [mark.name for mark in layout.landmarks]
        names = [lexicon.fitting_one(lexicon.by_author[author][kind], kind, present) for kind in present]
        found = {mark: own for mark, own in enumerate(names) if own}
        return Names(found, lexicon.fences[author], lexicon.lakes[author])

    def can_name(self, marks: Sequence[int]) -> bool:
        """Whether all of these landmarks have unambiguous names."""
        return all(mark in self.of_mark for mark in marks)


@functools.cache
def _every_name() -> dict[str, tuple[str, ...]]:
    """All authors' names for each class."""
    by_author = narrator_lexicon().by_author.values()
    return {kind: tuple(dict.fromkeys(name for names in by_author for name in names[kind])) for kind in LANDMARK_NAMES}


@functools.lru_cache(maxsize=1024)
def _names_of_one(present: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """For each name that fits one landmark alone, all such names of that landmark; present: the landmarks' classes."""
    found: dict[str, tuple[str, ...]] = {}
    for kind in set(present):
        own = narrator_lexicon().fitting_one(_every_name()[kind], kind, present)
        found |= dict.fromkeys(own, own)
    return found


@functools.cache
def _mention() -> re.Pattern[str]:
    """Finds an article and the longest name of any class after it."""
    names = {name for own in _every_name().values() for name in own}
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
