"""Typed text as it can be drawn: Matplotlib's own font lacks many scripts, and draws some of them wrongly."""

from __future__ import annotations

import functools
import re
import unicodedata
from pathlib import Path

import matplotlib
from matplotlib.ft2font import FT2Font

FONT = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
"""Comes with Matplotlib, so is the same everywhere."""
LEFT_OUT = "[…]"
"""Stands for what cannot be drawn."""
_WRONGLY_DRAWN = ("R", "AL", "AN", "NSM")
"""Directions of characters that need more than one glyph after the other: right to left, or on top of another."""


@functools.cache
def _drawable_characters() -> frozenset[str]:
    present = (chr(code) for code in FT2Font(str(FONT)).get_charmap())
    return frozenset(
        letter
        for letter in present
        if unicodedata.bidirectional(letter) not in _WRONGLY_DRAWN
        and unicodedata.category(letter) not in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")
    )


def drawable(text: str) -> str:
    """The text with each run of characters that cannot be drawn, such as Chinese, Arabic or emoji, as "[…]"."""
    known = _drawable_characters()
    marked = "".join(letter if letter in known else "\0" for letter in unicodedata.normalize("NFC", text))
    return re.sub(r"\0(?:\s*\0)*", LEFT_OUT, marked)


def quoted(text: str) -> str:
    """The text in quotation marks, as it can be drawn."""
    return f"“{drawable(text)}”"
