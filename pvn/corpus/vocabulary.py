"""Words of the instructions: tokens, and a vocabulary from training text alone in which typos join the word they mean.

As in the authors' thesaurus, a word of the dictionary is its own term, another joins the nearest term, and one that has
no near term is a term of its own if it is frequent in training text and unknown if it is not. Three things differ:

The dictionary. No list of English words is bundled and nothing is downloaded: it is the words of the five bundled
phrase banks, less the misspellings in them (`MISSPELT`, found by reading them through), and the words that are frequent
in the training text. It only says what is spelt soundly; terms are words of the training text and no others.

What is near. The authors allow three edits whatever the length. Beside a small dictionary that merges most sound words
it lacks into others ("sled" into "red"). Here a typo has one edit in four letters, three at most, and keeps the first
letter. Two neighbours swapped ("rigth") are one edit, and so are letters doubled or not doubled, however many
("barell").

Which is nearest. Of equally near terms the authors take the first in the alphabet. Here it is the one that has more of
the letters typed ("wich" is "which" rather than "with"), then the more frequent one.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pvn.corpus.meadow.banks import bundled_banks

PADDING, UNKNOWN = 0, 1
NUM_RESERVED = 2
MIN_COUNT = 10
"""Occurrences in training text from which a word outside the dictionary is a term of its own (authors)."""
LETTERS_PER_EDIT = 4
MOST_EDITS = 3
"""Edits at most between a typo and its term, however long they are (authors)."""
LONGEST = 24
"""Longer words are no one's typo, nor are typos of them looked for."""
VERSION = 1

MISSPELT = frozenset(
    "aroud arround bananna barell betwen bolder catcus completly feild fense foward goin hydrent keepin lader mushrom "
    "pumkin quater recyle rigth torwards tresure trun tumbstone untill untl windmil wishin".split()
)
"""Typos of the bundled banks' authors, who were asked to write as people type."""

TELLING_APART = frozenset("beside closest farthest left lake nearest right water".split())
"""Words that sentences of the corpus in the box have beside those of the banks, to tell look-alikes apart."""

_WORD = re.compile(r"[^\W_]+")
_SLOT = re.compile(r"\{\w+\}")
_DOUBLED = re.compile(r"(.)\1+")


def tokenise(text: str) -> list[str]:
    """The words of a text, in lower case; all that is neither letter nor digit parts them ("don't" is two words)."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).lower())


@functools.cache
def bundled_dictionary() -> frozenset[str]:
    """The soundly spelt words of the bundled banks."""
    words = set(TELLING_APART)
    for bank in bundled_banks():
        names = (name for group in bank.references.values() for name in group)
        for text in (*names, *bank.fence, *bank.lake, *(phrase.say for phrase in bank.phrases)):
            words.update(tokenise(_SLOT.sub(" ", text)))
    return frozenset(words - MISSPELT)


def _undoubled(word: str) -> str:
    return _DOUBLED.sub(r"\1", word)


def num_edits(word: str, other: str) -> int:
    """Letters to put in, take out, change or swap with their neighbour to make one word of the other.

    Letters that are doubled in one word and single in the other are one edit together.
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


def _most_edits(length: int) -> int:
    return min(length // LETTERS_PER_EDIT, MOST_EDITS) if length <= LONGEST else 0


def _shortened(word: str, num_letters: int) -> set[str]:
    """The word with up to some letters left out, and with no letter doubled."""
    forms = layer = {word}
    for _ in range(num_letters):
        layer = {form[:place] + form[place + 1 :] for form in layer for place in range(len(form))}
        forms = forms | layer
    return forms | {_undoubled(word)}


def _index(terms: Iterable[str]) -> dict[str, list[str]]:
    """Terms by their shortened forms: two words that are k edits apart have one in common, k letters short or fewer."""
    index: dict[str, list[str]] = {}
    for term in terms:
        if len(term) <= LONGEST:
            # A longer typo may have more edits than these, but then some only put letters in.
            for form in _shortened(term, _most_edits(len(term))):
                index.setdefault(form, []).append(term)
    return index


def _nearest(word: str, index: Mapping[str, list[str]], counts: Mapping[str, int]) -> str | None:
    """The term that a word is a typo of, if any."""
    most = _most_edits(len(word))
    if not most or any(letter.isdigit() for letter in word):
        return None
    candidates = {term for form in _shortened(word, most) for term in index.get(form, ()) if term[0] == word[0]}
    ranked = [
        (edits, (Counter(word) - Counter(term)).total(), -counts[term], term)
        for term in candidates
        if (edits := num_edits(word, term)) <= most
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
    """For each word that is a typo of another one among these, that other; the words as `tokenise` gives them."""
    sound = bundled_dictionary() if dictionary is None else frozenset(dictionary)
    return _merge(Counter(words), min_count, sound)


@dataclass(frozen=True)
class Vocabulary:
    """The words a pilot knows, and their ids: 0 is padding, 1 is any unknown word, terms[i] is i + 2."""

    terms: tuple[str, ...]
    """Words that stand for themselves, sorted."""
    counts: tuple[int, ...]
    """How often each of them occurs in the training text, typos of it aside."""
    merged: Mapping[str, str]
    """Typos of the training text and the term each stands for."""
    sound: frozenset[str]
    """Dictionary words that are not in the training text: unknown, but no one's typo."""

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
            raise ValueError(f"vocabulary: got typos of {min(stray)!r}, expected typos of terms alone")
        if len(set(words)) != len(words):
            twice = min(word for word, count in Counter(words).items() if count > 1)
            raise ValueError(f"vocabulary: got {twice!r} as two of term, typo and other sound word, expected one")

    @staticmethod
    def from_texts(
        texts: Iterable[str], *, min_count: int = MIN_COUNT, dictionary: Iterable[str] | None = None
    ) -> Vocabulary:
        """The vocabulary of some training text; the dictionary is that of the bundled banks unless another is given."""
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
        """Number of ids, the reserved ones among them: rows of a table of embeddings."""
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
        """The term a token stands for, itself or the one it is a typo of, seen in training or not; None if unknown."""
        number = self._id(word)
        return None if number == UNKNOWN else self.terms[number - NUM_RESERVED]

    def encode(self, text: str) -> list[int]:
        """The ids (N,) of a text's words; a text without words is one unknown word."""
        return [self._id(word) for word in tokenise(text)] or [UNKNOWN]

    def unknown_words(self, text: str) -> list[str]:
        """The words of a text that are not known, each once, in their order."""
        return list(dict.fromkeys(word for word in tokenise(text) if self._id(word) == UNKNOWN))

    def to_json(self) -> dict[str, Any]:
        """All of it as what JSON can hold."""
        return {
            "version": VERSION,
            "terms": list(self.terms),
            "counts": list(self.counts),
            "merged": dict(self.merged),
            "sound": sorted(self.sound),
        }

    @staticmethod
    def from_json(content: object) -> Vocabulary:
        """The vocabulary that `to_json` gave."""
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
