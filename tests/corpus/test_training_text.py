"""How stage 1 reads natural instructions."""

from dataclasses import replace

import pytest

from pvn.corpus.mirroring import MIRRORED_ENVIRONMENT
from pvn.corpus.natural.bundled import natural_corpus
from pvn.corpus.training_text import training_segments


def test_natural_instructions_are_mirrored_and_repeated_and_others_are_not(meadow):
    segments = [
        replace(segment, source="natural" if place < 3 else "phrases")
        for place, segment in enumerate(meadow["train"][:8])
    ]
    assert training_segments(segments) == segments
    natural, twins = segments[:3], []
    read = training_segments(segments, natural_repeats=3, mirrors_natural=True)
    for segment in read:
        if segment.environment >= MIRRORED_ENVIRONMENT and segment not in twins:
            twins.append(segment)
    assert [twin.environment - MIRRORED_ENVIRONMENT for twin in twins] == [s.environment for s in natural][: len(twins)]
    assert twins and {read.count(segment) for segment in (*natural, *twins)} == {3}
    assert {read.count(segment) for segment in segments[3:]} == {1}


def test_segments_with_a_full_circle_are_repeated(meadow):
    whole, half = (
        replace(segment, annotation=replace(segment.annotation, manoeuvres=("turn left", f"circle B left {amount}")))
        for segment, amount in zip(meadow["train"], ("full", "half"), strict=False)
    )
    unknown = replace(whole, place=90, annotation=None)
    read = training_segments([whole, half, unknown], circle_repeats=4)
    assert [read.count(segment) for segment in (whole, half, unknown)] == [4, 1, 1]


@pytest.mark.long
def test_repetitions_of_natural_instructions_have_other_names():
    segments = list(natural_corpus(only=("dev",))["dev"][:20])
    read = training_segments(segments, natural_repeats=3, renames_natural=True)
    first, second, third = read[:20], read[20:40], read[40:]
    assert first == segments
    texts = [[segment.task.instruction for segment in part] for part in (first, second, third)]
    changed = [len(set(versions)) for versions in zip(*texts, strict=True)]
    assert sum(count > 1 for count in changed) > 10 and sum(count > 2 for count in changed) > 3
    for own, other in zip(first, second, strict=True):
        assert own.task.layout is other.task.layout and own.task.start == other.task.start and own.id == other.id
    again = training_segments(segments, natural_repeats=3, renames_natural=True)
    assert [segment.task.instruction for segment in again] == [text for part in texts for text in part]
