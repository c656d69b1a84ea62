"""Instructions as people type them: cleaned of invisible characters, refused if nothing in them is known."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from pvn.corpus.vocabulary import Vocabulary, tokenise
from pvn.world.task import MAX_CHARACTERS, MAX_WORDS

EXAMPLE = '"go past the barrel and stop at the well"'
MAX_NAMED = 5
"""Unknown words that are named one by one; of more, the others are counted."""
MAX_SHOWN = 40
"""Characters of a text that a message quotes."""


def clean_instruction(text: str) -> str:
    """The text in one line, single-spaced, without characters that nobody sees, such as zero-width spaces."""
    # Format characters (Cf) are left out, so that a word with one inside stays one word; control characters separate.
    kinds = [(letter, unicodedata.category(letter)) for letter in text]
    seen = "".join(" " if kind in ("Cc", "Cs") else letter for letter, kind in kinds if kind != "Cf")
    return " ".join(seen.split())


def shorten(text: str, limit: int = MAX_SHOWN) -> str:
    """The text, or its beginning and an ellipsis if it has more characters than the limit."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def unknown_words_sentence(words: Sequence[str]) -> str:
    """What is said about unknown words: "'elephant' and 'zebra' are not words I know"; nothing if there are none."""
    named = [f"'{shorten(word, 24)}'" for word in words[:MAX_NAMED]]
    others = len(words) - len(named)
    if others:
        named.append(f"{others} other{'s' * (others > 1)}")
    match named:
        case []:
            return ""
        case [word]:
            return f"{word} is not a word I know"
        case [*first, last]:
            return f"{', '.join(first)} and {last} are not words I know"
    raise AssertionError(named)


def check_typed(text: str, vocabulary: Vocabulary | None = None) -> None:
    """Refuse a text that is too long, or in which there is no word, or none that the vocabulary knows."""
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
    unknown = [] if vocabulary is None else vocabulary.unknown_words(text)
    if len(unknown) == len(set(words)):
        raise ValueError(
            f"instruction: got {shorten(text)!r}, but {unknown_words_sentence(unknown)}, expected an English sentence "
            f"such as {EXAMPLE}; say it in other words"
        )
