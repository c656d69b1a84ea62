"""Mirrored segments: field, flight and words with east for west, left for right, and the red fence for the yellow one.

A mirrored segment is as true as its original and says something different, so there is twice as much to learn from. A
segment with an ambiguous word is not mirrored ("go right past the barrel": to the right, or close by?).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from pvn.corpus.segments import Annotation, Segment
from pvn.paths import wrap_radians
from pvn.world.layout import FENCES, FIELD_SIZE, Landmark, Layout
from pvn.world.task import Demonstration, Task

MIRRORED_ENVIRONMENT = 10_000_000
"""Added to the number of a field to number its mirror image."""
OPPOSITE = {
    "left": "right", "lefthand": "righthand", "leftward": "rightward", "leftwards": "rightwards",
    "leftmost": "rightmost", "clockwise": "counterclockwise", "ccw": "cw", "port": "starboard",
}  # fmt: skip
OPPOSITE |= {right: left for left, right in OPPOSITE.items()} | {"anticlockwise": "clockwise"}
MIRRORED_FENCES = {
    colour: min(FENCES, key=lambda other: abs(wrap_radians(math.pi - angle - FENCES[other])))
    for colour, angle in FENCES.items()
}
"""For each fence, the fence whose place it takes in the mirror: yellow for red, blue for blue."""
FENCE_WORDS = frozenset("fence fences fencing wall walls border boundary barrier railing edge side".split())

TURNING = frozenset(
    "your the ur my its their turn turning turns bend bending bends on curve curving curves bear bearing swing "
    "swinging hard sharp sharply slight slightly ease easing bit little curl curling veer veering lean leaning rotate "
    "rotating sweep sweeping hook spin spinning to wide gently back arc arcing wheel big a out loop looping circle "
    "circling half quarter long huge left drift drifting dodge nudge bank cut slip angle wrap head square slide yaw "
    "whip lap further tightly around round edge tight full once twice degrees at pivot going off ahead".split()
)
"""After these words, "right" is a side."""
NEAR = frozenset(
    "beside in before up over there here next by behind where when as past through between near after on to into above "
    "along across against alongside at under below onto inside outside".split()
)
"""Before these words, "right" may mean "close" or "exactly"."""
STANDING = frozenset("is are be am stop stopping stops halt you're it's they're till until just then almost".split())
"""Between one of these words and one of NEAR, "right" means "close" or "exactly"."""
SIDES = frozenset(
    "and then around round side of until till til so turn hand handed most again with bend leaving keep go curve "
    "stop fly pass cross continue ease hook a first ahead".split()
)
"""Before these words, "right" is a side, whatever comes first."""
LEAVING = frozenset("have has had having been what's".split())
"""After these words, "left" may be a form of "leave"."""

_WORD = re.compile(r"[A-Za-z']+")
_PAUSE = re.compile(r"[,.;:!?)-]")


def _right(before: str, after: str) -> str | None:
    """What "right" becomes between these words ("" for none); None if it is ambiguous."""
    if after in ("angle", "angles", "angled"):
        return "right"
    if before in TURNING:
        return "left"
    if after in NEAR:
        return "right" if before in STANDING else None
    return "left" if after in SIDES or not after else None


def _opposite(words: list[str], place: int, has_pause: bool) -> str | None:
    """What a word, in lower case, becomes in the mirror; None if it is ambiguous.

    has_pause: whether a comma or a full stop follows.
    """
    word = words[place]
    before = words[place - 1] if place else ""
    after = words[place + 1] if place + 1 < len(words) else ""
    if word == "right":
        return _right(before, "" if has_pause else after)
    if word == "left" and before in LEAVING:
        return None
    if word in FENCES:
        # "the red and the blue fence", "the red one"
        is_listed = after in ("and", "or", "n") and bool(FENCE_WORDS & set(words[place + 2 : place + 5]))
        if is_listed or (after == "one" and bool(FENCE_WORDS & set(words))):
            return None
        return MIRRORED_FENCES[word] if after in FENCE_WORDS else word
    return OPPOSITE.get(word, word)


def _like(word: str, pattern: str) -> str:
    """The word with the capitals of the pattern."""
    if pattern.isupper() and len(pattern) > 1:
        return word.upper()
    return word.capitalize() if pattern[:1].isupper() else word


def mirror_text(text: str) -> str | None:
    """The instruction for the mirrored flight; None if a word is ambiguous."""
    found = list(_WORD.finditer(text))
    words = [match[0].lower() for match in found]
    pieces, end = [], 0
    for place, match in enumerate(found):
        opposite = _opposite(words, place, _PAUSE.match(text, match.end()) is not None)
        if opposite is None:
            return None
        pieces += [text[end : match.start()], _like(opposite, match[0]) if opposite != words[place] else match[0]]
        end = match.end()
    return "".join([*pieces, text[end:]])


def mirror_layout(layout: Layout) -> Layout:
    """The field with east for west."""
    return Layout(
        tuple(
            Landmark(mark.name, FIELD_SIZE - mark.x, mark.y, mark.radius, math.pi - mark.yaw)
            for mark in layout.landmarks
        ),
        np.ascontiguousarray(layout.lake[::-1]),
    )


def _mirror_annotation(annotation: Annotation) -> Annotation:
    swapped = {"left": "right", "right": "left", **MIRRORED_FENCES}
    manoeuvres = (" ".join(swapped.get(word, word) for word in text.split()) for text in annotation.manoeuvres)
    return replace(annotation, manoeuvres=tuple(manoeuvres))


def mirror(segment: Segment, renumber: Callable[[int], int], layout: Layout | None = None) -> Segment | None:
    """The mirrored segment; None if its instruction is ambiguous.

    renumber: gives the mirrored field's number from the field's; layout: the mirrored field, if it is known.
    """
    text = mirror_text(segment.task.instruction)
    if text is None:
        return None
    x, y, yaw = segment.task.start
    task = Task(layout or mirror_layout(segment.task.layout), (FIELD_SIZE - x, y, math.pi - yaw), text)
    path = segment.demonstration.path * (-1.0, 1.0) + (FIELD_SIZE, 0.0)
    turned_to = segment.demonstration.turned_to
    annotation = None if segment.annotation is None else _mirror_annotation(segment.annotation)
    return replace(
        segment,
        environment=renumber(segment.environment),
        demonstration=Demonstration(task, path, None if turned_to is None else math.pi - turned_to),
        annotation=annotation,
    )


def mirrored(segments: Iterable[Segment], renumber: Callable[[int], int]) -> list[Segment]:
    """The mirror images of the segments whose instructions are not ambiguous."""
    layouts: dict[int, Layout] = {}
    made = []
    for segment in segments:
        if id(segment.task.layout) not in layouts:
            layouts[id(segment.task.layout)] = mirror_layout(segment.task.layout)
        twin = mirror(segment, renumber, layouts[id(segment.task.layout)])
        if twin is not None:
            made.append(twin)
    return made
