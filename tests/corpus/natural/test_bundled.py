"""The natural instructions that come with the package."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pvn.corpus.meadow.generator import plan_split
from pvn.corpus.natural.bundled import FIRST_ENVIRONMENT, natural_corpus, natural_segments, write_natural
from pvn.corpus.segments import Corpus, joined
from pvn.corpus.vocabulary import tokenise

DATA = Path(__file__).parents[3] / "src" / "pvn" / "corpus" / "natural"


@pytest.fixture(scope="session")
def natural():
    return natural_segments()


@pytest.mark.long
def test_there_are_7000_to_train_on_by_27_authors_and_300_in_dev_by_another(natural):
    assert {split: len(segments) for split, segments in natural.items()} == {"train": 7_000, "dev": 300}
    authors = Counter(segment.author for segment in natural["train"])
    assert sorted(authors.values()) == [200] * 11 + [300] * 16
    assert {segment.author for segment in natural["dev"]} == {"m"} and "m" not in authors
    assert all(segment.source == "natural" for segments in natural.values() for segment in segments)
    assert natural_segments() is natural, "read once"


@pytest.mark.long
def test_they_are_longer_than_phrases_and_about_flights_in_the_field(natural):
    every = [segment for segments in natural.values() for segment in segments]
    lengths = [len(tokenise(segment.task.instruction)) for segment in every]
    assert np.mean(lengths) == pytest.approx(23, abs=1) and min(lengths) >= 3
    for segment in every:
        assert np.array_equal(segment.demonstration.path[0], segment.task.start[:2])
        assert 1 < segment.demonstration.path.min() and segment.demonstration.path.max() < 49
        assert segment.task.layout.landmarks and segment.annotation.stops[-1] == len(segment.demonstration.path) - 1
        assert segment.is_seen is None, "they are made from no phrase"


@pytest.mark.long
def test_their_fields_have_new_numbers_and_the_split_of_the_generated_corpus(natural):
    for split, size in (("train", 19_758), ("dev", 4_135)):
        numbers = {FIRST_ENVIRONMENT + plan.environment for plan in plan_split(split, size, 0, 0.0)}
        assert {segment.environment for segment in natural[split]} <= numbers
        assert min(numbers) > FIRST_ENVIRONMENT - 1 > 3 * 6_001, "above all that the generator gives"


@pytest.mark.long
def test_the_files_are_small_and_rounded_to_a_millimetre(natural):
    assert sum(file.stat().st_size for file in DATA.glob("*.npz")) < 2_000_000
    for segment in natural["dev"]:
        millimetres = segment.demonstration.path * 1000
        assert np.allclose(millimetres, np.round(millimetres), atol=1e-6)


@pytest.mark.long
def test_written_files_equal_the_bundled_ones(natural, tmp_path):
    write_natural({"dev": natural["dev"]}, tmp_path)
    with np.load(tmp_path / "dev.npz") as again, np.load(DATA / "dev.npz") as before:
        assert again.files == before.files
        assert all(np.array_equal(again[name], before[name]) for name in before.files)


@pytest.mark.long
def test_a_share_is_the_same_for_the_same_seed_and_has_both_splits_in_proportion(natural, are_same):
    one, again, other = (natural_corpus(0.01, seed=seed) for seed in (3, 3, 4))
    assert {split: len(part) for split, part in one.splits.items()} == {"train": 70, "dev": 3}
    assert are_same(one, again)
    assert {segment.id for segment in one} != {segment.id for segment in other}
    assert [segment.id for segment in natural_corpus(seed=5)["train"]] == [s.id for s in natural["train"]]
    assert list(natural_corpus(0.01, only=("dev",)).splits) == ["dev"]
    assert len(natural_corpus(0.0)) == 0 and len(natural_corpus(only=("test",))) == 0
    with pytest.raises(ValueError, match="share: got 2, expected 0 to 1"):
        natural_corpus(2.0)


@pytest.mark.long
def test_they_can_be_joined_with_a_generated_corpus(natural, meadow):
    share = natural_corpus(0.01)
    both = joined((meadow, share), "both")
    assert isinstance(both, Corpus) and len(both) == len(meadow) + len(share)
    assert both["train"][: len(meadow["train"])] == meadow["train"] and both["test"] == meadow["test"]
