"""Conversions between latitude, longitude and altitude and the field frame, for an autopilot that has no Earth.

The middle of the field is put where PX4's simulator starts, so that scripts written for it find themselves at home.
North, east, down and attitudes are converted as for AirSim, whose conventions are MAVLink's.
"""

from __future__ import annotations

import math

from pvn.bridges.shared.frames import NED_ORIGIN_WORLD

ORIGIN_LATITUDE, ORIGIN_LONGITUDE, ORIGIN_ALTITUDE = 47.397742, 8.545594, 488.0
"""Degrees, degrees and metres above the sea of the middle of the field, at the height of a resting drone's centre."""

EARTH_RADIUS_M = 6371000.0
_METRES_PER_DEGREE = math.radians(EARTH_RADIUS_M)
_METRES_PER_DEGREE_EAST = _METRES_PER_DEGREE * math.cos(math.radians(ORIGIN_LATITUDE))


def to_geodetic(x: float, y: float) -> tuple[float, float]:
    """Latitude and longitude, degrees, of a place in the field, metres."""
    return (
        ORIGIN_LATITUDE + (y - NED_ORIGIN_WORLD[1]) / _METRES_PER_DEGREE,
        ORIGIN_LONGITUDE + (x - NED_ORIGIN_WORLD[0]) / _METRES_PER_DEGREE_EAST,
    )


def from_geodetic(latitude: float, longitude: float) -> tuple[float, float]:
    """The place in the field, x and y in metres, of a latitude and longitude in degrees."""
    return (
        NED_ORIGIN_WORLD[0] + (longitude - ORIGIN_LONGITUDE) * _METRES_PER_DEGREE_EAST,
        NED_ORIGIN_WORLD[1] + (latitude - ORIGIN_LATITUDE) * _METRES_PER_DEGREE,
    )


def to_sea_level(z: float) -> float:
    """Metres above the sea of a height in the field, metres."""
    return z - NED_ORIGIN_WORLD[2] + ORIGIN_ALTITUDE


def from_sea_level(altitude: float) -> float:
    """The height in the field, metres, of an altitude in metres above the sea."""
    return altitude - ORIGIN_ALTITUDE + NED_ORIGIN_WORLD[2]
