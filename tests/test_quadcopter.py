"""The quadcopter: it flies as commanded, within its limits, and as an independent simulator says."""

import math

import numpy as np
import pytest
import torch

from pvn.simulator.quadcopter import (
    GRAVITY,
    NUM_STATES,
    QUATERNION,
    RATES,
    ROTORS,
    SUBSTEP_SECONDS,
    Airframe,
    controller,
    hover_rotor_speed,
    move_body,
)
from pvn.simulator.simulator import Simulator, SimulatorConfig
from pvn.world.layout import sample_layout

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
    low = SimulatorConfig(quality="none", altitude=0.01)
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


def test_a_ten_second_manoeuvre_agrees_with_rotorpy():
    """The same velocity, yaw-rate and altitude commands through the same controller, but RotorPy's rigid body, rotors,
    drag and adaptive integrator: positions within 0.1 m and tilt within 2 degrees all the way."""
    airframe = Airframe()
    commands = [(3.0, 0.0)] * 4 + [(3.0, 0.9)] * 4 + [(1.0, -1.0)] * 4 + [(2.5, 0.4)] * 4 + [(0.0, 0.0)] * 4
    vehicle, theirs = rotorpy_vehicle(airframe), rotorpy_hover(airframe, 25.0, 25.0, 5.0)
    simulator = Simulator([sample_layout(0)], 1, config=BLIND)
    simulator.reset(torch.tensor([[25.0, 25.0, 0.0]]))
    worst_place, worst_tilt = 0.0, 0.0
    for speed, yaw_rate in commands:
        simulator.advance(torch.tensor([[speed, yaw_rate, 0.0]]))
        for _ in range(round(0.5 / SUBSTEP_SECONDS)):
            rotors = controller(our_row(theirs), 0, speed, yaw_rate, 5.0, airframe)
            theirs = vehicle.step(theirs, {"cmd_motor_speeds": np.array(rotors)}, SUBSTEP_SECONDS)
        ours = simulator._state[0].numpy()
        worst_place = max(worst_place, float(np.abs(ours[:3] - theirs["x"]).max()))
        qx, qy, qz, qw = theirs["q"]
        difference = tilt(*ours[QUATERNION : QUATERNION + 4]) - tilt(qw, qx, qy, qz)
        worst_tilt = max(worst_tilt, abs(difference))
    assert np.linalg.norm(theirs["x"] - [25, 25, 5]) > 5, "it was a manoeuvre"
    assert worst_place < 0.1
    assert worst_tilt < 2


def test_open_loop_the_body_moves_as_rotorpys_under_the_same_rotor_speeds():
    """No controller to pull the two together: one second of uneven rotors, tumbling."""
    airframe = Airframe()
    hover = hover_rotor_speed(airframe)
    rotors = hover * np.array([1.04, 1.01, 1.02, 1.05])
    vehicle, theirs = rotorpy_vehicle(airframe), rotorpy_hover(airframe, 25.0, 25.0, 20.0)
    theirs["rotor_speeds"] = rotors.copy()
    ours = our_row(theirs)
    for _ in range(round(1.0 / SUBSTEP_SECONDS)):
        theirs = vehicle.step(theirs, {"cmd_motor_speeds": rotors}, SUBSTEP_SECONDS)
        move_body(ours, 0, airframe, SUBSTEP_SECONDS)
    assert ours.shape == (1, NUM_STATES) and np.allclose(ours[0, ROTORS:], rotors)
    assert np.abs(ours[0, :3] - theirs["x"]).max() < 0.02
    assert np.abs(ours[0, RATES : RATES + 3] - theirs["w"]).max() < 0.05
    qx, qy, qz, qw = theirs["q"]
    assert tilt(qw, qx, qy, qz) > 20, "it did tumble"
    assert tilt(*ours[0, QUATERNION : QUATERNION + 4]) == pytest.approx(tilt(qw, qx, qy, qz), abs=0.5)
