"""The quadcopter: it flies as commanded, within its limits, and as an independent simulator says."""

import math

import numpy as np
import pytest
import torch

from pvn.compiling import from_python
from pvn.simulator import quadcopter
from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.quadcopter import (
    GRAVITY,
    QUATERNION,
    RATES,
    ROTORS,
    SUBSTEP_SECONDS,
    Airframe,
    hover_rotor_speed,
)
from pvn.simulator.simulator import Simulator
from pvn.world.layout import sample_layout

body_wrench, controller, fly, move_body, rotate_to_world = map(
    from_python,
    (quadcopter.body_wrench, quadcopter.controller, quadcopter.fly, quadcopter.move_body, quadcopter.rotate_to_world),
)
BLIND = SimulatorConfig(quality="none")


def flown(actions, start=(25.0, 25.0, 0.0), config=BLIND):
    """Poses (T + 1, 6) and velocities (T + 1, 3) of one flight."""
    simulator = Simulator([sample_layout(0)], 1, config=config)
    seen = [simulator.reset(torch.tensor([start]))]
    seen += [simulator.step(torch.tensor([action])) for action in actions]
    return torch.cat([one.pose_world for one in seen]), torch.cat([one.velocity_world for one in seen])


def test_hovering_rotors_carry_the_weight():
    airframe = Airframe()
    assert 4 * airframe.thrust * hover_rotor_speed(airframe) ** 2 == pytest.approx(airframe.mass * GRAVITY)


def test_without_commands_it_stays_where_it_is():
    poses, velocities = flown([(0.0, 0.0, 0.0)] * 10)
    assert torch.allclose(poses, poses[:1].expand_as(poses), atol=1e-4)
    assert velocities.abs().max() < 1e-4


def test_forward_goes_along_the_heading_and_reaches_the_commanded_speed():
    poses, velocities = flown([(2.0, 0.0, 0.0)] * 8, start=(10.0, 10.0, math.pi / 2))
    assert poses[-1, 1] > 16 and abs(poses[-1, 0] - 10) < 1e-3
    assert velocities[-1, 1] == pytest.approx(2.0, abs=0.05)


def test_it_leans_forward_to_speed_up_and_back_to_brake():
    poses, _ = flown([(3.0, 0.0, 0.0)] * 6 + [(0.0, 0.0, 0.0)])
    assert poses[1, 4] > math.radians(5), "nose down while it speeds up"
    assert poses[-1, 4] < -math.radians(5), "nose up while it brakes"
    assert poses[:, 3:5].abs().max() < math.radians(25)


def test_positive_yaw_rate_turns_left_at_the_commanded_rate():
    poses, _ = flown([(0.0, 0.8, 0.0)] * 4)
    turned = poses[-1, 5] - poses[1, 5]
    assert turned == pytest.approx(0.8 * 1.5, rel=0.03)


def test_altitude_is_held_while_manoeuvring():
    poses, _ = flown([(3.0, 0.0, 0.0), (0.0, 1.0, 0.0), (3.0, -1.0, 0.0), (1.0, 1.0, 0.0)] * 5)
    assert (poses[:, 2] - 5).abs().max() < 0.15


def test_commands_outside_the_limits_are_clamped():
    wild, _ = flown([(99.0, 99.0, 0.0)] * 4 + [(-99.0, -99.0, 0.0)] * 4)
    limit, _ = flown([(3.0, BLIND.max_yaw_rate, 0.0)] * 4 + [(0.0, -BLIND.max_yaw_rate, 0.0)] * 4)
    assert torch.equal(wild, limit)


def test_stop_brakes_to_a_hover_whatever_the_other_commands_say():
    poses, velocities = flown([(3.0, 0.0, 0.0)] * 6 + [(3.0, 1.0, 1.0)] * 6)
    assert velocities[-1].norm() < 0.02
    assert (poses[-1] - poses[-2]).abs().max() < 0.02


def test_it_cannot_fly_further_than_10_m_beyond_the_fence():
    poses, velocities = flown([(3.0, 0.0, 0.0)] * 40, start=(45.0, 25.0, 0.0))
    assert poses[-1, 0] == pytest.approx(60.0) and velocities[-1, 0] <= 1e-6


def test_it_cannot_sink_into_the_ground():
    # An altitude of nearly nothing is flown into the ground's stop, not through it.
    low = SimulatorConfig(quality="none", altitude=0.1)
    poses, _ = flown([(3.0, 1.0, 0.0), (0.0, 0.0, 0.0)] * 10, config=low)
    assert poses[1:, 2].min() >= 0.1 - 1e-6


def rotorpy_vehicle(airframe):
    """RotorPy's multirotor with our mass, inertia, arm, thrust, torque, drag and motor constants."""
    from rotorpy.vehicles.multirotor import Multirotor

    lever = airframe.arm * math.sqrt(0.5)
    places = [(lever, lever), (lever, -lever), (-lever, -lever), (-lever, lever)]
    return Multirotor(
        {
            "mass": airframe.mass, "Ixx": airframe.inertia_x, "Iyy": airframe.inertia_y, "Izz": airframe.inertia_z,
            "Ixy": 0.0, "Iyz": 0.0, "Ixz": 0.0, "num_rotors": 4,
            "rotor_pos": {f"r{i + 1}": np.array([x, y, 0.0]) for i, (x, y) in enumerate(places)},
            "rotor_directions": np.array([1, -1, 1, -1]),
            "c_Dx": airframe.frame_drag_xy, "c_Dy": airframe.frame_drag_xy, "c_Dz": airframe.frame_drag_z,
            "k_eta": airframe.thrust, "k_m": airframe.torque, "k_d": airframe.rotor_drag, "k_z": airframe.inflow_drag,
            "k_h": airframe.lift, "k_flap": 0.0, "tau_m": airframe.motor_lag,
            "rotor_speed_min": airframe.rotor_min, "rotor_speed_max": airframe.rotor_max, "motor_noise_std": 0.0,
        },
        control_abstraction="cmd_motor_speeds",
        integrator_kwargs={"method": "RK23"},
    )  # fmt: skip


def rotorpy_hover(airframe, x, y, z):
    return {
        "x": np.array([x, y, z]), "v": np.zeros(3), "q": np.array([0.0, 0.0, 0.0, 1.0]), "w": np.zeros(3),
        "wind": np.zeros(3), "rotor_speeds": np.full(4, hover_rotor_speed(airframe)),
    }  # fmt: skip


def our_row(state):
    """RotorPy's state as one of our state rows (1, 17)."""
    x, y, z, w = state["q"]
    return np.concatenate([state["x"], state["v"], [w, x, y, z], state["w"], state["rotor_speeds"]])[None]


def tilt(qw, qx, qy, qz):
    """Angle between the body's up and the field's, degrees."""
    return math.degrees(math.acos(min(1.0, 1 - 2 * (qx * qx + qy * qy))))


def random_state(generator):
    """A state far outside ordinary flight: fast, spinning, tilted any way."""
    quaternion = generator.normal(size=4)
    return {
        "x": generator.uniform(0, 50, 3), "v": generator.normal(0, 6, 3), "q": quaternion / np.linalg.norm(quaternion),
        "w": generator.normal(0, 5, 3), "wind": np.zeros(3), "rotor_speeds": generator.uniform(100, 900, 4),
    }  # fmt: skip


@pytest.mark.long
def test_only_the_velocity_relative_to_the_air_matters():
    generator, wind = np.random.default_rng(2), np.array([3.0, -2.0, 0.5])
    windy = Airframe()._replace(wind_x=wind[0], wind_y=wind[1], wind_z=wind[2])
    calm_state = random_state(generator)
    carried = {**calm_state, "v": calm_state["v"] + wind}
    assert np.allclose(body_wrench(our_row(carried), 0, windy), body_wrench(our_row(calm_state), 0, Airframe()))
    assert not np.allclose(body_wrench(our_row(calm_state), 0, windy), body_wrench(our_row(calm_state), 0, Airframe()))


@pytest.mark.long
def test_forces_and_torques_are_rotorpys_in_every_state():
    airframe, generator = Airframe(), np.random.default_rng(0)
    vehicle = rotorpy_vehicle(airframe)
    for _ in range(50):
        theirs = random_state(generator)
        qx, qy, qz, qw = theirs["q"]
        push = np.array(body_wrench(our_row(theirs), 0, airframe))
        velocity_body = rotate_to_world(qw, -qx, -qy, -qz, *theirs["v"])
        force, torque = vehicle.compute_body_wrench(theirs["w"], theirs["rotor_speeds"], np.array(velocity_body))
        assert np.allclose(push[:3], force, rtol=1e-9, atol=1e-9)
        assert np.allclose(push[3:], torque, rtol=1e-9, atol=1e-9)


@pytest.mark.long
def test_accelerations_are_rotorpys_in_every_state():
    airframe, generator, dt = Airframe(), np.random.default_rng(1), 1e-6
    vehicle = rotorpy_vehicle(airframe)
    for _ in range(50):
        theirs = random_state(generator)
        rates = vehicle.statedot(theirs, {"cmd_motor_speeds": theirs["rotor_speeds"]}, dt)
        before, after = our_row(theirs), our_row(theirs)
        move_body(after, 0, airframe, dt)
        assert np.allclose((after - before)[0, 3:6] / dt, rates["vdot"], rtol=1e-5, atol=1e-5)
        assert np.allclose((after - before)[0, RATES : RATES + 3] / dt, rates["wdot"], rtol=1e-5, atol=1e-4)


MANOEUVRE = [(3.0, 0.0)] * 4 + [(3.0, 0.9)] * 4 + [(1.0, -1.0)] * 4 + [(2.5, 0.4)] * 4 + [(0.0, 0.0)] * 4


def tilt_difference(ours, theirs):
    qx, qy, qz, qw = theirs["q"]
    return abs(tilt(*ours[QUATERNION : QUATERNION + 4]) - tilt(qw, qx, qy, qz))


@pytest.mark.long
def test_a_ten_second_manoeuvre_agrees_with_rotorpy():
    """The same velocity, yaw-rate and altitude commands through the same controller, but RotorPy's rigid body, rotors,
    drag and adaptive integrator: positions within 0.1 m and tilt within 2 degrees, compared every 20 ms."""
    airframe = Airframe()
    vehicle, theirs = rotorpy_vehicle(airframe), rotorpy_hover(airframe, 25.0, 25.0, 5.0)
    ours = our_row(theirs)
    worst_place, worst_tilt = 0.0, 0.0
    for speed, yaw_rate in MANOEUVRE:
        setpoints = np.array([[speed, yaw_rate, 5.0, 0.0]])
        for _ in range(25):
            fly(ours, 0, setpoints, airframe, 10)
            for _ in range(10):
                rotors = controller(our_row(theirs), 0, speed, yaw_rate, 5.0, 0.0, airframe)
                theirs = vehicle.step(theirs, {"cmd_motor_speeds": np.array(rotors)}, SUBSTEP_SECONDS)
            worst_place = max(worst_place, float(np.linalg.norm(ours[0, :3] - theirs["x"])))
            worst_tilt = max(worst_tilt, tilt_difference(ours[0], theirs))
    assert np.linalg.norm(theirs["x"] - [25, 25, 5]) > 10, "it was a manoeuvre"
    assert worst_place < 0.1
    assert worst_tilt < 2


@pytest.mark.long
def test_open_loop_the_same_rotor_commands_give_the_same_flight():
    """No feedback to pull the two together: the commands of our own flight, replayed to RotorPy's motors and body."""
    airframe = Airframe()
    vehicle, theirs = rotorpy_vehicle(airframe), rotorpy_hover(airframe, 25.0, 25.0, 5.0)
    ours = our_row(theirs)
    for speed, yaw_rate in [(3.0, 0.0), (3.0, 0.9), (1.0, -1.0), (2.0, 0.5)]:
        for _ in range(250):
            rotors = np.array(controller(ours, 0, speed, yaw_rate, 5.0, 0.0, airframe))
            fly(ours, 0, np.array([[speed, yaw_rate, 5.0, 0.0]]), airframe, 1)
            theirs = vehicle.step(theirs, {"cmd_motor_speeds": rotors}, SUBSTEP_SECONDS)
    assert np.linalg.norm(ours[0, :3] - theirs["x"]) < 0.1
    assert tilt_difference(ours[0], theirs) < 2
    assert np.allclose(ours[0, ROTORS:], theirs["rotor_speeds"], atol=2)
