"""Sentences: phrases with references filled in, occasionally with a slip: a typing error or a missing article."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from pvn.corpus.vocabulary import bundled_dictionary

_SLOT = re.compile(r"\{([A-Z])\}")
_WORD = re.compile(r"[a-z]+")
_NEVER_MISSPELT = frozenset(
    "left right front behind between before after around clockwise counterclockwise anticlockwise quarter half full "
    "white yellow through toward towards until opposite".split()
)
MIN_LETTERS, MIN_LETTERS_IN_REFERENCE = 5, 7
"""A slip would make a shorter word unreadable, or turn it into another word."""


def _slip_in_word(word: str, generator: np.random.Generator) -> str:
    """The word with a typing error that does not make it another word."""
    for _ in range(20):
        slipped = _mistype(word, generator)
        if slipped != word and slipped not in bundled_dictionary():
            return slipped
    return word


def _mistype(word: str, generator: np.random.Generator) -> str:
    """The word with two letters swapped, one left out or one typed twice, never the first or last."""
    place = int(generator.integers(1, len(word) - 2))
    match int(generator.integers(3)):
        case 0:
            return word[:place] + word[place + 1] + word[place] + word[place + 2 :]
        case 1:
            return word[:place] + word[place + 1 :]
        case _:
            return word[:place] + word[place] + word[place:]


def _slip(parts: list[tuple[str, bool]], generator: np.random.Generator) -> list[tuple[str, bool]]:
    """The parts of a sentence after one slip in one of them; with each, whether it is a reference."""
    articles = [place for place, (text, is_reference) in enumerate(parts) if is_reference and text.startswith("the ")]
    words = [
        (place, match)
        for place, (text, is_reference) in enumerate(parts)
        for match in _WORD.finditer(text)
        if len(match[0]) >= (MIN_LETTERS_IN_REFERENCE if is_reference else MIN_LETTERS)
        and match[0] not in _NEVER_MISSPELT
    ]
    parts = list(parts)
    if articles and (not words or generator.random() < 0.4):
        place = articles[int(generator.integers(len(articles)))]
        parts[place] = (parts[place][0].removeprefix("the "), True)
    elif words:
        place, match = words[int(generator.integers(len(words)))]
        text, is_reference = parts[place]
        slipped = text[: match.start()] + _slip_in_word(match[0], generator) + text[match.end() :]
        parts[place] = (slipped, is_reference)
    return parts


def correct_spelling(text: str, slips: Mapping[str, str]) -> str:
    """The text with the misspelt words corrected; capitals stay."""

    def spelt(match: re.Match[str]) -> str:
        word = slips.get(match[0].lower(), match[0])
        return word[0].upper() + word[1:] if match[0][0].isupper() else word

    return re.sub(r"[^\W_]+", spelt, text)


def fill_slots(template: str, references: dict[str, str], noise: float, generator: np.random.Generator) -> str:
    """The template with a reference in each slot and, with probability `noise`, one slip.

    A slip is a dropped article or a typing error. Errors spare short words and words that decide where to fly (left,
    between, colours); in references they affect only long words, which can still be read then.
    """
    pieces = _SLOT.split(template)  # text, slot, text, slot, ..., text
    parts = [(references[text], True) if place % 2 else (text, False) for place, text in enumerate(pieces)]
    if generator.random() < noise:
        parts = _slip(parts, generator)
    sentence = "".join(text for text, _ in parts)
    # If the author uses capitals, a sentence that begins with a reference starts with one too.
    is_proper = any(
        character.isupper() for character in template.replace("{", "").translate({ord(s): None for s in "ABCFW}"})
    )
    return sentence[0].upper() + sentence[1:] if is_proper and template.startswith("{") else sentence
