#!/usr/bin/env python
"""What several processes gain: time and memory to read and fly a training split, and the time of a step.

    pvn corpus make --size 27965 --out corpus
    python runs/processes.py --corpus corpus
    torchrun --nproc-per-node 2 runs/processes.py --corpus corpus
    torchrun --nproc-per-node 2 runs/processes.py --corpus corpus --is-whole   # every process reads and flies all of it

Each process uses its part of this machine's cores. `--steps 20` also takes steps, by turns with gradients that travel
during the backward pass and with all of them in one message after it, and says how long after the end of the pass the
sums are there: in the process whose pass ends last, so that no waiting for its own work is counted. Prints a line of
JSON.
"""

from __future__ import annotations

import argparse
import functools
import json
import operator
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

from pvn.compiling import num_cores
from pvn.corpus.alignment import align_counted, count_events
from pvn.corpus.shares import read_share
from pvn.corpus.vocabulary import Vocabulary, count_words
from pvn.learning import parallel
from pvn.learning.demonstrations import Demonstrations, demonstrate
from pvn.learning.optimisation import batch_limits, draw_batches, make_optimizer, peak_memory
from pvn.learning.presets import paper
from pvn.learning.shares import order_of, with_others
from pvn.learning.stage1 import select_stage1_batch, stage1_step
from pvn.learning.training import untrained

ONE_MESSAGE = 2**40
"""Bytes in a message, so that all gradients are in the first, which is complete when the backward pass is over."""


def prepare(corpus: Path, is_whole: bool) -> tuple[Demonstrations, Vocabulary, dict[str, float]]:
    """Read and fly this process's share, or everything, as before training; the seconds they took."""
    began = time.perf_counter()
    index, count = (0, 1) if is_whole else (parallel.rank(), parallel.num_processes())
    share = read_share(corpus, ("train",), index, count)
    segments = share.corpus["train"]
    parallel.wait_for_others()
    read = time.perf_counter()
    words = count_words(segment.task.instruction for segment in segments)
    vocabulary = Vocabulary.from_counts(words if is_whole else sum(parallel.gathered(words), Counter()))
    events = count_events(segments, vocabulary)
    everywhere = [events] if is_whole else parallel.gathered(events)
    alignment = align_counted(functools.reduce(operator.add, everywhere), vocabulary)
    shown = demonstrate([segment.demonstration for segment in segments], vocabulary, alignment, frame_every=2)
    if not is_whole:
        shown = with_others(shown, order_of(segments, share))
    parallel.wait_for_others()
    return shown, vocabulary, {"read_s": read - began, "fly_s": time.perf_counter() - read}


def time_steps(shown: Demonstrations, vocabulary: Vocabulary, num_frames: int, num_steps: int) -> dict[str, float]:
    """Medians of how long sums take after a pass, milliseconds, by both ways; and how uneven parts of a batch are."""
    recipe = paper()
    model, _ = untrained(recipe, vocabulary)
    model.train()
    config = recipe.stage1
    optimizer = make_optimizer(model, config.learning_rate, 1.0, config.weight_decay, shown.device)
    batches = draw_batches(shown, batch_limits(shown, num_frames), torch.Generator().manual_seed(0))
    waits: dict[int, list[float]] = {parallel.MESSAGE_BYTES: [], ONE_MESSAGE: []}
    summed = parallel.summed_gradients

    @contextmanager
    def timed(message_bytes: int, parameters: Iterable[nn.Parameter]) -> Iterator[None]:
        with summed(parameters, message_bytes):
            yield
            ended = time.perf_counter()
        waits[message_bytes].append(1000 * (time.perf_counter() - ended))

    for step, flights in enumerate(batches[: num_steps + 2]):
        for message_bytes in waits:
            parallel.summed_gradients = functools.partial(timed, message_bytes)  # type: ignore[assignment]
            stage1_step(model, optimizer, shown, config, select_stage1_batch(shown, config, step, flights, None))
    lengths = shown.first_frame.diff()
    own = [int(lengths[flights[shown.is_own[flights]]].sum()) for flights in batches]
    parts = list(zip(*parallel.gathered(own), strict=True))
    uneven = statistics.mean(max(part) * len(part) / sum(part) for part in parts)
    during, after = (
        statistics.median(map(min, list(zip(*parallel.gathered(times), strict=True))[2:])) for times in waits.values()
    )
    return {"sums_after_pass_ms": during, "in_one_message_ms": after, "largest_part": uneven}


def main() -> None:
    """Measure, and print it from the first process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--is-whole", action="store_true")
    parser.add_argument("--frames", type=int, default=64, help="pictures in a step")
    parser.add_argument("--steps", type=int, default=0, help="steps of each kind that are timed; 0: none")
    options = parser.parse_args()
    parallel.join_others("cpu")
    torch.set_num_threads(max(num_cores() // parallel.num_processes(), 1))
    shown, vocabulary, row = prepare(options.corpus, options.is_whole)
    row |= {"processes": parallel.num_processes(), "segments": len(shown.tokens)}
    row["gib"] = max(parallel.gathered(peak_memory(torch.device("cpu"))["peak_host_gib"]))
    if options.steps:
        row |= time_steps(shown, vocabulary, options.frames, options.steps)
    if parallel.rank() == 0:
        print(json.dumps({name: round(value, 3) for name, value in row.items()}))


if __name__ == "__main__":
    main()
