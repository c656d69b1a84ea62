"""Our agent flies our own autopilot through MAVSDK, and every reason to end a flight ends it."""

import itertools
import json
import math
import socket
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

pytest.importorskip("mavsdk", reason='needs MAVSDK: pip install "pvn-drone[mavlink]"')
pytest.importorskip("cv2", reason='needs OpenCV: pip install "pvn-drone[mavlink]"')

from pvn.bridges import FlightAborted, Limits, MavlinkField, MavlinkOptions
from pvn.bridges.mavlink.autopilot import PARAMETERS, Autopilot, enter
from pvn.bridges.mavlink.calibration import calibration_like
from pvn.bridges.mavlink.link import AutopilotLink
from pvn.bridges.mavlink.modes import Mode
from pvn.bridges.mavlink.targets import Target
from pvn.bridges.shared.frames import rotation_from_yaw
from pvn.corpus.meadow.generator import sample_paragraph
from pvn.evaluation.intervals import bootstrap_mean
from pvn.geometry import Camera
from pvn.rollout.flight import fly
from pvn.simulator.simulator import simulator_for
from pvn.world.task import SUCCESS_M, Task

PATIENT = Limits(telemetry_timeout_s=30.0, camera_timeout_s=30.0)
"""For a machine that is busy with other tests."""


def connect(served, layout, **options):
    """Our side of a bridge to an autopilot, armed unless it says otherwise."""
    chosen = {"address": served.address, "camera": served.camera_url, "arm": True, "limits": PATIENT, **options}
    return MavlinkField(MavlinkOptions(**chosen), layout=layout)


class Forward:
    """Flies ahead, turning a little, and stops after some steps."""

    def __init__(self, num_steps=1000):
        self.num_steps = num_steps

    def begin(self, tasks, device):
        return 0

    def act(self, observation, memory):
        return torch.tensor([[1.5, 0.2, float(memory + 1 >= self.num_steps)]]), memory + 1


def hover_at_once(served, position=(20.0, 20.0, 5.0), yaw=0.5, parameters=None):
    """Put the drone into the air, holding, to save the time of a take-off."""
    has_happened = threading.Event()

    def put():
        drone = served.drone
        drone.vehicle.teleport(position, rotation_from_yaw(yaw))
        drone.vehicle.start_motion(drone._motion)
        drone.autopilot = Autopilot(
            is_armed=True, is_landed=False, home=position, updated_at=drone.vehicle.state.time_s,
            parameters=drone.autopilot.parameters if parameters is None else parameters,
            target=Target(place=position[:2], altitude=position[2]),
        )  # fmt: skip
        has_happened.set()

    served.call(put)
    assert has_happened.wait(60)


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


@pytest.mark.long
@pytest.mark.parametrize("firmware", ["px4", "ardupilot"])
def test_it_arms_takes_off_flies_stops_and_holds(firmware, fly_drone, layout):
    with fly_drone(speed=3.0, start=(15.0, 20.0, 0.3), autopilot=firmware) as served:
        with connect(served, layout) as field:
            start = field.take_off()
            assert start == pytest.approx((15.0, 20.0, 0.3), abs=0.3)
            log = fly(field, [Task(layout, start, "go on")], Forward(4))
            assert field.hover()
            wait_until(lambda: served.drone.autopilot.mode is Mode.HOLD)
        assert int(log.num_steps[0]) == 4 and bool(log.has_stopped[0])
        assert (log.pose_world[0, :, 2] - 5).abs().max() < 0.5
        assert 0.5 < float(log.distance_flown()[0]) < 10 and float(log.pose_world[0, -1, 5]) > 0.3


@pytest.mark.long
def test_a_dry_run_sends_nothing_and_shows_what_it_would_send(fly_drone, layout):
    with fly_drone(speed=3.0) as served:
        with connect(served, layout, arm=False) as field:
            fly(field, [Task(layout, field.take_off(), "go on")], Forward(3))
            field.hover()
        assert served.drone.autopilot.offered is None and not served.drone.autopilot.is_armed
        assert served.drone.vehicle.is_landed
        assert max(one.velocity.forward for one in field.sent) == pytest.approx(1.5)


def lose_telemetry(served):
    served.stop_clock()


def lose_camera(served):
    served.call(served.stop_pictures)


def freeze_camera(served):
    frozen = served.stream._picture()
    served.stream._picture = lambda: frozen


def empty_battery(served):
    served.drone.autopilot = replace(served.drone.autopilot, battery=0.2)


def take_over(served):
    served.drone.autopilot, _ = enter(served.drone.autopilot, Mode.PILOT, served.drone.vehicle.state)


def blow_away(served):
    served.drone.vehicle.teleport((58.0, 58.0, 5.0), rotation_from_yaw(0.5))
    served.drone.vehicle.start_motion(served.drone._motion)


def lift_up(served):
    served.drone.vehicle.teleport((20.0, 20.0, 25.0), rotation_from_yaw(0.5))
    served.drone.vehicle.start_motion(served.drone._motion)


def wait_as_shipped(served):
    served.drone.autopilot = replace(served.drone.autopilot, parameters=PARAMETERS)


def disarm(served):
    """By a kill switch, as our autopilot does not disarm in the air when asked."""
    served.drone.autopilot = replace(served.drone.autopilot, is_armed=False)


DEAF, BLIND = replace(PATIENT, telemetry_timeout_s=3.0), replace(PATIENT, camera_timeout_s=3.0)
"""Limits that end a flight soon for one reason, and late for the others, on a machine that may be busy."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("cause", "limits", "reason", "mode"),
    [
        (lose_telemetry, DEAF, "no telemetry", None),
        (lose_camera, BLIND, "no new picture", Mode.HOLD),
        (freeze_camera, BLIND, "the picture has not changed", Mode.HOLD),
        (empty_battery, PATIENT, "the battery is at 20%", Mode.LAND),
        (take_over, PATIENT, "the flight mode was changed to POSCTL", Mode.PILOT),
        (disarm, PATIENT, "the drone was disarmed; nothing more is sent", None),
        (blow_away, PATIENT, "m from its start, the fence 40 m", Mode.HOLD),
        (lift_up, PATIENT, "m high, the ceiling 15 m", Mode.HOLD),
    ],
)
def test_each_reason_ends_the_flight_and_the_autopilot_takes_over(cause, limits, reason, mode, fly_drone, layout):
    with fly_drone(speed=2.0, quality="fast") as served:
        hover_at_once(served)
        with connect(served, layout, limits=limits) as field:
            task = Task(layout, field.take_off(), "go on")

            def watch(step, observation, action, memory):
                if step == 1:
                    served.call(cause, served)

            with pytest.raises(FlightAborted, match=reason):
                fly(field, [task], Forward(), watch=watch)
            assert field.hover() and len(field.log().action[0]) >= 1, "the flight so far is kept"
            num_sent = len(field.sent)
            if mode is not None:
                wait_until(lambda: served.drone.autopilot.mode is mode)
            time.sleep(0.2)
            assert len(field.sent) == num_sent, "set-points have ended"


@pytest.mark.long
def test_the_agent_is_told_where_the_drone_was_when_a_late_picture_was_taken(fly_drone, layout, tmp_path):
    latency_s, yaws = 0.6, []
    """The camera's latency; and when, on the monotonic clock, the drone had which yaw, radians."""

    def age_of(yaw, now):
        """How long ago, seconds, the turning drone last had a yaw."""
        near = [moment for moment, one in list(yaws) if abs(math.remainder(one - yaw, 2 * math.pi)) < 0.02]
        return now - max(near, default=-math.inf)

    calibration, path = replace(calibration_like(Camera(), 128, 72), latency_s=latency_s), tmp_path / "camera.json"
    path.write_text(json.dumps(vars(calibration)))
    with fly_drone(quality="fast") as served:
        hover_at_once(served)
        served.after_each_tick(lambda: yaws.append((time.monotonic(), served.drone.vehicle.state.yaw)))
        with connect(served, layout, calibration=path) as field:
            field.reset(torch.tensor([field.take_off()]))
            ages = []
            # A busy machine hears and sees some poses and pictures late, but none early: five good steps are enough.
            for step in range(60):
                told = float(field.step(torch.tensor([[0.0, 0.8, 0.0]])).pose_world[0, 5])
                if step < 2:  # it has hardly begun to turn
                    continue
                ages.append(age_of(told, time.monotonic()))
                good = [age for age in ages if latency_s - 0.05 < age < latency_s + 0.15]
                if len(good) == 5:
                    break
            field.hover()
    assert len(good) == 5 and min(ages) > latency_s - 0.2, ages


@pytest.mark.long
def test_a_pilot_who_takes_over_during_take_off_keeps_the_drone(fly_drone, layout):
    with fly_drone(speed=2.0, quality="fast") as served:

        def take_over_in_the_air():
            if served.drone.vehicle.state.position[2] > 0.6 and served.drone.autopilot.mode is Mode.TAKEOFF:
                take_over(served)

        served.after_each_tick(take_over_in_the_air)
        with connect(served, layout) as field:
            with pytest.raises(FlightAborted, match="the flight mode was changed to POSCTL"):
                field.take_off()
            assert field.hover()
        assert served.drone.autopilot.mode is Mode.PILOT and served.drone.autopilot.offered is None


@pytest.mark.long
def test_a_client_that_dies_leaves_a_drone_that_holds(fly_drone, layout):
    """Set-points end with the process, here with the connection, and the autopilot's own failsafe holds."""
    with fly_drone(speed=2.0, quality="fast") as served:
        hover_at_once(served)
        with connect(served, layout) as field:
            field.take_off()
        assert served.drone.autopilot.mode is Mode.OFFBOARD
        served.call(wait_as_shipped, served)
        wait_until(lambda: served.drone.autopilot.mode is Mode.HOLD)
        assert served.drone.autopilot.is_armed and not served.drone.vehicle.is_landed


@pytest.mark.long
def test_an_interrupted_flight_holds(fly_drone, layout):
    class Interrupted(Forward):
        def act(self, observation, memory):
            if memory == 2:
                raise KeyboardInterrupt
            return super().act(observation, memory)

    with fly_drone(speed=2.0, quality="fast") as served:
        hover_at_once(served)
        with connect(served, layout) as field:
            with pytest.raises(KeyboardInterrupt):
                fly(field, [Task(layout, field.take_off(), "go on")], Interrupted())
            assert served.drone.autopilot.mode is Mode.OFFBOARD
            assert field.hover()
            wait_until(lambda: served.drone.autopilot.mode is Mode.HOLD)


@pytest.mark.long
def test_an_agent_that_only_wants_on_stays_inside_the_fence(fly_drone, layout):
    with fly_drone(quality="fast") as served:
        hover_at_once(served)

        class Ahead(Forward):
            def act(self, observation, memory):
                return torch.tensor([[3.0, 0.0, 0.0]]), memory + 1

        with connect(served, layout, limits=replace(PATIENT, fence=4.0)) as field:
            task = Task(layout, field.take_off(), "go on")
            log = fly(field, [task], Ahead(), horizon=10)
            field.hover()
    away = (log.pose_world[0, :, :2] - torch.tensor(task.start[:2])).norm(dim=-1)
    assert 2.0 < float(away.max()) < 5.0


@pytest.mark.parametrize("place", ["127.0.0.1:{}", "udpin://127.0.0.1:{}"])
def test_an_address_that_is_none_or_in_use_is_refused_at_once(place):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        with pytest.raises(ValueError, match=r"address: cannot use .* expected one such as udpin://0.0.0.0:14540"):
            AutopilotLink(place.format(other.getsockname()[1]))


def test_an_altitude_outside_floor_and_ceiling_is_refused_before_anything_is_opened():
    from pvn.simulator.interface import SimulatorConfig

    with pytest.raises(ValueError, match="altitude: got 30 m, expected 2 to 15 m"):
        MavlinkField(MavlinkOptions(camera="nowhere"), config=SimulatorConfig(altitude=30.0))


@pytest.mark.slow
def test_over_50_flights_the_success_rate_is_within_the_confidence_interval_of_the_native_one(fly_drone, shipped_pvn):
    paragraphs = (sample_paragraph(seed) for seed in range(100, 120))
    segments = list(itertools.islice(itertools.chain.from_iterable(paragraphs), 50))

    def has_succeeded(log, segment):
        distance = float(log.goal_distance([segment.demonstration.goal])[0])
        return bool(log.has_stopped[0]) and distance < SUCCESS_M

    # With the limits that are shipped, in real time: this takes ten minutes of a machine with nothing else to do.
    natively, over_mavlink = [], []
    for segment in segments:
        task = segment.task
        native = fly(simulator_for([task]), [task], shipped_pvn, horizon=40)
        with fly_drone(task.layout) as served:
            hover_at_once(served, (*task.start[:2], 5.0), task.start[2], PARAMETERS)
            with connect(served, task.layout, limits=Limits()) as field:
                field.take_off()
                log = fly(field, [task], shipped_pvn, horizon=40)
                field.hover()
        natively.append(has_succeeded(native, segment))
        over_mavlink.append(has_succeeded(log, segment))
    interval, rate = bootstrap_mean(np.array(natively)), np.mean(over_mavlink)
    assert interval.low <= rate <= interval.high, f"native {interval}, over MAVLink {rate:.2f}"
