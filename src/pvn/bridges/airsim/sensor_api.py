"""AirSim's calls that read a vehicle's sensors."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import numpy.typing as npt

from pvn.bridges.airsim import sensors
from pvn.bridges.airsim.drone import Drone
from pvn.bridges.airsim.host import Host
from pvn.bridges.airsim.images import segmentation_colours
from pvn.bridges.airsim.settings import DISTANCE_SENSOR, GPU_LIDAR, LIDAR, SensorSettings
from pvn.bridges.airsim.wire_types import encode_pose, encode_quaternion, encode_vector
from pvn.bridges.shared.frames import swap_rates, swap_rotation, swap_vector

_GYROSCOPE, _ACCELEROMETER, _BAROMETER, _MAGNETOMETER = range(4)
_FIX_3D = 3
GPS_ERROR_M = 0.1
"""The error that the receiver claims, as AirSim's does once it has settled; what it reports is exact."""


def _noisy(drone: Drone, sensor: int, sigma: float, values: Any) -> dict[str, float]:
    return encode_vector((sensors.noise(drone, sensor, sigma) + values).tolist())


def getImuData(host: Host, drone: Drone, imu_name: Any = "") -> dict[str, Any]:
    """The true attitude; body rates and specific force with noise, forward right down."""
    state = drone.state
    rates, force = swap_rates(state.rates_body), sensors.specific_force(drone)
    return {
        "time_stamp": state.time_ns,
        "orientation": encode_quaternion(swap_rotation(state.rotation)),
        "angular_velocity": _noisy(drone, _GYROSCOPE, sensors.GYROSCOPE_NOISE, rates),
        "linear_acceleration": _noisy(drone, _ACCELEROMETER, sensors.ACCELEROMETER_NOISE, force),
    }


def getBarometerData(host: Host, drone: Drone, barometer_name: Any = "") -> dict[str, Any]:
    """Pressure with noise, Pa; the altitude it stands for, metres; and the pressure at sea level, hPa."""
    error = float(sensors.noise(drone, _BAROMETER, sensors.PRESSURE_NOISE_PA)[0])
    pressure = sensors.air(host.globe.to_geo_point(drone.state.position).altitude)[0] + error
    return {
        "time_stamp": drone.state.time_ns,
        "altitude": sensors.altitude_of_pressure(pressure),
        "pressure": pressure,
        "qnh": sensors.SEA_LEVEL_PRESSURE_PA / 100,
    }


def getMagnetometerData(host: Host, drone: Drone, magnetometer_name: Any = "") -> dict[str, Any]:
    """The earth's magnetic field with noise, Gauss, forward right down."""
    field = sensors.to_body(drone, sensors.magnetic_field(host.settings.origin))
    return {
        "time_stamp": drone.state.time_ns,
        "magnetic_field_body": _noisy(drone, _MAGNETOMETER, sensors.MAGNETOMETER_NOISE_GAUSS, field),
        "magnetic_field_covariance": [],
    }


def getGpsData(host: Host, drone: Drone, gps_name: Any = "") -> dict[str, Any]:
    """The true place on the globe and velocity, NED, as from a receiver that has its fix."""
    state = drone.state
    return {
        "time_stamp": state.time_ns,
        "gnss": {
            "geo_point": host.globe.to_geo_point(state.position)._asdict(),
            "eph": GPS_ERROR_M,
            "epv": GPS_ERROR_M,
            "velocity": encode_vector(swap_vector(state.velocity)),
            "fix_type": _FIX_3D,
            "time_utc": state.time_ns // 1000,
        },
        "is_valid": True,
    }


def _find_sensor(drone: Drone, name: Any, kinds: tuple[int, ...]) -> SensorSettings:
    """The sensor of a name; the first of its kind if the name is empty."""
    fitting = {key: sensor for key, sensor in drone.settings.sensors.items() if sensor.kind in kinds}
    if name == "" and fitting:
        return next(iter(fitting.values()))
    if not isinstance(name, str) or name not in fitting:
        known = ", ".join(fitting) or "none"
        raise ValueError(f"sensor: got {str(name)[:80]!r}, expected {known}; settings.json can add others")
    return fitting[name]


def getDistanceSensorData(host: Host, drone: Drone, distance_sensor_name: Any = "") -> dict[str, Any]:
    """Metres to what the sensor looks at, without noise, as AirSim's."""
    sensor = _find_sensor(drone, distance_sensor_name, (DISTANCE_SENSOR,))
    return {
        "time_stamp": drone.state.time_ns,
        "distance": sensors.measure_distance(drone, sensor, host.scene.renderer),
        "min_distance": sensor.min_distance,
        "max_distance": sensor.max_distance,
        "relative_pose": {
            "position": encode_vector(sensor.position),
            "orientation": encode_quaternion(sensor.rotation),
        },
    }


Encoder = Callable[[npt.NDArray[np.float64], list[int]], dict[str, Any]]
"""Points (P, 3) and the segmentation number of each, as AirSim sends them."""


def _scan(host: Host, drone: Drone, lidar_name: Any, encode: Encoder) -> Coroutine[Any, Any, dict[str, Any]]:
    """One rotation of a lidar from where the drone is now; a coroutine, so that no work is done before its turn."""
    sensor = _find_sensor(drone, lidar_name, (LIDAR, GPU_LIDAR))
    ids, time_ns = host.scene.object_ids, drone.state.time_ns
    pose = encode_pose(*drone.mounted_pose(sensor.position, sensor.rotation), drone.origin)
    scan = sensors.prepare_scan(drone, sensor, host.scene.renderer)

    def measure() -> dict[str, Any]:
        points, landmarks = scan()
        seen = [ids[index + 2] if index >= 0 else ids[1] for index in landmarks.tolist()]
        return {"time_stamp": time_ns, "pose": pose, **encode(points, seen)}

    async def later() -> dict[str, Any]:
        return await host.run_in_thread(measure)

    return later()


def getLidarData(host: Host, drone: Drone, lidar_name: Any = "") -> Coroutine[Any, Any, dict[str, Any]]:
    """The points that one rotation meets, without noise, as AirSim's; and the segmentation number of each."""

    def encode(points: npt.NDArray[np.float64], ids: list[int]) -> dict[str, Any]:
        cloud = points.ravel().tolist() or [0.0]  # as AirSim's RPC library cannot send empty lists
        return {"point_cloud": cloud, "segmentation": ids or [0], "groundtruth": []}

    return _scan(host, drone, lidar_name, encode)


def getGPULidarData(host: Host, drone: Drone, lidar_name: Any = "") -> Coroutine[Any, Any, dict[str, Any]]:
    """As getLidarData, but five numbers for each point: x, y, z, its segmentation colour, and an intensity of 1."""

    def encode(points: npt.NDArray[np.float64], ids: list[int]) -> dict[str, Any]:
        colour = (segmentation_colours(ids).astype(float) * [1 << 16, 1 << 8, 1]).sum(-1, keepdims=True)
        cloud = np.concatenate([points, colour, np.ones_like(colour)], -1)
        return {"point_cloud": cloud.ravel().tolist() or [0.0]}

    return _scan(host, drone, lidar_name, encode)
