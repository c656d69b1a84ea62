"""Missions: their transfer between a ground station and the autopilot."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from pymavlink.dialects.v20 import common as mavlink

MAX_ITEMS = 200
UPLOAD_TIMEOUT_S = 5.0
ARRIVAL_DISTANCE_M = 1.0
WAYPOINT, LAND = mavlink.MAV_CMD_NAV_WAYPOINT, mavlink.MAV_CMD_NAV_LAND
TAKEOFF, RETURN = mavlink.MAV_CMD_NAV_TAKEOFF, mavlink.MAV_CMD_NAV_RETURN_TO_LAUNCH
NOT_PLACES = (mavlink.MAV_FRAME_MISSION,)
FRAMES = (0, 3, 5, 6, *NOT_PLACES)
"""Frames of items that we accept: above the sea, above home, and the one of items without a place."""


@dataclass(frozen=True)
class MissionItem:
    """One item, as it was sent."""

    command: int
    frame: int
    parameters: tuple[float, float, float, float]
    latitude: float
    """Degrees."""
    longitude: float
    """Degrees."""
    altitude: float
    """Metres, above what the frame says."""


@dataclass(frozen=True)
class Upload:
    """A mission on its way here."""

    sender: tuple[int, int]
    """System and component that send it."""
    count: int
    items: tuple[MissionItem, ...]
    asked_at: float
    """Simulated time of the last request for an item, seconds."""


@dataclass(frozen=True)
class MissionStore:
    """The mission that is flown, and one on its way here."""

    items: tuple[MissionItem, ...] = ()
    current: int = 0
    upload: Upload | None = None


def _sender(message: Any) -> tuple[int, int]:
    return message.get_srcSystem(), message.get_srcComponent()


def _acknowledge(sender: tuple[int, int], result: int, mission_type: int = 0) -> Any:
    return mavlink.MAVLink_mission_ack_message(*sender, result, mission_type)


def _request(upload: Upload) -> Any:
    return mavlink.MAVLink_mission_request_int_message(*upload.sender, len(upload.items), 0)


def _read_item(message: Any) -> MissionItem:
    scale = 1e7 if message.get_type() == "MISSION_ITEM_INT" else 1.0
    parameters = (message.param1, message.param2, message.param3, message.param4)
    return MissionItem(message.command, message.frame, parameters, message.x / scale, message.y / scale, message.z)


def _encode_item(item: MissionItem, number: int, sender: tuple[int, int]) -> Any:
    return mavlink.MAVLink_mission_item_int_message(
        *sender, number, item.frame, item.command, 0, 1, *item.parameters,
        round(item.latitude * 1e7), round(item.longitude * 1e7), item.altitude, 0,
    )  # fmt: skip


def _begin_upload(store: MissionStore, message: Any, time_s: float) -> tuple[MissionStore, list[Any]]:
    sender = _sender(message)
    if message.count > MAX_ITEMS:
        return store, [_acknowledge(sender, mavlink.MAV_MISSION_NO_SPACE)]
    if message.count == 0:
        return MissionStore(), [_acknowledge(sender, mavlink.MAV_MISSION_ACCEPTED)]
    upload = Upload(sender, message.count, (), time_s)
    return replace(store, upload=upload), [_request(upload)]


def _take_item(store: MissionStore, message: Any, time_s: float) -> tuple[MissionStore, list[Any]]:
    """Take the next item of the upload; ignore one that was not requested."""
    upload, sender = store.upload, _sender(message)
    if upload is None or upload.sender != sender or message.seq != len(upload.items):
        return store, []
    item = _read_item(message)
    is_place = item.command in (WAYPOINT, LAND, TAKEOFF)
    is_known = all(map(math.isfinite, (item.latitude, item.longitude, item.altitude)))
    if item.frame not in FRAMES or (is_place and not is_known):
        return replace(store, upload=None), [_acknowledge(sender, mavlink.MAV_MISSION_UNSUPPORTED_FRAME)]
    upload = replace(upload, items=(*upload.items, item), asked_at=time_s)
    if len(upload.items) < upload.count:
        return replace(store, upload=upload), [_request(upload)]
    return MissionStore(upload.items), [_acknowledge(sender, mavlink.MAV_MISSION_ACCEPTED)]


def receive(store: MissionStore, message: Any, time_s: float) -> tuple[MissionStore, list[Any]]:
    """The store after a message about missions, and what to answer. Geofences and rally points are not supported."""
    kind, sender = message.get_type(), _sender(message)
    if getattr(message, "mission_type", 0) != 0:
        result = mavlink.MAV_MISSION_UNSUPPORTED
        return store, [] if kind == "MISSION_ACK" else [_acknowledge(sender, result, message.mission_type)]
    match kind:
        case "MISSION_COUNT":
            return _begin_upload(store, message, time_s)
        case "MISSION_ITEM_INT" | "MISSION_ITEM":
            return _take_item(store, message, time_s)
        case "MISSION_REQUEST_LIST":
            return store, [mavlink.MAVLink_mission_count_message(*sender, len(store.items), 0)]
        case "MISSION_REQUEST_INT" | "MISSION_REQUEST":
            if message.seq < len(store.items):
                return store, [_encode_item(store.items[message.seq], message.seq, sender)]
            return store, [_acknowledge(sender, mavlink.MAV_MISSION_INVALID_SEQUENCE)]
        case "MISSION_CLEAR_ALL":
            return MissionStore(), [_acknowledge(sender, mavlink.MAV_MISSION_ACCEPTED)]
        case "MISSION_SET_CURRENT" if message.seq < len(store.items):
            store = replace(store, current=message.seq)
            return store, [mavlink.MAVLink_mission_current_message(store.current)]
    return store, []


def give_up_uploads(store: MissionStore, time_s: float) -> MissionStore:
    """The store without an upload whose sender has gone silent."""
    is_late = store.upload is not None and time_s - store.upload.asked_at > UPLOAD_TIMEOUT_S
    return replace(store, upload=None) if is_late else store
