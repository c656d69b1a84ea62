"""The generated corpus, "meadow": LANI-like fields and tours, flown in manoeuvres, described in the banks' phrases.

Segments that only turn on the spot ("turn left", "look at the windmill") are made separately: LANI's authors leave them
out, and so does this corpus, but people will type them.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from pvn.compiling import num_cores
from pvn.corpus.meadow.banks import Bank, Phrase, bundled_banks
from pvn.corpus.meadow.manoeuvres import Manoeuvre
from pvn.corpus.meadow.references import Lexicon, refer_to_all
from pvn.corpus.meadow.scene import Scene
from pvn.corpus.meadow.sentences import correct_spelling, fill_slots
from pvn.corpus.meadow.tours import ManoeuvreChoice, Manoeuvres, PlannedFlight, first_pose, fly_from, fly_tour
from pvn.corpus.segments import SPLITS, Annotation, Corpus, Segment, Split, phrase_author
from pvn.processes import Shared, process_pool
from pvn.world.layout import Layout, sample_layout
from pvn.world.task import Demonstration, Task

Plan = TypeVar("Plan")
Settings = TypeVar("Settings")
SIZES: dict[Split, int] = {"train": 19_758, "dev": 4_135, "test": 4_072}
"""Number of segments in LANI's splits."""
FULL_SIZE = sum(SIZES.values())
SEGMENTS_PER_PARAGRAPH = 4.66
"""As in LANI, which has 27,965 segments in 6,000 paragraphs."""
PARAGRAPH_SHARES = {3: 0.12, 4: 0.34, 5: 0.32, 6: 0.16, 7: 0.06}
"""Shares of paragraphs by their number of segments."""
UNSEEN_SHARE = 0.3
"""Share of dev and test segments whose phrases no training segment uses."""
HELD_OUT_SHARE = 0.2
"""Share of the phrases for a list of manoeuvres that are held out of training, if there are four or more."""
NOISE = 0.04
"""Share of sentences with a typing error or a missing article."""
BREVITY_WORDS = 10.0
"""A phrase that is this many words longer is chosen e times less often."""
FIELDS_PER_JOB = 20
SEGMENTS_WORTH_PROCESSES = 1000
"""Fewer are made sooner by one process than others take to start."""
FIRST_TURN, FIRST_HELD_OUT_TURN = 3_000_000, 3_500_000
"""Fields of turns on the spot are numbered from here, so that they are never fields of a generated or narrated corpus;
with held-out phrases from the second number, so that they are not training fields either."""
TURNS_PER_FIELD, TRIES_FOR_TURNS = 5, 200
TRIES_PER_FIELD, MAX_FIELDS = 10, 20
"""Tours tried per field, and fields tried, until a tour does not get stuck."""


@dataclass(frozen=True, eq=False)
class PhraseSet:
    """Phrases for training, or phrases held out of it, by the manoeuvres they describe."""

    phrases: dict[Manoeuvres, tuple[Phrase, ...]]
    """For each list of manoeuvres, the phrases for it."""
    choice: ManoeuvreChoice
    """How often each list is tried."""

    @functools.cached_property
    def _cumulative(self) -> dict[Manoeuvres, npt.NDArray[np.float64]]:
        """For each list, the cumulative sums (P,) of its phrases' weights."""
        return {
            manoeuvres: np.cumsum([math.exp(-phrase.template.count(" ") / BREVITY_WORDS) for phrase in phrases])
            for manoeuvres, phrases in self.phrases.items()
        }

    def pick(self, manoeuvres: Manoeuvres, generator: np.random.Generator) -> Phrase:
        """A random phrase for these manoeuvres; shorter ones are likelier, as for somebody who types in a hurry."""
        cumulative = self._cumulative[manoeuvres]
        place = int(np.searchsorted(cumulative, generator.random() * cumulative[-1], side="right"))
        return self.phrases[manoeuvres][place]


@dataclass(frozen=True, eq=False)
class GeneratorSettings:
    """Everything that fields, flights and sentences depend on."""

    seed: int
    noise: float
    """Probability of a slip in a sentence."""
    lexicon: Lexicon
    seen: PhraseSet
    """Phrases for training."""
    unseen: PhraseSet | None
    """Phrases held out of training; None if the banks are too small for that."""
    spellings: Mapping[str, str]
    """Without noise, the right spellings of words that authors misspell; otherwise empty."""

    def phrases(self, is_seen: bool) -> PhraseSet:
        """The phrases for training, or the phrases held out of it, if there are any."""
        return self.seen if is_seen or self.unseen is None else self.unseen


@dataclass(frozen=True)
class FieldPlan:
    """A field and the paragraph to make for it."""

    environment: int
    """Number of the field."""
    is_seen: tuple[bool, ...]
    """For each segment, whether its phrase may be used in training."""


def _weight(manoeuvres: Manoeuvres) -> float:
    """How often a list is tried, for each phrase that the banks have for it; tuned to LANI's distances."""
    texts = [str(manoeuvre) for manoeuvre in manoeuvres]
    kinds = {manoeuvre.kind for manoeuvre in manoeuvres}
    weight = {1: 1.9, 2: 1.0, 3: 0.6}[len(manoeuvres)]
    if kinds & {"lake", "lake pass", "lake circle"}:
        weight *= 2.0  # there is not always a lake ahead
    if kinds & {"until", "between"}:
        weight *= 1.6
    if len({slot for manoeuvre in manoeuvres for slot in manoeuvre.slots}) > 1:
        weight *= 1.5
    if "fence" in kinds:
        weight *= 0.7  # there is always a fence ahead
    if any(text.endswith("full") for text in texts):
        weight *= 0.4
    if "forward short" in texts and kinds <= {"turn", "face", "forward"}:
        weight *= 0.35
    if manoeuvres[0].kind in ("turn", "face"):
        weight *= 0.15  # LANI's demonstrations mostly continue the way the drone faces
        if kinds <= {"turn", "face", "forward"}:
            weight *= 0.6  # and mostly lead to something
    return weight


@functools.cache
def _wording(template: str) -> str:
    """The phrase without capitals and punctuation; phrases with the same wording count as one."""
    return " ".join(re.findall(r"\{.\}|\w+", template.lower()))


def _phrase_set(phrases: Iterable[Phrase]) -> PhraseSet:
    groups: dict[Manoeuvres, list[Phrase]] = defaultdict(list)
    for phrase in phrases:
        groups[phrase.manoeuvres].append(phrase)
    shares = np.array([len(group) * _weight(manoeuvres) for manoeuvres, group in groups.items()])
    choice = ManoeuvreChoice(tuple(groups), shares / shares.sum())
    return PhraseSet({manoeuvres: tuple(group) for manoeuvres, group in groups.items()}, choice)


def _hold_out(phrases: Sequence[Phrase], generator: np.random.Generator) -> set[str]:
    """The wordings to hold out of training."""
    groups: dict[Manoeuvres, list[str]] = defaultdict(list)
    for phrase in phrases:
        groups[phrase.manoeuvres].append(_wording(phrase.template))
    held_out: set[str] = set()
    for wordings in groups.values():
        distinct = list(dict.fromkeys(wordings))
        if len(distinct) >= 4:
            count = max(round(HELD_OUT_SHARE * len(distinct)), 1)
            held_out |= {distinct[place] for place in generator.permutation(len(distinct))[:count].tolist()}
    return held_out


def make_settings(
    banks: Sequence[Bank], seed: int, noise: float, is_all_unseen: bool, is_turning: bool = False
) -> GeneratorSettings:
    """The settings for a corpus; `is_all_unseen`: nothing is trained on these banks, so every phrase is unseen.

    is_turning: for turns on the spot alone rather than for flights.
    """
    if not banks:
        raise ValueError("banks: got none, expected at least one phrase bank")
    if not 0.0 <= noise <= 1.0:
        raise ValueError(f"noise: got {noise:g}, expected a share from 0 to 1")
    if seed < 0:
        raise ValueError(f"seed: got {seed}, expected 0 or more")
    # Turning on the spot is not a flight; LANI's authors leave such segments out too.
    phrases = [phrase for bank in banks for phrase in bank.phrases if phrase.has_movement != is_turning]
    if not phrases:
        what, such_as = ("only turns on the spot", "turn left") if is_turning else ("flies anywhere", "go to {A}")
        raise ValueError(f"banks: got no phrase that {what}, expected one or more, such as {such_as}")
    held_out = set() if is_all_unseen else _hold_out(phrases, np.random.default_rng((seed, 1)))
    spellings = (
        {} if noise else {slip: word for bank in (*bundled_banks(), *banks) for slip, word in bank.slips.items()}
    )
    seen = unseen = _phrase_set(phrases)
    if held_out:
        seen = _phrase_set(phrase for phrase in phrases if _wording(phrase.template) not in held_out)
        unseen = _phrase_set(phrase for phrase in phrases if _wording(phrase.template) in held_out)
    is_any_unseen = is_all_unseen or bool(held_out)
    return GeneratorSettings(seed, noise, Lexicon.of(banks), seen, unseen if is_any_unseen else None, spellings)


def _describe(
    settings: GeneratorSettings,
    scene: Scene,
    flight: PlannedFlight,
    is_seen: bool,
    place: tuple[int, int],
    generator: np.random.Generator,
) -> Segment:
    """A flight put into words; place: the number of its field, and its index in the paragraph."""
    plain = tuple(Manoeuvre(m.kind, m.slots, "COLOR") if m.kind == "fence" else m for m in flight.manoeuvres)
    phrase = settings.phrases(is_seen).pick(plain, generator)
    author = phrase_author(phrase.id) or ""
    references, is_ambiguous = refer_to_all(settings.lexicon, author, phrase.template, scene, flight, generator)
    path, stops = flight.path
    note = Annotation(tuple(map(str, flight.manoeuvres)), stops, flight.meant, phrase.id, is_seen, is_ambiguous)
    # A separate generator, so that noise changes nothing else.
    slips = np.random.default_rng(int(generator.integers(2**62)))
    text = correct_spelling(fill_slots(phrase.template, references, settings.noise, slips), settings.spellings)
    if len(path) == 1:  # a turn on the spot begins where it ends
        path = np.repeat(path, 2, axis=0)
    demonstration = Demonstration(Task(scene.layout, flight.start, text), path, flight.turned_to)
    return Segment(*place, demonstration, note, "phrases", phrase_author(phrase.id))


def make_paragraph(settings: GeneratorSettings, field: FieldPlan, layout: Layout | None = None) -> list[Segment]:
    """The segments of one paragraph, in a random field by default; if a tour gets stuck, another is tried."""
    choices = [settings.phrases(is_seen).choice for is_seen in field.is_seen]
    for attempt in range(TRIES_PER_FIELD * MAX_FIELDS):
        trial, tour = divmod(attempt, TRIES_PER_FIELD)
        if tour == 0:
            layout_seed = np.random.default_rng((settings.seed, field.environment, trial)).integers(2**62)
            scene = Scene.of(sample_layout(int(layout_seed)) if layout is None else layout)
        generator = np.random.default_rng((settings.seed, field.environment, trial, tour))
        flights = fly_tour(scene, choices, generator) if len(scene.centres) else None
        if flights is not None:
            break
    else:
        raise ValueError(
            f"no tour of {len(choices)} flights was found in {attempt + 1} tries; expected landmarks with room between "
            "them and phrases that can be flown there; add landmarks, or phrases such as goto A and turn left"
        )
    return [
        _describe(settings, scene, flight, is_seen, (field.environment, place), generator)
        for place, (flight, is_seen) in enumerate(zip(flights, field.is_seen, strict=True))
    ]


def sample_paragraph(seed: int, layout: Layout | None = None) -> list[Segment]:
    """Five segments in a random field, or in the given one, described in phrases of the bundled banks."""
    settings = make_settings(bundled_banks(), seed, 0.0, is_all_unseen=True)
    return make_paragraph(settings, FieldPlan(0, (False,) * 5), layout)


def numbered_layout(number: int) -> Layout:
    """The random field of this number, the same that `pvn fly --field` and `sample_paragraph` fly in."""
    return sample_paragraph(number)[0].task.layout


def _make_paragraphs(settings: GeneratorSettings, fields: Sequence[FieldPlan]) -> list[Segment]:
    return [segment for field in fields for segment in make_paragraph(settings, field)]


def _paragraph_lengths(num_segments: int, generator: np.random.Generator) -> list[int]:
    """Numbers of segments in paragraphs, on average as in LANI, that add up to `num_segments`."""
    count = max(round(num_segments / SEGMENTS_PER_PARAGRAPH), 1)
    lengths = generator.choice(list(PARAGRAPH_SHARES), count, p=list(PARAGRAPH_SHARES.values()))
    while lengths.sum() != num_segments:
        step = 1 if lengths.sum() < num_segments else -1
        may_change = np.flatnonzero(lengths + step >= 1)
        lengths[generator.choice(may_change)] += step
    return lengths.tolist()


def plan_split(split: Split, num_segments: int, seed: int, unseen_share: float) -> list[FieldPlan]:
    """The fields of a split, numbered so that no two splits share a field, regardless of their sizes."""
    order = SPLITS.index(split)
    generator = np.random.default_rng((seed, 2, order))
    lengths = _paragraph_lengths(num_segments, generator)
    is_seen = np.ones(num_segments, bool)
    is_seen[generator.permutation(num_segments)[: round(unseen_share * num_segments)]] = False
    parts = np.split(is_seen, np.cumsum(lengths)[:-1])
    return [FieldPlan(len(SPLITS) * place + order, tuple(part.tolist())) for place, part in enumerate(parts)]


def split_sizes(size: int, only: Sequence[Split] = SPLITS) -> dict[Split, int]:
    """Number of segments in each split of a corpus of about `size` segments, in LANI's proportions."""
    if size < 20:
        raise ValueError(f"size: got {size}, expected at least 20 segments")
    return {split: max(round(size * SIZES[split] / FULL_SIZE), 3) for split in SPLITS if split in only}


@contextmanager
def pool_for(num_segments: int, num_processes: int = 0) -> Iterator[Executor | None]:
    """A pool of `num_processes`, by default as many as make so many segments soonest; None for a single process."""
    count = num_processes or (num_cores() if num_segments >= SEGMENTS_WORTH_PROCESSES else 1)
    if count == 1:
        yield None
        return
    with process_pool(count) as pool:
        yield pool


def _run_job(
    make: Callable[[Settings, Sequence[Plan]], list[Segment]], settings: Shared[Settings], plans: Sequence[Plan]
) -> list[Segment]:
    return make(settings.value, plans)


def make_parts(
    make: Callable[[Settings, Sequence[Plan]], list[Segment]],
    settings: Settings,
    plans: Sequence[Plan],
    pool: Executor | None,
) -> Iterator[list[Segment]]:
    """The segments that `make(settings, plans)` makes of a few plans at a time, in the plans' order.

    pool: processes to use; None for this one.
    """
    jobs = [plans[begin : begin + FIELDS_PER_JOB] for begin in range(0, len(plans), FIELDS_PER_JOB)]
    yield from (map if pool is None else pool.map)(functools.partial(_run_job, make, Shared(settings)), jobs)


def make_meadow(
    banks: Sequence[Bank],
    *,
    size: int = FULL_SIZE,
    seed: int = 0,
    noise: float = NOISE,
    only: Sequence[Split] = SPLITS,
    is_all_unseen: bool = False,
    pool: Executor | None = None,
    watch: Callable[[int], None] = lambda count: None,
) -> Corpus:
    """A corpus of about `size` segments, described in the banks' phrases; the same arguments give the same corpus.

    Splits that are not in `only` are left out, which does not change the others. pool: processes to use (`pool_for`);
    None for this one. watch(count) is called periodically with the number of segments made so far.
    """
    sizes = split_sizes(size, only)
    settings = make_settings(banks, seed, noise, is_all_unseen)
    unseen_share = 0.0 if settings.unseen is None else 1.0 if is_all_unseen else UNSEEN_SHARE
    plans = [
        plan
        for split, count in sizes.items()
        for plan in plan_split(split, count, seed, 0.0 if split == "train" else unseen_share)
    ]
    made: list[Segment] = []
    for segments in make_parts(_make_paragraphs, settings, plans, pool):
        made += segments
        watch(len(made))
    in_order = iter(made)
    return Corpus("meadow", {split: tuple(itertools.islice(in_order, count)) for split, count in sizes.items()})


def _turns_in_field(settings: GeneratorSettings, is_seen: bool, environment: int) -> list[Segment]:
    """Five turns in a random field, each at a different place."""
    generator = np.random.default_rng((settings.seed, environment))
    layouts = (sample_layout(int(generator.integers(2**62))) for _ in itertools.count())
    scene = Scene.of(next(layout for layout in layouts if layout.landmarks))
    choice = settings.phrases(is_seen).choice
    segments: list[Segment] = []
    for _ in range(TRIES_FOR_TURNS):
        if len(segments) == TURNS_PER_FIELD:
            return segments
        pose = first_pose(scene, generator)
        tries = (fly_from(scene, pose, manoeuvres, generator) for manoeuvres in choice.draw(generator))
        flight = next((flight for flight in tries if flight is not None), None)
        if flight is not None:
            segments.append(_describe(settings, scene, flight, is_seen, (environment, len(segments)), generator))
    raise ValueError(
        f"field {environment}: found {len(segments)} turns in {TRIES_FOR_TURNS} tries, expected {TURNS_PER_FIELD}; add "
        "phrases such as turn left"
    )


def _turns_in_fields(chosen: tuple[GeneratorSettings, bool], environments: Sequence[int]) -> list[Segment]:
    return [segment for number in environments for segment in _turns_in_field(*chosen, number)]


def make_turns(
    banks: Sequence[Bank],
    count: int,
    *,
    seed: int = 0,
    noise: float = NOISE,
    is_seen: bool = True,
    pool: Executor | None = None,
    watch: Callable[[int], None] = lambda count: None,
) -> tuple[Segment, ...]:
    """`count` turns on the spot, described in the banks' phrases; the same arguments give the same turns.

    is_seen: whether to use the phrases for training, or those held out of it. pool and watch: as in `make_meadow`.
    """
    if count < 0:
        raise ValueError(f"count: got {count}, expected 0 or more segments")
    if not count:
        return ()
    settings = make_settings(banks, seed, noise, is_all_unseen=False, is_turning=True)
    if not is_seen and settings.unseen is None:
        raise ValueError("banks: got too few phrases to hold any out of training, expected four or more for a turn")
    first = FIRST_TURN if is_seen else FIRST_HELD_OUT_TURN
    numbers = range(first, first - (-count // TURNS_PER_FIELD))
    made: list[Segment] = []
    for segments in make_parts(_turns_in_fields, (settings, is_seen), numbers, pool):
        made += segments
        watch(min(len(made), count))
    return tuple(made[:count])
