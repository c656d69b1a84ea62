"""The corpus in the box, "meadow": LANI's kind of fields and tours, flown by manoeuvres, told in the banks' phrases."""

from __future__ import annotations

import concurrent.futures
import functools
import math
import multiprocessing
import os
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pvn.corpus.meadow.banks import Bank, Phrase, bundled_banks
from pvn.corpus.meadow.manoeuvres import Manoeuvre
from pvn.corpus.meadow.references import Lexicon, refer_to_all
from pvn.corpus.meadow.scene import Scene
from pvn.corpus.meadow.sentences import fill
from pvn.corpus.meadow.tours import Choice, Do, Flight, fly_tour
from pvn.corpus.segments import SPLITS, Annotation, Corpus, Segment, Split
from pvn.world.layout import Layout, sample_layout
from pvn.world.task import Demonstration, Task

SIZES: dict[Split, int] = {"train": 19_758, "dev": 4_135, "test": 4_072}
"""LANI's, in segments."""
FULL_SIZE = sum(SIZES.values())
PER_PARAGRAPH = 4.66
"""LANI's 27,965 segments in 6,000 paragraphs."""
PARAGRAPHS = {3: 0.12, 4: 0.34, 5: 0.32, 6: 0.16, 7: 0.06}
"""Shares of paragraphs by their number of segments."""
UNSEEN_SHARE = 0.3
"""Share of dev and test segments told in phrases no training segment uses."""
HELD_OUT_SHARE = 0.2
"""Share of the phrases for a list of manoeuvres that training does without, where there are four or more."""
NOISE = 0.04
HURRY_WORDS = 10.0
FIELDS_PER_JOB = 20
TRIES_PER_FIELD, MOST_FIELDS = 10, 20
"""Tours tried in a field, and fields tried, until one tour does not get stuck."""


@dataclass(frozen=True, eq=False)
class Stock:
    """The phrases of one kind, training's or those held out, by what they say."""

    phrases: dict[Do, tuple[Phrase, ...]]
    """For each list of manoeuvres, the phrases that say it."""
    choice: Choice
    """How often each list is tried."""


@dataclass(frozen=True, eq=False)
class Recipe:
    """Everything the fields, flights and sentences depend on."""

    seed: int
    noise: float
    lexicon: Lexicon
    seen: Stock
    unseen: Stock | None
    """None where the banks are too small for phrases to be held out."""


@dataclass(frozen=True)
class Field:
    """One paragraph to be made."""

    environment: int
    is_seen: tuple[bool, ...]
    """For each segment, whether its phrase is one of training's."""


def _weight(do: Do) -> float:
    """How often people would say it, beside how many ways the banks have to say it; chosen for LANI's distances."""
    texts = [str(manoeuvre) for manoeuvre in do]
    kinds = {manoeuvre.kind for manoeuvre in do}
    weight = {1: 1.9, 2: 1.0, 3: 0.6}[len(do)]
    if kinds & {"lake", "lake pass", "lake circle"}:
        weight *= 2.0  # there is not always a lake ahead
    if kinds & {"until", "between"}:
        weight *= 1.6
    if len({slot for manoeuvre in do for slot in manoeuvre.slots}) > 1:
        weight *= 1.5
    if "fence" in kinds:
        weight *= 0.7  # there is always a fence ahead
    if any(text.endswith("full") for text in texts):
        weight *= 0.4
    if "forward short" in texts and kinds <= {"turn", "face", "forward"}:
        weight *= 0.35
    if do[0].kind in ("turn", "face"):
        weight *= 0.15  # LANI's demonstrations mostly go on the way the drone is looking
        if kinds <= {"turn", "face", "forward"}:
            weight *= 0.6  # and mostly to something
    return weight


def _wording(phrase: Phrase) -> str:
    """The phrase without capitals and punctuation: phrases that differ in nothing else are one."""
    return " ".join(re.findall(r"\{.\}|\w+", phrase.say.lower()))


def _stock(phrases: Iterable[Phrase]) -> Stock:
    groups: dict[Do, list[Phrase]] = defaultdict(list)
    for phrase in phrases:
        groups[phrase.do].append(phrase)
    shares = np.array([len(group) * _weight(do) for do, group in groups.items()])
    return Stock({do: tuple(group) for do, group in groups.items()}, Choice(tuple(groups), shares / shares.sum()))


def _hold_out(phrases: Sequence[Phrase], generator: np.random.Generator) -> set[str]:
    """The wordings that training does without."""
    groups: dict[Do, list[str]] = defaultdict(list)
    for phrase in phrases:
        groups[phrase.do].append(_wording(phrase))
    held: set[str] = set()
    for wordings in groups.values():
        distinct = list(dict.fromkeys(wordings))
        if len(distinct) >= 4:
            count = max(round(HELD_OUT_SHARE * len(distinct)), 1)
            held |= {distinct[place] for place in generator.permutation(len(distinct))[:count].tolist()}
    return held


def make_recipe(banks: Sequence[Bank], seed: int, noise: float, is_all_unseen: bool) -> Recipe:
    """The recipe for a corpus; `is_all_unseen` where nothing is trained, so that every phrase is new."""
    if not banks:
        raise ValueError("banks: got none, expected at least one phrase bank")
    if not 0.0 <= noise <= 1.0:
        raise ValueError(f"noise: got {noise:g}, expected a share from 0 to 1")
    if seed < 0:
        raise ValueError(f"seed: got {seed}, expected 0 or more")
    # Turning on the spot alone is no flight; LANI leaves such segments out too.
    phrases = [phrase for bank in banks for phrase in bank.phrases if phrase.moves]
    held = _hold_out(phrases, np.random.default_rng((seed, 1)))
    if is_all_unseen or not held:
        everything = _stock(phrases)
        return Recipe(seed, noise, Lexicon.of(banks), everything, everything if is_all_unseen else None)
    return Recipe(
        seed,
        noise,
        Lexicon.of(banks),
        _stock(phrase for phrase in phrases if _wording(phrase) not in held),
        _stock(phrase for phrase in phrases if _wording(phrase) in held),
    )


def _pick_phrase(phrases: Sequence[Phrase], generator: np.random.Generator) -> Phrase:
    """One of the phrases; the shorter, the likelier, for people who type are in a hurry."""
    shares = [math.exp(-phrase.say.count(" ") / HURRY_WORDS) for phrase in phrases]
    total = np.cumsum(shares)
    return phrases[int(np.searchsorted(total, generator.random() * total[-1], side="right"))]


def _stock_for(recipe: Recipe, is_seen: bool) -> Stock:
    return recipe.seen if is_seen or recipe.unseen is None else recipe.unseen


def _tell(
    recipe: Recipe, scene: Scene, flight: Flight, is_seen: bool, generator: np.random.Generator
) -> tuple[str, Annotation]:
    stock = _stock_for(recipe, is_seen)
    plain = tuple(Manoeuvre(m.kind, m.slots, "COLOR") if m.kind == "fence" else m for m in flight.do)
    phrase = _pick_phrase(stock.phrases[plain], generator)
    author = phrase.id.rstrip("0123456789")
    references, is_ambiguous = refer_to_all(recipe.lexicon, author, phrase.say, scene, flight, generator)
    annotation = Annotation(
        tuple(map(str, flight.do)), flight.path()[1], flight.meant, phrase.id, is_seen, is_ambiguous
    )
    slips = np.random.default_rng(int(generator.integers(2**62)))  # apart, so that noise changes nothing else
    return fill(phrase.say, references, recipe.noise, slips), annotation


def make_paragraph(recipe: Recipe, field: Field, layout: Layout | None = None) -> list[Segment]:
    """The segments of one field, a random one by default; a tour that gets stuck gives way to another."""
    choices = [_stock_for(recipe, is_seen).choice for is_seen in field.is_seen]
    for attempt in range(TRIES_PER_FIELD * MOST_FIELDS):
        trial, tour = divmod(attempt, TRIES_PER_FIELD)
        if tour == 0:
            layout_seed = np.random.default_rng((recipe.seed, field.environment, trial)).integers(2**62)
            scene = Scene.of(sample_layout(int(layout_seed)) if layout is None else layout)
        generator = np.random.default_rng((recipe.seed, field.environment, trial, tour))
        flights = fly_tour(scene, choices, generator) if len(scene.centres) else None
        if flights is not None:
            break
    else:
        raise ValueError(
            f"no tour of {len(choices)} flights could be found in {attempt + 1} tries; expected landmarks with room "
            "between them and phrases that can be flown there; add landmarks, or phrases such as goto A and turn left"
        )
    segments = []
    for place, (flight, is_seen) in enumerate(zip(flights, field.is_seen, strict=True)):
        instruction, annotation = _tell(recipe, scene, flight, is_seen, generator)
        demonstration = Demonstration(Task(scene.layout, flight.start, instruction), flight.path()[0])
        segments.append(Segment(field.environment, place, demonstration, annotation))
    return segments


def sample_paragraph(seed: int, layout: Layout | None = None) -> list[Segment]:
    """Five segments in a random field, or in a given one, told in the bundled banks' phrases."""
    recipe = make_recipe(bundled_banks(), seed, 0.0, is_all_unseen=True)
    return make_paragraph(recipe, Field(0, (False,) * 5), layout)


def _make_paragraphs(recipe: Recipe, fields: Sequence[Field]) -> list[Segment]:
    return [segment for field in fields for segment in make_paragraph(recipe, field)]


def _paragraph_lengths(num_segments: int, generator: np.random.Generator) -> list[int]:
    """Numbers of segments of paragraphs, LANI's on average, that add up exactly."""
    count = max(round(num_segments / PER_PARAGRAPH), 1)
    lengths = generator.choice(list(PARAGRAPHS), count, p=list(PARAGRAPHS.values()))
    while lengths.sum() != num_segments:
        step = 1 if lengths.sum() < num_segments else -1
        may_change = np.flatnonzero(lengths + step >= 1)
        lengths[generator.choice(may_change)] += step
    return lengths.tolist()


def plan_split(split: Split, num_segments: int, seed: int, unseen_share: float) -> list[Field]:
    """The fields of a split, numbered so that no two splits share one, whatever their sizes."""
    order = SPLITS.index(split)
    generator = np.random.default_rng((seed, 2, order))
    lengths = _paragraph_lengths(num_segments, generator)
    is_seen = np.ones(num_segments, bool)
    is_seen[generator.permutation(num_segments)[: round(unseen_share * num_segments)]] = False
    parts = np.split(is_seen, np.cumsum(lengths)[:-1])
    return [Field(len(SPLITS) * place + order, tuple(part.tolist())) for place, part in enumerate(parts)]


def split_sizes(size: int, only: Sequence[Split] = SPLITS) -> dict[Split, int]:
    """Segments of each split in a corpus of about `size` segments, in LANI's proportions."""
    if size < 20:
        raise ValueError(f"size: got {size}, expected at least 20 segments")
    return {split: max(round(size * SIZES[split] / FULL_SIZE), 3) for split in SPLITS if split in only}


def _jobs(fields: Sequence[Field]) -> list[Sequence[Field]]:
    return [fields[begin : begin + FIELDS_PER_JOB] for begin in range(0, len(fields), FIELDS_PER_JOB)]


def _die_with(parent: int) -> None:
    """End this process soon after its parent is gone; a killed one cannot say goodbye."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _results(recipe: Recipe, jobs: Sequence[Sequence[Field]], num_processes: int) -> Iterator[list[Segment]]:
    make = functools.partial(_make_paragraphs, recipe)
    if num_processes == 1:
        yield from map(make, jobs)
        return
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(
        num_processes, mp_context=context, initializer=_die_with, initargs=(os.getpid(),)
    ) as pool:
        yield from pool.map(make, jobs)


def make_meadow(
    banks: Sequence[Bank],
    *,
    size: int = FULL_SIZE,
    seed: int = 0,
    noise: float = NOISE,
    only: Sequence[Split] = SPLITS,
    is_all_unseen: bool = False,
    num_processes: int = 1,
    watch: Callable[[int], None] = lambda count: None,
) -> Corpus:
    """A corpus of about `size` segments from phrase banks; the same arguments give the same corpus.

    `only` leaves splits out and changes nothing in the others. watch(count) is told of every few segments made.
    """
    recipe = make_recipe(banks, seed, noise, is_all_unseen)
    splits: dict[Split, tuple[Segment, ...]] = {}
    held = 0.0 if recipe.unseen is None else 1.0 if is_all_unseen else UNSEEN_SHARE
    plans = {
        split: plan_split(split, count, seed, 0.0 if split == "train" else held)
        for split, count in split_sizes(size, only).items()
    }
    jobs = [job for fields in plans.values() for job in _jobs(fields)]
    results = _results(recipe, jobs, num_processes)
    for split, fields in plans.items():
        made: list[Segment] = []
        for _ in _jobs(fields):
            made += next(results)
            watch(sum(map(len, splits.values())) + len(made))
        splits[split] = tuple(made)
    return Corpus("meadow", splits)
