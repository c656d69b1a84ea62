"""Typed instructions: cleaned of invisible characters, and refused if no known word says what to do.

Unknown words, and words that are read as others, are reported in the same way everywhere.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from pvn.corpus.vocabulary import Vocabulary, tokenise
from pvn.world.task import MAX_CHARACTERS, MAX_WORDS

EXAMPLE = '"go past the barrel and stop at the well"'
MAX_NAMED = 5
"""Most words that are listed by name; any others are only counted."""
MAX_SHOWN = 40
"""Most characters of a text that a message quotes."""
FUNCTION_WORDS = frozenset(
    "a an the this that these those what which where "
    "at beside between by for from in into near of on onto til till to toward towards until via with within "
    "after and as because before but if or so than then when while "
    "he her here him his i it its itself me my our she their them there they u ur us we you your "
    "am are be been is was were d ll m re s t ve".split()
)
"""Known words that do not say what to do: articles, prepositions, conjunctions, pronouns and forms of "be".

Prepositions that are also directions, such as "around", "past", "over" and "behind", are not among them. Single letters
and the like are the remains of "it's" and "you'll".
"""


def clean_instruction(text: str) -> str:
    """The text on one line, single-spaced, without invisible characters such as zero-width spaces."""
    # A word with a format character (Cf) inside stays one word; control characters separate words.
    kinds = [(letter, unicodedata.category(letter)) for letter in text]
    seen = "".join(" " if kind in ("Cc", "Cs") else letter for letter, kind in kinds if kind != "Cf")
    return " ".join(seen.split())


def shorten(text: str, limit: int = MAX_SHOWN) -> str:
    """The text, or its beginning and an ellipsis if it has more characters than the limit."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _listed(parts: Sequence[str]) -> str:
    """One or more parts as a list: "one, two and three"."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def _listed_words(named: Sequence[str], count: int, other: str) -> str:
    """The first few of `count` words as a list; `other` stands for the rest, {} for their number."""
    rest = count - len(named)
    return _listed([*named, *([other.format(rest, "s" * (rest > 1))] if rest else [])])


def words_note(text: str, vocabulary: Vocabulary) -> str:
    """The message about a text's words that are unknown, or read as others; "" if there are none.

    For example: "'elephant' and 'zebra' are not words I know; 'goat' is read as 'goal' and 'shop' as 'stop'".
    """
    unknown, read_as = vocabulary.unknown_words(text), list(vocabulary.read_as(text).items())
    notes = []
    if unknown:
        words = _listed_words([f"'{shorten(word, 24)}'" for word in unknown[:MAX_NAMED]], len(unknown), "{} other{}")
        notes.append(f"{words} {'is not a word' if len(unknown) == 1 else 'are not words'} I know")
    if read_as:
        named = [f"'{word}' {'' if place else 'is read '}as '{term}'" for place, (word, term) in enumerate(read_as)]
        notes.append(_listed_words(named[:MAX_NAMED], len(read_as), "{} more likewise"))
    return "; ".join(notes)


def check_typed(text: str, vocabulary: Vocabulary | None = None) -> None:
    """Refuse a text that is too long, has no words, or has no known word that says what to do."""
    words = tokenise(text)
    if len(words) > MAX_WORDS or len(text) > MAX_CHARACTERS:
        raise ValueError(
            f"instruction: got {len(words)} words and {len(text):,} characters, expected at most {MAX_WORDS} words and "
            f"{MAX_CHARACTERS:,} characters; make it shorter"
        )
    if not words:
        raise ValueError(
            f"instruction: got {shorten(text)!r}, which has no words, expected a sentence such as {EXAMPLE}; type one"
        )
    if vocabulary is None:
        return
    known = {term for word in words if (term := vocabulary.term(word)) is not None}
    if known <= FUNCTION_WORDS:
        note = words_note(text, vocabulary)
        silent = f"nothing {'else ' if note else ''}in it says what to do" if known else ""
        raise ValueError(
            f"instruction: got {shorten(text)!r}, but {', and '.join(filter(None, (note, silent)))}, expected an "
            f"English sentence such as {EXAMPLE}; say it in other words"
        )
