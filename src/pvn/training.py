"""Training a system by name: its recipe, its corpus, and what other processes do meanwhile, brought together for `fit`.

`pvn.train` and `pvn train` are here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from pvn.corpus.segments import Corpus, Segment
from pvn.corpus.store import count_segments, read_corpus
from pvn.corpus.training_corpus import FOLDER, make_training_corpus
from pvn.corpus.training_text import training_segments
from pvn.corpus.vocabulary import Vocabulary
from pvn.learning.descent import OnProgress, ignore_progress
from pvn.learning.fast_start import FastStart, fast_start
from pvn.learning.fit import Stage, fit
from pvn.learning.recipes import Recipe, TextConfig, with_changes
from pvn.model.agent import Agent
from pvn.model.mapping import InstructedModel
from pvn.simulator.simulator import checked_device, simulator_for
from pvn.systems import Preset, System, find_system


def own_corpus(text: TextConfig, run: Path, watch: OnProgress = ignore_progress) -> Corpus:
    """The corpus of a run to which none is given, in the run's folder; it is made if it is not there."""
    folder = run / FOLDER
    if folder.exists():
        return read_corpus(folder, ("train", "dev"))
    return make_training_corpus(
        size=text.size, has_natural=text.has_natural, narrated=text.narrated, turns=text.turns,
        held_out_authors=text.held_out_authors, folder=folder,
        watch=lambda done, total: watch("corpus", done - 1, total, {}),
    )  # fmt: skip


def epoch_of(segments: Sequence[Segment], text: TextConfig) -> list[Segment]:
    """What stage 1 reads in an epoch: the training split, and then mirror images and repetitions."""
    return training_segments(
        segments, natural_repeats=text.natural_repeats, mirrors_natural=text.mirrors_natural,
        renames_natural=text.renames_natural, circle_repeats=text.circle_repeats,
    )  # fmt: skip


def _without_words(system: str, recipe: Recipe) -> InstructedModel:
    """The network of a system, to be compiled before its words are known."""
    no_words = Vocabulary(terms=(), counts=(), merged={}, sound=frozenset())
    return find_system(system).begin(recipe, no_words).objective.model


def train_system(
    corpus: Corpus | Path | None,
    system: System,
    recipe: Recipe,
    folder: Path,
    *,
    stage: Stage = "all",
    device: str = "cpu",
    is_resumed: bool = False,
    watch: OnProgress = ignore_progress,
) -> Agent:
    """Train a system of the table; checkpoints and the agent go to `folder`.

    corpus: in memory, or its folder; None to have it made as the recipe says, in the folder corpus of `folder`.
    """
    found = checked_device(device)  # now, and not after a corpus has been made
    if isinstance(corpus, Path) and "train" not in count_segments(corpus):
        raise ValueError(f"{corpus}: has no training split, expected one; make the corpus without --only")
    make_model = partial(_without_words, system.name, recipe)
    with fast_start(make_model, recipe, found) if stage != "2" else nullcontext(FastStart()) as start:
        if corpus is None:
            corpus = own_corpus(recipe.text, folder, watch)
        elif isinstance(corpus, Path):
            corpus = read_corpus(corpus, ("train", "dev"))
        return fit(
            partial(system.begin, recipe), corpus, epoch_of(corpus["train"], recipe.text), recipe, folder,
            simulator_for, stage=stage, device=found, is_resumed=is_resumed, watch=watch, start=start,
        )  # fmt: skip


def train(
    corpus: Corpus | Path | str | None,
    out: Path | str,
    *,
    agent: str = "pvn",
    preset: Preset = "paper",
    changes: Mapping[str, Any] | None = None,
    seed: int = 0,
    device: str = "cpu",
    is_resumed: bool = False,
    watch: OnProgress = ignore_progress,
) -> Agent:
    """Train an agent on a corpus, or on the one in a folder; checkpoints and agent.safetensors go to the folder `out`.

    corpus: None to have it made as the recipe says, in the folder corpus of `out`. agent: any system with weights of
    its own: pvn, gsmn, chaplot, pvn-no-aux, ... changes: to the preset's recipe, by dotted field name
    ({"stage1.num_epochs": 8}). is_resumed: continue from the last checkpoint in `out`. watch(phase, step, num_steps,
    metrics): called periodically.
    """
    system, folder = find_system(agent), Path(out)
    recipe = with_changes(system.recipe(preset), changes or {}).with_seed(seed)
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(corpus, str):
        corpus = Path(corpus)
    return train_system(corpus, system, recipe, folder, device=device, is_resumed=is_resumed, watch=watch)
