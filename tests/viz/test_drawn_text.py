"""Typed text in pictures: no boxes in place of letters, no warnings, nothing beyond the edge."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager
from matplotlib.image import imread
from PIL import Image

from pvn.viz import drawn_text, film
from pvn.viz.drawn_text import as_typed, drawable, quoted, width_of, wrapped
from pvn.viz.flight_pictures import draw_paragraph

ODD = "go to the gorilla 大象 🐘🦒 then اذهب $x^2$ naïve Θ"


def _installed(monkeypatch, *fonts):
    """As on a computer with these fonts."""
    drawn_text._east_asian.cache_clear()
    drawn_text._wide_font_of.cache_clear()
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [str(font) for font in fonts])


@pytest.fixture(autouse=True)
def without_other_fonts(monkeypatch):
    """Whatever this computer has; afterwards it has its own again."""
    _installed(monkeypatch)
    yield
    drawn_text._east_asian.cache_clear()
    drawn_text._wide_font_of.cache_clear()


@pytest.fixture
def with_chinese(monkeypatch, tmp_path_factory):
    """A computer with a font for two Chinese letters, each a black square."""
    pen = TTGlyphPen(None)
    pen.moveTo((50, 0))
    for corner in ((50, 900), (950, 900), (950, 0)):
        pen.lineTo(corner)
    pen.closePath()
    square, names = pen.glyph(), [".notdef", "large", "elephant", "smile"]
    font = FontBuilder(1000)
    font.setupGlyphOrder(names)
    font.setupCharacterMap({ord("大"): "large", ord("象"): "elephant", ord("🙂"): "smile"})
    font.setupGlyf(dict.fromkeys(names, square))
    font.setupHorizontalMetrics(dict.fromkeys(names, (1000, 50)))
    font.setupHorizontalHeader(ascent=900, descent=0)
    font.setupNameTable({"familyName": "Two Letters", "styleName": "Regular"})
    font.setupOS2()
    font.setupPost()
    path = tmp_path_factory.mktemp("fonts") / "NotoSansCJK-Regular.ttf"
    font.save(path)
    damaged = path.with_name("NotoSansCJK-AAA-Regular.ttf")
    damaged.write_bytes(b"not a font")
    _installed(monkeypatch, damaged, path)


def test_chinese_is_drawn_where_there_is_a_font_for_it(with_chinese):
    assert drawable("go to 大象 🙂🦒 井 now") == "go to 大象 […] now", "the font lacks one, and emoji are no letters"
    assert as_typed("to 大象")["fontfamily"] == ["DejaVu Sans", "Two Letters"]
    assert as_typed("to Θ")["fontfamily"] == ["DejaVu Sans"], "no other font is looked for"
    assert width_of("大象", 20) == 40 and width_of("go 大", 20) == pytest.approx(width_of("go ", 20) + 20)
    lines = wrapped(quoted("大象" * 40), 20, 200)
    assert "".join(lines) == quoted("大象" * 40) and all(width_of(line, 20) <= 200 for line in lines)


@pytest.mark.long
@pytest.mark.filterwarnings("error")
def test_pictures_and_films_show_chinese(with_chinese, mapless_record, tmp_path):
    def inked(text):
        record = replace(mapless_record, task=replace(mapless_record.task, instruction=text))
        draw_paragraph(tmp_path / "paragraph.png", [record])
        image = Image.new("RGB", (film.WIDTH, film.HEIGHT))
        film._draw_instruction(image, text)
        paragraph = imread(tmp_path / "paragraph.png")[..., :3]
        return int((paragraph.max(-1) < 0.2).sum()), int((np.asarray(image)[..., 0] > 128).sum())

    # A letter of this font is a square of nine tenths of its size, nearly all of it ink.
    for plain, chinese, letter in zip(inked("go"), inked("go 大象大象"), (13, 27), strict=True):
        assert chinese - plain > 4 * 0.5 * letter**2


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("go to the café, naïve Θ", "go to the café, naïve Θ"),
        ("cafe\u0301", "café"),
        ("go to 大象 🐘🦒 now", "go to […] now"),
        ("اذهب", "[…]"),
        ("a\u0947b", "a[…]b"),
    ],
)
def test_what_the_font_lacks_or_draws_wrongly_is_left_out(text, drawn):
    assert drawable(text) == drawn


def test_how_a_flight_ended_fits_above_the_view_of_a_film(mapless_record):
    """The longest words about a place; they hide neither the field nor the view."""
    pose = mapless_record.log.pose_world.clone()
    pose[:, -1, :2] = torch.tensor([4.0, 0.6])
    flight = replace(mapless_record, log=replace(mapless_record.log, pose_world=pose), demonstrated=None)
    assert len(flight.outcome) > 80, flight.outcome
    image = Image.new("RGB", (film.WIDTH, film.HEIGHT))
    film._draw_end(image, flight)
    rows, columns = np.asarray(image).max(-1).nonzero()
    left, top, right, _ = film.VIEW
    assert columns.min() >= left and columns.max() <= right and rows.max() < top
    assert np.asarray(image)[rows, columns].std() > 30, "there are words"


@pytest.mark.long
@pytest.mark.parametrize(
    "text", ["go", ODD, "go to the well and " * 25, "o" * 1000], ids=["short", "odd", "many", "long"]
)
def test_all_of_the_instruction_fits_above_a_film(text):
    image = Image.new("RGB", (film.WIDTH, film.HEIGHT))
    film._draw_instruction(image, text)
    rows, columns = np.asarray(image).max(-1).nonzero()
    assert rows.min() >= 0 and rows.max() < 90, "the legend begins there"
    assert columns.max() < film.WIDTH - 10
    lines = wrapped(text, film.SMALLEST_PX, film.WIDTH - 40)
    assert "".join(lines).replace(" ", "") == text.replace(" ", ""), "nothing is cut off"


@pytest.mark.parametrize(
    "text", ["go to the well and stop there " * 200, "大象" * 600, "o" * 5000, "to the 井 and " * 400]
)
def test_a_text_that_is_too_long_is_cut_between_words_and_says_so(text):
    lines = wrapped(quoted(text), 13, 600, max_lines=3)
    assert len(lines) <= 3 and all(width_of(line, 13) <= 600 for line in lines)
    assert lines[0].startswith("“") and lines[-1].endswith("[…]”")
    words = set(text.split()) | {"[…]"}
    if " " in text:
        assert all(word.strip("“”") in words for word in " ".join(lines).split()), "no word is broken"


def test_a_text_that_fits_is_not_cut():
    assert wrapped(quoted("go to the well"), 13, 600, max_lines=1) == ["“go to the well”"]
