#!/usr/bin/env python
"""How time and memory grow with the size of a corpus, the number of fields, the batch, and the number of flights.

    python runs/growth.py --out growth                        # up to LANI's size
    python runs/growth.py --out growth --most 10              # up to ten times LANI's size

Every measurement is made in a process of its own, so that its peak of memory is its own; a first one, not kept,
compiles. `growth.json` and a picture with a panel for each quantity go to the folder `out`; what is in the file
already is not measured again.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LANI = 27_965
SHARES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 50.0)
"""Sizes of corpora, in times LANI's."""
BATCHES = (1, 16, 256, 4096)
FIELDS = (64, 640, 6400)
FLIGHTS = (400, 4000, 40_000)
UNITS = {
    "make": "segments", "read": "segments", "oracle": "segments", "fields": "fields", "step": "flights in a batch",
    "metrics": "flights",
}  # fmt: skip
"""What is measured, and by what."""
TITLES = {
    "make": "make and write a corpus", "read": "read a corpus", "oracle": "fly the oracle over it",
    "fields": "pack fields for the simulator", "step": "a step with pictures", "metrics": "measure flights",
}  # fmt: skip
Row = dict[str, float]


@contextmanager
def timed(row: Row) -> Iterator[None]:
    """Write into a row how long something takes, seconds, and how much memory this process ever had, MB."""
    began = time.perf_counter()
    yield
    row["seconds"] = time.perf_counter() - began
    row["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def make(size: int, corpora: Path, row: Row) -> None:
    """Make a corpus on all cores, and write it."""
    from pvn.corpus.meadow.banks import bundled_banks
    from pvn.corpus.meadow.generator import make_meadow, pool_for
    from pvn.corpus.store import write_corpus

    with timed(row):
        with pool_for(size) as pool:
            corpus = make_meadow(bundled_banks(), size=size, pool=pool)
        write_corpus(corpus, corpora / str(size))


def read(size: int, corpora: Path, row: Row) -> None:
    """Read a corpus."""
    from pvn.corpus.store import read_corpus

    with timed(row):
        read_corpus(corpora / str(size))


def oracle(size: int, corpora: Path, row: Row) -> None:
    """Fly the oracle over all training segments, as training does before it begins."""
    from pvn.corpus.alignment import align
    from pvn.corpus.store import read_corpus
    from pvn.corpus.vocabulary import Vocabulary
    from pvn.learning.demonstrations import demonstrate

    segments = read_corpus(corpora / str(size), ("train",))["train"]
    with timed(row):
        vocabulary = Vocabulary.from_texts((segment.task.instruction for segment in segments), min_count=10)
        alignment = align(segments, vocabulary)
        demonstrate([segment.demonstration for segment in segments], vocabulary, alignment, frame_every=2)


def fields(count: int, corpora: Path, row: Row) -> None:
    """Pack fields for the simulator."""
    from pvn.simulator.simulator import Simulator
    from pvn.world.layout import sample_layout

    layouts = [sample_layout(seed) for seed in range(count)]
    with timed(row):
        Simulator(layouts, 1)


def step(batch: int, corpora: Path, row: Row) -> None:
    """A step of flights in 64 fields, with pictures."""
    import torch

    from pvn.simulator.simulator import Simulator
    from pvn.world.layout import sample_layout

    simulator = Simulator(
        [sample_layout(seed) for seed in range(64)], batch, field_index=[i % 64 for i in range(batch)]
    )
    action = torch.tensor([[2.0, 0.3, 0.0]]).repeat(batch, 1)
    simulator.step(action)
    with timed(row):
        simulator.step(action)


def metrics(count: int, corpora: Path, row: Row) -> None:
    """All metrics of flights, which are the demonstrations of a few fields flown a metre beside."""
    from pvn.corpus.meadow.generator import sample_paragraph
    from pvn.evaluation.metrics import measure_flights

    some = [segment.demonstration for seed in range(80) for segment in sample_paragraph(seed)]
    flown = [some[number % len(some)] for number in range(count)]
    with timed(row):
        measure_flights([demonstration.path + 1.0 for demonstration in flown], [True] * count, flown)


WORK: Mapping[str, Callable[[int, Path, Row], None]] = {
    "make": make, "read": read, "oracle": oracle, "fields": fields, "step": step, "metrics": metrics,
}  # fmt: skip


def measured(name: str, size: int, corpora: Path) -> Row:
    """One measurement, in a process of its own."""
    command = [sys.executable, __file__, "--out", str(corpora), "--measure", name, str(size)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(f"growth: measuring {name} of {size:,} failed\n{ended.stderr}")
    row: Row = json.loads(ended.stdout.splitlines()[-1])
    return row


def exponent(rows: Sequence[Row], what: str) -> float:
    """How a quantity grows over the two largest sizes: 1 is in proportion, 2 with the square."""
    first, last = rows[-2:]
    return math.log(last[what] / first[what]) / math.log(last["size"] / first["size"])


def draw(found: Mapping[str, Sequence[Row]], path: Path) -> None:
    """A panel for each quantity: time and memory by size, both axes logarithmic."""
    import matplotlib.pyplot as plt

    from pvn.viz import palette
    from pvn.viz.saving import save_figure

    figure, axes = plt.subplots(2, 3, figsize=(12, 6.6), layout="constrained")
    for axis, (name, rows) in zip(axes.flat, found.items(), strict=True):
        sizes = [row["size"] for row in rows]
        axis.loglog(sizes, [row["seconds"] for row in rows], "o-", color=palette.FLOWN, label="seconds")
        axis.loglog(sizes, [row["megabytes"] / 1024 for row in rows], "s--", color=palette.GOAL, label="GiB of memory")
        last = rows[-1]
        line = [last["seconds"] * size / last["size"] for size in sizes]
        axis.loglog(sizes, line, ":", color="grey", label="in proportion")
        axis.set(title=TITLES[name], xlabel=UNITS[name])
        axis.grid(alpha=0.3)
    axes.flat[0].legend(frameon=False)
    save_figure(figure, path)


def sizes_of(most: float) -> dict[str, list[int]]:
    """What to measure, and how large."""
    corpora = [round(LANI * share) for share in SHARES if share <= most]
    return {
        "make": corpora, "read": corpora, "oracle": corpora, "fields": list(FIELDS), "step": list(BATCHES),
        "metrics": list(FLIGHTS),
    }  # fmt: skip


def main() -> None:
    """Read the options, measure what is missing, and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("growth"), help="folder for the results")
    parser.add_argument("--most", type=float, default=1.0, help="the largest corpus, in times LANI's size")
    parser.add_argument("--measure", nargs=2, metavar=("NAME", "SIZE"), help="one measurement alone, of corpora in out")
    options = parser.parse_args()
    if options.measure:
        name, size = options.measure
        row: Row = {"size": float(size)}
        WORK[name](int(size), options.out, row)
        print(json.dumps(row))
        return
    from pvn.learning.checkpoint import write_json

    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "growth.json"
    found: dict[str, list[Any]] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    with tempfile.TemporaryDirectory(dir=options.out) as folder:
        for name in WORK:
            measured(name, 900 if UNITS[name] == "segments" else 64, Path(folder))
        for name, sizes in sizes_of(options.most).items():
            rows = found.setdefault(name, [])
            for size in sizes:
                if size in (row["size"] for row in rows):
                    continue
                if name in ("read", "oracle") and not (Path(folder) / str(size)).exists():
                    measured("make", size, Path(folder))
                rows.append(measured(name, size, Path(folder)))
                rows.sort(key=lambda row: float(row["size"]))
                print(f"{TITLES[name]}: {size:,} {UNITS[name]}, {rows[-1]['seconds']:.2f} s", flush=True)
                write_json(file, found)
    draw(found, options.out / "growth.png")
    for name, rows in found.items():
        print(f"{TITLES[name]}: seconds grow with the power {exponent(rows, 'seconds'):.2f}", flush=True)


if __name__ == "__main__":
    main()
