"""Typed text in pictures: no boxes in place of letters, no warnings, nothing beyond the edge."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.image import imread
from PIL import Image

from pvn.viz import film_frames
from pvn.viz.drawn_text import drawable, font_of, quoted, wrapped
from pvn.viz.flight_picture import Frames, draw_flight
from pvn.viz.paragraph_picture import draw_paragraph
from pvn.viz.summary_figure import draw_summary

ODD = "go to the gorilla 大象 🐘🦒 then اذهب $x^2$ naïve Θ"


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


@pytest.mark.long
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("text", [ODD, "go " + "o" * 996], ids=["scripts", "long"])
def test_pictures_of_any_text_are_drawn_without_warnings(mapless_record, text, tmp_path):
    record = replace(mapless_record, task=replace(mapless_record.task, instruction=text))
    frames = Frames(np.stack([moment.image for moment in record.moments])[None])
    draw_flight(tmp_path / "flight.png", record.task, record.log, frames, 0)
    draw_paragraph(tmp_path / "paragraph.png", [record, record])
    draw_summary(tmp_path / "summary.png", record)
    for path in tmp_path.iterdir():
        assert imread(path).shape[0] > 500


def test_how_a_flight_ended_fits_above_the_view_of_a_film(mapless_record):
    """The longest words about a place; they hide neither the field nor the view."""
    pose = mapless_record.log.pose_world.clone()
    pose[:, -1, :2] = torch.tensor([4.0, 0.6])
    flight = replace(mapless_record, log=replace(mapless_record.log, pose_world=pose), demonstrated=None)
    assert len(flight.outcome) > 80, flight.outcome
    image = Image.new("RGB", (film_frames.WIDTH, film_frames.HEIGHT))
    film_frames._draw_end(image, flight)
    rows, columns = np.asarray(image).max(-1).nonzero()
    left, top, right, _ = film_frames.VIEW
    assert columns.min() >= left and columns.max() <= right and rows.max() < top
    assert np.asarray(image)[rows, columns].std() > 30, "there are words"


@pytest.mark.long
@pytest.mark.parametrize(
    "text", ["go", ODD, "go to the well and " * 25, "o" * 1000], ids=["short", "odd", "many", "long"]
)
def test_all_of_the_instruction_fits_above_a_film(text):
    image = Image.new("RGB", (film_frames.WIDTH, film_frames.HEIGHT))
    film_frames._draw_instruction(image, text)
    rows, columns = np.asarray(image).max(-1).nonzero()
    assert rows.min() >= 0 and rows.max() < 90, "the legend begins there"
    assert columns.max() < film_frames.WIDTH - 10
    lines = wrapped(text, film_frames.SMALLEST_PX, film_frames.WIDTH - 40)
    assert "".join(lines).replace(" ", "") == text.replace(" ", ""), "nothing is cut off"


@pytest.mark.parametrize(
    "text", ["go to the well and stop there " * 200, "大象" * 600, "o" * 5000, "to the 井 and " * 400]
)
def test_a_text_that_is_too_long_is_cut_between_words_and_says_so(text):
    lines = wrapped(quoted(text), 13, 600, max_lines=3)
    assert len(lines) <= 3 and all(font_of(13).getlength(line) <= 600 for line in lines)
    assert lines[0].startswith("“") and lines[-1].endswith("[…]”")
    words = set(text.split()) | {"[…]"}
    if " " in text:
        assert all(word.strip("“”") in words for word in " ".join(lines).split()), "no word is broken"


def test_a_text_that_fits_is_not_cut():
    assert wrapped(quoted("go to the well"), 13, 600, max_lines=1) == ["“go to the well”"]


@pytest.mark.long
def test_a_text_of_1200_words_leaves_a_film_its_layout():
    image = Image.new("RGB", (film_frames.WIDTH, film_frames.HEIGHT))
    film_frames._draw_instruction(image, "go to the well and then on " * 200)
    rows, columns = np.asarray(image).max(-1).nonzero()
    assert rows.max() < 90 and columns.max() < film_frames.WIDTH - 10
