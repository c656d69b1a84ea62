"""The calls of the AirSim API about where a vehicle is, how it moves and what it touches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pvn.bridges.airsim import sensors
from pvn.bridges.airsim.drone import Drone
from pvn.bridges.airsim.host import Host
from pvn.bridges.airsim.wire_types import encode_pose, encode_vector, parse_number, parse_pose, parse_vector
from pvn.bridges.shared.frames import Quaternion, Vector, from_ned, swap_rates, swap_rotation, swap_vector, to_ned
from pvn.bridges.shared.vehicle import clamp_position
from pvn.simulator.quadcopter import GRAVITY, Airframe

MAX_SPEED, MAX_TURN_RATE = 100.0, 50.0
"""Velocities that a client may give a drone, m/s and rad/s: beyond them nothing that flies follows the equations."""


def reach(host: Host, drone: Drone, method: str, position_ned: Vector) -> Vector:
    """Where, field frame, a drone gets that is sent to an NED position; tells or raises if that is elsewhere."""
    wanted = from_ned(position_ned, drone.origin)
    reached = clamp_position(wanted, host.border)
    if max(abs(one - other) for one, other in zip(wanted, reached, strict=True)) > 1e-6:
        got = ", ".join(f"{part:g}" for part in position_ned)
        place = ", ".join(f"{part:g}" for part in to_ned(reached, drone.origin))
        message = f"{method}: got position ({got}), north east down, which is beyond where drones can fly"
        if host.border == "refuse":
            raise ValueError(f"{message}; the nearest place is ({place}); start the server with --border open or stop")
        host.tell_once(f"{message}: flown to ({place}) instead; --border open has no fence")
    return reached


def simGetVehiclePose(host: Host, vehicle_name: str = "") -> dict[str, Any]:
    """The vehicle's pose, NED from its home."""
    drone = host.find_drone(vehicle_name)
    return encode_pose(drone.vehicle.position, drone.vehicle.rotation, drone.origin)


def _has_nan(values: Any) -> bool:
    return isinstance(values, dict) and any(isinstance(one, float) and math.isnan(one) for one in values.values())


def _parse_vehicle_pose(host: Host, drone: Drone, method: str, pose: Any) -> tuple[Vector, Quaternion]:
    """A pose, field frame; a position or orientation that contains NaN is the current one."""
    if isinstance(pose, dict):
        current = encode_pose(drone.vehicle.position, drone.vehicle.rotation, drone.origin)
        pose = {part: current[part] if _has_nan(pose.get(part)) else pose.get(part) for part in current}
    position, rotation = parse_pose(pose)
    return reach(host, drone, method, position), swap_rotation(rotation)


def simSetVehiclePose(host: Host, vehicle_pose: Any, ignore_collision: Any = True, vehicle_name: str = "") -> None:
    """Move the vehicle to a pose at once, level and at rest; its motion ends."""
    drone = host.find_drone(vehicle_name)
    drone.vehicle.teleport(*_parse_vehicle_pose(host, drone, "simSetVehiclePose", vehicle_pose))


def simSetKinematics(host: Host, state: Any, ignore_collision: Any = True, vehicle_name: str = "") -> None:
    """Give the vehicle a pose and velocities; accelerations follow from them."""
    drone = host.find_drone(vehicle_name)
    pose = _parse_vehicle_pose(host, drone, "simSetKinematics", state)
    velocity = parse_vector(state.get("linear_velocity"), "linear_velocity")
    rates = parse_vector(state.get("angular_velocity"), "angular_velocity")
    for name, value, limit in (("linear", velocity, MAX_SPEED), ("angular", rates, MAX_TURN_RATE)):
        if math.hypot(*value) > limit:
            raise ValueError(f"{name}_velocity: got {math.hypot(*value):.3g}, expected at most {limit:g}")
    drone.vehicle.set_state(*pose, swap_vector(velocity), swap_rates(rates))


def _kinematics(drone: Drone) -> dict[str, Any]:
    vehicle = drone.vehicle
    return {
        **encode_pose(vehicle.position, vehicle.rotation, drone.origin),
        "linear_velocity": encode_vector(swap_vector(vehicle.velocity)),
        "angular_velocity": encode_vector(swap_rates(vehicle.rates_body)),
        "linear_acceleration": encode_vector(swap_vector(vehicle.acceleration)),
        "angular_acceleration": encode_vector(swap_rates(vehicle.turn_acceleration)),
    }


def simGetGroundTruthKinematics(host: Host, vehicle_name: str = "") -> dict[str, Any]:
    """Pose, velocities and accelerations, NED."""
    return _kinematics(host.find_drone(vehicle_name))


def encode_geo_point(point: sensors.GeoPoint) -> dict[str, float]:
    """A GeoPoint."""
    return dict(zip(("latitude", "longitude", "altitude"), point, strict=True))


def parse_geo_point(value: Any) -> sensors.GeoPoint:
    """Latitude, longitude and altitude of a GeoPoint."""
    if not isinstance(value, Mapping):
        raise ValueError(f"geo point: got {type(value).__name__}, expected a map with latitude, longitude and altitude")
    latitude, longitude, altitude = (parse_number(value.get(key), key) for key in ("latitude", "longitude", "altitude"))
    return latitude, longitude, altitude


def geo_point(host: Host, drone: Drone) -> sensors.GeoPoint:
    """Where a drone is on the globe."""
    return sensors.to_geo_point(drone.vehicle.position, host.settings.origin)


def simGetGroundTruthEnvironment(host: Host, vehicle_name: str = "") -> dict[str, Any]:
    """Where the vehicle is, and the air there."""
    drone = host.find_drone(vehicle_name)
    here = geo_point(host, drone)
    pressure, kelvin, density = sensors.air(here[2])
    return {
        "position": encode_vector(to_ned(drone.vehicle.position, drone.origin)),
        "geo_point": encode_geo_point(here),
        "gravity": encode_vector((0.0, 0.0, GRAVITY)),
        "air_pressure": pressure,
        "temperature": kelvin,
        "air_density": density,
    }


def simGetCollisionInfo(host: Host, vehicle_name: str = "") -> dict[str, Any]:
    """The last collision since the last reset; collisions are reported, but do not stop the vehicle."""
    drone = host.find_drone(vehicle_name)
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


def getHomeGeoPoint(host: Host, vehicle_name: str = "") -> dict[str, float]:
    """Latitude, longitude and altitude of the vehicle's home."""
    drone = host.find_drone(vehicle_name)
    return encode_geo_point(sensors.to_geo_point(drone.origin, host.settings.origin))


def getMultirotorState(host: Host, vehicle_name: str = "") -> dict[str, Any]:
    """The vehicle's complete state; the remote control is that of moveByRC."""
    drone = host.find_drone(vehicle_name)
    switches = {f"switch{number}": 0 for number in range(1, 9)}
    return {
        "collision": simGetCollisionInfo(host, vehicle_name),
        "kinematics_estimated": _kinematics(drone),
        "gps_location": encode_geo_point(geo_point(host, drone)),
        "timestamp": drone.vehicle.time_ns,
        "landed_state": 0 if drone.vehicle.is_landed else 1,
        "rc_data": {"timestamp": 0, **drone.sticks, **switches, "is_initialized": False, "is_valid": False},
        "ready": True,
        "ready_message": "",
        "can_arm": True,
    }


def getRotorStates(host: Host, vehicle_name: str = "") -> dict[str, Any]:
    """Speed (rad/s), thrust (N) and torque (Nm) of the rotors: front right, rear left, front left, rear right."""
    vehicle, airframe = host.find_drone(vehicle_name).vehicle, Airframe()
    front_left, front_right, rear_right, rear_left = vehicle.rotor_speeds
    rotors = [
        {
            "speed": speed,
            "thrust": airframe.thrust * speed * speed,
            "torque_scaler": airframe.torque * speed * speed,
        }
        for speed in (front_right, rear_left, front_left, rear_right)
    ]
    return {"timestamp": vehicle.time_ns, "rotors": rotors}
