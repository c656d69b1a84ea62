"""Whole paragraphs: how many are brought to the end, each instruction flown from where the last flight ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from pvn.corpus.segments import Segment, paragraphs_of
from pvn.evaluation.intervals import Bootstrap, Estimate, bootstrap_mean
from pvn.evaluation.metrics import FlightMetrics


@dataclass(frozen=True)
class ParagraphSummary:
    """One system's flights over whole paragraphs; rates are percentages, distances metres."""

    paragraphs: int
    instructions: int
    """In all paragraphs."""
    brought_to_end: Estimate
    """Paragraphs of which every instruction succeeded."""
    completed: Estimate
    """Mean share of a paragraph's instructions that succeeded before the first that did not."""
    sr: Estimate
    """Instructions that succeeded, whatever happened before them."""
    mean_distance: Estimate
    """Between the end of a flight and its goal, over all instructions."""

    def to_json(self) -> dict[str, Any]:
        """Every field by name; estimates as {value, low, high}."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value.to_json() if isinstance(value, Estimate) else value for name, value in values.items()}

    @staticmethod
    def from_json(content: Mapping[str, Any], num_fields: int) -> ParagraphSummary:
        """The summary that `to_json` gave, of paragraphs in so many fields."""
        values: dict[str, Any] = {
            name: Estimate.from_json(value, num_fields) if isinstance(value, dict) else value
            for name, value in content.items()
        }
        return ParagraphSummary(**values)


def completed_shares(has_succeeded: Sequence[Sequence[bool]]) -> list[float]:
    """For each paragraph, the share of its instructions before the first that did not succeed."""
    return [[*own, False].index(False) / len(own) for own in has_succeeded]


def summarise_paragraphs(
    metrics: FlightMetrics, segments: Sequence[Segment], bootstrap: Bootstrap = Bootstrap()
) -> ParagraphSummary:
    """Results of B flights in paragraphs, one for each of B segments, in the order of `paragraphs_of`.

    Intervals are over environments, whose segments are resampled together.
    """
    paragraphs = paragraphs_of(segments)
    ends = np.cumsum([len(paragraph) for paragraph in paragraphs])[:-1]
    succeeded = [part.tolist() for part in np.split(metrics.is_success, ends)]
    environments = [paragraph[0].environment for paragraph in paragraphs]
    by_segment = [segment.environment for paragraph in paragraphs for segment in paragraph]
    return ParagraphSummary(
        paragraphs=len(paragraphs),
        instructions=len(by_segment),
        brought_to_end=bootstrap_mean([all(own) for own in succeeded], environments, bootstrap) * 100,
        completed=bootstrap_mean(completed_shares(succeeded), environments, bootstrap) * 100,
        sr=bootstrap_mean(metrics.is_success, by_segment, bootstrap) * 100,
        mean_distance=bootstrap_mean(metrics.stop_distance, by_segment, bootstrap),
    )
