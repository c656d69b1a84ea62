"""Figures for papers: vector PDFs with searchable text in letters that are large enough; and text as it was typed."""

import re
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from pvn.viz import flight_pictures, palette, paper_figures
from pvn.viz.film import write_film
from pvn.viz.flight_pictures import draw_flight, draw_summary, prepare, steps_shown
from pvn.viz.flight_record import FirstPictures, fly_and_record
from pvn.viz.paper_figures import PAGE_INCHES, GalleryFlight, draw_evolutions, draw_gallery, draw_maps
from pvn.viz.pictures import taken_from_above
from pvn.viz.saving import DOTS_PER_INCH, paper_paths
from pvn.viz.segment_pictures import draw_segment, draw_segments


def gallery_flight(record, **changes):
    flight = GalleryFlight(record.task, record.flown_world[:, :2], record.has_stopped, record.demonstrated)
    return replace(flight, **changes)


@pytest.fixture(scope="session")
def drawn(record, tmp_path_factory):
    """A folder with one figure of each kind."""
    folder = tmp_path_factory.mktemp("figures")
    draw_evolutions(folder / "evolution.pdf", [record])
    flights = [gallery_flight(record, has_stopped=number > 0) for number in range(5)]
    draw_gallery(folder / "gallery", [*flights[:4], replace(flights[4], demonstrated=None)])
    draw_maps(folder / "maps.png", record, num_steps=2)
    return folder


def streams(content):
    """The streams of a PDF that can be inflated, as text; pictures and fonts are among them."""
    for found in re.finditer(rb"stream\r?\n(.*?)endstream", content, re.DOTALL):
        try:
            yield zlib.decompress(found[1]).decode("latin-1")
        except zlib.error:
            continue


def page(content):
    """What is drawn: the stream with the most text in it."""
    return max(streams(content), key=lambda text: len(re.findall(r" Tf\b", text)))


FIGURES = ("evolution", "gallery", "maps")


@pytest.mark.long
@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_a_vector_pdf_with_searchable_text_of_seven_points_at_17_cm(drawn, name):
    content = (drawn / f"{name}.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    everything = content + "".join(streams(content)).encode("latin-1")
    assert b"/FontFile2" in everything and b"/Type3" not in everything
    box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+)", content)
    assert float(box[1]) == pytest.approx(PAGE_INCHES * 72, abs=0.5) == pytest.approx(481.9, abs=0.5)
    text = page(content)
    sizes = [float(size) for size in re.findall(r"/F\S* ([\d.]+) Tf", text)]
    assert len(sizes) > 5 and min(sizes) >= 7
    assert len(re.findall(r"\b[lc]\n", text)) > 50, "paths are lines, not pixels"


@pytest.mark.long
@pytest.mark.parametrize("name", FIGURES)
def test_the_png_beside_it_has_300_dots_per_inch(drawn, name):
    picture = imread(drawn / f"{name}.png")
    assert picture.shape[1] == pytest.approx(300 * PAGE_INCHES, abs=2) and picture[..., :3].std() > 0.1


@pytest.mark.long
def test_predictions_have_their_two_colours(drawn):
    picture = imread(drawn / "evolution.png")[..., :3]
    for colour in palette.PREDICTION_COLOURS:
        assert (np.abs(picture - to_rgb(colour)).max(-1) < 0.12).sum() > 500


@pytest.mark.long
def test_a_gallery_of_two_has_no_third_column(record, tmp_path):
    draw_gallery(tmp_path / "two", [gallery_flight(record, demonstrated=None)] * 2)
    assert imread(tmp_path / "two.png").shape[1] == pytest.approx(300 * PAGE_INCHES * 2 / 3, abs=2)


@pytest.mark.parametrize(("num_steps", "count"), [(1, 2), (2, 3), (5, 5), (8, 7), (100, 7)])
def test_views_of_a_flight_fill_their_rows_from_the_start_to_the_end(num_steps, count):
    steps = steps_shown(num_steps)
    assert steps[0] == 0 and steps[-1] == num_steps and len(set(steps)) == len(steps) == count


@pytest.mark.long
@pytest.mark.parametrize("num_steps", [2, 3, 8])
def test_views_and_the_field_have_as_many_pixels_as_the_picture_shows_of_them(record, num_steps, monkeypatch, tmp_path):
    """More would take longer, fewer would be blurred."""
    drawn = []
    monkeypatch.setattr(flight_pictures, "save_figure", lambda figure, path: drawn.append(figure))
    log = replace(record.log, num_steps=torch.tensor([num_steps]))
    draw_flown(tmp_path / "flight.png", replace(record, log=log))
    (figure,) = drawn
    figure.set_dpi(DOTS_PER_INCH)
    figure.canvas.draw()
    (field,), (*views, _) = (axis.images for axis in figure.axes)  # the last is the agent's own
    assert len(views) == len(steps_shown(num_steps))
    for image in (field, *views):
        height, width = image.get_array().shape[:2]
        shown = image.get_window_extent()
        assert (shown.width, shown.height) == pytest.approx((width, height), abs=1.5)
    plt.close(figure)


@pytest.mark.long
@pytest.mark.parametrize("num_moments", [1, 8])
def test_an_evolution_has_no_column_without_a_prediction(record, num_moments, monkeypatch, tmp_path):
    drawn = []
    monkeypatch.setattr(paper_figures, "save_for_paper", lambda figure, path: drawn.append(figure))
    draw_evolutions(tmp_path / "evolution", [replace(record, moments=record.moments[:num_moments])])
    planned = sum(moment.is_planned for moment in record.moments[:num_moments])
    assert [axis.axison for axis in drawn[0].axes] == [True] * (planned + 2)
    plt.close(drawn[0])


def test_a_flight_of_a_gallery_succeeds_if_it_stops_near_its_goal(record):
    path = record.demonstrated.astype(np.float32)
    there = gallery_flight(record, points=path, has_stopped=True)
    assert there.is_success and not replace(there, has_stopped=False).is_success
    assert not replace(there, points=path - 5).is_success
    assert replace(there, demonstrated=None).is_success is None


def test_both_files_are_named_whichever_is_asked_for():
    for name in ("a/b", "a/b.pdf", "a/b.png"):
        assert paper_paths(Path(name)) == (Path("a/b.pdf"), Path("a/b.png"))
    with pytest.raises(ValueError, match=r"expected a name that ends in \.pdf or \.png"):
        paper_paths(Path("a/b.jpg"))


PRICED = "pay $_$ at the well"
"""Between the dollar signs is no valid formula."""


@pytest.fixture(scope="module")
def priced(pilot, segment):
    """A segment whose instruction has dollar signs in it, and the first steps of its flight."""
    demonstration = segment.demonstration
    demonstration = replace(demonstration, task=replace(demonstration.task, instruction=PRICED))
    record = fly_and_record(pilot, demonstration.task, demonstrated=demonstration.path, horizon=2)
    return replace(segment, demonstration=demonstration), record


def draw_flown(path, record):
    own = FirstPictures(record.moments[0].image[None])
    draw_flight(path, record.task, record.log, own, 0, record.demonstrated)


@pytest.mark.long
def test_the_field_that_was_drawn_ahead_is_not_drawn_again(record, tmp_path):
    taken_from_above.cache_clear()
    prepare(record.task.layout)
    draw_flown(tmp_path / "flight.png", record)
    assert taken_from_above.cache_info().misses == 1


DRAWINGS = {
    "flight": lambda path, segment, record: draw_flown(path, record),
    "typed instruction": lambda path, segment, record: draw_flown(path, replace(record, demonstrated=None)),
    "evolution": lambda path, segment, record: draw_evolutions(path, [record]),
    "gallery": lambda path, segment, record: draw_gallery(path, [gallery_flight(record)]),
    "maps": lambda path, segment, record: draw_maps(path, record),
    "summary": lambda path, segment, record: draw_summary(path, record),
    "film": lambda path, segment, record: write_film(
        replace(record, moments=record.moments[:1]), path.with_suffix(".gif")
    ),
    "segment": lambda path, segment, record: draw_segment(path, segment),
    "segments": lambda path, segment, record: draw_segments(path, [segment]),
}


@pytest.mark.long
@pytest.mark.parametrize("what", DRAWINGS)
def test_dollar_signs_are_drawn_as_they_were_typed(what, priced, tmp_path):
    DRAWINGS[what](tmp_path / "drawn.png", *priced)
    assert any(tmp_path.iterdir())
