"""What the autopilot reports of one state, by hand: signs, units and frames of every message with a place or motion."""

import math

import pytest

pytest.importorskip("pymavlink", reason='needs pymavlink: pip install "pvn-drone[mavlink]"')

from pymavlink.dialects.v20 import common as mavlink

from pvn.bridges.mavlink.autopilot import Autopilot
from pvn.bridges.mavlink.telemetry import TELEMETRY
from pvn.bridges.shared.frames import rotation_from_pitch
from pvn.bridges.shared.motions import VehicleState

METRES_PER_DEGREE = math.radians(6371000)
# 20 m north and 10 m east of the origin, 10 m above it; facing east, nose 0.2 up; flying north-east and climbing.
STATE = VehicleState(2.0, (35.0, 45.0, 10.1), (1.0, 2.0, 0.5), rotation_from_pitch(-0.2), (0.1, 0.2, 0.3))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("LOCAL_POSITION_NED", {"x": 20, "y": 10, "z": -10, "vx": 2, "vy": 1, "vz": -0.5, "time_boot_ms": 2000}),
        (
            "ATTITUDE",
            {"roll": 0, "pitch": 0.2, "yaw": math.pi / 2, "rollspeed": 0.1, "pitchspeed": -0.2, "yawspeed": -0.3},
        ),
        ("ODOMETRY", {"x": 20, "y": 10, "z": -10, "vx": 1, "vy": -2, "vz": -0.5, "yawspeed": -0.3}),
        (
            "GLOBAL_POSITION_INT",
            {
                "lat": round((47.397742 + 20 / METRES_PER_DEGREE) * 1e7),
                "lon": round((8.545594 + 10 / METRES_PER_DEGREE / math.cos(math.radians(47.397742))) * 1e7),
                "alt": 498_000, "relative_alt": 10_000, "vx": 200, "vy": 100, "vz": -50, "hdg": 9000,
            },
        ),
        ("GPS_RAW_INT", {"alt": 498_000, "vel": 224, "cog": 2657}),
        ("ALTITUDE", {"altitude_amsl": 498, "altitude_local": 10, "altitude_relative": 10}),
        ("VFR_HUD", {"groundspeed": math.hypot(1, 2), "heading": 90, "alt": 498, "climb": 0.5}),
        ("HOME_POSITION", {"x": 0, "y": 0, "z": 0, "altitude": 488_000}),
        ("SYS_STATUS", {"voltage_battery": 11_550, "battery_remaining": 50}),
        ("BATTERY_STATUS", {"battery_remaining": 50}),
    ],
)  # fmt: skip
def test_a_state_is_reported_in_its_frame_and_units(name, expected):
    autopilot = Autopilot(home=(25.0, 25.0, 0.1), battery=0.5)
    message = TELEMETRY[getattr(mavlink, f"MAVLINK_MSG_ID_{name}")].build(autopilot, STATE)
    assert {field: getattr(message, field) for field in expected} == pytest.approx(expected, abs=1e-6)
