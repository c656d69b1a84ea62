"""The narrator's wordings: ways to put each event into words, in several voices.

`wordings.json` has templates. "[a|b|]" is one of the alternatives, here the last of them nothing; slots in braces are
filled later; "terse|texting: ..." is for these voices alone.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

_ALTERNATIVES = re.compile(r"\[([^\[\]]*)\]")
_VOICES = re.compile(r"^([a-z|]+): ")

Template = tuple[tuple[str, ...], ...]
"""Parts, each with alternative texts."""


@dataclass(frozen=True)
class Voice:
    """A way of talking."""

    name: str
    share: float
    """How often this voice is used."""
    go: tuple[str, ...]
    go_straight: tuple[str, ...]
    stop: tuple[str, ...]
    next: tuple[str, ...]
    """Connectives before a clause with a verb."""
    openers: tuple[str, ...] = ("",)
    closers: tuple[str, ...] = ("",)
    drops_articles: float = 0.0
    """Share of texts without articles."""
    drops_capitals: float = 0.0
    """Share of texts without capitals and full stop."""
    bareness: float = 0.45
    """How often a clause has no verb."""
    units: tuple[str, ...] = ("metres",)
    abbreviates: bool = False
    """Whether it writes "ur" for "your"."""


@dataclass(frozen=True, eq=False)
class Wordings:
    """All voices and their templates."""

    voices: tuple[Voice, ...]
    templates: dict[str, dict[str, tuple[Template, ...]]]
    """Templates by voice and by what they say, such as "pass close do" or "end front place"."""

    def pick_voice(self, generator: np.random.Generator) -> Voice:
        """A random voice, by their shares."""
        draw = generator.random() * sum(voice.share for voice in self.voices)
        for voice in self.voices:
            draw -= voice.share
            if draw < 0:
                return voice
        return self.voices[-1]

    def pick(self, voice: str, what: str, generator: np.random.Generator) -> str:
        """A random template with random alternatives; its slots are still to be filled."""
        options = self.templates[voice][what]
        template = options[int(generator.random() * len(options))]
        parts = [part[0] if len(part) == 1 else part[int(generator.random() * len(part))] for part in template]
        return "".join(parts).strip()

    def has(self, voice: str, what: str) -> bool:
        """Whether there is a template for this."""
        return what in self.templates[voice]


def _parse(text: str) -> Template:
    """The parts of a template."""
    pieces = _ALTERNATIVES.split(text)  # text, alternatives, text, ..., text
    parts = [tuple(piece.split("|")) if place % 2 else (piece,) for place, piece in enumerate(pieces)]
    return tuple(part for part in parts if part != ("",))


def _by_voice(texts: Sequence[str], names: Sequence[str]) -> dict[str, tuple[Template, ...]]:
    found: dict[str, list[Template]] = {name: [] for name in names}
    for text in texts:
        named = _VOICES.match(text)
        for name in named[1].split("|") if named else names:
            # A voice's own templates come up more often than those for all voices.
            found[name] += [_parse(text[named.end() :])] * 2 if named else [_parse(text)]
    return {name: tuple(templates) for name, templates in found.items()}


def _voice(content: dict[str, Any]) -> Voice:
    fields: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in content.items()}
    return Voice(**fields)


def _flat(content: dict[str, Any]) -> dict[str, list[str]]:
    flat: dict[str, list[str]] = {}
    for what, texts in {**content["way"], **content["with"]}.items():
        flat[what] = texts
    for what, forms in content["end"].items():
        flat |= {f"{what} {form}": texts for form, texts in forms.items()}
    for what in [what for what in flat if what.startswith("with")]:
        texts = flat[what]
        flat[what] = [text for text in texts if not _VOICES.match(text)]
        for tone in ("warn", "will"):
            toned = [text.removeprefix(f"{tone}: ") for text in texts if text.startswith(f"{tone}: ")]
            if toned:
                flat[f"{what} {tone}"] = toned
    return flat


@functools.cache
def bundled_wordings() -> Wordings:
    """The wordings that come with the package."""
    content = json.loads((resources.files(__package__) / "wordings.json").read_text(encoding="utf-8"))
    voices = tuple(map(_voice, content["voices"]))
    names = [voice.name for voice in voices]
    split = {what: _by_voice(texts, names) for what, texts in _flat(content).items()}
    by_voice = {name: {what: templates[name] for what, templates in split.items() if templates[name]} for name in names}
    return Wordings(voices, by_voice)
