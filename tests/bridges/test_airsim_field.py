"""Our agent in an AirSim world: through the unmodified client, over our own server, it flies as it does natively."""

import asyncio
import gc
import itertools
import math

import numpy as np
import pytest
import torch

pytest.importorskip("cosysairsim", reason='needs the AirSim client: pip install "pvn-drone[airsim]"')

from pvn.bridges import AirSimField, AirSimOptions, FlightAborted
from pvn.bridges.airsim.api import CALLS
from pvn.bridges.airsim.field import SETPOINT_INTERVAL_S
from pvn.bridges.airsim.protocol import Limits
from pvn.bridges.shared.frames import roll_pitch_yaw
from pvn.corpus.meadow.generator import sample_paragraph
from pvn.evaluation.intervals import bootstrap_mean
from pvn.geometry import Camera
from pvn.rollout.flight import fly
from pvn.simulator.simulator import simulator_for
from pvn.world.task import SUCCESS_M, Task

MIDDLE = (25.0, 25.0, 0.5)

pytestmark = pytest.mark.usefixtures("patient_hover")


def connect(served, layout=None, *, can_teleport=True, **options):
    """Our side of a bridge to a served field; a busy machine has all the time it needs."""
    chosen = AirSimOptions(**{"port": served.port, "camera": "pvn", "stepped": True, "timeout_s": 60, **options})
    return AirSimField(chosen, layout=layout, can_teleport=can_teleport)


@pytest.fixture
def task(layout):
    return Task(layout, MIDDLE, "go on")


@pytest.fixture
def fly_over_server(serve):
    """A function that flies tasks over AirSim and returns their logs; tasks that share a field share a server."""

    def fly_tasks(tasks, policy, horizon):
        logs = []
        for _, group in itertools.groupby(tasks, key=lambda task: id(task.layout)):
            in_field = list(group)
            with serve(in_field[0].layout) as served:
                with connect(served, in_field[0].layout) as field:
                    field.take_off()
                    logs += [fly(field, [task], policy, horizon=horizon) for task in in_field]
        return logs

    return fly_tasks


@pytest.mark.long
def test_the_agent_flies_over_airsim_as_it_does_natively(fly_over_server, paragraph, shipped_pvn):
    tasks = [segment.task for segment in paragraph[:3]]
    # A micrometre changes a pixel here and there, and differences grow with every plan. Of 45 native flights that began
    # micrometres elsewhere, nine in ten had actions within 6e-4 during the first plan, and 6e-3 during the second.
    for task, log in zip(tasks, fly_over_server(tasks, shipped_pvn, 10), strict=True):
        native = fly(simulator_for([task]), [task], shipped_pvn, horizon=10)
        assert log.num_steps.equal(native.num_steps) and log.has_stopped.equal(native.has_stopped)
        assert (log.pose_world - native.pose_world).abs().max() < 1e-2
        difference = (log.action - native.action).abs()
        assert difference[:, : shipped_pvn.plan_every].max() < 1e-3 and difference.max() < 1e-2


class SharpTurns:
    """Flies at full speed and turns sharply, mostly left."""

    def begin(self, tasks, device):
        return 0

    def act(self, observation, memory):
        return torch.tensor([[3.0, 1.0 if memory % 6 < 4 else -1.0, 0.0]]), memory + 1


@pytest.mark.long
def test_sharp_turns_are_flown_over_airsim_as_they_are_natively(fly_over_server, task):
    (log,) = fly_over_server([task], SharpTurns(), 12)
    native = fly(simulator_for([task]), [task], SharpTurns(), horizon=12)
    assert native.pose_world[0, :, 5].max() - native.pose_world[0, :, 5].min() > 2, "radians"
    assert (log.pose_world - native.pose_world).abs().max() < 1e-3


@pytest.mark.slow
def test_over_50_flights_the_success_rate_is_within_the_confidence_interval_of_the_native_one(
    fly_over_server, shipped_pvn
):
    paragraphs = (sample_paragraph(seed) for seed in range(100, 120))
    segments = list(itertools.islice(itertools.chain.from_iterable(paragraphs), 50))
    tasks = [segment.task for segment in segments]

    def has_succeeded(log, segment):
        distance = float(log.goal_distance([segment.demonstration.goal])[0])
        return bool(log.has_stopped[0]) and distance < SUCCESS_M

    natively = [fly(simulator_for([task]), [task], shipped_pvn, horizon=40) for task in tasks]
    over_airsim = fly_over_server(tasks, shipped_pvn, 40)
    interval = bootstrap_mean(np.array([has_succeeded(*pair) for pair in zip(natively, segments, strict=True)]))
    rate = np.mean([has_succeeded(*pair) for pair in zip(over_airsim, segments, strict=True)])
    assert interval.low <= rate <= interval.high, f"native {interval}, over AirSim {rate:.2f}"


class GentleTurn:
    """Flies forward, turning a little, and stops after some steps."""

    def __init__(self, num_steps):
        self.num_steps = num_steps

    def begin(self, tasks, device):
        return 0

    def act(self, observation, memory):
        is_last = memory + 1 >= self.num_steps
        return torch.tensor([[2.0, 0.3, float(is_last)]]), memory + 1


@pytest.mark.long
def test_in_real_time_it_flies_stops_and_hovers(serve, layout, recorded_calls):
    with serve(speed=2.0) as served, connect(served, layout, stepped=False, can_teleport=False) as field:
        start = field.take_off()
        assert start == pytest.approx((25, 25, math.pi / 2), abs=0.05)
        start_s = served.host.vehicle.state.time_s
        log = fly(field, [Task(layout, start, "go on")], GentleTurn(4))
        assert int(log.num_steps[0]) == 4 and bool(log.has_stopped[0])
        # On a busy machine a step may take longer than half a second of simulated time, and the drone flies further.
        assert 0.5 < float(log.distance_flown()[0]) < 2.0 * (served.host.vehicle.state.time_s - start_s)
        assert (log.pose_world[0, :, 2] - 5).abs().max() < 0.3
        assert recorded_calls[-4:].count("hover") == 1
        assert "simPause" not in recorded_calls[recorded_calls.index("takeoff") :]
        assert field.log().pose_world.equal(log.pose_world)


def test_the_larger_wider_image_of_another_camera_is_turned_into_one_of_ours(serve, layout):
    wide = Camera(width=400, height=300, horizontal_view=math.radians(110), tilt=0.0)
    start = torch.tensor([MIDDLE])
    with serve() as served, connect(served, layout) as field:
        expected = field.reset(start)
    with serve(camera=wide) as served, connect(served, layout) as field:
        mounted = served.host.find_drone("").find_camera("pvn")
        assert roll_pitch_yaw(mounted.rotation)[1] == pytest.approx(-math.radians(15)), "it was tilted, nose down"
        observation = field.reset(start)
    assert observation.image.shape == expected.image.shape == (1, 72, 128, 3)
    assert (observation.pose_world - expected.pose_world).abs().max() < 1e-5
    assert (observation.image.float() - expected.image.float()).abs().mean() < 6.0


def test_if_the_camera_may_not_be_tilted_the_pose_is_pitched_instead(serve, layout):
    with serve(camera=Camera(tilt=0.0)) as served:
        with connect(served, layout, keep_camera=True) as field:
            pose = field.reset(torch.tensor([MIDDLE])).pose_world[0]
    assert pose[4] == pytest.approx(-math.radians(15), abs=1e-6), "nose up, so that our tilted camera would be level"


def test_an_airsim_server_of_version_1_gets_the_number_of_arguments_it_expects(serve, layout, task, monkeypatch):
    def counting(name, num_arguments):
        function = CALLS[name]

        def call(host, *arguments):
            if len(arguments) != num_arguments:
                raise ValueError(f"rpclib: server could not find function '{name}' with argument count")
            return function(host, *arguments)

        return call

    monkeypatch.setitem(CALLS, "getServerVersion", lambda host: 1)
    for name, num_arguments in [("simGetImages", 3), ("simGetCameraInfo", 3), ("simSetCameraPose", 4)]:
        monkeypatch.setitem(CALLS, name, counting(name, num_arguments))
    with serve(camera=Camera(tilt=0.0)) as served:
        with connect(served, layout) as field:
            assert int(fly(field, [task], GentleTurn(2)).num_steps[0]) == 2


def test_a_missing_server_is_reported():
    with pytest.raises(FlightAborted, match="127.0.0.1:1: .*could not be told to hover.*Is the simulator running"):
        AirSimField(AirSimOptions(port=1))


def test_an_unknown_vehicle_or_camera_is_named(serve):
    with serve() as served:
        with pytest.raises(ValueError, match="vehicle: got 'Drone7', expected one of SimpleFlight"):
            connect(served, vehicle="Drone7")
        with pytest.raises(FlightAborted, match="camera: got 'back', expected one of 0"):
            connect(served, camera="back")


def test_a_start_far_from_the_drone_is_refused(serve, layout):
    with serve() as served, connect(served, layout, can_teleport=False) as field:
        with pytest.raises(ValueError, match="the drone is 10.0 m away; start the task where take_off"):
            fly(field, [Task(layout, (35.0, 25.0, 0.0), "go on")], GentleTurn(2))


def after(num_calls, usual, then):
    """A call that is answered as usual a number of times, and otherwise from then on."""
    left = [num_calls]

    def call(host, *arguments):
        left[0] -= 1
        return usual(host, *arguments) if left[0] >= 0 else then(host, *arguments)

    return call


def empty_image(host, *arguments):
    pose = {"camera_position": {"x_val": 0, "y_val": 0, "z_val": 0}, "camera_orientation": {}}
    return [{"width": 0, "height": 0, "image_data_uint8": b"\0", **pose}]


def no_images(host, *arguments):
    return []


def never(host, *arguments):
    return asyncio.get_running_loop().create_future()


def refuse(host, *arguments):
    raise ValueError("the vehicle is gone")


@pytest.mark.parametrize(
    ("method", "then", "words"),
    [
        ("simGetImages", empty_image, "simGetImages: got 1 bytes for 0 x 0 pixels, expected an image"),
        ("simGetImages", no_images, "simGetImages: got no image"),
        pytest.param("simGetImages", never, "Request timed out", marks=pytest.mark.long),
        ("simGetImages", refuse, "the vehicle is gone"),
        ("getMultirotorState", refuse, "the vehicle is gone"),
    ],
)
def test_if_a_call_fails_the_drone_hovers_and_the_flight_so_far_is_kept(
    method, then, words, serve, layout, task, recorded_calls, monkeypatch
):
    # An answer that never comes has to be waited for; the others leave a busy machine all the time it may need.
    with serve() as served, connect(served, layout, timeout_s=5 if then is never else 60) as field:
        num_usual = 3 if method == "simGetImages" else 1 + 2 * (round(0.5 / SETPOINT_INTERVAL_S) + 2)
        monkeypatch.setitem(CALLS, method, after(num_usual, CALLS[method], then))
        with pytest.raises(FlightAborted, match=words + ".*was told to hover after step 2"):
            fly(field, [task], GentleTurn(10))
        assert recorded_calls[-1] == "hover" and not served.host.is_paused
        log = field.log()
    assert int(log.num_steps[0]) == 2 and log.pose_world.shape == (1, 3, 6) and not bool(log.has_stopped[0])


def at_step(number, action):
    """A watch of `fly` that does something before one of the steps."""

    def watch(step, observation, command, memory):
        if step == number:
            action()

    return watch


def test_if_the_connection_is_lost_the_flight_so_far_is_kept(serve, layout, task):
    with serve() as served, connect(served, layout) as field:
        with pytest.raises(FlightAborted, match="could not be told to hover after step 2"):
            fly(field, [task], GentleTurn(10), watch=at_step(2, served.close))
        assert int(field.log().num_steps[0]) == 2


def switching_control_off(served):
    """A watch of `fly`: after two steps another script takes API control away."""
    return at_step(2, lambda: setattr(served.host.vehicle, "has_api_control", False))


@pytest.mark.long
@pytest.mark.parametrize(("stepped", "speed"), [(True, math.inf), (False, 4.0)])
def test_a_refused_set_point_ends_the_flight(serve, layout, task, stepped, speed):
    with serve(speed=speed) as served, connect(served, layout, stepped=stepped) as field:
        with pytest.raises(FlightAborted, match="API control is off.*could not be told to hover after step 2"):
            fly(field, [task], GentleTurn(10), watch=switching_control_off(served))


def test_a_set_point_that_is_answered_but_not_flown_ends_the_flight(serve, layout, task, monkeypatch):
    monkeypatch.setitem(CALLS, "moveByVelocityZBodyFrame", lambda host, *arguments: False)
    with serve() as served, connect(served, layout) as field:
        with pytest.raises(FlightAborted, match="API control was switched off.*after step 2"):
            fly(field, [task], GentleTurn(10), watch=switching_control_off(served))


@pytest.mark.long
@pytest.mark.parametrize("method", ["takeoff", "moveToZ"])
def test_the_reason_for_a_refused_take_off_is_reported(serve, method, monkeypatch):
    monkeypatch.setitem(CALLS, method, refuse)
    with serve(speed=4.0) as served, connect(served) as field:
        with pytest.raises(FlightAborted, match="the vehicle is gone"):
            field.take_off()


def test_a_vehicle_that_cannot_be_armed_is_reported(serve, monkeypatch):
    monkeypatch.setitem(CALLS, "armDisarm", lambda host, *arguments: False)
    with serve() as served, pytest.raises(FlightAborted, match="the vehicle could not be armed"):
        connect(served)


@pytest.mark.long
def test_a_climb_may_outlast_the_time_out_of_answers(serve, layout, monkeypatch):
    with serve(speed=1.0) as served:
        with connect(served, layout, camera="0", stepped=False, can_teleport=False) as field:
            climb, answers = field._client.moveToZAsync, []

            def climb_with_short_timeout(*arguments, **options):
                answers.append(climb(*arguments, **options))
                answers[0]._timeout = 0  # the client gives up after a second; a climb takes longer
                return answers[0]

            monkeypatch.setattr(field._client, "moveToZAsync", climb_with_short_timeout)
            field.take_off()
            assert field.reset(torch.tensor([[25.0, 25.0, 0.0]])).pose_world[0, 2] == pytest.approx(5.0, abs=0.2)
            assert "timed out" in str(answers[0].error)


@pytest.mark.long
def test_connections_are_closed_for_good(serve, layout, wait_until):
    session = pytest.importorskip("msgpackrpc").Client

    def num_sessions():
        gc.collect()
        return sum(type(one) is session for one in gc.get_objects())

    num_before = num_sessions()
    with serve(limits=Limits(max_clients=2)) as served:
        for _ in range(2):
            with connect(served, layout) as field:
                field.reset(torch.tensor([MIDDLE]))
                for _ in range(4):
                    assert field.hover()
                    wait_until(lambda: served.server.num_clients == 1)
            wait_until(lambda: served.server.num_clients == 0)
    del field
    assert num_sessions() <= num_before + 2, "the last two of ten are freed when their event loop runs again"
