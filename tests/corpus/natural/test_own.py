"""Instructions of your own: what is read, and what is reported about files with mistakes."""

import json
import math

import numpy as np
import pytest

from pvn.corpus.meadow.generator import numbered_layout
from pvn.corpus.natural.own import read_instructions
from pvn.corpus.segments import joined
from pvn.world.lani import write_layout

HEADER = "field,start,path,text,author,split\n"


@pytest.fixture
def write(tmp_path):
    def write_text(name, text):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return write_text


@pytest.fixture
def own_field(paragraph, tmp_path):
    """A file with a field of the user's own, called own.json."""
    write_layout(paragraph[0].task.layout, tmp_path / "own.json")
    return paragraph[0].task.layout


def test_flights_of_a_corpus_get_other_words(meadow, write):
    one, two = meadow["train"][3], meadow["dev"][1]
    file = write("mine.json", json.dumps({one.id: "  over to the\n big thing ", two.id: "and stop"}))
    told = read_instructions(file, meadow, author="ann")
    (mine,), (other,) = told["train"], told["dev"]
    assert mine.task.instruction == "over to the big thing" and other.task.instruction == "and stop"
    assert (mine.source, mine.author) == ("natural", "ann")
    assert mine.task.layout is one.task.layout and mine.task.start == one.task.start
    assert np.array_equal(mine.demonstration.path, one.demonstration.path)
    assert mine.annotation.manoeuvres == one.annotation.manoeuvres and mine.is_seen is None
    assert mine.id == f"{2_000_000 + one.environment}-{one.place}"
    assert len(joined((meadow, told), "both")) == len(meadow) + 2


def test_a_second_file_gets_other_numbers(meadow, write):
    file = write("mine.json", json.dumps({meadow["train"][3].id: "over there"}))
    first = joined((meadow, read_instructions(file, meadow)), "first")
    second = joined((first, read_instructions(file, first)), "second")
    assert [segment.environment // 1_000_000 for segment in second["train"][-2:]] == [2, 3]


def test_flights_of_your_own_are_read_from_a_table(meadow, write, own_field):
    rows = [
        'own.json,10 20 90,10 20; 10 23.5,"up, and stop",ann,dev',
        "own.json,5 5 0,6 5; 6 5; 8 5;,across,,dev",
    ]
    told = read_instructions(write("mine.csv", HEADER + "\n".join(rows) + "\n\n"), meadow, author="bo")
    one, two = told["dev"]
    assert list(told.splits) == ["dev"] and [one.id, two.id] == ["2000000-0", "2000000-1"]
    assert one.task.layout == own_field and one.task.start == (10.0, 20.0, math.radians(90))
    assert np.allclose(one.demonstration.path, [[10, 20 + 3.5 * step / 4] for step in range(5)])
    assert np.allclose(two.demonstration.path, [[6, 5], [7, 5], [8, 5]]), "no point twice, none over a metre away"
    assert (one.author, two.author, one.source) == ("ann", "bo", "natural")
    assert one.task.instruction == "up, and stop" and one.annotation is None


@pytest.mark.long
def test_a_field_number_means_the_same_field_as_in_pvn_fly(meadow, write):
    file = write("mine.csv", "\ufefftext,path,start,field\nleft,10 20; 12 20,10 20 0,7\n")
    (segment,) = read_instructions(file, meadow)["train"]
    assert segment.task.layout == numbered_layout(7) and segment.author is None


@pytest.mark.long
def test_a_field_that_the_corpus_trains_on_cannot_be_scored(meadow, write):
    assert meadow.segment("0-0").task.layout == numbered_layout(0), "field 0 is the first of the corpus with seed 0"
    file = write("mine.csv", HEADER + "0,10 20 0,10 20; 12 20,left,,dev\n")
    with pytest.raises(ValueError, match="line 2: split: got dev, but field 0 is in train already"):
        read_instructions(file, meadow)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("nowhere.json,10 20 0,10 20; 12 20,left,,", "field: got 'nowhere.json', expected the number of a random"),
        ("own.json,10 20,10 20; 12 20,left,,", "start: got '10 20', expected x y yaw_degrees"),
        ("own.json,nan 20 0,10 20; 12 20,left,,", "start: got 'nan 20 0', expected x y yaw_degrees"),
        ("own.json,10 99 0,10 50; 12 20,left,,", "start: got .10, 99., which is outside the field"),
        ("own.json,10 20 0,10 20; 12 20 3,left,,", "path: got '12 20 3', expected x y"),
        ("own.json,10 20 0,10 20; 10 20,left,,", "path: got '10 20; 10 20', expected two or more places"),
        ("own.json,10 20 0,14 20; 15 20,left,,", "path: begins 4.0 m from the start, expected at most 2 m"),
        ("own.json,10 20 0,10 20; 12 20,  ,,", "text: got '  ', expected an instruction in words"),
        (f"own.json,10 20 0,10 20; 12 20,{'go ' * 101},,", "text: got 101 words, expected at most 100"),
        ("own.json,10 20 0,10 20; 12 20,left,,tset", "split: got 'tset', expected one of train, dev, test"),
        ("own.json,10 20 0,10 20; 12 20,left", "got 4 cells, expected 6"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_table_is_reported_with_its_line(row, message, meadow, write, own_field):
    file = write("mine.csv", HEADER + 'own.json,10 20 0,10 20; 12 20,"on two\nlines",,\n' + row + "\n")
    with pytest.raises(ValueError, match=rf"mine.csv: 1 problem, nothing was added.*\n  line 4: {message}"):
        read_instructions(file, meadow)


def test_all_mistakes_are_reported_but_at_most_twenty(meadow, write, own_field):
    good, bad = "own.json,10 20 0,10 20; 12 20,left,,", "own.json,10 20,10 99; 12 20,,,"
    with pytest.raises(ValueError, match="3 problems") as error:
        read_instructions(write("mine.csv", HEADER + "\n".join((good, bad, good))), meadow)
    assert [line.split(":")[1].strip() for line in str(error.value).splitlines()[1:]] == ["start", "path", "text"]
    with pytest.raises(ValueError, match="30 problems") as error:
        read_instructions(write("mine.csv", HEADER + "\n".join([bad] * 10)), meadow)
    assert str(error.value).count("\n") == 21 and str(error.value).endswith("and 10 more")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("mine.csv", "field,start,path\n", "line 1: the header misses text, expected the columns field, start"),
        ("mine.csv", HEADER.replace("author", "autor"), "line 1: the header has 'autor', expected"),
        ("mine.csv", HEADER, "got no rows"),
        ("mine.csv", HEADER + 'a,b,c,"d\nd",,\na,b,c,"d,,\na,b,c,"d",,\n', "mine.csv, line 4: not valid CSV"),
        ("mine.json", "{", "not valid JSON"),
        ("mine.json", '["3-0"]', "expected an object of segments and texts"),
        ("mine.json", '{"99-7": "go"}', r"'99-7': no such segment in meadow, expected an id such as '0-0'"),
        ("mine.json", '{"0-0": "go",\n\n"0-0": "stop"}', "'0-0': occurs twice, expected each segment once"),
        ("mine.json", '{"0-0": {"a": "go"}}', "'0-0': text: got .*, expected an instruction in quotes"),
        ("mine.txt", "go", "ends in .txt, expected .json or .csv"),
    ],
)
def test_files_that_cannot_be_used_say_why(name, text, message, meadow, write):
    with pytest.raises(ValueError, match=message):
        read_instructions(write(name, text), meadow)


def test_a_file_that_is_not_there_or_not_utf8(meadow, tmp_path):
    with pytest.raises(FileNotFoundError, match="no file .*mine.csv; expected instructions as .json or .csv"):
        read_instructions(tmp_path / "mine.csv", meadow)
    (tmp_path / "mine.csv").write_bytes("field,start,path,text\nö".encode("latin-1"))
    with pytest.raises(ValueError, match="not UTF-8 text"):
        read_instructions(tmp_path / "mine.csv", meadow)


def test_a_field_is_in_one_split_of_a_table(meadow, write, own_field):
    rows = "own.json,10 20 0,10 20; 12 20,left,,dev\nown.json,10 20 0,10 20; 12 20,right,,test\n"
    with pytest.raises(ValueError, match="line 3: split: got test, but field own.json is in dev already"):
        read_instructions(write("mine.csv", HEADER + rows), meadow)
