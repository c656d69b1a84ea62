"""The autopilot: plain functions from its state, the vehicle's state and a message to its next state.

It knows nothing of sockets, clients or wall-clock time, and it moves nothing: `setpoint` says what the quadcopter has
to hold. What it does by itself as time passes is in `progress`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from pymavlink.dialects.v20 import common as mavlink

from pvn.bridges.mavlink import missions
from pvn.bridges.mavlink.missions import MissionStore
from pvn.bridges.mavlink.modes import Firmware, Mode, from_command, from_custom_mode
from pvn.bridges.mavlink.targets import (
    SpeedLimits,
    Target,
    clamp_place,
    global_height,
    global_place,
    hold_height,
    read_global_setpoint,
    read_local_setpoint,
    steer,
)
from pvn.bridges.shared.frames import Vector, swap_yaw
from pvn.bridges.shared.motions import Setpoint, VehicleState
from pvn.simulator.quadcopter import LOWEST

PARAMETERS: Mapping[str, float] = MappingProxyType(
    {
        "BAT_CRIT_THR": 0.07,  # fraction of the battery at which it lands
        "COM_DISARM_LAND": 2.0,  # seconds after landing until it disarms itself
        "COM_DISARM_PRFLT": 10.0,  # seconds after arming until it disarms itself if it does not take off
        "COM_OF_LOSS_T": 1.0,  # seconds without a set-point until offboard control ends
        "MIS_TAKEOFF_ALT": 2.5,  # metres above where it stands
        "MPC_LAND_SPEED": 0.7,  # m/s
        "MPC_XY_CRUISE": 5.0,  # m/s, towards a place
        "MPC_XY_VEL_MAX": 12.0,  # m/s
        "MPC_Z_VEL_MAX_DN": 1.5,  # m/s
        "MPC_Z_VEL_MAX_UP": 3.0,  # m/s
        "RTL_RETURN_ALT": 10.0,  # metres above home
        "SIM_BAT_DRAIN": 1200.0,  # seconds of flight from a full battery to an empty one
    }
)
"""The parameters, with PX4's names and, where PX4 has them, its values."""

ACCEPTED, TEMPORARILY_REJECTED, DENIED, UNSUPPORTED = 0, 1, 2, 3
"""Results of a command (MAV_RESULT)."""
HEIGHT_TOLERANCE_M = 0.2
REST_SPEED = 0.3


@dataclass(frozen=True, kw_only=True)
class Autopilot:
    """Everything the autopilot remembers. Times are simulated seconds, places metres in the field frame."""

    firmware: Firmware = "px4"
    home: Vector = (0.0, 0.0, 0.0)
    mode: Mode = Mode.HOLD
    is_armed: bool = False
    is_landed: bool = True
    changed_at: float = 0.0
    """When it was armed, took off or landed."""
    target: Target | None = None
    """Where it flies; None on the ground."""
    setpoint_at: float = -math.inf
    """When the last set-point arrived."""
    offered: Target | None = None
    """The last set-point, whatever the mode."""
    battery: float = 1.0
    """Fraction that is left."""
    updated_at: float = 0.0
    parameters: Mapping[str, float] = field(default_factory=lambda: PARAMETERS)
    mission: MissionStore = MissionStore()
    reached_at: float = math.inf
    """When the current item of the mission was reached."""


def tell(text: str, severity: int = mavlink.MAV_SEVERITY_INFO) -> Any:
    """A line of text, at most 50 characters, for everyone who listens."""
    return mavlink.MAVLink_statustext_message(severity, text.encode()[:50])


def speed_limits(autopilot: Autopilot) -> SpeedLimits:
    """How fast it flies at most now."""
    known = autopilot.parameters
    is_going = autopilot.target is not None and autopilot.target.place is not None
    level = known["MPC_XY_CRUISE"] if is_going else known["MPC_XY_VEL_MAX"]
    return SpeedLimits(level, known["MPC_Z_VEL_MAX_UP"], known["MPC_Z_VEL_MAX_DN"])


def setpoint(autopilot: Autopilot, vehicle: VehicleState) -> Setpoint | None:
    """What the quadcopter has to hold now; None if its motors are off."""
    if not autopilot.is_armed or autopilot.target is None:
        return None
    return steer(autopilot.target, vehicle, speed_limits(autopilot))


def _hover(vehicle: VehicleState) -> Target:
    """Brake, and hold the height."""
    return Target(altitude=vehicle.position[2])


def _land(vehicle: VehicleState, autopilot: Autopilot) -> Target:
    return Target(place=vehicle.position[:2], climb=-autopilot.parameters["MPC_LAND_SPEED"])


def enter(autopilot: Autopilot, mode: Mode, vehicle: VehicleState) -> tuple[Autopilot, int]:
    """The autopilot after a request for a mode, and the request's result."""
    if mode is Mode.OFFBOARD and autopilot.firmware == "px4":
        if vehicle.time_s - autopilot.setpoint_at > autopilot.parameters["COM_OF_LOSS_T"]:
            return autopilot, TEMPORARILY_REJECTED  # as in PX4, set-points must flow already
    if mode is Mode.MISSION and not autopilot.mission.items:
        return autopilot, DENIED
    if mode is Mode.TAKEOFF:
        return take_off(autopilot, vehicle, None)
    entered = replace(autopilot, mode=mode, reached_at=math.inf)
    if autopilot.is_landed and mode not in (Mode.OFFBOARD, Mode.MISSION):
        return replace(entered, target=None), ACCEPTED
    match mode:
        case Mode.LAND:
            target: Target | None = _land(vehicle, autopilot)
        case Mode.RETURN:
            height = max(vehicle.position[2], autopilot.home[2] + autopilot.parameters["RTL_RETURN_ALT"])
            target = Target(place=autopilot.home[:2], altitude=height)
        case Mode.OFFBOARD if autopilot.firmware == "px4" and autopilot.offered is not None:
            target = hold_height(autopilot.offered, None, vehicle)
        case Mode.OFFBOARD | Mode.MISSION if autopilot.is_landed:
            target = None
        case _:
            target = _hover(vehicle)
    return replace(entered, target=target), ACCEPTED


def take_off(autopilot: Autopilot, vehicle: VehicleState, height: float | None) -> tuple[Autopilot, int]:
    """The autopilot after a request to climb to a height above where it is, metres, and the request's result."""
    if not autopilot.is_armed or (autopilot.firmware == "ardupilot" and autopilot.mode is not Mode.OFFBOARD):
        return autopilot, DENIED
    climb = autopilot.parameters["MIS_TAKEOFF_ALT"] if height is None else height
    x, y, z = vehicle.position
    target = Target(place=(x, y), altitude=z + max(climb, 0.0), yaw=vehicle.yaw)
    mode = Mode.TAKEOFF if autopilot.firmware == "px4" else Mode.OFFBOARD
    return replace(autopilot, mode=mode, target=target, setpoint_at=-math.inf), ACCEPTED


def arm(autopilot: Autopilot, is_armed: bool, vehicle: VehicleState) -> tuple[Autopilot, int]:
    """The autopilot after a request to arm or disarm, and the request's result; in the air it does not disarm."""
    if not is_armed and not autopilot.is_landed:
        return autopilot, DENIED
    if is_armed == autopilot.is_armed:
        return autopilot, ACCEPTED
    mode = autopilot.mode if is_armed else (Mode.HOLD if autopilot.firmware == "px4" else autopilot.mode)
    changed = replace(autopilot, is_armed=is_armed, mode=mode, target=None, changed_at=vehicle.time_s)
    if is_armed:
        changed = replace(changed, home=vehicle.position)
    return changed, ACCEPTED


def reposition(
    autopilot: Autopilot, vehicle: VehicleState, frame: int, numbers: tuple[float, float, float, float]
) -> tuple[Autopilot, int]:
    """The autopilot after a request to go to a latitude, longitude (degrees), altitude and yaw, and its result."""
    latitude, longitude, altitude, yaw = numbers
    if autopilot.is_landed or not autopilot.is_armed:
        return autopilot, DENIED
    place = vehicle.position[:2]
    if math.isfinite(latitude) and math.isfinite(longitude):
        place = global_place(latitude, longitude)
    height = global_height(altitude, frame, autopilot.home[2]) if math.isfinite(altitude) else vehicle.position[2]
    target = Target(
        place=clamp_place(*place),
        altitude=max(height, LOWEST),
        yaw=swap_yaw(yaw) if math.isfinite(yaw) else vehicle.yaw,
    )
    mode = Mode.HOLD if autopilot.firmware == "px4" else Mode.OFFBOARD
    return replace(autopilot, mode=mode, target=target, setpoint_at=-math.inf), ACCEPTED


def command(autopilot: Autopilot, message: Any, vehicle: VehicleState) -> tuple[Autopilot, int]:
    """The autopilot after COMMAND_LONG or COMMAND_INT, and its result."""
    is_int = message.get_type() == "COMMAND_INT"
    if is_int:
        place, altitude = (message.x / 1e7, message.y / 1e7), message.z
    else:
        place, altitude = (message.param5, message.param6), message.param7
    match message.command:
        case mavlink.MAV_CMD_COMPONENT_ARM_DISARM:
            return arm(autopilot, message.param1 == 1, vehicle)
        case mavlink.MAV_CMD_NAV_TAKEOFF:
            height = altitude if math.isfinite(altitude) and 0 < altitude < 100 else None
            return take_off(autopilot, vehicle, height)
        case mavlink.MAV_CMD_NAV_LAND:
            return enter(autopilot, Mode.LAND, vehicle)
        case mavlink.MAV_CMD_NAV_RETURN_TO_LAUNCH:
            return enter(autopilot, Mode.RETURN, vehicle)
        case mavlink.MAV_CMD_MISSION_START:
            return enter(autopilot, Mode.MISSION, vehicle)
        case mavlink.MAV_CMD_DO_SET_MODE:
            mode = from_command(message.param2, message.param3, autopilot.firmware)
            return (autopilot, DENIED) if mode is None else enter(autopilot, mode, vehicle)
        case mavlink.MAV_CMD_DO_REPOSITION:
            frame = message.frame if is_int else 0
            return reposition(autopilot, vehicle, frame, (*place, altitude, message.param4))
        case mavlink.MAV_CMD_DO_CHANGE_SPEED if 0 < message.param2 <= autopilot.parameters["MPC_XY_VEL_MAX"]:
            known = {**autopilot.parameters, "MPC_XY_CRUISE": message.param2}
            return replace(autopilot, parameters=known), ACCEPTED
    return autopilot, UNSUPPORTED


def _parameter_value(autopilot: Autopilot, name: str) -> Any:
    names = list(autopilot.parameters)
    return mavlink.MAVLink_param_value_message(
        name.encode(), autopilot.parameters[name], mavlink.MAV_PARAM_TYPE_REAL32, len(names), names.index(name)
    )


def _parameter_message(autopilot: Autopilot, message: Any) -> tuple[Autopilot, list[Any]]:
    """Answer a message about parameters; values that are negative or no number are ignored."""
    names = list(autopilot.parameters)
    match message.get_type():
        case "PARAM_REQUEST_LIST":
            return autopilot, [_parameter_value(autopilot, name) for name in names]
        case "PARAM_REQUEST_READ" if 0 <= message.param_index < len(names):
            return autopilot, [_parameter_value(autopilot, names[message.param_index])]
        case "PARAM_SET" if message.param_id in autopilot.parameters:
            if math.isfinite(message.param_value) and message.param_value >= 0:
                known = {**autopilot.parameters, message.param_id: message.param_value}
                autopilot = replace(autopilot, parameters=known)
    name = message.param_id
    return autopilot, [_parameter_value(autopilot, name)] if name in autopilot.parameters else []


def _take_setpoint(autopilot: Autopilot, message: Any, vehicle: VehicleState) -> Autopilot:
    """Remember a set-point, and follow it where that is the mode."""
    if message.get_type() == "SET_POSITION_TARGET_LOCAL_NED":
        target = read_local_setpoint(message, vehicle)
    else:
        target = read_global_setpoint(message, vehicle, autopilot.home[2])
    if target is None:
        return autopilot
    autopilot = replace(autopilot, offered=target, setpoint_at=vehicle.time_s)
    if autopilot.mode is not Mode.OFFBOARD:
        return autopilot
    return replace(autopilot, target=hold_height(target, autopilot.target, vehicle))


def receive(autopilot: Autopilot, message: Any, vehicle: VehicleState) -> tuple[Autopilot, list[Any]]:
    """The autopilot after a message, and what to answer its sender."""
    kind = message.get_type()
    match kind:
        case "COMMAND_LONG" | "COMMAND_INT":
            autopilot, result = command(autopilot, message, vehicle)
            sender = message.get_srcSystem(), message.get_srcComponent()
            return autopilot, [mavlink.MAVLink_command_ack_message(message.command, result, 0, 0, *sender)]
        case "SET_MODE":
            mode = from_custom_mode(message.custom_mode, autopilot.firmware)
            return (autopilot if mode is None else enter(autopilot, mode, vehicle)[0]), []
        case "SET_POSITION_TARGET_LOCAL_NED" | "SET_POSITION_TARGET_GLOBAL_INT":
            return _take_setpoint(autopilot, message, vehicle), []
    if kind.startswith("PARAM_"):
        return _parameter_message(autopilot, message)
    if kind.startswith("MISSION_"):
        store, replies = missions.receive(autopilot.mission, message, vehicle.time_s)
        return replace(autopilot, mission=store), replies
    return autopilot, []
