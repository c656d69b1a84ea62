"""Each manoeuvre is flown as its definition says; geometry is measured here independently, on the paths."""

import functools
import itertools
import math

import numpy as np
import pytest

from pvn.corpus.meadow.manoeuvre_checks import Leg, is_fulfilled
from pvn.corpus.meadow.manoeuvres import ALL_MANOEUVRES, Manoeuvre, parse_manoeuvre
from pvn.corpus.meadow.scene import Pose, Scene
from pvn.corpus.meadow.tours import ManoeuvreChoice, first_pose, fly_from, fly_tour
from pvn.world.lakes import LAKE_CELLS
from pvn.world.layout import FIELD_SIZE, LAKE_CELL, Landmark, Layout, sample_layout
from pvn.world.shapes import solid_extent

NUM_FLIGHTS = 12


@functools.cache
def scene(seed):
    return Scene.of(sample_layout(seed))


@functools.cache
def flights(text):
    """Flights of one manoeuvre in many fields, each with its scene."""
    found = []
    for seed in range(3000):
        generator = np.random.default_rng(seed)
        here = scene(seed % 40)
        flight = fly_from(here, first_pose(here, generator), (parse_manoeuvre(text),), generator)
        if flight is not None:
            found.append((here, flight))
        if len(found) == NUM_FLIGHTS:
            return found
    raise AssertionError(f"only {len(found)} flights of {text!r}")


def measured(text):
    """For each flight its scene, the path of its one manoeuvre, and centre and radius of each landmark meant."""
    for here, flight in flights(text):
        (flown,) = flight.legs
        marks = [(here.centres[mark], here.radii[mark]) for mark in flight.meant]
        yield here, flown, marks


def degrees_between(one, other):
    return abs(math.degrees((one - other + math.pi) % (2 * math.pi) - math.pi))


def angle(vector):
    return math.atan2(vector[1], vector[0])


def is_left_of(heading, off):
    return math.cos(heading) * off[1] - math.sin(heading) * off[0] > 0


def length(points):
    return np.hypot(*np.diff(points, axis=0).T).sum()


def swept(points, centre):
    """Degrees around a centre, positive if counter-clockwise."""
    turns = np.unwrap(np.arctan2(*(points - centre).T[::-1]))
    return math.degrees(turns[-1] - turns[0])


@pytest.mark.parametrize(
    ("side", "turned"), [("left", 90), ("right", -90), ("front", 180), ("behind", 0)], ids=lambda value: str(value)
)
def test_goto_a_side_ends_there_as_seen_on_the_way_and_not_through_the_landmark(side, turned):
    for here, flown, [(centre, radius)] in measured(f"goto A {side}"):
        approach = angle(centre - flown.points[0]) + math.radians(turned)
        wanted = centre + radius * np.array([math.cos(approach), math.sin(approach)])
        assert np.hypot(*(flown.points[-1] - wanted)) <= 1.0
        solid = here.solids[here.centres.tolist().index(centre.tolist())]
        assert np.hypot(*(flown.points - centre).T).min() > solid


@pytest.mark.parametrize("side", ["left", "right"])
def test_pass_has_the_landmark_on_that_side_at_closest_approach_and_ends_beyond(side):
    for _, flown, [(centre, radius)] in measured(f"pass A {side}"):
        distance = np.hypot(*(flown.points - centre).T)
        abeam = int(distance.argmin())
        heading = angle(flown.points[abeam + 1] - flown.points[abeam - 1])
        assert is_left_of(heading, centre - flown.points[abeam]) == (side == "left")
        assert 0.8 * radius <= distance[abeam] <= 1.3 * radius
        assert 3.0 <= length(flown.points[abeam:]) <= 6.3


@pytest.mark.parametrize("extent", ["quarter", "half", "full"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_circle_keeps_its_distance_and_sweeps_its_angle_in_its_direction(side, extent):
    for _, flown, [(centre, radius)] in measured(f"circle A {side} {extent}"):
        distance = np.hypot(*(flown.points - centre).T)
        ring = slice(int((distance <= 1.3 * radius).argmax()), None)
        assert 0.9 * radius <= distance[ring].min() and distance[ring].max() <= 1.3 * radius
        sweep = swept(flown.points[ring], centre) * (1 if side == "left" else -1)
        assert sweep == pytest.approx({"quarter": 90, "half": 180, "full": 360}[extent], abs=15)


def shore_gap(here, points):
    """Metres (P,) from points to the nearest water cell's edge, from the layout itself."""
    water = (np.argwhere(here.layout.lake) + 0.5) * LAKE_CELL
    return np.hypot(*(points[:, None] - water[None]).transpose(2, 0, 1)).min(axis=1) - LAKE_CELL / 2


@pytest.mark.parametrize("side", ["left", "right"])
def test_lake_pass_goes_by_near_the_shore_and_ends_beyond(side):
    for here, flown, _ in measured(f"lake pass {side}"):
        gap = shore_gap(here, flown.points)
        near = int(gap.argmin())
        assert 0 < gap[near] <= 4.0
        water = (np.argwhere(here.layout.lake) + 0.5) * LAKE_CELL
        heading = angle(flown.points[min(near + 2, len(gap) - 1)] - flown.points[max(near - 2, 0)])
        nearest = water[np.hypot(*(water - flown.points[near]).T).argmin()]
        assert is_left_of(heading, nearest - flown.points[near]) == (side == "left")
        ahead = water.mean(axis=0) - flown.points[0]
        assert (flown.points[-1] - flown.points[0]) @ ahead >= ((water - flown.points[0]) @ ahead).max()


@pytest.mark.parametrize("side", ["left", "right"])
def test_lake_circle_sweeps_a_third_of_the_way_round_and_more_along_the_shore(side):
    for here, flown, _ in measured(f"lake circle {side}"):
        gap = shore_gap(here, flown.points)
        along = slice(int((gap <= 4.0).argmax()), None)
        assert gap[along].max() <= 4.0
        sweep = swept(flown.points[along], (np.argwhere(here.layout.lake) + 0.5).mean(axis=0) * LAKE_CELL)
        assert sweep * (1 if side == "left" else -1) >= 120


@pytest.mark.parametrize("text", ALL_MANOEUVRES)
def test_every_path_is_smooth_inside_the_field_and_out_of_the_solids(text):
    for here, flight in flights(text if "COLOR" not in text else "fence COLOR"):
        points = flight.legs[0].points
        assert points.min() >= 1.0 and points.max() <= FIELD_SIZE - 1.0
        for mark in here.layout.landmarks:
            gap = np.hypot(*(points[1:] - (mark.x, mark.y)).T).min(initial=99)
            assert gap > solid_extent(mark.name) * mark.scale
        steps = np.diff(points, axis=0)
        turns = np.diff(np.unwrap(np.arctan2(steps[:, 1], steps[:, 0])))
        # At 3 m/s and 60 degrees per second a quadcopter turns one radian in 2.9 m.
        assert np.abs(turns).max(initial=0) <= 0.25 / 2.8


def test_flights_of_the_same_list_differ():
    here = scene(3)
    pose = Pose(25.0, 25.0, 0.3)
    ends = set()
    for seed in range(40):
        flight = fly_from(here, pose, (parse_manoeuvre("forward long"),), np.random.default_rng(seed))
        if flight is not None:
            middle = flight.legs[0].points[len(flight.legs[0].points) // 2]
            ends.add(tuple(np.round(middle, 6)))
    assert len(ends) > 5


def mirrored(text):
    swapped = {"left": "right", "right": "left"}
    return " ".join(swapped.get(word, word) for word in text.split())


@pytest.mark.parametrize("text", [text for text in ALL_MANOEUVRES if mirrored(text) != text])
def test_a_path_on_one_side_does_not_fulfil_the_manoeuvre_for_the_other(text):
    for here, flight in flights(text):
        meant = dict(zip("AB", flight.meant, strict=False))
        assert is_fulfilled(flight.manoeuvres[0], flight.legs[0], here, meant)
        assert not is_fulfilled(parse_manoeuvre(mirrored(text)), flight.legs[0], here, meant)


@pytest.mark.long
def test_a_tour_looks_elsewhere_if_there_is_nothing_in_view():
    """What may begin is found out anew for every heading: 24 tours would be found with what was found out first."""
    choice = ManoeuvreChoice(((parse_manoeuvre("between A B through"),),), np.array([1.0]))
    tours = [fly_tour(scene(seed), [choice] * 2, np.random.default_rng(seed)) for seed in range(30)]
    assert sum(tour is not None for tour in tours) >= 28


def test_standing_still_is_no_manoeuvre():
    here = scene(3)
    flown = Leg(np.array([[25.0, 25.0], [25.0, 25.0], [25.0, 25.0]]), 0.0, 0.0)
    for text in ALL_MANOEUVRES:
        manoeuvre = parse_manoeuvre(text.replace("COLOR", "red"))
        assert not is_fulfilled(manoeuvre, flown, here, {"A": 0, "B": 1}), text


def line(*corners):
    """A path of straight lines between corners, points a quarter of a metre apart."""
    legs = [np.array([corners[0]], float)]
    for begin, end in itertools.pairwise(np.array(corners, float)):
        count = max(int(np.hypot(*(end - begin)) / 0.25), 1)
        legs.append(begin + (end - begin) * np.linspace(0, 1, count + 1)[1:, None])
    return np.concatenate(legs)


def arc(x, y, radius, begin, sweep):
    """Corners along an arc, in degrees."""
    angles = np.radians(np.linspace(begin, begin + sweep, 60))
    return [(x + radius * math.cos(angle), y + radius * math.sin(angle)) for angle in angles]


def hand_made(*marks, lake=None):
    water = np.zeros((LAKE_CELLS, LAKE_CELLS), bool)
    if lake is not None:
        (left, right), (bottom, top) = (np.array(lake) / LAKE_CELL).astype(int).tolist()
        water[left:right, bottom:top] = True
    return Scene.of(Layout(tuple(Landmark("Barrel", x, y, 4.0) for x, y in marks), water))


BARREL, PAIR, LAKE = hand_made((25, 25)), hand_made((25, 20), (25, 30)), hand_made(lake=((20, 30), (20, 30)))


@pytest.mark.parametrize(
    ("text", "scene", "corners", "headings", "is_right"),
    [
        ("pass A left", BARREL, [(10, 21), (29, 21)], (0, 0), True),
        ("pass A left", BARREL, [(10, 22.5), (29, 22.5)], (0, 0), False),  # too close
        ("pass A left", BARREL, [(10, 18), (29, 18)], (0, 0), False),  # too far
        ("pass A left", BARREL, [(10, 21), (25.5, 21)], (0, 0), False),  # not beyond
        ("pass A left", BARREL, [(10, 21), (33, 21)], (0, 0), False),  # far beyond
        ("goto A", BARREL, [(10, 25), (21, 25)], (0, 0), True),
        ("goto A", BARREL, [(10, 25), (18, 25)], (0, 0), False),
        ("goto A behind", BARREL, [(10, 25), (25, 20), (29, 25)], (0, 0), True),
        ("goto A behind", BARREL, [(10, 25), (21, 25)], (0, 0), False),
        ("between A B through", PAIR, [(10, 25), (29, 25)], (0, 0), True),
        ("between A B through", PAIR, [(10, 25), (24, 25)], (0, 0), False),
        ("between A B through", PAIR, [(10, 28), (29, 28)], (0, 0), False),  # not in the middle
        ("between A B stop", PAIR, [(10, 25), (25, 25)], (0, 0), True),
        ("between A B stop", PAIR, [(10, 25), (29, 25)], (0, 0), False),
        ("toward A", BARREL, [(5, 25), (15, 25)], (0, 0), True),
        ("toward A", BARREL, [(5, 25), (19, 25)], (0, 0), False),
        ("toward A", BARREL, [(5, 25), (10, 30), (15, 25)], (0, 0), False),  # not straight
        ("until A left", BARREL, [(10, 18), (25, 18)], (0, 0), True),
        ("until A left", BARREL, [(10, 18), (20, 18)], (0, 0), False),
        ("until A right", BARREL, [(10, 18), (25, 18)], (0, 0), False),  # on the left
        ("until A left", BARREL, [(10, 9), (25, 9)], (0, 0), False),  # too far aside
        ("circle A left half", BARREL, arc(25, 25, 4.2, -90, 180), (0, 0), True),
        ("circle A left half", BARREL, arc(25, 25, 4.2, -90, 150), (0, 0), False),
        ("circle A left half", BARREL, arc(25, 25, 4.2, -90, -180), (0, 0), False),
        ("circle A left half", BARREL, arc(25, 25, 5.5, -90, 180), (0, 0), False),  # too far
        ("face A", BARREL, [(10, 25)], (1.0, 0.0), True),
        ("face A", BARREL, [(10, 25)], (0.5, 0.0), False),  # it was in view
        ("face A", BARREL, [(10, 25)], (1.0, 0.5), False),
        ("turn left", BARREL, [(10, 25)], (0, 1.6), True),
        ("turn left", BARREL, [(10, 25)], (0, 1.2), False),
        ("lake", LAKE, [(5, 25), (19, 25)], (0, 0), True),
        ("lake", LAKE, [(5, 25), (21, 25)], (0, 0), False),  # over the water
        ("lake", LAKE, [(5, 25), (15, 25)], (0, 0), False),
        ("lake pass left", LAKE, [(10, 18), (37, 18)], (0, 0), True),
        ("lake pass left", LAKE, [(10, 18), (25, 18)], (0, 0), False),  # not beyond
        ("lake pass left", LAKE, [(10, 12), (40, 12)], (0, 0), False),  # too far
        ("forward short", BARREL, [(10, 10), (15, 10)], (0, 0), True),
        ("forward short", BARREL, [(10, 10), (20, 10)], (0, 0), False),
        ("forward short", BARREL, [(10, 10), (10, 15)], (0, 0), False),
        ("fence red", BARREL, [(30, 10), (FIELD_SIZE - 2.5, 10)], (0, 0), True),
        ("fence red", BARREL, [(30, 10), (FIELD_SIZE - 0.5, 10)], (0, 0), False),
        ("fence yellow", BARREL, [(30, 10), (2.5, 10)], (0, 0), True),
        ("fence blue", BARREL, [(10, 30), (10, FIELD_SIZE - 2.5)], (0, 0), True),
        ("fence white", BARREL, [(10, 30), (10, 2.5)], (0, 0), True),
    ],
)
def test_only_the_right_hand_made_paths_fulfil_a_manoeuvre(text, scene, corners, headings, is_right):
    flown = Leg(line(*corners), *headings)
    assert is_fulfilled(parse_manoeuvre(text), flown, scene, {"A": 0, "B": 1}) == is_right


def test_the_closed_set_has_thirty_manoeuvres_and_each_is_read_back():
    assert len(ALL_MANOEUVRES) == 30
    for text in ALL_MANOEUVRES:
        assert str(parse_manoeuvre(text)) == text
    assert parse_manoeuvre("fence red") == Manoeuvre("fence", (), "red")


@pytest.mark.parametrize("text", ["goto", "goto A B", "goto A up", "pass A", "fly A", "between A A stop", "turn A", ""])
def test_anything_else_is_refused_with_the_nearest_one(text):
    with pytest.raises(ValueError, match="expected one of the closed set"):
        parse_manoeuvre(text)
