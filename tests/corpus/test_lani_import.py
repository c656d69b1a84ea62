"""LANI's files, in both public layouts, become one corpus; what cannot be used is reported with the reason."""

import gzip
import json
import math
import re
import shutil
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pvn.corpus.lani_import import import_lani

FIELD = {
    "landmarkName": ["Barrel", "House", "Well"],
    "radius": [81.3, 140.0, 101.2],
    "xPos": [240, 610, 700],
    "zPos": [740, 300, 820],
    "isEnabled": [True, True, True],
    "lakeCoords": [{"x": 41, "y": 55}, {"x": 41, "y": 56}],
}
# The person turned in place at (370, 740).
ROUTE = {
    "x_array": [250.0, 280.0, 310.0, 340.0, 370.0, 370.0, 370.0, 396.0, 422.0, 448.0],
    "z_array": [740.0, 740.0, 740.0, 740.0, 740.0, 740.0, 740.0, 755.0, 770.0, 785.0],
}
RECORD = {
    "id": "12",
    "config_file": "configs/random_config_12.json",
    "path_file": "paths/random_curve_12.json",
    "instructions_file": "instructions/instructions_12.txt",
    "valid": True,
    "instructions": ["head for the barrel .", "turn left and stop by the lake ."],
    "moves": ["FFFF", "LLFFF"],
    "num_tokens": [5, 8],
    "start_x": [237.5, 243.5],
    "start_z": [262.0, 262.0],
    "start_rot": [90, 90],
    "end_x": [243.5, 247.4],
    "end_z": [262.0, 264.25],
    "end_rot": [90, 60],
}
POSITIONS = ("start_x", "start_z", "end_x", "end_z")


def numbered(environment):
    """The sample record under another id."""
    return RECORD | {
        "id": environment,
        "config_file": f"configs/random_config_{environment}.json",
        "path_file": f"paths/random_curve_{environment}.json",
    }


def in_config_units(record):
    return record | {key: [(value - 225) * 20 for value in record[key]] for key in POSITIONS}


def changed(record, key, row, value):
    """The record with one entry of one list changed."""
    values = list(record[key])
    values[row] = value
    return record | {key: values}


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def put_environment(folder, environment, field=FIELD, route=ROUTE):
    put(folder / "configs" / f"random_config_{environment}.json", field)
    put(folder / "paths" / f"random_curve_{environment}.json", route)


def write_drif(root, release="6000", environments=(12,), **records):
    """A drif data folder; each split's records become its annotation file."""
    for split, content in records.items():
        put(root / "configs" / f"{split}_annotations_{release}.json", content)
    for environment in environments:
        put_environment(root / "configs", environment)
    return root


def write_ciff(root, release="6000", environments=(12,), resources="data/nav_drone/resources", **records):
    """A CIFF repository; its environments lie in the folder that its experiment's configuration names."""
    folder = root / "data" / "nav_drone"
    for split, content in records.items():
        put(folder / f"{split}_annotations_{release}.json", content)
    put(folder / f"config_localmoves_{release}.json", {"port": 11000, "resources_dir": resources})
    for environment in environments:
        put_environment(root / resources, environment)
    return root


WRITERS = {"drif": write_drif, "ciff": write_ciff}


def reasons(result):
    return [refusal.reason for refusal in result.refusals]


def assert_is_sample(result):
    """The expected parse of the sample: points 0 to 4 and 4 to 9 of the route, metres."""
    first, second = result.corpus["train"]
    assert [first.id, second.id] == ["12-0", "12-1"] and result.refusals == ()
    assert first.task.instruction == "head for the barrel ." and first.annotation is None
    assert first.task.start == pytest.approx((12.5, 37.0, 0.0))
    assert first.demonstration.path == pytest.approx(np.array([[12.5, 37], [14, 37], [15.5, 37], [17, 37], [18.5, 37]]))
    assert second.task.instruction == "turn left and stop by the lake ."
    assert second.task.start == pytest.approx((18.5, 37.0, 0.0))
    assert second.demonstration.path == pytest.approx(
        np.array([[18.5, 37], [19.8, 37.75], [21.1, 38.5], [22.4, 39.25]])
    )
    assert second.demonstration.goal == pytest.approx((22.4, 39.25))
    assert first.task.layout is second.task.layout and first.task.layout.landmarks[0].x == pytest.approx(12.0)


# Both layouts


@pytest.mark.parametrize("layout", WRITERS)
def test_the_sample_is_parsed_as_expected_from_either_layout(tmp_path, layout):
    result = import_lani(WRITERS[layout](tmp_path, train=[RECORD]))
    assert_is_sample(result)
    assert result.layout == layout and result.num_records == 1 and result.repairs == ()
    assert [file.name for file in result.files] == ["train_annotations_6000.json"]


@pytest.mark.parametrize(
    ("layout", "given"),
    [("drif", "configs"), ("ciff", "data/nav_drone"), ("drif", "configs/train_annotations_6000.json")],
)
def test_folder_and_file_of_the_annotations_may_be_given_too(tmp_path, layout, given):
    result = import_lani(str(WRITERS[layout](tmp_path, train=[RECORD]) / given))
    assert_is_sample(result)
    assert result.layout == layout


@pytest.mark.parametrize("resources", ["data/nav_drone/resources", "data/nav_drone"])
def test_without_a_configuration_environments_lie_in_resources_or_beside_the_annotations(tmp_path, resources):
    write_ciff(tmp_path, train=[RECORD], resources=resources)
    (tmp_path / "data" / "nav_drone" / "config_localmoves_6000.json").unlink()
    assert_is_sample(import_lani(tmp_path))


def test_a_link_to_the_data_is_followed(tmp_path):
    written = write_ciff(tmp_path / "written", resources="environments", train=[RECORD])
    elsewhere = shutil.move(written / "data" / "nav_drone", tmp_path / "elsewhere")
    (written / "data" / "nav_drone").symlink_to(elsewhere)
    assert_is_sample(import_lani(written))


@pytest.mark.parametrize("suffix", ["json.zip", "tar.gz", "gz"])
def test_other_archives_have_to_be_unpacked(tmp_path, suffix):
    write_drif(tmp_path, train=[RECORD])
    archive = put(tmp_path / "configs" / f"dev_annotations_6000.{suffix}", "")
    with pytest.raises(ValueError, match=f"{archive.name}: got an archive, expected dev_annotations_6000.json; unpack"):
        import_lani(tmp_path)
    put(tmp_path / "configs" / "dev_annotations_6000.json", [])
    assert len(import_lani(tmp_path).corpus) == 2, "unpacked already"


def test_a_drif_file_of_all_splits_is_read(tmp_path):
    splits = {"train": [RECORD], "dev": [numbered("7")], "valid": [numbered("8")]}
    put(tmp_path / "configs" / "annotation_results.json", splits)
    for environment in (12, 7):
        put_environment(tmp_path / "configs", environment)
    result = import_lani(tmp_path)
    assert [segment.id for segment in result.corpus["train"]] == ["12-0", "12-1"] and result.corpus.name == "lani"
    assert [segment.id for segment in result.corpus["dev"]] == ["7-0", "7-1"] and "test" not in result.corpus.splits
    (refusal,) = result.refusals
    assert (refusal.record, refusal.kind) == ("annotation_results.json, valid", "unknown split")


def test_annotations_packed_by_gzip_are_read(tmp_path):
    write_drif(tmp_path, environments=(12, 7), train=[RECORD], dev=[numbered("7")])
    dev = tmp_path / "configs" / "dev_annotations_6000.json"
    packed = dev.with_name(dev.name + ".gz")
    packed.write_bytes(gzip.compress(dev.read_bytes()))
    assert import_lani(tmp_path).files[1] == dev, "the file itself comes first"
    dev.unlink()
    assert import_lani(tmp_path).files[1] == packed and len(import_lani(tmp_path).corpus["dev"]) == 2
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"dev_annotations_6000.json.gz: not valid JSON .*truncated"):
        import_lani(tmp_path)


def test_the_latest_release_is_read_and_the_others_are_named(tmp_path):
    root = write_drif(tmp_path, release="6000", train=[RECORD], dev=[numbered("7")], environments=(12, 7))
    write_drif(tmp_path, release="10000", train=[numbered("7")], environments=())
    put(root / "configs" / "annotation_results.json", {"train": []})
    result = import_lani(root)
    assert [segment.environment for segment in result.corpus] == [7, 7] and result.corpus.name == "lani-10000"
    assert [file.name for file in result.files] == ["train_annotations_10000.json"]
    assert {file.name for file in result.left_out} == {
        "train_annotations_6000.json",
        "dev_annotations_6000.json",
        "annotation_results.json",
    }


def test_the_path_of_an_annotation_file_chooses_its_release(tmp_path):
    root = write_ciff(tmp_path, release="4000", train=[RECORD], dev=[numbered("7")], environments=(12, 7))
    write_ciff(tmp_path, release="6000", train=[numbered("7")])
    result = import_lani(root / "data" / "nav_drone" / "dev_annotations_4000.json")
    assert [segment.id for segment in result.corpus] == ["12-0", "12-1", "7-0", "7-1"]
    assert result.corpus.name == "lani-4000"
    assert [file.name for file in result.left_out] == ["train_annotations_6000.json"]
    with pytest.raises(ValueError, match=r"config_localmoves_6000\.json: not an annotation file by its name"):
        import_lani(root / "data" / "nav_drone" / "config_localmoves_6000.json")


def test_in_drif_the_path_a_person_flew_takes_precedence_over_the_path_shown(tmp_path):
    flown = {"x_array": [x + 4.0 for x in ROUTE["x_array"]], "z_array": ROUTE["z_array"]}
    drif = write_drif(tmp_path / "drif", environments=(12, 7), train=[RECORD, numbered("7")])
    put(drif / "configs" / "anno_paths" / "anno_curve_12.json", flown)
    seven, _, twelve, _ = import_lani(drif).corpus
    assert (seven.demonstration.goal, twelve.demonstration.goal) == (
        pytest.approx((18.5, 37)),
        pytest.approx((18.7, 37)),
    )
    ciff = write_ciff(tmp_path / "ciff", train=[RECORD])
    put(ciff / "data/nav_drone/resources/anno_paths/anno_curve_12.json", flown)
    assert_is_sample(import_lani(ciff))


def test_environments_of_an_experiment_made_on_another_machine_are_sought_beside_the_annotations(tmp_path):
    root = write_ciff(tmp_path, train=[RECORD], environments=())
    put(root / "data" / "nav_drone" / "config_localmoves_6000.json", {"resources_dir": "/home/nobody/resources"})
    put_environment(root / "data" / "nav_drone", 12)
    result = import_lani(root)
    assert_is_sample(result)
    assert "resources_dir: no folder /home/nobody/resources" in result.repairs[0].reason


# Units


def ciff_synthetic(root, record_change=None, route_change=None):
    """CIFF's synthetic set: ids as numbers, no moves, the path file in Unity units."""
    start, goal = (231.4, 240.9), (239.0, 251.5)
    points = [start, *[(start[0], start[1] + 1.0)] * 3, goal]
    record = {
        "id": 3,
        "config_file": "synthetic_map_files/map_3.json",
        "path_file": "synthetic_path_files/path_3.json",
        "valid": True,
        "instructions": ["go to the left side of barrel"],
        "symbolic_instruction": ["Barrel", "left"],
        "moves": [""],
        "start_x": [start[0]],
        "start_z": [start[1]],
        "start_rot": [0],
        "end_x": [goal[0]],
        "end_z": [goal[1]],
        "end_rot": [0],
    }
    folder = root / "data" / "nav_drone"
    put(folder / "synthetic_v2_10k_train.json", [record | (record_change or {})])
    put(folder / "synthetic_map_files" / "map_3.json", FIELD)
    route = {"x_array": [x for x, _ in points], "z_array": [z for _, z in points]}
    put(folder / "synthetic_path_files" / "path_3.json", route | (route_change or {}))
    return root


def test_ciffs_synthetic_records_and_paths_are_in_unity_units(tmp_path):
    result = import_lani(ciff_synthetic(tmp_path))
    (segment,) = result.corpus
    assert segment.id == "3-0" and result.layout == "ciff" and result.repairs == ()
    assert segment.task.start == pytest.approx((6.4, 15.9, math.pi / 2))
    assert segment.demonstration.path == pytest.approx(np.array([[6.4, 15.9], [6.4, 16.9], [14.0, 26.5]]))
    assert result.corpus.name == "lani-synthetic_v2_10k"


def test_human_annotations_come_before_synthetic_ones_of_the_same_environments(tmp_path):
    write_ciff(tmp_path, train=[RECORD], resources="data/nav_drone")
    ciff_synthetic(tmp_path)
    result = import_lani(tmp_path)
    assert_is_sample(result)
    assert [file.name for file in result.left_out] == ["synthetic_v2_10k_train.json"]
    chosen = import_lani(tmp_path / "data" / "nav_drone" / "synthetic_v2_10k_train.json")
    assert [segment.id for segment in chosen.corpus] == ["3-0"]


def test_drifs_synthetic_records_are_in_config_units(tmp_path):
    one_leg = {key: RECORD[key][:1] for key in ("instructions", "start_rot", "end_rot", *POSITIONS)}
    record = in_config_units(RECORD | one_leg | {"moves": []})
    assert record["start_x"] == [250.0]
    put(tmp_path / "configs" / "annotation_results.json", {"train": [record], "dev": [], "test": []})
    put_environment(tmp_path / "configs", 12)
    result = import_lani(tmp_path)
    (segment,) = result.corpus
    assert segment.task.start == pytest.approx((12.5, 37.0, 0.0)) and segment.demonstration.goal == pytest.approx(
        (18.5, 37.0)
    )
    assert result.repairs == () and result.refusals == ()


@pytest.mark.parametrize(
    ("record", "repair"),
    [
        (RECORD | {"moves": []}, "read as Unity"),
        ({key: value for key, value in RECORD.items() if key != "moves"}, "read as Unity"),
        (in_config_units(RECORD), "read as config"),
    ],
)
def test_where_moves_and_range_disagree_the_range_decides_and_it_is_reported(tmp_path, record, repair):
    result = import_lani(write_drif(tmp_path, train=[record]))
    assert_is_sample(result)
    (repaired,) = result.repairs
    assert repaired.record == "train_annotations_6000.json, environment 12"
    assert repaired.reason.endswith(f"{repair} units")


@pytest.mark.parametrize("record", [RECORD, in_config_units(RECORD) | {"moves": []}])
def test_one_slip_in_a_record_does_not_change_its_units(tmp_path, record):
    slipped = changed(record, "start_x", 0, 2000)
    result = import_lani(write_drif(tmp_path, train=[slipped]))
    assert result.repairs == () and [segment.id for segment in result.corpus] == ["12-1"]
    assert "outside the field: start" in reasons(result)[0]


def test_a_path_that_would_fit_both_units_is_read_as_the_one_its_paragraph_starts_on(tmp_path):
    route = {"x_array": [230.0, 240.0, 250.0], "z_array": [250.0, 250.0, 250.0]}  # 1 m in config units, 20 m in Unity's
    metres = {"x": (11.5, 12.5), "z": (12.5, 12.5)}
    record = RECORD | {"instructions": ["go"], "moves": ["F"], "start_rot": [90]}
    near = {
        f"{side}_{axis}": [225 + metres[axis][index]] for axis in "xz" for index, side in enumerate(["start", "end"])
    }
    wide = {"start_x": [230.0], "end_x": [250.0], "start_z": [250.0], "end_z": [250.0]}
    for folder, positions, path in (("near", near, [11.5, 12.0, 12.5]), ("wide", wide, [5.0, 15.0, 25.0])):
        root = write_drif(tmp_path / folder, train=[record | positions], environments=())
        put_environment(root / "configs", 12, route=route)
        (segment,) = import_lani(root).corpus
        assert segment.demonstration.path[:, 0] == pytest.approx(np.array(path))


@pytest.mark.parametrize(("rot", "yaw"), [(0, 90), (90, 0), (110, -20), (180, -90), (350, 100), (-90, 180), (720, 90)])
def test_headings_turn_from_clockwise_from_north_to_counter_clockwise_from_east(tmp_path, rot, yaw):
    result = import_lani(write_drif(tmp_path, train=[RECORD | {"start_rot": [rot, rot]}]))
    found = result.corpus["train"][0].task.start[2]
    assert math.cos(found) == pytest.approx(math.cos(math.radians(yaw)))
    assert math.sin(found) == pytest.approx(math.sin(math.radians(yaw)))
    assert -math.pi <= found <= math.pi


# Awkward but usable


def test_a_field_without_lakes_and_a_record_without_end_headings_are_fine(tmp_path):
    record = {key: value for key, value in RECORD.items() if key not in ("end_rot", "num_tokens", "valid")}
    root = write_drif(tmp_path, train=[record], environments=())
    dry = {key: value for key, value in FIELD.items() if key != "lakeCoords"}
    put_environment(root / "configs", 12, field=dry)
    result = import_lani(root)
    assert_is_sample(result)
    assert not result.corpus["train"][0].task.layout.lake.any()


def test_a_paragraphs_records_are_numbered_on_and_stand_together_sorted(tmp_path):
    records = [RECORD, numbered(7), changed(RECORD, "instructions", 0, "")]
    result = import_lani(write_drif(tmp_path, environments=(12, 7), train=records))
    assert [segment.id for segment in result.corpus] == ["7-0", "7-1", "12-0", "12-1", "12-3"]
    assert result.refusals[0].record == "train_annotations_6000.json, environment 12, segment 2"
    assert len({id(segment.task.layout) for segment in result.corpus}) == 2, "one field, one object"


def route_of(points):
    return {"x_array": [x for x, _ in points], "z_array": [z for _, z in points]}


def record_along(points, stops, moves):
    """A record whose segments start and end at these points of a route, config units."""
    unity = [(225 + 0.05 * x, 225 + 0.05 * z) for x, z in points]
    starts, ends = [unity[stop] for stop in stops[:-1]], [unity[stop] for stop in stops[1:]]
    return RECORD | {
        "instructions": [f"do {number}" for number in range(len(starts))],
        "moves": moves,
        "start_x": [x for x, _ in starts],
        "start_z": [z for _, z in starts],
        "start_rot": [0] * len(starts),
        "end_x": [x for x, _ in ends],
        "end_z": [z for _, z in ends],
    }


def import_along(root, points, stops, moves):
    write_drif(root, train=[record_along(points, stops, moves)], environments=())
    put_environment(root / "configs", 12, route=route_of(points))
    return import_lani(root)


# Forward, once round a square, and on: points 2 and 10 are the same place.
ROUND = [(100, 500), (140, 500), (180, 500), (220, 500), (260, 500), (260, 540), (260, 580), (220, 580), (180, 580)]
ROUND += [(180, 540), (180, 500), (180, 460), (180, 420)]


def test_a_segment_that_only_turns_leaves_the_round_to_the_next(tmp_path):
    record = record_along(ROUND, [0, 2, 10, 12], ["FF", "F", "FF"])
    turn = {
        key: [values[0], values[1], *values[1:]] for key, values in record.items() if key.startswith(("start", "inst"))
    }
    turn |= {key: [values[0], values[0], *values[1:]] for key, values in record.items() if key.startswith("end")}
    write_drif(tmp_path, train=[record | turn | {"moves": ["FF", "LLL", "F", "FF"]}], environments=())
    put_environment(tmp_path / "configs", 12, route=route_of(ROUND))
    result = import_lani(tmp_path)
    assert {segment.place: len(segment.demonstration.path) for segment in result.corpus} == {0: 3, 2: 9, 3: 3}
    assert reasons(result) == ["fewer than 2 path steps: got 0; the authors skip such segments"]


def test_the_goal_is_the_paths_point_or_where_the_person_stopped(tmp_path):
    root = write_drif(tmp_path, train=[changed(RECORD, "end_z", 1, 266.25)])
    for goal, y in (("path", 39.25), ("person", 41.25)):
        segment = import_lani(root, goal=goal).corpus.segment("12-1")
        assert segment.demonstration.goal == pytest.approx((22.4, y))


def test_distances_of_stops_from_the_path_are_returned_and_have_a_limit(tmp_path):
    root = write_drif(tmp_path, train=[changed(RECORD, "end_z", 1, 266.25)])
    assert import_lani(root).offsets == pytest.approx([0.0, 2.0])
    assert reasons(import_lani(root, max_offset=1.5)) == [
        "end far from the path: got 2.00 m from its point, expected at most 1.5 m"
    ]
    with pytest.raises(ValueError, match="max_offset: got 0, expected metres, more than 0"):
        import_lani(root, max_offset=0)


def test_turning_in_place_counts_as_path_steps_but_leaves_no_duplicates(tmp_path):
    points = [(100, 500), (140, 500), (180, 500), (180, 500), (180, 500), (180.001, 500), (180, 540)]
    result = import_along(tmp_path, points, [0, 2, 6], ["FF", "LLLF"])
    assert [len(segment.demonstration.path) for segment in result.corpus] == [3, 2]
    for segment in result.corpus:
        assert (np.hypot(*np.diff(segment.demonstration.path, axis=0).T) > 0.01).all()


# Refused, the others going on


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (RECORD | {"valid": False}, "marked as not valid: valid: got False, expected true"),
        (RECORD | {"id": "scene_12"}, "no environment number: id: got 'scene_12', expected a number"),
        (RECORD | {"id": True}, "no environment number: id: got True"),
        (RECORD | {"id": "\N{SUPERSCRIPT TWO}"}, "no environment number"),
        (RECORD | {"id": "99"}, "no environment file: no file .*random_config_99.json"),
        (RECORD | {"start_x": [237.5]}, "lists of unequal length: start_x: got 1 values, expected 2"),
        (RECORD | {"moves": ["FFFF"]}, "lists of unequal length: moves"),
        (RECORD | {"moves": [4, 5]}, "moves are not text"),
        (RECORD | {"start_rot": None}, "missing list: start_rot: got None, expected a list of 2"),
        (RECORD | {"instructions": []}, r"no instructions: instructions: got \[\]"),
        ([RECORD], "not an object: got a JSON list"),
    ],
)
@pytest.mark.parametrize("layout", WRITERS)
def test_a_record_that_cannot_be_used_is_reported_and_the_others_go_on(tmp_path, layout, record, reason):
    if layout == "ciff" and isinstance(record, dict):
        record = record | {"config_file": f"configs/random_config_{record['id']}.json"}
    root = WRITERS[layout](tmp_path, environments=(12, 7), train=[record, numbered("7")])
    result = import_lani(root)
    assert [segment.id for segment in result.corpus] == ["7-0", "7-1"] and result.num_records == 2
    (refusal,) = result.refusals
    assert refusal.record.startswith("train_annotations_6000.json, ")
    assert refusal.record.endswith(("environment 12", "record 0", "environment 99"))
    assert re.match(reason, refusal.reason), refusal.reason
    assert refusal.reason.startswith(refusal.kind) and result.count_refusals() == [(refusal.kind, 1)]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("instructions", "", "empty instruction: got ''"),
        ("instructions", " . \n", "empty instruction"),
        ("instructions", None, "instruction is not text: got None"),
        ("instructions", "go \ud800", "instruction is not text: .*half a character"),
        ("start_x", math.nan, "coordinates that are not numbers: start x, .*got nan, 37, 0"),
        ("end_z", math.inf, "coordinates that are not numbers"),
        ("start_rot", -math.inf, "coordinates that are not numbers"),
        ("start_rot", "90", "coordinates that are not numbers: .*nan"),
        ("end_x", True, "coordinates that are not numbers"),
        ("end_x", 10**400, "coordinates that are not numbers"),
        ("start_z", 276.01, r"outside the field: start: got \(12.50, 51.01\) m, expected at most 1 m outside 0 to 50"),
        ("end_x", 223.9, r"outside the field: end: got \(-1.10, 37.00\)"),
        ("start_z", 256.99, "start far from the path: got 5.01 m from its point, expected at most 5 m"),
        ("end_z", 256.99, "end far from the path: got 5.01 m"),
    ],
)
def test_a_segment_that_cannot_be_used_is_reported_and_the_next_one_goes_on(tmp_path, key, value, reason):
    result = import_lani(write_drif(tmp_path, train=[changed(RECORD, key, 0, value)]))
    (segment,) = result.corpus
    (refusal,) = result.refusals
    assert refusal.record == "train_annotations_6000.json, environment 12, segment 0"
    assert re.match(reason, refusal.reason), refusal.reason
    assert segment.id == "12-1" and segment.demonstration.goal == pytest.approx((22.4, 39.25))
    assert segment.demonstration.path[0] == pytest.approx((18.5, 37.0)), "it begins at its own start"


@pytest.mark.parametrize(("short_end", "num_used"), [(239.0, 1), (239.8, 2)])
def test_segments_of_fewer_than_two_path_steps_are_reported_and_the_next_begins_where_they_end(
    tmp_path, short_end, num_used
):
    record = changed(changed(RECORD, "end_x", 0, short_end), "start_x", 1, short_end)
    result = import_lani(write_drif(tmp_path, train=[record]))
    assert len(result.corpus) == num_used
    if num_used == 1:
        assert reasons(result) == ["fewer than 2 path steps: got 1; the authors skip such segments"]
    nearest = 14.0 if num_used == 1 else 15.5
    assert result.corpus.segment("12-1").demonstration.path[0] == pytest.approx((nearest, 37.0))


@pytest.mark.parametrize(
    ("field", "route", "reason"),
    [
        (FIELD | {"landmarkName": ["Barel", "House", "Well"]}, ROUTE, "unusable environment file: .*'Barel'.*Barrel"),
        ('{"landmarkName": [', ROUTE, "unusable environment file: .*random_config_12.json: not valid JSON"),
        (FIELD, ROUTE | {"z_array": [1.0]}, "unusable path file: .*z_array: got 1 values, expected a list of 10"),
        (FIELD, {"x_array": [], "z_array": []}, "unusable path file: .*random_curve_12.json: got no points"),
        (FIELD, {"x_array": [250.0], "z_array": [740.0]}, "(fewer than 2 path steps: got 0|end far from the path)"),
    ],
)
@pytest.mark.parametrize("layout", WRITERS)
def test_a_record_whose_field_or_path_cannot_be_read_is_reported(tmp_path, layout, field, route, reason):
    root = WRITERS[layout](tmp_path, environments=(7,), train=[RECORD, numbered("7")])
    put_environment(root / ("configs" if layout == "drif" else "data/nav_drone/resources"), 12, field, route)
    result = import_lani(root)
    assert [segment.id for segment in result.corpus] == ["7-0", "7-1"]
    assert re.match(reason, reasons(result)[0]), reasons(result)[0]


def test_an_environment_stays_in_the_split_where_it_came_first(tmp_path):
    result = import_lani(write_drif(tmp_path, environments=(12, 7), dev=[RECORD], train=[RECORD], test=[numbered(7)]))
    assert {split: len(result.corpus[split]) for split in result.corpus.splits} == {"train": 2, "test": 2}
    (refusal,) = result.refusals
    assert refusal.record == "dev_annotations_6000.json, environment 12"
    assert refusal.reason.startswith("environment in two splits: environment 12 is already in train")


def test_another_field_under_the_same_id_is_refused_since_a_corpus_keeps_one(tmp_path):
    root = write_ciff(tmp_path, train=[RECORD, numbered("13") | {"id": "12"}, numbered("14") | {"id": "12"}])
    resources = root / "data" / "nav_drone" / "resources"
    put_environment(resources, 13, field=FIELD | {"xPos": [260, 610, 700]})
    put_environment(resources, 14)
    result = import_lani(root)
    assert [segment.id for segment in result.corpus] == ["12-0", "12-1", "12-2", "12-3"]
    assert len({id(segment.task.layout) for segment in result.corpus}) == 1
    (refusal,) = result.refusals
    assert refusal.reason.startswith("another field with the same id: ") and "random_config_13.json" in refusal.reason


# Nothing to read


def test_a_path_without_a_corpus_is_refused_with_what_was_expected(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no folder .*nowhere; expected LANI's data"):
        import_lani(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"no LANI annotations in .*expected .*_annotations_6000\.json"):
        import_lani(tmp_path)
    put(tmp_path / "train_annotations_6000.json", [RECORD])
    with pytest.raises(ValueError, match=r"neither configs/ and paths/ beside them \(drif\) nor .*\(CIFF\)"):
        import_lani(tmp_path)
    with pytest.raises(ValueError, match="neither configs/ and paths/"):
        import_lani(tmp_path / "train_annotations_6000.json")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train_annotations_6000.json", '[{"id": "12", ', r"train_annotations_6000\.json: not valid JSON"),
        ("train_annotations_6000.json", "{}", "train: got a JSON dict, expected a list of records"),
        ("annotation_results.json", "[]", "got a JSON list, expected an object of train, dev and test"),
        ("train_annotations_6000.json", "[]", r"none of 0 records in train_annotations_6000\.json .*there are none"),
    ],
)
def test_a_file_that_holds_no_annotations_is_refused_as_a_whole(tmp_path, name, content, message):
    put(tmp_path / "configs" / name, content)
    with pytest.raises(ValueError, match=message):
        import_lani(tmp_path)


# Properties

PLACES = st.tuples(st.integers(0, 50), st.integers(0, 50))


@st.composite
def paragraphs(draw):
    """A route of distinct points (P, 2), metres, some repeated in place, and the indices at which segments end."""
    points = draw(st.lists(PLACES, min_size=3, max_size=24, unique=True))
    shift = np.array([draw(st.floats(0, 0.4)), draw(st.floats(0, 0.4))])
    route = np.abs(np.array(points, float) - shift)
    stops = [0]
    while len(route) - 1 - stops[-1] >= 2 and len(stops) < 7:
        stops.append(draw(st.integers(stops[-1] + 2, len(route) - 1)))
    repeats = draw(st.lists(st.integers(1, 3), min_size=len(route), max_size=len(route)))
    offsets = draw(st.lists(st.floats(-0.2, 0.2), min_size=2 * len(stops), max_size=2 * len(stops)))
    return route, stops, repeats, np.array(offsets).reshape(-1, 2)


def written_paragraph(paragraph, rot, is_unity):
    """The paragraph as LANI's record and path, and the starts it should have."""
    route, stops, repeats, offsets = paragraph
    scale, origin = (1.0, 225.0) if is_unity else (20.0, 0.0)
    starts = route[stops[:-1]] + offsets[:-1]
    starts_file, ends_file = (starts * scale + origin).tolist(), (route[stops[1:]] * scale + origin).tolist()
    record = RECORD | {
        "instructions": [f"do {number}" for number in range(len(starts))],
        "moves": ["F"] * len(starts) if is_unity else [],
        "start_x": [x for x, _ in starts_file],
        "start_z": [z for _, z in starts_file],
        "start_rot": [rot] * len(starts),
        "end_x": [x for x, _ in ends_file],
        "end_z": [z for _, z in ends_file],
    }
    return record, route_of(np.repeat(route * 20, repeats, axis=0).tolist()), starts


quick = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.long
@quick
@given(paragraphs(), st.floats(-360, 360), st.booleans(), st.sampled_from(sorted(WRITERS)))
def test_any_paragraph_written_as_lani_does_is_read_back_the_same(tmp_path, paragraph, rot, is_unity, layout):
    route, stops, _, _ = paragraph
    record, path, starts = written_paragraph(paragraph, rot, is_unity)
    values = np.array([record[key] for key in POSITIONS])
    path_values = np.array([path["x_array"], path["z_array"]])
    # Config units that all fall into Unity's range are taken for Unity's: a field of 2.5 m.
    assume(is_unity or not ((values >= 224) & (values <= 276)).all())
    assume(not ((path_values >= 224) & (path_values <= 276)).all())
    root = WRITERS[layout](tmp_path / layout, train=[record], environments=())
    put_environment(root / ("configs" if layout == "drif" else "data/nav_drone/resources"), 12, route=path)
    result = import_lani(root)
    assert result.refusals == () and result.repairs == ()
    for segment, start, (begin, end) in zip(result.corpus, starts, pairwise(stops), strict=True):
        assert segment.task.start[:2] == pytest.approx(tuple(start), abs=1e-9)
        assert math.cos(segment.task.start[2] - math.radians(90 - rot)) == pytest.approx(1)
        assert segment.demonstration.path == pytest.approx(route[begin : end + 1], abs=1e-9)


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([12, "12", 10**400]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)
KEYS = st.sampled_from([key for key in RECORD if key != "id"])


@st.composite
def garbled(draw, content, keys):
    """The content with values, or single entries of its lists, replaced by anything."""
    for key in draw(st.lists(keys, min_size=1, max_size=3)):
        if isinstance(content[key], list) and content[key] and draw(st.booleans()):
            content = changed(content, key, draw(st.integers(0, len(content[key]) - 1)), draw(ANYTHING))
        else:
            content = content | {key: draw(ANYTHING)}
    return content


@pytest.mark.long
@quick
@given(garbled(RECORD, KEYS) | ANYTHING, st.sampled_from(sorted(WRITERS)))
def test_any_garbled_record_is_used_or_reported_and_does_not_affect_others(tmp_path, record, layout):
    result = import_lani(WRITERS[layout](tmp_path / layout, environments=(12, 7), train=[record], dev=[numbered(7)]))
    assert [segment.id for segment in result.corpus["dev"]] == ["7-0", "7-1"]
    used = {segment.place for segment in result.corpus.splits.get("train", ())}
    refused = {refusal.record.rpartition("segment ")[2] for refusal in result.refusals if "segment" in refusal.record}
    if len(used) + len(refused) == 0:
        assert len(result.refusals) == 1, "a record without segments is itself reported"
    else:
        assert sorted([*map(str, used), *refused]) == [str(place) for place in range(len(record["instructions"]))]
