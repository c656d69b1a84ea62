"""The segments that a training reads: natural instructions mirrored, repeated and renamed, full circles repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pvn.checks import check_limits
from pvn.corpus.segments import Segment


@dataclass(frozen=True, kw_only=True)
class TrainingTextConfig:
    """Which corpus is made if none is given, and how the training split is augmented."""

    size: int = 27_965
    """If no corpus is given: size of the one that is made, as for `pvn corpus make`; only train and dev are made."""
    has_natural: bool = False
    """If no corpus is given: whether natural instructions are added."""
    narrated: int = 0
    """If no corpus is given: how many narrated training segments are added."""
    turns: int = 0
    """If no corpus is given: how many training segments are added that only turn on the spot."""
    held_out_authors: tuple[str, ...] = ()
    """If no corpus is given: voices whose natural instructions become its test split; none of them are trained on."""
    natural_repeats: int = 1
    """How often each natural instruction comes up in an epoch."""
    mirrors_natural: bool = False
    """Whether mirror images of the natural instructions are added."""
    renames_natural: bool = False
    """Whether repeated natural instructions use other names for landmarks, where a name fits no other landmark."""
    circle_repeats: int = 1
    """How often each segment with a full circle comes up in an epoch, if not more often anyway: full circles are rare,
    and the hardest to fly."""

    def __post_init__(self) -> None:
        check_limits(self, "size natural_repeats circle_repeats", 1)
        check_limits(self, "narrated turns", 0)


def training_segments(segments: Sequence[Segment], config: TrainingTextConfig) -> list[Segment]:
    """The training split as stage 1 reads it: natural instructions mirrored and repeated, full circles repeated."""
    from pvn.corpus.mirroring import MIRRORED_ENVIRONMENT, mirrored
    from pvn.corpus.narrator.names import renamed

    natural = [segment for segment in segments if segment.source == "natural"]
    twins = mirrored(natural, lambda number: MIRRORED_ENVIRONMENT + number) if config.mirrors_natural else []
    once = [*segments, *twins]
    times = [
        max(
            config.natural_repeats if segment.source == "natural" else 1,
            config.circle_repeats if _has_full_circle(segment) else 1,
        )
        for segment in once
    ]
    repeated = [
        renamed(segment, time) if config.renames_natural and segment.source == "natural" else segment
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
