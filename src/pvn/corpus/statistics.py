"""Statistics of a corpus, to compare with the published ones of LANI."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from pvn.corpus.segments import SOURCES, Corpus, Segment
from pvn.corpus.vocabulary import tokenise
from pvn.paths import path_length
from pvn.rollout.flight import fly
from pvn.rollout.policy import Policy
from pvn.rollout.trivial_pilots import Average, Stop
from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.simulator import simulator_for
from pvn.world.task import SUCCESS_M

LANI: dict[str, float] = {
    "segments": 27_965,
    "paragraphs": 6_000,
    "segments_per_paragraph": 4.7,
    "tokens_per_segment": 12.1,
    "vocabulary": 2_292,
    "start_goal_mean_m": 15.8,
    "start_goal_median_m": 14.8,
    "landmarks_least": 6,
    "landmarks_most": 13,
    "stop_success_percent": 5.72,
    "average_success_percent": 16.43,
}
"""Published for LANI (paper); distances and success rates are of its test split."""
PHENOMENA: dict[str, re.Pattern[str]] = {
    name: re.compile(rf"\b(?:{words})\b")
    for name, words in {
        "co-reference": r"it|its|itself|they|them|that one|this one|the other one|the same|both",
        "temporal order": r"then|once|after|before|until|till|untill|untl|when|as soon as|while|first|next|"
        r"finally|afterwards?",
        "trajectory shape": r"straight|curv\w+|circle|arc\w*|loop\w*|orbit\w*|bend|hug\w*|weav\w+|swing\w*|lap|ring|"
        r"around|round|half ?way|halfway|spiral|swerve|clockwise|counterclockwise|anticlockwise|wide|semicircle|thread",
        "spatial relation": r"left|right|front|behind|between|beside|alongside|next to|near|past|beyond|far side|"
        r"near side|close to|by|side|opposite|in the middle|gap|ahead",
    }.items()
}
"""Words that reveal a linguistic phenomenon in tokenised text."""
MAX_FLIGHTS = 4_096
"""Most segments of the test split that are flown."""


def _success_percent(segments: Sequence[Segment], policy: Policy) -> float:
    tasks = [segment.task for segment in segments]
    simulator = simulator_for(tasks, config=SimulatorConfig(quality="none"))
    log = fly(simulator, tasks, policy)
    distance = log.goal_distance([segment.demonstration.goal for segment in segments])
    return 100.0 * float((log.has_stopped & (distance < SUCCESS_M)).float().mean())


def _shares(segments: Sequence[Segment], texts: Sequence[str]) -> dict[str, float]:
    shares = {name: float(np.mean([bool(words.search(text)) for text in texts])) for name, words in PHENOMENA.items()}
    notes = [segment.annotation for segment in segments if segment.annotation is not None]
    if notes:
        shares["several landmarks"] = float(np.mean([len(note.meant) > 1 for note in notes]))
    return shares


def _annotated(segments: Sequence[Segment]) -> dict[str, Any]:
    """Statistics of the annotations, if there are any; of references and phrases only where there is a phrase."""
    notes = [segment.annotation for segment in segments if segment.annotation is not None]
    if not notes:
        return {}
    made = [note for note in notes if note.phrase]
    kinds = Counter(re.match(r"lake (?:pass|circle)|\w+", text)[0] for note in notes for text in note.manoeuvres)  # type: ignore[index]
    return {
        "manoeuvres": {kind: count / len(notes) for kind, count in kinds.most_common()},
        "manoeuvres_per_segment": float(np.mean([len(note.manoeuvres) for note in notes])),
        **({"ambiguous_share": float(np.mean([note.is_ambiguous for note in made]))} if made else {}),
        **({"phrases": len({note.phrase for note in made})} if made else {}),
    }


def _by_source(segments: Sequence[Segment], texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """For each source of instructions: how many, by how many authors, how long, and which words; texts: tokenised."""
    words: dict[str, list[str]] = {source: [] for source in SOURCES}
    for segment, text in zip(segments, texts, strict=True):
        words[segment.source] += text.split()
    phrase_words = set(words["phrases"])
    report: dict[str, dict[str, Any]] = {}
    for source in SOURCES:
        own = [segment for segment in segments if segment.source == source]
        if own:
            report[source] = {
                "segments": len(own),
                "environments": len({segment.environment for segment in own}),
                "authors": len({segment.author for segment in own if segment.author is not None}),
                "tokens_per_segment": len(words[source]) / len(own),
                "vocabulary": len(set(words[source])),
            }
            if phrase_words:
                report[source]["words_not_in_phrases"] = len(set(words[source]) - phrase_words)
                report[source]["tokens_not_in_phrases_share"] = float(
                    np.mean([word not in phrase_words for word in words[source]])
                )
    return report


def _unseen_share(segments: Sequence[Segment]) -> float:
    """Share of segments with an unseen phrase among those that are made from phrases; 0 if none are."""
    is_seen = [segment.is_seen for segment in segments if segment.is_seen is not None]
    return 1.0 - float(np.mean(is_seen)) if is_seen else 0.0


def measure_corpus(corpus: Corpus) -> dict[str, Any]:
    """Statistics of all splits together; distances and success rates are the test split's, if there is one."""
    segments = list(corpus)
    if not segments:
        raise ValueError("corpus: got no segments, expected some; make it again")
    scored = corpus.splits.get("test", tuple(segments))[:MAX_FLIGHTS]
    texts = [" ".join(tokenise(segment.task.instruction)) for segment in segments]
    fields = {segment.environment: segment.task.layout for segment in segments}
    landmarks = [len(layout.landmarks) for layout in fields.values()]
    reach = [float(np.hypot(*(segment.demonstration.path[-1] - segment.task.start[:2]))) for segment in scored]
    lengths = [path_length(segment.demonstration.path) for segment in segments]
    return {
        "name": corpus.name,
        "splits": {
            split: {
                "segments": len(part),
                "environments": len({segment.environment for segment in part}),
                "unseen_share": _unseen_share(part),
            }
            for split, part in corpus.splits.items()
        },
        "segments": len(segments),
        "paragraphs": len(fields),
        "segments_per_paragraph": len(segments) / len(fields),
        "tokens_per_segment": float(np.mean([len(text.split()) for text in texts])),
        "vocabulary": len({word for text in texts for word in text.split()}),
        "start_goal_mean_m": float(np.mean(reach)),
        "start_goal_median_m": float(np.median(reach)),
        "path_mean_m": float(np.mean(lengths)),
        "landmarks_least": min(landmarks),
        "landmarks_most": max(landmarks),
        "landmarks_mean": float(np.mean(landmarks)),
        "stop_success_percent": _success_percent(scored, Stop()),
        "average_success_percent": _success_percent(scored, Average()),
        "phenomena": _shares(segments, texts),
        "sources": _by_source(segments, texts),
        **_annotated(segments),
    }
