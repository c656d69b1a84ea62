"""Pictures of flights and figures for papers: everything is drawn where it is, in letters that can be read."""

import math
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
from pvn.viz.axes import goal_circle, start_arrow
from pvn.viz.film import write_film
from pvn.viz.flight_pictures import draw_flight, draw_paragraph, draw_summary, prepare, steps_shown
from pvn.viz.flight_record import FirstPictures
from pvn.viz.paper_figures import PAGE_INCHES, GalleryFlight, draw_evolutions, draw_gallery, draw_maps
from pvn.viz.pictures import taken_from_above
from pvn.viz.saving import DOTS_PER_INCH, paper_paths
from pvn.viz.segment_pictures import draw_segment, draw_segments
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.task import SUCCESS_M


def gallery_flight(record, **changes):
    flight = GalleryFlight(record.task, record.flown_world[:, :2], record.has_stopped, record.demonstrated)
    return replace(flight, **changes)


def draw_flown(path, record):
    own = FirstPictures(record.moments[0].image[None])
    draw_flight(path, record.task, record.log, own, 0, record.demonstrated)


@pytest.fixture
def unsaved(monkeypatch):
    """The figures that are drawn, in place of their files."""
    figures = []
    monkeypatch.setattr(flight_pictures, "save_figure", lambda figure, path: figures.append(figure))
    monkeypatch.setattr(paper_figures, "save_for_paper", lambda figure, path: figures.append(figure))
    yield figures
    plt.close("all")


# Figures for papers.


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


@pytest.mark.long
@pytest.mark.parametrize("name", ["evolution", "gallery", "maps"])
def test_a_figure_is_17_cm_wide_with_searchable_text_of_seven_points_and_300_dots_per_inch(drawn, name):
    content = (drawn / f"{name}.pdf").read_bytes()
    everything = content + "".join(streams(content)).encode("latin-1")
    assert b"/FontFile2" in everything and b"/Type3" not in everything
    box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+)", content)
    assert float(box[1]) == pytest.approx(PAGE_INCHES * 72, abs=0.5) == pytest.approx(481.9, abs=0.5)
    page = max(streams(content), key=lambda text: len(re.findall(r" Tf\b", text)))
    sizes = [float(size) for size in re.findall(r"/F\S* ([\d.]+) Tf", page)]
    assert len(sizes) > 5 and min(sizes) >= 7
    assert len(re.findall(r"\b[lc]\n", page)) > 50, "paths are lines, not pixels"
    assert imread(drawn / f"{name}.png").shape[1] == pytest.approx(300 * PAGE_INCHES, abs=2)


@pytest.mark.long
def test_a_gallery_of_two_has_no_third_column(record, tmp_path):
    draw_gallery(tmp_path / "two", [gallery_flight(record, demonstrated=None)] * 2)
    assert imread(tmp_path / "two.png").shape[1] == pytest.approx(300 * PAGE_INCHES * 2 / 3, abs=2)


@pytest.mark.long
@pytest.mark.parametrize("num_moments", [1, 8])
def test_an_evolution_has_a_column_for_each_prediction_with_its_time_in_order(record, num_moments, unsaved, tmp_path):
    draw_evolutions(tmp_path / "evolution", [replace(record, moments=record.moments[:num_moments])])
    planned = [moment for moment in record.moments[:num_moments] if moment.is_planned]
    axes = unsaved[0].axes
    times = [f"{moment.step * record.step_seconds:g} s" for moment in planned]
    assert [axis.get_title() for axis in axes] == ["field", *times, "semantic map"]
    for axis, moment in zip(axes[1:], planned, strict=False):
        assert np.allclose(axis.collections[0].get_offsets()[0], moment.pose_world[:2]), "the drone"
        picture = axis.images[0].get_array()
        assert all((np.abs(picture - to_rgb(colour)).max(-1) < 0.12).any() for colour in palette.PREDICTION_COLOURS)


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


# Pictures of flights.


def test_the_arrow_at_a_start_points_along_its_heading():
    tip, left, _, right = start_arrow((10.0, 20.0, math.pi / 2), 2.0) - (10.0, 20.0)
    assert tip == pytest.approx((0, 2)), "north"
    assert left[0] < 0 < right[0], "its left is in the west"


@pytest.mark.long
def test_paths_names_views_and_numbers_of_a_flight_are_where_they_belong(record, unsaved, tmp_path):
    draw_flown(tmp_path / "flight.png", record)
    axis, views = unsaved[0].axes
    lines = {line.get_label(): line.get_xydata() for line in axis.lines}
    assert np.array_equal(lines["flown"], record.flown_world[:, :2])
    assert np.array_equal(lines["demonstrated"], record.demonstrated)
    (region,) = (patch for patch in axis.patches if patch.get_edgecolor()[:3] == to_rgb(palette.GOAL))
    assert region.center == record.goal and region.radius == SUCCESS_M
    marks, texts = record.task.layout.landmarks, [text for text in axis.texts if not text.get_text().isdigit()]
    for text in texts:
        nearest = min(marks, key=lambda mark: math.dist((mark.x, mark.y), text.get_position()) - mark.radius)
        assert text.get_text() == LANDMARK_CLASSES[nearest.name].noun
    assert len(texts) == len(marks)
    steps = steps_shown(len(record.moments))
    blue = to_rgb(palette.FLOWN)
    dots = [dot.get_offsets()[0] for dot in axis.collections if np.array_equal(dot.get_facecolor()[0, :3], blue)]
    assert np.allclose(dots, record.flown_world[steps, :2])
    titles = [text.get_text() for text in views.texts]
    assert [int(title.split()[0]) for title in titles] == list(range(1, len(steps) + 1))
    assert [float(title.split()[1]) for title in titles[1:]] == [record.step_seconds * step for step in steps[1:]]


@pytest.mark.long
def test_several_flights_are_numbered_at_their_ends_and_have_views_in_order(record, unsaved, tmp_path):
    short = replace(record, moments=record.moments[:2])
    draw_paragraph(tmp_path / "flights.png", [record, short])
    axis, *views = unsaved[0].axes
    numbers = [text.get_text() for text in axis.texts if text.get_text().isdigit()]
    assert numbers == ["1", "2"]
    times = [float(view.get_title(loc="left").split()[0]) for view in views if view.images]
    assert times == sorted(times[:6]) + sorted(times[6:]) and times[0] == times[6] == 0
    assert len(times) == 6 + 3, "a short flight has fewer views"


@pytest.mark.long
@pytest.mark.parametrize("stop_threshold", [0.07, None])
def test_a_summary_shows_above_which_probability_the_pilot_stops(record, stop_threshold, unsaved):
    moments = tuple(
        replace(moment, stop_probability=None if stop_threshold is None else moment.stop_probability)
        for moment in record.moments[:2]
    )
    draw_summary(Path("flight.png"), replace(record, moments=moments, stop_threshold=stop_threshold))
    panels = [axis for axis in unsaved[0].axes if axis.get_title() == "stop probability"]
    dotted = [line.get_ydata()[0] for axis in panels for line in axis.lines if line.get_linestyle() == ":"]
    assert dotted == ([] if stop_threshold is None else [stop_threshold]) and len(panels) == len(dotted)


@pytest.mark.long
def test_a_summary_without_maps_is_shorter_and_the_same_every_time(mapless_record, tmp_path):
    for name in ("one.png", "two.png"):
        draw_summary(tmp_path / name, mapless_record)
    assert 700 < imread(tmp_path / "one.png").shape[0] < 1000
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


@pytest.mark.parametrize(("num_steps", "count"), [(1, 2), (2, 3), (5, 5), (8, 7), (100, 7)])
def test_views_of_a_flight_fill_their_rows_from_the_start_to_the_end(num_steps, count):
    steps = steps_shown(num_steps)
    assert steps[0] == 0 and steps[-1] == num_steps and len(set(steps)) == len(steps) == count


@pytest.mark.long
@pytest.mark.parametrize("num_steps", [2, 3, 8])
def test_views_and_the_field_have_as_many_pixels_as_the_picture_shows_of_them(record, num_steps, unsaved, tmp_path):
    """More would take longer, fewer would be blurred."""
    log = replace(record.log, num_steps=torch.tensor([num_steps]))
    draw_flown(tmp_path / "flight.png", replace(record, log=log))
    (figure,) = unsaved
    figure.set_dpi(DOTS_PER_INCH)
    figure.canvas.draw()
    (field,), (*views, _) = (axis.images for axis in figure.axes)  # the last is the agent's own
    assert len(views) == len(steps_shown(num_steps))
    for image in (field, *views):
        height, width = image.get_array().shape[:2]
        shown = image.get_window_extent()
        assert (shown.width, shown.height) == pytest.approx((width, height), abs=1.5)


@pytest.mark.long
def test_the_field_that_was_drawn_ahead_is_not_drawn_again(record, tmp_path):
    taken_from_above.cache_clear()
    prepare(record.task.layout)
    draw_flown(tmp_path / "flight.png", record)
    assert taken_from_above.cache_info().misses == 1


def test_the_goal_circle_is_where_a_flight_has_to_stop():
    assert np.allclose(np.linalg.norm(goal_circle((3.0, 4.0)) - (3.0, 4.0), axis=1), SUCCESS_M)


TEXTS = {
    "scripts": "go to the gorilla 大象 🐘🦒 then اذهب naïve Θ",
    "formula": "pay $_$ at the well",  # between the dollar signs is no valid formula
    "long": "go " + "o" * 996,
}
DRAWINGS = {
    "flight": lambda path, segment, record: draw_flown(path, record),
    "flights": lambda path, segment, record: draw_paragraph(path, [record, record]),
    "summary": lambda path, segment, record: draw_summary(path, record),
    "evolution": lambda path, segment, record: draw_evolutions(path, [record]),
    "gallery": lambda path, segment, record: draw_gallery(path, [gallery_flight(record)]),
    "maps": lambda path, segment, record: draw_maps(path, record),
    "film": lambda path, segment, record: write_film(
        replace(record, moments=record.moments[:1]), path.with_suffix(".gif")
    ),
    "segment": lambda path, segment, record: draw_segment(path, segment),
    "segments": lambda path, segment, record: draw_segments(path, [segment]),
}


@pytest.mark.long
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("what", "text"),
    [*((what, "formula") for what in DRAWINGS), ("flight", "scripts"), ("flights", "scripts"), ("summary", "long")],
)
def test_any_text_is_drawn_as_it_was_typed_without_warnings(what, text, record, segment, tmp_path):
    task = replace(record.task, instruction=TEXTS[text])
    demonstration = replace(segment.demonstration, task=replace(segment.task, instruction=TEXTS[text]))
    typed = replace(record, task=task, moments=record.moments[:2])
    DRAWINGS[what](tmp_path / "drawn.png", replace(segment, demonstration=demonstration), typed)
    assert any(tmp_path.iterdir())
