"""The closed set of manoeuvres that phrases can ask for, as the banks write them: "pass A left", "fence COLOR"."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Literal

from pvn.world.layout import FENCES

Kind = Literal[
    "goto", "pass", "between", "circle", "face", "toward", "until", "fence", "lake", "lake pass", "lake circle",
    "turn", "forward",
]  # fmt: skip

SLOTS = ("A", "B", "C")
NUM_LANDMARKS: dict[Kind, int] = {
    "goto": 1, "pass": 1, "between": 2, "circle": 1, "face": 1, "toward": 1, "until": 1, "fence": 0, "lake": 0,
    "lake pass": 0, "lake circle": 0, "turn": 0, "forward": 0,
}  # fmt: skip
DETAILS: dict[Kind, tuple[str, ...]] = {
    "goto": ("", "left", "right", "front", "behind"),
    "pass": ("left", "right"),
    "between": ("stop", "through"),
    "circle": tuple(f"{side} {extent}" for side in ("left", "right") for extent in ("quarter", "half", "full")),
    "face": ("",),
    "toward": ("",),
    "until": ("left", "right"),
    "fence": ("COLOR", *FENCES),
    "lake": ("",),
    "lake pass": ("left", "right"),
    "lake circle": ("left", "right"),
    "turn": ("left", "right", "around"),
    "forward": ("short", "long"),
}
IS_ON_THE_SPOT: dict[Kind, bool] = {kind: kind in ("face", "turn") for kind in NUM_LANDMARKS}
"""Whether the drone only turns."""
_PATTERN = re.compile(r"(lake pass|lake circle|[a-z]+)((?: [ABC])*)((?: [a-zA-Z]+)*)")


@dataclass(frozen=True)
class Manoeuvre:
    """One thing to fly."""

    kind: Kind
    slots: tuple[str, ...] = ()
    """Letters of the landmarks it refers to."""
    detail: str = ""
    """Which variant of the kind: a side, an extent, a colour."""

    def __str__(self) -> str:
        return " ".join(part for part in (self.kind, *self.slots, self.detail) if part)

    @property
    def side(self) -> int:
        """1 if the landmark or lake is kept on the drone's left, -1 on its right, 0 if neither."""
        words = self.detail.split()
        return ("left" in words) - ("right" in words)


def parse_manoeuvre(text: str) -> Manoeuvre:
    """The manoeuvre that is written as `text` in a bank."""
    match = _PATTERN.fullmatch(text)
    if match and match[1] in NUM_LANDMARKS:
        kind: Kind = match[1]  # type: ignore[assignment]
        manoeuvre = Manoeuvre(kind, tuple(match[2].split()), match[3].strip())
        has_slots = len(manoeuvre.slots) == NUM_LANDMARKS[kind] == len(set(manoeuvre.slots))
        if has_slots and manoeuvre.detail in DETAILS[kind]:
            return manoeuvre
    nearest = difflib.get_close_matches(text, ALL_MANOEUVRES, n=1, cutoff=0.0)[0]
    raise ValueError(f"manoeuvre: got {text!r}, expected one of the closed set, such as {nearest!r}")


ALL_MANOEUVRES: tuple[str, ...] = tuple(
    str(Manoeuvre(kind, SLOTS[: NUM_LANDMARKS[kind]], detail))
    for kind in NUM_LANDMARKS
    for detail in DETAILS[kind]
    if detail not in FENCES
)
"""Each once, with slots A and B."""
