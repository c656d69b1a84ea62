"""`pvn corpus`: made, measured, drawn and imported."""

import json
import re
from pathlib import Path

import pytest
from matplotlib.image import imread

FIELD = {
    "landmarkName": ["Barrel", "House", "Well"],
    "radius": [81.3, 140.0, 101.2],
    "xPos": [240, 610, 700],
    "zPos": [740, 300, 820],
}
ROUTE = {
    "x_array": [250.0, 280.0, 310.0, 340.0, 370.0, 396.0, 422.0, 448.0],
    "z_array": [740.0, 740.0, 740.0, 740.0, 740.0, 755.0, 770.0, 785.0],
}
RECORD = {
    "id": "12",
    "valid": True,
    "instructions": ["head for the barrel .", "turn left and stop by the lake ."],
    "moves": ["FFFF", "LLFFF"],
    "num_tokens": [5, 8],
    "start_x": [237.5, 243.5],
    "start_z": [262.0, 262.0],
    "start_rot": [90, 90],
    "end_x": [243.5, 247.4],
    "end_z": [262.0, 264.25],
    "end_rot": [90, 60],
}


@pytest.fixture
def lani():
    """LANI as it is unpacked, in drif's layout: one paragraph that can be used, and one without its field."""
    contents = {
        "train_annotations_6000.json": [RECORD, RECORD | {"id": "13"}],
        "configs/random_config_12.json": FIELD,
        "paths/random_curve_12.json": ROUTE,
    }
    for name, content in contents.items():
        path = Path("LANI/configs") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))


@pytest.mark.long
def test_a_corpus_is_made_measured_and_drawn(printed):
    text = printed("pvn corpus make --size 60 --seed 3 --noise 0.1 --out made --processes 1")
    assert "60 segments (42 train, 9 dev, 9 test)" in text
    assert json.loads(printed("pvn corpus stats made --json"))["segments"] == 60
    assert "LANI" in printed("pvn corpus stats made")
    text = printed("pvn corpus show made --count 4 --seed 1 --out sheet.png")
    assert text.count(": ") >= 5 and imread("sheet.png").shape[0] > 800
    assert "3-0: " in printed("pvn corpus show made --segment 3-0") and Path("pictures/segment_3-0.png").exists()
    text = printed("pvn corpus show made --segment 3-0 3-1")
    assert "3-0: " in text and "3-1: " in text and "picture: pictures/segment_3-0_3-1.png" in text


def test_a_corpus_is_made_from_banks_of_your_own(printed):
    from importlib import resources

    bank = resources.files("pvn") / "corpus" / "meadow" / "phrase_banks" / "bank_a.json"
    text = printed(f"pvn corpus make --size 70 --bank {bank} --only test --out mine --processes 1")
    assert "test) in" in text and "train" not in text
    assert json.loads(Path("mine/corpus.json").read_text())["origin"]["banks"] == ["a"]


def test_words_are_aligned_with_landmarks(corpus, printed):
    assert "barrel" in printed("pvn corpus alignments corpus").lower()
    assert json.loads(printed("pvn corpus alignments corpus --json"))


@pytest.mark.long
def test_an_import_says_what_was_not_used_and_why(lani, printed):
    text = printed("pvn corpus import-lani LANI --out lani")
    assert "not used: " in text and "environment 13" in text and "random_config_13.json" in text
    assert "2 segments (2 train), 1 not used" in text
    assert "turn left and stop by the lake" in printed("pvn corpus show lani --segment 12-1 --out segment.png")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("make --out .", "exists already"),
        ("make --size 5 --out c", "size: got 5, expected at least 20"),
        ("make --bank none.json --out c", "no bank file none.json"),
        ("make --bank a.json --bank b.json --out c", "no bank file a.json"),
        ("make --processes -1 --out c", "processes: got -1"),
        ("stats nowhere", "no corpus in nowhere"),
        ("show corpus --segment 0-99", "segment: got '0-99'"),
        ("show corpus --count 0", "count: got 0, expected 1 to 300"),
        ("show corpus --out sheet", "expected a name that ends in .png"),
        ("alignments nowhere", "no corpus in nowhere"),
        ("import-lani nowhere --out c", "nowhere"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(command, message, corpus, refused):
    assert message in refused(f"pvn corpus {command}")


@pytest.mark.long
def test_narrate_tells_each_flight_of_a_field(printed):
    text = printed("pvn corpus narrate --field 3 --count 2")
    assert len(re.findall(r"^\d: ", text, re.MULTILINE)) == 5 and len(re.findall(r"^   \S", text, re.MULTILINE)) == 10
    assert text == printed("pvn corpus narrate --field 3 --count 2")
    true, told = re.search(r"^(\d+) of (\d+) clauses are true", text, re.MULTILINE).groups()
    assert true == told
    assert "go to the" in printed("pvn corpus narrate --field 3 --count 1 --tour")
