"""`pvn show`: landmarks, fields and films."""

from pathlib import Path

import pytest
from matplotlib.image import imread

from pvn.corpus.meadow.generator import sample_paragraph


@pytest.mark.long
def test_the_catalogue_shows_the_classes_that_are_named(printed):
    assert "landmark classes: sheet.png" in printed("pvn show catalogue --names Well Barrel --out sheet.png")
    assert imread("sheet.png").std() > 0.05


@pytest.mark.long
def test_an_exported_field_is_the_same_field(printed):
    text = printed("pvn show field --field 2 --export random_config_2.json --out a.png")
    assert "field2, " in text and "environment file: random_config_2.json" in text
    printed("pvn show field --field random_config_2.json --seed 2 --out b.png")
    assert (imread("a.png") == imread("b.png")).all(), "the same field, the same flight"


@pytest.mark.long
def test_a_flight_is_shown_as_the_ending_says(printed):
    text = printed("pvn show flight --field 3 --segment 2 --agent stop --device cpu --out flight.gif")
    assert sample_paragraph(3)[1].task.instruction in text and "stopped" in text
    assert Path("flight.gif").read_bytes()[:4] == b"GIF8"


@pytest.mark.long
def test_a_film_is_named_by_field_and_segment(printed):
    pytest.importorskip("imageio_ffmpeg")
    assert "pictures/field3_seed1_2.mp4" in printed("pvn show flight --field 3 --seed 1 --segment 2 --agent stop")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("pvn show catalogue --names Aple", "did you mean Apple"),
        ("pvn show catalogue --out sheet", "expected a name that ends in .png"),
        ("pvn show field --out field", "expected a name that ends in .png"),
        ("pvn show flight --out flight.avi", "expected a name that ends in .rrd, .mp4"),
        ("pvn show flight --field 3 --segment 9", "segment: got '9', expected 1 to 5"),
        ("pvn show flight --agent pvn-no-aux --runs runs", "pvn-no-aux: no weights in runs/pvn-no-aux"),
    ],
)
def test_what_is_wrong_is_said_before_flying(command, message, refused):
    assert message in refused(command)
