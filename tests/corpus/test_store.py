"""Corpora on disk: read back as they were, extended safely, and right whatever landmark classes are added later."""

import gc
import hashlib
import itertools
import json
import resource
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from pvn.corpus import store
from pvn.corpus.columns import pack_segments, share_of_columns
from pvn.corpus.segments import SOURCES, SPLITS, Annotation, Corpus, Segment, share_of
from pvn.corpus.store import append_segments, check_new, identity, read_corpus, read_share, write_corpus
from pvn.world.landmarks import LANDMARK_NAMES
from pvn.world.layout import Landmark, Layout
from pvn.world.task import Demonstration, Task


def test_a_corpus_is_read_back_as_it_was(meadow, tmp_path, are_same):
    write_corpus(meadow, tmp_path / "corpus", {"seed": 1})
    again = read_corpus(tmp_path / "corpus")
    assert again.name == "meadow" and are_same(meadow, again)
    assert store.origin(tmp_path / "corpus") == {"seed": 1}
    assert list(read_corpus(tmp_path / "corpus", ("dev",)).splits) == ["dev"]


@pytest.mark.parametrize("count", [2, 3, 50])
def test_shares_of_a_corpus_are_whole_environments_and_together_all_of_it(meadow, tmp_path, are_same, count):
    train = meadow["train"]
    cut = next(place for place in range(30, len(train)) if train[place].environment != train[place - 1].environment)
    write_corpus(replace(meadow, splits={**meadow.splits, "train": train[:cut]}), tmp_path / "corpus")
    append_segments(tmp_path / "corpus", "train", train[cut:])
    whole = read_corpus(tmp_path / "corpus")
    homes, together = {}, {split: {} for split in whole.splits}
    for index in range(count):
        share = read_share(tmp_path / "corpus", SPLITS, index, count)
        assert share.num_segments == {split: len(segments) for split, segments in whole.splits.items()}
        for split, segments in share.corpus.splits.items():
            for segment, place in zip(segments, share.places[split].tolist(), strict=True):
                assert homes.setdefault(segment.environment, index) == index
                together[split][place] = segment
    in_order = {split: tuple(found[place] for place in range(len(found))) for split, found in together.items()}
    assert are_same(replace(whole, splits=in_order), whole)
    if count == 2:
        sizes = [len(read_share(tmp_path / "corpus", ("train",), index, 2).corpus) for index in (0, 1)]
        assert min(sizes) > 0.3 * sum(sizes), "about equally many each"


def test_environments_in_parts_of_their_own_are_shared_out_as_in_memory(meadow, tmp_path):
    by_environment = [list(some) for _, some in itertools.groupby(meadow["train"], lambda one: one.environment)][:4]
    write_corpus(Corpus("parts", {"train": tuple(by_environment[0])}), tmp_path / "corpus")
    for segments in by_environment[1:]:
        append_segments(tmp_path / "corpus", "train", segments)
    whole = read_corpus(tmp_path / "corpus")
    for index in range(3):
        stored, here = read_share(tmp_path / "corpus", ("train",), index, 3), share_of(whole, index, 3)
        assert stored.places["train"].tolist() == here.places["train"].tolist() != []


def test_a_share_has_the_columns_of_its_own_fields_alone(meadow):
    columns = pack_segments(meadow["train"], LANDMARK_NAMES)
    parts = [share_of_columns(columns, index, 2)[0] for index in (0, 1)]
    for name in ("field_environment", "field_lake", "landmark_class", "segment_environment", "path", "instruction"):
        lengths = [len(part[name]) for part in parts]
        assert sum(lengths) == len(columns[name]) and min(lengths) > 0
    assert all(set(part["segment_environment"]) == set(part["field_environment"]) for part in parts)


def test_a_share_of_a_corpus_in_memory_is_whole_environments_too(meadow):
    shares = [share_of(meadow, index, 3) for index in range(3)]
    homes = [{segment.environment for segment in share.corpus} for share in shares]
    assert all(homes) and sum(map(len, homes)) == len(set.union(*homes))
    for split, segments in meadow.splits.items():
        pairs = [zip(share.places[split].tolist(), share.corpus[split], strict=True) for share in shares]
        assert {place: segment for some in pairs for place, segment in some} == dict(enumerate(segments))
    first = [segment for share in shares for segment in share.among_first("dev", 5)]
    assert sorted(map(meadow["dev"].index, first)) == [0, 1, 2, 3, 4] and shares[0].among_first("test", 0) == []


def test_a_damaged_column_is_noticed_by_every_share(meadow, tmp_path):
    write_corpus(meadow, tmp_path / "corpus")
    path = tmp_path / "corpus" / "dev-00000.safetensors"
    columns = load_file(path)
    columns["path"][0] = np.nan
    save_file(columns, path)
    manifest = json.loads((tmp_path / "corpus" / "corpus.json").read_text())
    for part in manifest["parts"]:
        del part["sha256"]
    del manifest["sha256"]
    (tmp_path / "corpus" / "corpus.json").write_text(json.dumps(manifest))
    for index in (0, 1):
        with pytest.raises(ValueError, match="path: got NaN or infinite numbers"):
            read_share(tmp_path / "corpus", ("dev",), index, 2)


def test_python_looks_for_no_garbage_while_a_corpus_is_read(meadow, tmp_path, monkeypatch):
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


def test_writing_the_same_corpus_twice_gives_the_same_bytes(meadow, tmp_path):
    for name in ("one", "two"):
        write_corpus(meadow, tmp_path / name)
    for file in sorted((tmp_path / "one").iterdir()):
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()


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
    """As an append leaves behind that was killed before its last step."""
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
        (text.replace('"sha256": ', '"sha257": ').replace('"meadow"', '"shadow"'), "got the key 'sha257', expected"),
        (json.dumps({"version": 1, "name": "x", "parts": [], "landmark_classes": [3]}), "expected a list of names"),
    ):
        manifest.write_text(broken)
        with pytest.raises(ValueError, match=message):
            read_corpus(folder)


def test_what_a_killed_process_left_behind_is_removed(meadow, tmp_path):
    stale = tmp_path / ".corpus.partial"
    stale.mkdir()
    (stale / "train-00007.safetensors").write_text("half")
    write_corpus(Corpus("meadow", {"dev": meadow["dev"]}), tmp_path / "corpus")
    assert not stale.exists() and len(list((tmp_path / "corpus").iterdir())) == 2


def test_places_that_cannot_be_written_to_are_refused_before_any_work(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OSError, match="cannot create this folder"):
        check_new(tmp_path / "file" / "corpus")
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(FileExistsError, match="exists already"):
        check_new(tmp_path / "dangling")


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


# Parts that were changed.


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


def test_a_changed_manifest_is_noticed(meadow, tmp_path):
    write_corpus(meadow, tmp_path / "corpus")
    manifest = tmp_path / "corpus" / "corpus.json"
    manifest.write_text(manifest.read_text().replace("Barrel2", "Barrel3"))
    with pytest.raises(ValueError, match=r"corpus.json: changed since it was written"):
        read_corpus(tmp_path / "corpus")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("start", lambda value: value.astype(np.float32), "start: got float32 .*, expected float64"),
        ("start", lambda value: value[:, :2], "start: got float64"),
        ("path", lambda value: value + np.nan, "path: got NaN or infinite numbers"),
        ("path_offset", lambda value: value[::-1].copy(), "path_offset: expected numbers that rise from 0 to"),
        ("instruction_offset", lambda value: value + 1, "instruction_offset: expected numbers that rise"),
        ("landmark_offset", lambda value: value[:0], "landmark_offset: expected numbers"),
        ("is_seen", lambda value: value.astype(np.int64), "is_seen: got int64"),
        ("field_lake", lambda value: value[:, :7].copy(), "field_lake: got uint8"),
    ],
)
def test_columns_that_cannot_be_a_parts_are_refused_also_without_checksums(meadow, tmp_path, name, change, message):
    write_corpus(meadow, tmp_path / "corpus")
    without_checksums(tmp_path / "corpus")
    part = tmp_path / "corpus" / "dev-00000.safetensors"
    columns = load_file(part)
    save_file(columns | {name: change(columns[name])}, part)
    with pytest.raises(ValueError, match=rf"dev-00000.safetensors: not a part of a corpus \({message}"):
        read_corpus(tmp_path / "corpus")


# Source and author are columns that earlier corpora lack.


def without_checksums(folder):
    """The corpus as it was written before manifests had checksums."""
    manifest = json.loads((folder / "corpus.json").read_text())
    del manifest["sha256"]
    for part in manifest["parts"]:
        del part["sha256"]
    (folder / "corpus.json").write_text(json.dumps(manifest, indent=1) + "\n")


def without_sources(folder):
    """The corpus as it was written before segments had sources and authors."""
    without_checksums(folder)
    for path in folder.glob("*.safetensors"):
        columns = {
            name: column for name, column in load_file(path).items() if not name.startswith(("source", "author"))
        }
        save_file(columns, path)


def test_corpora_without_sources_are_read_as_what_they_were_made_from(meadow, tmp_path, are_same):
    write_corpus(meadow, tmp_path / "corpus")
    identity_before = identity(tmp_path / "corpus")
    without_sources(tmp_path / "corpus")
    assert are_same(meadow, read_corpus(tmp_path / "corpus")), "phrases, by the authors of the phrases"
    assert identity(tmp_path / "corpus") == identity_before, "so that flights and runs of before still fit"


@pytest.mark.parametrize(("name", "source"), [("lani", "lani"), ("lani-6000", "lani"), ("mine", "phrases")])
def test_corpora_without_sources_and_annotations_are_told_apart_by_name(meadow, tmp_path, name, source):
    bare = tuple(replace(segment, annotation=None) for segment in meadow["dev"])
    write_corpus(Corpus(name, {"dev": bare}), tmp_path / "corpus")
    without_sources(tmp_path / "corpus")
    again = read_corpus(tmp_path / "corpus")["dev"]
    assert {(segment.source, segment.author) for segment in again} == {(source, None)}


# Landmark classes are stored by name.


def without_class_names(folder):
    """The corpus as it was written before manifests named the classes."""
    manifest = json.loads((folder / "corpus.json").read_text())
    del manifest["landmark_classes"]
    manifest.pop("sha256", None)
    (folder / "corpus.json").write_text(json.dumps(manifest, indent=1) + "\n")


def with_an_aardvark(segment, environment):
    """The segment, in a field that has an aardvark too."""
    layout = Layout((*segment.task.layout.landmarks, Landmark("Aardvark", 1.0, 1.0, 2.0)), segment.task.layout.lake)
    task = replace(segment.task, layout=layout)
    return replace(segment, environment=environment, demonstration=replace(segment.demonstration, task=task))


@pytest.mark.parametrize("is_old", [False, True], ids=["classes named", "classes not named"])
def test_a_stored_corpus_is_read_right_after_a_class_was_added(meadow, tmp_path, are_same, a_new_class, is_old):
    write_corpus(meadow, tmp_path / "corpus")
    if is_old:
        without_class_names(tmp_path / "corpus")
    with a_new_class():
        assert are_same(meadow, read_corpus(tmp_path / "corpus"))
    assert are_same(meadow, read_corpus(tmp_path / "corpus"))


def test_a_corpus_of_more_classes_is_read_right_where_these_are_not_used(meadow, tmp_path, are_same, a_new_class):
    with a_new_class():
        write_corpus(Corpus("meadow", {"train": meadow["train"]}), tmp_path / "corpus")
    append_segments(tmp_path / "corpus", "dev", meadow["dev"])
    again = read_corpus(tmp_path / "corpus")
    assert are_same(again["train"], meadow["train"]) and are_same(again["dev"], meadow["dev"])


@pytest.mark.parametrize("is_old", [False, True], ids=["classes named", "classes not named"])
def test_an_added_class_is_appended_to_the_manifests_list(meadow, tmp_path, are_same, a_new_class, is_old):
    folder = tmp_path / "corpus"
    write_corpus(Corpus("meadow", {"train": meadow["train"]}), folder)
    if is_old:
        without_class_names(folder)
    with a_new_class():
        new = (with_an_aardvark(meadow["dev"][0], 10**6),)
        append_segments(folder, "dev", new)
        append_segments(folder, "test", meadow["test"])
        again = read_corpus(folder)
        assert again["dev"][0].task.layout.landmarks[-1].name == "Aardvark"
        assert are_same(again["train"], meadow["train"]) and are_same(again["dev"], new)
    assert json.loads((folder / "corpus.json").read_text())["landmark_classes"] == [*LANDMARK_NAMES, "Aardvark"]
    assert are_same(read_corpus(folder, ("test",))["test"], meadow["test"]), "parts without the new class"
    with pytest.raises(ValueError, match=r"dev-00000\.safetensors: got the landmark class 'Aardvark'.*version of pvn"):
        read_corpus(folder)


def test_the_identity_of_a_corpus_does_not_depend_on_whether_its_manifest_names_the_classes(meadow, tmp_path):
    folder = tmp_path / "corpus"
    write_corpus(Corpus("meadow", {"dev": meadow["dev"]}), folder, {"seed": 0})
    named = identity(folder)
    without_checksums(folder)
    without_class_names(folder)
    manifest = (folder / "corpus.json").read_text()
    before = hashlib.sha256(json.dumps(json.loads(manifest), sort_keys=True).encode()).hexdigest()
    assert named == identity(folder) == before, "as runs noted it before manifests named the classes"


def test_corpora_with_other_classes_have_another_identity(meadow, tmp_path, a_new_class):
    for name in ("one", "two"):
        write_corpus(Corpus("meadow", {"dev": meadow["dev"]}), tmp_path / name)
    with a_new_class():
        write_corpus(Corpus("meadow", {"dev": meadow["dev"]}), tmp_path / "three")
    assert identity(tmp_path / "one") == identity(tmp_path / "two") != identity(tmp_path / "three")


def test_the_list_of_classes_for_old_corpora_never_changes():
    names = " ".join(store.FIRST_LANDMARK_CLASSES)
    assert hashlib.sha256(names.encode()).hexdigest().startswith("edc1642773db2486"), "it is part of the file format"
