"""The narrator's words: how people put each event, in several voices, and what they call things.

`wordings.json` has templates. "[a|b|]" is one of the alternatives, the last of them nothing; slots in braces are filled
by the telling; "terse|texting: ..." is said in these voices alone. `names.json` has names of things, found in texts that
people wrote freely.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np

from pvn.corpus.meadow.banks import Bank, bundled_banks
from pvn.corpus.meadow.references import Lexicon

PEOPLE = "people"
"""The author of the names in names.json."""
_ALTERNATIVES = re.compile(r"\[([^\[\]]*)\]")
_VOICES = re.compile(r"^([a-z|]+): ")

Template = tuple[tuple[str, ...], ...]
"""Parts, each a choice of texts."""


@dataclass(frozen=True)
class Voice:
    """How someone talks."""

    name: str
    share: float
    """How often this voice tells a flight."""
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
    """How often a clause goes without a verb of its own."""
    units: tuple[str, ...] = ("metres",)
    abbreviates: bool = False
    """Whether it writes "ur" for "your"."""


_GO = ("go", "fly", "go on", "fly on", "carry on", "continue", "keep going")
_STRAIGHT = (
    "go straight", "fly straight", "go straight", "head straight", "fly straight ahead", "go straight ahead", "keep straight on",
    "straight on", "continue straight", "go forward", "fly forward", "straight",
)  # fmt: skip
_STOP = ("stop", "stop", "stop", "stop", "finish", "come to a stop")
_NEXT = (", then ", ", then ", " and ", ". Then ", ", and then ", ", ", ". ", " and then ", "; then ")

VOICES = (
    Voice("plain", 0.27, _GO, _STRAIGHT, _STOP, _NEXT, ("", "", "", "", "", "first ", "now "), drops_capitals=0.2, units=("metres", "metres", "meters")),
    Voice(
        "terse", 0.15, ("go", "on"), ("straight", "straight", "go straight", "fwd", "straight on"), ("stop", "stop", "halt"),
        (", ", ", then ", ", ", "; "), drops_articles=0.55, drops_capitals=0.6, bareness=0.75, units=("m", "metres", "meters"),
    ),
    Voice(
        "polite", 0.1, ("go", "fly", "proceed", "continue", "move on"), ("go straight", "fly straight", "proceed straight ahead", "go ahead", "please fly straight"),
        ("stop", "stop", "please stop", "come to a stop"), (", then ", ", and then ", ". Then ", " and ", ". After that ", ". Next, "),
        ("please ", "please ", "kindly ", "now please ", ""), ("", "", "", ", please", ". Thank you"), bareness=0.3, units=("metres", "meters"),
    ),
    Voice(
        "chatty", 0.14, ("go", "head on", "keep going", "cruise", "glide", "just keep on", "roll on"),
        ("go straight", "just go straight", "keep going straight", "fly straight on", "straight all the way", "go dead straight"),
        ("stop", "stop", "pull up", "park it", "freeze", "brake"), (", then ", " and then ", ", and then ", ", ", ". After that ", ", next "),
        ("", "", "okay, ", "so ", "ok ", "alright, ", "right, ", "just "), ("", "", "", ", that's it", ", easy", ", and you're there"), drops_capitals=0.5,
        units=("metres", "meters", "yards"),
    ),
    Voice(
        "technical", 0.1, ("proceed", "continue", "fly", "advance", "hold course"), ("proceed straight", "fly straight", "hold a straight line", "continue straight", "maintain heading"),
        ("stop", "hold", "hover", "hold position", "stop"), (", then ", "; then ", ". Then ", "; ", " and "), bareness=0.5, units=("metres", "m", "meters"),
    ),
    Voice(
        "texting", 0.1, ("go", "keep going", "go on", "fly"), ("go straight", "straight", "just straight", "go fwd", "straight on"), ("stop", "stop", "stop"),
        (" then ", " and ", " then ", ", ", " n then ", " and then "), ("", "", "", "ok ", "k "), drops_articles=0.15, drops_capitals=0.95, bareness=0.55, units=("m", "metres", "meters"),
        abbreviates=True,
    ),
    Voice(
        "countryside", 0.08, ("carry on", "go along", "go on", "run on"), ("carry straight on", "go straight", "straight on", "it's straight on", "keep on straight"),
        ("stop", "pull up", "stop", "come to rest", "fetch up"), (", then ", " and ", ". Then ", ", and ", ". ", ", and then it's on "), ("", "", "", "right then, ", "now, "),
        ("", "", "", ", my lad", ", love"), drops_capitals=0.05, units=("yards", "metres", "paces"),
    ),
    Voice(
        "commanding", 0.06, ("advance", "move", "proceed", "go"), ("advance straight", "straight ahead", "forward", "move straight on"), ("halt", "halt", "stop", "hold"),
        (". ", ". ", ", then ", "; ", ". Then "), drops_articles=0.1, bareness=0.55,
    ),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Wordings:
    """Templates by voice and by what they say, such as "pass close do" or "end front place"."""

    templates: dict[str, dict[str, tuple[Template, ...]]]

    def pick(self, voice: str, what: str, generator: np.random.Generator) -> str:
        """A template with its alternatives decided; slots are still to be filled."""
        options = self.templates[voice][what]
        template = options[int(generator.random() * len(options))]
        return "".join(
            part[0] if len(part) == 1 else part[int(generator.random() * len(part))] for part in template
        )

    def has(self, voice: str, what: str) -> bool:
        """Whether there is a template for this."""
        return what in self.templates[voice]


def _parse(text: str) -> Template:
    """The parts of a template."""
    pieces = _ALTERNATIVES.split(text)  # text, alternatives, text, ..., text
    parts = [tuple(piece.split("|")) if place % 2 else (piece,) for place, piece in enumerate(pieces)]
    return tuple(part for part in parts if part != ("",))


def _by_voice(texts: Sequence[str]) -> dict[str, tuple[Template, ...]]:
    found: dict[str, list[Template]] = {voice.name: [] for voice in VOICES}
    for text in texts:
        named = _VOICES.match(text)
        speakers = named[1].split("|") if named else list(found)
        for name in speakers:
            # Words of one's own come up more often than everybody's.
            found[name] += [_parse(text[named.end() :])] * 2 if named else [_parse(text)]
    return {name: tuple(templates) for name, templates in found.items()}


def _flat(content: dict[str, dict[str, object]]) -> dict[str, list[str]]:
    flat: dict[str, list[str]] = {}
    for what, texts in {**content["way"], **content["with"]}.items():
        flat[what] = texts  # type: ignore[assignment]
    for what, forms in content["end"].items():
        flat |= {f"{what} {form}": texts for form, texts in forms.items()}  # type: ignore[attr-defined]
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
    text = (resources.files("pvn.corpus.narrator") / "wordings.json").read_text(encoding="utf-8")
    split = {what: _by_voice(texts) for what, texts in _flat(json.loads(text)).items()}
    return Wordings(
        {
            voice.name: {what: templates[voice.name] for what, templates in split.items() if templates[voice.name]}
            for voice in VOICES
        }
    )


@functools.cache
def people_bank() -> Bank:
    """What people who tell flights freely call things; it has no phrases."""
    content = json.loads((resources.files("pvn.corpus.narrator") / "names.json").read_text(encoding="utf-8"))
    references = {name: tuple(texts) for name, texts in content["references"].items()}
    return Bank(PEOPLE, references, tuple(content["fence"]), tuple(content["lake"]), ())


@functools.cache
def narrator_lexicon() -> Lexicon:
    """The names of the bundled banks and those of people who tell flights freely."""
    return Lexicon.of((people_bank(), *bundled_banks()))
