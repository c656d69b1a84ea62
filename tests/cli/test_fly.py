"""`pvn fly`: who, where, what, and the files that are written."""

import json
import math
import re
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.image import imread

from pvn.cli.file_names import SLUG_LENGTH, slug
from pvn.corpus.meadow.generator import sample_paragraph
from pvn.corpus.store import read_corpus
from pvn.systems import shipped_weights
from pvn.viz import flight_files
from pvn.world.lani import write_layout
from pvn.world.layout import Landmark, Layout

FIELD = 4


def rows(text):
    """Labels and instructions in the printed table."""
    return re.findall(r"^│ +([\d-]+) │ +(.*?) +│", text, re.MULTILINE)


def pictures(folder):
    return sorted(path.name for path in Path(folder).iterdir())


@pytest.fixture
def own_field():
    """Field 3 as a file of the reader's own."""
    write_layout(sample_paragraph(3)[0].task.layout, Path("own.json"))


@pytest.mark.long
def test_one_flight_is_drawn(printed):
    text = printed(f"pvn fly --field {FIELD} --segment 1 --agent oracle --quality fast --out out")
    assert f"picture: out/field{FIELD}_1.png" in text and imread(f"out/field{FIELD}_1.png").shape[0] > 500


@pytest.mark.long
def test_all_five_of_a_field_are_flown(undrawn, printed):
    text = printed(f"pvn fly --field {FIELD} --agent stop --out out")
    segments = sample_paragraph(FIELD)
    assert rows(text) == [(str(number), s.task.instruction) for number, s in enumerate(segments, start=1)]
    assert f"stop in field {FIELD}" in text and "m from the goal" in text
    assert pictures("out") == [f"field{FIELD}_{number}.png" for number in range(1, 6)]
    assert all(f"picture: out/{name}" in text for name in pictures("out"))


@pytest.mark.long
@pytest.mark.parametrize("agent", ["pvn", "gsmn", "chaplot", "oracle", "average", "pvn-ideal-act", "pvn-half-height"])
def test_every_agent_of_the_package_flies(agent, undrawn, printed):
    text = printed(f"pvn fly --field {FIELD} --segment 2 --agent {agent} --quality fast")
    assert f"{agent} in field {FIELD}" in text
    assert pictures("pictures") == [f"field{FIELD}_2.png"]


@pytest.mark.long
def test_several_segments_of_a_field_are_named_by_their_numbers(undrawn, printed):
    text = printed(f"pvn fly --field {FIELD} --segment 5 2 --agent stop --out out")
    assert [label for label, _ in rows(text)] == ["5", "2"]
    assert pictures("out") == [f"field{FIELD}_2.png", f"field{FIELD}_5.png"]


@pytest.mark.long
def test_segments_of_a_corpus_are_named_by_their_ids(corpus, undrawn, printed):
    first, second = read_corpus(corpus)["test"][1:3]
    text = printed(f"pvn fly --corpus corpus --segment {first.id} {second.id} --agent oracle --out out")
    assert rows(text) == [(one.id, one.task.instruction) for one in (first, second)]
    assert f"oracle in corpus, segments {first.id}, {second.id}" in text and text.count("success") == 2
    assert pictures("out") == sorted(f"corpus_{one.id}.png" for one in (first, second))


@pytest.mark.long
def test_a_seed_is_another_tour_through_the_same_field(own_field, undrawn, printed):
    layout = sample_paragraph(3)[0].task.layout
    for options, seed, name in (
        ("--field own.json", 0, "own_seed0_1.png"),
        ("--field own.json --seed 2", 2, "own_seed2_1.png"),
        ("--field 3 --seed 2", 2, "field3_seed2_1.png"),
    ):
        text = printed(f"pvn fly {options} --segment 1 --agent stop --out out")
        assert rows(text) == [("1", sample_paragraph(seed, layout)[0].task.instruction)]
        assert name in pictures("out")
    assert rows(printed("pvn fly --field 3 --seed 3 --segment 1 --agent stop --out out")) == rows(
        printed("pvn fly --field 3 --segment 1 --agent stop --out out")
    ), "a random field's own tour is that of its number"


@pytest.mark.long
def test_your_own_words_are_flown_and_have_no_goal(undrawn, printed):
    text = printed('pvn fly "fly to the  zyzzyva qwertz and shop" --field 5 --quality fast --out out')
    assert "'zyzzyva' and 'qwertz' are not words I know; 'shop' is read as 'stop'" in text
    assert re.search(r"stopped [^│]* (fence|from the|lake)", text), "what it stopped near"
    assert rows(text) == [("1", "fly to the zyzzyva qwertz and shop")] and "goal" not in text
    assert pictures("out") == ["field5_fly-to-the-zyzzyva-qwertz-and-shop.png"]


@pytest.mark.long
def test_instructions_follow_each_other_each_from_where_the_last_flight_ended(quick_pvn, undrawn, printed):
    said = ["go to the gorilla", "turn lift", "fly to the qwertz"]
    command = " ".join(
        ["pvn fly", *(f'"{words}"' for words in said), f"--field 3 --agent {quick_pvn} --quality fast --out out"]
    )
    flights = json.loads(printed(f"{command} --json"))
    assert [flight["instruction"] for flight in flights] == said and flights[2]["unknown_words"] == ["qwertz"]
    assert [flight["read_as"] for flight in flights] == [{}, {"lift": "left"}, {}]
    for before, after in pairwise(flights):
        assert after["start"] == before["end"]
    assert flights[0]["start"] == list(sample_paragraph(3)[0].task.start)
    assert all(flight["place"] in flight["outcome"] and flight["goal_distance"] is None for flight in flights)
    assert rows(printed(command)) == [(str(number), words) for number, words in enumerate(said, start=1)]
    names = ["field3_go-to-the-gorilla_paragraph.png", "field3_go-to-the-gorilla_paragraph_run2.png"]
    assert pictures("out") == names, "the second does not replace the first"


@pytest.mark.long
def test_your_own_words_start_where_you_say_in_a_field_without_a_tour(undrawn, printed):
    write_layout(Layout((Landmark("Well", 30.0, 25.0, 5.0, 0.0),)), Path("bare.json"))
    text = printed('pvn fly "go to the well" --field bare.json --start 20 25 0 --quality fast --device cpu')
    assert rows(text) == [("1", "go to the well")]


@pytest.mark.long
def test_flights_that_should_end_with_a_turn_say_how_far_off_they_face(undrawn, printed):
    """Success is about the place alone; the oracle does not turn at the goal."""
    command = "pvn fly --field 0 --segment 1 2 --agent oracle --quality fast --out out"
    plain, turned = json.loads(printed(f"{command} --json"))
    wanted = sample_paragraph(0)[1].demonstration.turned_to
    assert plain["degrees_off"] is None
    assert turned["degrees_off"] == pytest.approx(
        abs(math.degrees(math.remainder(turned["end"][2] - wanted, math.tau)))
    )
    assert turned["degrees_off"] > 45 and f"but faces {turned['degrees_off']:.0f}" in " ".join(printed(command).split())


@pytest.mark.long
def test_an_agents_own_file_flies_under_the_name_of_its_folder(undrawn, printed, refused):
    Path("mine").mkdir()
    for suffix in (".json", ".safetensors"):
        shutil.copy(shipped_weights("pvn").with_suffix(suffix), f"mine/agent{suffix}")
    text = printed(f"pvn fly --field {FIELD} --segment 2 --agent mine/agent.safetensors --quality fast")
    assert f"mine in field {FIELD}" in text
    Path("runs").mkdir()
    Path("mine").rename("runs/gsmn")
    message = refused("pvn fly --agent gsmn --runs runs")
    assert "holds an agent of class PVN, expected GSMN" in message, "a PVN does not fly under another's name"


@pytest.mark.long
def test_record_writes_recording_film_and_summary_instead_of_a_picture(printed):
    pytest.importorskip("imageio_ffmpeg")
    text = printed("pvn fly --field 3 --segment 2 --agent stop --record --out saved")
    endings = [".mp4", ".png", ".rrd"] if flight_files.has_rerun() else [".mp4", ".png"]
    assert pictures("saved") == [f"field3_2{ending}" for ending in endings]
    for ending, kind in ((".mp4", "film"), (".png", "picture")):
        assert f"{kind}: saved/field3_2{ending}" in text and Path(f"saved/field3_2{ending}").stat().st_size > 1e4
    assert imread("saved/field3_2.png").shape[0] > 500 and "m from the goal" in text


def test_what_is_not_installed_is_said_in_one_line_and_the_rest_is_written(bare, printed):
    text = printed("pvn fly --field 3 --segment 2 --agent stop --record --out saved")
    assert 'pip install "pvn-drone[app]"' in text and "rerun" in text and "ffmpeg" in text
    assert pictures("saved") == ["field3_2.png"]


@pytest.mark.long
def test_recorded_flights_are_those_that_are_drawn(bare, corpus, printed):
    segment = read_corpus(corpus)["dev"][0].id
    for options in (f"--corpus corpus --segment {segment} --agent oracle", "--field 3 --segment 1 2 --agent average"):
        drawn, recorded = (printed(f"pvn fly {options} {how} --out out") for how in ("", "--record"))
        table = [line for line in drawn.splitlines() if line.startswith("│")]
        assert table and table == [line for line in recorded.splitlines() if line.startswith("│")]


@pytest.mark.long
def test_nothing_is_overwritten_but_a_file_that_is_named(bare, printed):
    for run in ("", "_run2", "_run3"):
        text = printed(f"pvn fly --field {FIELD} --segment 1 2 --agent stop --out out")
        assert all(f"picture: out/field{FIELD}_{number}{run}.png" in text for number in (1, 2))
    assert len(pictures("out")) == 6
    for _ in range(2):
        text = printed(f"pvn fly --field {FIELD} --segment 1 --agent stop --out mine.png")
        assert "picture: mine.png" in text and Path("mine.png").is_file()


def test_an_instruction_gives_a_file_its_name():
    assert slug("Go to the  gorilla, then stop!") == "go-to-the-gorilla-then-stop"
    long = slug("fly between the gorilla and the fire hydrant until you reach the fence")
    assert long == "fly-between-the-gorilla-and-the-fire" and len(long) <= SLUG_LENGTH, "whole words"
    assert slug("x" * 99) == "x" * SLUG_LENGTH and slug("../a/b") == "a-b" and slug("…") == "flight"


@pytest.mark.long
def test_a_flight_starts_where_the_picture_of_its_field_says(undrawn, quick_pvn, printed):
    for options in ("--field 3", "--seed 5"):
        drawn = printed(f"pvn show field {options}")
        typed = printed(f"pvn fly 'go on' {options} --agent {quick_pvn} --quality fast")
        toured = printed(f"pvn fly {options} --segment 1 --agent stop")
        starts = [re.search(r"starts at x .*? \(--start (.*?)\)", text)[1] for text in (drawn, typed, toured)]
        assert starts[0] == starts[1] == starts[2]
    given = printed(f"pvn fly 'go on' --field 3 --start 20 30.5 -1.6 --agent {quick_pvn} --quality fast")
    assert "starts at x 20.0 m, y 30.5 m, facing south (--start 20.00 30.50 -1.60)" in given


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("pvn fly go to the tree", 'got 4 of one word each, expected one in quotes: "go to the tree"'),
        ("pvn fly --agent stop --out a.png", "out: got the file a.png for 5 pictures, expected a folder, or one"),
        ("pvn fly --record --out a.png", "out: got the file a.png with --record, expected a folder"),
        ("pvn fly --segment 9", "segment: got '9', expected 1 to 5"),
        ('pvn fly --segment 2 "go home"', "got 'go home', expected 1 to 5; put the instruction before the options"),
        ('pvn fly "go home" --segment 1 2', "segment: got 1 2 and an instruction, expected at most one"),
        ("pvn fly --corpus corpus", "corpus: got no segment to fly, expected --segment"),
        ("pvn fly --corpus corpus --segment 1-99", "segment: got '1-99', expected the id of a segment"),
        ("pvn fly --corpus corpus --segment 1-0 --field 3", "field: got 3 and a corpus, expected one of them"),
        ("pvn fly --corpus corpus --segment 1-0 --seed 3", "seed: got 3 and a corpus, expected one of them"),
        ("pvn fly --corpus nowhere --segment 1-0", "no corpus in nowhere"),
        ("pvn fly --field 3 --seed -1", "seed: got -1"),
        ("pvn fly --start 1 2 0", "start: got no instruction"),
        ("pvn fly --agent stop --out file", "out: got file, which is a file, expected a folder"),
        ('pvn fly "  ..."', "instruction: got '...', which has no words"),
        ('pvn fly "🐘"', "instruction: got '🐘', which has no words, expected a sentence such as"),
        ('pvn fly "go on" "大象"', "got '大象', but '大象' is not a word I know, expected an English sentence"),
        ('pvn fly "to the yak"', "got 'to the yak', but 'yak' is not a word I know, and nothing else in it says what"),
        (f'pvn fly "{"go " * 500}"', "got 500 words and 1,499 characters, expected at most 100 words"),
        ('pvn fly "go home" --agent stop', "agent: got stop, which reads no instructions"),
        ('pvn fly "go home" --agent oracle', "agent: got oracle, which reads no instructions"),
        ("pvn fly --agent pvn-no-aux", "pvn-no-aux: no weights in the package; name a folder of runs with --runs"),
        ("pvn fly --runs empty", "runs: got empty, which holds no runs"),
        ("pvn fly --agent file.safetensors", "no file file.json"),
    ],
)
def test_what_is_wrong_is_said_before_flying(command, message, corpus, refused):
    Path("file").touch()
    Path("file.safetensors").touch()
    Path("empty").mkdir()
    assert message in refused(command)
    assert not Path("pictures").exists()
