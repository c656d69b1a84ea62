"""A flight as the page shows it, step by step, and its outcome in words."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np

from pvn.app.demo.flight_setup import FlightSetup
from pvn.app.demo.obstacles import Touch, touch_sentence, touched_landmarks
from pvn.app.demo.pictures import drone_view, encode, map_pictures, predictions_picture
from pvn.evaluation.outcome import count_steps, end_place, outcome
from pvn.simulator.interface import SimulatorConfig
from pvn.viz.flight_record import FlightRecord, Floats, Moment
from pvn.world.task import SUCCESS_M


@dataclass(frozen=True)
class KeptStep:
    """What is kept of one step to show it again: pictures as files, a tenth of what the pilot's maps take."""

    pose_world: Floats
    """(6,), field frame."""
    speed: float
    """Metres per second."""
    stop_probability: float
    """The pilot's own; NaN where it has none."""
    image: bytes
    """What the drone sees, drawn for people, a JPEG file."""
    maps: tuple[bytes, bytes] | None
    """Semantic and grounding map, JPEG files; None for a pilot without maps."""
    predictions: bytes | None
    """Both predicted distributions, to lay over the ground, a PNG file; None for a pilot that predicts neither."""


@dataclass(frozen=True)
class ShownStep:
    """Everything that the page shows of one step of a flight."""

    kept: KeptStep
    index: int
    """The step, from 0; the total number of steps means the end of the flight."""
    num_positions: int
    """Of the flight so far."""
    pose_world: Floats
    """(6,), field frame."""
    flown: Floats
    """(P, 2): the path so far, field frame."""
    seconds: Floats
    """(P',): times of the steps so far."""
    speeds: Floats
    """(P',): metres per second at these times."""
    stop_probabilities: Floats
    """(P',): the pilot's own, at these times; NaN where it has none."""


@dataclass(eq=False)
class ShownFlight:
    """A flight that is in the air or has ended."""

    setup: FlightSetup
    config: SimulatorConfig
    """Of its pilot."""
    steps: list[KeptStep] = field(default_factory=list)
    end_world: Floats | None = None
    """Pose (6,) after the last step, field frame; None during the flight, or if it was interrupted."""
    record: FlightRecord | None = None
    """Of the last flight that was flown to its end; earlier ones give it up, for it takes megabytes."""
    touched: dict[int, Touch] = field(default_factory=dict)
    """The landmarks that it flew through or brushed, by index."""
    words: str = ""
    """How it ended."""
    is_success: bool | None = None
    """Whether it stopped near the goal, if there is one."""
    interrupted: threading.Event = field(default_factory=threading.Event)
    """Set to end the flight, or its replay, at once."""

    def add(self, moment: Moment) -> None:
        """Keep what is shown of one more step."""
        maps, start = moment.maps, self.setup.start
        if maps is None or moment.is_planned:
            drawn = None if maps is None else predictions_picture(maps, start)
            predictions = None if drawn is None else encode(drawn)
        else:
            predictions = self.steps[-1].predictions
        probability = moment.stop_probability
        kept = KeptStep(
            pose_world=moment.pose_world,
            speed=float(np.hypot(*moment.velocity_world[:2])),
            stop_probability=np.nan if probability is None else probability,
            image=drone_view(self.setup.layout, moment.pose_world, self.config.camera),
            maps=None if maps is None else tuple(map(encode, map_pictures(maps, moment, start))),  # type: ignore[arg-type]
            predictions=predictions,
        )
        self.steps.append(kept)

    def complete(self, record: FlightRecord) -> None:
        """Note that the flight was flown to its end, and how that was."""
        self.end_world, self.record = record.flown_world[-1], record
        self.touched = touched_landmarks(self.setup.layout, record.flown_world[:, :2].astype(float))
        self.words, self.is_success = outcome_sentence(record), record.is_success
        touch = touch_sentence(self.setup.layout, self.touched)
        self.words = f"{self.words} {touch}" if touch else self.words

    def pose(self, index: int) -> Floats:
        """Pose (6,) of the drone at a step, or at the end; field frame."""
        if index < len(self.steps) or self.end_world is None:
            return self.steps[min(index, len(self.steps) - 1)].pose_world
        return self.end_world

    @property
    def num_positions(self) -> int:
        """How many positions the slider has: one for each step, and one for the end."""
        return len(self.steps) + (self.end_world is not None)

    def show(self, index: int) -> ShownStep:
        """What the page shows of a step."""
        last = min(index, len(self.steps) - 1)
        so_far = self.steps[: last + 1]
        return ShownStep(
            kept=self.steps[last],
            index=index,
            num_positions=self.num_positions,
            pose_world=self.pose(index),
            flown=np.stack([self.pose(step)[:2] for step in range(index + 1)]),
            seconds=np.arange(last + 1, dtype=np.float32) * self.config.step_seconds,
            speeds=np.array([step.speed for step in so_far], np.float32),
            stop_probabilities=np.array([step.stop_probability for step in so_far], np.float32),
        )


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
