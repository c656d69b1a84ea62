#!/usr/bin/env python
"""pvn-plus, and what each of its parts gives: train it whole and with each part left out once, and evaluate them all.

    python runs/plus.py --out plus --device cuda

Everything goes to the folder `out`, with a table of the results. What is there is not done again, so a run that was
stopped resumes. All variants take about as many steps: one with fewer segments passes over them more often. No
package is needed that training does not need.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pvn.corpus.meadow.banks import bundled_banks
from pvn.corpus.meadow.generator import FULL_SIZE, make_meadow, make_turns, pool_for
from pvn.corpus.narrator.making import make_narrated
from pvn.corpus.natural.bundled import natural_corpus
from pvn.corpus.segments import Corpus, Segment
from pvn.corpus.training_corpus import FOLDER
from pvn.evaluation.evaluate import evaluate
from pvn.evaluation.summary import Summary
from pvn.files import replacing
from pvn.learning.recipes import AUGMENTATION, plus, with_changes
from pvn.systems import AGENT_FILE, SYSTEMS
from pvn.training import epoch_of, own_corpus, train

VOICES = ("r", "v", "w")
"""Authors of natural instructions who are left out once, and whose instructions are then flown."""
NUM_RETURNS = 300
"""Flights past something and back, in the narrator's words."""
RETURNS_SEED = 1
"""Of their fields; training has those of seed 0."""
NUM_TURNS = 300
"""Turns on the spot, in phrases held out of training."""
FLOWN_BY_ONE = {"voices": "without-three-voices", "test": "pvn-plus"}
"""Splits that only one variant flies; all variants fly the others."""


@dataclass(frozen=True)
class Variant:
    """pvn-plus with something left out, or one thing more."""

    changes: dict[str, Any] = field(default_factory=dict)
    """To its recipe."""
    without_sources: tuple[str, ...] = ()
    without_authors: tuple[str, ...] = ()
    generated_share: float = 1.0
    """Of the generated training segments, how many are used."""

    def keeps(self, segment: Segment) -> bool:
        """Whether a training segment is used."""
        is_left_out = segment.source == "natural" and segment.author in self.without_authors
        return segment.source not in self.without_sources and not is_left_out

    def segments(self, corpus: Corpus) -> tuple[Segment, ...]:
        """The training segments that are used."""
        generated = [segment for segment in corpus["train"] if segment.source == "phrases" and self.keeps(segment)]
        others = [segment for segment in corpus["train"] if segment.source != "phrases" and self.keeps(segment)]
        return (*generated[: round(self.generated_share * len(generated))], *others)


PAPERS_ENCODER = {
    "sizes.num_slots": None, "sizes.word_size": 20, "sizes.embedding_size": 30, "sizes.word_dropout": 0.0,
    "sizes.attention_channels": 0, "sizes.grounding_channels": 3,
}  # fmt: skip
VARIANTS = {
    "pvn-plus": Variant(),
    "without-natural-text": Variant(without_sources=("natural",)),
    "without-narrator": Variant(without_sources=("narrated",)),
    "without-more-data": Variant(generated_share=0.2),
    "without-ordered-way": Variant({"sizes.num_parts": 1}),
    "without-attention": Variant({"sizes.attention_channels": 0}),
    "without-bearing": Variant({"sizes.knows_bearing": False}),
    "without-turned-maps": Variant({"stage1.turn_rad": 0.0}),
    "without-encoder": Variant(PAPERS_ENCODER),
    "without-mirrored-text": Variant({"text.mirrors_natural": False}),
    "without-dropped-words": Variant({"sizes.word_dropout": 0.0}),
    "with-other-names": Variant({"text.renames_natural": True}),
    "with-random-looks": Variant(AUGMENTATION),
    "with-varied-heights": Variant({"stage1.height_spread": 2.5}),
    "without-three-voices": Variant(without_authors=VOICES),
}


def train_variant(name: str, corpus: Corpus, out: Path, device: str, changes: dict[str, Any]) -> None:
    """Train a variant, unless it is trained."""
    folder, variant = out / "runs" / name, VARIANTS[name]
    if (folder / AGENT_FILE).exists():
        return
    recipe, segments = with_changes(plus(), changes), variant.segments(corpus)
    text = with_changes(recipe, {key: value for key, value in variant.changes.items() if key.startswith("text.")}).text
    whole, own = (len(epoch_of(some, config)) for some, config in ((corpus["train"], recipe.text), (segments, text)))
    num_epochs = max(round(recipe.stage1.num_epochs * whole / own), 1)
    began = time.perf_counter()

    def watch(stage: str, step: int, num_steps: int, metrics: dict[str, float]) -> None:
        if step % 1000 == 0:
            shown = "  ".join(f"{what} {value:.3f}" for what, value in metrics.items())
            print(f"{time.perf_counter() - began:6.1f} s  {name}, {stage} {step}/{num_steps}  {shown}", flush=True)

    train(
        Corpus(corpus.name, {"train": segments, "dev": corpus["dev"]}), folder, agent="pvn-plus", preset="plus",
        changes={**changes, "stage1.num_epochs": num_epochs, **variant.changes}, device=device,
        is_resumed=folder.exists(), watch=watch,
    )  # fmt: skip
    print(f"{name}: trained in {time.perf_counter() - began:.0f} s", flush=True)


def evaluate_variant(name: str, splits: dict[str, Corpus], out: Path, device: str, limit: int | None) -> None:
    """Fly every split with a variant, and print how well it did."""
    for split, corpus in splits.items():
        if FLOWN_BY_ONE.get(split, name) != name:
            continue
        (summary,) = evaluate(
            out / "runs" / name / AGENT_FILE, corpus, split="dev", limit=limit, out=out / "results" / split,
            device=device, in_paragraphs=split == "dev" and name == "pvn-plus",
        )  # fmt: skip
        circles = {amount: circle.to_json() for amount, circle in summary.circles.items()}
        facing = {end: faced.to_json() for end, faced in summary.facing.items()}
        paragraphs = summary.paragraphs
        to_end = "" if paragraphs is None else f"{paragraphs.brought_to_end} of paragraphs brought to the end, "
        whole, unseen = summary.overall, "" if summary.unseen is None else f"{summary.unseen.sr.value:.1f}% unseen, "
        print(
            f"{name}, {split}: {whole.flights:,} flights, SR {whole.sr}, "
            f"{unseen}nDTW {whole.ndtw.value:.3f}, SDTW {whole.sdtw.value:.3f}, "
            f"{to_end}circles {json.dumps(circles)}, facing {json.dumps(facing)}",
            flush=True,
        )


def summary_of(out: Path, name: str, split: str) -> Summary | None:
    """The result of a variant on a split; None if there is none."""
    path = out / "results" / split / f"{'own-' if name in SYSTEMS else ''}{name}_dev.json"
    return Summary.from_json(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def table_of(out: Path) -> str:
    """The variants that were flown, in Markdown: success over natural dev and dev, nDTW over dev, and full circles."""
    lines = [
        "| variant | natural dev, SR % | dev, SR % | dev, nDTW | full circles, % |",
        "| :-- | --: | --: | --: | --: |",
    ]
    for name in VARIANTS:
        natural, dev = (summary_of(out, name, split) for split in ("natural", "dev"))
        if natural is None or dev is None:
            continue
        rates = (str(one) for one in (natural.overall.sr, dev.overall.sr))
        circles = dev.circles.get("full")
        flown = "" if circles is None else f"{circles.flown_and_reached:.0f}"
        lines.append(f"| {name} | {' | '.join(rates)} | {dev.overall.ndtw.value:.3f} | {flown} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read the options, train, and evaluate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("plus"), help="folder for everything")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--variant", nargs="*", choices=VARIANTS, default=list(VARIANTS), help="by default all")
    parser.add_argument("--limit", type=int, help="fly only this many segments of each split")
    parser.add_argument("--changes", type=json.loads, default={}, help="to the recipe, as JSON by dotted field name")
    options = parser.parse_args()
    began = time.perf_counter()
    out, limit = options.out, options.limit
    corpus = own_corpus(with_changes(plus(), options.changes).text, out)
    print(
        f"{time.perf_counter() - began:6.1f} s  {len(corpus['train']):,} training segments: {out / FOLDER}", flush=True
    )
    natural = natural_corpus(only=("dev",))
    voices = tuple(segment for segment in corpus["train"] if not VARIANTS["without-three-voices"].keeps(segment))
    phrases = tuple(segment for segment in corpus["dev"] if segment.source == "phrases")
    returns = make_narrated(NUM_RETURNS, kind="returns", seed=RETURNS_SEED)
    splits = {
        "natural": natural,
        "dev": Corpus("dev", {"dev": phrases}),
        "returns": Corpus("returns", {"dev": returns}),
        "turns": Corpus("turns", {"dev": make_turns(bundled_banks(), NUM_TURNS, is_seen=False)}),
    }
    if voices:
        splits["voices"] = Corpus("voices", {"dev": voices})
    for name in options.variant:
        train_variant(name, corpus, out, options.device, options.changes)
        print(f"{time.perf_counter() - began:6.1f} s since the start", flush=True)
        if limit is None and FLOWN_BY_ONE["test"] == name:
            with pool_for(FULL_SIZE) as pool:
                test = make_meadow(bundled_banks(), only=("test",), pool=pool)["test"]
            splits["test"] = Corpus("test", {"dev": test})
        evaluate_variant(name, splits, out, options.device, limit)
        with replacing(out / "table.md") as partial:
            partial.write_text(table_of(out), encoding="utf-8")


if __name__ == "__main__":
    main()
