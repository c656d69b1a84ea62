"""Latitude, longitude and altitude of places in the field, for protocols that speak of the Earth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from pvn.bridges.shared.frames import Vector, from_ned, to_ned


class GeoPoint(NamedTuple):
    """A place on the globe."""

    latitude: float
    """Degrees."""
    longitude: float
    """Degrees."""
    altitude: float
    """Metres above the sea."""


@dataclass(frozen=True)
class Globe:
    """A globe that is flat around the field."""

    origin: GeoPoint
    """The middle of the field, at the height of a resting drone's centre."""
    metres_per_degree: float
    """Of latitude."""

    @property
    def _metres_per_degree_east(self) -> float:
        return self.metres_per_degree * math.cos(math.radians(self.origin.latitude))

    def to_geo_point(self, position_world: Vector) -> GeoPoint:
        """A position, field frame, on the globe."""
        north, east, down = to_ned(position_world)
        latitude, longitude, altitude = self.origin
        return GeoPoint(
            latitude + north / self.metres_per_degree, longitude + east / self._metres_per_degree_east, altitude - down
        )

    def from_geo_point(self, point: GeoPoint) -> Vector:
        """The position, field frame, of a point on the globe."""
        north, east, up = (one - other for one, other in zip(point, self.origin, strict=True))
        return from_ned((north * self.metres_per_degree, east * self._metres_per_degree_east, -up))
