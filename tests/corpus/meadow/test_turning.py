"""Turns on the spot: at the end of flights, and as segments of their own."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from pvn.corpus.meadow.banks import bundled_banks
from pvn.corpus.meadow.generator import make_meadow, make_turns
from pvn.corpus.meadow.manoeuvre_checks import TURNS
from pvn.corpus.meadow.manoeuvres import IS_ON_THE_SPOT, parse_manoeuvre
from pvn.corpus.segments import paragraphs_of
from pvn.paths import wrap_radians


def turned(segment):
    return wrap_radians(segment.demonstration.turned_to - segment.task.start[2])


def test_a_flight_that_ends_with_a_turn_says_where_to_and_the_next_one_starts_so(meadow):
    counted = 0
    for before, after in (pair for own in paragraphs_of(meadow["train"]) for pair in itertools.pairwise(own)):
        turns = IS_ON_THE_SPOT[parse_manoeuvre(before.annotation.manoeuvres[-1]).kind]
        demonstration = before.demonstration
        assert (demonstration.turned_to is not None) == turns
        if np.allclose(after.task.start[:2], demonstration.goal):  # a tour that got stuck goes on elsewhere
            assert wrap_radians(after.task.start[2] - demonstration.end_heading) == pytest.approx(0, abs=0.15)
            counted += turns
    assert counted > 20


@pytest.fixture(scope="module")
def turns():
    return make_turns(bundled_banks(), 60)


def test_a_turn_goes_nowhere_and_turns_as_it_says(turns):
    assert len({segment.annotation.manoeuvres for segment in turns}) >= 4
    for segment in turns:
        assert np.ptp(segment.demonstration.path, axis=0).max() == 0.0
        assert segment.demonstration.goal == segment.task.start[:2]
        (manoeuvre,) = map(parse_manoeuvre, segment.annotation.manoeuvres)
        if manoeuvre.kind == "turn":
            assert abs(wrap_radians(turned(segment) - TURNS[manoeuvre.detail])) < math.radians(10)
        else:
            mark = segment.task.layout.landmarks[segment.annotation.meant[0]]
            x, y = segment.task.start[:2]
            off = wrap_radians(math.atan2(mark.y - y, mark.x - x) - segment.demonstration.turned_to)
            assert abs(off) < math.radians(5)


@pytest.mark.long
def test_turns_are_the_same_every_time_and_more_of_them_begin_alike(turns, are_same):
    assert are_same(turns, make_turns(bundled_banks(), 60))
    assert are_same(turns[:40], make_turns(bundled_banks(), 40)) and make_turns(bundled_banks(), 0) == ()
    assert not are_same(turns, make_turns(bundled_banks(), 60, seed=1))
    with pytest.raises(ValueError, match="count: got -1, expected 0 or more"):
        make_turns(bundled_banks(), -1)


def test_banks_without_turns_or_with_too_few_are_refused():
    few = [replace(bank, phrases=tuple(p for p in bank.phrases if p.has_movement)) for bank in bundled_banks()]
    with pytest.raises(ValueError, match="banks: got no phrase that only turns on the spot"):
        make_turns(few, 5)
    one = next(phrase for phrase in bundled_banks()[0].phrases if not phrase.has_movement)
    bank = replace(bundled_banks()[0], phrases=(one,))
    with pytest.raises(ValueError, match="banks: got no phrase that flies anywhere"):
        make_meadow([bank], size=20)
    assert len(make_turns([bank], 5)) == 5
    with pytest.raises(ValueError, match="banks: got too few phrases to hold any out of training"):
        make_turns([bank], 5, is_seen=False)


def test_held_out_phrases_and_fields_are_not_in_training(turns):
    held_out = make_turns(bundled_banks(), 60, is_seen=False)
    assert {one.is_seen for one in held_out} == {False} and {one.is_seen for one in turns} == {True}
    for what in (lambda one: one.annotation.phrase, lambda one: one.environment):
        assert not set(map(what, turns)) & set(map(what, held_out))
