"""The corpus in the box: fields, tours and sentences as LANI's, the same every time, kept safely on disk."""

import json
import math
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pvn.corpus import store
from pvn.corpus.meadow.banks import bundled_banks, read_bank
from pvn.corpus.meadow.generator import SIZES, make_meadow, make_recipe, plan_split, split_sizes
from pvn.corpus.meadow.manoeuvre_checks import Piece, is_flown
from pvn.corpus.meadow.manoeuvres import SLOTS, parse_manoeuvre
from pvn.corpus.meadow.scene import Scene
from pvn.corpus.segments import SPLITS, Annotation, Corpus, Segment
from pvn.corpus.statistics import LANI, measure_corpus
from pvn.corpus.store import append_segments, check_new, read_corpus, write_corpus
from pvn.rollout.flight import fly, simulator_for
from pvn.rollout.oracle import Oracle
from pvn.simulator.simulator import SimulatorConfig
from pvn.world.layout import Landmark, Layout
from pvn.world.task import SUCCESS_M, Task

SIZE = 600


@pytest.fixture(scope="module")
def meadow():
    return make_meadow(bundled_banks(), size=SIZE, seed=1)


def same(one, other):
    return (
        one.id == other.id
        and one.annotation == other.annotation
        and one.task.layout == other.task.layout
        and one.task.start == other.task.start
        and one.task.instruction == other.task.instruction
        and np.array_equal(one.task.path, other.task.path)
    )


def all_same(one, other):
    return list(one.splits) == list(other.splits) and all(map(same, one, other)) and len(one) == len(other)


def test_sizes_are_lanis_and_scale():
    assert split_sizes(27_965) == SIZES == {"train": 19_758, "dev": 4_135, "test": 4_072}
    assert sum(split_sizes(1_000).values()) == pytest.approx(1_000, abs=1)
    for split, size in SIZES.items():
        plan = plan_split(split, size, seed=0, unseen_share=0.3)
        assert sum(len(field.is_seen) for field in plan) == size
        assert size / len(plan) == pytest.approx(4.66, abs=0.02)


def test_no_field_is_in_two_splits_and_a_paragraph_is_one_tour(meadow):
    for split, part in meadow.splits.items():
        fields = {segment.environment for segment in part}
        for other in set(SPLITS) - {split}:
            assert not fields & {segment.environment for segment in meadow[other]}
    for before, after in zip(meadow["train"], meadow["train"][1:], strict=False):
        if before.environment == after.environment:
            assert after.place == before.place + 1
            assert np.allclose(before.task.goal, after.task.start[:2])
            assert after.task.layout == before.task.layout


def test_the_same_seed_gives_the_same_corpus_and_another_another(meadow):
    again = make_meadow(bundled_banks(), size=SIZE, seed=1, num_processes=2)
    assert all_same(meadow, again), "also when two processes make it"
    other = make_meadow(bundled_banks(), size=60, seed=2)
    assert other["train"][0].task.layout != meadow["train"][0].task.layout


def test_a_split_alone_is_the_split_of_the_whole(meadow):
    alone = make_meadow(bundled_banks(), size=SIZE, seed=1, only=("test",))
    assert list(alone.splits) == ["test"]
    assert all(map(same, alone["test"], meadow["test"]))


def test_thirty_percent_of_dev_and_test_use_phrases_that_training_never_uses(meadow):
    trained = {segment.annotation.phrase for segment in meadow["train"]}
    assert all(segment.annotation.is_seen for segment in meadow["train"])
    for split in ("dev", "test"):
        new = [segment for segment in meadow[split] if not segment.annotation.is_seen]
        assert len(new) == round(0.3 * len(meadow[split]))
        assert not {segment.annotation.phrase for segment in new} & trained


def test_no_wording_is_both_held_out_and_trained():
    recipe = make_recipe(bundled_banks(), seed=0, noise=0.0, is_all_unseen=False)
    words = [
        {
            " ".join(phrase.say.lower().replace(",", "").replace(".", "").split())
            for group in stock.phrases.values()
            for phrase in group
        }
        for stock in (recipe.seen, recipe.unseen)
    ]
    assert len(words[0]) > 2_000 and len(words[1]) > 400
    assert not words[0] & words[1]


def test_every_segment_is_flown_as_its_manoeuvres_say(meadow):
    """Read off the stored path, whose points are a metre apart: its pieces fit the definitions."""
    checked = Counter()
    for segment in meadow["train"]:
        note, task = segment.annotation, segment.task
        scene = Scene.of(task.layout)
        meant = dict(zip(SLOTS, note.meant, strict=False))
        begin, heading = 0, task.start[2]
        for text, stop in zip(note.manoeuvres, note.stops, strict=True):
            points = task.path[begin : stop + 1]
            at = np.arange(0, len(points) - 0.99, 0.25)
            fine = np.stack([np.interp(at, np.arange(len(points)), column) for column in points.T], axis=-1)
            manoeuvre = parse_manoeuvre(text)
            if manoeuvre.kind in ("goto", "between", "toward", "fence", "lake"):
                piece = Piece(fine, heading, heading)
                assert is_flown(manoeuvre, piece, scene, meant), (segment.id, text)
                checked[manoeuvre.kind] += 1
            if len(points) > 1:
                heading = math.atan2(*(points[-1] - points[-2])[::-1])
            begin = stop
        assert stop == len(task.path) - 1
    assert min(checked[kind] for kind in ("goto", "between", "toward", "fence")) >= 10


def test_paths_can_be_flown_at_three_metres_a_second(meadow):
    tasks = [segment.task for segment in meadow["dev"]]
    log = fly(simulator_for(tasks, config=SimulatorConfig(quality="none")), tasks, Oracle())
    assert bool((log.has_stopped & (log.goal_distance(tasks) < SUCCESS_M)).all())
    gaps = []
    for task, poses in zip(tasks, log.pose_world[:, :, :2].numpy(), strict=True):
        off = np.hypot(*(poses[:, None] - task.path[None]).transpose(2, 0, 1))
        gaps.append(off.min(axis=1).mean())
    assert np.mean(gaps) < 0.6, "the oracle stays close to the demonstrated paths"


def test_statistics_are_within_fifteen_percent_of_lanis_where_the_size_allows(meadow):
    report = measure_corpus(meadow)
    for name in ("segments_per_paragraph", "tokens_per_segment", "landmarks_least", "landmarks_most"):
        assert report[name] == pytest.approx(LANI[name], rel=0.15), name
    reach = [np.hypot(*(segment.task.path[-1] - segment.task.start[:2])) for segment in meadow]
    assert np.mean(reach) == pytest.approx(LANI["start_goal_mean_m"], rel=0.15)
    assert np.median(reach) == pytest.approx(LANI["start_goal_median_m"], rel=0.15)
    assert 0 < report["stop_success_percent"] < report["average_success_percent"] < 40
    assert report["ambiguous_share"] < 0.05
    assert set(report["phenomena"]) == {
        "co-reference", "temporal order", "trajectory shape", "spatial relation", "several landmarks",
    }  # fmt: skip
    assert all(0.05 < share < 0.95 for share in report["phenomena"].values())


def test_a_corpus_is_read_back_as_it_was(meadow, tmp_path):
    write_corpus(meadow, tmp_path / "corpus", {"seed": 1})
    again = read_corpus(tmp_path / "corpus")
    assert again.name == "meadow" and all_same(meadow, again)
    assert store.origin(tmp_path / "corpus") == {"seed": 1}
    assert list(read_corpus(tmp_path / "corpus", ("dev",)).splits) == ["dev"]


def test_writing_the_same_corpus_twice_gives_the_same_bytes(meadow, tmp_path):
    for name in ("one", "two"):
        write_corpus(meadow, tmp_path / name)
    for file in sorted((tmp_path / "one").iterdir()):
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()


def test_environments_are_appended_without_touching_what_is_there(meadow, tmp_path):
    train = meadow["train"]
    half = next(place for place in range(200, len(train)) if train[place].place == 0)
    folder = tmp_path / "corpus"
    write_corpus(Corpus("meadow", {"train": train[:half]}), folder)
    before = {file.name: file.read_bytes() for file in folder.glob("*.safetensors")}
    append_segments(folder, "train", train[half:])
    append_segments(folder, "dev", meadow["dev"])
    for name, content in before.items():
        assert (folder / name).read_bytes() == content
    again = read_corpus(folder)
    assert all(map(same, again["train"], train)) and all(map(same, again["dev"], meadow["dev"]))
    with pytest.raises(ValueError, match="occurs twice"):
        append_segments(folder, "train", train[half:])
    assert len(read_corpus(folder)["train"]) == len(train)


@pytest.fixture
def small_disk():
    """No file may grow beyond 20 kB, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, before)
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_an_append_that_fails_leaves_the_corpus_as_it_was(meadow, tmp_path, small_disk):
    folder = tmp_path / "corpus"
    write_corpus(Corpus("meadow", {"dev": meadow["dev"][:2]}), folder)
    files = sorted(folder.iterdir())
    with pytest.raises(OSError, match="File too large"):
        append_segments(folder, "test", meadow["test"])
    assert sorted(folder.iterdir()) == files
    assert list(read_corpus(folder).splits) == ["dev"]
    small_disk()  # lifts the limit
    append_segments(folder, "test", meadow["test"])
    assert all(map(same, read_corpus(folder)["test"], meadow["test"]))


def test_a_part_that_no_manifest_lists_is_no_part_of_the_corpus(meadow, tmp_path):
    """What an append leaves that was killed before its last step."""
    folder, other = tmp_path / "corpus", tmp_path / "other"
    write_corpus(Corpus("meadow", {"dev": meadow["dev"]}), folder)
    write_corpus(Corpus("meadow", {"test": meadow["test"]}), other)
    (other / "test-00000.safetensors").rename(folder / "test-00000.safetensors")
    assert list(read_corpus(folder).splits) == ["dev"]
    append_segments(folder, "test", meadow["test"])
    assert all(map(same, read_corpus(folder)["test"], meadow["test"]))


def test_a_full_disk_leaves_nothing_half_written(meadow, tmp_path, small_disk):
    with pytest.raises(OSError, match=r"corpus: File too large; nothing was written"):
        write_corpus(meadow, tmp_path / "corpus")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists_is_not_overwritten(meadow, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="exists already; remove it, or choose another"):
        write_corpus(meadow, tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_broken_corpora_say_what_is_wrong(meadow, tmp_path):
    folder = tmp_path / "corpus"
    with pytest.raises(FileNotFoundError, match="no corpus in .*pvn corpus make"):
        read_corpus(folder)
    write_corpus(Corpus("meadow", {"dev": meadow["dev"]}), folder)
    part, manifest = folder / "dev-00000.safetensors", folder / "corpus.json"
    whole, text = part.read_bytes(), manifest.read_text()
    part.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="dev-00000.safetensors: not a part of a corpus"):
        read_corpus(folder)
    part.unlink()
    with pytest.raises(FileNotFoundError, match="which corpus.json lists"):
        read_corpus(folder)
    part.write_bytes(whole)
    for broken, message in (
        ("{", "not valid JSON"),
        ("[]", "expected the keys"),
        (text.replace('"version": 1', '"version": 9'), "got version 9"),
        (json.dumps({"version": 1, "name": "x", "parts": [{"split": "train"}]}), "expected a file and a split"),
        (json.dumps({"version": 1, "name": "x", "parts": ["a"]}), "expected a file and a split"),
    ):
        manifest.write_text(broken)
        with pytest.raises(ValueError, match=message):
            read_corpus(folder)


def test_what_a_dead_process_left_is_in_nobodys_way(meadow, tmp_path):
    stale = tmp_path / ".corpus.partial"
    stale.mkdir()
    (stale / "train-00007.safetensors").write_text("half")
    write_corpus(Corpus("meadow", {"dev": meadow["dev"]}), tmp_path / "corpus")
    assert not stale.exists() and len(list((tmp_path / "corpus").iterdir())) == 2


def test_places_that_cannot_be_written_to_are_refused_before_any_work(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OSError, match="cannot be made into a folder"):
        check_new(tmp_path / "file" / "corpus")
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(FileExistsError, match="exists already"):
        check_new(tmp_path / "dangling")


def test_a_corpus_refuses_fields_in_two_splits_and_segments_twice(meadow):
    one = meadow["train"][0]
    with pytest.raises(ValueError, match="is in train and in dev"):
        Corpus("x", {"train": (one,), "dev": (replace(one, place=9),)})
    with pytest.raises(ValueError, match="occurs twice"):
        Corpus("x", {"train": (one, one)})
    with pytest.raises(ValueError, match=f"got 'nowhere', expected .* such as '{one.id}'"):
        meadow.segment("nowhere")
    assert meadow.segment(one.id) is one


coordinates = st.floats(0, 50, allow_nan=False)
texts = st.text(min_size=1, max_size=40)


@st.composite
def segments(draw):
    """Any segment at all, with any text."""
    marks = draw(st.lists(st.tuples(coordinates, coordinates), max_size=1))
    lake = np.zeros((100, 100), bool)
    lake[draw(st.integers(0, 99)), draw(st.integers(0, 99))] = draw(st.booleans())
    layout = Layout(tuple(Landmark("Barrel", x, y, 4.0, 0.1) for x, y in marks), lake)
    path = draw(st.lists(st.tuples(coordinates, coordinates), min_size=2, max_size=9))
    note = None
    if draw(st.booleans()):
        note = Annotation(
            ("pass A left", "goto B"), (0, len(path) - 1), (0,) * len(marks), "a1", draw(st.booleans()), False
        )
    task = Task(layout, draw(st.tuples(coordinates, coordinates, coordinates)), np.array(path), draw(texts))
    return Segment(draw(st.integers(0, 10**12)), draw(st.integers(0, 1000)), task, note)


@settings(max_examples=60, deadline=None)
@given(st.lists(segments(), min_size=1, max_size=4, unique_by=lambda segment: segment.environment))
def test_any_segments_survive_the_columns(tmp_path_factory, some):
    folder = tmp_path_factory.mktemp("corpora") / "corpus"
    corpus = Corpus("any", {"train": tuple(some)})
    write_corpus(corpus, folder)
    assert all_same(corpus, read_corpus(folder))


def bank_file(tmp_path, **changes):
    content = {
        "author": "me",
        "phrases": [{"do": ["goto A"], "say": "fly to {A} now"}, {"do": ["pass A left"], "say": "keep {A} left"}],
    }
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(content | changes))
    return path


def test_a_bank_of_ones_own_makes_a_test_only_corpus_in_which_every_phrase_is_unseen(tmp_path):
    bank = read_bank(bank_file(tmp_path))
    corpus = make_meadow([bank], size=60, only=("test",), is_all_unseen=True, noise=0.0)
    assert list(corpus.splits) == ["test"]
    for segment in corpus["test"]:
        assert not segment.annotation.is_seen
        assert segment.task.instruction.startswith(("fly to the ", "keep the "))


@pytest.mark.parametrize(
    "dos",
    [["goto A"], ["fence COLOR"], ["goto A", "pass A left", "fence COLOR"], ["lake"], ["turn left", "goto A"]],
    ids=" + ".join,
)
def test_a_small_bank_can_make_all_splits_and_then_nothing_is_unseen(tmp_path, dos):
    slots = {"goto": "{A}", "pass": "{A}", "fence": "{F}", "lake": "{W}", "turn": "left"}
    phrases = [{"do": [do], "say": f"fly {slots[do.split()[0]]} now"} for do in dos]
    corpus = make_meadow([read_bank(bank_file(tmp_path, phrases=phrases))], size=60)
    assert set(corpus.splits) == set(SPLITS)
    assert all(segment.annotation.is_seen for segment in corpus), "too few phrases to hold one out"


def test_phrases_that_only_turn_are_neither_flown_nor_held_out(tmp_path):
    turns = [{"do": ["turn left"], "say": f"turn left {number}"} for number in range(6)]
    flown = [{"do": ["goto A"], "say": f"fly to {{A}} {number}"} for number in range(6)]
    corpus = make_meadow([read_bank(bank_file(tmp_path, phrases=turns + flown))], size=60)
    assert all(segment.annotation.manoeuvres == ("goto A",) for segment in corpus)
    assert not all(segment.annotation.is_seen for segment in corpus["dev"])


def test_a_landmark_named_twice_is_the_same_one(tmp_path):
    phrases = [{"do": ["goto A", "between A B through"], "say": "to {A}, then between it and {B}"}]
    corpus = make_meadow([read_bank(bank_file(tmp_path, phrases=phrases))], size=30)
    for segment in corpus:
        first = segment.task.layout.landmarks[segment.annotation.meant[0]]
        end = segment.task.path[segment.annotation.stops[0]]
        assert np.hypot(first.x - end[0], first.y - end[1]) <= 1.2 * first.radius


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"author": "me 2"}, "author: got me 2, expected a name of letters"),
        ({"phrases": []}, "phrases: got \\[\\], expected a list with at least one phrase"),
        ({"phrases": ["go"]}, "phrase 0: phrase: got go, expected an object such as"),
        ({"phrases": [{"do": ["goto A"], "say": "  "}]}, "say: got no words"),
        (
            {"phrases": [{"do": ["goto A"], "say": "fly to it"}]},
            "phrase 0 \\('fly to it'\\): slots: got none, expected {A}",
        ),
        ({"phrases": [{"do": ["goto A"], "say": "fly to {A} and {B}"}]}, "slots: got {A}, {B}, expected {A}"),
        ({"phrases": [{"do": ["goto A"], "say": "fly to {A} past {W}"}]}, "slots: got {A}, {W}, expected {A}"),
        ({"phrases": [{"do": ["fence COLOR"], "say": "fly to {A}"}]}, "slots: got {A}, expected {F}"),
        ({"phrases": [{"do": ["goto A"], "say": "fly to the {A}"}]}, "no article before a slot"),
        ({"phrases": [{"do": ["goto A"], "say": "fly to {A"}]}, "slots: got none, expected {A}"),
        ({"phrases": [{"do": ["goto B"], "say": "fly to {B}"}]}, "landmarks named A, B, C in the order they come"),
        ({"phrases": [{"do": ["goto A"] * 4, "say": "fly to {A}"}]}, "expected one to 3 manoeuvres"),
        ({"phrases": [{"do": ["fly A"], "say": "fly to {A}"}]}, "expected one of the closed set"),
        (
            {"references": {"Barel": ["barrel"]}},
            "got 'Barel', expected one of the 63 landmark classes, such as 'Barrel'",
        ),
        (
            {"references": {"Barrel": ["the barrel"]}},
            "references of Barrel: got 'the barrel', expected 'barrel', without",
        ),
        ({"references": {"Barrel": [1]}}, "references of Barrel: got \\[1\\], expected a list of noun phrases"),
        ({"phrases": [{"do": ["fence blue"], "say": "fly to {F}"}]}, "expected fence COLOR"),
        (
            {"phrases": [{"do": ["fence COLOR", "turn left", "fence COLOR"], "say": "{F} then left to {F}"}]},
            "at most one fence",
        ),
        ({"phrases": [{"do": ["goto A"], "say": "fly to {A} \ud83d"}]}, "half characters"),
        ({"lake": ["{COLOR} lake"]}, "lake: got '{COLOR} lake', expected plain words"),
        ({"fence": ["fence"]}, "fence: got 'fence', expected one {COLOR} in it"),
    ],
)
def test_a_bad_bank_names_the_file_the_phrase_and_the_reason(tmp_path, changes, message):
    path = bank_file(tmp_path, **changes)
    with pytest.raises(ValueError, match=message) as error:
        read_bank(path)
    assert "mine.json" in str(error.value)


def test_a_missing_or_broken_bank_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="no bank file"):
        read_bank(tmp_path / "none.json")
    (tmp_path / "broken.json").write_text('{"author": ')
    with pytest.raises(ValueError, match="broken.json: not valid JSON"):
        read_bank(tmp_path / "broken.json")


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="size: got 3, expected at least 20"):
        make_meadow(bundled_banks(), size=3)
    with pytest.raises(ValueError, match="noise: got 2"):
        make_meadow(bundled_banks(), size=60, noise=2.0)
    with pytest.raises(ValueError, match="seed: got -1"):
        make_meadow(bundled_banks(), size=60, seed=-1)


@pytest.mark.slow
def test_the_full_corpus_is_made_in_a_minute_and_read_in_two_seconds_within_a_gigabyte(tmp_path):
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "pvn.cli", "corpus", "make", "--out", tmp_path / "full"], check=True)
    assert time.perf_counter() - began < 60
    code = (
        "import resource, time; from pvn.corpus.store import read_corpus; began = time.perf_counter();"
        f"corpus = read_corpus({str(tmp_path / 'full')!r}); spent = time.perf_counter() - began;"
        "print(len(corpus), spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env=os.environ).stdout
    count, spent, kilobytes = map(float, printed.split())
    assert count == 27_965 and spent < 2.0 and kilobytes < 1_000_000
