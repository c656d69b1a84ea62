"""What the autopilot does by itself as time passes: it ends take-offs and landings, gives up, drains its battery."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from pymavlink.dialects.v20 import common as mavlink

from pvn.bridges.mavlink import missions
from pvn.bridges.mavlink.autopilot import HEIGHT_TOLERANCE_M, REST_SPEED, Autopilot, arm, enter, tell
from pvn.bridges.mavlink.missions import ARRIVAL_DISTANCE_M, MissionItem
from pvn.bridges.mavlink.modes import Mode
from pvn.bridges.mavlink.targets import Target, clamp_place, global_height, global_place, hold_height
from pvn.bridges.shared.motions import VehicleState

MIN_TRAVEL_M = 1.0
"""Nearer to its goal than this, a drone on a mission does not turn towards it."""
CRITICAL = mavlink.MAV_SEVERITY_CRITICAL


def _settle(autopilot: Autopilot, vehicle: VehicleState) -> Autopilot:
    """Once a braking drone is at rest, hold its place as well."""
    target = autopilot.target
    is_braking = autopilot.mode in (Mode.HOLD, Mode.PILOT) and target is not None and target.place is None
    if is_braking and target is not None and math.hypot(*vehicle.velocity) < REST_SPEED:
        return replace(autopilot, target=replace(target, place=vehicle.position[:2]))
    return autopilot


def _touch_down(autopilot: Autopilot, is_landed: bool, vehicle: VehicleState) -> tuple[Autopilot, list[Any]]:
    """Notice take-offs and landings, and disarm a drone that has stood on the ground for long."""
    known = autopilot.parameters
    if is_landed != autopilot.is_landed:
        autopilot = replace(autopilot, is_landed=is_landed, changed_at=vehicle.time_s)
        if is_landed:
            landed = replace(autopilot, target=None, mode=Mode.LAND, setpoint_at=-math.inf)
            return landed, [tell("Landing detected")]
        return autopilot, [tell("Takeoff detected")]
    patience = known["COM_DISARM_LAND"] if autopilot.mode is Mode.LAND else known["COM_DISARM_PRFLT"]
    if is_landed and autopilot.is_armed and vehicle.time_s - autopilot.changed_at > patience:
        return arm(autopilot, False, vehicle)[0], [tell("Disarmed by itself")]
    return autopilot, []


def _use_battery(autopilot: Autopilot, vehicle: VehicleState) -> tuple[Autopilot, list[Any]]:
    elapsed = 0.0 if autopilot.is_landed else vehicle.time_s - autopilot.updated_at
    battery = max(autopilot.battery - elapsed / max(autopilot.parameters["SIM_BAT_DRAIN"], 1.0), 0.0)
    autopilot = replace(autopilot, battery=battery, updated_at=vehicle.time_s)
    is_critical = battery < autopilot.parameters["BAT_CRIT_THR"]
    if is_critical and not autopilot.is_landed and autopilot.mode is not Mode.LAND:
        return enter(autopilot, Mode.LAND, vehicle)[0], [tell("Critical battery, landing", CRITICAL)]
    return autopilot, []


def _follow_setpoints(autopilot: Autopilot, vehicle: VehicleState) -> tuple[Autopilot, list[Any]]:
    """Stop following a computer that has gone silent: PX4 holds, ArduPilot brakes and stays in GUIDED."""
    age = vehicle.time_s - autopilot.setpoint_at
    if math.isinf(age) or age <= autopilot.parameters["COM_OF_LOSS_T"]:
        return autopilot, []
    if autopilot.firmware == "px4":
        return enter(autopilot, Mode.HOLD, vehicle)[0], [tell("Offboard set-points lost, holding", CRITICAL)]
    target = None if autopilot.is_landed else hold_height(Target(), None, vehicle)
    return replace(autopilot, target=target, setpoint_at=-math.inf), [tell("Guided set-points lost, braking", CRITICAL)]


def _item_target(autopilot: Autopilot, item: MissionItem, vehicle: VehicleState) -> Target:
    """Where a waypoint or a take-off leads, looking where the drone goes unless the item says otherwise."""
    place = vehicle.position[:2]
    if item.latitude or item.longitude:
        place = clamp_place(*global_place(item.latitude, item.longitude))
    east, north = place[0] - vehicle.position[0], place[1] - vehicle.position[1]
    ahead = math.atan2(north, east) if math.hypot(east, north) > MIN_TRAVEL_M else None
    held = autopilot.target.yaw if autopilot.target is not None else vehicle.yaw
    height = global_height(item.altitude, item.frame, autopilot.home[2])
    return Target(place=place, altitude=height, yaw=held if ahead is None else ahead)


def _next_item(autopilot: Autopilot) -> tuple[Autopilot, list[Any]]:
    store = autopilot.mission
    reached = mavlink.MAVLink_mission_item_reached_message(store.current)
    following = replace(store, current=store.current + 1)
    return replace(autopilot, mission=following, reached_at=math.inf), [reached]


def _fly_mission(autopilot: Autopilot, vehicle: VehicleState) -> tuple[Autopilot, list[Any]]:
    """Fly the current item; skip one that names no place."""
    store = autopilot.mission
    if store.current >= len(store.items):
        done = replace(autopilot, mission=replace(store, current=0))
        return enter(done, Mode.HOLD, vehicle)[0], [tell("Mission finished")]
    item = store.items[store.current]
    if item.command == missions.RETURN:
        return enter(autopilot, Mode.RETURN, vehicle)[0], [mavlink.MAVLink_mission_item_reached_message(store.current)]
    if item.command == missions.LAND:
        return enter(autopilot, Mode.LAND, vehicle)[0], [mavlink.MAVLink_mission_item_reached_message(store.current)]
    if item.command not in (missions.WAYPOINT, missions.TAKEOFF):
        return _next_item(autopilot)
    target = _item_target(autopilot, item, vehicle)
    autopilot = replace(autopilot, target=target)
    if target.place is None or target.altitude is None:
        return autopilot, []
    distance = math.dist((*target.place, target.altitude), vehicle.position)
    if math.isinf(autopilot.reached_at) and distance < ARRIVAL_DISTANCE_M:
        autopilot = replace(autopilot, reached_at=vehicle.time_s)
    seconds = item.parameters[0] if item.command == missions.WAYPOINT and math.isfinite(item.parameters[0]) else 0.0
    if vehicle.time_s - autopilot.reached_at >= seconds:
        return _next_item(autopilot)
    return autopilot, []


def _fly_mode(autopilot: Autopilot, vehicle: VehicleState) -> tuple[Autopilot, list[Any]]:
    """Do what the mode requires."""
    target, place = autopilot.target, vehicle.position[:2]
    match autopilot.mode:
        case Mode.OFFBOARD:
            return _follow_setpoints(autopilot, vehicle)
        case Mode.MISSION if autopilot.is_armed:
            return _fly_mission(autopilot, vehicle)
        case Mode.TAKEOFF if target is not None and target.altitude is not None:
            if abs(vehicle.position[2] - target.altitude) < HEIGHT_TOLERANCE_M:
                return replace(autopilot, mode=Mode.HOLD), []
        case Mode.RETURN if target is not None and target.place is not None:
            if math.dist(target.place, place) < ARRIVAL_DISTANCE_M and math.hypot(*vehicle.velocity) < REST_SPEED:
                return enter(autopilot, Mode.LAND, vehicle)[0], []
    return autopilot, []


def advance(autopilot: Autopilot, is_landed: bool, vehicle: VehicleState) -> tuple[Autopilot, list[Any]]:
    """The autopilot a moment later, and its messages to everyone who listens."""
    told: list[Any] = []
    autopilot, said = _touch_down(autopilot, is_landed, vehicle)
    told += said
    autopilot, said = _use_battery(autopilot, vehicle)
    told += said
    autopilot, said = _fly_mode(autopilot, vehicle)
    told += said
    autopilot = replace(autopilot, mission=missions.give_up_uploads(autopilot.mission, vehicle.time_s))
    return _settle(autopilot, vehicle), told
