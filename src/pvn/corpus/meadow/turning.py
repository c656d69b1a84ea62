"""Turns on the spot as segments of their own: "turn left", "look at the windmill".

LANI's authors leave such segments out, and so does the generated corpus; but people type them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

import numpy as np

from pvn.corpus.meadow.banks import Bank
from pvn.corpus.meadow.generator import (
    FIELDS_PER_JOB,
    NOISE,
    GeneratorSettings,
    make_settings,
    phrase_set_for,
    run_jobs,
    write_instruction,
)
from pvn.corpus.meadow.scene import Scene
from pvn.corpus.meadow.tours import first_pose, fly_from
from pvn.corpus.segments import Segment, phrase_author
from pvn.world.layout import sample_layout
from pvn.world.task import Demonstration, Task

FIRST_ENVIRONMENT = 3_000_000
"""Fields are numbered from here, so that they are never those of a generated or narrated corpus."""
FIRST_HELD_OUT = 3_500_000
"""Fields of turns in held-out phrases are numbered from here, so that they are not those of training either."""
TURNS_PER_FIELD, TRIES_PER_FIELD = 5, 200


def _turns_in_field(settings: GeneratorSettings, is_seen: bool, environment: int) -> list[Segment]:
    """Five turns in a random field, each at a place of its own."""
    generator = np.random.default_rng((settings.seed, environment))
    layouts = (sample_layout(int(generator.integers(2**62))) for _ in itertools.count())
    scene = Scene.of(next(layout for layout in layouts if layout.landmarks))
    choice = phrase_set_for(settings, is_seen).choice
    segments: list[Segment] = []
    for _ in range(TRIES_PER_FIELD):
        if len(segments) == TURNS_PER_FIELD:
            return segments
        pose = first_pose(scene, generator)
        tries = (fly_from(scene, pose, manoeuvres, generator) for manoeuvres in choice.draw(generator))
        flight = next((flight for flight in tries if flight is not None), None)
        if flight is None:
            continue
        instruction, annotation = write_instruction(settings, scene, flight, is_seen, generator)
        path = np.repeat(flight.path[0], 2, axis=0)  # it begins where it ends, and goes nowhere
        demonstration = Demonstration(Task(scene.layout, flight.start, instruction), path, flight.turned_to)
        author = phrase_author(annotation.phrase)
        segments.append(Segment(environment, len(segments), demonstration, annotation, "phrases", author))
    raise ValueError(
        f"field {environment}: found {len(segments)} turns in {TRIES_PER_FIELD} tries, expected {TURNS_PER_FIELD}; add "
        "phrases such as turn left"
    )


def _turns_in_fields(chosen: tuple[GeneratorSettings, bool], environments: Sequence[int]) -> list[Segment]:
    settings, is_seen = chosen
    return [segment for number in environments for segment in _turns_in_field(settings, is_seen, number)]


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
    """`count` turns on the spot, told in the banks' phrases; the same arguments give the same turns.

    is_seen: whether in phrases for training, or in those held out of it. pool: processes to use; None for this one.
    watch(count) is called periodically with the number of segments made so far.
    """
    if count < 0:
        raise ValueError(f"count: got {count}, expected 0 or more segments")
    if not count:
        return ()
    settings = make_settings(banks, seed, noise, is_all_unseen=False, is_turning=True)
    if not is_seen and settings.unseen is None:
        raise ValueError("banks: got too few phrases to hold any out of training, expected four or more for a turn")
    num_fields = -(-count // TURNS_PER_FIELD)
    first = FIRST_ENVIRONMENT if is_seen else FIRST_HELD_OUT
    numbers = range(first, first + num_fields)
    jobs = [numbers[begin : begin + FIELDS_PER_JOB] for begin in range(0, num_fields, FIELDS_PER_JOB)]
    made: list[Segment] = []
    for segments in run_jobs(_turns_in_fields, (settings, is_seen), jobs, 1, pool):
        made += segments
        watch(min(len(made), count))
    return tuple(made[:count])
