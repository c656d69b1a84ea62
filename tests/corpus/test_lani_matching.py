"""Segments of a paragraph find their points on its path, also where one of them has a mistake."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pvn.corpus.lani_paragraphs import match_segments

LINE = np.column_stack([np.arange(0, 50, 2.0), np.zeros(25)])
STOPS = [0, 5, 11, 17, 24]
WHOLE = list(itertools.pairwise(STOPS))


def match(route, starts, ends, may_stay=None, max_offset=5.0):
    may_stay = [False] * len(starts) if may_stay is None else may_stay
    return match_segments(np.array(route, float), np.array(starts, float), np.array(ends, float), may_stay, max_offset)


def along(route, stops):
    """Starts and ends of segments between points of a route."""
    return route[stops[:-1]].copy(), route[stops[1:]].copy()


def test_segments_follow_each_other_along_the_path():
    assert match(LINE, *along(LINE, STOPS)) == WHOLE


@pytest.mark.parametrize("row", range(4))
def test_a_segment_with_start_and_end_exchanged_costs_no_other(row):
    starts, ends = along(LINE, STOPS)
    starts[row], ends[row] = ends[row].copy(), starts[row].copy()
    assert match(LINE, starts, ends) == [None if other == row else whole for other, whole in enumerate(WHOLE)]


@pytest.mark.parametrize("row", range(3))
def test_an_end_that_lies_too_far_along_the_path_costs_no_other(row):
    starts, ends = along(LINE, STOPS)
    ends[row] = LINE[23]
    assert match(LINE, starts, ends) == [None if other == row else whole for other, whole in enumerate(WHOLE)]


def test_where_a_path_comes_by_twice_the_visit_is_taken_after_which_the_others_can_follow():
    there, back = LINE[:12], LINE[10::-1] + np.array([0, 0.5])
    route = np.concatenate([there, back])
    starts, ends = along(route, [0, 6, 11, 20])
    ends[0] = starts[1] = (12, 0.4)  # nearer to the way back, point 16, than to point 6
    assert match(route, starts, ends) == [(0, 6), (6, 11), (11, 20)]


def test_a_full_round_belongs_to_its_segment_unless_the_person_only_turned():
    route = np.array([(0, 0), (4, 0), (8, 0), (8, 4), (4, 4), (4, 0), (4, -4)])
    starts, ends = along(route, [0, 1, 5, 6])
    assert match(route, starts, ends) == [(0, 1), (1, 5), (5, 6)]
    turning = match(
        route, [*starts[:2], starts[1], starts[2]], [ends[0], ends[0], *ends[1:]], [False, True, False, False]
    )
    assert turning == [(0, 1), (1, 1), (1, 5), (5, 6)]


def test_points_of_a_turn_in_place_belong_to_the_next_segment():
    route = np.array([(0, 0), (4, 0), (4, 0.0005), (4, 0), (8, 0), (12, 0)])
    assert match(route, route[[0, 1]], route[[3, 5]]) == [(0, 1), (1, 5)]


def test_the_nearest_point_is_taken_however_little_nearer_it_is():
    route = np.array([(0, 0), (4, 1), (4, -0.9995), (8, 0)])
    assert match(route, [route[0]], [(4, 0)]) == [(0, 2)], "0.5 mm nearer than the other"


def test_how_far_is_too_far_is_given():
    starts, ends = along(LINE, STOPS)
    ends[1] += (0, 3)
    assert match(LINE, starts, ends, max_offset=3.1) == WHOLE
    assert match(LINE, starts, ends, max_offset=2.9) == [WHOLE[0], None, *WHOLE[2:]]


def test_a_segment_without_numbers_is_left_out_and_the_next_begins_at_its_own_start():
    starts, ends = along(LINE, STOPS)
    ends[1] = np.nan
    assert match(LINE, starts, ends) == [WHOLE[0], None, *WHOLE[2:]]
    assert match(LINE, np.full((2, 2), np.nan), np.full((2, 2), np.nan)) == [None, None]


@given(
    st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=2, max_size=7),
    st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=1, max_size=3),
)
def test_no_other_matching_leaves_out_fewer_or_is_nearer(route, ends):
    """Against all ways to choose points, for segments each of which starts where the last one ended."""
    route, ends = np.unique(np.array(route, float), axis=0), np.array(ends, float)
    starts = np.concatenate([route[:1], ends[:-1]])
    found = match(route, starts, ends, max_offset=100.0)
    fitting = [stops for stops in itertools.combinations(range(1, len(route)), len(ends))]
    if not fitting:
        assert None in found
        return
    if None in found:
        return  # then the rest fits better by more than the limit
    cost = {stops: np.hypot(*(route[list(stops)] - ends).T).sum() for stops in fitting}
    assert cost[tuple(end for _, end in found)] == pytest.approx(min(cost.values()), abs=1e-3)
