"""A corpus made for one training run, as its recipe says, when none is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pvn.corpus.meadow.banks import bundled_banks
from pvn.corpus.meadow.generator import FULL_SIZE, make_meadow, make_turns, pool_for, split_sizes
from pvn.corpus.narrator.making import make_narrated
from pvn.corpus.natural.bundled import natural_corpus
from pvn.corpus.segments import Corpus, joined
from pvn.corpus.store import write_corpus

FOLDER = "corpus"
"""In a run's folder: the corpus that was made for it."""
OnSegments = Callable[[int, int], None]
"""Called periodically with how many segments are made, and how many there will be."""


def _hold_out(natural: Corpus, authors: Sequence[str]) -> Corpus:
    """Natural instructions with those of some authors moved from the training to the test split."""
    there = {segment.author for segment in natural["train"]}
    unknown = [author for author in authors if author not in there]
    if unknown:
        raise ValueError(
            f"held_out_authors: got {unknown[0]!r}, expected authors of natural instructions: "
            f"{', '.join(sorted(filter(None, there)))}"
        )
    test = tuple(segment for segment in natural["train"] if segment.author in authors)
    train = tuple(segment for segment in natural["train"] if segment.author not in authors)
    return Corpus(natural.name, {**natural.splits, "train": train, **({"test": test} if test else {})})


def make_training_corpus(
    folder: Path | None = None,
    *,
    size: int,
    has_natural: bool = False,
    narrated: int = 0,
    turns: int = 0,
    held_out_authors: Sequence[str] = (),
    watch: OnSegments = lambda done, total: None,
) -> Corpus:
    """Training segments from all of these sources, and the dev split of the bundled corpus; written to a folder."""
    banks, dev_size = bundled_banks(), min(size, FULL_SIZE)
    (num_train,), (num_dev,) = split_sizes(size, ("train",)).values(), split_sizes(dev_size, ("dev",)).values()
    total = num_train + num_dev + narrated + turns

    def after(done: int) -> Callable[[int], None]:
        return lambda made: watch(done + made, total)

    with pool_for(total) as pool:
        train = make_meadow(banks, size=size, only=("train",), pool=pool, watch=after(0))
        dev = make_meadow(banks, size=dev_size, only=("dev",), pool=pool, watch=after(num_train))
        told = make_narrated(narrated, pool=pool, watch=after(num_train + num_dev))
        turned = make_turns(banks, turns, pool=pool, watch=after(total - turns))
    parts = [train, dev, Corpus("narrated", {"train": told}), Corpus("turns", {"train": turned})]
    if has_natural:
        parts.append(_hold_out(natural_corpus(dev_size / FULL_SIZE), held_out_authors))
    corpus = joined(parts, "meadow")
    if folder is not None:
        origin = {"size": size, "narrated": narrated, "natural": has_natural, "turns": turns}
        write_corpus(corpus, folder, origin)
    return corpus
