"""A flight as it is shown: every step with all there is to see of it, and its end in words."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np

from pvn.app.demo.flight_setup import Choice
from pvn.app.demo.pictures import Bytes, heat_picture, maps_sheet
from pvn.viz.flight_picture import outcome
from pvn.viz.flight_record import Floats, Moment, Recorded
from pvn.viz.map_pictures import Picture
from pvn.world.task import SUCCESS_M


@dataclass(frozen=True)
class Shown:
    """One step of a flight, to be seen."""

    moment: Moment
    index: int
    """The step; one more than the last is the end."""
    pose_world: Floats
    """(6,), field frame."""
    flown: Floats
    """(P, 2): the way so far, field frame."""
    seconds: Floats
    """(P',): times of the steps so far."""
    speeds: Floats
    """(P',): metres a second at these times."""
    stop_chances: Floats
    """(P',): the pilot's own, at these times; NaN where it has none."""
    heat: Bytes | None
    sheet: Bytes


@dataclass(eq=False)
class Flight:
    """A flight that is flown or was flown."""

    choice: Choice
    above: Picture
    """Its field from above (HEAT_PX, HEAT_PX, 3), 0 to 1."""
    step_seconds: float
    moments: list[Moment] = field(default_factory=list)
    end_world: Floats | None = None
    """Pose (6,) after the last step."""
    recorded: Recorded | None = None
    """Only of a flight that was flown to its end."""
    heats: dict[int, Bytes | None] = field(default_factory=dict)
    """By the step at which they were predicted."""
    is_cut: threading.Event = field(default_factory=threading.Event)
    """Set when it, or its replay, is to end at once."""

    def pose(self, index: int) -> Floats:
        """Where the drone is at a step, or at the end (6,)."""
        if index < len(self.moments) or self.end_world is None:
            return self.moments[min(index, len(self.moments) - 1)].pose_world
        return self.end_world

    @property
    def num_places(self) -> int:
        """Steps that can be shown, the end among them."""
        return len(self.moments) + (self.end_world is not None)

    def _heat(self, index: int) -> Bytes | None:
        planned = max((moment.step for moment in self.moments[: index + 1] if moment.is_planned), default=0)
        maps = self.moments[planned].maps
        if planned not in self.heats:
            self.heats[planned] = None if maps is None else heat_picture(maps, self.choice.task.start)
        return self.heats[planned]

    def shown(self, index: int) -> Shown:
        """All there is to see of a step."""
        last = min(index, len(self.moments) - 1)
        moment, pose = self.moments[last], self.pose(index)
        so_far = self.moments[: last + 1]
        chances = [np.nan if moment.stop_chance is None else moment.stop_chance for moment in so_far]
        return Shown(
            moment=moment,
            index=index,
            pose_world=pose,
            flown=np.stack([self.pose(step)[:2] for step in range(index + 1)]),
            seconds=np.array([moment.step * self.step_seconds for moment in so_far], np.float32),
            speeds=np.array([np.hypot(*moment.velocity_world[:2]) for moment in so_far], np.float32),
            stop_chances=np.array(chances, np.float32),
            heat=self._heat(last),
            sheet=maps_sheet(self.above, moment, self.choice.task.start, pose[:2].tolist()),
        )


def between(before: Floats, after: Floats, share: float) -> Floats:
    """A pose (6,) on the way from one to another; angles the short way round."""
    change = after - before
    change[3:] = (change[3:] + np.pi) % (2 * np.pi) - np.pi
    return before + share * change


def describe(recorded: Recorded) -> str:
    """How it ended, in words."""
    words = outcome(recorded.distance, len(recorded.moments), recorded.has_stopped)
    words = f"**{words[0].upper()}{words[1:]}.**"
    match recorded.is_success:
        case None:
            return f"{words} No one has flown this before, so there is no goal to measure by."
        case True:
            return f"{words} That is a success: within {SUCCESS_M:.0f} m."
        case _:
            return f"{words} That is a miss: not stopped within {SUCCESS_M:.0f} m."
