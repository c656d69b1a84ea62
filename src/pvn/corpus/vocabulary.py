"""Words of instructions: tokens, and a vocabulary made from training text alone in which typos are merged.

As in the authors' thesaurus, a word of the dictionary is a term, and any other word is merged into the nearest term. A
word without a near term is a term if it is frequent in the training text, and unknown otherwise. Three things differ:

The dictionary. No list of English words is bundled or downloaded. The dictionary consists of the words of the five
bundled phrase banks, without their misspellings (`MISSPELT`, found by proof-reading), and the words that are frequent
in the training text. It only says which words are spelt correctly; terms are always words of the training text.

What is near. The authors allow three edits, however short the word. With a small dictionary, that merges most missing
words into others ("sled" into "red"). Here a typo has at most one edit per four letters, at most three in all, and the
right first letter. Swapped neighbours ("rigth") are one edit; so are doubled or undoubled letters, however many
("barell").

Which is nearest. Of equally near terms the authors take the first in the alphabet. Here it is the one that contains
more of the letters typed ("wich" is "which" rather than "with"), then the more frequent one.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from pvn.world.task import MAX_WORDS

PADDING, UNKNOWN = 0, 1
NUM_RESERVED = 2
MIN_COUNT = 10
"""A word outside the dictionary is a term if the training text has it this often (authors)."""
LETTERS_PER_EDIT = 4
MAX_EDITS = 3
"""Most edits between a typo and its term, however long they are (authors)."""
MAX_LETTERS = 24
"""Longer words are neither typos nor terms that have typos."""
VERSION = 1

MISSPELT = frozenset(
    "aroud arround bananna barell betwen bolder catcus completly feild fense foward goin hydrent keepin lader mushrom "
    "pumkin quater recyle rigth torwards tresure trun tumbstone untill untl windmil wishin".split()
)
"""Typos in the bundled banks, which were written to look typed in a hurry."""

_WORD = re.compile(r"[^\W_]+")
_DOUBLED = re.compile(r"(.)\1+")


def tokenise(text: str) -> list[str]:
    """The words of a text, in lower case; anything but letters and digits separates words ("don't" is two)."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).lower())


@functools.cache
def bundled_dictionary() -> frozenset[str]:
    """The correctly spelt words of the bundled phrase banks."""
    return frozenset((resources.files("pvn.corpus") / "dictionary.txt").read_text(encoding="utf-8").split())


def _undoubled(word: str) -> str:
    return _DOUBLED.sub(r"\1", word)


def num_edits(word: str, other: str) -> int:
    """Number of letters to insert, delete, change or swap with their neighbour to turn one word into the other.

    Letters that are doubled in one word and single in the other count as one edit together.
    """
    if word != other and _undoubled(word) == _undoubled(other):
        return 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(word, 1):
        earlier, before, row = before, row, [i]
        for j, wanted in enumerate(other, 1):
            edits = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and wanted == word[i - 2]:
                edits = min(edits, earlier[j - 2] + 1)
            row.append(edits)
    return row[-1]


def _max_edits(length: int) -> int:
    return min(length // LETTERS_PER_EDIT, MAX_EDITS) if length <= MAX_LETTERS else 0


def _shortened(word: str, num_letters: int) -> set[str]:
    """The word with up to `num_letters` letters left out, and the word with no letter doubled."""
    forms = layer = {word}
    for _ in range(num_letters):
        layer = {form[:place] + form[place + 1 :] for form in layer for place in range(len(form))}
        forms = forms | layer
    return forms | {_undoubled(word)}


def _index(terms: Iterable[str]) -> dict[str, list[str]]:
    """Terms by their shortened forms: two words k edits apart share a form with at most k letters left out."""
    index: dict[str, list[str]] = {}
    for term in terms:
        if len(term) <= MAX_LETTERS:
            # A longer typo may have more edits than that, but then some of them only insert letters.
            for form in _shortened(term, _max_edits(len(term))):
                index.setdefault(form, []).append(term)
    return index


def _nearest(word: str, index: Mapping[str, list[str]], counts: Mapping[str, int]) -> str | None:
    """The term that a word is a typo of, if any."""
    max_edits = _max_edits(len(word))
    if not max_edits or any(letter.isdigit() for letter in word):
        return None
    candidates = {term for form in _shortened(word, max_edits) for term in index.get(form, ()) if term[0] == word[0]}
    ranked = [
        (edits, (Counter(word) - Counter(term)).total(), -counts[term], term)
        for term in candidates
        if (edits := num_edits(word, term)) <= max_edits
    ]
    return min(ranked)[-1] if ranked else None


def _merge(counts: Mapping[str, int], min_count: int, dictionary: frozenset[str]) -> dict[str, str]:
    sound = {
        word: count
        for word, count in counts.items()
        if word in dictionary or (count >= min_count and word not in MISSPELT)
    }
    index = _index(sound)
    found = {word: _nearest(word, index, sound) for word in sorted(counts) if word not in sound}
    return {word: term for word, term in found.items() if term is not None}


def merge_typos(
    words: Iterable[str], *, min_count: int = MIN_COUNT, dictionary: Iterable[str] | None = None
) -> dict[str, str]:
    """The typos among these words (as `tokenise` gives them), each with the word that it stands for."""
    sound = bundled_dictionary() if dictionary is None else frozenset(dictionary)
    return _merge(Counter(words), min_count, sound)


@dataclass(frozen=True)
class Vocabulary:
    """The words that an agent knows, and their ids: 0 is padding, 1 any unknown word, i + 2 is terms[i]."""

    terms: tuple[str, ...]
    """The known words, sorted."""
    counts: tuple[int, ...]
    """How often each term occurs in the training text, not counting its typos."""
    merged: Mapping[str, str]
    """Typos in the training text, and the term that each stands for."""
    sound: frozenset[str]
    """Dictionary words that are not in the training text: unknown, but not typos."""

    def __post_init__(self) -> None:
        words = (*self.terms, *self.merged, *self.sound)
        broken = next((word for word in words if tokenise(word) != [word]), None)
        if broken is not None:
            raise ValueError(f"vocabulary: got the word {broken!r}, expected words as they are tokenised")
        if list(self.terms) != sorted(set(self.terms)):
            raise ValueError("vocabulary: got terms out of order or twice, expected each once, sorted")
        if len(self.counts) != len(self.terms) or min(self.counts, default=1) < 1:
            raise ValueError(f"vocabulary: got counts {str(self.counts)[:60]}, expected one for each term, from 1")
        stray = set(self.merged.values()) - set(self.terms)
        if stray:
            raise ValueError(f"vocabulary: got typos of {min(stray)!r}, expected typos of terms only")
        if len(set(words)) != len(words):
            twice = min(word for word, count in Counter(words).items() if count > 1)
            raise ValueError(
                f"vocabulary: got {twice!r} as two of term, typo and dictionary word, expected only one of them"
            )

    @staticmethod
    def from_texts(
        texts: Iterable[str], *, min_count: int = MIN_COUNT, dictionary: Iterable[str] | None = None
    ) -> Vocabulary:
        """The vocabulary of a training text; the dictionary is the bundled banks' by default."""
        if min_count < 1:
            raise ValueError(f"min_count: got {min_count}, expected at least 1 occurrence")
        sound = bundled_dictionary() if dictionary is None else frozenset(dictionary)
        counts = Counter(word for text in texts for word in tokenise(text))
        if not counts:
            raise ValueError("vocabulary: got no words, expected the instructions of a training split")
        merged = _merge(counts, min_count, sound)
        terms = sorted(
            word for word, count in counts.items() if word not in merged and (word in sound or count >= min_count)
        )
        return Vocabulary(tuple(terms), tuple(counts[term] for term in terms), merged, sound - set(terms))

    def __len__(self) -> int:
        """Number of ids, including the reserved ones: rows of an embedding table."""
        return NUM_RESERVED + len(self.terms)

    @functools.cached_property
    def _ids(self) -> dict[str, int]:
        ids = {term: NUM_RESERVED + place for place, term in enumerate(self.terms)}
        return ids | {word: ids[term] for word, term in self.merged.items()}

    @functools.cached_property
    def _typo_index(self) -> tuple[dict[str, list[str]], dict[str, int]]:
        return _index(self.terms), dict(zip(self.terms, self.counts, strict=True))

    def _id(self, word: str) -> int:
        known = self._ids.get(word)
        if known is not None:
            return known
        term = None if word in self.sound else _nearest(word, *self._typo_index)
        return UNKNOWN if term is None else self._ids[term]

    def term(self, word: str) -> str | None:
        """The term that a token is, or is a typo of, even if that typo is new; None if unknown."""
        number = self._id(word)
        return None if number == UNKNOWN else self.terms[number - NUM_RESERVED]

    def encode(self, text: str) -> list[int]:
        """The ids (N,) of a text's first 100 words (MAX_WORDS); a text without words counts as one unknown word.

        All texts of a batch are padded to the longest, so a text of 1,200 words would slow down all the others.
        """
        known = self._ids  # nearly all words are: this saves a call for each
        words = tokenise(text)[:MAX_WORDS]
        return [known[word] if word in known else self._id(word) for word in words] or [UNKNOWN]

    def unknown_words(self, text: str) -> list[str]:
        """The unknown words of a text, each once, in order."""
        return list(dict.fromkeys(word for word in tokenise(text) if self._id(word) == UNKNOWN))

    def read_as(self, text: str) -> dict[str, str]:
        """The words of a text that are read as other words, in order, with the terms that they are read as."""
        terms = {word: self.term(word) for word in tokenise(text)}
        return {word: term for word, term in terms.items() if term not in (None, word)}

    def to_json(self) -> dict[str, Any]:
        """The vocabulary as values that JSON can hold."""
        return {
            "version": VERSION,
            "terms": list(self.terms),
            "counts": list(self.counts),
            "merged": dict(self.merged),
            "sound": sorted(self.sound),
        }

    @staticmethod
    def from_json(content: object) -> Vocabulary:
        """The vocabulary from what `to_json` returned."""
        if not isinstance(content, dict) or content.get("version") != VERSION:
            got = content.get("version") if isinstance(content, dict) else type(content).__name__
            raise ValueError(f"vocabulary: got version {got!r}, expected {VERSION}; make it again from training text")
        for key, kind, of in (("terms", list, str), ("counts", list, int), ("merged", dict, str), ("sound", list, str)):
            values = content.get(key)
            if type(values) is not kind:
                raise ValueError(f"vocabulary: {key}: got {type(values).__name__}, expected {kind.__name__}")
            for value in values.values() if isinstance(values, dict) else values:
                if type(value) is not of:
                    raise ValueError(f"vocabulary: {key}: got {value!r}, expected each {of.__name__}")
        return Vocabulary(
            tuple(content["terms"]), tuple(content["counts"]), dict(content["merged"]), frozenset(content["sound"])
        )
