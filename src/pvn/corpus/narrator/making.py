"""Narrated segments for training: flights of the generator, LANI-like tours, and flights there and back, described."""

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
    make_paragraph,
    make_parts,
    make_settings,
    sample_paragraph,
)
from pvn.corpus.narrator.names import narrator_lexicon
from pvn.corpus.narrator.narration import Narration, narrate
from pvn.corpus.narrator.returning import sample_returns
from pvn.corpus.segments import Segment
from pvn.world.routes import sample_tour
from pvn.world.task import Demonstration

FlightKind = Literal["generator", "tours", "returns"]
FIRST_ENVIRONMENT = 2_000_000
"""Fields are numbered from here, so that they are never fields of a generated corpus."""
SHARES: Mapping[FlightKind, float] = {"tours": 0.3, "returns": 0.1, "generator": 0.6}
"""Shares of the fields by kind of flight, if kinds are mixed."""
_FLIGHTS = 5
"""Flights of the generator in a field, or there and back."""


@dataclass(frozen=True)
class _Plan:
    """A field and the kind of flights in it."""

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
    """Whether a flight there and back is described as one, and not only by its end."""
    events = [clause.event for clause in narration.clauses]
    passed = {mark for event in events if event.kind in ("pass", "both") for mark in event.marks}
    return any(
        event.kind == "end start"
        or event.is_turn_back
        or (event.kind == "end front" and not passed.isdisjoint(event.marks))
        for event in events
    )


def _narrate_fields(settings: GeneratorSettings, plans: Sequence[_Plan]) -> list[Segment]:
    segments = []
    for plan in plans:
        generator = np.random.default_rng((settings.seed, plan.environment, 1))
        for place, flight in enumerate(_flights(settings, plan)):
            narration = narrate(flight, narrator_lexicon(), generator, settings.noise)
            if narration is None or (plan.kind == "returns" and not _says_to_come_back(narration)):
                continue
            # Without the turn that may follow: a narration describes the path alone.
            narrated = Demonstration(replace(flight.task, instruction=narration.text), flight.path)
            author = f"narrator, {narration.voice}"
            segments.append(Segment(plan.environment, place, narrated, source="narrated", author=author))
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
    while len(made) < count:  # some flights cannot be described, so a second round may be needed
        # A few fields more than needed on average, so that one round is mostly enough.
        num_fields = int((count - len(made)) / (0.9 * SEGMENTS_PER_PARAGRAPH)) + 2
        drawn = np.random.default_rng((seed, 3, first)).choice(len(kinds), num_fields, p=list(kinds.values()))
        plans = [_Plan(first + place, tuple(kinds)[one]) for place, one in enumerate(drawn.tolist())]
        first += num_fields
        for segments in make_parts(_narrate_fields, settings, plans, pool):
            made += segments
            watch(min(len(made), count))
    return tuple(made[:count])
