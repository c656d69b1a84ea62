"""Metrics on paths whose figures can be worked out by hand, intervals on data whose truth is known."""

import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from pvn.corpus.meadow.generator import sample_paragraph
from pvn.corpus.meadow.scene import solid_extent
from pvn.evaluation.intervals import (
    Bootstrap,
    Figure,
    bootstrap_difference,
    bootstrap_mean,
    bootstrap_median,
    bootstrap_ratio,
)
from pvn.evaluation.metrics import (
    count_collisions,
    coverage_weighted_length,
    earth_movers_distance,
    masses,
    measure,
    measure_log,
    normalised_dtw,
    obstacles,
    path_length,
    resample,
)
from pvn.evaluation.path_distances import transport_cost, warping_cost
from pvn.evaluation.summary import summarise
from pvn.rollout.flight import fly, simulator_for
from pvn.rollout.oracle import Oracle
from pvn.simulator.interface import SimulatorConfig
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Landmark, Layout
from pvn.world.task import Task

AHEAD = np.array([[0.0, 0.0], [10.0, 0.0]])
"""The demonstrated path of most tests: ten metres straight east."""


def path(*points):
    return np.array(points, float)


def measured(*points, has_stopped=True, demonstrated=AHEAD, landmarks=()):
    task = Task(Layout(landmarks), (*demonstrated[0], 0.0), demonstrated, "go on")
    return measure([path(*points)], [has_stopped], [task])


def wandering(seed, num_points=25):
    return np.random.default_rng(seed).normal(0, 1.5, (num_points, 2)).cumsum(axis=0)


def is_near(value):
    return pytest.approx(value, abs=1e-9)


# One flight


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
    assert found.ndtw[0] == is_near(1.0)  # what was flown is as good as ever
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


def test_spl_is_demonstrated_length_over_flown_length_and_no_bonus_for_short_cuts():
    assert measured((0, 0), (0, 5), (10, 5), (10, 0)).spl[0] == is_near(10 / 20)
    corner = path((0, 0), (0, 5), (10, 5), (10, 0))
    assert measured((0, 0), (10, 0), demonstrated=corner).spl[0] == is_near(1.0)


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
    tasks = [Task(Layout(()), (0, 0, 0), wandering(seed), "go on") for seed in range(5)]
    paths = [wandering(10 + seed, 5 + 4 * seed) for seed in range(5)]
    stops = [True, False, True, True, False]
    batch = measure(paths, stops, tasks)
    for flight in range(5):
        single = measure(paths[flight : flight + 1], stops[flight : flight + 1], tasks[flight : flight + 1])
        for name, value in vars(batch.select(np.arange(5) == flight)).items():
            assert value.tolist() == getattr(single, name).tolist(), name


def test_flights_that_cannot_be_measured_are_refused():
    task = Task(Layout(()), (0, 0, 0), AHEAD, "go on")
    with pytest.raises(ValueError, match="got 1 paths, 2 stops and 1 tasks"):
        measure([AHEAD], [True, True], [task])
    with pytest.raises(ValueError, match="path of flight 0: got shape"):
        measure([AHEAD * np.nan], [True], [task])


# Two paths


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


def test_transport_agrees_with_the_pot_package():
    ot = pytest.importorskip("ot")
    for seed in range(10):
        flown, demonstrated = masses(wandering(seed)), masses(wandering(seed + 100, 12))
        theirs = ot.emd2([], [], ot.dist(flown, demonstrated, "euclidean"))
        assert transport_cost(flown, demonstrated) == is_near(theirs)


def test_64_masses_are_enough():
    """The authors put a mass every two centimetres, more on the longer path; ours come within 2 cm of such."""
    ot = pytest.importorskip("ot")
    for seed in range(5):
        flown, demonstrated = wandering(seed, 18), wandering(seed + 100, 12)
        fine = ot.dist(resample(flown, 0.05), resample(demonstrated, 0.05), "euclidean")
        assert earth_movers_distance(flown, demonstrated) == pytest.approx(ot.emd2([], [], fine), abs=0.02)


# Collisions


def landmark(name, x=25.0, y=25.0, scale=1.0):
    return Landmark(name, x, y, LANDMARK_CLASSES[name].radius * scale)


def test_a_flight_collides_with_what_is_taller_than_it_flies():
    through = path((10, 25), (40, 25))
    assert count_collisions(through, obstacles(Layout((landmark("Beacon"),)))) == 1  # a lighthouse, 9.9 m
    assert count_collisions(through, obstacles(Layout((landmark("Well"),)))) == 0  # a well, 1 m
    assert count_collisions(through, obstacles(Layout((landmark("Well"),)), altitude=0.5)) == 1
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


def test_demonstrated_paths_hit_nothing():
    tasks = [segment.task for seed in range(5) for segment in sample_paragraph(seed)]
    assert measure([task.path for task in tasks], [True] * len(tasks), tasks).num_collisions.sum() == 0


# Intervals

QUICK = Bootstrap(num_resamples=1000)


def test_the_same_seed_gives_the_same_interval_to_the_bit():
    values = np.random.default_rng(0).normal(size=300)
    for statistic in (bootstrap_mean, bootstrap_median):
        assert statistic(values) == statistic(values)
        assert statistic(values) != statistic(values, bootstrap=Bootstrap(seed=1))


def test_intervals_of_rates_hold_the_truth_about_95_times_in_100():
    generator = np.random.default_rng(0)
    figures = [bootstrap_mean(generator.random(100) < 0.7, bootstrap=QUICK) for _ in range(400)]
    assert 0.92 < np.mean([figure.low <= 0.7 <= figure.high for figure in figures]) < 0.98


def test_flights_of_one_environment_are_not_independent_and_clusters_account_for_it():
    generator = np.random.default_rng(0)
    environments = np.repeat(np.arange(60), 5)
    covered = []
    for _ in range(200):
        values = (generator.random(60) < 0.7)[environments]  # all flights of an environment share its fate
        figures = [bootstrap_mean(values, clusters, QUICK) for clusters in (None, environments)]
        covered.append([figure.low <= 0.7 <= figure.high for figure in figures])
    by_flights, by_environments = np.mean(covered, axis=0)
    assert by_flights < 0.7 and 0.90 < by_environments < 0.98


def test_resampled_means_and_medians_are_those_of_the_drawn_flights():
    values = np.random.default_rng(1).exponential(size=12)
    environments = np.array([0, 0, 1, 2, 2, 2, 3, 4, 4, 5, 5, 5])
    drawn = np.random.default_rng(7).integers(6, size=(400, 6))
    samples = [np.concatenate([values[environments == unit] for unit in units]) for units in drawn]
    few = Bootstrap(num_resamples=400, seed=7)
    for ours, numpy in ((bootstrap_mean, np.mean), (bootstrap_median, np.median)):
        found = ours(values, environments, few)
        expected = np.quantile([numpy(sample) for sample in samples], [0.025, 0.975])
        assert [found.value, found.low, found.high] == pytest.approx([numpy(values), *expected])


def test_the_percentile_interval_is_scipys():
    stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(2).exponential(size=200)
    theirs = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=10_000, rng=0).confidence_interval
    ours = bootstrap_mean(values)
    assert [ours.low, ours.high] == pytest.approx([theirs.low, theirs.high], abs=0.01)


def test_a_paired_difference_is_narrower_than_two_intervals():
    generator = np.random.default_rng(0)
    hardness = generator.normal(size=150)
    one, other = hardness + generator.normal(0.2, 0.2, 150), hardness + generator.normal(0.0, 0.2, 150)
    paired = bootstrap_difference(one, other)
    apart = [bootstrap_mean(system) for system in (one, other)]
    assert paired.low > 0.1 and paired.high < 0.3
    assert apart[0].low < apart[1].high  # unpaired, the two intervals overlap
    assert paired.high - paired.low < min(figure.high - figure.low for figure in apart) / 2
    assert bootstrap_difference(one, one) == Figure(0.0, 0.0, 0.0)


def test_a_ratio_is_of_sums_not_of_flights():
    figure = bootstrap_ratio([1, 0, 0], [10, 10, 80])
    assert figure.value == is_near(1 / 100) and figure.low == 0 < figure.high
    assert bootstrap_ratio([0, 0], [0, 0]) == Figure(0.0, 0.0, 0.0)


def test_figures_of_nothing_are_refused():
    with pytest.raises(ValueError, match="got none, expected at least one"):
        bootstrap_mean([])
    with pytest.raises(ValueError, match="one for each flight"):
        bootstrap_mean([1.0, 2.0], clusters=[0])


# Summary


@pytest.fixture(scope="module")
def flown():
    """Segments of three fields, flown by the oracle."""
    segments = [replace(segment, environment=seed) for seed in range(3) for segment in sample_paragraph(seed)]
    tasks = [segment.task for segment in segments]
    log = fly(simulator_for(tasks, config=SimulatorConfig(quality="none")), tasks, Oracle())
    return segments, log


def test_metrics_of_a_log_are_those_the_log_knows_of_itself(flown):
    segments, log = flown
    tasks = [segment.task for segment in segments]
    found = measure_log(log, tasks)
    assert found.stop_distance == pytest.approx(log.goal_distance(tasks).numpy(), abs=1e-4)
    assert found.distance_flown == pytest.approx(log.distance_flown().numpy(), rel=1e-4)
    assert found.num_steps.tolist() == log.num_steps.tolist()
    # Even the oracle, which turns in a curve where the demonstration turns on the spot, is not at 1.
    assert found.is_success.all() and 0.8 < found.ndtw.mean() < 1


def test_a_summary_has_every_flight_in_its_groups(flown):
    segments, log = flown
    found = measure_log(log, [segment.task for segment in segments])
    summary = summarise("oracle", "dev", found, segments, QUICK)
    assert summary.overall.flights == len(segments) and summary.overall.environments == 3
    assert summary.overall.sr == Figure(100.0, 100.0, 100.0)
    assert summary.overall.mean_distance.value == is_near(found.stop_distance.mean())
    assert summary.overall.median_distance.value == is_near(np.median(found.stop_distance))
    per_100m = 100 * found.num_collisions.sum() / found.distance_flown.sum()
    assert summary.overall.collisions_per_100m.value == is_near(per_100m)
    assert summary.overall.success_by_radius[5.0] == summary.overall.sr
    assert sum(group.flights for group in (summary.seen, summary.unseen) if group) == len(segments)
    assert sum(group.flights for group in summary.by_length.values()) == len(segments)
    turning = [s for s in segments if any(text.startswith("turn") for text in s.annotation.manoeuvres)]
    assert summary.by_manoeuvre["turn"].flights == len(turning)


def test_a_summary_is_plain_json(flown):
    segments, log = flown
    found = measure_log(log, [segment.task for segment in segments])
    text = json.dumps(summarise("oracle", "dev", found, segments, QUICK).to_json(), allow_nan=False)
    summary = json.loads(text)
    keys = (
        "system split flights sr mean_distance median_distance osr spl ndtw sdtw cls emd semd loose_sr "
        "collisions_per_100m steps success_by_radius seen unseen by_manoeuvre by_length"
    )
    assert set(keys.split()) <= set(summary)
    assert set(summary["sr"]) == {"value", "low", "high"}
    assert [row["radius"] for row in summary["success_by_radius"]] == list(range(1, 11))


def test_segments_of_which_nothing_is_known_have_no_groups_but_length(flown):
    segments, log = flown
    bare = [replace(segment, annotation=None) for segment in segments]
    summary = summarise("oracle", "dev", measure_log(log, [s.task for s in bare]), bare, QUICK)
    assert summary.seen is None and summary.unseen is None and summary.by_manoeuvre == {}
    assert sum(group.flights for group in summary.by_length.values()) == len(bare)


def test_evaluation_does_without_scipy_and_viewers():
    absent = ("scipy", "gymnasium", "tyro", "viser", "rerun", "ot", "dtw")
    program = f"import sys; sys.modules.update(dict.fromkeys({absent})); import pvn.evaluation.summary"
    subprocess.run([sys.executable, "-c", program], check=True)
