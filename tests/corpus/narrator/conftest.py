"""Hand-made flights to be described."""

from dataclasses import dataclass

import numpy as np
import pytest

from pvn.corpus.narrator.names import narrator_lexicon
from pvn.corpus.narrator.narration import narrate
from pvn.world.layout import FIELD_SIZE, Landmark, Layout
from pvn.world.task import Demonstration, Task


@dataclass(frozen=True)
class Flight:
    layout: Layout
    start: tuple[float, float, float]
    path: np.ndarray

    @property
    def demonstration(self):
        return Demonstration(Task(self.layout, self.start, ""), self.path)

    def tell(self, count):
        """Different descriptions, without slips."""
        generator = np.random.default_rng(0)
        told = [narrate(self.demonstration, narrator_lexicon(), generator, 0.0) for _ in range(count)]
        return [one for one in told if one is not None]

    def mirrored(self):
        """The same flight in a field reflected north to south."""
        marks = tuple(
            Landmark(mark.name, mark.x, FIELD_SIZE - mark.y, mark.radius, -mark.yaw) for mark in self.layout.landmarks
        )
        x, y, yaw = self.start
        return Flight(
            Layout(marks, self.layout.lake[:, ::-1]), (x, FIELD_SIZE - y, -yaw), self.path * (1, -1) + (0, FIELD_SIZE)
        )


@pytest.fixture
def fly():
    """A flight along points from a heading (by default the first direction) past landmarks {name: (x, y)}."""

    def made(points, marks, yaw=None, lake=None):
        points = np.array(points, float)
        ahead = points[1] - points[0]
        yaw = float(np.arctan2(ahead[1], ahead[0])) if yaw is None else yaw
        things = tuple(Landmark(name, float(x), float(y), 4.0) for name, (x, y) in marks.items())
        layout = Layout(things) if lake is None else Layout(things, lake)
        return Flight(layout, (*points[0].tolist(), yaw), points)

    return made
