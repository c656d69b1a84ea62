"""Phrase banks: ways to say what to fly, and names for the things in a field (docs/formats.md).

Five banks are bundled, written by a large language model in five assumed voices, which files and code call authors;
users may bring their own.
"""

from __future__ import annotations

import difflib
import functools
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


def _fail(where: str, what: str, got: object, expected: str) -> ValueError:
    shown = got if isinstance(got, str) else repr(got)[:80]
    return ValueError(f"{where}: {what}: got {shown}, expected {expected}; see docs/formats.md")


def _texts(value: object, where: str, what: str) -> tuple[str, ...]:
    is_right = isinstance(value, list) and all(isinstance(text, str) and text.strip() for text in value)
    if not is_right:
        raise _fail(where, what, value, "a list of noun phrases")
    texts = tuple(" ".join(text.split()) for text in value)  # type: ignore[attr-defined]
    for text in texts:
        _check_text(text, where, what)
        if text.split()[0].lower() in _ARTICLES:
            raise _fail(where, what, repr(text), f"{text.split(maxsplit=1)[-1]!r}, without an article")
    return texts


def _check_text(text: str, where: str, what: str) -> None:
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise _fail(where, what, ascii(text), "text without half characters (lone surrogates)")


def _references(content: dict[str, Any], where: str) -> dict[str, tuple[str, ...]]:
    given = content.get("references", {})
    if not isinstance(given, dict):
        raise _fail(where, "references", given, "an object from class names to lists")
    found = {}
    for name, texts in given.items():
        if name not in LANDMARK_NAMES:
            near = difflib.get_close_matches(name, LANDMARK_NAMES, n=1, cutoff=0.0)[0]
            raise _fail(
                where, "references", repr(name), f"one of the {len(LANDMARK_NAMES)} landmark classes, such as {near!r}"
            )
        found[name] = _texts(texts, where, f"references of {name}")
        for text in found[name]:
            if _SLOT.search(text) or not re.search(r"\w", text):
                raise _fail(where, f"references of {name}", repr(text), "plain words")
    return found


def _wanted_slots(manoeuvres: tuple[Manoeuvre, ...]) -> set[str]:
    slots = {slot for manoeuvre in manoeuvres for slot in manoeuvre.slots}
    if any(manoeuvre.kind == "fence" for manoeuvre in manoeuvres):
        slots.add("F")
    if any(manoeuvre.kind.startswith("lake") for manoeuvre in manoeuvres):
        slots.add("W")
    return slots


def _phrase(content: object, where: str, name: str) -> Phrase:
    if not (isinstance(content, dict) and isinstance(content.get("do"), list) and isinstance(content.get("say"), str)):
        raise _fail(where, "phrase", content, 'an object such as {"do": ["goto A"], "say": "fly to {A}"}')
    template, texts = " ".join(content["say"].split()), content["do"]
    where = f"{where} ({template!r})"
    _check_text(template, where, "say")
    if not template:
        raise _fail(where, "say", "no words", "a sentence")
    if not 1 <= len(texts) <= MAX_MANOEUVRES or not all(isinstance(text, str) for text in texts):
        raise _fail(where, "do", texts, f"one to {MAX_MANOEUVRES} manoeuvres")
    try:
        manoeuvres = tuple(parse_manoeuvre(text) for text in texts)
    except ValueError as error:
        raise ValueError(f"{where}: {error}; see docs/formats.md") from None
    if any(manoeuvre.kind == "fence" and manoeuvre.detail != "COLOR" for manoeuvre in manoeuvres):
        raise _fail(where, "do", texts, "fence COLOR: the colour follows from where the drone is")
    if sum(manoeuvre.kind == "fence" for manoeuvre in manoeuvres) > 1:
        raise _fail(where, "do", texts, "at most one fence, since there is one slot {F}")
    letters = list(dict.fromkeys(slot for manoeuvre in manoeuvres for slot in manoeuvre.slots))
    if letters != list(SLOTS[: len(letters)]):
        raise _fail(where, "do", texts, "landmarks named A, B, C in the order they come")
    found, wanted = set(_SLOT.findall(template)), _wanted_slots(manoeuvres)
    if found != wanted or "{" in _SLOT.sub("", template) or "}" in _SLOT.sub("", template):
        slots = ", ".join(f"{{{slot}}}" for slot in sorted(wanted)) or "none"
        raise _fail(where, "slots", ", ".join(f"{{{slot}}}" for slot in sorted(found)) or "none", slots)
    article = re.search(r"\b(the|an?) \{", template, re.IGNORECASE)
    if article:
        raise _fail(where, "say", f"{article[0]!r}", "no article before a slot: the slot brings its own")
    return Phrase(name, manoeuvres, template)


def _slips(given: object, where: str) -> dict[str, str]:
    """Misspelt words in small letters, with their right spellings."""
    is_right = isinstance(given, dict) and all(
        re.fullmatch(r"[^\W_]+", slip) and slip == slip.lower() and isinstance(word, str) and word.strip()
        for slip, word in given.items()
    )
    if not is_right:
        raise _fail(
            where, "slips", given, 'an object from words in small letters to their spellings, {"foward": "forward"}'
        )
    return dict(given)  # type: ignore[call-overload]


def _bank(content: object, where: str) -> Bank:
    if not isinstance(content, dict):
        raise _fail(where, "bank", content, "a JSON object with author and phrases")
    author, phrases = content.get("author"), content.get("phrases")
    if not (isinstance(author, str) and re.fullmatch(r"[A-Za-z_]+", author)):
        raise _fail(where, "author", author, "a name of letters")
    if not isinstance(phrases, list) or not phrases:
        raise _fail(where, "phrases", phrases, "a list with at least one phrase")
    fence = _texts(content.get("fence", []), where, "fence")
    for text in fence:
        if _SLOT.findall(text) != ["COLOR"]:
            raise _fail(where, "fence", repr(text), "one {COLOR} in it")
    lake = _texts(content.get("lake", []), where, "lake")
    for text in lake:
        if _SLOT.search(text):
            raise _fail(where, "lake", repr(text), "plain words")
    return Bank(
        author,
        _references(content, where),
        fence,
        lake,
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
