"""The corpus that is made for a training run to which none is given."""

from collections import Counter

import pytest

from pvn.corpus.meadow.banks import bundled_banks
from pvn.corpus.meadow.generator import FIRST_TURN, make_meadow
from pvn.corpus.store import read_corpus
from pvn.corpus.training_corpus import make_training_corpus


@pytest.mark.long
def test_it_has_what_it_is_asked_for_and_is_written_to_a_folder(tmp_path):
    counted = []
    made = make_training_corpus(
        tmp_path / "corpus", size=40, narrated=6, turns=7, has_natural=True,
        watch=lambda done, total: counted.append((done, total)),
    )  # fmt: skip
    assert Counter(segment.source for segment in made["train"]) == {"phrases": 28 + 7, "narrated": 6, "natural": 10}
    assert set(made.splits) == {"train", "dev"}
    generated = make_meadow(bundled_banks(), size=40)
    for split in ("train", "dev"):
        phrases = [segment for segment in made[split] if segment.source == "phrases"]
        texts = [segment.task.instruction for segment in phrases if segment.environment < FIRST_TURN]
        assert texts == [segment.task.instruction for segment in generated[split]], "as pvn corpus make makes them"
    done, totals = zip(*counted, strict=True)
    assert list(done) == sorted(done) and set(totals) == {done[-1]} == {28 + 6 + 6 + 7}
    again = read_corpus(tmp_path / "corpus")
    assert [one.task.instruction for one in again["train"]] == [one.task.instruction for one in made["train"]]


@pytest.mark.long
def test_voices_are_held_out_for_the_test_split():
    """Ten of the natural instructions come with a corpus of forty segments; some of them are by the same author."""
    made = make_training_corpus(size=40, has_natural=True)
    natural = [segment for segment in made["train"] if segment.source == "natural"]
    author = natural[0].author
    held_out = make_training_corpus(size=40, has_natural=True, held_out_authors=(author,))
    assert {segment.author for segment in held_out["test"]} == {author}
    assert len(held_out["test"]) == sum(segment.author == author for segment in natural)
    assert [one for one in held_out["train"] if one.author == author and one.source == "natural"] == []
    with pytest.raises(ValueError, match="held_out_authors: got 'zz', expected authors of natural instructions: "):
        make_training_corpus(size=40, has_natural=True, held_out_authors=("zz",))
