"""References: names for landmarks, chosen so that a listener who sees the field knows which one is meant.

A reference fits a landmark if some author's reference for the landmark's class contains all of its words. A reference
that fits only one landmark of the field is used unchanged. A reference that fits several is clarified by a neighbour, a
distance or a side; a small share stays ambiguous on purpose.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pvn.corpus.alignment import Alignment
from pvn.corpus.meadow.banks import Bank, bundled_banks
from pvn.corpus.meadow.manoeuvres import SLOTS
from pvn.corpus.meadow.scene import Pose, Scene
from pvn.corpus.meadow.tours import PlannedFlight
from pvn.corpus.vocabulary import merge_typos, tokenise
from pvn.world.landmarks import LANDMARK_CLASSES, LANDMARK_NAMES
from pvn.world.layout import FENCES, fence_distance

AMBIGUOUS_SHARE = 0.02
"""Share of references that may stay ambiguous."""
CLARIFIED_SHARE = 0.5
"""How often a reference that fits several landmarks is used with a clarification, rather than a unique one."""
NEAR = 14.0
"""Landmarks this close to each other are called near, metres; most are 10 m apart or more."""
CLEAR_DIFFERENCE = 4.0
"""Distances that differ by at least this many metres differ clearly."""
_EMPTY = frozenset(("a", "an", "the", "of", "with", "that", "is", "its", "thing", "object", "looking", "like", "s"))
_NEAR_WORDS = ("near", "close to", "closest to")
_AT_WORDS = ("near", "by", "next to", "close to")
_SINGULAR = re.compile(r"\b(?:it|its|is|has|that|this)\b")
_AFTER_THE_HEAD = re.compile(r"\b(?:of|with|that|thats|in|on|growing|like|made|without|near|for)\b")


@dataclass(frozen=True, eq=False)
class Lexicon:
    """The authors' names for things, and which classes each name fits."""

    by_author: dict[str, dict[str, tuple[str, ...]]]
    """For each author and class, the author's references."""
    fits: dict[str, frozenset[str]]
    """For each reference, the landmark classes that it fits."""
    fences: dict[str, tuple[str, ...]]
    """For each author, references to a fence, with {COLOR}."""
    lakes: dict[str, tuple[str, ...]]
    """For each author, references to the lake."""

    @staticmethod
    def of(banks: Sequence[Bank]) -> Lexicon:
        """The lexicon of some banks; what a bank has no name for gets the names that all banks have for it.

        A class without a name in any bank is called by its noun.
        """
        known = (*banks, *(bank for bank in bundled_banks() if bank.author not in {b.author for b in banks}))
        shared = {
            name: tuple(dict.fromkeys(text for bank in known for text in bank.references.get(name, ())))
            or (LANDMARK_CLASSES[name].noun,)
            for name in LANDMARK_NAMES
        }
        fence = tuple(dict.fromkeys(text for bank in known for text in bank.fence))
        lake = tuple(dict.fromkeys(text for bank in known for text in bank.lake))
        return Lexicon(
            {bank.author: {name: bank.references.get(name) or shared[name] for name in shared} for bank in banks},
            _fits(shared),
            {bank.author: bank.fence or fence for bank in banks},
            {bank.author: bank.lake or lake for bank in banks},
        )

    def fitting_one(self, names: Iterable[str], kind: str, present: Sequence[str]) -> tuple[str, ...]:
        """The names that fit the landmark of this class and no other of a field; present: its landmarks' classes."""
        if present.count(kind) > 1:
            return ()
        rivals = set(present) - {kind}
        return tuple(name for name in names if rivals.isdisjoint(self.fits[name]))


def _content(text: str, merged: dict[str, str]) -> frozenset[str]:
    words = (merged.get(word, word) for word in tokenise(text))
    return frozenset(word.removesuffix("s") if len(word) > 3 else word for word in words if word not in _EMPTY)


def _fits(references: dict[str, tuple[str, ...]]) -> dict[str, frozenset[str]]:
    """The landmark classes that each reference fits; references: by class."""
    texts = list(dict.fromkeys(text for group in references.values() for text in group))
    merged = merge_typos(word for text in texts for word in tokenise(text))
    contents = {text: _content(text, merged) for text in texts}
    words = {word: place for place, word in enumerate(sorted(frozenset().union(*contents.values())))}
    has = np.zeros((len(texts), len(words)), np.float32)
    for row, text in enumerate(texts):
        has[row, [words[word] for word in contents[text]]] = 1.0
    # A reference is contained in another if they share as many words as it has.
    is_contained = has @ has.T >= has.sum(axis=1)[:, None]
    place_of = {text: place for place, text in enumerate(texts)}
    members = np.zeros((len(texts), len(references)), np.float32)
    for column, group in enumerate(references.values()):
        members[[place_of[text] for text in group], column] = 1.0
    # NumPy multiplies matrices of numbers far faster than matrices of truth values.
    num_contained_in = is_contained.astype(np.float32) @ members
    return {
        text: frozenset(itertools.compress(references, fits))
        for text, fits in zip(texts, (num_contained_in > 0).tolist(), strict=True)
    }


@dataclass(frozen=True)
class Reference:
    """A noun phrase with its article."""

    text: str
    is_ambiguous: bool


class _Speaker:
    """Chooses references for one flight."""

    def __init__(
        self,
        lexicon: Lexicon,
        author: str,
        template: str,
        scene: Scene,
        flight: PlannedFlight,
        generator: np.random.Generator,
    ) -> None:
        self.lexicon, self.author, self.scene, self.pose = lexicon, author, scene, Pose(*flight.start)
        self.generator, self.meant = generator, flight.meant
        # A phrase that continues with "it" or "is" needs a singular.
        self.is_singular = bool(_SINGULAR.search(template))
        self.classes = [mark.name for mark in scene.layout.landmarks]

    def pick(self, options: Sequence[str]) -> str:
        return options[int(self.generator.integers(len(options)))]

    def _rivals(self, text: str, mark: int) -> list[int]:
        fits = self.lexicon.fits[text]
        return [other for other, kind in enumerate(self.classes) if other != mark and kind in fits]

    def _names(self, mark: int) -> tuple[str, ...]:
        names = self.lexicon.by_author[self.author][self.classes[mark]]
        singular = tuple(name for name in names if not is_plural(name))
        return singular if self.is_singular and singular else names

    def refer(self, mark: int, is_seen_now: bool) -> Reference:
        """A reference to a landmark; `is_seen_now`: its distance and side, as the drone sees it now, may be used."""
        names = self._names(mark)
        rivals = {name: self._rivals(name, mark) for name in names}
        alone = [name for name in names if not rivals[name]]
        shared = [name for name in names if rivals[name]]
        draw = self.generator.random()
        if shared and draw < AMBIGUOUS_SHARE:
            return Reference(f"the {self.pick(shared)}", True)
        # Names that need a clarification come up about as often as in the banks.
        if shared and (not alone or draw < AMBIGUOUS_SHARE + CLARIFIED_SHARE * len(shared) / len(names)):
            name = self.pick(shared)
            ways = self._clarifications(name, mark, rivals[name], is_seen_now)
            if ways:
                return Reference(self.pick(ways), False)
        if alone:
            return Reference(f"the {self.pick(alone)}", False)
        return Reference(f"the {min(names, key=lambda name: len(rivals[name]))}", True)

    def _clarifications(self, name: str, mark: int, rivals: list[int], is_seen_now: bool) -> list[str]:
        ways = [*self._by_neighbour(name, mark, rivals), *self._by_border(name, mark, rivals)]
        if is_seen_now:
            ways += [*self._by_distance(name, mark, rivals), *self._by_side(name, mark, rivals)]
        return ways

    def _by_neighbour(self, name: str, mark: int, rivals: list[int]) -> list[str]:
        centres = self.scene.centres
        gap = np.hypot(*(centres - centres[mark]).T)
        ways = []
        for other in np.argsort(gap).tolist():
            if other == mark or other in rivals or other in self.meant or gap[other] > NEAR:
                continue
            if abs(self.pose.bearings(centres[other])) > math.radians(75):
                continue
            is_clear = all(
                np.hypot(*(centres[rival] - centres[other])) > gap[other] + CLEAR_DIFFERENCE for rival in rivals
            )
            alone = self.lexicon.fitting_one(self._names(other), self.classes[other], self.classes)
            if is_clear and alone:
                ways.append(f"the {name} {self.pick(_NEAR_WORDS)} the {self.pick(alone)}")
        return ways[:2]

    def _by_border(self, name: str, mark: int, rivals: list[int]) -> list[str]:
        ways = []
        places = self.scene.centres[[mark, *rivals]]
        for colour in FENCES:
            fence = fence_distance(places, colour)
            if fence[0] < 7.0 and (fence[1:] > fence[0] + 2 * CLEAR_DIFFERENCE).all():
                ways.append(f"the {name} {self.pick(_AT_WORDS)} the {colour} fence")
        if self.scene.lake is not None:
            shore = self.scene.lake.distances(places)
            if shore[0] < 6.0 and (shore[1:] > shore[0] + 2 * CLEAR_DIFFERENCE).all():
                ways.append(f"the {name} {self.pick(_AT_WORDS)} the {self.pick(('lake', 'water'))}")
        return ways

    def _by_distance(self, name: str, mark: int, rivals: list[int]) -> list[str]:
        off = self.pose.offsets(self.scene.centres[[mark, *rivals]])
        distance = np.hypot(off[:, 0], off[:, 1])
        if (distance[1:] > distance[0] + CLEAR_DIFFERENCE).all():
            return [f"the {self.pick(('closest', 'nearest'))} {name}"]
        if (distance[1:] < distance[0] - CLEAR_DIFFERENCE).all():
            return [f"the {self.pick(('far', 'farthest'))} {name}"]
        return []

    def _by_side(self, name: str, mark: int, rivals: list[int]) -> list[str]:
        if len(rivals) != 1:
            return []
        bearing, other = self.pose.bearings(self.scene.centres[[mark, *rivals]]).tolist()
        # Clearly on one side of the drone, and clearly more so than the other landmark.
        is_in_view = max(abs(bearing), abs(other)) <= math.radians(60)
        is_aside = abs(bearing) >= math.radians(8) and (bearing > other) == (bearing > 0)
        if not is_in_view or not is_aside or abs(bearing - other) < math.radians(15):
            return []
        side = "left" if bearing > 0 else "right"
        return [self.pick((f"the {name} on the {side}", f"the {name} to the {side}", f"the {side} {name}"))]

    def fence(self, colour: str) -> str:
        """A reference to a fence."""
        return "the " + self.pick(self.lexicon.fences[self.author]).replace("{COLOR}", colour)

    def lake(self) -> str:
        """A reference to the lake."""
        return "the " + self.pick(self.lexicon.lakes[self.author])


def is_plural(name: str) -> bool:
    """Whether the head of a noun phrase is plural: "two palms" is, "pair of palms" and "cactus" are not."""
    head = _AFTER_THE_HEAD.split(name)[0].split()[-1]
    return head.endswith("s") and not head.endswith(("ss", "us", "'s"))


def refer_to_all(
    lexicon: Lexicon, author: str, template: str, scene: Scene, flight: PlannedFlight, generator: np.random.Generator
) -> tuple[dict[str, str], bool]:
    """Texts for the slots A, B, C, F and W of a phrase for a flight, and whether one of them is ambiguous."""
    speaker = _Speaker(lexicon, author, template, scene, flight, generator)
    # Only a destination is identified by its side or distance: "pass the tree on the left on your left" helps nobody.
    first = flight.manoeuvres[0]
    may_point = first.kind in ("goto", "toward") and not first.detail
    references = [speaker.refer(mark, may_point and place == 0) for place, mark in enumerate(flight.meant)]
    texts = {slot: reference.text for slot, reference in zip(SLOTS, references, strict=False)}
    for manoeuvre in flight.manoeuvres:
        if manoeuvre.kind == "fence":
            texts["F"] = speaker.fence(manoeuvre.detail)
        elif manoeuvre.kind.startswith("lake"):
            texts["W"] = speaker.lake()
    return texts, any(reference.is_ambiguous for reference in references)


_UNSPECIFIC = frozenset(
    "a almost an and as back by colored down for from growing has have holds in is it its itself kinda lies like "
    "looking looks lying made mid not object of off on one ones out over painted s see set shaped side sided sit "
    "sitting sized standing than that thats the they thing things to together too up use very w was way with without "
    "would you".split()
)
"""Words of references that say nothing about a thing."""


def sensible_words(alignment: Alignment, banks: Sequence[Bank] | None = None) -> dict[str, tuple[str, ...]]:
    """For each class, its aligned words that some author of the banks (by default the bundled ones) uses for it.

    An author uses a word for a class if one of the author's references has the word and it says something about the
    thing ("of" and "thing" do not). A class without any such word is not understood.
    """
    called: dict[str, set[str | None]] = {name: set() for name in LANDMARK_NAMES}
    for bank in bundled_banks() if banks is None else banks:
        for name, references in bank.references.items():
            words = {word for text in references for word in tokenise(text)} - _UNSPECIFIC
            called[name] |= {alignment.vocabulary.term(word) for word in words}
    return {
        name: tuple(word for word in words if word in called[name])
        for name, words in zip(LANDMARK_NAMES, alignment.words, strict=True)
    }
