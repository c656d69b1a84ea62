"""Typed text as it can be drawn: Matplotlib's own font lacks many scripts, and draws some of them wrongly."""

from __future__ import annotations

import functools
import re
import unicodedata
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.ft2font import FT2Font
from PIL import ImageFont

FONT = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
"""Comes with Matplotlib, so is the same everywhere."""
LEFT_OUT = "[…]"
"""Stands for what cannot be drawn, and for the rest of a text that is too long."""
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


@functools.cache
def font_of(size: float, *, is_bold: bool = False) -> Any:
    """The font for drawing with Pillow; size in pixels, or in points if lengths are."""
    return ImageFont.truetype(FONT.with_name("DejaVuSans-Bold.ttf") if is_bold else FONT, size)


def wrapped(text: str, size: float, width: float, max_lines: int | None = None) -> list[str]:
    """The text in lines of at most `width`, in the unit of the font's size; a word that is longer is broken.

    A text that would take more than `max_lines` ends with "[…]" where it is cut; a quotation mark is kept.
    """
    font, lines = font_of(size), [""]
    for word in text.split():
        if lines[-1] and font.getlength(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
            continue
        lines.append("")
        if font.getlength(word) <= width:
            lines[-1] = word
            continue
        for letter in word:
            if font.getlength(lines[-1] + letter) > width:
                lines.append("")
            lines[-1] += letter
    lines = lines[1:]
    if max_lines is None or len(lines) <= max_lines:
        return lines
    ending = f" {LEFT_OUT}”" if text.endswith("”") else f" {LEFT_OUT}"
    last = lines[max_lines - 1]
    while last and font.getlength(last + ending) > width:
        last = last.rpartition(" ")[0] if " " in last else last[:-1]
    return [*lines[: max_lines - 1], last + ending]
