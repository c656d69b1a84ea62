"""Narrated segments for training."""

import numpy as np
import pytest

from pvn.corpus.meadow.generator import pool_for
from pvn.corpus.narrator.making import FIRST_ENVIRONMENT, make_narrated
from pvn.corpus.segments import Corpus


@pytest.mark.long
def test_the_same_seed_gives_the_same_segments_in_one_process_or_two(are_same):
    seen = []
    alone = make_narrated(45, seed=3, watch=seen.append)
    with pool_for(45, 2) as pool:
        assert are_same(alone, make_narrated(45, seed=3, pool=pool))
    assert not are_same(alone, make_narrated(45, seed=4))
    assert seen == sorted(seen) and seen[-1] == 45


@pytest.mark.long
def test_narrated_fields_do_not_clash_with_a_generated_corpus(meadow):
    narrated = make_narrated(30, seed=0)
    assert len(narrated) == 30 and min(segment.environment for segment in narrated) >= FIRST_ENVIRONMENT
    Corpus("both", {**meadow.splits, "train": (*meadow["train"], *narrated)})  # raises if an id occurs twice


@pytest.mark.long
def test_tours_and_generated_flights_can_be_asked_for_alone():
    tours, flown = make_narrated(12, kind="tours"), make_narrated(12, kind="generator")
    # A tour has a point every two metres, a generated flight many more.
    gaps = [np.median(np.hypot(*np.diff(segment.demonstration.path, axis=0).T)) for segment in tours]
    assert min(gaps) > 1.0
    assert max(np.median(np.hypot(*np.diff(s.demonstration.path, axis=0).T)) for s in flown) < 1.0


@pytest.mark.long
def test_flights_there_and_back_pass_something_and_come_back_and_say_so():
    returns = make_narrated(40, kind="returns", seed=2)
    num_to_start = 0
    for segment in returns:
        path, marks = segment.demonstration.path, segment.task.layout.landmarks
        far = int(np.hypot(*(path - path[0]).T).argmax())
        out = min(np.hypot(*(path[1:far] - (mark.x, mark.y)).T).min() - mark.radius for mark in marks)
        length = np.hypot(*np.diff(path, axis=0).T).sum()
        assert out < 0 and length > np.hypot(*(path[far] - path[0])) + 3 and length < 46
        num_to_start += np.hypot(*(path[-1] - path[0])) < 2
    assert 10 < num_to_start < 35
    words = ("back", "turn", "again", "round", "about", "180", "eighty", "start", "retrace", "reverse", "began", "loop")
    assert all(any(word in segment.task.instruction.lower() for word in words) for segment in returns)


@pytest.mark.long
def test_by_default_all_kinds_of_flights_are_narrated():
    gaps = [np.hypot(*np.diff(segment.demonstration.path, axis=0).T) for segment in make_narrated(150, seed=1)]
    tours = np.mean([np.median(gap) > 1.2 for gap in gaps])
    assert 0.1 < tours < 0.5


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="kind: got 'routes', expected one of generator, tours, returns"):
        make_narrated(1, kind="routes")
