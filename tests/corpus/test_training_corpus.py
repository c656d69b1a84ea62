"""The corpus that is made for a training run to which none is given."""

from collections import Counter
from dataclasses import replace

import pytest

from pvn.corpus.meadow.banks import bundled_banks
from pvn.corpus.meadow.generator import FIRST_TURN, make_meadow
from pvn.corpus.training_corpus import FOLDER, corpus_for, make_training_corpus
from pvn.corpus.training_text import TrainingTextConfig

TEXT = TrainingTextConfig(size=40, narrated=6, turns=7, has_natural=True)


@pytest.mark.long
def test_it_has_what_the_recipe_says_and_is_made_once(tmp_path):
    counted = []
    made = corpus_for(TEXT, tmp_path, lambda done, total: counted.append((done, total)))
    assert Counter(segment.source for segment in made["train"]) == {"phrases": 28 + 7, "narrated": 6, "natural": 10}
    assert set(made.splits) == {"train", "dev"}
    generated = make_meadow(bundled_banks(), size=40)
    for split in ("train", "dev"):
        phrases = [segment for segment in made[split] if segment.source == "phrases"]
        texts = [segment.task.instruction for segment in phrases if segment.environment < FIRST_TURN]
        assert texts == [segment.task.instruction for segment in generated[split]], "as pvn corpus make makes them"
    done, totals = zip(*counted, strict=True)
    assert list(done) == sorted(done) and set(totals) == {done[-1]} == {28 + 6 + 6 + 7}
    before = (tmp_path / FOLDER / "corpus.json").stat().st_mtime_ns
    again = corpus_for(TEXT, tmp_path)
    assert [one.task.instruction for one in again["train"]] == [one.task.instruction for one in made["train"]]
    assert (tmp_path / FOLDER / "corpus.json").stat().st_mtime_ns == before, "a resumed run reads it"


@pytest.mark.long
def test_voices_are_held_out_for_the_test_split():
    """Ten of the natural instructions come with a corpus of forty segments; some of them are by the same author."""
    made = make_training_corpus(replace(TEXT, narrated=0))
    natural = [segment for segment in made["train"] if segment.source == "natural"]
    author = natural[0].author
    held_out = make_training_corpus(replace(TEXT, narrated=0, held_out_authors=(author,)))
    assert {segment.author for segment in held_out["test"]} == {author}
    assert len(held_out["test"]) == sum(segment.author == author for segment in natural)
    assert [one for one in held_out["train"] if one.author == author and one.source == "natural"] == []
    with pytest.raises(ValueError, match="held_out_authors: got 'zz', expected authors of natural instructions: "):
        make_training_corpus(replace(TEXT, narrated=0, held_out_authors=("zz",)))
