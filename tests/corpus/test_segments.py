"""Corpora and segments in memory."""

from dataclasses import replace

import pytest

from pvn.corpus.segments import Corpus, joined, paragraphs_of


def test_a_corpus_refuses_fields_in_two_splits_and_segments_twice(meadow):
    one = meadow["train"][0]
    with pytest.raises(ValueError, match="is in train and in dev"):
        Corpus("x", {"train": (one,), "dev": (replace(one, place=9),)})
    with pytest.raises(ValueError, match="occurs twice"):
        Corpus("x", {"train": (one, one)})
    with pytest.raises(ValueError, match=f"got 'nowhere', expected .* such as '{one.id}'"):
        meadow.segment("nowhere")
    assert meadow.segment(one.id) is one


def test_a_generated_segment_has_its_author_and_its_phrase(meadow):
    for segment in meadow:
        assert segment.source == "phrases" and segment.annotation.phrase.startswith(segment.author)
        assert segment.is_seen == segment.annotation.is_seen
    assert {segment.author for segment in meadow} == set("abcef")
    assert replace(meadow["dev"][0], annotation=None).is_seen is None


def test_sources_and_authors_that_are_none_are_refused(meadow):
    with pytest.raises(ValueError, match="source: got 'web', expected one of phrases, natural, narrated, lani"):
        replace(meadow["train"][0], source="web")
    with pytest.raises(ValueError, match="author: got an empty name"):
        replace(meadow["train"][0], author="")


def test_corpora_are_joined_split_by_split_in_their_order(meadow):
    def moved(split):
        return tuple(replace(segment, environment=segment.environment + 10**6) for segment in meadow[split])

    other = Corpus("other", {"dev": moved("dev"), "train": moved("train")})
    both = joined((Corpus("one", {"train": meadow["train"], "test": meadow["test"]}), other), "both")
    assert both.name == "both" and list(both.splits) == ["train", "dev", "test"]
    assert both["train"] == meadow["train"] + other["train"] and both["dev"] == other["dev"]
    assert both["test"] == meadow["test"]


def test_corpora_that_number_their_fields_alike_are_not_joined(meadow):
    last = meadow["train"][-1]
    other = Corpus("other", {"train": (replace(last, place=99),)})
    with pytest.raises(ValueError, match=f"environment {last.environment} is in meadow and in other, .* anew"):
        joined((meadow, other), "both")


def test_a_paragraph_is_the_segments_of_one_field_in_order_and_a_gap_begins_another(meadow):
    first, second = [one for one in paragraphs_of(meadow["train"]) if len(one) > 3][:2]
    shuffled = (*reversed(first), *second)
    assert paragraphs_of(shuffled) == [first, second]
    assert paragraphs_of(first[:1] + first[2:]) == [first[:1], first[2:]]
