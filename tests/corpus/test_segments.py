"""Corpora and segments in memory."""

from dataclasses import replace

import pytest

from pvn.corpus.segments import Corpus


def test_a_corpus_refuses_fields_in_two_splits_and_segments_twice(meadow):
    one = meadow["train"][0]
    with pytest.raises(ValueError, match="is in train and in dev"):
        Corpus("x", {"train": (one,), "dev": (replace(one, place=9),)})
    with pytest.raises(ValueError, match="occurs twice"):
        Corpus("x", {"train": (one, one)})
    with pytest.raises(ValueError, match=f"got 'nowhere', expected .* such as '{one.id}'"):
        meadow.segment("nowhere")
    assert meadow.segment(one.id) is one
