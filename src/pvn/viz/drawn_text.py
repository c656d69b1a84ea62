"""Typed text as far as it can be drawn: Matplotlib's own font lacks many scripts and draws some of them wrongly.

Chinese, Japanese and Korean are drawn if a font for them is installed.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font
from PIL import ImageFont

FONT = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
"""Comes with Matplotlib, so it is the same everywhere."""
EAST_ASIAN_FONTS = (
    "NotoSansCJK", "SourceHanSans", "NotoSerifCJK", "Arial Unicode", "unifont", "NotoSansSC", "NotoSansTC",
    "NotoSansHK", "NotoSansJP", "NotoSansKR", "wqy", "DroidSansFallback", "ipaexg", "PingFang", "Hiragino Sans GB",
    "msyh", "YuGoth", "AppleSDGothicNeo", "malgun",
)  # fmt: skip
"""How files of fonts for Chinese, Japanese and Korean begin, the most complete first."""
LEFT_OUT = "[…]"
"""Stands for what cannot be drawn, and for the rest of a text that is too long."""
_WRONGLY_DRAWN = ("R", "AL", "AN", "NSM")
"""Directions of characters that are not drawn left to right one after the other."""


def _letters_of(font: Path) -> frozenset[str]:
    """The characters of a font that are drawn correctly."""
    present = (chr(code) for code in FT2Font(str(font)).get_charmap())
    return frozenset(
        letter
        for letter in present
        if unicodedata.bidirectional(letter) not in _WRONGLY_DRAWN
        and unicodedata.category(letter) not in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")
    )


@functools.cache
def _own_letters() -> frozenset[str]:
    return _letters_of(FONT)


class _OtherFont(NamedTuple):
    """A font with letters that Matplotlib's own font lacks."""

    path: Path
    family: str
    letters: frozenset[str]


@functools.cache
def _east_asian() -> _OtherFont | None:
    """An installed font for Chinese, Japanese and Korean, with its wide letters."""
    installed = [Path(name) for name in sorted(font_manager.findSystemFonts())]
    regular = [path for path in installed if "regular" in path.name.lower()]
    fitting = [
        path
        for start in EAST_ASIAN_FONTS
        for path in dict.fromkeys((*regular, *installed))
        if path.name.lower().startswith(start.lower())
    ]
    for path in fitting:
        try:
            font_manager.fontManager.addfont(path)  # its list may be older than the font
            wide = frozenset(letter for letter in _letters_of(path) if _is_wide(letter))
        except (RuntimeError, OSError):  # damaged, or not a font
            continue
        return _OtherFont(path, FT2Font(str(path)).family_name, wide)
    return None


def _is_wide(letter: str) -> bool:
    """Whether it is an East Asian letter or punctuation mark; emoji are symbols."""
    return unicodedata.east_asian_width(letter) in "WF" and unicodedata.category(letter)[0] in "LPNZ"


def _needs_another_font(letter: str) -> bool:
    return letter not in _own_letters() and _is_wide(letter)


def _can_draw(letter: str) -> bool:
    if not _needs_another_font(letter):
        return letter in _own_letters()
    other = _east_asian()
    return other is not None and letter in other.letters


def drawable(text: str) -> str:
    """The text with each run of characters that cannot be drawn, such as Arabic or emoji, as "[…]"."""
    marked = "".join(letter if _can_draw(letter) else "\0" for letter in unicodedata.normalize("NFC", text))
    return re.sub(r"\0(?:\s*\0)*", LEFT_OUT, marked)


def as_typed(text: str) -> dict[str, Any]:
    """Options with which Matplotlib draws a drawable text: no formulas, and a font for missing letters."""
    families = ["DejaVu Sans"]
    if any(map(_needs_another_font, text)) and (other := _east_asian()) is not None:
        families.append(other.family)
    return {"parse_math": False, "fontfamily": families}


def quoted(text: str) -> str:
    """The text in quotation marks, as it can be drawn."""
    return f"“{drawable(text)}”"


@functools.cache
def font_of(size: float, *, is_bold: bool = False) -> Any:
    """The font for drawing with Pillow; lengths have the unit of its size."""
    return ImageFont.truetype(FONT.with_name("DejaVuSans-Bold.ttf") if is_bold else FONT, size)


@functools.cache
def _wide_font_of(size: float) -> Any:
    other = _east_asian()
    return font_of(size) if other is None else ImageFont.truetype(other.path, size)


def runs_of(text: str, size: float) -> Iterator[tuple[str, Any]]:
    """The text in runs of one font each, with the font: Pillow draws with one at a time."""
    for is_wide, letters in itertools.groupby(text, _needs_another_font):
        yield "".join(letters), _wide_font_of(size) if is_wide else font_of(size)


def width_of(text: str, size: float) -> float:
    """Width of a text, in the unit of the font's size."""
    return float(sum(font.getlength(letters) for letters, font in runs_of(text, size)))


def wrapped(text: str, size: float, width: float, max_lines: int | None = None) -> list[str]:
    """The text in lines of at most `width`, in the unit of the font's size; a word that is longer is broken.

    A text of more than `max_lines` is cut and ends with "[…]", and with its closing quotation mark.
    """
    lines = [""]
    for word in text.split():
        if lines[-1] and width_of(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
            continue
        lines.append("")
        if width_of(word, size) <= width:
            lines[-1] = word
            continue
        for letter in word:
            if width_of(lines[-1] + letter, size) > width:
                lines.append("")
            lines[-1] += letter
    lines = lines[1:]
    if max_lines is None or len(lines) <= max_lines:
        return lines
    ending = f" {LEFT_OUT}”" if text.endswith("”") else f" {LEFT_OUT}"
    last = lines[max_lines - 1]
    while last and width_of(last + ending, size) > width:
        last = last.rpartition(" ")[0] if " " in last else last[:-1]
    return [*lines[: max_lines - 1], last + ending]
