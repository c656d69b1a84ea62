"""Fields, routes and tours: sampled by LANI's rules, written and read back, refused if impossible."""

import hashlib
import json
import math
from itertools import pairwise

import numpy as np
import pytest

from pvn.world.lakes import smooth_blocks
from pvn.world.lani import read_layout, read_route, write_layout, write_route
from pvn.world.layout import Landmark, Layout, sample_layout
from pvn.world.routes import sample_route, sample_tour
from pvn.world.task import Demonstration, Task


@pytest.mark.parametrize("seed", range(12))
def test_sampled_layouts_follow_lanis_rules(seed):
    layout = sample_layout(seed)
    marks = layout.landmarks
    assert 6 <= len(marks) <= 13
    assert len({mark.name for mark in marks}) == len(marks), "classes are drawn without replacement"
    for i, one in enumerate(marks):
        assert 4.5 <= one.x <= 45.5 and 4.5 <= one.y <= 45.5
        assert 1.0 <= one.scale <= 1.3 + 1e-3
        for other in marks[:i]:
            assert math.hypot(one.x - other.x, one.y - other.y) >= one.radius + other.radius + 3 - 1e-9


@pytest.mark.long
def test_all_counts_from_6_to_13_occur_and_most_fields_have_a_lake():
    layouts = [sample_layout(seed) for seed in range(80)]
    assert {len(layout.landmarks) for layout in layouts} == set(range(6, 14))
    assert np.mean([layout.lake.any() for layout in layouts]) > 0.8


def lakes_of(layout):
    """Number of connected waters, by flooding."""
    dry, count = ~layout.lake, 0
    while not dry.all():
        waiting, count = [tuple(np.argwhere(~dry)[0])], count + 1
        while waiting:
            x, y = waiting.pop()
            if 0 <= x < 100 and 0 <= y < 100 and not dry[x, y]:
                dry[x, y] = True
                waiting += [(x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)]
    return count


@pytest.mark.long
def test_fields_have_up_to_three_lakes_that_spare_the_landmarks():
    counts = []
    for seed in range(60):
        layout = sample_layout(seed, num_landmarks=6)
        counts.append(lakes_of(layout))
        for mark in layout.landmarks:
            assert not layout.lake[int(2 * mark.x), int(2 * mark.y)]
    assert {1, 2, 3} <= set(counts) <= {0, 1, 2, 3}


def test_one_to_three_lakes_cover_a_quarter_of_an_empty_field():
    share = np.mean([sample_layout(seed, num_landmarks=0).lake.mean() for seed in range(100)])
    assert 0.20 < share < 0.28, "always one lake would cover 14%, always three 32%"


def test_a_seed_gives_the_same_field_in_every_version():
    """Corpora, and the natural instructions in the package, are about fields that only their seeds describe."""
    digest = hashlib.sha256()
    for seed in range(40):
        layout = sample_layout(seed)
        rounded = [
            (mark.name, *(round(value, 6) for value in (mark.x, mark.y, mark.radius, mark.yaw)))
            for mark in layout.landmarks
        ]
        digest.update(json.dumps(rounded).encode() + np.packbits(layout.lake).tobytes())
    assert digest.hexdigest()[:16] == "e6e06419fe57b431"


def test_blurring_blocks_is_blurring_their_cells():
    coarse = (np.random.default_rng(0).random((10, 10)) > 0.7).astype(float)
    cells = coarse.repeat(10, 0).repeat(10, 1)
    blurred = smooth_blocks(coarse, 10, 6.5)
    assert np.array_equal(blurred, smooth_blocks(cells, 1, 6.5))
    off = np.arange(-99, 200)
    weight = np.exp(-0.5 * ((off[:, None] - np.arange(100)) / 6.5) ** 2)  # (299, 100), edges repeated outwards
    by_hand = (
        (weight.T / weight.sum(0)[:, None]) @ cells[off.clip(0, 99)][:, off.clip(0, 99)] @ (weight / weight.sum(0))
    )
    assert np.abs(blurred - by_hand).max() < 2e-4, "the blur is cut off at four standard deviations"


def test_the_same_seed_gives_the_same_layout_and_another_seed_another():
    assert sample_layout(5) == sample_layout(5)
    assert sample_layout(5) != sample_layout(6)


@pytest.mark.parametrize("seed", range(5))
def test_a_layout_written_and_read_is_the_same_to_the_bit(tmp_path, seed):
    layout = sample_layout(seed)
    path = tmp_path / f"random_config_{seed}.json"
    write_layout(layout, path)
    assert read_layout(path) == layout
    assert list(tmp_path.iterdir()) == [path], "no temporary file stays behind"


LANI_SAMPLE = {
    "landmarkName": ["Barrel", "House", "Well"],
    "radius": [81.3, 140.0, 101.2],
    "xPos": [240, 610, 700],
    "zPos": [740, 300, 820],
    "isEnabled": [True, True, False],
    "lakeCoords": [{"x": 41, "y": 55}, {"x": 41, "y": 56}],
}


def written(tmp_path, content):
    path = tmp_path / "random_config_12.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_arbitrary_places_are_read_back_to_the_last_digit(tmp_path):
    generator = np.random.default_rng(0)
    places = 5 + 8 * np.arange(5) + generator.random(5)
    marks = [Landmark("Box", float(x), 45 * generator.random(), 4 + generator.random()) for x in places]
    write_layout(Layout(tuple(marks)), tmp_path / "random_config_1.json")
    for mark, back in zip(marks, read_layout(tmp_path / "random_config_1.json").landmarks, strict=True):
        assert (back.x, back.y, back.radius) == pytest.approx((mark.x, mark.y, mark.radius), rel=1e-15, abs=0)


def test_a_file_with_a_byte_order_mark_is_read(tmp_path):
    path = tmp_path / "random_config_12.json"
    path.write_text(json.dumps(LANI_SAMPLE), encoding="utf-8-sig")
    assert len(read_layout(path).landmarks) == 2


def test_a_lani_file_is_read_in_metres(tmp_path):
    layout = read_layout(written(tmp_path, LANI_SAMPLE))
    barrel, house = layout.landmarks  # the well is not enabled
    assert (barrel.name, barrel.x, barrel.y) == ("Barrel", pytest.approx(12.0), pytest.approx(37.0))
    assert house.radius == pytest.approx(7.0)
    assert layout.lake.sum() == 2 and layout.lake[41, 55] and layout.lake[41, 56]


def test_a_lani_file_without_headings_always_gives_the_same_ones(tmp_path):
    path = written(tmp_path, LANI_SAMPLE)
    assert read_layout(path) == read_layout(path)
    barrel, house = read_layout(path).landmarks
    assert barrel.yaw != house.yaw


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ('{"landmarkName": ["Bar', "not valid JSON.*truncated"),
        ("[]", "expected an object"),
        ({"xPos": [240, 610]}, "xPos: got 2 values, expected a list of 3"),
        ({"xPos": [240, 610, "7"]}, "xPos"),
        ({"radius": None}, "radius: got None"),
        ({"landmarkName": ["Barrel", "House", "Whell"]}, None),  # not enabled, so not an error
        ({"landmarkName": ["Barel", "House", "Well"]}, "'Barel'.*did you mean.*Barrel"),
        ({"xPos": [1240, 610, 700]}, "outside the field.*62"),
        ({"xPos": [610, 610, 700], "zPos": [310, 300, 820]}, "House overlaps Barrel"),
        ({"lakeCoords": [{"x": 100, "y": 3}]}, "lakeCoords.*0 to 99"),
        ({"lakeCoords": [{"x": 1.5, "y": 3}]}, "lakeCoords"),
        ({"lakeCoords": [{"x": True, "y": 3}]}, "lakeCoords"),
        ({"xPos": [10**400, 610, 700]}, "xPos: got numbers over"),
        ({"radius": [3.75, 6.25, 4.75]}, "units of 0.05 m"),
        ("[" * 5000, "not valid JSON"),
        ('{"landmarkName": ["Box"], "radius": [75], "xPos": [NaN], "zPos": [5]}', "finite"),
    ],
)
def test_a_bad_environment_file_is_refused_with_its_name_and_the_reason(tmp_path, change, message):
    content = change if isinstance(change, str) else LANI_SAMPLE | change
    path = written(tmp_path, content)
    if message is None:
        read_layout(path)
        return
    with pytest.raises(ValueError, match=message) as error:
        read_layout(path)
    assert path.name in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"random_config_7\.json"):
        read_layout(tmp_path / "random_config_7.json")


def test_a_failed_write_leaves_the_old_file_whole(tmp_path, monkeypatch):
    path = tmp_path / "random_config_1.json"
    write_layout(sample_layout(1), path)
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *names: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_layout(sample_layout(2), path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("landmarks", "message"),
    [
        ([("Box", 51, 10, 4)], "outside the field"),
        ([("Box", math.nan, 10, 4)], "finite"),
        ([("Box", 10, 10, math.inf)], "finite"),
        ([("Box", 10, 10, 0)], "got radius 0 m, expected 1.875 to 11.25 m"),
        ([("Box", 10, 10, 4), ("Apple", 12, 10, 4)], "Apple overlaps Box.*2.00 m apart.*4.00 m"),
        ([("Bocks", 10, 10, 4)], "did you mean"),
    ],
)
def test_impossible_landmarks_are_refused(landmarks, message):
    with pytest.raises(ValueError, match=message):
        Layout(tuple(Landmark(*landmark) for landmark in landmarks))


def test_more_landmarks_than_the_sun_grid_can_name_are_refused():
    marks = tuple(Landmark("Box", 3 + 6 * (i % 8), 3 + 6 * (i // 8), 4) for i in range(33))
    with pytest.raises(ValueError, match="got 33, expected at most 32"):
        Layout(marks)


@pytest.mark.parametrize("seed", range(6))
def test_routes_stay_in_the_field_and_out_of_the_solids(seed):
    layout = sample_layout(seed)
    route = sample_route(seed, layout)
    assert route is not None
    assert (route.points >= 0).all() and (route.points <= 50).all()
    for mark in layout.landmarks:
        # A solid reaches half of its clearance radius; a route may shave the rest of it.
        assert np.hypot(*(route.points - [mark.x, mark.y]).T).min() > 0.5 * mark.radius
    for stop, visited in zip(route.stops[1:], route.visited[1:], strict=True):
        mark = layout.landmarks[visited]
        assert np.hypot(*(route.points[stop] - [mark.x, mark.y])) < mark.radius + 3


def test_a_route_written_and_read_is_the_same(tmp_path):
    route = sample_route(0, sample_layout(0))
    write_route(route.points, tmp_path / "random_curve_0.json")
    assert np.allclose(read_route(tmp_path / "random_curve_0.json"), route.points, atol=1e-9)


def test_a_route_file_of_unequal_lengths_is_refused(tmp_path):
    path = tmp_path / "random_curve_3.json"
    path.write_text('{"x_array": [1, 2, 3], "z_array": [1, 2]}')
    with pytest.raises(ValueError, match="z_array: got 2 values, expected a list of 3"):
        read_route(path)


def test_a_demonstration_of_a_tour_starts_where_the_one_before_ends():
    for before, after in pairwise(sample_tour(3)):
        assert before.goal == pytest.approx(after.task.start[:2])
        assert before.task.layout is after.task.layout


def test_a_task_says_nothing_about_its_path():
    demonstration = sample_tour(3)[0]
    assert set(vars(demonstration.task)) == {"layout", "start", "instruction"}
    assert demonstration.goal == tuple(demonstration.path[-1])


def test_a_field_without_room_for_a_route_is_refused_with_the_reason():
    with pytest.raises(ValueError, match=r"no route through this field.*got 1 landmarks"):
        sample_tour(0, Layout((Landmark("Box", 25, 25, 4),)))


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError, match="seed: got -1, expected 0 or more"):
        sample_layout(-1)


@pytest.mark.parametrize("path", [np.zeros((1, 2)), np.zeros((4, 3)), np.array([[0, 0], [1, np.nan]])])
def test_impossible_paths_are_refused(path):
    task = Task(sample_layout(0), (1.0, 1.0, 0.0), "go")
    with pytest.raises(ValueError, match="path: got .*expected"):
        Demonstration(task, path)


def test_a_start_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="start: got .*expected finite numbers"):
        Task(sample_layout(0), (1.0, math.nan, 0.0), "go")
