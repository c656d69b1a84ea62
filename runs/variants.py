#!/usr/bin/env python
"""The paper's agent and variants of it, each trained and flown over the dev split.

    python runs/variants.py --out variants --device cuda                              # all of them
    python runs/variants.py --out variants --device cuda --variant paper no-strays    # two of them

`literal` is the paper's recipe as written, but for batches of two; ten others are `paper` with one change taken back
(docs/agent.md), one is `literal` in large batches, and five take back some or all of the three changes that each cost
something, in as many epochs or in fewer; one of these is the preset `quick`. Four more ask why two rows of the results
table differ from the paper's (docs/results.md): targets of a third of a cell for stage 2, a stage 1 of 8 epochs and
commands that come a step late are flown with an ideal second stage, too; pictures from varied heights in training are
flown at half the height, too. The last has pictures of random looks in training.

Everything goes to the folder `out`; what is there already is not done again, so a run that was stopped continues. No
package is needed that training does not need.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pvn.corpus.segments import Corpus
from pvn.corpus.training_corpus import FOLDER
from pvn.evaluation.evaluate import evaluate
from pvn.evaluation.pairing import difference_of
from pvn.evaluation.summary import Summary
from pvn.learning.checkpoint import read_tensors, write_tensors
from pvn.learning.presets import LITERAL, QUICK, RANDOM_LOOKS, make_own_corpus, paper, train_system, with_changes
from pvn.learning.training import STAGE1
from pvn.systems import AGENT_FILE, SYSTEMS, FlightChanges

BASE = "paper"
"""The variant whose recipe the others change."""


@dataclass(frozen=True)
class Variant:
    """The paper's agent with something changed."""

    changes: Mapping[str, Any] = field(default_factory=dict)
    """To its recipe."""
    flights: tuple[FlightChanges, ...] = (FlightChanges(),)
    """How it is flown, once for each."""

    @property
    def has_own_stage1(self) -> bool:
        """Whether stage 1 is trained, not that of BASE."""
        return any(not name.startswith("stage2.") for name in self.changes)


def with_ideal_act(**changes: Any) -> tuple[FlightChanges, ...]:
    """Flights with the trained second stage, and with the ideal one."""
    return FlightChanges(**changes), FlightChanges(has_ideal_act=True, **changes)


COSTLY = ("plain Adam", "mean over classes", "no words first")
"""Changes whose taking back is a gain by itself (docs/results.md)."""
LARGE_BATCHES = tuple(name for name in LITERAL if name != "small batches")


def all_of(names: Sequence[str]) -> Variant:
    """Several changes taken back at once."""
    return Variant({name: value for change in names for name, value in LITERAL[change].items()})


COSTLY_TAKEN_BACK = (
    "three-taken-back", "three-in-half-the-epochs", "mean-in-half-the-epochs", "mean-and-Adam-in-half-the-epochs",
    "quick",
)  # fmt: skip
"""Variants without some or all of them, in as many epochs or in fewer."""
VARIANTS = {
    BASE: Variant(flights=(*with_ideal_act(), FlightChanges(altitude=2.5))),
    "literal": all_of(tuple(LITERAL)),
    **{name.replace(" ", "-"): Variant(changes) for name, changes in LITERAL.items()},
    "literal-in-large-batches": all_of(LARGE_BATCHES),
    "three-taken-back": all_of(COSTLY),
    "three-in-half-the-epochs": Variant({**all_of(COSTLY).changes, "stage1.num_epochs": 20}),
    "mean-in-half-the-epochs": Variant({**LITERAL["mean over classes"], "stage1.num_epochs": 20}),
    "mean-and-Adam-in-half-the-epochs": Variant({**all_of(COSTLY[:2]).changes, "stage1.num_epochs": 20}),
    "quick": Variant(QUICK),
    "narrow-targets": Variant({"stage2.sigma_cells": 1 / 3}, with_ideal_act()),
    "short-stage-1": Variant({"stage1.num_epochs": 8}, with_ideal_act()),
    "late-commands": Variant(flights=with_ideal_act(delay_steps=1)),
    "varied-heights": Variant({"stage1.height_spread": 2.5}, (FlightChanges(), FlightChanges(altitude=2.5))),
    "random-looks": Variant(RANDOM_LOOKS),
}


def train_variant(name: str, corpus: Corpus, out: Path, device: str, changes: Mapping[str, Any]) -> Path:
    """Train a variant, unless it is trained; the file of its agent."""
    variant, folder = VARIANTS[name], out / "runs" / name
    if name != BASE and not variant.changes:
        return train_variant(BASE, corpus, out, device, changes)
    if (folder / AGENT_FILE).exists():
        return folder / AGENT_FILE
    has_own_stage1 = name == BASE or variant.has_own_stage1
    is_resumed = folder.exists()
    if not has_own_stage1:
        lender = train_variant(BASE, corpus, out, device, changes).parent
        folder.mkdir(parents=True, exist_ok=True)
        write_tensors(folder / STAGE1, read_tensors(lender / STAGE1))
    began = time.perf_counter()

    def watch(stage: str, step: int, num_steps: int, metrics: dict[str, float]) -> None:
        if step % 1000 == 0:
            shown = "  ".join(f"{what} {value:.3f}" for what, value in metrics.items())
            print(f"{time.perf_counter() - began:6.1f} s  {name}, {stage} {step}/{num_steps}  {shown}", flush=True)

    folder.mkdir(parents=True, exist_ok=True)
    train_system(
        corpus, SYSTEMS["pvn"], with_changes(paper(), {**changes, **variant.changes}), folder,
        stage="all" if has_own_stage1 else "2", device=device, is_resumed=is_resumed, watch=watch,
    )  # fmt: skip
    print(f"{name}: trained in {time.perf_counter() - began:.0f} s", flush=True)
    return folder / AGENT_FILE


def fly_variant(name: str, agent: Path, corpus: Corpus, out: Path, device: str, limit: int | None) -> None:
    """Fly the dev split in each of a variant's ways, and print how well it did."""
    for changes in VARIANTS[name].flights:
        (summary,) = evaluate(
            agent, corpus, split="dev", limit=limit, out=out / "results", device=device, changes=changes
        )
        whole, unseen = summary.overall, "" if summary.unseen is None else f", {summary.unseen.sr.value:.1f}% unseen"
        print(
            f"{name}: {summary.system}, {whole.flights:,} flights, SR {whole.sr}{unseen}, nDTW {whole.ndtw.value:.3f}",
            flush=True,
        )


def table_of(results: Path) -> str:
    """What each of our changes is worth, in Markdown: success over dev without it, and its difference from BASE.

    Variants that were not flown are left out.
    """
    lines = ["| variant | dev, SR % | unseen phrases, SR % | points, paired |", "| :-- | --: | --: | --: |"]
    flown = {}
    taken_back = (name.replace(" ", "-") for name in LITERAL)
    for name in (BASE, "literal", "literal-in-large-batches", *taken_back, *COSTLY_TAKEN_BACK):
        path = results / f"{name}_dev.json"
        if path.exists():
            flown[name] = Summary.from_json(json.loads(path.read_text(encoding="utf-8")))
    for name, summary in flown.items():
        gain = None if name == BASE else difference_of({0: summary}, {0: flown[BASE]}).interval
        points = "" if gain is None else f"{gain.value:+z.1f} {gain.bracket('+z.1f')}"
        unseen = "" if summary.unseen is None else f"{summary.unseen.sr}"
        lines.append(f"| {name} | {summary.overall.sr} | {unseen} | {points} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read the options, train, and fly."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("variants"), help="folder for everything")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--variant", nargs="*", choices=VARIANTS, default=list(VARIANTS), help="by default all")
    parser.add_argument("--limit", type=int, help="fly only this many segments")
    parser.add_argument("--changes", type=json.loads, default={}, help="to recipes, as JSON by dotted field name")
    options = parser.parse_args()
    corpus = make_own_corpus(with_changes(paper(), options.changes), options.out)
    print(f"{len(corpus['train']):,} training segments: {options.out / FOLDER}", flush=True)
    for name in options.variant:
        agent = train_variant(name, corpus, options.out, options.device, options.changes)
        fly_variant(name, agent, corpus, options.out, options.device, options.limit)
    if options.limit is None and (options.out / "results" / f"{BASE}_dev.json").exists():
        print(table_of(options.out / "results"), end="")


if __name__ == "__main__":
    main()
