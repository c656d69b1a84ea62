"""Narrated segments for training: flights of the generator, LANI-like tours, and flights there and back, told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from pvn.corpus.meadow.banks import bundled_banks
from pvn.corpus.meadow.generator import (
    NOISE,
    SEGMENTS_PER_PARAGRAPH,
    FieldPlan,
    GeneratorSettings,
    make_all,
    make_paragraph,
    make_settings,
    sample_paragraph,
)
from pvn.corpus.narrator.returning import sample_returns
from pvn.corpus.narrator.telling import Narration, narrate
from pvn.corpus.narrator.wordings import narrator_lexicon
from pvn.corpus.segments import Segment
from pvn.world.routes import sample_tour
from pvn.world.task import Demonstration

FlightKind = Literal["generator", "tours", "returns"]
FIRST_ENVIRONMENT = 2_000_000
"""Fields are numbered from here, so that they are never those of a generated corpus."""
SHARES: Mapping[FlightKind, float] = {"tours": 0.3, "returns": 0.1, "generator": 0.6}
"""Shares of the fields, if kinds are mixed, by what is flown there."""
_FLIGHTS = 5
"""Flights of the generator in a field, or there and back."""


@dataclass(frozen=True)
class _Plan:
    """A field and what is flown in it."""

    environment: int
    kind: FlightKind


def _flights(settings: GeneratorSettings, plan: _Plan) -> list[Demonstration]:
    if plan.kind == "generator":
        segments = make_paragraph(settings, FieldPlan(plan.environment, (True,) * _FLIGHTS))
        return [segment.demonstration for segment in segments]
    seed = int(np.random.default_rng((settings.seed, plan.environment)).integers(2**40))
    return sample_flights(seed, plan.kind)


def sample_flights(seed: int, kind: FlightKind) -> list[Demonstration]:
    """The flights of one random field: five of the generator's, the legs of a tour, or up to five there and back."""
    if kind == "generator":
        return [segment.demonstration for segment in sample_paragraph(seed)]
    return sample_tour(seed) if kind == "tours" else sample_returns(seed, _FLIGHTS)


def _says_to_come_back(narration: Narration) -> bool:
    """Whether a flight there and back is told as one, and not only by its end."""
    events = [clause.event for clause in narration.clauses]
    passed = {mark for event in events if event.kind in ("pass", "both") for mark in event.marks}
    return any(
        event.kind == "end start"
        or event.is_turn_back
        or (event.kind == "end front" and not passed.isdisjoint(event.marks))
        for event in events
    )


def _segment(environment: int, place: int, flight: Demonstration, narration: Narration) -> Segment:
    # Without the turn that may follow: what is told happens along the path.
    told = Demonstration(replace(flight.task, instruction=narration.text), flight.path)
    return Segment(environment, place, told, source="narrated", author=f"narrator, {narration.voice}")


def _narrate_fields(settings: GeneratorSettings, plans: Sequence[_Plan]) -> list[Segment]:
    segments = []
    for plan in plans:
        generator = np.random.default_rng((settings.seed, plan.environment, 1))
        for place, flight in enumerate(_flights(settings, plan)):
            task = flight.task
            narration = narrate(task.layout, task.start, flight.path, narrator_lexicon(), generator, settings.noise)
            if narration is not None and (plan.kind != "returns" or _says_to_come_back(narration)):
                segments.append(_segment(plan.environment, place, flight, narration))
    return segments


def make_narrated(
    count: int,
    *,
    seed: int = 0,
    kind: FlightKind | None = None,
    noise: float = NOISE,
    pool: Executor | None = None,
    watch: Callable[[int], None] = lambda count: None,
) -> tuple[Segment, ...]:
    """`count` narrated segments for training; the same arguments give the same, however many processes make them.

    kind: flights of the generator, which follow manoeuvres, LANI-like tours, or flights there and back; None for all of
    them. pool: processes to use (`pool_for`); None for this one. watch(count) is called periodically with the number of
    segments made so far.
    """
    if count < 0:
        raise ValueError(f"count: got {count}, expected 0 or more segments")
    if kind is not None and kind not in get_args(FlightKind):
        raise ValueError(f"kind: got {kind!r}, expected one of {', '.join(get_args(FlightKind))}")
    settings = make_settings(bundled_banks(), seed, noise, is_all_unseen=False)
    kinds: dict[FlightKind, float] = dict(SHARES) if kind is None else {kind: 1.0}
    made: list[Segment] = []
    first = FIRST_ENVIRONMENT
    while len(made) < count:  # some flights cannot be told, so a second round may be needed
        # A few fields more than needed on average, so that one round mostly suffices.
        num_fields = int((count - len(made)) / (0.9 * SEGMENTS_PER_PARAGRAPH)) + 2
        drawn = np.random.default_rng((seed, 3, first)).choice(len(kinds), num_fields, p=list(kinds.values()))
        plans = [_Plan(first + place, tuple(kinds)[one]) for place, one in enumerate(drawn.tolist())]
        first += num_fields
        done = len(made)
        made += make_all(_narrate_fields, settings, plans, pool, lambda more: watch(min(done + more, count)))
    return tuple(made[:count])
