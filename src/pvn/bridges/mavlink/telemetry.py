"""The messages in which the autopilot says how it is doing, each made from its state and the vehicle's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from pymavlink.dialects.v20 import common as mavlink

from pvn.bridges.mavlink.autopilot import Autopilot
from pvn.bridges.mavlink.modes import Mode, to_custom_mode
from pvn.bridges.mavlink.targets import GLOBE
from pvn.bridges.shared.frames import Vector, roll_pitch_yaw, swap_rates, swap_rotation, swap_vector, swap_yaw, to_ned
from pvn.bridges.shared.globe import GeoPoint
from pvn.bridges.shared.motions import VehicleState

FULL_VOLTS, EMPTY_VOLTS = 12.6, 10.5
"""Of a battery with three cells."""
SENSORS = (
    mavlink.MAV_SYS_STATUS_SENSOR_3D_GYRO
    | mavlink.MAV_SYS_STATUS_SENSOR_3D_ACCEL
    | mavlink.MAV_SYS_STATUS_SENSOR_3D_MAG
    | mavlink.MAV_SYS_STATUS_SENSOR_ABSOLUTE_PRESSURE
    | mavlink.MAV_SYS_STATUS_SENSOR_GPS
    | mavlink.MAV_SYS_STATUS_SENSOR_XY_POSITION_CONTROL
    | mavlink.MAV_SYS_STATUS_SENSOR_Z_ALTITUDE_CONTROL
    | mavlink.MAV_SYS_STATUS_SENSOR_MOTOR_OUTPUTS
    | mavlink.MAV_SYS_STATUS_SENSOR_BATTERY
    | mavlink.MAV_SYS_STATUS_PREARM_CHECK
)
CAPABILITIES = (
    mavlink.MAV_PROTOCOL_CAPABILITY_MISSION_INT
    | mavlink.MAV_PROTOCOL_CAPABILITY_COMMAND_INT
    | mavlink.MAV_PROTOCOL_CAPABILITY_SET_POSITION_TARGET_LOCAL_NED
    | mavlink.MAV_PROTOCOL_CAPABILITY_SET_POSITION_TARGET_GLOBAL_INT
    | mavlink.MAV_PROTOCOL_CAPABILITY_MAVLINK2
)
FIRMWARE_VERSION = 1 << 24 | 15 << 16 | 4 << 8 | 255  # 1.15.4, a release
UNKNOWN_CELL, UNKNOWN_CELSIUS = 0xFFFF, 0x7FFF


def _boot_ms(vehicle: VehicleState) -> int:
    return round(vehicle.time_s * 1e3) & 0xFFFFFFFF


def _time_us(vehicle: VehicleState) -> int:
    return round(vehicle.time_s * 1e6)


def _euler_ned(vehicle: VehicleState) -> Vector:
    """Roll, pitch (nose up) and yaw (clockwise from north), radians."""
    roll, pitch, yaw = roll_pitch_yaw(vehicle.rotation)
    return roll, -pitch, swap_yaw(yaw)


def _centidegrees(yaw: float) -> int:
    """A heading, radians counter-clockwise from east, as hundredths of degrees clockwise from north."""
    return round(math.degrees(swap_yaw(yaw)) * 100) % 36000


def _above_home(autopilot: Autopilot, vehicle: VehicleState) -> float:
    return vehicle.position[2] - autopilot.home[2]


def _packed(point: GeoPoint) -> tuple[int, int, int]:
    """Latitude and longitude, 1e-7 degrees, and millimetres above the sea."""
    return round(point.latitude * 1e7), round(point.longitude * 1e7), round(point.altitude * 1e3)


def _volts(autopilot: Autopilot) -> float:
    return EMPTY_VOLTS + (FULL_VOLTS - EMPTY_VOLTS) * autopilot.battery


def heartbeat(autopilot: Autopilot, vehicle: VehicleState) -> Any:
    """That the autopilot is there, its mode, and whether it is armed."""
    flags = mavlink.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED | mavlink.MAV_MODE_FLAG_STABILIZE_ENABLED
    if autopilot.mode is not Mode.PILOT:
        flags |= mavlink.MAV_MODE_FLAG_GUIDED_ENABLED
    if autopilot.is_armed:
        flags |= mavlink.MAV_MODE_FLAG_SAFETY_ARMED
    kind = mavlink.MAV_AUTOPILOT_PX4 if autopilot.firmware == "px4" else mavlink.MAV_AUTOPILOT_ARDUPILOTMEGA
    state = mavlink.MAV_STATE_ACTIVE if autopilot.is_armed else mavlink.MAV_STATE_STANDBY
    return mavlink.MAVLink_heartbeat_message(
        mavlink.MAV_TYPE_QUADROTOR, kind, flags, to_custom_mode(autopilot.mode, autopilot.firmware), state, 3
    )


def _sys_status(autopilot: Autopilot, vehicle: VehicleState) -> Any:
    millivolts, percent = round(_volts(autopilot) * 1e3), round(autopilot.battery * 100)
    healthy = SENSORS | mavlink.MAV_SYS_STATUS_GEOFENCE  # a fence that it does not have is not broken either
    return mavlink.MAVLink_sys_status_message(SENSORS, SENSORS, healthy, 100, millivolts, -1, percent, *[0] * 6)


def _battery_status(autopilot: Autopilot, vehicle: VehicleState) -> Any:
    cells = [round(_volts(autopilot) / 3 * 1e3)] * 3 + [UNKNOWN_CELL] * 7
    return mavlink.MAVLink_battery_status_message(
        0, mavlink.MAV_BATTERY_FUNCTION_ALL, mavlink.MAV_BATTERY_TYPE_LIPO, UNKNOWN_CELSIUS, cells, -1, -1, -1,
        round(autopilot.battery * 100),
    )  # fmt: skip


def _attitude(autopilot: Autopilot, vehicle: VehicleState) -> Any:
    return mavlink.MAVLink_attitude_message(_boot_ms(vehicle), *_euler_ned(vehicle), *swap_rates(vehicle.rates_body))


def _attitude_quaternion(autopilot: Autopilot, vehicle: VehicleState) -> Any:
    rotation, rates = swap_rotation(vehicle.rotation), swap_rates(vehicle.rates_body)
    return mavlink.MAVLink_attitude_quaternion_message(_boot_ms(vehicle), *rotation, *rates)


def _local_position(autopilot: Autopilot, vehicle: VehicleState) -> Any:
    position, velocity = to_ned(vehicle.position), swap_vector(vehicle.velocity)
    return mavlink.MAVLink_local_position_ned_message(_boot_ms(vehicle), *position, *velocity)


def _odometry(autopilot: Autopilot, vehicle: VehicleState) -> Any:
    east, north, up = vehicle.velocity
    cos, sin = math.cos(vehicle.yaw), math.sin(vehicle.yaw)
    velocity_body = east * cos + north * sin, east * sin - north * cos, -up  # forward, right, down
    unknown = [math.nan] * 21
    return mavlink.MAVLink_odometry_message(
        _time_us(vehicle), mavlink.MAV_FRAME_LOCAL_NED, mavlink.MAV_FRAME_BODY_FRD, *to_ned(vehicle.position),
        swap_rotation(vehicle.rotation), *velocity_body, *swap_rates(vehicle.rates_body), unknown, unknown, 0,
        mavlink.MAV_ESTIMATOR_TYPE_AUTOPILOT, 100,
    )  # fmt: skip


def _global_position(autopilot: Autopilot, vehicle: VehicleState) -> Any:
    velocity_cm_s = (round(one * 100) for one in swap_vector(vehicle.velocity))
    place, above_mm = _packed(GLOBE.to_geo_point(vehicle.position)), round(_above_home(autopilot, vehicle) * 1e3)
    return mavlink.MAVLink_global_position_int_message(
        _boot_ms(vehicle), *place, above_mm, *velocity_cm_s, _centidegrees(vehicle.yaw)
    )


def _gps(autopilot: Autopilot, vehicle: VehicleState) -> Any:
    east, north, _ = vehicle.velocity
    place, course = _packed(GLOBE.to_geo_point(vehicle.position)), _centidegrees(math.atan2(north, east))
    speed_cm_s = round(math.hypot(east, north) * 100)
    return mavlink.MAVLink_gps_raw_int_message(
        _time_us(vehicle), mavlink.GPS_FIX_TYPE_3D_FIX, *place, 80, 100, speed_cm_s, course, 12
    )


def _gps_origin(autopilot: Autopilot, vehicle: VehicleState) -> Any:
    return mavlink.MAVLink_gps_global_origin_message(*_packed(GLOBE.origin))


def _altitude(autopilot: Autopilot, vehicle: VehicleState) -> Any:
    sea, local = GLOBE.to_geo_point(vehicle.position).altitude, -to_ned(vehicle.position)[2]
    above = _above_home(autopilot, vehicle)
    return mavlink.MAVLink_altitude_message(_time_us(vehicle), sea, sea, local, above, math.nan, math.nan)


def _vfr_hud(autopilot: Autopilot, vehicle: VehicleState) -> Any:
    east, north, up = vehicle.velocity
    speed, throttle = math.hypot(east, north), 0 if autopilot.is_landed else 50
    heading, altitude = _centidegrees(vehicle.yaw) // 100, GLOBE.to_geo_point(vehicle.position).altitude
    return mavlink.MAVLink_vfr_hud_message(speed, speed, heading, throttle, altitude, up)


def _extended_state(autopilot: Autopilot, vehicle: VehicleState) -> Any:
    if autopilot.is_landed:
        landed = mavlink.MAV_LANDED_STATE_ON_GROUND
    else:
        named = {Mode.LAND: mavlink.MAV_LANDED_STATE_LANDING, Mode.TAKEOFF: mavlink.MAV_LANDED_STATE_TAKEOFF}
        landed = named.get(autopilot.mode, mavlink.MAV_LANDED_STATE_IN_AIR)
    return mavlink.MAVLink_extended_sys_state_message(mavlink.MAV_VTOL_STATE_UNDEFINED, landed)


def _home(autopilot: Autopilot, vehicle: VehicleState) -> Any:
    place, local = _packed(GLOBE.to_geo_point(autopilot.home)), to_ned(autopilot.home)
    return mavlink.MAVLink_home_position_message(*place, *local, [1.0, 0.0, 0.0, 0.0], 0.0, 0.0, 0.0)


def _system_time(autopilot: Autopilot, vehicle: VehicleState) -> Any:
    return mavlink.MAVLink_system_time_message(_time_us(vehicle), _boot_ms(vehicle))


def _mission_current(autopilot: Autopilot, vehicle: VehicleState) -> Any:
    return mavlink.MAVLink_mission_current_message(autopilot.mission.current, len(autopilot.mission.items))


def _version(autopilot: Autopilot, vehicle: VehicleState) -> Any:
    return mavlink.MAVLink_autopilot_version_message(
        CAPABILITIES, FIRMWARE_VERSION, 0, 0, 0, [0] * 8, [0] * 8, [0] * 8, 0, 0, 1
    )


class TelemetryMessage(NamedTuple):
    """A message about the autopilot and the vehicle."""

    build: Callable[[Autopilot, VehicleState], Any]
    rate_hz: float | None = None
    """How often every client gets it, per simulated second, unless it asks for something else; None: on request."""


TELEMETRY: Mapping[int, TelemetryMessage] = MappingProxyType(
    {
        mavlink.MAVLINK_MSG_ID_HEARTBEAT: TelemetryMessage(heartbeat),
        mavlink.MAVLINK_MSG_ID_SYS_STATUS: TelemetryMessage(_sys_status, 2.0),
        mavlink.MAVLINK_MSG_ID_BATTERY_STATUS: TelemetryMessage(_battery_status, 2.0),
        mavlink.MAVLINK_MSG_ID_ATTITUDE: TelemetryMessage(_attitude, 10.0),
        mavlink.MAVLINK_MSG_ID_ATTITUDE_QUATERNION: TelemetryMessage(_attitude_quaternion, 50.0),
        mavlink.MAVLINK_MSG_ID_LOCAL_POSITION_NED: TelemetryMessage(_local_position, 50.0),
        mavlink.MAVLINK_MSG_ID_ODOMETRY: TelemetryMessage(_odometry),
        mavlink.MAVLINK_MSG_ID_GLOBAL_POSITION_INT: TelemetryMessage(_global_position, 10.0),
        mavlink.MAVLINK_MSG_ID_GPS_RAW_INT: TelemetryMessage(_gps, 2.0),
        mavlink.MAVLINK_MSG_ID_GPS_GLOBAL_ORIGIN: TelemetryMessage(_gps_origin),
        mavlink.MAVLINK_MSG_ID_ALTITUDE: TelemetryMessage(_altitude, 5.0),
        mavlink.MAVLINK_MSG_ID_VFR_HUD: TelemetryMessage(_vfr_hud, 5.0),
        mavlink.MAVLINK_MSG_ID_EXTENDED_SYS_STATE: TelemetryMessage(_extended_state, 5.0),
        mavlink.MAVLINK_MSG_ID_HOME_POSITION: TelemetryMessage(_home, 1.0),
        mavlink.MAVLINK_MSG_ID_SYSTEM_TIME: TelemetryMessage(_system_time, 1.0),
        mavlink.MAVLINK_MSG_ID_MISSION_CURRENT: TelemetryMessage(_mission_current, 2.0),
        mavlink.MAVLINK_MSG_ID_AUTOPILOT_VERSION: TelemetryMessage(_version),
    }
)
"""Everything that can be requested, by number."""
