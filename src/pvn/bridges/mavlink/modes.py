"""Flight modes, and the numbers that PX4 and ArduPilot give them."""

from __future__ import annotations

from enum import Enum
from typing import Literal

Firmware = Literal["px4", "ardupilot"]


class Mode(Enum):
    """What an autopilot does on its own, or lets someone else decide."""

    HOLD = "hold"
    TAKEOFF = "take-off"
    LAND = "land"
    RETURN = "return"
    MISSION = "mission"
    OFFBOARD = "offboard"
    """Set-points from a computer; ArduPilot calls it GUIDED."""
    PILOT = "pilot"
    """Sticks decide: PX4's position mode, ArduPilot's POSHOLD."""


_PX4_AUTO = 4
_PX4: dict[Mode, tuple[int, int]] = {
    Mode.PILOT: (3, 0),
    Mode.OFFBOARD: (6, 0),
    Mode.TAKEOFF: (_PX4_AUTO, 2),
    Mode.HOLD: (_PX4_AUTO, 3),
    Mode.MISSION: (_PX4_AUTO, 4),
    Mode.RETURN: (_PX4_AUTO, 5),
    Mode.LAND: (_PX4_AUTO, 6),
}
"""Main and sub mode. ArduPilot has one number for each mode, and takes off in GUIDED."""
_ARDUPILOT: dict[Mode, int] = {
    Mode.MISSION: 3,
    Mode.OFFBOARD: 4,
    Mode.HOLD: 5,
    Mode.RETURN: 6,
    Mode.LAND: 9,
    Mode.PILOT: 16,
}
_ARDUPILOT_BRAKE = 17
"""The mode that MAVSDK asks of ArduPilot in order to hold; our autopilot then reports LOITER."""


def to_custom_mode(mode: Mode, firmware: Firmware) -> int:
    """The number of a mode in heartbeats."""
    if firmware == "ardupilot":
        return _ARDUPILOT[mode]
    main, sub = _PX4[mode]
    return main << 16 | sub << 24


def from_custom_mode(number: int, firmware: Firmware) -> Mode | None:
    """The mode with this number in heartbeats and SET_MODE, if we fly it."""
    if firmware == "ardupilot" and number == _ARDUPILOT_BRAKE:
        return Mode.HOLD
    known = _ARDUPILOT if firmware == "ardupilot" else _PX4
    return next((mode for mode in known if to_custom_mode(mode, firmware) == number), None)


def from_command(main: float, sub: float, firmware: Firmware) -> Mode | None:
    """The mode that the second and third parameter of MAV_CMD_DO_SET_MODE name, if we fly it."""
    if not (0 <= main < 256 and 0 <= sub < 256):
        return None
    if firmware == "ardupilot":
        return from_custom_mode(int(main), firmware)
    return from_custom_mode(int(main) << 16 | int(sub) << 24, firmware)
