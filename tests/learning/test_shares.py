"""Processes that train together: each has its share of the corpus, and all agree on the order of the flights."""

from dataclasses import replace

import pytest

from pvn.corpus.mirroring import MIRRORED_ENVIRONMENT
from pvn.corpus.segments import Corpus
from pvn.corpus.shares import share_of
from pvn.corpus.training_text import TrainingTextConfig, training_segments
from pvn.learning.shares import order_of


@pytest.mark.parametrize("count", [1, 2, 3])
def test_segments_of_all_shares_are_in_the_order_in_which_one_process_reads_them(meadow, count):
    segments = [
        replace(segment, source="natural" if place % 3 == 0 else "phrases")
        for place, segment in enumerate(meadow["train"])
    ]
    config = TrainingTextConfig(natural_repeats=3, mirrors_natural=True, circle_repeats=2)
    corpus = Corpus("mixed", {"train": tuple(segments)})
    found = []
    for index in range(count):
        share = share_of(corpus, index, count)
        read = training_segments(share.corpus["train"], config)
        order = order_of(read, share).tolist()
        assert order == sorted(set(order)), "rising"
        found += zip(order, read, strict=True)
    whole = training_segments(segments, config)
    together = [segment for _, segment in sorted(found, key=lambda pair: pair[0])]
    assert [(one.environment, one.place, one.task.instruction) for one in together] == [
        (one.environment, one.place, one.task.instruction) for one in whole
    ]
    assert len(whole) > 2 * len(segments)


def test_a_field_numbered_like_a_mirror_image_is_refused(meadow):
    segments = [replace(segment, source="natural") for segment in meadow["train"][:6]]
    segments.append(replace(segments[0], environment=segments[0].environment + MIRRORED_ENVIRONMENT))
    share = share_of(Corpus("mixed", {"train": tuple(segments)}), 0, 1)
    read = training_segments(segments, TrainingTextConfig(mirrors_natural=True))
    with pytest.raises(ValueError, match="expected numbers below 10,000,000, or one process"):
        order_of(read, share)


SHARE = """
import sys, torch
from pathlib import Path
from pvn.corpus.alignment import align
from pvn.corpus.shares import read_share
from pvn.corpus.store import read_corpus
from pvn.corpus.vocabulary import Vocabulary
from pvn.learning import parallel
from pvn.learning.demonstrations import demonstrate, take_batch
from pvn.learning.shares import order_of, with_others
from pvn.learning.stage1 import Stage1Config, select_stage1_batch
parallel.join_others("cpu")
whole = read_corpus(sys.argv[1], ("train",))["train"]
share = read_share(sys.argv[1], ("train",), parallel.rank(), 2)
own = share.corpus["train"]
vocabulary = Vocabulary.from_texts((one.task.instruction for one in whole), min_count=1)
alignment = align(whole, vocabulary)
def fly(segments):
    return demonstrate([one.demonstration for one in segments], vocabulary, alignment, frame_every=3)
alone, shared = fly(whole), with_others(fly(own), order_of(own, share))
assert 0 < len(own) < len(whole) == len(shared) and len(shared.tokens) == len(own)
assert len(shared.simulator.layouts) < len(alone.simulator.layouts)
assert torch.equal(shared.is_own.nonzero()[:, 0], torch.from_numpy(share.places["train"]))
for name in ("pose_world", "action", "is_planned", "first_frame", "origin"):
    assert torch.equal(getattr(shared, name), getattr(alone, name)), name
# A batch in which most flights stray, whose own part is the same as if this process had everything.
flights = torch.randperm(len(whole), generator=torch.Generator().manual_seed(1))
selections = [
    select_stage1_batch(one, Stage1Config(stray_share=0.9), 3, flights, None) for one in (shared, alone)
]
mine = shared.is_own[flights]
part, complete = (take_batch(one, selection) for one, selection in zip((shared, alone), selections))
rows = torch.isin(selections[1].parts().frame_flight, mine.nonzero()[:, 0])
assert 0 < rows.sum() < len(rows)
assert torch.equal(part.frames.image, complete.frames.image[rows])
assert torch.equal(part.frames.pose_world, complete.frames.pose_world[rows])
assert torch.equal(part.frames.origin, complete.frames.origin[mine])
for name in ("faced_map", "landmark_map", "landmark_class"):
    assert torch.equal(getattr(part, name), getattr(complete, name)[mine]), name
assert torch.equal(part.num_points, complete.num_points[mine]) and torch.equal(part.mentioned, complete.mentioned[mine])
longest = part.tokens.shape[1]
assert torch.equal(part.tokens, complete.tokens[mine][:, :longest]) and not complete.tokens[mine][:, longest:].any()
"""


@pytest.mark.long
def test_two_processes_know_how_all_flights_were_flown_and_draw_the_same_pictures(small_corpus, run_in_two_processes):
    run_in_two_processes(SHARE, small_corpus)
