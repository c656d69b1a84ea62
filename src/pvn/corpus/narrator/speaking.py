"""Putting events into words: references, clauses, and how they are joined into sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pvn.corpus.meadow.references import is_plural
from pvn.corpus.meadow.sentences import fill_slots
from pvn.corpus.narrator.events import Event
from pvn.corpus.narrator.names import Names
from pvn.corpus.narrator.track import SPACING, Track
from pvn.corpus.narrator.wordings import Voice, Wordings

GOAL_FIRST_SHARE = 0.1
_PARTICIPLE = re.compile(r"[a-z]+ing ")
_SLOT = re.compile(r"\{([^{}]+)\}")
_LETTER = re.compile(r"\{([A-Z])\}")
_NUMBERS = (
    "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
    "fourteen", "fifteen", "sixteen",
)  # fmt: skip
_ABBREVIATED = (
    ("your ", "ur "),
    ("you are ", "ur "),
    ("you're ", "ur "),
    (" you ", " u "),
    ("until ", "til "),
    ("please", "pls"),
)
_CLOCKWISE = {1: ("counterclockwise", "anticlockwise", "counter-clockwise"), -1: ("clockwise",)}
_WHEN = ("when", "when", "once", "as soon as", "the moment")
_NEXT_BARE = (", ", ", ", ", then ", " and ", ", and ")
_GET_THERE = (". To get there, ", ". ", ". ", ": ", ". Get there like this: ", ". For that, ", ". First ", ". How: ")
_SINGULAR = {"is": "is", "it": "it", "its": "its", "they": "it", "'s": "'s", "s": "s"}
_PLURAL = {"is": "are", "it": "them", "its": "their", "they": "they", "'s": "'re", "s": ""}
_SHORTENED = {
    "ss": ("", "s"), "youre": ("you are", "you're"), "youve": ("you have", "you've"), "youll": ("you will", "you'll"),
}  # fmt: skip
_WITH_VERBS = ("end forward", "end start", "end again")
"""Ends whose wordings for going there have a verb."""
_SIDES = {1: "left", -1: "right", 0: ""}


@dataclass(frozen=True)
class Content:
    """What a text is to say."""

    way: tuple[Event, ...]
    """In flying order."""
    end: Event
    extras: tuple[Event, ...]
    """What else is around the end."""
    length: str
    """short, middling or long."""
    is_again: bool
    """Whether the flight turns back to what it has passed, and ends there."""


class Speaker:
    """Describes one flight. `text` grows clause by clause; until the end, references are slots {A}, {B}, ... in it."""

    def __init__(
        self, track: Track, names: Names, voice: Voice, wordings: Wordings, generator: np.random.Generator
    ) -> None:
        self.track, self.names, self.voice, self.wordings, self.generator = track, names, voice, wordings, generator
        self.text = ""
        self.references: dict[str, str] = {}
        self.clauses: list[tuple[Event, str]] = []
        self._called: dict[int, str] = {}
        self._mentioned: int | None = None  # the landmark that "it" would mean
        self._reached = 0.0  # how far along the path the text has come, metres
        self._has_turned = abs(track.first_turn) < 0.32  # whether the listener faces the way the path begins
        self._is_again = False  # whether the end is at something that was passed before
        self._is_going = False  # whether "until" or "to" may follow without another verb
        self._drops_articles = generator.random() < voice.drops_articles
        self._unit = self.pick(voice.units)

    def pick(self, options: Sequence[str]) -> str:
        """A random text."""
        return options[int(self.generator.random() * len(options))]

    def chance(self, share: float) -> bool:
        """Whether to do something, with this probability."""
        return bool(self.generator.random() < share)

    # References

    def _slot(self, text: str) -> str:
        letter = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[len(self.references)]
        self.references[letter] = text
        return f"{{{letter}}}"

    def _article(self, name: str) -> str:
        if self._drops_articles:
            return name
        if not is_plural(name) and " with " not in name and self.chance(0.05):
            return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
        return f"the {name}"

    def _refer(self, mark: int) -> str:
        if mark in self._called:
            name = self._called[mark]
            return self._slot(name if self._drops_articles else f"the {name}")
        name = self._called[mark] = self.pick(self.names.of_mark[mark])
        return self._slot(self._article(name))

    def _metres(self, metres: float) -> str:
        """About so many metres."""
        draw, unit = self.generator.random(), self._unit
        if metres < 2.4:
            return f"a couple of {'metres' if unit == 'm' else unit}"
        if metres < 6.0 and draw < 0.55:
            return self.pick(("a few", "a few", "some", "a handful of")) + f" {'metres' if unit == 'm' else unit}"
        number = max(round(metres), 2)
        if unit == "m" or draw > 0.93:
            return f"{self.pick(('about ', 'like ', '', '~') if unit == 'm' else ('about ',))}{number} {unit}"
        return f"{self.pick(('about', 'about', 'around', 'some', 'roughly'))} {_NUMBERS[number]} {unit}"

    # Clauses

    def _go(self, event: Event) -> str:
        first, last = round(self._reached / SPACING), round(event.at / SPACING)
        last = min(last, len(self.track.points) - 1)
        is_straight = self._has_turned and last - first >= 8 and self.track.is_straight(first, last)
        return self.pick(self.voice.go_straight if is_straight and self.chance(0.8) else self.voice.go)

    def _first_reference(self, event: Event) -> tuple[str, bool]:
        """What to call the event's first landmark, "it" if it was mentioned last; and whether it is a plural."""
        if not event.marks:
            return "", False
        mark = event.marks[0]
        is_last = len(event.marks) == 1 and mark == self._mentioned and not is_plural(self._called[mark])
        if is_last and self.chance(0.9):
            return "it", False
        return self._refer(mark), is_plural(self._called[mark])

    def _reference(self, slot: str, event: Event) -> str:
        match slot:
            case "B":
                return self._refer(event.marks[1])
            case "F":
                return self._slot(self._fence(event.colour))
            case "W":
                return self._slot(self._water())
            case "n":
                return self._metres(event.metres)
            case "go":
                return self._go(event)
            case "clock":
                return self.pick(_CLOCKWISE[event.side])
            case _:
                return self.pick(_SHORTENED[slot])

    def _fill(self, template: str, event: Event) -> str:
        """The template with its slots filled: references as letters, everything else as words."""
        first, is_many = self._first_reference(event)
        values = {"A": first, "side": _SIDES[event.side], "other": _SIDES[-event.side]}
        values |= _PLURAL if is_many else _SINGULAR

        def value(slot: re.Match[str]) -> str:
            if slot[1] not in values:
                text = self._reference(slot[1], event)
                if slot[1] != "B":  # everything but a landmark is worded anew each time
                    return text
                values["B"] = text
            return values[slot[1]]

        filled = _SLOT.sub(value, template)
        if not event.is_turn_back:  # after a turn back, what was passed is still "it"
            self._mentioned = event.marks[0] if len(event.marks) == 1 else None
        return filled

    def _fence(self, colour: str) -> str:
        name = self.pick(self.names.fences).replace("{COLOR}", colour)
        return name if self._drops_articles else f"the {name}"

    def _water(self) -> str:
        name = "water" if self.chance(0.8) else self.pick(self.names.lakes)
        return name if self._drops_articles else f"the {name}"

    def _say(self, event: Event, words: str) -> str:
        self.clauses.append((event, words))
        return words

    def _way_key(self, event: Event) -> str:
        match event.kind:
            case "turn":
                is_blind = event.amount == "about" and event.side == 0
                return "turn about blind" if is_blind else f"turn {event.amount}"
            case "pass" | "round" | "bend" | "water":
                return f"{event.kind} {event.amount}"
            case _:
                return event.kind

    def _way_clause(self, event: Event, may_be_bare: bool) -> tuple[str, bool]:
        """A clause for an event on the way, and whether it has no verb."""
        key, voice = self._way_key(event), self.voice.name
        has_bare = self.wordings.has(voice, f"{key} bare")
        has_do = self.wordings.has(voice, f"{key} do")
        if not has_bare and not has_do:
            words, is_bare = self.wordings.pick(voice, key, self.generator), False
        elif has_bare and (not has_do or self.chance(0.6)):
            is_bare = may_be_bare and self.chance(self.voice.bareness)
            words = self.wordings.pick(voice, f"{key} bare", self.generator)
            if not is_bare:
                words = ("{go}, " if _PARTICIPLE.match(words) else "{go} ") + words
        else:
            words, is_bare = self.wordings.pick(voice, f"{key} do", self.generator), False
        if event.kind == "bend" and not self.text and event.at - event.metres / 2 > 3.0:
            words = self.pick(("{go} a little, then ", "{go}, then ", "{go} a bit and ")) + words
        self._is_going = is_bare or words.startswith("{go}") or event.kind in ("along", "shore", "water", "toward")
        filled = self._say(event, self._fill(words, event))
        self._reached = event.at + (event.metres if event.kind == "round" else 0.0)
        if event.kind == "bend":
            self._reached += event.metres / 2
        if event.kind in ("turn", "leave"):
            self._has_turned = True
        return filled, is_bare

    def _say_way(self, events: Sequence[Event]) -> None:
        for place, event in enumerate(events):
            # Without a verb: after another clause, or at the very beginning in a terse voice.
            may_be_bare = place > 0 or self.voice.bareness > 0.5 or self.chance(0.12)
            was_going = self._is_going
            words, is_bare = self._way_clause(event, may_be_bare)
            if event.kind == "pass" and place and events[place - 1].kind == "pass" and self.chance(0.4):
                is_again = events[place - 1].side == event.side
                words = words.replace(" on your ", " also on your ", 1) if is_again else words
            if place == 0:
                self.text += words
            elif is_bare and words.startswith("with "):
                self.text += self.pick((", ", " ")) + words
            elif is_bare and _PARTICIPLE.match(words):
                self.text += ", " + words
            elif is_bare:
                self.text += self.pick(_NEXT_BARE if was_going else (", ", ", then ")) + words
            else:
                self.text += self.pick(self.voice.next) + words

    # Ends

    def _end_key(self, end: Event) -> str:
        if self._is_again:
            return "end again"
        if end.kind == "end past":
            return "end past just" if end.metres < 4.0 else "end past few"
        return end.kind

    def _end_template(self, end: Event, has_way: bool) -> str:
        """The wording of the end: stop somewhere, stop when something is so, or go somewhere."""
        key, voice = self._end_key(end), self.voice.name
        draw = self.generator.random()
        form = "place" if draw < 0.5 else "to" if draw < 0.76 else "cond"
        template = self.wordings.pick(voice, f"{key} {form}", self.generator)
        stop = self.pick(self.voice.stop)
        if form == "cond":
            template = f"{stop} {self.pick(_WHEN)} {template}"
        elif form == "place":
            template = f"stopping {template}" if has_way and self.chance(0.14) else f"{stop} {template}"
        elif key not in _WITH_VERBS and (not self._is_going or self.chance(0.4)):
            template = f"{{go}} {template}"
        # "Stop" mostly follows a "go", except where the goal is all that matters.
        if form != "to" and not has_way and self.chance(0.8):
            template = self.pick(("{go} and ", "{go}, ", "{go}, then ")) + template
        return template

    def _say_end(self, end: Event, has_way: bool) -> None:
        template = self._end_template(end, has_way)
        if not has_way:
            joined = ""
        elif template.startswith("stopping"):
            joined = ", "
        elif template.startswith(("until ", "till ", "til ", "as far ")):
            joined = self.pick((" ", ", "))
        elif template.startswith("{go}") or self._end_key(end) in _WITH_VERBS:
            joined = self.pick((", then ", " and ", ", ", ", and then ", " then "))
        elif template.startswith(tuple(self.voice.stop)):
            joined = self.pick((", and ", " and ", ". ", ", then ", ", ", "; ", ", and ", " and "))
        else:
            joined = self.pick((", ", ", ", ", then ", ", and then ", " and on "))
        self.text += joined + self._say(end, self._fill(template, end))

    def _say_goal(self, end: Event) -> None:
        key, voice = self._end_key(end), self.voice.name
        if self.chance(0.45):
            template = self.wordings.pick(voice, f"{key} goal", self.generator)
        else:
            template = f"{self.pick(self.voice.stop)} {self.wordings.pick(voice, f'{key} place', self.generator)}"
        self.text += self._say(end, self._fill(template, end))

    def _say_extras(self, extras: Sequence[Event]) -> None:
        for place, event in enumerate(extras):
            key = f"{event.kind} side" if event.side and event.kind in ("with ahead", "with fence") else event.kind
            tones = [tone for tone in ("warn", "will") if self.wordings.has(self.voice.name, f"{key} {tone}")]
            tone = self.pick(tones) if tones and place == len(extras) - 1 and self.chance(0.22) else ""
            words = self.wordings.pick(self.voice.name, f"{key} {tone}".strip(), self.generator)
            is_whole = words.startswith(("still ", "over ", "above ", "out ", "facing ", "looking "))
            filled = self._say(event, self._fill(words, event))
            if tone == "will":
                self.text += self.pick((". ", "; ", ", ")) + filled
            elif tone == "warn":
                self.text += self.pick((", ", "; ", ", but ") if words.startswith("don't") else (", ",)) + filled
            elif place > 0:
                self.text += self.pick((" and ", ", ")) + filled
            else:
                self.text += self.pick((", ",) if is_whole else (", with ", ", with ", ", ", " with ")) + filled

    def speak(self, content: Content) -> None:
        """Say everything, in flying order or with the goal first."""
        self._is_again = content.is_again
        opener = self.pick(self.voice.openers)
        if opener == "first " and len(content.way) < 2:
            opener = ""
        if self.chance(GOAL_FIRST_SHARE):
            opener = opener if opener.endswith(", ") else ""
            self._say_goal(content.end)
            self._say_extras([event for event in content.extras if event.kind != "with water"])
            if content.way:
                self._mentioned = None
                self.text += self.pick(_GET_THERE)
                self._say_way(content.way)
        else:
            self._say_way(content.way)
            self._say_end(content.end, bool(content.way))
            self._say_extras(content.extras)
        if self.text.startswith(("please", "kindly", "first", "just", "now")):
            opener = ""
        self.text = opener + self.text + self.pick(self.voice.closers)


def fill(text: str, references: dict[str, str]) -> str:
    """A text with the references in its slots."""
    return _LETTER.sub(lambda slot: references[slot[1]], text)


def finish(text: str, references: dict[str, str], voice: Voice, noise: float, generator: np.random.Generator) -> str:
    """The text as it is typed: references filled in, perhaps a slip, and the voice's capitals and full stop."""
    text = fill_slots(text, references, noise, generator)
    text = text.replace("round round ", "around round ")  # "round" and "round bush" without an article
    if voice.abbreviates:
        for long, short in _ABBREVIATED:
            text = text.replace(long, short)
    text = text.replace("it is on your", "it's on your") if generator.random() < 0.5 else text
    if generator.random() < voice.drops_capitals:
        text = re.sub(r"\. ([A-Z])", lambda match: ". " + match[1].lower(), text)
        return text[0].lower() + text[1:]
    text = re.sub(r"([.?] )([a-z])", lambda match: match[1] + match[2].upper(), text)
    text = text[0].upper() + text[1:]
    return text if generator.random() < 0.08 else text + "."
