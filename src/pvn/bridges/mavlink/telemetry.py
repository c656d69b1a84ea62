"""The messages by which the autopilot tells how it is doing, each made from its state and the vehicle's."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from pymavlink.dialects.v20 import common as mavlink

from pvn.bridges.mavlink.autopilot import Autopilot
from pvn.bridges.mavlink.frames import (
    ORIGIN_ALTITUDE,
    ORIGIN_LATITUDE,
    ORIGIN_LONGITUDE,
    to_geodetic,
    to_sea_level,
)
from pvn.bridges.mavlink.modes import Mode, to_custom_mode
from pvn.bridges.shared.frames import Vector, roll_pitch_yaw, swap_rates, swap_rotation, swap_vector, swap_yaw, to_ned
from pvn.bridges.shared.vehicle import Vehicle

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


def _boot_ms(vehicle: Vehicle) -> int:
    return round(vehicle.time_s * 1e3) & 0xFFFFFFFF


def _euler_ned(vehicle: Vehicle) -> Vector:
    """Roll, pitch (nose up) and yaw (clockwise from north), radians."""
    roll, pitch, yaw = roll_pitch_yaw(vehicle.rotation)
    return roll, -pitch, swap_yaw(yaw)


def _heading_cdeg(vehicle: Vehicle) -> int:
    return round(math.degrees(_euler_ned(vehicle)[2]) * 100) % 36000


def heartbeat(autopilot: Autopilot, vehicle: Vehicle) -> Any:
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


def _volts(autopilot: Autopilot) -> float:
    return EMPTY_VOLTS + (FULL_VOLTS - EMPTY_VOLTS) * autopilot.battery


def _sys_status(autopilot: Autopilot, vehicle: Vehicle) -> Any:
    volts, percent = round(_volts(autopilot) * 1e3), round(autopilot.battery * 100)
    healthy = SENSORS | mavlink.MAV_SYS_STATUS_GEOFENCE  # a fence that it does not have is not broken either
    return mavlink.MAVLink_sys_status_message(SENSORS, SENSORS, healthy, 100, volts, -1, percent, 0, 0, 0, 0, 0, 0)


def _battery_status(autopilot: Autopilot, vehicle: Vehicle) -> Any:
    unknown = 0xFFFF
    cells = [round(_volts(autopilot) / 3 * 1e3)] * 3 + [unknown] * 7
    return mavlink.MAVLink_battery_status_message(
        0, mavlink.MAV_BATTERY_FUNCTION_ALL, mavlink.MAV_BATTERY_TYPE_LIPO, 0x7FFF, cells, -1, -1, -1,
        round(autopilot.battery * 100),
    )  # fmt: skip


def _attitude(autopilot: Autopilot, vehicle: Vehicle) -> Any:
    return mavlink.MAVLink_attitude_message(_boot_ms(vehicle), *_euler_ned(vehicle), *swap_rates(vehicle.rates_body))


def _attitude_quaternion(autopilot: Autopilot, vehicle: Vehicle) -> Any:
    rotation, rates = swap_rotation(vehicle.rotation), swap_rates(vehicle.rates_body)
    return mavlink.MAVLink_attitude_quaternion_message(_boot_ms(vehicle), *rotation, *rates)


def _local_position(autopilot: Autopilot, vehicle: Vehicle) -> Any:
    return mavlink.MAVLink_local_position_ned_message(
        _boot_ms(vehicle), *to_ned(vehicle.position), *swap_vector(vehicle.velocity)
    )


def _odometry(autopilot: Autopilot, vehicle: Vehicle) -> Any:
    yaw = roll_pitch_yaw(vehicle.rotation)[2]
    east, north, up = vehicle.velocity
    forward = east * math.cos(yaw) + north * math.sin(yaw)
    left = north * math.cos(yaw) - east * math.sin(yaw)
    unknown = [math.nan] * 21
    return mavlink.MAVLink_odometry_message(
        round(vehicle.time_s * 1e6), mavlink.MAV_FRAME_LOCAL_NED, mavlink.MAV_FRAME_BODY_FRD,
        *to_ned(vehicle.position), swap_rotation(vehicle.rotation), forward, -left, -up,
        *swap_rates(vehicle.rates_body), unknown, unknown, 0, mavlink.MAV_ESTIMATOR_TYPE_AUTOPILOT, 100,
    )  # fmt: skip


def _geodetic(vehicle: Vehicle) -> tuple[int, int, int]:
    """Latitude and longitude, 1e-7 degrees, and millimetres above the sea."""
    x, y, z = vehicle.position
    latitude, longitude = to_geodetic(x, y)
    return round(latitude * 1e7), round(longitude * 1e7), round(to_sea_level(z) * 1e3)


def _above_home(autopilot: Autopilot, vehicle: Vehicle) -> float:
    return vehicle.position[2] - autopilot.home[2]


def _global_position(autopilot: Autopilot, vehicle: Vehicle) -> Any:
    velocity = (round(one * 100) for one in swap_vector(vehicle.velocity))
    above = round(_above_home(autopilot, vehicle) * 1e3)
    return mavlink.MAVLink_global_position_int_message(
        _boot_ms(vehicle), *_geodetic(vehicle), above, *velocity, _heading_cdeg(vehicle)
    )


def _gps(autopilot: Autopilot, vehicle: Vehicle) -> Any:
    east, north, _ = vehicle.velocity
    course = round(math.degrees(swap_yaw(math.atan2(north, east))) * 100) % 36000
    return mavlink.MAVLink_gps_raw_int_message(
        round(vehicle.time_s * 1e6), mavlink.GPS_FIX_TYPE_3D_FIX, *_geodetic(vehicle), 80, 100,
        round(math.hypot(east, north) * 100), course, 12,
    )  # fmt: skip


def _gps_origin(autopilot: Autopilot, vehicle: Vehicle) -> Any:
    return mavlink.MAVLink_gps_global_origin_message(
        round(ORIGIN_LATITUDE * 1e7), round(ORIGIN_LONGITUDE * 1e7), round(ORIGIN_ALTITUDE * 1e3)
    )


def _altitude(autopilot: Autopilot, vehicle: Vehicle) -> Any:
    sea, above = to_sea_level(vehicle.position[2]), _above_home(autopilot, vehicle)
    local = -to_ned(vehicle.position)[2]
    return mavlink.MAVLink_altitude_message(round(vehicle.time_s * 1e6), sea, sea, local, above, math.nan, math.nan)


def _vfr_hud(autopilot: Autopilot, vehicle: Vehicle) -> Any:
    east, north, up = vehicle.velocity
    speed, throttle = math.hypot(east, north), 0 if autopilot.is_landed else 50
    height = to_sea_level(vehicle.position[2])
    return mavlink.MAVLink_vfr_hud_message(speed, speed, _heading_cdeg(vehicle) // 100, throttle, height, up)


def _extended_state(autopilot: Autopilot, vehicle: Vehicle) -> Any:
    if autopilot.is_landed:
        landed = mavlink.MAV_LANDED_STATE_ON_GROUND
    else:
        named = {Mode.LAND: mavlink.MAV_LANDED_STATE_LANDING, Mode.TAKEOFF: mavlink.MAV_LANDED_STATE_TAKEOFF}
        landed = named.get(autopilot.mode, mavlink.MAV_LANDED_STATE_IN_AIR)
    return mavlink.MAVLink_extended_sys_state_message(mavlink.MAV_VTOL_STATE_UNDEFINED, landed)


def _home(autopilot: Autopilot, vehicle: Vehicle) -> Any:
    x, y, z = autopilot.home
    latitude, longitude = to_geodetic(x, y)
    return mavlink.MAVLink_home_position_message(
        round(latitude * 1e7), round(longitude * 1e7), round(to_sea_level(z) * 1e3), *to_ned(autopilot.home),
        [1.0, 0.0, 0.0, 0.0], 0.0, 0.0, 0.0,
    )  # fmt: skip


def _system_time(autopilot: Autopilot, vehicle: Vehicle) -> Any:
    return mavlink.MAVLink_system_time_message(round(vehicle.time_s * 1e6), _boot_ms(vehicle))


def _mission_current(autopilot: Autopilot, vehicle: Vehicle) -> Any:
    return mavlink.MAVLink_mission_current_message(autopilot.mission.current, len(autopilot.mission.items))


def _version(autopilot: Autopilot, vehicle: Vehicle) -> Any:
    return mavlink.MAVLink_autopilot_version_message(
        CAPABILITIES, FIRMWARE_VERSION, 0, 0, 0, [0] * 8, [0] * 8, [0] * 8, 0, 0, 1
    )


Builder = Callable[[Autopilot, Vehicle], Any]

BUILDERS: MappingProxyType[int, Builder] = MappingProxyType(
    {
        mavlink.MAVLINK_MSG_ID_HEARTBEAT: heartbeat,
        mavlink.MAVLINK_MSG_ID_SYS_STATUS: _sys_status,
        mavlink.MAVLINK_MSG_ID_BATTERY_STATUS: _battery_status,
        mavlink.MAVLINK_MSG_ID_ATTITUDE: _attitude,
        mavlink.MAVLINK_MSG_ID_ATTITUDE_QUATERNION: _attitude_quaternion,
        mavlink.MAVLINK_MSG_ID_LOCAL_POSITION_NED: _local_position,
        mavlink.MAVLINK_MSG_ID_ODOMETRY: _odometry,
        mavlink.MAVLINK_MSG_ID_GLOBAL_POSITION_INT: _global_position,
        mavlink.MAVLINK_MSG_ID_GPS_RAW_INT: _gps,
        mavlink.MAVLINK_MSG_ID_GPS_GLOBAL_ORIGIN: _gps_origin,
        mavlink.MAVLINK_MSG_ID_ALTITUDE: _altitude,
        mavlink.MAVLINK_MSG_ID_VFR_HUD: _vfr_hud,
        mavlink.MAVLINK_MSG_ID_EXTENDED_SYS_STATE: _extended_state,
        mavlink.MAVLINK_MSG_ID_HOME_POSITION: _home,
        mavlink.MAVLINK_MSG_ID_SYSTEM_TIME: _system_time,
        mavlink.MAVLINK_MSG_ID_MISSION_CURRENT: _mission_current,
        mavlink.MAVLINK_MSG_ID_AUTOPILOT_VERSION: _version,
    }
)
"""The messages that can be requested, by number."""

RATES_HZ: MappingProxyType[int, float] = MappingProxyType(
    {
        mavlink.MAVLINK_MSG_ID_SYS_STATUS: 2.0,
        mavlink.MAVLINK_MSG_ID_BATTERY_STATUS: 2.0,
        mavlink.MAVLINK_MSG_ID_ATTITUDE: 10.0,
        mavlink.MAVLINK_MSG_ID_ATTITUDE_QUATERNION: 50.0,
        mavlink.MAVLINK_MSG_ID_LOCAL_POSITION_NED: 50.0,
        mavlink.MAVLINK_MSG_ID_GLOBAL_POSITION_INT: 10.0,
        mavlink.MAVLINK_MSG_ID_GPS_RAW_INT: 2.0,
        mavlink.MAVLINK_MSG_ID_ALTITUDE: 5.0,
        mavlink.MAVLINK_MSG_ID_VFR_HUD: 5.0,
        mavlink.MAVLINK_MSG_ID_EXTENDED_SYS_STATE: 5.0,
        mavlink.MAVLINK_MSG_ID_HOME_POSITION: 1.0,
        mavlink.MAVLINK_MSG_ID_SYSTEM_TIME: 1.0,
        mavlink.MAVLINK_MSG_ID_MISSION_CURRENT: 2.0,
    }
)
"""How often they are sent to every client unless it asks for something else, per simulated second."""
