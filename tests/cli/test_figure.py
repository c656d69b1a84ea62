"""`pvn figure`: which flights are drawn, and by whom they are flown."""

from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.image import imread

from pvn.cli.figure import FigureFlights
from pvn.corpus.meadow.generator import sample_paragraph
from pvn.corpus.store import read_corpus, write_corpus


@pytest.fixture(scope="session")
def training_folder(meadow, tmp_path_factory):
    """A corpus with a training split alone."""
    folder = tmp_path_factory.mktemp("stored") / "training"
    write_corpus(replace(meadow, splits={"train": meadow["train"]}), folder)
    return folder


def is_drawn(name):
    return all(Path(f"{name}{ending}").stat().st_size > 1e4 for ending in (".pdf", ".png"))


@pytest.mark.long
def test_predictions_of_a_named_segment_are_drawn(corpus, printed):
    segment = read_corpus(corpus)["dev"][1]
    text = printed(f"pvn figure evolution --corpus corpus --segment {segment.id} --out drawn/evolution.pdf")
    assert f"“{segment.task.instruction}”" in text and "after" in text
    assert "figure: drawn/evolution.pdf and drawn/evolution.png" in text and is_drawn("drawn/evolution")


@pytest.mark.long
def test_maps_of_one_flight_are_drawn(printed):
    text = printed("pvn figure maps --field 3 --segment 2 --steps 2 --out maps.png")
    assert f"“{sample_paragraph(3)[1].task.instruction}”" in text and is_drawn("maps")


@pytest.mark.long
def test_a_gallery_says_how_many_reached_their_goals(printed):
    text = printed("pvn figure gallery --field 3 --count 2 --agent oracle --device cpu --out oracle.pdf")
    assert "oracle: 2 of 2 reached their goals" in text and is_drawn("oracle")


@pytest.mark.long
def test_random_segments_of_a_corpus_are_the_same_for_the_same_seed(corpus, printed):
    for name, seed in (("a", 2), ("b", 2), ("c", 3)):
        printed(f"pvn figure gallery --corpus corpus --split test --count 2 --seed {seed} --agent stop --out {name}")
    a, b, c = (imread(f"{name}.png") for name in "abc")
    assert a.shape == b.shape and (a == b).all() and (a.shape != c.shape or (a != c).any())


@pytest.mark.long
def test_more_flights_than_a_tour_has_come_from_the_next_fields(printed):
    text = printed("pvn figure gallery --field 3 --count 7 --agent stop --out stops")
    assert "of 7 reached their goals" in text


def test_your_own_words_start_where_the_tour_does_and_not_where_its_longest_segment_does():
    tour = sample_paragraph(3)
    longest = max(tour, key=lambda segment: len(segment.demonstration.path))
    flights = FigureFlights(instructions=("go on", "turn left"), field=3)
    assert [one.task.start for one in flights.choose(3, is_long=True)] == [tour[0].task.start] * 2
    (shown,) = FigureFlights(field=3).choose(1, is_long=True)
    assert shown.task.start == longest.task.start != tour[0].task.start


@pytest.mark.long
def test_your_own_words_are_flown_from_one_start_and_have_no_goal(printed):
    text = printed("pvn figure gallery 'turn left' 'go to the zyzzyva' --field 3 --out said")
    assert "reached" not in text and "'zyzzyva' is not a word I know" in text
    assert is_drawn("said")


@pytest.mark.long
def test_a_segment_that_is_named_is_found_in_whatever_split_it_is(training_folder, printed):
    name = read_corpus(training_folder)["train"][0].id
    text = printed(f"pvn figure gallery --corpus {training_folder} --segment {name} --agent oracle --out named")
    assert "oracle: 1 of 1 reached their goals" in text


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("evolution --corpus {corpus} --segment 1-99", "segment: got '1-99', expected the id of a segment"),
        ("gallery --corpus {training}", "split: got 'dev', of which {training} has no segments, expected train"),
        ("evolution --corpus {training} --split test", "split: got 'test'"),
        ("gallery --corpus {training} --segment 0-99", "segment: got '0-99'"),
        ("evolution --segment 1-0", "segment: got '1-0', expected 1 to 5"),
        ("evolution --corpus {corpus} --field 3", "field: got 3 and a corpus, expected one of them"),
        ("evolution --corpus nowhere", "no corpus in nowhere"),
        ("evolution --agent gsmn", "gsmn: predicts no visitation distributions, expected a PVN"),
        ("maps --agent oracle", "oracle: predicts no visitation distributions"),
        ("maps --agent pvn-no-aux --runs nowhere", "pvn-no-aux: no weights in nowhere/pvn-no-aux"),
        ("maps --steps 0", "steps: got 0"),
        ("maps 'go on' stop", "got 2 flights, expected one"),
        ("gallery go on", 'got 2 of one word each, expected one in quotes: "go on"'),
        ("maps --out maps.jpg", "expected a name that ends in .pdf or .png"),
        ("gallery --corpus {corpus} --count 1000", "count: got 1000, expected at most"),
        ("gallery --count 0", "count: got 0"),
        ("gallery --seed -1", "seed: got -1"),
        ("gallery go --agent oracle", "agent: got oracle, which reads no instructions"),
        ("gallery ' ...'", "instruction: got '...', which has no words"),
    ],
)
def test_what_is_wrong_is_said_before_flying(command, message, corpus_folder, training_folder, refused):
    corpora = {"corpus": corpus_folder, "training": training_folder}
    assert message.format(**corpora) in refused(f"pvn figure {command.format(**corpora)}")
    assert not any(Path().iterdir())
