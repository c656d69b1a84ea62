"""Corpora on disk: read back as they were, extended safely, and right whatever landmark classes are added later."""

import gc
import json
import resource
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pvn.corpus import store
from pvn.corpus.segments import SOURCES, Annotation, Corpus, Segment
from pvn.corpus.store import (
    append_segments,
    check_columns,
    check_new,
    classes_of,
    identity,
    pack_segments,
    read_corpus,
    write_corpus,
)
from pvn.world.lakes import LAKE_CELLS
from pvn.world.layout import FIELD_SIZE, Landmark, Layout
from pvn.world.task import Demonstration, Task


def test_a_corpus_is_read_back_as_it_was(meadow, tmp_path, are_same):
    write_corpus(meadow, tmp_path / "corpus", {"seed": 1})
    again = read_corpus(tmp_path / "corpus")
    assert again.name == "meadow" and are_same(meadow, again)
    assert store.origin(tmp_path / "corpus") == {"seed": 1}
    assert list(read_corpus(tmp_path / "corpus", ("dev",)).splits) == ["dev"]
    assert store.count_segments(tmp_path / "corpus") == {split: len(part) for split, part in meadow.splits.items()}


def test_garbage_collection_is_off_while_a_corpus_is_read(meadow, tmp_path, monkeypatch):
    """There is none to be found; looking took a quarter of the time."""
    write_corpus(meadow, tmp_path / "corpus")
    read_part, looks = store._read_part, []
    monkeypatch.setattr(store, "_read_part", lambda *about: looks.append(gc.isenabled()) or read_part(*about))
    read_corpus(tmp_path / "corpus")
    assert len(looks) > 1 and not any(looks) and gc.isenabled()
    (tmp_path / "corpus" / "dev-00000.safetensors").unlink()
    with pytest.raises((ValueError, OSError)):
        read_corpus(tmp_path / "corpus")
    assert gc.isenabled(), "also after an error"


def test_the_same_corpus_has_the_same_bytes_and_identity_and_another_text_changes_them(meadow, tmp_path):
    for name in ("one", "two"):
        write_corpus(meadow, tmp_path / name)
    for file in sorted((tmp_path / "one").iterdir()):
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()
    first = meadow["dev"][0]
    task = replace(first.task, instruction="go")
    changed = replace(first, demonstration=replace(first.demonstration, task=task))
    write_corpus(Corpus("meadow", {**meadow.splits, "dev": (changed, *meadow["dev"][1:])}), tmp_path / "three")
    assert identity(tmp_path / "one") == identity(tmp_path / "two") != identity(tmp_path / "three")


def test_environments_are_appended_without_rewriting_existing_parts(meadow, tmp_path, are_same):
    train = meadow["train"]
    half = next(place for place in range(100, len(train)) if train[place].place == 0)
    folder = tmp_path / "corpus"
    write_corpus(Corpus("meadow", {"train": train[:half]}), folder)
    before = {file.name: file.read_bytes() for file in folder.glob("*.safetensors")}
    append_segments(folder, "train", train[half:])
    append_segments(folder, "dev", meadow["dev"])
    for name, content in before.items():
        assert (folder / name).read_bytes() == content
    again = read_corpus(folder)
    assert are_same(again["train"], train) and are_same(again["dev"], meadow["dev"])
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


def test_an_append_that_fails_leaves_the_corpus_as_it_was(meadow, tmp_path, small_disk, are_same):
    folder = tmp_path / "corpus"
    write_corpus(Corpus("meadow", {"dev": meadow["dev"][:2]}), folder)
    files = sorted(folder.iterdir())
    with pytest.raises(OSError, match="File too large"):
        append_segments(folder, "test", meadow["test"])
    assert sorted(folder.iterdir()) == files
    assert list(read_corpus(folder).splits) == ["dev"]
    small_disk()  # lifts the limit
    append_segments(folder, "test", meadow["test"])
    assert are_same(read_corpus(folder)["test"], meadow["test"])


def test_a_part_that_the_manifest_does_not_list_is_ignored(meadow, tmp_path, are_same):
    """As an append that is killed before its last step leaves behind."""
    folder, other = tmp_path / "corpus", tmp_path / "other"
    write_corpus(Corpus("meadow", {"dev": meadow["dev"]}), folder)
    write_corpus(Corpus("meadow", {"test": meadow["test"]}), other)
    (other / "test-00000.safetensors").rename(folder / "test-00000.safetensors")
    assert list(read_corpus(folder).splits) == ["dev"]
    append_segments(folder, "test", meadow["test"])
    assert are_same(read_corpus(folder)["test"], meadow["test"])


def test_a_full_disk_leaves_nothing_half_written(meadow, tmp_path, small_disk):
    with pytest.raises(OSError, match=r"corpus: File too large; nothing was written"):
        write_corpus(meadow, tmp_path / "corpus")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_behind_is_removed(meadow, tmp_path):
    stale = tmp_path / ".corpus.partial"
    stale.mkdir()
    (stale / "train-00007.safetensors").write_text("half")
    write_corpus(Corpus("meadow", {"dev": meadow["dev"]}), tmp_path / "corpus")
    assert not stale.exists() and len(list((tmp_path / "corpus").iterdir())) == 2


def test_places_that_cannot_be_written_to_are_refused_before_any_work(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError, match="exists already; remove it, or choose another"):
        check_new(tmp_path)
    with pytest.raises(OSError, match="cannot create this folder"):
        check_new(tmp_path / "file" / "corpus")
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(FileExistsError, match="exists already"):
        check_new(tmp_path / "dangling")


def test_broken_corpora_are_refused_with_the_reason(meadow, tmp_path):
    folder = tmp_path / "corpus"
    with pytest.raises(FileNotFoundError, match="no corpus in .*pvn corpus make"):
        read_corpus(folder)
    write_corpus(Corpus("meadow", {"dev": meadow["dev"]}), folder)
    part, manifest = folder / "dev-00000.safetensors", folder / "corpus.json"
    part.unlink()
    with pytest.raises(FileNotFoundError, match="which corpus.json lists"):
        read_corpus(folder)
    text = manifest.read_text()
    for broken, message in (
        ("{", "not valid JSON"),
        ("[]", "got version None, expected 2"),
        (text.replace('"version": 2', '"version": 1'), "got version 1, expected 2; make it again with `pvn corpus"),
        (text.replace("Barrel2", "Barrel3"), "changed since it was written"),
        (text.replace('"sha256": ', '"sha257": '), "changed since it was written"),
    ):
        manifest.write_text(broken)
        with pytest.raises(ValueError, match=message):
            read_corpus(folder)


@pytest.mark.parametrize("share", [0.001, 0.3, 0.7, 0.999])
def test_one_bit_changed_anywhere_in_a_part_is_noticed(meadow, tmp_path, share):
    write_corpus(meadow, tmp_path / "corpus")
    part = tmp_path / "corpus" / "dev-00000.safetensors"
    content = bytearray(part.read_bytes())
    content[int(share * len(content))] ^= 1
    part.write_bytes(content)
    with pytest.raises(ValueError, match=r"dev-00000.safetensors: not a part of a corpus \(it was changed since"):
        read_corpus(tmp_path / "corpus")
    assert len(read_corpus(tmp_path / "corpus", ("train",))["train"]) == len(meadow["train"]), "others are not read"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("start", lambda value: value.astype(np.float32), "start: got float32 .*, expected float64"),
        ("start", lambda value: value[:, :2], "start: got float64"),
        ("path", lambda value: value + np.nan, "path: got NaN or infinite numbers"),
        ("path_offset", lambda value: value[::-1].copy(), "path_offset: expected numbers that rise from 0 to"),
        ("instruction_offset", lambda value: value + 1, "instruction_offset: expected numbers that rise"),
        (
            "path_offset",
            lambda value: value[[0, 2, 1, *range(3, len(value))]],
            "path_offset: expected numbers that rise",
        ),
        ("landmark_offset", lambda value: value[:0], "landmark_offset: expected numbers"),
    ],
)
def test_columns_that_cannot_be_a_parts_are_refused(meadow, name, change, message):
    columns = pack_segments(meadow["dev"], classes_of(meadow["dev"]))
    check_columns(columns)
    with pytest.raises(ValueError, match=message):
        check_columns(columns | {name: change(columns[name])})
    del columns[name]
    with pytest.raises(ValueError, match=f"{name}: missing"):
        check_columns(columns)


coordinates = st.floats(0, FIELD_SIZE, allow_nan=False)
texts = st.text(min_size=1, max_size=40)


@st.composite
def segments(draw):
    """Any segment at all, with any text."""
    marks = draw(st.lists(st.tuples(coordinates, coordinates), max_size=1))
    lake = np.zeros((LAKE_CELLS, LAKE_CELLS), bool)
    cells = st.integers(0, LAKE_CELLS - 1)
    lake[draw(cells), draw(cells)] = draw(st.booleans())
    layout = Layout(tuple(Landmark("Barrel", x, y, 4.0, 0.1) for x, y in marks), lake)
    path = draw(st.lists(st.tuples(coordinates, coordinates), min_size=2, max_size=9))
    note = None
    if draw(st.booleans()):
        flags = draw(st.booleans()), draw(st.booleans())
        note = Annotation(("pass A left", "goto B"), (0, len(path) - 1), (0,) * len(marks), "a1", *flags)
    task = Task(layout, draw(st.tuples(coordinates, coordinates, coordinates)), draw(texts))
    demonstration = Demonstration(task, np.array(path), draw(st.none() | coordinates))
    source, author = draw(st.sampled_from(SOURCES)), draw(st.none() | texts)
    return Segment(draw(st.integers(0, 10**12)), draw(st.integers(0, 1000)), demonstration, note, source, author)


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(st.lists(segments(), min_size=1, max_size=4, unique_by=lambda segment: segment.environment))
def test_any_segments_survive_the_columns(tmp_path_factory, are_same, some):
    folder = tmp_path_factory.mktemp("corpora") / "corpus"
    corpus = Corpus("any", {"train": tuple(some)})
    write_corpus(corpus, folder)
    assert are_same(corpus, read_corpus(folder))


# Landmark classes are stored by name.


def with_an_aardvark(segment, environment):
    """The segment, in a field that has an aardvark too."""
    layout = Layout((*segment.task.layout.landmarks, Landmark("Aardvark", 1.0, 1.0, 2.0)), segment.task.layout.lake)
    task = replace(segment.task, layout=layout)
    return replace(segment, environment=environment, demonstration=replace(segment.demonstration, task=task))


def test_a_stored_corpus_is_read_right_after_a_class_was_added(meadow, tmp_path, are_same, a_new_class):
    write_corpus(meadow, tmp_path / "corpus")
    with a_new_class():
        assert are_same(meadow, read_corpus(tmp_path / "corpus"))
        write_corpus(meadow, tmp_path / "again")
    assert are_same(meadow, read_corpus(tmp_path / "again")), "the new class is not used"
    assert identity(tmp_path / "again") == identity(tmp_path / "corpus")


def test_an_added_class_comes_last_in_the_manifests_list(meadow, tmp_path, are_same, a_new_class):
    folder = tmp_path / "corpus"
    write_corpus(Corpus("meadow", {"train": meadow["train"]}), folder)
    with a_new_class():
        new = (with_an_aardvark(meadow["dev"][0], 10**6),)
        append_segments(folder, "dev", new)
        again = read_corpus(folder)
        assert are_same(again["train"], meadow["train"]) and are_same(again["dev"], new)
    assert json.loads((folder / "corpus.json").read_text())["landmark_classes"] == [
        *classes_of(meadow["train"]),
        "Aardvark",
    ]
    with pytest.raises(ValueError, match=r"corpus: got the landmark class 'Aardvark'.*version of pvn"):
        read_corpus(folder)
