"""A flight as the page shows it, step by step, and its outcome in words."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np

from pvn.app.demo.flight_setup import FlightSetup
from pvn.app.demo.pictures import maps_sheet, predictions_picture
from pvn.viz.field_views import Bytes, Picture
from pvn.viz.flight_record import FlightRecord, Floats, Moment
from pvn.world.task import SUCCESS_M


@dataclass(frozen=True)
class ShownStep:
    """Everything that the page shows of one step of a flight."""

    moment: Moment
    index: int
    """The step, from 0; the total number of steps means the end of the flight."""
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
    predictions: Bytes | None
    """(H, W, 4): both predicted distributions, to lay over the ground; None for a pilot that predicts neither."""
    sheet: Bytes
    """(H, W, 3): the pilot's maps."""


@dataclass(eq=False)
class ShownFlight:
    """A flight that is in the air or has ended."""

    setup: FlightSetup
    field_picture: Picture
    """The field from above (MAP_PX, MAP_PX, 3), 0 to 1."""
    step_seconds: float
    moments: list[Moment] = field(default_factory=list)
    end_world: Floats | None = None
    """Pose (6,) after the last step, field frame; None during the flight, or if it was interrupted."""
    record: FlightRecord | None = None
    """None unless the flight was flown to its end."""
    predictions: dict[int, Bytes | None] = field(default_factory=dict)
    """Pictures (H, W, 4) by the step at which they were predicted."""
    interrupted: threading.Event = field(default_factory=threading.Event)
    """Set to end the flight, or its replay, at once."""

    def pose(self, index: int) -> Floats:
        """Pose (6,) of the drone at a step, or at the end; field frame."""
        if index < len(self.moments) or self.end_world is None:
            return self.moments[min(index, len(self.moments) - 1)].pose_world
        return self.end_world

    @property
    def num_positions(self) -> int:
        """How many positions the slider has: one for each step, and one for the end."""
        return len(self.moments) + (self.end_world is not None)

    def _predictions(self, index: int) -> Bytes | None:
        planned = max((moment.step for moment in self.moments[: index + 1] if moment.is_planned), default=0)
        maps = self.moments[planned].maps
        if planned not in self.predictions:
            self.predictions[planned] = None if maps is None else predictions_picture(maps, self.setup.task.start)
        return self.predictions[planned]

    def show(self, index: int) -> ShownStep:
        """What the page shows of a step."""
        last = min(index, len(self.moments) - 1)
        moment, pose = self.moments[last], self.pose(index)
        so_far = self.moments[: last + 1]
        probabilities = [np.nan if moment.stop_probability is None else moment.stop_probability for moment in so_far]
        return ShownStep(
            moment=moment,
            index=index,
            pose_world=pose,
            flown=np.stack([self.pose(step)[:2] for step in range(index + 1)]),
            seconds=np.array([moment.step * self.step_seconds for moment in so_far], np.float32),
            speeds=np.array([np.hypot(*moment.velocity_world[:2]) for moment in so_far], np.float32),
            stop_probabilities=np.array(probabilities, np.float32),
            predictions=self._predictions(last),
            sheet=maps_sheet(self.field_picture, moment, self.setup.task.start, pose[:2].tolist()),
        )


def outcome_sentence(record: FlightRecord) -> str:
    """How the flight ended, in words."""
    words = f"**{record.outcome[0].upper()}{record.outcome[1:]}.**"
    match record.is_success:
        case None:
            return f"{words} There is no demonstration of this flight, so there is no goal to compare with."
        case True:
            return f"{words} That is a success: within {SUCCESS_M:.0f} m."
        case _:
            return f"{words} That is a miss: it did not stop within {SUCCESS_M:.0f} m."
