"""Phrase banks: ways to say what to fly, and names for the things in a field (docs/formats.md).

Five banks are bundled, written by a large language model in five assumed voices, which files and code call authors;
users may bring their own.
"""

from __future__ import annotations

import difflib
import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from pvn.corpus.meadow.manoeuvres import IS_ON_THE_SPOT, SLOTS, Manoeuvre, parse_manoeuvre
from pvn.files import parse_json
from pvn.world.landmarks import LANDMARK_NAMES

MAX_MANOEUVRES = 3
_ARTICLES = ("the", "a", "an")
_SLOT = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Phrase:
    """One way to put a list of manoeuvres into words."""

    id: str
    """Author and index in the author's bank: "a12"."""
    manoeuvres: tuple[Manoeuvre, ...]
    """Key "do" of a bank file."""
    template: str
    """The sentence with slots {A}, {B}, {C} for landmarks, {F} for a fence and {W} for the lake; what fills a slot
    includes its article. Key "say" of a bank file."""

    @property
    def has_movement(self) -> bool:
        """Whether the drone flies somewhere, rather than only turning."""
        return not all(IS_ON_THE_SPOT[manoeuvre.kind] for manoeuvre in self.manoeuvres)


@dataclass(frozen=True)
class Bank:
    """One author's phrases and references."""

    author: str
    references: dict[str, tuple[str, ...]]
    """For each landmark class, noun phrases without an article; a user's bank may lack classes."""
    fence: tuple[str, ...]
    """Noun phrases for a fence, with {COLOR}."""
    lake: tuple[str, ...]
    """Noun phrases for the lake."""
    phrases: tuple[Phrase, ...]
    slips: Mapping[str, str] = field(default_factory=dict)
    """Words that the author misspells, with their right spellings, which a corpus without noise has."""


def _check(is_right: bool, where: str, what: str, got: object, expected: str) -> None:
    if not is_right:
        shown = got if isinstance(got, str) else repr(got)[:80]
        raise ValueError(f"{where}: {what}: got {shown}, expected {expected}; see docs/formats.md")


def _noun_phrases(value: Any, where: str, what: str) -> tuple[str, ...]:
    is_right = isinstance(value, list) and all(isinstance(text, str) and text.strip() for text in value)
    _check(is_right, where, what, value, "a list of noun phrases")
    texts = tuple(" ".join(text.split()) for text in value)
    for text in texts:
        article, _, rest = text.partition(" ")
        _check(article.lower() not in _ARTICLES, where, what, repr(text), f"{rest!r}, without an article")
    return texts


def _plain_names(value: Any, where: str, what: str) -> tuple[str, ...]:
    names = _noun_phrases(value, where, what)
    for text in names:
        is_plain = not _SLOT.search(text) and re.search(r"\w", text) is not None
        _check(is_plain, where, what, repr(text), "plain words")
    return names


def _references(given: Any, where: str) -> dict[str, tuple[str, ...]]:
    _check(isinstance(given, dict), where, "references", given, "an object from class names to lists")
    for name in sorted(set(given) - set(LANDMARK_NAMES)):
        near = difflib.get_close_matches(name, LANDMARK_NAMES, n=1, cutoff=0.0)[0]
        _check(False, where, "references", repr(name), f"names of landmark classes, such as {near!r}")
    return {name: _plain_names(texts, where, f"references of {name}") for name, texts in given.items()}


def _wanted_slots(manoeuvres: tuple[Manoeuvre, ...]) -> set[str]:
    slots = {slot for manoeuvre in manoeuvres for slot in manoeuvre.slots}
    slots |= {"F" for manoeuvre in manoeuvres if manoeuvre.kind == "fence"}
    return slots | {"W" for manoeuvre in manoeuvres if manoeuvre.kind.startswith("lake")}


def _shown(slots: set[str]) -> str:
    return ", ".join(f"{{{slot}}}" for slot in sorted(slots)) or "none"


def _phrase(content: Any, where: str, name: str) -> Phrase:
    is_right = isinstance(content, dict) and isinstance(content.get("do"), list) and isinstance(content.get("say"), str)
    _check(is_right, where, "phrase", content, 'an object such as {"do": ["goto A"], "say": "fly to {A}"}')
    template, texts = " ".join(content["say"].split()), content["do"]
    where = f"{where} ({template!r})"
    _check(bool(template), where, "say", "no words", "a sentence")
    is_right = 1 <= len(texts) <= MAX_MANOEUVRES and all(isinstance(text, str) for text in texts)
    _check(is_right, where, "do", texts, f"one to {MAX_MANOEUVRES} manoeuvres")
    try:
        manoeuvres = tuple(parse_manoeuvre(text) for text in texts)
    except ValueError as error:
        raise ValueError(f"{where}: {error}; see docs/formats.md") from None
    fences = [manoeuvre.detail for manoeuvre in manoeuvres if manoeuvre.kind == "fence"]
    _check(set(fences) <= {"COLOR"}, where, "do", texts, "fence COLOR: the colour follows from where the drone is")
    _check(len(fences) < 2, where, "do", texts, "at most one fence, since there is one slot {F}")
    letters = list(dict.fromkeys(slot for manoeuvre in manoeuvres for slot in manoeuvre.slots))
    _check(letters == list(SLOTS[: len(letters)]), where, "do", texts, "landmarks named A, B, C in the order they come")
    found, wanted = set(_SLOT.findall(template)), _wanted_slots(manoeuvres)
    is_whole = not re.search(r"[{}]", _SLOT.sub("", template))
    _check(found == wanted and is_whole, where, "slots", _shown(found), _shown(wanted))
    article = re.search(r"\b(the|an?) \{", template, re.IGNORECASE)
    _check(not article, where, "say", article and repr(article[0]), "no article before a slot: the slot brings its own")
    return Phrase(name, manoeuvres, template)


def _slips(given: Any, where: str) -> dict[str, str]:
    """Misspelt words in small letters, with their right spellings."""
    is_right = isinstance(given, dict) and all(
        re.fullmatch(r"[^\W_]+", slip) and slip == slip.lower() and isinstance(word, str) and word.strip()
        for slip, word in given.items()
    )
    expected = 'an object from words in small letters to their spellings, {"foward": "forward"}'
    _check(is_right, where, "slips", given, expected)
    return dict(given)


def _bank(content: Any, where: str) -> Bank:
    _check(isinstance(content, dict), where, "bank", content, "a JSON object with author and phrases")
    half = re.search("[\ud800-\udfff]", json.dumps(content, ensure_ascii=False))
    _check(half is None, where, "bank", half and ascii(half[0]), "text without half characters (lone surrogates)")
    author, phrases = content.get("author"), content.get("phrases")
    is_name = isinstance(author, str) and re.fullmatch(r"[A-Za-z_]+", author) is not None
    _check(is_name, where, "author", author, "a name of letters")
    is_list = isinstance(phrases, list) and len(phrases) > 0
    _check(is_list, where, "phrases", phrases, "a list with at least one phrase")
    fence = _noun_phrases(content.get("fence", []), where, "fence")
    for text in fence:
        _check(_SLOT.findall(text) == ["COLOR"], where, "fence", repr(text), "one {COLOR} in it")
    return Bank(
        author,
        _references(content.get("references", {}), where),
        fence,
        _plain_names(content.get("lake", []), where, "lake"),
        tuple(_phrase(one, f"{where}, phrase {number}", f"{author}{number}") for number, one in enumerate(phrases)),
        _slips(content.get("slips", {}), where),
    )


def _parse(text: str, where: str) -> Bank:
    return _bank(parse_json(text, where, "correct the file"), where)


def read_bank(path: Path | str) -> Bank:
    """The bank in a JSON file; errors name the file, the phrase and the reason."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, IsADirectoryError):
        raise FileNotFoundError(f"no bank file {path}; expected a JSON file of phrases, see docs/formats.md") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text ({error}); correct the file") from None
    return _parse(text, str(path))


@functools.cache
def bundled_banks() -> tuple[Bank, ...]:
    """The five banks that come with the package."""
    folder = resources.files("pvn.corpus.meadow") / "phrase_banks"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".json")), key=lambda file: file.name)
    return tuple(_parse(file.read_text(encoding="utf-8"), file.name) for file in files)


def read_banks(paths: Sequence[Path]) -> tuple[Bank, ...]:
    """The banks in some files, or the bundled ones if no files are given."""
    banks = tuple(read_bank(path) for path in paths) or bundled_banks()
    for place, bank in enumerate(banks):
        if any(bank.author == other.author for other in banks[:place]):
            raise ValueError(f"{paths[place]}: author: got {bank.author!r}, expected one no other bank has")
    if not any(phrase.has_movement for bank in banks for phrase in bank.phrases):
        raise ValueError("banks: got phrases that only turn, expected some that fly somewhere; add phrases")
    return banks
