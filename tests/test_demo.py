"""The demo without a browser: what is drawn is what is simulated, a visitor's choices and flights, limits, leaving."""

import gc
import json
import shlex
import socket
import struct
import sys
import threading
import time
import urllib.request
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import pvn.cli.flying
from pvn.app.demo.flight_setup import (
    MOST_PRESSES,
    add_landmark,
    choose,
    corpus_ground,
    move_landmark,
    random_ground,
    remove_landmark,
    retell,
)
from pvn.app.demo.gltf import to_glb
from pvn.app.demo.pictures import HEAT_PX, ground_picture, heat_picture, maps_sheet
from pvn.app.demo.session import House, Visitor
from pvn.app.demo.shown_flight import Flight, between
from pvn.cli import main
from pvn.corpus.meadow.banks import bundled_banks
from pvn.corpus.meadow.generator import make_meadow
from pvn.corpus.store import write_corpus
from pvn.evaluation.systems import make_system
from pvn.rollout.flight import fly
from pvn.simulator.simulator import SimulatorConfig
from pvn.viz.flight_record import fly_and_record
from pvn.viz.meshes import class_mesh, fence_mesh, landmark_mesh, solid_mesh
from pvn.world.landmarks import LANDMARK_CLASSES, LANDMARK_NAMES
from pvn.world.layout import FIELD_SIZE, Landmark, Layout
from pvn.world.solids import box, surface_points

GROUND = random_ground(3)


@pytest.fixture(scope="module")
def systems():
    oracle = make_system("oracle")
    return {
        "pvn": make_system("pvn"),
        "gsmn": make_system("gsmn"),
        "chaplot": make_system("chaplot"),
        "oracle": replace(oracle, config=SimulatorConfig()),
    }


@pytest.fixture
def house(systems):
    with ThreadPoolExecutor(4) as pool:
        yield House(systems, pool)


class Screen:
    """A view that remembers what was shown."""

    def __init__(self):
        self.choice, self.state, self.num_places = None, None, 0
        self.steps, self.said, self.warned, self.commands, self.files = [], [], [], [], {}
        self.num_moves, self.first_step_at = 0, None
        self.landed = threading.Event()

    def show_choice(self, choice):
        self.choice = self.menus = choice

    def show_menus(self, choice):
        self.menus = choice

    def show_state(self, state, num_places):
        self.state, self.num_places = state, num_places
        if state != "flying":
            self.landed.set()

    def show_step(self, shown, moves_slider=True):
        self.first_step_at = self.first_step_at or time.perf_counter()
        self.steps.append(shown)

    def move_drone(self, pose_world):
        self.num_moves += 1

    def say(self, text):
        self.said.append(text)

    def warn(self, text):
        self.warned.append(text)

    def share(self, command, is_edited):
        self.commands.append(command)

    def send_file(self, name, content):
        self.files[name] = content


def visit(house, speed=0.0):
    screen = Screen()
    visitor = Visitor(screen, house, 3)
    visitor.set_speed(speed)
    return visitor, screen


def settle(visitor):
    """Wait until all that was asked for is done, flights aside."""
    visitor._acts.submit(lambda: None).result(30)


def fly_to_the_end(visitor, screen, text=None):
    settle(visitor)
    screen.landed.clear()
    visitor.fly(visitor.choice.instruction if text is None else text)
    assert screen.landed.wait(60), screen.warned


@pytest.mark.parametrize("name", LANDMARK_NAMES)
def test_a_drawn_landmark_is_as_large_as_its_solids_and_its_faces_look_outward(name):
    mesh = class_mesh(name)
    points = np.concatenate([surface_points(solid) for solid in LANDMARK_CLASSES[name].solids])
    assert np.allclose(mesh.corners.min(0), points.min(0), atol=0.05)
    assert np.allclose(mesh.corners.max(0), points.max(0), atol=0.05)
    a, b, c = (mesh.corners[mesh.triangles[:, corner]] for corner in range(3))
    facing = np.cross(b - a, c - a)
    is_wide = np.linalg.norm(facing, axis=1) > 1e-6
    assert ((facing * mesh.normals[mesh.triangles].mean(1)).sum(1)[is_wide] > 0).all()


def test_a_pattern_is_painted_as_the_simulator_paints_it():
    mesh = solid_mesh(box((0, 0, 1), (1, 1, 2), "#ff0000").painted("bands", "#0000ff", count=2))
    for height, colour in ((0.2, (255, 0, 0)), (0.7, (0, 0, 255)), (1.2, (255, 0, 0)), (1.7, (0, 0, 255))):
        middles = mesh.corners[mesh.triangles].mean(1)
        sides = (np.abs(middles[:, 2] - height) < 0.25) & (np.abs(middles[:, 0]) > 0.49)
        assert sides.any() and (mesh.colours[mesh.triangles[sides]] == colour).all()


def test_fences_stand_around_the_field_each_in_its_colour():
    mesh = fence_mesh()
    assert mesh.corners[:, :2].min() == 0 and mesh.corners[:, :2].max() == pytest.approx(FIELD_SIZE, abs=1e-3)
    assert mesh.corners[:, 2].max() == pytest.approx(2.4, abs=0.01)
    north = mesh.colours[(mesh.corners[:, 1] > FIELD_SIZE - 1e-3) & (np.abs(mesh.corners[:, 0] - 25) < 20)]
    assert (north.argmax(1) == 2).all(), "blue"


def test_a_file_of_a_mesh_says_what_it_holds():
    mesh = class_mesh("Apple")
    content = to_glb(mesh)
    magic, version, length = struct.unpack("<4sII", content[:12])
    assert (magic, version, length) == (b"glTF", 2, len(content))
    (size,) = struct.unpack("<I", content[12:16])
    described = json.loads(content[20 : 20 + size])
    counts = [accessor["count"] for accessor in described["accessors"]]
    assert counts == [len(mesh.corners)] * 3 + [mesh.triangles.size]


def test_the_ground_has_shadows_but_no_landmarks():
    layout = GROUND.segments[0].task.layout
    bare, shaded = ground_picture(Layout((), layout.lake)).astype(int), ground_picture(layout).astype(int)
    darker = (bare - shaded).sum(-1) > 20
    assert 0.001 < darker.mean() < 0.1
    assert ((shaded - bare).sum(-1) > 20).mean() < 0.0005


def test_heat_lies_where_the_pilot_expects_to_fly_and_stop(systems):
    task = GROUND.segments[0].task
    moment = fly_and_record(systems["pvn"], task, horizon=1).moments[0]
    maps = moment.maps
    heat = heat_picture(maps, task.start)
    assert heat.shape == (HEAT_PX, HEAT_PX, 4)
    is_red = (heat[..., 0] > 200) & (heat[..., 3] > 128)
    rows, columns = np.nonzero(is_red)
    x, y = columns.mean() / HEAT_PX * 53 - 1.5, 51.5 - rows.mean() / HEAT_PX * 53
    assert np.hypot(x - task.start[0], y - task.start[1]) < 20, "it begins at the drone"
    assert (heat[..., 1] > heat[..., 0]).any(), "and somewhere it stops"
    assert heat_picture(replace(maps, probability=None), task.start) is None
    sheets = [
        maps_sheet(np.zeros((HEAT_PX, HEAT_PX, 3)), shown, task.start, (1, 1))
        for shown in (moment, replace(moment, maps=None))
    ]
    assert sheets[0].shape == sheets[1].shape and (sheets[0] != sheets[1]).mean() > 0.5


def test_a_segment_as_it_is_has_a_goal_and_other_words_or_things_have_none():
    choice = choose(GROUND, 1, "pvn")
    assert choice.has_goal and choice.task is GROUND.segments[1].task
    assert retell(choice, f"  {choice.instruction} ").has_goal
    told = retell(choice, "go to the apple")
    assert not told.has_goal and told.task.start == choice.task.start
    mark = choice.layout.landmarks[0]
    moved = move_landmark(choice, 0, mark.x + 1, mark.y)
    assert moved.is_edited and not moved.has_goal and moved.layout.landmarks[0].x == pytest.approx(mark.x + 1)
    assert not move_landmark(moved, 0, mark.x, mark.y).is_edited


def test_landmarks_are_added_where_there_is_room_and_stay_inside_the_fences():
    choice = choose(GROUND, 0, "pvn")
    count = len(choice.layout.landmarks)
    more = add_landmark(choice, "Windmill")
    assert len(more.layout.landmarks) == count + 1 and more.layout.landmarks[-1].name == "Windmill"
    assert remove_landmark(more, count).layout == choice.layout
    assert move_landmark(choice, 0, -40, 3).layout.landmarks[0].x == 1.0
    other = choice.layout.landmarks[1]
    with pytest.raises(ValueError, match="overlaps"):
        move_landmark(choice, 0, other.x, other.y)
    with pytest.raises(ValueError, match="no room left|too many landmarks"):
        for _ in range(60):
            choice = add_landmark(choice, "BigHouse")


@pytest.mark.parametrize(
    ("pilot", "text", "message"),
    [
        ("pvn", " ... ", "Type an instruction"),
        ("pvn", "go " * 101, "too long: 101 words"),
        ("pvn", "go " + "o" * 1000, "too long"),
        ("pvn", "go " * 10**6, "too long"),
        ("oracle", "go to the apple", "reads no instructions"),
    ],
)
def test_what_no_pilot_could_fly_is_refused_kindly(house, pilot, text, message):
    visitor, screen = visit(house)
    visitor.pick_pilot(pilot)
    visitor.fly(text)
    settle(visitor)
    assert message in screen.warned[-1] and visitor.state == "choosing" and not screen.steps


def test_a_flight_is_shown_step_by_step_and_told_in_words(house):
    visitor, screen = visit(house)
    fly_to_the_end(visitor, screen)
    assert visitor.state == "replaying" and screen.state == "replaying"
    assert [shown.index for shown in screen.steps[:-1]] == list(range(screen.num_places))
    assert screen.said[-1].startswith(("**Stopped ", "**Never stopped")) and "m from the goal" in screen.said[-1]
    last = screen.steps[-1]
    assert len(last.flown) == screen.num_places and len(last.speeds) == screen.num_places - 1
    assert np.isfinite(last.stop_chances).all()
    heats = {shown.heat.tobytes() for shown in screen.steps}
    assert len(heats) == (screen.num_places - 2) // 6 + 1, "the prediction changes every six steps"
    visitor.replay(2)
    settle(visitor)
    assert screen.steps[-1].index == 2 and len(screen.steps[-1].flown) == 3
    visitor.replay(999)
    settle(visitor)
    assert screen.steps[-1].index == 2


def test_the_first_step_is_seen_within_two_seconds_of_pressing_fly(house, capsys):
    visitor, screen = visit(house)
    fly_to_the_end(visitor, screen)  # as the server does before it lets anyone in
    visitor, screen = visit(house, speed=2.0)
    pressed = time.perf_counter()
    visitor.fly("go to the gorilla")
    returned = time.perf_counter() - pressed
    while screen.first_step_at is None and time.perf_counter() - pressed < 10:
        time.sleep(0.005)
    visitor.leave()
    waited = screen.first_step_at - pressed
    with capsys.disabled():
        sys.stdout.write(f" press {1e3 * returned:.0f} ms, first step {1e3 * waited:.0f} ms ")
    assert returned < 0.2 and waited < 2.0


def test_the_page_answers_while_eight_visitors_fly(capsys):
    pytest.importorskip("viser")
    from pvn.app.demo.server import DemoConfig, DemoServer

    num_threads = torch.get_num_threads()
    with DemoServer(DemoConfig(port=0, seed=3)) as server:
        visits = [visit(server._house, speed=2.0) for _ in range(8)]
        for visitor, screen in visits:
            screen.landed.clear()
            visitor.fly("go to the gorilla and circle around it")
        answers = []
        for _ in range(20):
            begin = time.perf_counter()
            with urllib.request.urlopen(server.url) as page:
                page.read()
            answers.append(time.perf_counter() - begin)
            time.sleep(0.1)
        assert server._server.request_share_url() is None, "no visitor opens a tunnel to the world"
        begins = [screen.first_step_at for _, screen in visits]
        for visitor, _ in visits:
            visitor.leave()
    torch.set_num_threads(num_threads)
    with capsys.disabled():
        sys.stdout.write(f" page {1e3 * np.median(answers):.0f} ms, at most {1e3 * max(answers):.0f} ms ")
    assert None not in begins, "all eight are on their way"
    assert np.median(answers) < 0.5


def test_words_a_pilot_never_read_are_named_and_words_of_ones_own_have_no_goal(house):
    visitor, screen = visit(house)
    assert screen.choice.has_goal
    fly_to_the_end(visitor, screen, "fly to the zyzzyva")
    assert "**zyzzyva**" in screen.said[-1]
    assert "no goal to measure by" in screen.said[-1] and not screen.choice.has_goal


@pytest.mark.parametrize("pilot", ["gsmn", "chaplot", "oracle"])
def test_other_pilots_fly_and_what_they_lack_is_left_out(house, pilot):
    visitor, screen = visit(house)
    visitor.pick_pilot(pilot)
    fly_to_the_end(visitor, screen)
    assert not screen.warned and screen.steps[-1].heat is None
    assert screen.steps[0].moment.image.std() > 10, "it sees, or at least we do"
    assert f"--pilot {pilot}" in screen.commands[-1]


def test_one_flight_at_a_time_and_stop_ends_it(house):
    visitor, screen = visit(house, speed=1.0)
    screen.landed.clear()
    visitor.fly(visitor.choice.instruction)
    visitor.fly(visitor.choice.instruction)
    settle(visitor)
    assert "press Stop first" in screen.warned[-1]
    visitor.add("Apple")
    settle(visitor)
    assert "press Stop first" in screen.warned[-1]
    while not screen.steps:
        time.sleep(0.01)
    visitor.stop()
    assert screen.landed.wait(5) and "You ended the flight" in screen.said[-1]
    fly_again = len(screen.steps)
    visitor.set_speed(0.0)
    fly_to_the_end(visitor, screen)
    assert len(screen.steps) > fly_again


def test_pressing_too_often_is_refused(house):
    visitor, screen = visit(house)
    for _ in range(MOST_PRESSES + 1):
        visitor.pick(1)
    assert "wait a moment" in screen.warned[-1] and len(screen.warned) == 1


def test_a_pilot_that_is_refused_is_taken_off_the_menu_again(house):
    visitor, screen = visit(house, speed=1.0)
    visitor.fly(visitor.choice.instruction)
    settle(visitor)
    screen.menus = None  # someone picks another in the menu
    visitor.pick_pilot("gsmn")
    settle(visitor)
    assert "press Stop first" in screen.warned[-1] and screen.menus.pilot == visitor.choice.pilot == "pvn"
    visitor.leave()
    visitor, screen = visit(house)
    for _ in range(MOST_PRESSES):
        visitor.pick(1)
    settle(visitor)
    screen.menus = None
    visitor.pick_pilot("gsmn")
    assert "wait a moment" in screen.warned[-1] and screen.menus.pilot == visitor.choice.pilot == "pvn"


def test_what_is_typed_while_flying_is_kept_for_the_next_flight(house):
    visitor, screen = visit(house, speed=1.0)
    flown = visitor.choice.instruction
    screen.landed.clear()
    visitor.fly(flown)
    while not screen.steps:
        time.sleep(0.01)
    visitor.tell("go to the")
    visitor.tell("go to the gorilla")
    assert visitor.choice.instruction == flown, "it flies on as it was told"
    visitor.stop()
    assert screen.landed.wait(10) and visitor.choice.instruction == "go to the gorilla"
    assert "gorilla" not in screen.commands[-1], "which repeats what was flown"
    visitor.pick_pilot("gsmn")
    settle(visitor)
    assert screen.choice.instruction == "go to the gorilla"


def test_a_flight_that_is_over_is_not_lost_by_stop(house):
    visitor, screen = visit(house)
    visitor.pick_pilot("oracle")
    settle(visitor)
    show_step = screen.show_step

    def stop_at_the_end(shown, moves_slider=True):
        show_step(shown, moves_slider)
        if visitor._flight.end_world is not None:
            visitor.stop()

    screen.show_step = stop_at_the_end
    fly_to_the_end(visitor, screen)
    assert screen.said[-1].startswith("**Stopped ") and "You ended" not in screen.said[-1]
    assert visitor._flight.recorded is not None, "it can be saved"


@pytest.mark.parametrize(("speed", "slow"), [(0.0, "step"), (0.5, "drone")])
def test_what_is_played_again_is_not_drawn_over_what_was_chosen_since(house, speed, slow, monkeypatch):
    visitor, screen = visit(house)
    visitor.pick_pilot("oracle")
    fly_to_the_end(visitor, screen)
    visitor.set_speed(speed)
    begun, chosen = threading.Event(), threading.Event()

    def slowly(make):
        def wait(*all_of_it):
            begun.set()
            assert chosen.wait(30)
            return make(*all_of_it)

        return wait

    if slow == "step":
        monkeypatch.setattr(Flight, "shown", slowly(Flight.shown))
    else:
        monkeypatch.setattr("pvn.app.demo.session.between", slowly(between))
    visitor.play()
    assert begun.wait(30)
    visitor.pick(1)
    settle(visitor)
    drawn = len(screen.steps), screen.num_moves
    chosen.set()
    house.pool.shutdown(wait=True)
    assert (len(screen.steps), screen.num_moves) == drawn and screen.state == "choosing"


class Browser:
    """What a page knows of a visitor's browser; its widgets and scene are a server's, which is looked at by no one."""

    def __init__(self, server):
        self.gui, self.scene, self.atomic = server.gui, server.scene, server.atomic
        self.camera = SimpleNamespace()


@pytest.fixture(scope="module")
def page():
    pytest.importorskip("viser")
    from pvn.app.demo.page import Page
    from pvn.app.demo.server import LocalServer

    server = LocalServer("127.0.0.1", 0, verbose=False)
    yield Page(Browser(server), has_corpus=False)
    server.stop()


def test_the_menus_say_who_flies_what_and_rest_while_the_drone_flies(page):
    for place, pilot, name in ((1, "gsmn", "GSMN"), (2, "oracle", "Oracle"), (0, "pvn", "PVN")):
        page.show_choice(choose(GROUND, place, pilot))
        assert page._pilot.value == name and page._segment.value.startswith(f"{place + 1}. ")
    page._pilot.value, page._segment.value = "Chaplot", page._segment.options[3]
    page.show_menus(choose(GROUND, 1, "pvn"))
    assert page._pilot.value == "PVN" and page._segment.value.startswith("2. ")
    for state in ("flying", "replaying", "flying", "choosing"):
        page.show_state(state, 2)
        assert page._pilot.disabled == page._segment.disabled == (state == "flying")


def test_names_hang_a_quarter_of_a_metre_above_landmarks_of_any_size(page):
    kind = LANDMARK_CLASSES["Windmill"]
    marks = [Landmark("Windmill", 10.0 + 25 * place, 25.0, kind.radius * scale) for place, scale in enumerate((0.5, 2))]
    page.stage.show_field(Layout(tuple(marks)))
    for mark, label in zip(marks, page.stage._labels, strict=True):
        top = landmark_mesh(mark).corners[:, 2].max()
        assert label.position[2] == pytest.approx(top + 0.25)  # viser does not scale what hangs on a scaled mesh


def test_two_visitors_have_their_own_flights(house):
    (one, first), (two, second) = visit(house, 4.0), visit(house, 4.0)
    two.pick(2)
    settle(two)
    for visitor, screen in ((one, first), (two, second)):
        screen.landed.clear()
        visitor.fly(visitor.choice.instruction)
    assert first.landed.wait(60) and second.landed.wait(60)
    for visitor, screen, place in ((one, first, 0), (two, second, 2)):
        task = GROUND.segments[place].task
        assert np.allclose(screen.steps[0].pose_world[:2], task.start[:2], atol=1e-3)
        alone = fly_and_record(house.systems["pvn"], task)
        assert np.array_equal(screen.steps[-1].flown, alone.flown_world[:, :2]), "as if there was no one else"
        assert visitor.choice.instruction == task.instruction


def test_a_visitor_who_leaves_frees_everything(house):
    visitor, screen = visit(house, speed=1.0)
    visitor.fly(visitor.choice.instruction)
    while not screen.steps:
        time.sleep(0.01)
    flight = weakref.ref(visitor._flight)
    visitor.leave()
    ghost, count = weakref.ref(visitor), len(screen.steps)
    del visitor
    house.pool.submit(lambda: None).result()
    time.sleep(0.3)
    gc.collect()
    assert ghost() is None and flight() is None
    assert len(screen.steps) <= count + 1 and screen.state == "flying", "nothing is shown to one who is gone"


def test_a_flight_can_be_played_again_and_saved_as_a_picture(house):
    visitor, screen = visit(house)
    visitor.save_flight(".png")
    settle(visitor)
    assert "nothing to save yet" in screen.warned[-1]
    visitor.pick_pilot("oracle")
    fly_to_the_end(visitor, screen)
    count = len(screen.steps)
    visitor.play()
    house.pool.submit(lambda: None).result()
    deadline = time.monotonic() + 20
    while len(screen.steps) < count + screen.num_places and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [shown.index for shown in screen.steps[count:]] == list(range(screen.num_places))
    visitor.save_flight(".png")
    settle(visitor)
    assert screen.files["flight.png"].startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("suffix", "module", "package", "magic"),
    [(".mp4", "pvn.viz.film", "imageio_ffmpeg", b"ftyp"), (".rrd", "pvn.viz.rerun_file", "rerun", b"RRF")],
)
def test_a_flight_is_saved_as_a_film_and_as_a_recording(house, suffix, module, package, magic):
    pytest.importorskip(module)
    pytest.importorskip(package)
    visitor, screen = visit(house)
    visitor.pick_pilot("oracle")
    fly_to_the_end(visitor, screen)
    visitor.save_flight(suffix)
    settle(visitor)
    assert magic in screen.files[f"flight{suffix}"][:16], screen.warned


@pytest.fixture(scope="module")
def corpus_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus") / "small corpus"
    write_corpus(make_meadow(bundled_banks(), size=20), folder)
    return folder


@pytest.mark.parametrize("case", ["segment", "words", "edited", "corpus", "gsmn"])
def test_the_shared_command_repeats_the_flight_exactly(house, case, corpus_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    visitor, screen = visit(house)
    text = None
    match case:
        case "segment":
            visitor.pick(1)
        case "words":
            visitor.pick(3)
            text = "go to the gorilla's left, then stop"
        case "edited":
            visitor.add("Windmill")
            visitor.move(0, 12.345, 40.0)
            text = "fly to the windmill"
            visitor.save_field()
            settle(visitor)
            (tmp_path / "field.json").write_bytes(screen.files["field.json"])
        case "corpus":
            from pvn.corpus.store import read_corpus

            corpus = read_corpus(corpus_folder)
            visitor._house = replace(house, corpus=corpus, corpus_folder=str(corpus_folder))
            visitor.go_to_segment("")
            visitor.go_to_segment(corpus["dev"][1].id)
        case _:
            visitor.pick_pilot(case)
    fly_to_the_end(visitor, screen, text)
    assert not screen.warned
    logs = []

    def remember(*arguments, **options):
        logs.append(fly(*arguments, **options))
        return logs[-1]

    monkeypatch.setattr("pvn.viz.flight_picture.fly", remember)
    main(shlex.split(screen.commands[-1])[1:])
    assert np.array_equal(logs[0].pose_world[0, :, :2].numpy(), screen.steps[-1].flown)
    assert len(logs[0].num_steps) == 1


def test_a_segment_of_a_corpus_brings_its_whole_field(corpus_folder):
    from pvn.corpus.store import read_corpus

    corpus = read_corpus(corpus_folder)
    chosen = corpus["train"][1]
    ground, place = corpus_ground(corpus, str(corpus_folder), f" {chosen.id} ")
    assert ground.segments[place] is chosen
    assert {segment.environment for segment in ground.segments} == {chosen.environment}
    with pytest.raises(ValueError, match="segment: got '9-9999'"):
        corpus_ground(corpus, str(corpus_folder), "9-9999")


def test_a_port_in_use_and_a_missing_package_are_said_in_one_line(capsys, monkeypatch):
    pytest.importorskip("viser")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SystemExit):
            main(["demo", "--port", str(port)])
    assert f"port: got {port} at 127.0.0.1" in capsys.readouterr().err
    for name, message in (("visitors", "at least 1"), ("port", "expected 1 to 65535")):
        with pytest.raises(SystemExit):
            main(["demo", f"--{name}", "-1"])
        assert message in capsys.readouterr().err
    for name in ("server", "page", "stage"):
        monkeypatch.delitem(sys.modules, f"pvn.app.demo.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(SystemExit):
        main(["demo"])
    assert 'pip install "pvn[app]"' in capsys.readouterr().err


def test_fly_says_what_does_not_go_together(capsys):
    for command, message in (
        ("fly --segment 9", "expected 1 to 5"),
        ("fly --corpus nowhere", "expected --segment"),
        ("fly --start 1 2 0", "no instruction"),
        ('fly "go on" --pilot oracle', "do not read instructions"),
    ):
        with pytest.raises(SystemExit):
            main(shlex.split(command))
        assert message in capsys.readouterr().err
    assert set(pvn.cli.flying.Fly.__dataclass_fields__) >= {"segment", "corpus", "file", "start"}
