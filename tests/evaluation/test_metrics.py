"""Metrics of paths for which they can be worked out by hand, and against independent implementations."""

import math
import subprocess
import sys

import numpy as np
import pytest

from pvn.evaluation.metrics import NUM_MASSES, measure_flights, obstacles, resample
from pvn.evaluation.path_distances import (
    count_entries,
    spread_masses,
    transport_cost,
    travelled_along,
    warping_cost,
)
from pvn.paths import path_length
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Landmark, Layout
from pvn.world.shapes import solid_extent
from pvn.world.task import Demonstration, Task

AHEAD = np.array([[0.0, 0.0], [10.0, 0.0]])
"""The demonstrated path of most tests: ten metres straight east."""


def path(*points):
    return np.array(points, float)


def demonstrated_path(points, landmarks=()):
    return Demonstration(Task(Layout(landmarks), (*points[0], 0.0), "go on"), points)


def measured(*points, has_stopped=True, demonstrated=AHEAD):
    return measure_flights([path(*points)], [has_stopped], [demonstrated_path(demonstrated)])


def measure(name):
    """One metric of a flight along a path beside another path, from the function that measures all flights."""
    return lambda flown, wanted: getattr(measure_flights([flown], [True], [demonstrated_path(wanted)]), name)[0]


normalised_dtw, coverage_weighted_length, earth_movers_distance = map(measure, ("ndtw", "cls", "emd"))


def masses(points, count=NUM_MASSES):
    return spread_masses(points, travelled_along(points), count)


def count_collisions(points, discs):
    return count_entries(resample(points), discs)


def wandering(seed, num_points=25):
    return np.random.default_rng(seed).normal(0, 1.5, (num_points, 2)).cumsum(axis=0)


def is_near(value):
    return pytest.approx(value, abs=1e-9)


def test_a_flight_along_the_demonstrated_path_has_full_marks():
    found = measured(*AHEAD)
    assert found.is_success[0] and found.is_oracle_success[0] and found.stop_distance[0] == 0
    for name in ("spl", "ndtw", "sdtw", "cls", "semd"):
        assert getattr(found, name)[0] == is_near(1.0), name
    assert found.emd[0] == is_near(0.0)
    assert found.distance_flown[0] == 10 and found.num_steps[0] == 1 and found.num_collisions[0] == 0


def test_success_is_a_stop_closer_than_five_metres():
    assert measured((0, 0), (5.01, 0)).is_success[0]
    at_five = measured((0, 0), (5, 0))
    assert at_five.stop_distance[0] == 5 and not at_five.is_success[0] and not at_five.is_loose_success[0]


def test_a_flight_ended_by_the_horizon_succeeds_only_by_the_loose_rule():
    found = measured(*AHEAD, has_stopped=False)
    assert not found.is_success[0] and found.is_loose_success[0] and found.is_oracle_success[0]
    assert found.spl[0] == found.sdtw[0] == found.semd[0] == 0
    assert found.ndtw[0] == is_near(1.0)  # the path is as good as ever
    assert not found.success_by_radius().any()


def test_a_flight_that_passes_the_goal_succeeds_only_for_the_oracle():
    found = measured((0, 0), (20, 0))
    assert found.is_oracle_success[0] and not found.is_loose_success[0] and found.stop_distance[0] == 10
    # One long step over the goal: it was there, though no step ended there.
    assert measured((0, 0), (30, 0)).is_oracle_success[0]
    assert not measured((0, 0), (0, 20)).is_oracle_success[0]


def test_success_by_radius_climbs_where_the_stop_distance_lies():
    found = measured((0, 0), (6.5, 0))  # 3.5 m short
    assert found.success_by_radius()[0].tolist() == [False] * 3 + [True] * 7
    assert found.success_by_radius((3.5, 3.6))[0].tolist() == [False, True], "on the edge is not inside"


def test_spl_is_demonstrated_length_over_flown_length_and_no_bonus_for_short_cuts():
    assert measured((0, 0), (0, 5), (10, 5), (10, 0)).spl[0] == is_near(10 / 20)
    corner = path((0, 0), (0, 5), (10, 5), (10, 0))
    assert measured((0, 0), (10, 0), demonstrated=corner).spl[0] == is_near(1.0)
    assert measured((0, 0), (0.8, 0), demonstrated=path((0, 0), (0.2, 0))).spl[0] == is_near(0.2 / 0.8)


def test_a_path_five_metres_beside_the_demonstrated_one():
    beside = AHEAD + np.array([0, 5])
    assert normalised_dtw(beside, AHEAD) == is_near(math.exp(-1))
    assert earth_movers_distance(beside, AHEAD) == is_near(5.0)
    # Coverage exp(-1); the length that goes with it, 10 exp(-1), over the 10 m flown.
    assert coverage_weighted_length(beside, AHEAD) == is_near(math.exp(-2))


def test_a_flight_that_never_leaves_its_start():
    found = measured((0, 0), (0, 0))
    # 21 points every half metre, 0 to 10 m away: they sum to 105 m.
    assert found.ndtw[0] == is_near(math.exp(-105 / (21 * 5)))
    assert found.emd[0] == is_near(5.0)
    coverage = np.exp(-np.linspace(0, 10, 21) / 5).mean()
    assert found.cls[0] == is_near(coverage / 2)
    assert found.semd[0] == 0 and found.distance_flown[0] == 0
    assert measured((0, 0)).num_steps[0] == 0


def test_semd_is_the_share_of_the_start_s_distance_that_was_made_good():
    # Masses along 6 m lie two fifths short of those along 10 m: 2 m on average; 5 m for a drone that stayed.
    found = measured((0, 0), (6, 0))
    assert found.emd[0] == is_near(2.0) and found.semd[0] == is_near(1 - 2 / 5)
    assert measured((0, 0), (4, 0)).semd[0] == 0  # no success, no score
    # A detour so long that staying would have been nearer counts as nothing, not as less.
    assert measured((0, 0), (0, 40), (10, 40), (10, 0)).semd[0] == 0


def test_sdtw_is_ndtw_of_successes():
    found = measured((0, 0), (10, 4))
    assert found.is_success[0] and found.sdtw[0] == found.ndtw[0] < 1
    assert measured((0, 0), (10, 6)).sdtw[0] == 0


def test_a_demonstration_that_goes_nowhere_divides_by_nothing():
    there = path((3, 3), (3, 3))
    found = measured((3, 3), (3, 3), demonstrated=there)
    for name in ("spl", "ndtw", "cls", "semd"):
        assert getattr(found, name)[0] == 1, name
    away = measured((3, 3), (6, 3), demonstrated=there)
    assert away.is_success[0] and away.spl[0] == away.cls[0] == away.semd[0] == 0


def test_a_batch_is_its_flights_one_by_one():
    demonstrations = [demonstrated_path(wandering(seed)) for seed in range(5)]
    paths = [wandering(10 + seed, 5 + 4 * seed) for seed in range(5)]
    stops = [True, False, True, True, False]
    batch = measure_flights(paths, stops, demonstrations)
    for flight in range(5):
        own = slice(flight, flight + 1)
        single = measure_flights(paths[own], stops[own], demonstrations[own])
        for name, value in vars(batch.select(np.arange(5) == flight)).items():
            assert value.tolist() == getattr(single, name).tolist(), name


def test_paths_are_resampled_as_numpy_interpolates():
    for seed in range(20):
        points = np.repeat(wandering(seed), 1 + seed % 3, axis=0)  # some with repeated points
        travelled = np.concatenate([[0], np.hypot(*np.diff(points, axis=0).T).cumsum()])

        def at(distances, points=points, travelled=travelled):
            return np.stack([np.interp(distances, travelled, points[:, axis]) for axis in (0, 1)], -1)

        even, length = resample(points), travelled[-1]
        assert len(even) == math.ceil(length / 0.5) + 1
        assert even == pytest.approx(at(np.linspace(0, length, len(even))), abs=1e-9)
        assert masses(points, 8) == pytest.approx(at(length * (np.arange(8) + 0.5) / 8), abs=1e-9)
        # CLS and collisions by their definitions, with these points.
        other = wandering(seed + 50)
        near = np.exp(-np.linalg.norm(resample(other)[:, None] - even[None], axis=-1).min(1) / 5).mean()
        wanted = near * path_length(other)
        expected = near * wanted / (wanted + abs(wanted - length))
        assert coverage_weighted_length(points, other) == is_near(expected)
        discs = np.array([[0.0, 0.0, 2.0], [3.0, -3.0, 1.5]])
        is_inside = np.linalg.norm(even[:, None] - discs[None, :, :2], axis=-1) < discs[:, 2]
        assert count_collisions(points, discs) == (is_inside[1:] & ~is_inside[:-1]).sum()
    with pytest.raises(ValueError, match="path: got no points"):
        resample(np.empty((0, 2)))


def test_flights_that_cannot_be_measured_are_refused():
    demonstration = demonstrated_path(AHEAD)
    with pytest.raises(ValueError, match="got 1 paths, 2 stops and 1 demonstrations"):
        measure_flights([AHEAD], [True, True], [demonstration])
    for wrong in (AHEAD * np.nan, np.zeros((0, 2)), np.zeros((4, 3)), np.zeros(2), np.zeros((4, 2, 2))):
        with pytest.raises(ValueError, match="path of flight 0: got shape"):
            measure_flights([wrong], [True], [demonstration])


@pytest.mark.parametrize("metric", [normalised_dtw, coverage_weighted_length, earth_movers_distance])
def test_turning_and_moving_both_paths_changes_nothing(metric):
    turn = np.array([[math.cos(0.7), -math.sin(0.7)], [math.sin(0.7), math.cos(0.7)]])
    for seed in range(10):
        flown, demonstrated = wandering(seed), wandering(seed + 100, 12)
        moved = metric(flown @ turn.T + [3, -8], demonstrated @ turn.T + [3, -8])
        assert moved == is_near(metric(flown, demonstrated))


@pytest.mark.parametrize("metric", [normalised_dtw, coverage_weighted_length, earth_movers_distance])
def test_points_added_along_a_path_change_nothing(metric):
    for seed in range(10):
        flown, demonstrated = wandering(seed), wandering(seed + 100, 12)
        middles = (flown[1:] + flown[:-1]) / 2
        denser = np.concatenate([np.stack([flown[:-1], middles], axis=1).reshape(-1, 2), flown[-1:]])
        hovering = np.repeat(flown, 3, axis=0)
        assert metric(denser, demonstrated) == is_near(metric(flown, demonstrated))
        assert metric(hovering, demonstrated) == is_near(metric(flown, demonstrated))


def test_flying_the_path_backwards_shows_in_warping_alone():
    there, back = wandering(4), wandering(4)[::-1]
    assert normalised_dtw(back, there) < 0.9
    assert earth_movers_distance(back, there) == is_near(0.0)
    assert coverage_weighted_length(back, there) == is_near(1.0)
    other = wandering(5)
    assert normalised_dtw(there[::-1], other[::-1]) == is_near(normalised_dtw(there, other))


def test_earth_movers_distance_is_a_metric():
    for seed in range(10):
        one, two, three = (wandering(seed + offset) for offset in (0, 100, 200))
        assert earth_movers_distance(one, two) == is_near(earth_movers_distance(two, one))
        assert earth_movers_distance(one, three) <= earth_movers_distance(one, two) + earth_movers_distance(two, three)


def test_resampled_points_are_even_and_keep_both_ends():
    points = resample(path((0, 0), (0, 3), (4.2, 3)), spacing=0.5)
    assert len(points) == 16 and points[0].tolist() == [0, 0] and points[-1].tolist() == [4.2, 3]
    assert resample(AHEAD)[:, 0] == pytest.approx(np.arange(21) / 2)
    assert masses(AHEAD, 5)[:, 0] == pytest.approx([1, 3, 5, 7, 9])
    assert path_length(path((0, 0), (3, 4), (3, 10))) == 11


def test_warping_agrees_with_the_dtw_package():
    dtw = pytest.importorskip("dtw")
    for seed in range(10):
        flown, demonstrated = resample(wandering(seed)), resample(wandering(seed + 100, 12))
        theirs = dtw.dtw(flown, demonstrated, step_pattern="symmetric1", distance_only=True).distance
        assert warping_cost(flown, demonstrated) == is_near(theirs)


@pytest.mark.long
def test_transport_agrees_with_the_pot_package():
    ot = pytest.importorskip("ot")
    for seed in range(10):
        flown, demonstrated = masses(wandering(seed)), masses(wandering(seed + 100, 12))
        theirs = ot.emd2([], [], ot.dist(flown, demonstrated, "euclidean"))
        assert transport_cost(flown, demonstrated) == is_near(theirs)


@pytest.mark.long
def test_64_masses_are_enough():
    """The authors put a mass every two centimetres, more on the longer path; ours come within 2 cm of such."""
    ot = pytest.importorskip("ot")
    for seed in range(5):
        flown, demonstrated = wandering(seed, 18), wandering(seed + 100, 12)
        fine = ot.dist(resample(flown, 0.05), resample(demonstrated, 0.05), "euclidean")
        assert earth_movers_distance(flown, demonstrated) == pytest.approx(ot.emd2([], [], fine), abs=0.02)


def landmark(name, x=25.0, y=25.0, scale=1.0):
    return Landmark(name, x, y, LANDMARK_CLASSES[name].radius * scale)


def test_a_flight_collides_with_what_is_taller_than_it_flies():
    through = path((10, 25), (40, 25))
    assert count_collisions(through, obstacles(Layout((landmark("Beacon"),)))) == 1  # a lighthouse, 9.9 m
    assert count_collisions(through, obstacles(Layout((landmark("Well"),)))) == 0  # a well, 1 m
    assert count_collisions(through, obstacles(Layout((landmark("Well"),)), altitude=0.5)) == 1
    above_a_well = demonstrated_path(through, (landmark("Well"),))
    for altitude, hits in ((5.0, 0), (0.5, 1)):
        assert measure_flights([through], [True], [above_a_well], altitude=altitude).num_collisions.tolist() == [hits]
    # A golden cone of 4.7 m stays below the drone, one a tenth larger does not.
    assert count_collisions(through, obstacles(Layout((landmark("GoldCone"),)))) == 0
    assert count_collisions(through, obstacles(Layout((landmark("GoldCone", scale=1.1),)))) == 1


def test_an_entry_counts_once_however_long_the_stay_and_beside_is_not_inside():
    discs = obstacles(Layout((landmark("Beacon"),)))
    edge = solid_extent("Beacon")
    assert count_collisions(path((10, 25), (24, 25), (25, 25), (25, 25), (26, 25)), discs) == 1
    assert count_collisions(path((10, 25), (40, 25), (40, 30), (25, 30), (25, 25)), discs) == 2
    assert count_collisions(path((10, 25 + edge + 0.01), (40, 25 + edge + 0.01)), discs) == 0
    assert count_collisions(path((25, 25), (40, 25)), discs) == 0  # it began inside: nothing was flown into
    assert count_collisions(path((10, 10), (40, 10)), obstacles(Layout(()))) == 0


def test_demonstrated_paths_hit_nothing(meadow):
    demonstrations = [segment.demonstration for segment in meadow["dev"]]
    paths = [demonstration.path for demonstration in demonstrations]
    assert measure_flights(paths, [True] * len(paths), demonstrations).num_collisions.sum() == 0


@pytest.mark.long
def test_evaluation_does_without_scipy_and_viewers():
    """A machine that only trains and flies need not have them."""
    absent = ("scipy", "gymnasium", "tyro", "viser", "rerun", "ot", "dtw")
    program = f"import sys; sys.modules.update(dict.fromkeys({absent})); import pvn.evaluation.evaluate"
    subprocess.run([sys.executable, "-c", program], check=True)
