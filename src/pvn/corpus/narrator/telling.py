"""Telling a flight: which of its events, in which order, in whose words."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pvn.corpus.meadow.generator import NOISE
from pvn.corpus.meadow.references import Lexicon
from pvn.corpus.narrator.checks import are_true
from pvn.corpus.narrator.choosing import Told, choose
from pvn.corpus.narrator.endings import ends_of
from pvn.corpus.narrator.events import Event, way_of
from pvn.corpus.narrator.naming import Names
from pvn.corpus.narrator.speaking import Speaker, fill, finish
from pvn.corpus.narrator.track import Track
from pvn.corpus.narrator.wordings import Voice, bundled_wordings
from pvn.paths import Points
from pvn.world.layout import Layout

TRIES = 4
"""Texts tried until one has the wanted length."""
LENGTHS = {"short": (3, 12), "middling": (9, 21), "long": (20, 46)}
"""Words in a text of each of three kinds, which are about equally frequent."""


@dataclass(frozen=True)
class Clause:
    """One thing that a text says, and what makes it true."""

    event: Event
    words: str
    """As in the text, but for capitals and slips."""


@dataclass(frozen=True)
class Narration:
    """A flight in words."""

    text: str
    clauses: tuple[Clause, ...]
    """Everything that the text claims about the flight."""
    voice: str


def _pick_length(generator: np.random.Generator) -> str:
    draw = generator.random()
    return "short" if draw < 0.4 else "middling" if draw < 0.66 else "long"


def _excess(text: str, length: str) -> int:
    """By how many words a text is longer or shorter than it should be."""
    least, most = LENGTHS[length]
    num_words = text.count(" ") + 1
    return max(least - num_words, num_words - most, 0)


def narrate(
    layout: Layout,
    start: tuple[float, float, float],
    path: Points,
    lexicon: Lexicon,
    generator: np.random.Generator,
    noise: float = NOISE,
) -> Narration | None:
    """A flight along a path (P, 2), field frame, metres, from a pose x, y, yaw, told in some voice.

    Every clause is true of the flight, and the place to stop is told so that only one place in the field fits. None if
    there is no such way to tell it, as where the path ends far from anything. `noise`: share of texts with a slip.
    """
    track = Track.of(layout, start, path)
    if track is None:
        return None
    ends, extras = ends_of(track)
    if not ends:
        return None
    way = way_of(track)
    names = Names.of(layout, lexicon, generator)
    voice = bundled_wordings().pick_voice(generator)
    length = _pick_length(generator)
    best, least = None, math.inf
    for _ in range(TRIES):
        told = choose(track, way, ends, extras, names, length, generator)
        if told is None:
            return None
        narration = _tell(told, track, names, voice, generator, noise)
        if not all(are_true((clause.event for clause in narration.clauses), layout, start, path)):
            continue  # a matter of taste, as on which side something is at a sharp corner
        excess = _excess(narration.text, told.length)
        if excess < least:
            best, least = narration, excess
        if excess == 0:
            break
    return best


def _tell(
    told: Told, track: Track, names: Names, voice: Voice, generator: np.random.Generator, noise: float
) -> Narration:
    speaker = Speaker(track, names, voice, bundled_wordings(), generator)
    speaker.tell(told)
    text = finish(speaker.text, speaker.references, voice, noise, generator)
    clauses = tuple(Clause(event, fill(words, speaker.references)) for event, words in speaker.clauses)
    return Narration(text, clauses, voice.name)
