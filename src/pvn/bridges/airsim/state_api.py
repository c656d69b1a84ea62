"""AirSim's calls about where a vehicle is, how it moves and what it touches."""

from __future__ import annotations

import math
from typing import Any

from pvn.bridges.airsim import sensors
from pvn.bridges.airsim.drone import Drone
from pvn.bridges.airsim.host import Host
from pvn.bridges.airsim.wire_types import Pose, encode_pose, encode_vector, parse_pose, parse_vector
from pvn.bridges.shared.frames import swap_rates, swap_rotation, swap_vector, to_ned
from pvn.simulator.quadcopter import GRAVITY, Airframe

MAX_SPEED, MAX_TURN_RATE = 100.0, 50.0
"""Velocities that a client may give a drone, m/s and rad/s: beyond them nothing that flies follows the equations."""


def simGetVehiclePose(host: Host, drone: Drone) -> dict[str, Any]:
    """The vehicle's pose, NED from its home."""
    state = drone.state
    return encode_pose(state.position, state.rotation, drone.origin)


def _has_nan(values: Any) -> bool:
    return isinstance(values, dict) and any(isinstance(one, float) and math.isnan(one) for one in values.values())


def _parse_vehicle_pose(host: Host, drone: Drone, pose: Any) -> Pose:
    """A pose, field frame; a position or orientation that contains NaN is the current one."""
    if isinstance(pose, dict):
        current = simGetVehiclePose(host, drone)
        pose = {part: current[part] if _has_nan(pose.get(part)) else pose.get(part) for part in current}
    position, rotation = parse_pose(pose)
    return host.reach(drone, position), swap_rotation(rotation)


def simSetVehiclePose(host: Host, drone: Drone, vehicle_pose: Any, ignore_collision: Any = True) -> None:
    """Move the vehicle to a pose at once, level and at rest; its motion ends."""
    drone.vehicle.teleport(*_parse_vehicle_pose(host, drone, vehicle_pose))


def simSetKinematics(host: Host, drone: Drone, state: Any, ignore_collision: Any = True) -> None:
    """Give the vehicle a pose and velocities; accelerations follow from them."""
    pose = _parse_vehicle_pose(host, drone, state)
    velocity = parse_vector(state.get("linear_velocity"), "linear_velocity")
    rates = parse_vector(state.get("angular_velocity"), "angular_velocity")
    for name, value, limit in (("linear", velocity, MAX_SPEED), ("angular", rates, MAX_TURN_RATE)):
        if math.hypot(*value) > limit:
            raise ValueError(f"{name}_velocity: got {math.hypot(*value):.3g}, expected at most {limit:g}")
    drone.vehicle.set_state(*pose, swap_vector(velocity), swap_rates(rates))


def simGetGroundTruthKinematics(host: Host, drone: Drone) -> dict[str, Any]:
    """Pose, velocities and accelerations, NED."""
    state = drone.state
    return {
        **simGetVehiclePose(host, drone),
        "linear_velocity": encode_vector(swap_vector(state.velocity)),
        "angular_velocity": encode_vector(swap_rates(state.rates_body)),
        "linear_acceleration": encode_vector(swap_vector(drone.vehicle.acceleration)),
        "angular_acceleration": encode_vector(swap_rates(drone.vehicle.turn_acceleration)),
    }


def simGetGroundTruthEnvironment(host: Host, drone: Drone) -> dict[str, Any]:
    """Where the vehicle is, and the air there."""
    here = host.globe.to_geo_point(drone.state.position)
    pressure, kelvin, density = sensors.air(here.altitude)
    return {
        "position": encode_vector(to_ned(drone.state.position, drone.origin)),
        "geo_point": here._asdict(),
        "gravity": encode_vector((0.0, 0.0, GRAVITY)),
        "air_pressure": pressure,
        "temperature": kelvin,
        "air_density": density,
    }


def simGetCollisionInfo(host: Host, drone: Drone) -> dict[str, Any]:
    """The last collision since the last reset; collisions are reported, but do not stop the vehicle."""
    collision = drone.last_collision
    position = encode_vector(to_ned(collision.position, drone.origin) if collision else (0.0, 0.0, 0.0))
    return {
        "has_collided": collision is not None,
        "normal": encode_vector((0.0, 0.0, 0.0)),
        "impact_point": position,
        "position": position,
        "penetration_depth": 0.0,
        "time_stamp": collision.time_ns if collision else 0,
        "object_name": collision.object_name if collision else "",
        "object_id": collision.object_id if collision else -1,
    }


def getHomeGeoPoint(host: Host, drone: Drone) -> dict[str, float]:
    """Latitude, longitude and altitude of the vehicle's home."""
    return host.globe.to_geo_point(drone.origin)._asdict()


def getMultirotorState(host: Host, drone: Drone) -> dict[str, Any]:
    """The vehicle's complete state; the remote control is the one that moveByRC moves."""
    switches = {f"switch{number}": 0 for number in range(1, 9)}
    return {
        "collision": simGetCollisionInfo(host, drone),
        "kinematics_estimated": simGetGroundTruthKinematics(host, drone),
        "gps_location": host.globe.to_geo_point(drone.state.position)._asdict(),
        "timestamp": drone.state.time_ns,
        "landed_state": 0 if drone.vehicle.is_landed else 1,
        "rc_data": {"timestamp": 0, **drone.sticks, **switches, "is_initialized": False, "is_valid": False},
        "ready": True,
        "ready_message": "",
        "can_arm": True,
    }


def getRotorStates(host: Host, drone: Drone) -> dict[str, Any]:
    """Speed (rad/s), thrust (N) and torque (Nm) of the rotors: front right, rear left, front left, rear right."""
    airframe, (front_left, front_right, rear_right, rear_left) = Airframe(), drone.vehicle.rotor_speeds
    rotors = [
        {"speed": speed, "thrust": airframe.thrust * speed * speed, "torque_scaler": airframe.torque * speed * speed}
        for speed in (front_right, rear_left, front_left, rear_right)
    ]
    return {"timestamp": drone.state.time_ns, "rotors": rotors}
