"""Figures for papers: true PDFs with text that is text, letters large enough, and colours that everyone tells apart."""

import itertools
import re
import shlex
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from pvn.cli import main
from pvn.corpus.meadow.generator import sample_paragraph
from pvn.corpus.store import read_corpus, write_corpus
from pvn.evaluation.systems import make_system
from pvn.viz import film_frames
from pvn.viz.film import write_film
from pvn.viz.flight_maps import draw_maps
from pvn.viz.flight_picture import FLOWN, GOAL, SHOWN, START, draw_flight
from pvn.viz.flight_record import fly_and_record
from pvn.viz.map_pictures import EXPECTED_GOAL, EXPECTED_PATH
from pvn.viz.paper_figures import (
    COMPONENTS,
    DIMMED,
    GOAL_COLOUR,
    MISSED,
    PAGE_INCHES,
    REACHED,
    TRAJECTORY_COLOUR,
    Flown,
    draw_evolutions,
    draw_gallery,
    field_from_above,
    paint_components,
    spread,
)
from pvn.viz.saving import paper_paths
from pvn.viz.segment_pictures import draw_segment, draw_segments
from pvn.viz.summary_figure import draw_summary
from pvn.world.layout import Layout

# Machado, Oliveira and Fernandes 2009, severity 1.0, for linear red, green and blue.
SIGHT = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = TO_XYZ.sum(1)
LEAST = 20.0
"""CIELAB distance; 2.3 is just noticed side by side, ten times that is told apart at a glance."""


def lab(colour, sight):
    """CIELAB of an sRGB colour as someone sees it."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    x, y, z = TO_XYZ @ (SIGHT[sight] @ linear).clip(0, 1) / WHITE
    f = [t ** (1 / 3) if t > (6 / 29) ** 3 else t / (3 * (6 / 29) ** 2) + 4 / 29 for t in (x, y, z)]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def least_distance(colours):
    """Of any two, for whoever sees them worst."""
    return min(
        float(np.linalg.norm(lab(one, sight) - lab(two, sight)))
        for sight in SIGHT
        for one, two in itertools.combinations(colours, 2)
    )


def ground():
    return tuple(np.median(field_from_above(Layout(())), axis=(0, 1)))


TOGETHER = {
    "predictions over the field": lambda: (TRAJECTORY_COLOUR, GOAL_COLOUR, "white", (np.mean(ground()) * DIMMED,) * 3),
    "paths on grass": lambda: (FLOWN, SHOWN, START, GOAL, ground()),
    "outcomes": lambda: (REACHED, MISSED),
    "films": lambda: (
        EXPECTED_PATH,
        EXPECTED_GOAL,
        *(np.array(each) / 255 for each in (film_frames.FLOWN, film_frames.SHOWN)),
    ),
    "components of a map": lambda: (*map(tuple, COMPONENTS), "white", "black"),
}


@pytest.mark.parametrize("what", TOGETHER)
def test_colours_are_told_apart_with_every_kind_of_sight(what):
    assert least_distance(TOGETHER[what]()) > LEAST


def test_the_measure_knows_that_red_on_grass_is_not():
    red = "#ff6a4d"
    assert np.linalg.norm(lab(red, "usual") - lab(ground(), "usual")) > 80
    assert least_distance((red, ground())) < 10  # with protanopia


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A folder with one figure of each kind, drawn by the verbs from a small corpus and from random fields."""
    folder = tmp_path_factory.mktemp("figures")
    main(shlex.split(f"corpus make --size 40 --out {folder / 'corpus'} --processes 1"))
    whole = read_corpus(folder / "corpus")
    write_corpus(replace(whole, splits={"train": whole["train"]}), folder / "training")
    main(shlex.split(f"figure evolution --corpus {folder / 'corpus'} --segments 1-0 --out {folder / 'evolution.pdf'}"))
    main(shlex.split(f"figure gallery --corpus {folder / 'corpus'} --count 5 --seed 2 --out {folder / 'gallery'}"))
    main(shlex.split(f"figure maps --seed 3 --steps 2 --out {folder / 'maps.png'}"))
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


@pytest.mark.parametrize("name", ["evolution", "gallery", "maps"])
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


@pytest.mark.parametrize("name", ["evolution", "gallery", "maps"])
def test_the_png_beside_it_has_300_dots_an_inch(drawn, name):
    picture = imread(drawn / f"{name}.png")
    assert picture.shape[1] == pytest.approx(300 * PAGE_INCHES, abs=2) and picture[..., :3].std() > 0.1


def test_predictions_are_blue_and_orange_over_grey(drawn):
    picture = imread(drawn / "evolution.png")[..., :3]
    for colour in (TRAJECTORY_COLOUR, GOAL_COLOUR):
        assert (np.abs(picture - to_rgb(colour)).max(-1) < 0.12).sum() > 500


def test_your_own_words_are_flown_from_one_start_and_have_no_goal(tmp_path, capsys):
    main(shlex.split(f"figure gallery --seed 3 --say 'turn left' --say 'go to the zyzzyva' --out {tmp_path / 'said'}"))
    printed = capsys.readouterr().out
    assert "reached" not in printed and "will not heed: zyzzyva" in printed
    assert imread(tmp_path / "said.png").shape[1] == pytest.approx(300 * PAGE_INCHES / 2, abs=2)


def test_a_systems_gallery_says_how_many_reached_their_goals(tmp_path, capsys):
    main(shlex.split(f"figure gallery --seed 3 --count 2 --system oracle --out {tmp_path / 'oracle.pdf'}"))
    assert "oracle: 2 of 2 reached their goals" in capsys.readouterr().out


PRICED = "pay $_$ at the well"
"""Between dollar signs, what is no formula."""


@pytest.fixture(scope="module")
def priced():
    """A segment and its first steps, by a pilot who was told something with dollar signs in it."""
    segment = sample_paragraph(3)[1]
    task = replace(segment.task, instruction=PRICED)
    return replace(segment, task=task), fly_and_record(make_system("pvn"), task, horizon=2)


def draw_flown(path, segment, recorded):
    frames = np.stack([moment.image for moment in recorded.moments])[None]
    draw_flight(path, recorded.task, recorded.log, frames, 0)


DRAWINGS = {
    "flight": draw_flown,
    "evolution": lambda path, segment, recorded: draw_evolutions(path, [recorded]),
    "gallery": lambda path, segment, recorded: draw_gallery(
        path, [Flown(segment.task, recorded.flown_world[:, :2], has_stopped=False)]
    ),
    "maps": lambda path, segment, recorded: draw_maps(path, recorded),
    "summary": lambda path, segment, recorded: draw_summary(path, recorded),
    "film": lambda path, segment, recorded: write_film(
        replace(recorded, moments=recorded.moments[:1]), path.with_suffix(".gif")
    ),
    "segment": lambda path, segment, recorded: draw_segment(path, segment),
    "segments": lambda path, segment, recorded: draw_segments(path, [segment]),
}


@pytest.mark.parametrize("what", DRAWINGS)
def test_dollar_signs_are_drawn_as_they_were_typed(what, priced, tmp_path):
    DRAWINGS[what](tmp_path / "drawn.png", *priced)
    assert any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("evolution --corpus {corpus} --segments 1-99", "segment: got '1-99', expected an environment and a place"),
        ("gallery --corpus {training}", "split: got 'dev', of which {training} has none, expected train"),
        ("evolution --corpus {training} --split test", "split: got 'test'"),
        ("gallery --corpus {training} --segments 0-99", "segment: got '0-99'"),
        ("evolution --segments 1-0", "without a corpus, expected --corpus DIR"),
        ("evolution --corpus {corpus} --file field.json", "expected one of them; drop --file or --corpus"),
        ("evolution --corpus nowhere", "no corpus in nowhere"),
        ("evolution --system gsmn", "gsmn: predicts no visitation distributions, expected a PVN"),
        ("maps --system oracle", "oracle: predicts no visitation distributions"),
        ("maps --system pnv", "did you mean pvn?"),
        ("maps --steps 0", "steps: got 0"),
        ("maps --say go --say stop", "got 2 flights, expected one"),
        ("maps --out maps.jpg", "expected a name that ends in .pdf or .png"),
        ("gallery --corpus {corpus} --count 1000", "count: got 1000, expected at most"),
        ("gallery --count 0", "count: got 0"),
        ("gallery --seed -1", "seed: got -1"),
        ("gallery --system oracle --say go", "oracle: reads no instructions"),
        ("gallery --say ' ...'", "say: got ' ...', expected a sentence"),
    ],
)
def test_what_a_user_can_mend_is_said_in_one_line(command, message, drawn, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    corpora = {"corpus": drawn / "corpus", "training": drawn / "training"}
    with pytest.raises(SystemExit) as error:
        main(["figure", *shlex.split(command.format(**corpora))])
    assert error.value.code == 2 and message.format(**corpora) in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_a_segment_that_is_named_is_found_in_whatever_split_it_is(drawn, tmp_path, capsys):
    name = read_corpus(drawn / "training")["train"][0].id
    out = tmp_path / "named"
    main(shlex.split(f"figure gallery --corpus {drawn / 'training'} --segments {name} --system oracle --out {out}"))
    assert "1 of 1 reached their goals" in capsys.readouterr().out


def test_both_files_are_named_whichever_is_asked_for():
    for name in ("a/b", "a/b.pdf", "a/b.png"):
        assert paper_paths(Path(name)) == (Path("a/b.pdf"), Path("a/b.png"))


def test_moments_are_spread_evenly_with_first_and_last():
    assert spread(10, 4) == [0, 3, 6, 9] and spread(2, 4) == [0, 1] and spread(1, 4) == [0]


def test_a_map_is_black_only_where_nothing_is_known():
    components = np.random.default_rng(0).normal(size=(3, 8, 8)).astype(np.float32)
    is_known = np.zeros((8, 8), bool)
    assert not paint_components(components, is_known).any()
    is_known[2:5] = True
    painted = paint_components(components, is_known)
    assert (painted[:, is_known].max(0) > 0.1).all() and not painted[:, ~is_known].any() and painted.max() <= 1
