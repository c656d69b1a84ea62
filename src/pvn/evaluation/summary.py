"""One system's results on one split: overall, on seen and unseen phrases, by manoeuvre, length and start bearing."""

from __future__ import annotations

import json
import lzma
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pvn.compiling import num_cores
from pvn.corpus.segments import Segment, paragraphs_of
from pvn.corpus.vocabulary import tokenise
from pvn.evaluation.intervals import Bootstrap, Estimate, bootstrap_mean, bootstrap_median, bootstrap_ratios
from pvn.evaluation.manoeuvres import CircledFlights, FacingFlights
from pvn.evaluation.metrics import RADII, FlightMetrics
from pvn.files import replacing
from pvn.paths import path_length, points_along

VERSION = 1
"""Counts the formats of results in files."""
WORD_BINS: Mapping[str, tuple[int, int]] = {
    "1-8": (1, 8),
    "9-12": (9, 12),
    "13-16": (13, 16),
    "17-22": (17, 22),
    "23+": (23, 10**9),
}
"""Lengths of instructions in words, first and last of each bin."""
BEARINGS: Mapping[str, float] = {"ahead": 45.0, "side": 90.0, "behind": 180.0}
"""Where the demonstrated path leads from the start: at most so many degrees off the drone's heading."""
BEARING_M = 3.0
"""How far along the path the point lies whose bearing counts, metres."""
EARLY_STEPS = 2
"""A flight that stops within this many steps has hardly begun."""


@dataclass(frozen=True)
class Group:
    """Mean metrics of a group of flights; rates are percentages, scores 0 to 1, distances metres."""

    flights: int
    environments: int
    """Number of fields they are in; estimates over fewer than four fields have no interval."""
    sr: Estimate
    """Flights that stopped by themselves within 5 m of the goal, percent."""
    loose_sr: Estimate
    """Flights that ended within 5 m of the goal, by themselves or at the horizon, percent."""
    osr: Estimate
    """Flights that were within 5 m of the goal at some time, percent."""
    mean_distance: Estimate
    """Between end and goal, metres."""
    median_distance: Estimate
    spl: Estimate
    ndtw: Estimate
    sdtw: Estimate
    cls: Estimate
    emd: Estimate
    """Metres."""
    semd: Estimate
    collisions_per_100m: Estimate
    """All flights' collisions over all flights' metres, times 100."""
    steps: Estimate
    """Mean steps of a flight."""
    metres: Estimate
    """Mean distance flown in a flight."""
    early_stops: Estimate
    """Flights that stopped by themselves within their first two steps, percent."""
    success_by_radius: Mapping[float, Estimate]
    """Success rate by radius of the goal (metres), percent."""

    def to_json(self) -> dict[str, Any]:
        """Every field by name; estimates as {value, low, high}, the curve as a list of them with their radii."""
        curve = [{"radius": radius, **asdict(estimate)} for radius, estimate in self.success_by_radius.items()]
        return asdict(self) | {"success_by_radius": curve}

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Group:
        """The group that `to_json` gave."""
        curve = {float(point["radius"]): Estimate.from_json(point) for point in content["success_by_radius"]}
        own = {column.name: content[column.name] for column in fields(Group)}
        return Group(**_with_estimates(own) | {"success_by_radius": curve})


@dataclass(frozen=True)
class ParagraphSummary:
    """One system's flights over whole paragraphs; rates are percentages, distances metres."""

    paragraphs: int
    instructions: int
    """In all paragraphs."""
    brought_to_end: Estimate
    """Paragraphs in which every instruction succeeded."""
    completed: Estimate
    """Mean share of a paragraph's instructions that succeeded before the first failure."""
    sr: Estimate
    """Instructions that succeeded, whatever happened before."""
    mean_distance: Estimate
    """Between the end of a flight and its goal, over all instructions."""


@dataclass(frozen=True)
class Summary:
    """Results of one system on one split."""

    system: str
    split: str
    overall: Group
    seen: Group | None
    """Segments whose phrases training may use; None if there are none. Instructions without a phrase are in neither."""
    unseen: Group | None
    by_manoeuvre: Mapping[str, Group]
    """By kind of manoeuvre; a flight counts for each kind that it has."""
    by_length: Mapping[str, Group]
    """By number of words in the instruction."""
    by_bearing: Mapping[str, Group]
    """By where the demonstrated path leads from the start, as the drone sees it: ahead, to a side, or behind."""
    successes: Mapping[int, tuple[bool, ...]]
    """By environment, whether each of its flights reached its goal, in their order. With these, systems that flew the
    same segments can be compared flight by flight."""
    circles: Mapping[str, CircledFlights] = field(default_factory=dict)
    """By amount: flights whose instructions ask for a circle."""
    facing: Mapping[str, FacingFlights] = field(default_factory=dict)
    """By whether they should end with a turn on the spot: which way flights face at their ends."""
    paragraphs: ParagraphSummary | None = None
    """The same segments flown as whole paragraphs; None if they were not."""

    def to_json(self) -> dict[str, Any]:
        """The overall results at the top, the groups below them by name."""

        def groups(several: Mapping[str, Group]) -> dict[str, Any]:
            return {name: group.to_json() for name, group in several.items()}

        return {
            "version": VERSION,
            "system": self.system,
            "split": self.split,
            **self.overall.to_json(),
            "seen": self.seen.to_json() if self.seen else None,
            "unseen": self.unseen.to_json() if self.unseen else None,
            "by_manoeuvre": groups(self.by_manoeuvre),
            "by_length": groups(self.by_length),
            "by_bearing": groups(self.by_bearing),
            "successes": {
                str(name): "".join(str(int(reached)) for reached in flights) for name, flights in self.successes.items()
            },
            "circles": {amount: asdict(flights) for amount, flights in self.circles.items()},
            "facing": {name: asdict(flights) for name, flights in self.facing.items()},
            **({"paragraphs": asdict(self.paragraphs)} if self.paragraphs else {}),
        }

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Summary:
        """The summary that `to_json` gave."""
        if content.get("version") != VERSION:
            raise ValueError(f"results: got version {content.get('version')}, expected {VERSION}; evaluate again")

        def groups(name: str) -> dict[str, Group]:
            return {part: Group.from_json(group) for part, group in content[name].items()}

        return Summary(
            system=content["system"],
            split=content["split"],
            overall=Group.from_json(content),
            seen=Group.from_json(content["seen"]) if content["seen"] else None,
            unseen=Group.from_json(content["unseen"]) if content["unseen"] else None,
            by_manoeuvre=groups("by_manoeuvre"),
            by_length=groups("by_length"),
            by_bearing=groups("by_bearing"),
            successes={
                int(name): tuple(digit == "1" for digit in digits) for name, digits in content["successes"].items()
            },
            circles={amount: CircledFlights(**flights) for amount, flights in content["circles"].items()},
            facing={name: FacingFlights(**flights) for name, flights in content["facing"].items()},
            paragraphs=ParagraphSummary(**_with_estimates(content["paragraphs"])) if "paragraphs" in content else None,
        )


def _with_estimates(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a file with its estimates."""
    return {name: Estimate.from_json(one) if isinstance(one, dict) else one for name, one in content.items()}


def read_summary(path: Path) -> Summary:
    """The summary in a file that an evaluation wrote."""
    return Summary.from_json(json.loads(path.read_text(encoding="utf-8")))


def write_summaries(path: Path, summaries: Mapping[str, Summary]) -> None:
    """Write several summaries into one compressed file (.json.xz), with seven digits of each figure."""

    def rounded(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: rounded(part) for name, part in value.items()}
        if isinstance(value, list):
            return [rounded(part) for part in value]
        return float(f"{value:.7g}") if isinstance(value, float) else value

    content = json.dumps({name: rounded(one.to_json()) for name, one in sorted(summaries.items())})
    with replacing(path) as partial:
        partial.write_bytes(lzma.compress(content.encode(), preset=9))


def read_summaries(path: Path) -> dict[str, Summary]:
    """The summaries in a file that `write_summaries` wrote, by name."""
    content = json.loads(lzma.decompress(path.read_bytes()))
    return {name: Summary.from_json(one) for name, one in content.items()}


def summarise_group(
    metrics: FlightMetrics, environments: npt.NDArray[np.int64], bootstrap: Bootstrap = Bootstrap()
) -> Group:
    """Mean metrics of B flights, with intervals over the environments (B,) they are in."""
    percents = {
        "sr": metrics.is_success, "loose_sr": metrics.is_loose_success, "osr": metrics.is_oracle_success,
        "early_stops": metrics.has_stopped & (metrics.num_steps <= EARLY_STEPS),
    }  # fmt: skip
    means = {
        "mean_distance": metrics.stop_distance, "spl": metrics.spl, "ndtw": metrics.ndtw, "sdtw": metrics.sdtw,
        "cls": metrics.cls, "emd": metrics.emd, "semd": metrics.semd, "steps": metrics.num_steps,
        "metres": metrics.distance_flown,
    }  # fmt: skip
    averaged = np.column_stack([*percents.values(), *means.values(), metrics.success_by_radius()])
    estimates = iter(
        bootstrap_ratios(
            np.column_stack([averaged, metrics.num_collisions]),
            np.column_stack([np.ones_like(averaged), metrics.distance_flown / 100]),
            environments,
            bootstrap,
        )
    )
    named = {name: next(estimates) * 100 for name in percents} | {name: next(estimates) for name in means}
    return Group(
        flights=len(metrics),
        environments=len(np.unique(environments)),
        median_distance=bootstrap_median(metrics.stop_distance, environments, bootstrap),
        success_by_radius={radius: next(estimates) * 100 for radius in RADII},
        collisions_per_100m=next(estimates),
        **named,
    )


def manoeuvre_kinds(segment: Segment) -> list[str]:
    """The kinds of manoeuvre in a segment, each once, in order: "pass", "goto"; none if it is not annotated."""
    manoeuvres = segment.annotation.manoeuvres if segment.annotation else ()
    return list(dict.fromkeys(manoeuvre.split()[0] for manoeuvre in manoeuvres))


def start_bearing(segment: Segment) -> str:
    """Where the demonstrated path leads from the start, as the drone sees it: ahead, to a side, or behind.

    A path that leads nowhere, as in a turn on the spot, counts as ahead.
    """
    x, y, yaw = segment.task.start
    if path_length(segment.demonstration.path) == 0.0:
        return next(iter(BEARINGS))
    there_x, there_y = points_along(segment.demonstration.path, np.array([BEARING_M]))[0].tolist()
    off = math.atan2(there_y - y, there_x - x) - yaw
    degrees = abs(math.degrees(math.atan2(math.sin(off), math.cos(off))))
    return next(name for name, limit in BEARINGS.items() if degrees <= limit)


def _successes(metrics: FlightMetrics, environments: npt.NDArray[np.int64]) -> dict[int, tuple[bool, ...]]:
    """By environment, whether each of its flights reached its goal."""
    found: dict[int, list[bool]] = {}
    for environment, reached in zip(environments.tolist(), metrics.is_success.tolist(), strict=True):
        found.setdefault(environment, []).append(reached)
    return {environment: tuple(flights) for environment, flights in sorted(found.items())}


def summarise(
    system: str,
    split: str,
    metrics: FlightMetrics,
    segments: Sequence[Segment],
    bootstrap: Bootstrap = Bootstrap(),
) -> Summary:
    """Results of one system's B flights, one for each of B segments, in order; empty groups are left out."""
    if len(metrics) != len(segments):
        raise ValueError(f"flights: got {len(metrics)} and {len(segments)} segments, expected one flight for each")
    if not segments:
        raise ValueError("flights: got none, expected at least one")
    environments = np.array([segment.environment for segment in segments], np.int64)

    kinds = [manoeuvre_kinds(segment) for segment in segments]
    num_words = [len(tokenise(segment.task.instruction)) for segment in segments]
    bearings = [start_bearing(segment) for segment in segments]
    masks: dict[str, dict[str, Sequence[bool]]] = {
        "overall": {"": [True] * len(segments)},
        "seen": {"": [segment.is_seen is True for segment in segments]},
        "unseen": {"": [segment.is_seen is False for segment in segments]},
        "by_manoeuvre": {name: [name in own for own in kinds] for name in sorted({k for own in kinds for k in own})},
        "by_length": {name: [low <= n <= high for n in num_words] for name, (low, high) in WORD_BINS.items()},
        "by_bearing": {name: [bearing == name for bearing in bearings] for name in BEARINGS},
    }

    def group(chosen: Sequence[bool]) -> Group | None:
        mask = np.array(chosen, bool)
        return summarise_group(metrics.select(mask), environments[mask], bootstrap) if mask.any() else None

    # NumPy releases the interpreter's lock while it draws, sorts and multiplies.
    with ThreadPoolExecutor(num_cores()) as threads:
        found = {
            part: {name: threads.submit(group, chosen) for name, chosen in own.items()} for part, own in masks.items()
        }

    def groups(part: str) -> dict[str, Group]:
        results = {name: job.result() for name, job in found[part].items()}
        return {name: result for name, result in results.items() if result is not None}

    return Summary(
        system=system,
        split=split,
        overall=groups("overall")[""],
        seen=groups("seen").get(""),
        unseen=groups("unseen").get(""),
        by_manoeuvre=groups("by_manoeuvre"),
        by_length=groups("by_length"),
        by_bearing=groups("by_bearing"),
        successes=_successes(metrics, environments),
    )


def completed_shares(has_succeeded: Sequence[Sequence[bool]]) -> list[float]:
    """For each paragraph, the share of its instructions before the first failure."""
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
