"""The segments that a training reads: natural instructions mirrored, repeated and renamed, full circles repeated."""

from __future__ import annotations

from collections.abc import Sequence

from pvn.corpus.mirroring import MIRRORED_ENVIRONMENT, mirrored
from pvn.corpus.narrator.names import renamed
from pvn.corpus.segments import Segment


def training_segments(
    segments: Sequence[Segment],
    *,
    natural_repeats: int = 1,
    mirrors_natural: bool = False,
    renames_natural: bool = False,
    circle_repeats: int = 1,
) -> list[Segment]:
    """The segments of an epoch: each one once, in order, then mirror images of natural instructions, and repetitions.

    natural_repeats and circle_repeats: how often natural instructions and segments with a full circle come up in all,
    the larger number counts; renames_natural: repeated natural instructions use other names for landmarks.
    """
    natural = [segment for segment in segments if segment.source == "natural"]
    twins = mirrored(natural, lambda number: MIRRORED_ENVIRONMENT + number) if mirrors_natural else []
    once = [*segments, *twins]
    times = [
        max(
            natural_repeats if segment.source == "natural" else 1,
            circle_repeats if _has_full_circle(segment) else 1,
        )
        for segment in once
    ]
    repeated = [
        renamed(segment, time) if renames_natural and segment.source == "natural" else segment
        for time in range(1, max(times, default=1))
        for segment, own in zip(once, times, strict=True)
        if time < own
    ]
    return [*once, *repeated]


def _has_full_circle(segment: Segment) -> bool:
    """Whether one of its manoeuvres is a full circle round a landmark: "circle A left full"."""
    note = segment.annotation
    return note is not None and any(
        words[:1] + words[3:] == ["circle", "full"] for words in map(str.split, note.manoeuvres)
    )
