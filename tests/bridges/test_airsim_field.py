"""Our agent in an AirSim world: through the unmodified client, over our own server, it flies as it does natively."""

import asyncio
import gc
import json
import math
import shlex
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from airsim_serving import serving

from pvn.bridges.airsim.api import CALLS
from pvn.bridges.airsim.field import AIM_S, AirSimField, AirSimOptions, FlightLost
from pvn.bridges.airsim.frames import angles
from pvn.bridges.airsim.protocol import Limits
from pvn.cli import main
from pvn.cli.serving import fly_over_airsim
from pvn.corpus.meadow.generator import sample_paragraph
from pvn.evaluation.intervals import bootstrap_mean
from pvn.evaluation.systems import System, make_system
from pvn.geometry import Camera
from pvn.learning.agent import shipped_agent
from pvn.rollout.flight import fly, simulator_for
from pvn.simulator.simulator import SimulatorConfig
from pvn.world.layout import sample_layout
from pvn.world.task import SUCCESS_M, Task

STEPPED = AirSimOptions(is_stepped=True, can_teleport=True)


def flown_over_airsim(tasks, policy, horizon):
    """The tasks' logs; tasks of one field follow each other."""
    logs, layout, server, field = [], None, None, None
    try:
        for task in tasks:
            if task.layout is not layout:
                if server is not None:
                    server.__exit__(None, None, None)
                layout, server = task.layout, serving(task.layout)
                _, port = server.__enter__()
                field = AirSimField(port=port, layout=layout, options=STEPPED)
                field.take_off()
            logs.append(fly(field, [task], policy, horizon=horizon))
    finally:
        if server is not None:
            server.__exit__(None, None, None)
    return logs


def test_the_agent_flies_over_airsim_as_it_does_natively():
    tasks = [segment.task for segment in sample_paragraph(3)][:3]
    agent = shipped_agent()
    # A difference of a micrometre is one of a pixel here and there, and grows with every plan: ten steps, two plans.
    for task, log in zip(tasks, flown_over_airsim(tasks, agent, 10), strict=True):
        native = fly(simulator_for([task]), [task], agent, horizon=10)
        assert log.num_steps.equal(native.num_steps) and log.has_stopped.equal(native.has_stopped)
        assert (log.pose_world - native.pose_world).abs().max() < 1e-3
        assert (log.action - native.action).abs().max() < 1e-3


class Winding:
    """Flies as fast as it can, to the left and to the right."""

    def begin(self, tasks, device):
        return 0

    def act(self, observation, memory):
        return torch.tensor([[3.0, 1.0 if memory % 6 < 4 else -1.0, 0.0]]), memory + 1


def test_curves_are_flown_over_airsim_as_they_are_natively():
    (log,) = flown_over_airsim([MIDDLE], Winding(), 12)
    native = fly(simulator_for([MIDDLE]), [MIDDLE], Winding(), horizon=12)
    assert native.pose_world[0, :, 5].max() - native.pose_world[0, :, 5].min() > 2, "radians"
    assert (log.pose_world - native.pose_world).abs().max() < 1e-3


@pytest.mark.slow
def test_over_50_flights_the_success_rate_is_within_its_interval_of_the_native_one():
    tasks = []
    for seed in range(100, 120):
        tasks += [segment.task for segment in sample_paragraph(seed)]
    tasks, agent = tasks[:50], shipped_agent()

    def succeeded(log, task):
        return bool(log.has_stopped[0]) and float(log.goal_distance([task])[0]) < SUCCESS_M

    native = [succeeded(fly(simulator_for([task]), [task], agent, horizon=40), task) for task in tasks]
    logs = flown_over_airsim(tasks, agent, 40)
    ours = [succeeded(log, task) for log, task in zip(logs, tasks, strict=True)]
    interval = bootstrap_mean(np.array(native))
    assert interval.low <= np.mean(ours) <= interval.high, f"native {interval}, over AirSim {np.mean(ours):.2f}"


LAYOUT = sample_layout(3)
QUICK = AirSimOptions(is_stepped=True, can_teleport=True, timeout_s=2)


class Straight:
    """Flies on, turning a little, and stops after a while."""

    def __init__(self, num_steps):
        self.num_steps = num_steps

    def begin(self, tasks, device):
        return 0

    def act(self, observation, memory):
        is_last = memory + 1 >= self.num_steps
        return torch.tensor([[2.0, 0.3, float(is_last)]]), memory + 1


def task_at(start, layout=LAYOUT):
    return Task(layout, start, np.array([start[:2], start[:2]]), "go on")


MIDDLE = task_at((25.0, 25.0, 0.5))


@pytest.fixture
def calls(monkeypatch):
    """Names of the calls the server hears; a test may put others in their place."""
    heard = []

    def noted(name, function):
        # The signature is read when the server is imported, so that a plain wrapper will do here.
        return lambda service, *arguments: heard.append(name) or function(service, *arguments)

    for name, function in list(CALLS.items()):
        monkeypatch.setitem(CALLS, name, noted(name, function))
    return heard


def test_in_real_time_it_flies_stops_and_hovers(calls):
    with serving(LAYOUT, speed=4.0) as (_, port):
        field = AirSimField(port=port, layout=LAYOUT)
        start = field.take_off()
        assert start == pytest.approx((25, 25, math.pi / 2), abs=0.05)
        log = fly(field, [task_at(start)], Straight(4))
        assert int(log.num_steps[0]) == 4 and bool(log.has_stopped[0])
        assert 2.0 < float(log.distance_flown()[0]) < 6.0
        assert (log.pose_world[0, :, 2] - 5).abs().max() < 0.3
        assert calls[-4:].count("hover") == 1 and "simPause" not in calls[calls.index("takeoff") :]
        assert field.log().pose_world.equal(log.pose_world)


def test_a_larger_wider_picture_of_another_camera_is_seen_as_ours_is():
    wide = Camera(width=400, height=300, horizontal_view=math.radians(110), tilt=0.0)
    with serving(LAYOUT) as (_, port), serving(LAYOUT, camera=wide) as (service, other):
        seen = AirSimField(port=port, layout=LAYOUT, options=QUICK).reset(torch.tensor([MIDDLE.start]))
        field = AirSimField(port=other, layout=LAYOUT, options=QUICK)
        assert angles(service.mount)[1] == pytest.approx(math.radians(15)), "it was turned down"
        again = field.reset(torch.tensor([MIDDLE.start]))
        assert again.image.shape == seen.image.shape == (1, 72, 128, 3)
        assert (again.pose_world - seen.pose_world).abs().max() < 1e-5
        assert (again.image.float() - seen.image.float()).abs().mean() < 6.0


def test_a_camera_that_may_not_be_turned_gives_the_pose_of_a_body_that_would_see_so():
    with serving(LAYOUT, camera=Camera(tilt=0.0)) as (_, port):
        options = AirSimOptions(is_stepped=True, can_teleport=True, tilts_camera=False)
        field = AirSimField(port=port, layout=LAYOUT, options=options)
        pose = field.reset(torch.tensor([MIDDLE.start])).pose_world[0]
        assert pose[4] == pytest.approx(-math.radians(15), abs=1e-6), "nose up, so that the camera is level"


def test_an_airsim_of_version_1_gets_the_arguments_it_counts(monkeypatch):
    def counted(name, num_arguments):
        function = CALLS[name]

        def call(service, *arguments):
            if len(arguments) != num_arguments:
                raise ValueError(f"rpclib: server could not find function '{name}' with argument count")
            return function(service, *arguments)

        return call

    monkeypatch.setitem(CALLS, "getServerVersion", lambda service: 1)
    for name, count in [("simGetImages", 3), ("simGetCameraInfo", 3), ("simSetCameraPose", 4)]:
        monkeypatch.setitem(CALLS, name, counted(name, count))
    with serving(LAYOUT, camera=Camera(tilt=0.0)) as (_, port):
        log = fly(AirSimField(port=port, layout=LAYOUT, options=QUICK), [MIDDLE], Straight(2))
        assert int(log.num_steps[0]) == 2


def test_without_a_server_it_says_so():
    with pytest.raises(FlightLost, match="127.0.0.1:1: .*could not be told to hover.*Is the simulator running"):
        AirSimField(port=1, options=QUICK)


def test_a_vehicle_or_camera_that_is_not_there_is_named():
    with serving(LAYOUT) as (_, port):
        with pytest.raises(ValueError, match="vehicle: got 'Drone7', expected one of SimpleFlight"):
            AirSimField(port=port, options=AirSimOptions(vehicle="Drone7"))
        with pytest.raises(FlightLost, match="camera: got 'back', expected one of 0"):
            AirSimField(port=port, options=AirSimOptions(camera="back"))


def test_a_start_where_the_drone_is_not_is_refused():
    with serving(LAYOUT) as (_, port):
        field = AirSimField(port=port, layout=LAYOUT)
        with pytest.raises(ValueError, match="the drone is 10.0 m from there; begin the task where take_off"):
            fly(field, [task_at((35.0, 25.0, 0.0))], Straight(2))


def after(num_calls, usual, then):
    """A call that is answered as usual for a while, then otherwise."""
    left = [num_calls]

    def call(service, *arguments):
        left[0] -= 1
        return usual(service, *arguments) if left[0] >= 0 else then(service, *arguments)

    return call


def empty_image(service, *arguments):
    pose = {"camera_position": {"x_val": 0, "y_val": 0, "z_val": 0}, "camera_orientation": {}}
    return [{"width": 0, "height": 0, "image_data_uint8": b"\0", **pose}]


def never(service, *arguments):
    return asyncio.get_running_loop().create_future()


def refused(service, *arguments):
    raise ValueError("the vehicle has gone")


@pytest.mark.parametrize(
    ("method", "then", "words"),
    [
        ("simGetImages", empty_image, "the image did not come: got 1 bytes for 0 x 0 pixels"),
        ("simGetImages", lambda service, *rest: [], "the image did not come: got no answer"),
        ("simGetImages", never, "Request timed out"),
        ("simGetImages", refused, "the vehicle has gone"),
        ("getMultirotorState", refused, "the vehicle has gone"),
    ],
)
def test_when_an_answer_fails_the_drone_hovers_and_the_flight_so_far_is_kept(method, then, words, calls, monkeypatch):
    with serving(LAYOUT) as (service, port):
        field = AirSimField(port=port, layout=LAYOUT, options=QUICK)
        num_usual = 3 if method == "simGetImages" else 1 + 2 * (round(0.5 / AIM_S) + 2)
        monkeypatch.setitem(CALLS, method, after(num_usual, CALLS[method], then))
        with pytest.raises(FlightLost, match=words + ".*was told to hover after 2 steps"):
            fly(field, [MIDDLE], Straight(10))
        assert calls[-1] == "hover" and not service.world.is_paused
        log = field.log()
        assert int(log.num_steps[0]) == 2 and log.pose_world.shape == (1, 3, 6) and not bool(log.has_stopped[0])


def test_when_the_connection_is_lost_the_flight_so_far_is_kept():
    server = serving(LAYOUT)
    _, port = server.__enter__()
    field = AirSimField(port=port, layout=LAYOUT, options=QUICK)

    def end_the_server(step, observation, action, memory):
        if step == 2:
            server.__exit__(None, None, None)

    with pytest.raises(FlightLost, match="could not be told to hover after 2 steps"):
        fly(field, [MIDDLE], Straight(10), watch=end_the_server)
    assert int(field.log().num_steps[0]) == 2


def lose_control(service):
    """Watches a flight; after two steps another script takes API control away."""

    def watch(step, observation, action, memory):
        if step == 2:
            service.world.has_api_control = False

    return watch


@pytest.mark.parametrize("is_stepped", [True, False])
def test_a_set_point_that_is_refused_ends_the_flight(is_stepped):
    with serving(LAYOUT, speed=math.inf if is_stepped else 4.0) as (service, port):
        with AirSimField(port=port, layout=LAYOUT, options=replace(QUICK, is_stepped=is_stepped)) as field:
            with pytest.raises(FlightLost, match="API control is off.*could not be told to hover after 2 steps"):
                fly(field, [MIDDLE], Straight(10), watch=lose_control(service))


def test_a_set_point_that_is_answered_and_not_flown_ends_the_flight(monkeypatch):
    monkeypatch.setitem(CALLS, "moveByVelocityZBodyFrame", lambda service, *arguments: False)
    with serving(LAYOUT) as (service, port), AirSimField(port=port, layout=LAYOUT, options=QUICK) as field:
        with pytest.raises(FlightLost, match="API control was switched off.*after 2 steps"):
            fly(field, [MIDDLE], Straight(10), watch=lose_control(service))


@pytest.mark.parametrize("method", ["takeoff", "moveToZ"])
def test_a_take_off_that_is_refused_is_told_at_once(method, monkeypatch):
    monkeypatch.setitem(CALLS, method, refused)
    with serving(LAYOUT, speed=4.0) as (_, port), AirSimField(port=port, options=QUICK) as field:
        begin = time.monotonic()
        with pytest.raises(FlightLost, match="the vehicle has gone"):
            field.take_off()
        assert time.monotonic() - begin < 2.0


def test_a_vehicle_that_cannot_be_armed_is_told(monkeypatch):
    monkeypatch.setitem(CALLS, "armDisarm", lambda service, *arguments: False)
    with serving(LAYOUT) as (_, port), pytest.raises(FlightLost, match="the vehicle could not be armed"):
        AirSimField(port=port, options=QUICK)


def test_a_climb_may_take_longer_than_an_answer():
    with serving(LAYOUT, speed=1.0) as (_, port):
        patient = {"config": SimulatorConfig(altitude=8.0), "options": AirSimOptions(timeout_s=1)}
        with AirSimField(port=port, layout=LAYOUT, **patient) as field:
            field.take_off()
            assert field.reset(torch.tensor([[25.0, 25.0, 0.0]])).pose_world[0, 2] == pytest.approx(8.0, abs=0.2)


def test_connections_are_closed_for_good():
    session = pytest.importorskip("msgpackrpc").Client

    def num_sessions():
        gc.collect()
        return sum(type(one) is session for one in gc.get_objects())

    begin = num_sessions()
    with serving(LAYOUT, limits=Limits(clients=2)) as (_, port):
        for _ in range(2):
            with AirSimField(port=port, layout=LAYOUT, options=QUICK) as field:
                field.reset(torch.tensor([MIDDLE.start]))
                for _ in range(4):
                    assert field.hover()
                    time.sleep(0.05)  # until the server has noticed
            time.sleep(0.05)
    del field
    assert num_sessions() <= begin + 2, "the last two of ten go when their loop runs again"


def run(command):
    main(shlex.split(command)[1:])


def test_pvn_fly_flies_an_instruction_over_airsim(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with serving(LAYOUT) as (_, port):
        run(f'pvn fly "go to the soldier" --simulator airsim://127.0.0.1:{port} --stepped --out out')
    assert "go to the soldier" in capsys.readouterr().out
    log = json.loads(Path("out/flight_airsim.json").read_text())
    assert log["instruction"] == "go to the soldier" and len(log["poses"]) == len(log["actions"]) + 1


class Broken:
    """Fails at its third step, of something that is no connection's fault."""

    def begin(self, tasks, device):
        return 0

    def act(self, observation, memory):
        return torch.tensor([[2.0, 0.0 / (2 - memory), 0.0]]), memory + 1


def test_whatever_ends_a_flight_the_drone_hovers_and_the_world_goes_on(calls, tmp_path):
    system = System("broken", Broken(), SimulatorConfig(), "broken")
    with serving(LAYOUT) as (service, port):
        with pytest.raises(ZeroDivisionError):
            fly_over_airsim(f"airsim://127.0.0.1:{port}", "go on", system, tmp_path, is_stepped=True)
        assert calls[-1] == "hover" and not service.world.is_paused
    assert len(json.loads((tmp_path / "flight_airsim.json").read_text())["actions"]) == 2


def test_a_rival_flies_over_airsim_under_its_own_name_with_its_own_camera(tmp_path, monkeypatch, capsys):
    rival, cameras = make_system("gsmn").policy, []
    rival.model.config = replace(rival.model.config, camera=Camera(horizontal_view=math.radians(80)))

    class Noted(AirSimField):
        def __init__(self, *arguments, config, **options):
            cameras.append(config.camera)
            super().__init__(*arguments, config=config, **options)

    monkeypatch.setattr("pvn.cli.flying._pilot", lambda *arguments: rival)
    monkeypatch.setattr("pvn.bridges.airsim.field.AirSimField", Noted)
    with serving(LAYOUT) as (_, port):
        run(
            f'pvn fly "go to the soldier" --pilot gsmn --simulator airsim://127.0.0.1:{port} --stepped --out {tmp_path}'
        )
    assert f"gsmn at airsim://127.0.0.1:{port}" in capsys.readouterr().out
    assert cameras == [rival.model.config.camera]


@pytest.mark.parametrize(
    "option",
    "--seed=2 --segment=1 --corpus=c --file=f.json --start=1,2,0 --device=cuda --quality=fast --save=s".split(),
)
def test_options_that_another_world_would_ignore_are_refused(option, capsys):
    name, value = option[2:].split("=")
    with pytest.raises(SystemExit):
        run(f'pvn fly "go on" --simulator airsim://127.0.0.1:1 --{name} {value.replace(",", " ")}')
    message = capsys.readouterr().err
    assert f"{name}: got " in message and f"leave --{name} out, or --simulator" in message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('"go on" --stepped', "stepped: got no other world to pause, expected --simulator"),
        ('"go on" --simulator http://127.0.0.1:1', "expected airsim://HOST:PORT"),
        ('"go on" --simulator airsim://127.0.0.1:many', "expected airsim://HOST:PORT"),
        ('"go on" --simulator airsim://127.0.0.1:1', "Is the simulator running"),
        ("--simulator airsim://127.0.0.1:1", "instruction: got none, expected one"),
    ],
)
def test_pvn_fly_says_what_is_wrong(arguments, words, capsys):
    with pytest.raises(SystemExit):
        run(f"pvn fly {arguments}")
    assert words in capsys.readouterr().err


def test_a_port_that_is_taken_is_named(capsys):
    with serving(LAYOUT) as (_, port), pytest.raises(SystemExit):
        run(f"pvn serve airsim --port {port}")
    assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err
