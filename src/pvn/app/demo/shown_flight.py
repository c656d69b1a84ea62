"""A flight as the page shows it, step by step, and how it ended in words."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from pvn.app.demo.flight_setup import FlightSetup
from pvn.app.demo.pictures import drone_view, map_files, predictions_file
from pvn.evaluation.metrics import obstacles, resample
from pvn.evaluation.outcome import count_steps, end_place, outcome
from pvn.evaluation.path_distances import nearest_distances
from pvn.paths import Points
from pvn.simulator.interface import SimulatorConfig
from pvn.viz.flight_record import FlightRecord, Floats, Moment
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Layout
from pvn.world.task import SUCCESS_M

BRUSH_M = 0.5
"""A drone whose centre passes a landmark closer than this, metres, brushes it: half its width, with a small margin."""

Touch = Literal["through", "brushed"]


def touched_landmarks(layout: Layout, path: Points) -> dict[int, Touch]:
    """The landmarks, by index, that a path (P, 2), field frame, leads through or passes within BRUSH_M.

    Only landmarks that reach the drone's height count, as in the metrics.
    """
    points, touched = resample(path), dict[int, Touch]()
    for index, mark in enumerate(layout.landmarks):
        for x, y, radius in obstacles(Layout((mark,))):
            away = nearest_distances(np.array([[x, y]]), points)[0] - radius
            if away < BRUSH_M:
                touched[index] = "through" if away < 0 else "brushed"
    return touched


def touch_sentence(layout: Layout, touched: dict[int, Touch]) -> str:
    """What was touched, in words: "It flew through the tower and brushed the tree."; empty if nothing was."""
    parts = []
    for touch, verb in (("through", "flew through"), ("brushed", "brushed")):
        names = [layout.landmarks[index].name for index, how in touched.items() if how == touch]
        nouns = [f"the {LANDMARK_CLASSES[name].noun}" for name in names]
        if nouns:
            parts.append(f"{verb} {' and '.join(nouns)}")
    return f"It {' and '.join(parts)}." if parts else ""


def outcome_sentence(record: FlightRecord) -> str:
    """How the flight ended, in words: "Stopped 4 m from the gorilla, 1.7 m from the goal, after 17 steps."."""
    place = end_place(record.log, 0, record.task)
    if record.distance is None:
        words = outcome(None, len(record.moments), record.has_stopped, place)
    else:
        is_reached = "reached" if record.is_success else f"not within {SUCCESS_M:.0f} m, missed"
        count = count_steps(len(record.moments))
        ended = f"stopped {place}" if record.has_stopped else f"never stopped in {count}; {place}"
        words = f"{ended}, {record.distance:.1f} m from the goal ({is_reached})"
        words = f"{words}, after {count}" if record.has_stopped else words
    return f"{words[0].upper()}{words[1:]}."


@dataclass(frozen=True)
class StoredStep:
    """One step, stored for replays: pictures as files take a tenth of the memory of the pilot's maps."""

    pose_world: Floats
    """(6,), field frame."""
    speed: float
    """Metres per second."""
    stop_probability: float
    """The pilot's estimate; NaN if it makes none."""
    image: bytes
    """What the drone sees, drawn for people, a JPEG file."""
    maps: tuple[bytes, bytes] | None
    """Semantic and grounding map, JPEG files; None for a pilot without maps."""
    predictions: bytes | None
    """Both predicted distributions, to lay over the ground, a PNG file; None for a pilot that predicts neither."""


@dataclass(frozen=True)
class ShownStep:
    """Everything that the page shows at one step of a flight."""

    stored: StoredStep
    index: int
    """The step, from 0; the number of steps stands for the end of the flight."""
    num_positions: int
    """Positions of the flight so far."""
    pose_world: Floats
    """(6,), field frame."""
    flown: Floats
    """The path so far (P, 2), field frame."""
    seconds: Floats
    """(P',): times of the steps so far."""
    speeds: Floats
    """(P',): metres per second at these times."""
    stop_probabilities: Floats
    """(P',): the pilot's estimates at these times; NaN if it makes none."""


@dataclass(eq=False)
class ShownFlight:
    """A flight, from takeoff until it is forgotten."""

    setup: FlightSetup
    config: SimulatorConfig
    """The pilot's simulator settings."""
    steps: list[StoredStep] = field(default_factory=list)
    end_world: Floats | None = None
    """Pose (6,) after the last step, field frame; None during the flight, or if it was interrupted."""
    record: FlightRecord | None = None
    """Only for the last complete flight, since it takes megabytes."""
    touched: dict[int, Touch] = field(default_factory=dict)
    """The landmarks that it flew through or brushed, by index."""
    words: str = ""
    """How it ended."""
    interrupted: threading.Event = field(default_factory=threading.Event)
    """Set to end the flight, or its replay, at once."""

    def add(self, moment: Moment) -> None:
        """Store one more step."""
        maps, start, probability = moment.maps, self.setup.start, moment.stop_probability
        is_new = maps is not None and (moment.is_planned or not self.steps)
        before = self.steps[-1].predictions if self.steps else None
        step = StoredStep(
            pose_world=moment.pose_world,
            speed=float(np.hypot(*moment.velocity_world[:2])),
            stop_probability=np.nan if probability is None else probability,
            image=drone_view(self.setup.layout, moment.pose_world, self.config.camera),
            maps=None if maps is None else map_files(moment, start),
            predictions=predictions_file(maps, start) if maps is not None and is_new else before,
        )
        self.steps.append(step)

    def complete(self, record: FlightRecord) -> None:
        """Note that the flight reached its end, and how."""
        self.end_world, self.record = record.flown_world[-1], record
        self.touched = touched_landmarks(self.setup.layout, record.flown_world[:, :2].astype(float))
        touch = touch_sentence(self.setup.layout, self.touched)
        self.words = f"{outcome_sentence(record)} {touch}".strip()

    def pose(self, index: int) -> Floats:
        """Pose (6,) of the drone at a step, or at the end; field frame."""
        if index < len(self.steps) or self.end_world is None:
            return self.steps[min(index, len(self.steps) - 1)].pose_world
        return self.end_world

    @property
    def num_positions(self) -> int:
        """Positions of the slider: one for each step, and one for the end."""
        return len(self.steps) + (self.end_world is not None)

    def show(self, index: int) -> ShownStep:
        """What the page shows at a step."""
        last = min(index, len(self.steps) - 1)
        so_far = self.steps[: last + 1]
        return ShownStep(
            stored=self.steps[last],
            index=index,
            num_positions=self.num_positions,
            pose_world=self.pose(index),
            flown=np.stack([self.pose(step)[:2] for step in range(index + 1)]),
            seconds=np.arange(last + 1, dtype=np.float32) * self.config.step_seconds,
            speeds=np.array([step.speed for step in so_far], np.float32),
            stop_probabilities=np.array([step.stop_probability for step in so_far], np.float32),
        )
