"""One step of one quadcopter: a rigid body with four rotors and the cascaded controller that flies it.

Scalar code in float64, compiled unchanged for the CPU and for CUDA (there is little of it, and errors add up).
State row (17): position (3) and velocity (3) in the field frame, attitude quaternion body to field (w, x, y, z),
body rates (3), rotor speeds (4). Set-point row (4): forward speed, yaw rate, altitude, speed to the left.

Forces, all in the body frame (x forward, y left, z up): rotor thrust along z, quadratic in rotor speed; drag at
each rotor hub, linear in airspeed and rotor speed; translational lift; quadratic drag of the frame. Each rotor's
reaction torque is opposite to its spin. The rotors sit at 45 degrees: front left, front right, back right, back left.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from pvn.compiling import scalar

POSITION, VELOCITY, QUATERNION, RATES, ROTORS = 0, 3, 6, 10, 13
NUM_STATES = 17
SPEED, YAW_RATE, ALTITUDE, LEFT_SPEED = 0, 1, 2, 3
NUM_SETPOINTS = 4

SUBSTEP_SECONDS = 0.002
GRAVITY = 9.81

# Where a drone can be, field frame, metres: from the ground up to 100 m, and at most 10 m beyond a fence.
LOWEST, HIGHEST = 0.1, 100.0
WEST_LIMIT, EAST_LIMIT = -10.0, 60.0


class Airframe(NamedTuple):
    """A quadcopter: the published constants of the AscTec Hummingbird, and gains for it."""

    mass: float = 0.5  # kg
    inertia_x: float = 3.65e-3  # kg m^2
    inertia_y: float = 3.68e-3
    inertia_z: float = 7.03e-3
    arm: float = 0.17  # centre to rotor hub, m
    thrust: float = 5.57e-6  # N / (rad/s)^2
    torque: float = 1.36e-7  # Nm / (rad/s)^2
    rotor_drag: float = 1.19e-4  # in the rotor's plane, N / (rad/s m/s)
    inflow_drag: float = 2.32e-4  # along the rotor's axis, N / (rad/s m/s)
    lift: float = 3.39e-3  # translational lift, N / (m/s)^2
    frame_drag_xy: float = 0.5e-2  # N / (m/s)^2
    frame_drag_z: float = 1.0e-2
    motor_lag: float = 0.02  # s; small brushless motors need 0.01 to 0.05
    rotor_min: float = 50.0  # rad/s
    rotor_max: float = 1000.0  # at this speed the four rotors lift 4.5 times the weight
    velocity_gain: float = 3.2  # 1/s
    acceleration_max: float = 3.5  # horizontal, m/s^2: at most 20 degrees of tilt
    altitude_gain: float = 6.0  # 1/s^2
    climb_gain: float = 5.0  # 1/s
    climb_max: float = 4.0  # vertical acceleration, m/s^2
    attitude_gain: float = 10.0  # 1/s
    rate_gain: float = 24.0  # 1/s
    # The air's own velocity, field frame, m/s. The controller does not know it.
    wind_x: float = 0.0
    wind_y: float = 0.0
    wind_z: float = 0.0


def hover_rotor_speed(airframe: Airframe) -> float:
    """Speed, rad/s, at which the four rotors carry the weight."""
    return math.sqrt(airframe.mass * GRAVITY / (4 * airframe.thrust))


@scalar
def rotate_to_world(qw, qx, qy, qz, x, y, z):
    """A body-frame vector in the field frame."""
    a, b, c = qy * z - qz * y, qz * x - qx * z, qx * y - qy * x
    a, b, c = a + qw * x, b + qw * y, c + qw * z
    return (
        x + 2.0 * (qy * c - qz * b),
        y + 2.0 * (qz * a - qx * c),
        z + 2.0 * (qx * b - qy * a),
    )


@scalar
def heading(qw, qx, qy, qz):
    """Yaw, radians counter-clockwise from +x."""
    return math.atan2(2.0 * (qw * qz + qx * qy), 1.0 - 2.0 * (qy * qy + qz * qz))


@scalar
def rotor_command(airframe, force):
    """Rotor speed that gives a thrust, within the rotor's limits."""
    speed = math.sqrt(max(force, 0.0) / airframe.thrust)
    return min(max(speed, airframe.rotor_min), airframe.rotor_max)


@scalar
def controller(state, flight, speed, yaw_rate, altitude, left_speed, airframe):
    """Commanded rotor speeds (4), rad/s, for set-points of velocity, yaw rate and altitude.

    Velocity error -> acceleration -> thrust direction -> body rates -> torques -> rotors. Forward and left are
    relative to the present heading, so the drone flies curves while it yaws.
    """
    qw, qx = state[flight, QUATERNION], state[flight, QUATERNION + 1]
    qy, qz = state[flight, QUATERNION + 2], state[flight, QUATERNION + 3]
    wx, wy, wz = state[flight, RATES], state[flight, RATES + 1], state[flight, RATES + 2]
    yaw = heading(qw, qx, qy, qz)
    want_x = speed * math.cos(yaw) - left_speed * math.sin(yaw)
    want_y = speed * math.sin(yaw) + left_speed * math.cos(yaw)
    # Rotor drag at hover speed is known; feeding it forward makes an integrator unnecessary.
    drag = 4.0 * airframe.rotor_drag / airframe.mass
    drag *= math.sqrt(airframe.mass * GRAVITY / (4.0 * airframe.thrust))
    ax = airframe.velocity_gain * (want_x - state[flight, VELOCITY]) + drag * want_x
    ay = airframe.velocity_gain * (want_y - state[flight, VELOCITY + 1]) + drag * want_y
    shrink = min(1.0, airframe.acceleration_max / (math.sqrt(ax * ax + ay * ay) + 1e-12))
    ax, ay = ax * shrink, ay * shrink
    az = airframe.altitude_gain * (altitude - state[flight, POSITION + 2])
    az -= airframe.climb_gain * state[flight, VELOCITY + 2]
    az = GRAVITY + min(max(az, -airframe.climb_max), airframe.climb_max)
    # The wanted thrust direction in the body frame: its x and y are the tilt that is missing.
    ux, uy, uz = rotate_to_world(qw, -qx, -qy, -qz, ax, ay, az)
    force = airframe.mass * uz
    length = math.sqrt(ux * ux + uy * uy + uz * uz)
    spin_x, spin_y, spin_z = rotate_to_world(qw, -qx, -qy, -qz, 0.0, 0.0, yaw_rate)
    error_x = spin_x - airframe.attitude_gain * uy / length - wx
    error_y = spin_y + airframe.attitude_gain * ux / length - wy
    error_z = spin_z - wz
    ix, iy, iz = airframe.inertia_x, airframe.inertia_y, airframe.inertia_z
    torque_x = airframe.rate_gain * ix * error_x + wy * wz * (iz - iy)
    torque_y = airframe.rate_gain * iy * error_y + wz * wx * (ix - iz)
    torque_z = airframe.rate_gain * iz * error_z + wx * wy * (iy - ix)
    torque_z += airframe.mass * drag * airframe.arm * airframe.arm * spin_z
    lever = airframe.arm * math.sqrt(0.5)
    roll, pitch = 0.25 * torque_x / lever, 0.25 * torque_y / lever
    yawing = 0.25 * torque_z * airframe.thrust / airframe.torque
    lift = 0.25 * force
    return (
        rotor_command(airframe, lift + roll - pitch + yawing),
        rotor_command(airframe, lift - roll - pitch - yawing),
        rotor_command(airframe, lift - roll + pitch + yawing),
        rotor_command(airframe, lift + roll + pitch - yawing),
    )


@scalar
def body_wrench(state, flight, airframe):
    """Force and torque (6), body frame, of rotors and air in the present state, without weight."""
    qw, qx = state[flight, QUATERNION], state[flight, QUATERNION + 1]
    qy, qz = state[flight, QUATERNION + 2], state[flight, QUATERNION + 3]
    wx, wy, wz = state[flight, RATES], state[flight, RATES + 1], state[flight, RATES + 2]
    vx, vy, vz = rotate_to_world(
        qw, -qx, -qy, -qz,
        state[flight, VELOCITY] - airframe.wind_x,
        state[flight, VELOCITY + 1] - airframe.wind_y,
        state[flight, VELOCITY + 2] - airframe.wind_z,
    )  # fmt: skip
    airspeed = math.sqrt(vx * vx + vy * vy + vz * vz)
    fx = -airspeed * airframe.frame_drag_xy * vx
    fy = -airspeed * airframe.frame_drag_xy * vy
    fz = -airspeed * airframe.frame_drag_z * vz
    mx, my, mz = 0.0, 0.0, 0.0
    lever = airframe.arm * math.sqrt(0.5)
    for rotor in range(4):
        x = lever if rotor < 2 else -lever
        y = lever if rotor == 0 or rotor == 3 else -lever
        turns = 1.0 if rotor % 2 == 0 else -1.0
        speed = state[flight, ROTORS + rotor]
        hub_x, hub_y, hub_z = vx - wz * y, vy + wz * x, vz + wx * y - wy * x
        thrust = airframe.thrust * speed * speed + airframe.lift * (hub_x * hub_x + hub_y * hub_y)
        push_x = -airframe.rotor_drag * speed * hub_x
        push_y = -airframe.rotor_drag * speed * hub_y
        push_z = thrust - airframe.inflow_drag * speed * hub_z
        fx, fy, fz = fx + push_x, fy + push_y, fz + push_z
        mx += y * push_z
        my -= x * push_z
        mz += x * push_y - y * push_x + turns * airframe.torque * speed * speed
    return fx, fy, fz, mx, my, mz


@scalar
def move_body(state, flight, airframe, dt):
    """Advance the rigid body by dt under the present rotor speeds."""
    qw, qx = state[flight, QUATERNION], state[flight, QUATERNION + 1]
    qy, qz = state[flight, QUATERNION + 2], state[flight, QUATERNION + 3]
    wx, wy, wz = state[flight, RATES], state[flight, RATES + 1], state[flight, RATES + 2]
    fx, fy, fz, mx, my, mz = body_wrench(state, flight, airframe)
    ax, ay, az = rotate_to_world(qw, qx, qy, qz, fx, fy, fz)
    ax, ay, az = ax / airframe.mass, ay / airframe.mass, az / airframe.mass - GRAVITY
    ix, iy, iz = airframe.inertia_x, airframe.inertia_y, airframe.inertia_z
    turn_x = wx + 0.5 * dt * (mx - wy * wz * (iz - iy)) / ix
    turn_y = wy + 0.5 * dt * (my - wz * wx * (ix - iz)) / iy
    turn_z = wz + 0.5 * dt * (mz - wx * wy * (iy - ix)) / iz
    state[flight, RATES] = 2.0 * turn_x - wx
    state[flight, RATES + 1] = 2.0 * turn_y - wy
    state[flight, RATES + 2] = 2.0 * turn_z - wz
    for axis in range(3):
        gain = dt * (ax if axis == 0 else (ay if axis == 1 else az))
        state[flight, POSITION + axis] += dt * (state[flight, VELOCITY + axis] + 0.5 * gain)
        state[flight, VELOCITY + axis] += gain
    # Turn by the mean body rate of the substep; the half angle is so small that renormalising can replace sines.
    hx, hy, hz = 0.5 * dt * turn_x, 0.5 * dt * turn_y, 0.5 * dt * turn_z
    nw = qw - qx * hx - qy * hy - qz * hz
    nx = qx + qw * hx + qy * hz - qz * hy
    ny = qy + qw * hy + qz * hx - qx * hz
    nz = qz + qw * hz + qx * hy - qy * hx
    norm = 1.0 / math.sqrt(nw * nw + nx * nx + ny * ny + nz * nz)
    state[flight, QUATERNION], state[flight, QUATERNION + 1] = nw * norm, nx * norm
    state[flight, QUATERNION + 2], state[flight, QUATERNION + 3] = ny * norm, nz * norm


@scalar
def keep_inside(state, flight):
    """Stop the drone at the ground and at invisible walls 10 m beyond the fences."""
    for axis in range(2):
        position, velocity = state[flight, POSITION + axis], state[flight, VELOCITY + axis]
        if position < WEST_LIMIT:
            state[flight, POSITION + axis] = WEST_LIMIT
            state[flight, VELOCITY + axis] = max(velocity, 0.0)
        elif position > EAST_LIMIT:
            state[flight, POSITION + axis] = EAST_LIMIT
            state[flight, VELOCITY + axis] = min(velocity, 0.0)
    if state[flight, POSITION + 2] < LOWEST:
        state[flight, POSITION + 2] = LOWEST
        state[flight, VELOCITY + 2] = max(state[flight, VELOCITY + 2], 0.0)


@scalar
def fly(state, flight, setpoints, airframe, num_substeps):
    """Advance one flight by num_substeps of SUBSTEP_SECONDS, holding its set-points."""
    dt = SUBSTEP_SECONDS
    keep = math.exp(-dt / airframe.motor_lag)
    speed, yaw_rate = setpoints[flight, SPEED], setpoints[flight, YAW_RATE]
    altitude, left_speed = setpoints[flight, ALTITUDE], setpoints[flight, LEFT_SPEED]
    for _ in range(num_substeps):
        front_left, front_right, back_right, back_left = controller(
            state, flight, speed, yaw_rate, altitude, left_speed, airframe
        )
        state[flight, ROTORS] = front_left + keep * (state[flight, ROTORS] - front_left)
        state[flight, ROTORS + 1] = front_right + keep * (state[flight, ROTORS + 1] - front_right)
        state[flight, ROTORS + 2] = back_right + keep * (state[flight, ROTORS + 2] - back_right)
        state[flight, ROTORS + 3] = back_left + keep * (state[flight, ROTORS + 3] - back_left)
        move_body(state, flight, airframe, dt)
        keep_inside(state, flight)
