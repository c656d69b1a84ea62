"""The line to fly for each manoeuvre from where the drone is, if the manoeuvre makes sense there.

Every function takes the scene, the drone's pose and what the manoeuvre needs, and returns guide points (G, 2), field
frame, metres, or None if the manoeuvre makes no sense. docs/corpus.md defines the manoeuvres; `manoeuvre_checks` tests
each flight against the definition.
"""

from __future__ import annotations

import math

import numpy as np

from pvn.compiling import compiled
from pvn.corpus.meadow.scene import Lake, Pose, Scene, shore_distance
from pvn.corpus.meadow.steering import STRIDE, arc, detour, line_through, straight_line
from pvn.paths import Points, length_of, wrap_radians
from pvn.world.layout import FENCES, FIELD_SIZE

SWEEPS = {"quarter": math.pi / 2, "half": math.pi, "full": 2 * math.pi}
SHORE_PATH = 1.8
"""Distance from the shore at which a lake is passed and circled, metres."""


def _circle_point(centre: Points, radius: float, angle: float) -> tuple[float, float]:
    return centre[0] + radius * math.cos(angle), centre[1] + radius * math.sin(angle)


def _from_centre(pose: Pose, centre: Points) -> tuple[float, float]:
    """Distance and direction of the drone from a landmark's centre."""
    return math.hypot(pose.x - centre[0], pose.y - centre[1]), math.atan2(pose.y - centre[1], pose.x - centre[0])


def to_landmark(scene: Scene, pose: Pose, mark: int, detail: str, generator: np.random.Generator) -> Points | None:
    """To one side of a landmark; without a side, to the side that faces the drone."""
    centre, radius = scene.centres[mark], scene.radii[mark]
    distance, angle = _from_centre(pose, centre)
    if distance < radius + 4.0 and not (detail == "behind" and distance > radius + 1.0):
        return None
    match detail:
        case "":
            turn = min(max(generator.normal(0.0, math.radians(20)), -math.radians(50)), math.radians(50))
            end = _circle_point(centre, radius * generator.uniform(0.95, 1.1), angle + turn)
        case "front":
            end = _circle_point(centre, radius, angle)
        case "behind":
            end = _circle_point(centre, radius, angle + math.pi)
        case _:
            # Left as seen by the approaching drone, hence to the right of the direction from the landmark to the drone.
            end = _circle_point(centre, radius, angle - math.pi / 2 if detail == "left" else angle + math.pi / 2)
    return detour(pose.x, pose.y, *end, scene.centres, scene.solids)


def past_landmark(scene: Scene, pose: Pose, mark: int, side: int, generator: np.random.Generator) -> Points | None:
    """Straight past a landmark, on one side of the drone, and a little further."""
    centre, radius = scene.centres[mark], scene.radii[mark]
    distance, angle = _from_centre(pose, centre)
    gap = radius * generator.uniform(0.9, 1.2)
    if not gap + 2.5 < distance < 24.0:
        return None
    touch = angle + side * math.acos(gap / distance)
    x, y = _circle_point(centre, gap, touch)
    beyond = generator.uniform(3.4, 5.6)
    onward = touch + side * math.pi / 2
    return straight_line(pose.x, pose.y, x + beyond * math.cos(onward), y + beyond * math.sin(onward))


def around_landmark(
    scene: Scene, pose: Pose, mark: int, side: int, extent: str, generator: np.random.Generator
) -> Points | None:
    """To a circle around a landmark and along it, counter-clockwise for a landmark on the left."""
    centre, radius = scene.centres[mark], scene.radii[mark]
    distance, angle = _from_centre(pose, centre)
    wide = radius * generator.uniform(1.14, 1.22)
    if not 0.9 * radius <= distance < 22.0:
        return None
    sweep = SWEEPS[extent] + generator.uniform(-0.03, 0.2)
    band = 1.3 * radius
    if distance > band:
        touch = angle + side * math.acos(wide / distance)
        # The part inside the band before the circle is reached counts towards the sweep.
        sweep -= math.acos(wide / band)
    else:
        touch = angle + side * math.radians(25)
        sweep -= math.radians(25)
    approach = straight_line(pose.x, pose.y, *_circle_point(centre, wide, touch))
    return np.concatenate([approach, arc(centre[0], centre[1], wide, touch, side * sweep)[1:]])


def between_landmarks(
    scene: Scene, pose: Pose, marks: tuple[int, int], detail: str, generator: np.random.Generator
) -> Points | None:
    """To the middle between two landmarks, or between them and a little further."""
    one, other = scene.centres[marks[0]], scene.centres[marks[1]]
    across, middle = other - one, (one + other) / 2
    width = math.hypot(across[0], across[1])
    ahead = pose.offsets(middle)
    distance = math.hypot(ahead[0], ahead[1])
    if not 5.0 < distance < 25.0:
        return None
    if abs(ahead @ across) > 0.7 * width * distance:  # nearly in line with both: from here they do not look like a gap
        return None
    off = generator.uniform(-0.7, 0.7)
    beyond = 0.0 if detail == "stop" else generator.uniform(3.3, 5.7)
    end = middle + across / width * off + ahead / distance * beyond
    return straight_line(pose.x, pose.y, end[0], end[1])


def towards_landmark(scene: Scene, pose: Pose, mark: int, generator: np.random.Generator) -> Points | None:
    """Straight towards a landmark, half of the way."""
    off = pose.offsets(scene.centres[mark])
    distance, share = math.hypot(off[0], off[1]), generator.uniform(0.46, 0.54)
    if not 12.0 < distance < 40.0:
        return None
    return straight_line(pose.x, pose.y, pose.x + share * off[0], pose.y + share * off[1])


def until_abeam(scene: Scene, pose: Pose, mark: int, side: int) -> Points | None:
    """Straight ahead until a landmark is abeam, on the given side."""
    along, aside = pose.in_body(scene.centres[mark]).tolist()
    if not (4.5 < along < 24.0 and scene.solids[mark] + 1.0 < side * aside < 13.0):
        return None
    return straight_line(pose.x, pose.y, *pose.ahead(along))


def to_fence(scene: Scene, pose: Pose, colour: str, generator: np.random.Generator) -> Points | None:
    """To a fence, in a direction between straight ahead and the shortest way."""
    normal = FENCES[colour]
    off = wrap_radians(pose.heading - normal)
    if abs(off) > math.radians(65):
        return None
    angle = normal + off * generator.uniform(0.3, 0.8)
    short = generator.uniform(2.15, 2.85)
    remaining = (FIELD_SIZE / 2 - short) - (
        (pose.x - FIELD_SIZE / 2) * math.cos(normal) + (pose.y - FIELD_SIZE / 2) * math.sin(normal)
    )
    length = remaining / math.cos(angle - normal)
    if not 5.0 < length < 38.0:
        return None
    end = pose.x + length * math.cos(angle), pose.y + length * math.sin(angle)
    return detour(pose.x, pose.y, *end, scene.centres, scene.solids)


def forward(pose: Pose, detail: str, generator: np.random.Generator) -> Points:
    """Straight ahead, a short or a long way."""
    metres = generator.uniform(4.3, 5.7) if detail == "short" else generator.uniform(13.3, 16.7)
    return straight_line(pose.x, pose.y, *pose.ahead(metres))


def to_lake(lake: Lake, pose: Pose, generator: np.random.Generator) -> Points | None:
    """To the nearest shore."""
    off = pose.offsets(lake.shore)
    distance = length_of(off[:, 0], off[:, 1])
    nearest = int(distance.argmin())
    length = float(distance[nearest]) - generator.uniform(0.6, 1.4)
    if not 4.5 < length < 30.0:
        return None
    share = length / float(distance[nearest])
    return straight_line(pose.x, pose.y, pose.x + share * off[nearest, 0], pose.y + share * off[nearest, 1])


@compiled
def _shore_line(x, y, side, centre, shore, reach, sweep):
    """Guide points (G, 2) to a line around a lake and along it for `sweep` radians; none if it cannot be reached."""
    bins = len(reach)
    unit = 2 * math.pi / bins
    begin = math.atan2(y - centre[1], x - centre[0])
    # The furthest point of that line that can be reached on a straight line without coming too close to the shore.
    touch = -1
    for number in range(bins // 2):
        angle = begin + side * number * unit
        wide = reach[int(round(angle / unit)) % bins] + SHORE_PATH
        line = straight_line(x, y, centre[0] + wide * math.cos(angle), centre[1] + wide * math.sin(angle))
        is_open, point = True, 0
        while is_open and point < len(line):
            room = shore_distance(line[point, 0], line[point, 1], shore) - (SHORE_PATH - 0.6)
            is_open = room >= 0.0
            point += max(int(room / STRIDE), 1)  # each stride takes away at most a stride of room
        if is_open:
            touch = number
        elif touch >= 0:
            break
    if touch < 0:
        return np.empty((0, 2))
    count = int(math.ceil(sweep / unit))
    corners = np.empty((count + 2, 2))
    corners[0, 0], corners[0, 1] = x, y
    for number in range(count + 1):
        angle = begin + side * (touch + number) * unit
        wide = reach[int(round(angle / unit)) % bins] + SHORE_PATH
        corners[number + 1, 0] = centre[0] + wide * math.cos(angle)
        corners[number + 1, 1] = centre[1] + wide * math.sin(angle)
    return line_through(corners)


def past_lake(lake: Lake, pose: Pose, side: int, generator: np.random.Generator) -> Points | None:
    """Along the lake, on one side of the drone, until it is behind."""
    off = pose.offsets(lake.centre)
    distance = math.hypot(off[0], off[1])
    if distance > 28.0 or shore_distance(pose.x, pose.y, lake.shore) < SHORE_PATH:
        return None
    ahead = off / distance
    line = _shore_line(pose.x, pose.y, side, lake.centre, lake.shore, lake.reach, math.pi)
    beyond = (pose.offsets(lake.shore) @ ahead).max() + generator.uniform(0.6, 2.0)
    is_beyond = pose.offsets(line) @ ahead > beyond
    return line[: int(is_beyond.argmax()) + 1] if is_beyond.any() else None


def around_lake(lake: Lake, pose: Pose, side: int, generator: np.random.Generator) -> Points | None:
    """To the lake and around it, with the lake on one side."""
    off = pose.offsets(lake.centre)
    if math.hypot(off[0], off[1]) > 28.0 or shore_distance(pose.x, pose.y, lake.shore) < SHORE_PATH:
        return None
    sweep = generator.uniform(math.radians(130), math.radians(220))
    line = _shore_line(pose.x, pose.y, side, lake.centre, lake.shore, lake.reach, sweep)
    return line if len(line) * STRIDE > 8.0 else None
