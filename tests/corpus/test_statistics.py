"""Statistics of a corpus beside those of LANI."""

from dataclasses import replace

import numpy as np
import pytest

from pvn.corpus.segments import Corpus, joined
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


@pytest.mark.long
def test_statistics_by_source_count_segments_authors_and_words(meadow):
    def told(segment, number, text, author):
        task = replace(segment.task, instruction=text)
        demonstration = replace(segment.demonstration, task=task)
        note = replace(segment.annotation, phrase="", is_seen=False)
        return replace(
            segment, environment=number, demonstration=demonstration, annotation=note, source="natural", author=author
        )

    one, two = meadow["dev"][:2]
    own = (told(one, 10**6, "Zig past the zeppelin", "ann"), told(two, 10**6, "zag, then zig", "bo"))
    report = measure_corpus(joined((meadow, Corpus("own", {"dev": own})), "both"))
    plain = measure_corpus(meadow)
    assert set(report["sources"]) == {"phrases", "natural"} and set(plain["sources"]) == {"phrases"}
    assert report["sources"]["phrases"] == plain["sources"]["phrases"]
    assert plain["sources"]["phrases"]["words_not_in_phrases"] == 0 and plain["sources"]["phrases"]["authors"] == 5
    natural = report["sources"]["natural"]
    assert (natural["segments"], natural["authors"], natural["environments"]) == (2, 2, 1)
    assert natural["tokens_per_segment"] == 3.5 and natural["vocabulary"] == 6
    assert natural["words_not_in_phrases"] == 3, "zig, zeppelin, zag"
    assert natural["tokens_not_in_phrases_share"] == pytest.approx(4 / 7)
    for name in ("phrases", "ambiguous_share"):
        assert report[name] == plain[name], "of phrases alone"
    assert report["splits"]["dev"]["unseen_share"] == plain["splits"]["dev"]["unseen_share"]
