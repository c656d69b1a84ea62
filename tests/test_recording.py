"""Recordings, films and summaries of flights: what was written is what was flown."""

import io
import json
import re
import shlex
import weakref
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.image import imread
from PIL import Image

from pvn.cli import main
from pvn.corpus.meadow.banks import bundled_banks
from pvn.corpus.meadow.generator import make_meadow, sample_paragraph
from pvn.corpus.store import read_corpus, write_corpus
from pvn.evaluation.systems import System, make_system
from pvn.rollout.flight import FlightLog, fly, join_logs, simulator_for
from pvn.rollout.oracle import Oracle
from pvn.simulator.cameras import from_above, take_pictures
from pvn.simulator.simulator import SimulatorConfig
from pvn.viz import film, flight_files, summary_figure
from pvn.viz.film import HOLD_SECONDS, write_film
from pvn.viz.film_frames import FIELD, FRAMES_PER_STEP, HEIGHT, VIEW, WIDTH, frames
from pvn.viz.flight_files import fly_to_show, save_flight, write_flight
from pvn.viz.flight_record import fly_and_record
from pvn.viz.map_pictures import as_bytes, blend_heat, heat, speeds
from pvn.viz.meshes import landmark_mesh, solid_mesh
from pvn.viz.rerun_file import write_recording
from pvn.viz.summary_figure import draw_summary
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.lani import write_layout
from pvn.world.layout import Landmark
from pvn.world.solids import ball, box, cone, surface_points

TASK = sample_paragraph(3)[1].task
NUM_STEPS = 7


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def recorded():
    return fly_and_record(make_system("pvn"), TASK, horizon=NUM_STEPS)


@pytest.fixture(scope="module")
def blind():
    """A flight of a pilot that has no maps and says no probability."""
    return fly_and_record(System("oracle", Oracle(), SimulatorConfig(), ""), TASK, horizon=2)


def run(command):
    main(shlex.split(command)[1:])


class Rows:
    """The rows of an entity's component in an .rrd, by step and by time (seconds)."""

    def __init__(self, path):
        from rerun.chunk import RrdReader

        self.chunks = RrdReader(path).store().stream().to_chunks()
        self.entities = {chunk.entity_path for chunk in self.chunks}

    def read(self, entity, component):
        found = {}
        for chunk in self.chunks:
            batch = chunk.to_record_batch()
            if chunk.entity_path == entity and not chunk.is_static and component in batch.schema.names:
                steps, times = batch.column("step").to_pylist(), batch.column("time").to_pylist()
                for step, time, value in zip(steps, times, batch.column(component).to_pylist(), strict=True):
                    found[step] = (time.total_seconds(), value)
        return dict(sorted(found.items()))


def test_a_recording_holds_what_was_flown_at_every_step_and_time(recorded):
    pytest.importorskip("rerun")
    write_recording(recorded, Path("flight.rrd"))
    rows = Rows(Path("flight.rrd"))
    poses = rows.read("/world/drone", "Transform3D:translation")
    assert list(poses) == list(range(NUM_STEPS + 1))
    assert [time for time, _ in poses.values()] == [0.5 * step for step in range(NUM_STEPS + 1)]
    assert np.array_equal(np.array([pose[0] for _, pose in poses.values()], np.float32), recorded.flown_world[:, :3])
    chances = rows.read("/plots/stop/probability", "Scalars:scalars")
    assert [value[0] for _, value in chances.values()] == [moment.stop_chance for moment in recorded.moments]
    speed = rows.read("/plots/motion/speed", "Scalars:scalars")
    assert np.allclose([value[0] for _, value in speed.values()], speeds(recorded)) and len(speed) == NUM_STEPS + 1
    images = rows.read("/world/drone/camera", "EncodedImage:blob")
    assert len(images) == NUM_STEPS
    for moment, (_, blob) in zip(recorded.moments, images.values(), strict=True):
        seen = np.asarray(Image.open(io.BytesIO(bytes(blob[0]))))
        assert np.array_equal(seen, moment.image), "not a pixel is lost"
    told = rows.read("/told", "TextDocument:text")
    assert list(told) == [0, NUM_STEPS] and all(TASK.instruction in value[0] for _, value in told.values())
    assert "never stopped" in told[NUM_STEPS][1][0]


def test_a_recording_holds_maps_at_every_step_and_distributions_when_predicted(recorded):
    pytest.importorskip("rerun")
    write_recording(recorded, Path("flight.rrd"))
    rows = Rows(Path("flight.rrd"))
    for entity in ("/maps/semantic", "/maps/grounding"):
        assert len(rows.read(entity, "EncodedImage:blob")) == NUM_STEPS
    for name, channel in (("trajectory", 0), ("goal", 1)):
        predicted = rows.read(f"/distributions/{name}", "Tensor:data")
        assert list(predicted) == [0, 6], "PVN predicts at every sixth step"
        for step, (_, value) in predicted.items():
            expected = recorded.moments[step].maps.probability[channel]
            assert value[0]["shape"] == [64, 64]
            assert np.array_equal(np.array(value[0]["buffer"], np.float32).reshape(64, 64), expected)
    assert list(rows.read("/world/ground", "GridMap:data")) == [0, 6]
    shown = {"/world/landmarks", "/world/names", "/world/fences", "/world/flown", "/world/demonstrated", "/world/goal"}
    assert shown <= rows.entities
    assert Path("flight.rrd").stat().st_size < 2e6


def test_a_typed_instruction_has_no_goal_in_its_recording_and_the_same_flight_the_same_name(recorded):
    pytest.importorskip("rerun")
    from rerun.chunk import RrdReader

    typed = replace(recorded, has_goal=False, moments=recorded.moments[:1])
    for name in ("one.rrd", "two.rrd"):
        write_recording(typed, Path(name))
    assert not {"/world/goal", "/world/demonstrated"} & Rows(Path("one.rrd")).entities
    one, two = (RrdReader(Path(name)).recordings()[0].recording_id for name in ("one.rrd", "two.rrd"))
    assert one == two and len(RrdReader(Path("one.rrd")).blueprints()) == 1


def test_without_maps_the_rest_is_written(blind):
    pytest.importorskip("rerun")
    write_recording(blind, Path("flight.rrd"))
    entities = Rows(Path("flight.rrd")).entities
    assert "/world/ground" in entities and not any("maps" in name or "stop" in name for name in entities)


def test_a_field_without_landmarks_is_recorded(blind):
    pytest.importorskip("rerun")
    task = replace(TASK, layout=replace(TASK.layout, landmarks=()))
    write_recording(replace(blind, task=task), Path("flight.rrd"))
    entities = Rows(Path("flight.rrd")).entities
    assert "/world/fences" in entities and not {"/world/landmarks", "/world/names"} & entities


def test_a_film_plays_in_real_time_and_ends_otherwise_than_it_began(recorded):
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    some = replace(recorded, moments=recorded.moments[:4])
    write_film(some, Path("flight.mp4"))
    reader = imageio_ffmpeg.read_frames("flight.mp4")
    about = next(reader)
    shown = [np.frombuffer(frame, np.uint8).reshape(HEIGHT, WIDTH, 3).astype(int) for frame in reader]
    assert about["size"] == (WIDTH, HEIGHT) and about["codec"] == "h264" and about["pix_fmt"].startswith("yuv420p")
    rate = FRAMES_PER_STEP / 0.5
    assert len(shown) == 4 * FRAMES_PER_STEP + HOLD_SECONDS * rate
    assert abs(about["duration"] - (4 * 0.5 + HOLD_SECONDS)) < 0.1
    left, top, right, bottom = VIEW
    for frame, moment in ((shown[0], some.moments[0]), (shown[-1], some.moments[-1])):
        view = Image.fromarray(frame[top:bottom, left:right].astype(np.uint8)).resize((128, 72), Image.Resampling.BOX)
        assert np.abs(np.asarray(view).astype(int) - moment.image).mean() < 6, "the drone's own picture is in it"
    assert np.abs(shown[-1] - shown[0]).mean() > 2
    assert np.abs(shown[-1] - shown[-5]).mean() < 1, "the last frame is held"


def test_the_same_flight_gives_the_same_film(recorded):
    pytest.importorskip("imageio_ffmpeg")
    for name in ("one.mp4", "two.mp4"):
        write_film(replace(recorded, moments=recorded.moments[:1]), Path(name))
    assert Path("one.mp4").read_bytes() == Path("two.mp4").read_bytes()


def test_between_steps_only_the_drone_its_trail_and_the_curves_move(recorded):
    some = list(frames(replace(recorded, moments=recorded.moments[:1])))
    assert len(some) == FRAMES_PER_STEP + 1
    left, top, right, bottom = FIELD
    changed = (some[0] != some[FRAMES_PER_STEP - 1]).any(-1)
    assert changed[top:bottom, left:right].any()
    assert not changed[:top].any() and not changed[:472, right + 8 :].any()


@pytest.mark.parametrize("suffix", [".webp", ".gif"])
def test_films_for_pages_are_small_and_go_round(recorded, suffix):
    write_film(replace(recorded, moments=recorded.moments[:1]), Path(f"flight{suffix}"))
    with Image.open(f"flight{suffix}") as film:
        assert film.n_frames >= 3 and film.info.get("loop") == 0
    assert Path(f"flight{suffix}").stat().st_size < 3e5


@pytest.mark.parametrize(("suffix", "shown"), [(".webp", [0, 2, 4, 6, 7]), (".gif", [0, 3, 6, 7])])
def test_films_for_pages_keep_some_frames_and_the_last_and_never_all_of_them(recorded, suffix, shown, monkeypatch):
    made, most = [], 0
    scale = 30 * np.linspace(0, 8, WIDTH, endpoint=False).astype(np.uint8)[:, None]

    def greys(recorded):
        nonlocal most
        for number in range(8):
            frame = np.full((HEIGHT, WIDTH, 3), 30 * number, np.uint8)
            frame[: HEIGHT // 2] = scale  # the frames of a .gif share a palette: every grey is in each
            made.append(weakref.ref(frame))
            most = max(most, sum(each() is not None for each in made))
            yield frame

    monkeypatch.setattr(film, "frames", greys)
    write_film(recorded, Path(f"flight{suffix}"))
    with Image.open(f"flight{suffix}") as written:
        levels = []
        for number in range(written.n_frames):
            written.seek(number)
            levels.append(round(written.convert("L").getpixel((10, written.height - 10)) / 30))
    assert levels == shown and most <= 2


def test_heat_is_brightest_where_most_is_expected_and_covers_the_ground(recorded):
    maps = recorded.moments[0].maps
    share = heat(maps, TASK.start, 64)
    assert share.max((0, 1)) == pytest.approx([1, 1]) and share.min() >= 0
    blended = blend_heat(np.zeros((64, 64, 3)), share)
    row, column = np.unravel_index(share[..., 1].argmax(), (64, 64))
    assert blended[row, column, 0] > 0.85 and blended[row, column, 2] < 0.2, "amber at the likeliest goal"
    assert as_bytes(np.array([0.0, 0.5, 1.0, 1.2])).tolist() == [0, 128, 255, 255]


def test_a_summary_is_drawn_without_maps_too_and_twice_the_same(blind):
    for name in ("one.png", "two.png"):
        draw_summary(Path(name), blind)
    assert imread("one.png").shape[0] > 700 and Path("one.png").read_bytes() == Path("two.png").read_bytes()


@pytest.mark.parametrize("stop_threshold", [0.07, 0.5, None])
def test_a_summary_shows_above_which_probability_the_pilot_stops(recorded, stop_threshold, monkeypatch):
    drawn = []
    monkeypatch.setattr(summary_figure, "save_figure", lambda figure, path: drawn.append(figure))
    moments = tuple(
        replace(moment, stop_chance=None if stop_threshold is None else moment.stop_chance)
        for moment in recorded.moments[:2]
    )
    draw_summary(Path("flight.png"), replace(recorded, moments=moments, stop_threshold=stop_threshold))
    panels = [axis for axis in drawn[0].axes if axis.get_title() == "stop probability"]
    dotted = [line.get_ydata()[0] for axis in panels for line in axis.lines if line.get_linestyle() == ":"]
    assert dotted == ([] if stop_threshold is None else [stop_threshold]) and len(panels) == len(dotted)
    plt.close(drawn[0])


@pytest.mark.parametrize(
    "solid",
    [
        box((0.3, 0, 1), (1, 2, 0.5), "#ff0000", (20, 30, 40)),
        box((0, 0, 1), (1, 2, 0.5), "#ff0000").painted("stripes", "#0000ff", 3),
        ball((0, 1, 2), (1, 2, 3), "#00ff00", (0, 45, 0)),
        cone((0, 0, 0), 1, 2, "#0000ff", top=0.3).painted("bands", "#ffffff", 4),
    ],
)
def test_meshes_have_the_extent_of_their_solids_and_face_outwards(solid):
    mesh = solid_mesh(solid)
    points = surface_points(solid)
    assert np.allclose(mesh.corners.min(0), points.min(0), atol=0.06)
    assert np.allclose(mesh.corners.max(0), points.max(0), atol=0.06)
    a, b, c = (mesh.corners[mesh.triangles[:, corner]] for corner in range(3))
    area = np.cross(b - a, c - a)
    outward = (area * ((a + b + c) / 3 - np.array(solid.centre))).sum(-1)
    is_flat = np.linalg.norm(area, axis=1) < 1e-6  # at an ellipsoid's poles
    assert (outward[~is_flat] > 0).all()
    assert ((area * mesh.normals[mesh.triangles].mean(1)).sum(-1)[~is_flat] > 0).all()
    colours = {tuple(colour) for colour in mesh.colours.tolist()}
    assert len(colours) == (1 if solid.pattern == "plain" else 2)


def test_a_landmarks_mesh_stands_where_the_simulator_shows_it():
    mark = Landmark("Pickup", 20.0, 30.0, LANDMARK_CLASSES["Pickup"].radius * 1.2, 0.7)
    layout = replace(TASK.layout, landmarks=(mark,))
    empty = replace(TASK.layout, landmarks=())
    size, camera = 400, from_above(15.0, 25.0, 10.0, 400)
    with_it, without = take_pictures([layout, empty], [camera, camera], size, size).astype(int)
    corners = landmark_mesh(mark).corners
    column, row = (corners[:, 0] - 15) * 40, (35 - corners[:, 1]) * 40
    differs = np.abs(with_it - without).sum(-1) > 0
    near = [(down, right) for down in (-2, 0, 2) for right in (-2, 0, 2)]  # 5 cm: corners lie on the very rim
    seen = np.any([differs[row.astype(int) + down, column.astype(int) + right] for down, right in near], axis=0)
    assert seen.all()
    reach = np.argwhere(differs).max(0) - np.argwhere(differs).min(0)
    assert np.ptp(row) > 0.6 * reach[0] and np.ptp(column) > 0.6 * reach[1], "the rest is its shadow"


def test_logs_of_one_flight_each_join_to_the_log_of_all():
    tasks = [segment.task for segment in sample_paragraph(3)][:3]
    config = SimulatorConfig(quality="none")
    whole = fly(simulator_for(tasks, config=config), tasks, Oracle())
    joined = join_logs([fly(simulator_for([task], config=config), [task], Oracle()) for task in tasks])
    for name in FlightLog.__dataclass_fields__:
        assert np.allclose(getattr(whole, name).float(), getattr(joined, name).float(), atol=1e-5), name


def test_a_pilot_that_does_not_look_is_shown_with_pictures(monkeypatch):
    seen = {}
    monkeypatch.setattr(flight_files, "fly_and_record", lambda system, task, **rest: seen.update(config=system.config))
    fly_to_show(make_system("oracle"), TASK)
    assert seen["config"].quality == "full"


@pytest.fixture
def flown(monkeypatch, recorded):
    """What was asked for, in flights of two steps, which are written faster: all that were flown so far."""
    asked = []

    def fly_shortly(system, task, *, has_goal, device):
        assert device == "cpu"
        asked.append(replace(recorded, system=system.name, task=task, has_goal=has_goal, moments=recorded.moments[:2]))
        return asked[-1]

    monkeypatch.setattr(flight_files, "fly_and_record", fly_shortly)
    return asked


def test_fly_saves_recording_film_and_summary_of_every_flight(flown, capsys):
    pytest.importorskip("imageio_ffmpeg")
    run('pvn fly "go to the gorilla" --seed 3 --save saved')
    (flight,) = flown
    assert flight.task.instruction == "go to the gorilla" and flight.task.start == sample_paragraph(3)[0].task.start
    assert flight.system == "pvn" and not flight.has_goal, "no one has flown that before"
    printed = capsys.readouterr().out
    endings = [".rrd", ".mp4", ".png"] if flight_files.has_rerun() else [".mp4", ".png"]
    for ending in endings:
        assert f"saved/flight_seed3_1{ending}" in printed and Path(f"saved/flight_seed3_1{ending}").stat().st_size > 1e4
    assert not Path("pictures").exists()
    assert imread("saved/flight_seed3_1.png").shape[0] > 1000


@pytest.fixture
def bare(monkeypatch):
    """Neither rerun nor ffmpeg is installed; summaries are empty files, which are written faster."""
    monkeypatch.setattr(flight_files, "has_rerun", lambda: False)
    monkeypatch.setattr(flight_files, "has_ffmpeg", lambda: False)

    def touch(path, recorded):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    monkeypatch.setattr(flight_files, "draw_summary", touch)


def test_what_is_not_installed_is_said_in_one_line_and_the_rest_is_written(flown, bare, capsys):
    run('pvn fly "go to the gorilla" --seed 3 --save saved')
    printed = capsys.readouterr().out
    assert 'rerun is not installed, so no .rrd can be written; pip install "pvn[app]"' in printed
    assert "imageio-ffmpeg is not installed" in printed
    assert [path.name for path in Path("saved").iterdir()] == ["flight_seed3_1.png"]
    assert save_flight(flown[0], Path("other/one.two")) == [Path("other/one.two.png")]


def test_evaluate_records_the_first_flights_of_each_system(flown, bare, capsys):
    run("pvn corpus make --size 20 --out corpus --processes 1")
    capsys.readouterr()
    run("pvn evaluate oracle stop --corpus corpus --split train --limit 3 --record 2 --out results --json")
    assert [row["system"] for row in json.loads(capsys.readouterr().out)] == ["oracle", "stop"], "JSON stays JSON"
    names = sorted(path.name for path in Path("results/recordings").iterdir())
    assert names == ["oracle_train_1.png", "oracle_train_2.png", "stop_train_1.png", "stop_train_2.png"]
    first = [segment.task.instruction for segment in read_corpus("corpus", ("train",))["train"][:2]]
    asked = [(flight.system, flight.task.instruction, flight.has_goal) for flight in flown]
    assert asked == [(system, told, True) for system in ("oracle", "stop") for told in first]
    for value, message in ((-1, "record: got -1"), (4, "expected at most 3")):
        with pytest.raises(SystemExit):
            run(f"pvn evaluate oracle --corpus corpus --split train --limit 3 --record {value} --out results")
        assert message in capsys.readouterr().err


def test_show_flight_writes_what_the_ending_says(flown, capsys):
    run("pvn show flight --seed 3 --number 2 --system gsmn --out flight.gif")
    assert TASK.instruction in capsys.readouterr().out
    assert [(flight.system, flight.task.start, flight.has_goal) for flight in flown] == [("gsmn", TASK.start, True)]
    assert Path("flight.gif").read_bytes()[:4] == b"GIF8"


@pytest.mark.parametrize(
    ("options", "name", "title"),
    [
        ("--seed 3 --segment 2", "flight_seed3_2", "pvn in field 3"),
        ("'go on' --seed 3 --segment 2", "flight_seed3_2", "pvn in field 3"),
        ("--corpus corpus --segment {id} --pilot oracle", "corpus_{id}", "oracle in corpus, segment {id}"),
        ("--file own.json --seed 3 --segment 2", "own_seed3_2", "pvn in own.json"),
    ],
)
def test_files_and_lines_say_which_segment_was_flown(options, name, title, flown, bare, capsys):
    write_corpus(make_meadow(bundled_banks(), size=20), Path("corpus"))
    write_layout(TASK.layout, Path("own.json"))
    segment = read_corpus("corpus")["test"][1]
    run(f"pvn fly {options.format(id=segment.id)} --save saved")
    assert [path.stem for path in Path("saved").iterdir()] == [name.format(id=segment.id)]
    printed = capsys.readouterr().out
    assert title.format(id=segment.id) in printed
    asked_for = segment.id if "corpus" in options else "2"
    assert re.findall(r"^│ +([\d-]+) │", printed, re.MULTILINE) == [asked_for]
    if "corpus" in options:
        assert flown[0].task.instruction == segment.task.instruction


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("pvn show flight --out flight.avi", "expected a name that ends in .rrd, .mp4"),
        ("pvn show flight --seed 3 --number 9", "number: got 9, expected 1 to 5"),
        ("pvn show flight --system pvm", "did you mean pvn?"),
        ("pvn fly --pilot stop --save file", "which is a file, expected a folder"),
    ],
)
def test_what_cannot_be_written_is_said_before_flying(command, message, capsys):
    Path("file").touch()
    with pytest.raises(SystemExit) as error:
        run(command)
    assert error.value.code == 2 and message in capsys.readouterr().err


@pytest.mark.parametrize(("write", "ending"), [(write_film, ".avi"), (write_recording, ".txt"), (write_flight, "")])
def test_a_wrong_ending_is_refused(recorded, write, ending):
    with pytest.raises(ValueError, match="expected a name that ends in"):
        write(recorded, Path(f"flight{ending}"))
