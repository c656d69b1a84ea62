"""Corpora and segments in memory."""

from dataclasses import replace

import pytest

from pvn.corpus.segments import Corpus, paragraphs_of


def test_a_corpus_refuses_fields_in_two_splits_and_segments_twice(meadow):
    one = meadow["train"][0]
    with pytest.raises(ValueError, match="is in train and in dev"):
        Corpus("x", {"train": (one,), "dev": (replace(one, place=9),)})
    with pytest.raises(ValueError, match="occurs twice"):
        Corpus("x", {"train": (one, one)})
    with pytest.raises(ValueError, match=f"got 'nowhere', expected .* such as '{one.id}'"):
        meadow.segment("nowhere")
    assert meadow.segment(one.id) is one


def test_a_paragraph_is_the_segments_of_one_field_in_order_and_a_gap_begins_another(meadow):
    first, second = [one for one in paragraphs_of(meadow["train"]) if len(one) > 3][:2]
    shuffled = (*reversed(first), *second)
    assert paragraphs_of(shuffled) == [first, second]
    assert paragraphs_of(first[:1] + first[2:]) == [first[:1], first[2:]]
