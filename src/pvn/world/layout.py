"""A field: where its landmarks stand, and which ground is water.

Field frame: origin at the south-west corner, x east, y north, metres; the field is 50 m x 50 m.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pvn.compiling import compiled
from pvn.world.lakes import LAKE_CELLS, sample_lakes
from pvn.world.landmarks import (
    LANDMARK_CLASSES,
    LANDMARK_NAMES,
    METRES_PER_CONFIG,
    landmark_class,
)

FIELD_SIZE = 50.0
FENCES = {"blue": math.pi / 2, "white": -math.pi / 2, "red": 0.0, "yellow": math.pi}
"""Direction from the field's centre to the fence of each colour, radians."""
LAKE_CELL = FIELD_SIZE / LAKE_CELLS
"""Edge of a water cell, metres."""
MAX_LANDMARKS = 32  # the ray tracer keeps one bit for each in a 32-bit word
MIN_SCALE, MAX_SCALE = 0.5, 3.0

# LANI's rules for random layouts, in metres.
EDGE_CLEARANCE = 4.5  # between a landmark's centre and the fences
GAP = 3.0  # between two landmarks' clearance circles
TRIES = 1000  # places tried for each landmark


@dataclass(frozen=True)
class Landmark:
    """One thing standing in a field."""

    name: str
    """Class name, one of `LANDMARK_NAMES`."""
    x: float
    """Position of its centre, field frame, metres."""
    y: float
    radius: float
    """Clearance radius, metres: the class's radius times the landmark's scale."""
    yaw: float = 0.0
    """Direction of its front, radians counter-clockwise from +x."""

    def __post_init__(self) -> None:
        landmark_class(self.name)
        numbers = (self.x, self.y, self.radius, self.yaw)
        if not all(math.isfinite(number) for number in numbers):
            raise ValueError(
                f"{self.name}: got position, radius, yaw {numbers}, expected finite numbers; correct the landmark"
            )
        if not (0 <= self.x <= FIELD_SIZE and 0 <= self.y <= FIELD_SIZE):
            raise ValueError(
                f"{self.name} stands outside the field: got ({self.x:g}, {self.y:g}), expected x and y "
                f"in [0, {FIELD_SIZE:g}] m; move it inside"
            )
        if not MIN_SCALE <= self.scale <= MAX_SCALE:
            usual = LANDMARK_CLASSES[self.name].radius
            raise ValueError(
                f"{self.name}: got radius {self.radius:g} m, expected {MIN_SCALE * usual:g} to {MAX_SCALE * usual:g} m "
                f"({MIN_SCALE:g} to {MAX_SCALE:g} times its class's); LANI's files count in units of 0.05 m"
            )

    @property
    def scale(self) -> float:
        """Size of this landmark relative to its class."""
        return self.radius / LANDMARK_CLASSES[self.name].radius


def _dry() -> npt.NDArray[np.bool_]:
    return np.zeros((LAKE_CELLS, LAKE_CELLS), bool)


@dataclass(frozen=True, eq=False)
class Layout:
    """Everything in one field; the four fences are always there."""

    landmarks: tuple[Landmark, ...]
    lake: npt.NDArray[np.bool_] = field(default_factory=_dry)
    """Water cells (100, 100), indexed [x, y], half a metre each."""

    def __post_init__(self) -> None:
        if len(self.landmarks) > MAX_LANDMARKS:
            raise ValueError(
                f"too many landmarks: got {len(self.landmarks)}, expected at most {MAX_LANDMARKS}; remove some"
            )
        if self.lake.shape != (LAKE_CELLS, LAKE_CELLS) or self.lake.dtype != bool:
            raise ValueError(
                f"lake: got {self.lake.dtype} of shape {self.lake.shape}, expected bool of shape "
                f"({LAKE_CELLS}, {LAKE_CELLS})"
            )
        for i, one in enumerate(self.landmarks):
            for other in self.landmarks[:i]:
                distance = math.hypot(one.x - other.x, one.y - other.y)
                # A landmark's solids fill at most half of its clearance radius; closer landmarks would interpenetrate.
                needed = (one.radius + other.radius) / 2
                if distance < needed:
                    raise ValueError(
                        f"{one.name} overlaps {other.name}: got centres {distance:.2f} m apart, expected "
                        f"at least {needed:.2f} m; move one of them"
                    )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Layout)
            and self.landmarks == other.landmarks
            and bool(np.array_equal(self.lake, other.lake))
        )

    def __hash__(self) -> int:
        return hash((self.landmarks, self.lake.tobytes()))

    @property
    def centres(self) -> npt.NDArray[np.float64]:
        """The landmarks' centres (N, 2), field frame, metres."""
        return np.array([(mark.x, mark.y) for mark in self.landmarks]).reshape(-1, 2)

    @property
    def radii(self) -> npt.NDArray[np.float64]:
        """The landmarks' clearance radii (N,), metres."""
        return np.array([mark.radius for mark in self.landmarks], np.float64)


def fence_distance(points: npt.NDArray[np.float64], colour: str) -> npt.NDArray[np.float64]:
    """Distances (...,) from points (..., 2), field frame, to a fence, metres; negative beyond it."""
    angle = FENCES[colour]
    return FIELD_SIZE / 2 - (points - FIELD_SIZE / 2) @ np.array([math.cos(angle), math.sin(angle)])


def landmark_tables(layouts: Sequence[Layout]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Places (F, 32, 2), field frame, and classes (F, 32) of the landmarks in F fields; -1 where there is none."""
    place, kind = np.zeros((len(layouts), MAX_LANDMARKS, 2), np.float32), np.full((len(layouts), MAX_LANDMARKS), -1)
    for row, layout in enumerate(layouts):
        marks = layout.landmarks
        place[row, : len(marks)] = layout.centres
        kind[row, : len(marks)] = [LANDMARK_CLASSES[mark.name].index for mark in marks]
    return place, kind


@compiled
def _place(proposals, radii, gap):
    """Places (N, 2) of discs: of each disc's proposals (N, T, 2), in LANI's units, the first at least `gap` from the
    discs before it.
    """
    places = np.empty((len(radii), 2))
    for disc in range(len(radii)):
        is_free = False
        for proposal in range(proposals.shape[1]):
            x, y = proposals[disc, proposal, 0] * METRES_PER_CONFIG, proposals[disc, proposal, 1] * METRES_PER_CONFIG
            is_free = True
            for other in range(disc):
                off_x, off_y, needed = x - places[other, 0], y - places[other, 1], radii[disc] + radii[other] + gap
                # Nearly always one of the two is enough, and a root is not needed.
                square, limit = off_x * off_x + off_y * off_y, needed * needed
                if square < limit * 1.000001 and (square < limit * 0.999999 or math.hypot(off_x, off_y) < needed):
                    is_free = False
                    break
            if is_free:
                places[disc, 0], places[disc, 1] = x, y
                break
        if not is_free:
            return places[:0]
    return places


def _sample_landmarks(generator: np.random.Generator, num_landmarks: int) -> tuple[Landmark, ...]:
    edge = round(EDGE_CLEARANCE / METRES_PER_CONFIG)
    across = round(FIELD_SIZE / METRES_PER_CONFIG)
    usual = np.array([LANDMARK_CLASSES[name].radius / METRES_PER_CONFIG for name in LANDMARK_NAMES])
    while True:  # if one finds no room, start over with other classes
        chosen = generator.choice(len(LANDMARK_NAMES), num_landmarks, replace=False)
        scales = generator.uniform(1.0, 1.3, num_landmarks)
        # Rounded to LANI's units or hundredths of them, so that a file is read back as the same layout to the bit.
        radii = METRES_PER_CONFIG * np.round(usual[chosen] * scales, 2)
        proposals = generator.integers(edge, across - edge + 1, (num_landmarks, TRIES, 2), dtype=np.int32)
        places = _place(proposals, radii, GAP)
        if len(places) == num_landmarks:
            break
    yaws = generator.uniform(-math.pi, math.pi, num_landmarks)
    return tuple(
        Landmark(LANDMARK_NAMES[index], float(x), float(y), float(radius), float(yaw))
        for index, (x, y), radius, yaw in zip(chosen, places, radii, yaws, strict=True)
    )


def sample_layout(seed: int, num_landmarks: int | None = None) -> Layout:
    """A random field by LANI's rules: 6 to 13 landmarks of different classes and 1 to 3 lakes."""
    if num_landmarks is not None and not 0 <= num_landmarks <= 13:
        raise ValueError(
            f"num_landmarks: got {num_landmarks}, expected 0 to 13; LANI's clearances leave no room for more"
        )
    if seed < 0:
        raise ValueError(f"seed: got {seed}, expected 0 or more")
    generator = np.random.default_rng(seed)
    count = int(generator.integers(6, 14)) if num_landmarks is None else num_landmarks
    landmarks = _sample_landmarks(generator, count)
    return Layout(landmarks, sample_lakes(generator, [(mark.x, mark.y) for mark in landmarks]))
