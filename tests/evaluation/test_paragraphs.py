"""Whole paragraphs, flown from end to end, and how much of them is completed."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from pvn.corpus.segments import paragraphs_of
from pvn.evaluation.evaluate import evaluate, read_split
from pvn.evaluation.flights import fly_paragraphs, fly_split
from pvn.evaluation.pilots import load_pilot
from pvn.evaluation.summary import Summary, completed_shares, summarise_paragraphs


@pytest.fixture(scope="module")
def paragraphs(meadow):
    """Two paragraphs, the first of them cut short."""
    first, second, *_ = paragraphs_of(meadow["dev"])
    return [first[:2], second]


def test_only_what_comes_before_the_first_miss_is_completed():
    assert completed_shares([[True, True], [True, False, True, True], [False, True]]) == [1.0, 0.25, 0.0]


def test_each_flight_of_a_paragraph_starts_where_the_last_one_ended(paragraphs):
    flown = fly_paragraphs(paragraphs, load_pilot("average"), "cpu").paths()
    assert len(flown) == sum(map(len, paragraphs))
    for paragraph in paragraphs:
        own, flown = flown[: len(paragraph)], flown[len(paragraph) :]
        assert np.allclose(own[0][0], paragraph[0].task.start[:2], atol=1e-3)
        for before, after in pairwise(own):
            assert np.allclose(before[-1], after[0], atol=1e-3)


@pytest.mark.long
def test_paragraphs_of_different_lengths_in_a_batch_are_the_paragraphs_alone(paragraphs):
    pilot = load_pilot("oracle")
    together = fly_paragraphs(paragraphs, pilot, "cpu")
    alone = fly_split([segment for one in paragraphs for segment in one], pilot, in_paragraphs=True)
    assert torch.equal(together.num_steps, alone.num_steps)
    assert torch.allclose(together.pose_world, alone.pose_world, atol=1e-5)


def test_the_oracle_brings_paragraphs_to_the_end_and_a_pilot_that_stops_at_once_none(paragraphs):
    segments = [segment for one in paragraphs for segment in one]
    for name, rate in (("oracle", 100.0), ("stop", 0.0)):
        pilot = load_pilot(name)
        metrics = fly_paragraphs(paragraphs, pilot, "cpu").metrics(segments, pilot.config.altitude)
        found = summarise_paragraphs(metrics, segments)
        assert (found.paragraphs, found.instructions) == (2, len(segments))
        assert found.brought_to_end.value == found.completed.value == rate


def test_the_share_brought_to_the_end_counts_whole_paragraphs(paragraphs):
    pilot = load_pilot("oracle")
    segments = [segment for one in paragraphs for segment in one]
    metrics = fly_paragraphs(paragraphs, pilot, "cpu").metrics(segments, pilot.config.altitude)
    is_success = metrics.is_success.copy()
    is_success[2 + 1] = False  # the second instruction of the second paragraph
    found = summarise_paragraphs(replace(metrics, is_success=is_success), segments)
    count = len(paragraphs[1])
    assert found.brought_to_end.value == pytest.approx(50.0)
    assert found.completed.value == pytest.approx(100 * (1 + 1 / count) / 2)
    assert found.sr.value == pytest.approx(100 * (1 + count) / (2 + count))


def test_a_limit_includes_the_rest_of_its_paragraph_and_results_survive_json(meadow):
    first, second, *_ = paragraphs_of(meadow["dev"])
    segments, _ = read_split(meadow, "dev", len(first) + 1, in_paragraphs=True)
    assert segments == (*first, *second)
    (summary,) = evaluate("stop", meadow, limit=1, in_paragraphs=True)
    assert summary.paragraphs.instructions == len(first)
    assert Summary.from_json(json.loads(json.dumps(summary.to_json()))).paragraphs == summary.paragraphs


@pytest.mark.long
def test_interrupted_paragraphs_are_resumed_and_are_not_taken_for_single_segments(paragraphs, tmp_path):
    segments, path = [segment for one in paragraphs for segment in one], tmp_path / "flights.safetensors"
    pilot = load_pilot("average")

    def interrupt(done):
        if done == len(segments):
            raise KeyboardInterrupt

    whole = fly_split(segments, pilot, in_paragraphs=True)
    with pytest.raises(KeyboardInterrupt):
        fly_split(segments, pilot, path, in_paragraphs=True, watch=interrupt)
    again = fly_split(segments, pilot, path, in_paragraphs=True)
    assert torch.equal(again.pose_world, whole.pose_world)
    with pytest.raises(ValueError, match="flights of another agent"):
        fly_split(segments, pilot, path)
