"""What a drone's sensors measure: its true state, with the white noise that AirSim's sensors have by default.

The slow drift of AirSim's sensors is left out. The noise is computed from the sensor and the tick, so that readings of
the same tick agree. Vectors are AirSim's: north, east, down, or forward, right, down.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pvn.bridges.airsim.drone import Drone
from pvn.bridges.airsim.settings import SensorSettings
from pvn.bridges.shared.frames import Vector, rotate_vector, swap_rates, swap_vector, to_ned
from pvn.bridges.shared.globe import GeoPoint
from pvn.bridges.shared.renderer import CameraRenderer
from pvn.bridges.shared.vehicle import TICK_SECONDS
from pvn.simulator.quadcopter import GRAVITY

# AirSim's defaults: an MPU-6000, an MS5611 and a magnetometer of 5 mGauss. Random walks, per square root of time,
# become the noise of one reading by the time between two readings.
GYROSCOPE_NOISE = math.radians(0.30 / 60) / math.sqrt(TICK_SECONDS)  # rad/s
ACCELEROMETER_NOISE = 0.24e-3 * GRAVITY / math.sqrt(TICK_SECONDS)  # m/s^2
PRESSURE_NOISE_PA = 2.7
MAGNETOMETER_NOISE_GAUSS = 0.005
SEA_LEVEL_PRESSURE_PA, SEA_LEVEL_KELVIN, LAPSE_RATE = 101_325.0, 288.15, 0.0065
MEAN_FIELD_GAUSS = 0.312
POLE_LATITUDE, POLE_LONGITUDE = math.radians(80.31), math.radians(-72.62)


def noise(drone: Drone, sensor: int, sigma: float) -> npt.NDArray[np.float64]:
    """Three independent errors of a sensor in the current tick."""
    return np.random.default_rng((sensor, drone.vehicle.num_ticks)).normal(0.0, sigma, 3)


def air(altitude_m: float) -> tuple[float, float, float]:
    """Pressure (Pa), temperature (K) and density (kg/m^3) of the standard atmosphere."""
    kelvin = SEA_LEVEL_KELVIN - LAPSE_RATE * altitude_m
    pressure = SEA_LEVEL_PRESSURE_PA * (kelvin / SEA_LEVEL_KELVIN) ** 5.2559
    return pressure, kelvin, pressure / (287.053 * kelvin)


def altitude_of_pressure(pressure_pa: float) -> float:
    """The altitude, metres, at which the standard atmosphere has a pressure."""
    return (1 - (pressure_pa / SEA_LEVEL_PRESSURE_PA) ** (1 / 5.2559)) * SEA_LEVEL_KELVIN / LAPSE_RATE


def magnetic_field(origin: GeoPoint) -> Vector:
    """The earth's field, Gauss, north east down, as of a dipole along AirSim's magnetic pole."""
    latitude, east_of_pole = math.radians(origin.latitude), math.radians(origin.longitude) - POLE_LONGITUDE
    cosine = math.sin(latitude) * math.sin(POLE_LATITUDE)
    cosine += math.cos(latitude) * math.cos(POLE_LATITUDE) * math.cos(east_of_pole)
    sine = math.sqrt(1 - cosine * cosine)
    declination = math.atan2(
        -math.sin(east_of_pole) * math.cos(POLE_LATITUDE),
        math.cos(latitude) * math.sin(POLE_LATITUDE)
        - math.sin(latitude) * math.cos(POLE_LATITUDE) * math.cos(east_of_pole),
    )
    across = MEAN_FIELD_GAUSS * sine
    return across * math.cos(declination), across * math.sin(declination), 2 * MEAN_FIELD_GAUSS * cosine


def to_body(drone: Drone, vector_ned: Vector) -> Vector:
    """A vector of the NED frame in AirSim's body frame."""
    w, x, y, z = drone.state.rotation
    return swap_rates(rotate_vector((w, -x, -y, -z), swap_vector(vector_ned)))


def specific_force(drone: Drone) -> Vector:
    """What an accelerometer without errors measures, m/s^2, AirSim's body frame: -9.81 downwards at rest."""
    x, y, z = swap_vector(drone.vehicle.acceleration)
    return to_body(drone, (x, y, z - GRAVITY))


def measure_distance(drone: Drone, sensor: SensorSettings, renderer: CameraRenderer) -> float:
    """Metres to what a distance sensor looks at, within its limits."""
    position, rotation = drone.mounted_pose(sensor.position, sensor.rotation)
    depth, _ = renderer.cast_rays(position, np.array([rotate_vector(rotation, (1, 0, 0))]))
    distance = float(depth[0]) or math.inf
    return min(max(distance, sensor.min_distance), sensor.max_distance)


@functools.lru_cache(maxsize=16)
def _lidar_directions(sensor: SensorSettings) -> npt.NDArray[np.float64]:
    """Directions (R, 3) of one rotation, forward right down from the sensor, channel after channel."""
    num_steps = max(1, sensor.points_per_rotation // sensor.num_channels)
    span = sensor.horizontal_end - sensor.horizontal_start
    azimuth = sensor.horizontal_start + span * np.arange(num_steps) / num_steps
    elevation = np.linspace(sensor.upper, sensor.lower, sensor.num_channels)
    azimuth, elevation = np.meshgrid(azimuth, elevation)
    across = np.cos(elevation)
    directions = np.stack([across * np.cos(azimuth), across * np.sin(azimuth), -np.sin(elevation)], -1)
    return directions.reshape(-1, 3)


Scan = Callable[[], tuple[npt.NDArray[np.float64], npt.NDArray[np.int16]]]
"""Returns the points (P, 3) that one rotation of a lidar hits within its range, and their landmarks (P,), or -1."""


def prepare_scan(drone: Drone, sensor: SensorSettings, renderer: CameraRenderer) -> Scan:
    """A scan from where the drone is now; any thread can run it later.

    Points are in the sensor's frame, forward right down; or north east down from the drone's home.
    """
    position, rotation = drone.mounted_pose(sensor.position, sensor.rotation)
    offset = np.array(to_ned(position, drone.origin))
    matrix = np.array([rotate_vector(rotation, axis) for axis in ((1, 0, 0), (0, -1, 0), (0, 0, -1))])

    def scan() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int16]]:
        directions = _lidar_directions(sensor)
        directions_world = directions @ matrix
        depth, landmark = renderer.cast_rays(position, directions_world)
        is_hit = (depth > sensor.min_distance) & (depth <= sensor.max_distance)
        distances = depth[is_hit, None].astype(np.float64)
        if sensor.is_in_sensor_frame:
            return directions[is_hit] * distances, landmark[is_hit]
        return directions_world[is_hit][:, [1, 0, 2]] * [1, 1, -1] * distances + offset, landmark[is_hit]

    return scan
