"""`pvn corpus`: made, measured, drawn and imported."""

import json
import re
from pathlib import Path

import pytest
from matplotlib.image import imread

from pvn.corpus.store import identity, read_corpus
from pvn.world.lani import write_layout

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
    text = printed("pvn corpus make --size 60 --seed 3 --noise 0.1 --without natural --out made --processes 1")
    assert "60 segments (42 train, 9 dev, 9 test)" in text
    assert json.loads(printed("pvn corpus stats made --json"))["segments"] == 60
    text = printed("pvn corpus stats made")
    assert "LANI" in text and "by source" not in text
    text = printed("pvn corpus show made --count 4 --seed 1 --out sheet.png")
    assert text.count(": ") >= 5 and imread("sheet.png").shape[0] > 800
    assert "3-0: " in printed("pvn corpus show made --segment 3-0") and Path("pictures/segment_3-0.png").exists()
    text = printed("pvn corpus show made --segment 3-0 3-1")
    assert "3-0: " in text and "3-1: " in text and "picture: pictures/segment_3-0_3-1.png" in text


@pytest.mark.long
def test_narrated_segments_are_added_to_the_training_split(printed, refused):
    text = printed("pvn corpus make --size 20 --narrated 7 --without natural --out told --processes 1")
    assert "27 segments (21 train, 3 dev, 3 test)" in text
    told = [segment for segment in read_corpus("told")["train"] if segment.source == "narrated"]
    assert len(told) == 7 and all(segment.author.startswith("narrator, ") for segment in told)
    assert "expected them in a training split" in refused("pvn corpus make --narrated 7 --only dev --out no")
    assert "narrated: got -1" in refused("pvn corpus make --narrated -1 --out no") and not Path("no").exists()


@pytest.mark.long
def test_natural_instructions_are_added_in_proportion_unless_left_out(printed):
    text = printed("pvn corpus make --size 60 --seed 3 --out both --processes 1")
    assert "76 segments (57 train, 10 dev, 9 test)" in text
    printed("pvn corpus make --size 60 --seed 3 --out again --processes 1")
    printed("pvn corpus make --size 60 --seed 3 --without natural --out phrases --processes 1")
    for file in Path("both").iterdir():
        assert file.read_bytes() == (Path("again") / file.name).read_bytes()
    both, phrases = read_corpus("both"), read_corpus("phrases")
    for split in both.splits:
        generated = [segment for segment in both[split] if segment.source == "phrases"]
        assert [one.task.instruction for one in generated] == [one.task.instruction for one in phrases[split]]
    assert {segment.source for segment in phrases} == {"phrases"}
    made = {name: json.loads(Path(name, "corpus.json").read_text())["origin"] for name in ("both", "phrases")}
    assert made["both"].pop("natural") == {"train": 15, "dev": 1}
    assert made["both"] == made["phrases"] == {"seed": 3, "size": 60, "noise": 0.04, "banks": list("abcef")}
    rows = [line.split("│") for line in printed("pvn corpus stats both").splitlines() if line.startswith("│ natural")]
    assert [cell.strip() for cell in rows[0][1:4]] == ["natural", "16", "16"]
    report = json.loads(printed("pvn corpus stats both --json"))
    assert report["sources"]["natural"]["tokens_per_segment"] > report["sources"]["phrases"]["tokens_per_segment"]


def add(printed, corpus, file, out, options=""):
    return printed(f"pvn corpus add {corpus} {file} --out {out} {options}")


def test_instructions_of_your_own_are_added_to_a_copy(corpus, printed):
    before = {file.name: file.read_bytes() for file in Path("corpus").iterdir()}
    Path("mine.json").write_text(json.dumps({"0-1": "over to the thing", "1-0": "and there"}))
    text = add(printed, "corpus", "mine.json", "more", "--author ann")
    assert "2 of your instructions (1 train, 1 dev): 2000000-1 to 2000001-0" in text and "302 segments: more" in text
    mine = read_corpus("more").segment("2000000-1")
    assert (mine.task.instruction, mine.source, mine.author) == ("over to the thing", "natural", "ann")
    write_layout(mine.task.layout, "own.json")
    Path("flights.csv").write_text("field,start,path,text\nown.json,10 20 0,10 20; 14 20,straight on\n")
    assert "303 segments: most" in add(printed, "more", "flights.csv", "most")
    assert read_corpus("most").segment("3000000-0").task.instruction == "straight on"
    assert {file.name: file.read_bytes() for file in Path("corpus").iterdir()} == before
    origins = [json.loads(Path(name, "corpus.json").read_text())["origin"] for name in ("more", "most")]
    assert [[note["file"] for note in origin["added"]] for origin in origins] == [
        ["mine.json"],
        ["mine.json", "flights.csv"],
    ]
    assert origins[0]["seed"] == 0, "how it was made is still known"


def test_other_instructions_make_another_corpus(corpus, printed):
    for text, out in (("go", "one"), ("no", "two")):
        Path("mine.json").write_text(json.dumps({"0-1": text}))
        add(printed, "corpus", "mine.json", out)
    assert identity("one") != identity("two")


def test_a_file_with_mistakes_adds_nothing(corpus, refused):
    Path("mine.json").write_text(json.dumps({"0-1": "go", "0-99": "no"}))
    assert "'0-99': no such segment" in refused("pvn corpus add corpus mine.json --out more")
    assert sorted(path.name for path in Path().iterdir()) == ["corpus", "mine.json"]


def test_a_corpus_is_made_from_banks_of_your_own(printed):
    from importlib import resources

    bank = resources.files("pvn") / "corpus" / "meadow" / "phrase_banks" / "bank_a.json"
    text = printed(f"pvn corpus make --size 70 --bank {bank} --only test --out mine --processes 1")
    assert "test) in" in text and "train" not in text
    assert json.loads(Path("mine/corpus.json").read_text())["origin"]["banks"] == ["a"]
    assert {segment.source for segment in read_corpus("mine")} == {"phrases"}, (
        "natural ones belong to the bundled banks"
    )


def test_words_are_aligned_with_landmarks(corpus, printed):
    assert "barrel" in printed("pvn corpus alignments corpus").lower()
    assert json.loads(printed("pvn corpus alignments corpus --json"))


@pytest.mark.long
def test_an_import_says_what_was_not_used_and_why(lani, printed):
    text = printed("pvn corpus import-lani LANI --out lani")
    assert "not used: " in text and "environment 13" in text and "random_config_13.json" in text
    assert "2 segments (2 train), 1 not used" in text
    assert "people stopped 0.00 m from the path in the median, 90% within 0.00 m" in text and "(--max-offset 5)" in text
    assert {segment.source for segment in read_corpus("lani")} == {"lani"}
    assert "turn left and stop by the lake" in printed("pvn corpus show lani --segment 12-1 --out segment.png")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("make --out .", "exists already"),
        ("make --size 5 --out c", "size: got 5, expected at least 20"),
        ("make --bank none.json --out c", "no bank file none.json"),
        ("make --bank a.json --bank b.json --out c", "no bank file a.json"),
        ("make --processes -1 --out c", "processes: got -1"),
        ("make --without phrases --out c", "got 'phrases', expected one of natural"),
        ("add nowhere mine.json --out c", "no corpus in nowhere"),
        ("add corpus mine.json --out c", "no file mine.json"),
        ("add corpus mine.json --out corpus", "exists already"),
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
    assert "go to the" in printed("pvn corpus narrate --field 3 --count 1 --flights tours")
