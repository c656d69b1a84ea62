"""Statistics of a corpus beside those of LANI."""

import numpy as np
import pytest

from pvn.corpus.statistics import LANI, measure_corpus


def test_statistics_are_within_fifteen_percent_of_lanis_where_the_size_allows(meadow):
    report = measure_corpus(meadow)
    for name in ("segments_per_paragraph", "tokens_per_segment", "landmarks_least", "landmarks_most"):
        assert report[name] == pytest.approx(LANI[name], rel=0.15), name
    reach = [np.hypot(*(segment.demonstration.path[-1] - segment.task.start[:2])) for segment in meadow]
    assert np.mean(reach) == pytest.approx(LANI["start_goal_mean_m"], rel=0.15)
    assert np.median(reach) == pytest.approx(LANI["start_goal_median_m"], rel=0.15)
    assert 0 <= report["stop_success_percent"] < report["average_success_percent"] < 40
    assert report["ambiguous_share"] < 0.05
    assert set(report["phenomena"]) == {
        "co-reference", "temporal order", "trajectory shape", "spatial relation", "several landmarks",
    }  # fmt: skip
    assert all(0.05 < share < 0.95 for share in report["phenomena"].values())
